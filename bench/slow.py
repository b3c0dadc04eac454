#!/usr/bin/env python3
"""Measures how well fail-slow devices are found in fleets that the method was not tuned on; prints a table.

    bench/slow.py [--fleets 2] [--devices 1000] [--hosts-of 12] [--histograms] [VARIANT...]

The generator differs from that of the tests: a queue with a service time by load, arrivals in on and off periods, hosts with
different jobs, shifting sizes, ageing. Each variant changes one property. 2 % of the devices are slow, by factors of 1.5 to 6
for 5 to 100 % of the time, in episodes or at single entries. Precision: the share of reported devices that are really slow.
Recall: the share of slow devices with a factor of at least 2 that are reported. `false`: devices reported in a fleet without
any slow ones.

With --histograms the entries have them, as rollups do: I/Os around the entry's latency, one in 200 of them far slower (a share
that differs by device and by five minutes). Then 2 % more are planted of which only 1 to 5 % of the I/Os are slow, by factors of 5
to 20 for 10, 30 or 100 % of the time (`tails`); `by means` is what the first score alone finds.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python/src"), str(ROOT / "python/tests")]

import numpy as np  # noqa: E402

from fleets import Tail, histograms  # noqa: E402

from iolens import slow, slow_tails  # noqa: E402

SLOTS = slow.DAY_S // slow.ENTRY_S
START_S = 1_700_000_000 // slow.DAY_S * slow.DAY_S
Array = np.ndarray
IO_BYTES = 10**6


class Fleet:
    """One variant: how the fleet is generated, and how its entries are changed before they are judged."""

    def __init__(self, rng: np.random.Generator, devices: int, disks: int, planted: bool) -> None:
        self.rng, self.devices, self.disks, self.planted = rng, devices, disks, planted
        self.truth: dict[str, float] = {}
        self.tails: dict[str, Tail] = {}

    # The properties that variants change.
    spread = 0.06
    days = 1

    def tail(self, shape: tuple[int, int]) -> Array:
        """Factors of single entries."""
        return self.rng.gamma(25, 1 / 25, shape)

    def shape_load(self, load: Array) -> Array:
        """Bytes per second as in the log."""
        return load

    def age(self, disks: int) -> Array:
        """Factors of healthy drives."""
        return self.rng.lognormal(0, self.spread, disks)

    def seen(self, entries: slow.Entries) -> slow.Entries:
        """The entries that the log keeps."""
        return entries

    def hosts(self) -> list[slow.Entries]:
        """All entries; `truth` has the factors of the slow devices."""
        chosen = set(self.rng.choice(self.devices, self.devices // 50, replace=False)) if self.planted else set()
        found = []
        for first in range(0, self.devices, self.disks):
            disks = min(self.disks, self.devices - first)
            if disks >= slow.MIN_PEERS:
                found.append(self.seen(self.host(first, disks, {d - first for d in chosen if first <= d < first + disks})))
        return found

    def with_histograms(self, seed: int) -> list[slow.Entries]:
        """The hosts of `hosts`, with histograms and tails."""
        whole: list[slow.Entries] = []
        seen = self.seen
        self.seen = lambda e: (whole.append(e), seen(e))[1]  # type: ignore[method-assign]
        kept = self.hosts()
        rng = np.random.default_rng([seed, 77])
        names = [n for e in whole for n in e.names if n not in self.truth]
        chosen = set(rng.choice(names, self.devices // 50, replace=False)) if self.planted else set()
        return [self._add(rng, e, k, chosen) for e, k in zip(whole, kept, strict=True)]

    def _add(self, rng: np.random.Generator, e: slow.Entries, kept: slow.Entries, chosen: set[str]) -> slow.Entries:
        disks = len(e.names)
        latency, load = e.latency.reshape(disks, -1), e.throughput.reshape(disks, -1)
        n = load.shape[1]
        # Some devices have more outliers than others, some five minutes more than others: a scrub triples them and more.
        blocks = rng.gamma(4, 1 / 4, (disks, n // 20)) * np.where(rng.random((disks, n // 20)) < 0.03, rng.uniform(2, 6, (disks, n // 20)), 1)
        outliers = 0.005 * rng.lognormal(0, 0.4, disks)[:, None] * np.repeat(blocks, 20, axis=1)
        tails = {}
        mean = np.ones(latency.shape)
        for device, name in enumerate(e.names):
            if name in chosen:
                slots = self.moments_of(rng, n, float(rng.choice([0.1, 0.3, 1.0])))
                tails[device] = self.tails[name] = Tail(float(rng.choice([0.01, 0.02, 0.05])), float(rng.uniform(5, 20)), slots)
                mean[device] += tails[device].share * (tails[device].factor - 1) * slots
        # An entry that the log lost has lost its I/Os; jitter moves no entry into another slot.
        row = kept.device * n + (kept.time_s - START_S) // slow.ENTRY_S
        found = histograms(rng, latency, load * slow.ENTRY_S / IO_BYTES, np.minimum(outliers, 0.5), tails)
        index = np.full(disks * n, -1)
        index[row] = np.arange(len(row))
        entry = index[found.entry]
        some = entry >= 0
        buckets = slow_tails.Buckets(entry[some], found.bucket[some], found.ios[some])
        return replace(kept, latency=kept.latency * mean.ravel()[row], histograms=buckets)

    @staticmethod
    def moments_of(rng: np.random.Generator, n: int, share: float) -> Array:
        """Periods of 15 to 100 minutes."""
        slots = np.full(n, share >= 1)
        while slots.mean() < share:
            begin = rng.integers(0, n)
            slots[begin : begin + rng.integers(60, 400)] = True
        return slots

    def host(self, first: int, disks: int, chosen: set[int]) -> slow.Entries:
        """A closed queue: utilisation of a host's jobs in on and off periods, with bursts on a single drive."""
        rng, n = self.rng, SLOTS * self.days
        jobs = np.zeros(n)
        for _ in range(rng.integers(2, 6)):
            period, duty = int(rng.integers(40, 2000)), rng.uniform(0.2, 0.9)
            jobs += rng.uniform(0.05, 0.25) * (((np.arange(n) + rng.integers(0, period)) % period) < duty * period)
        share = rng.dirichlet(np.full(disks, 30)) * disks
        own = np.repeat(rng.gamma(2, 0.5, (disks, n // 60 + 1)), 60, axis=1)[:, :n]
        busy = np.clip(share[:, None] * jobs * own * rng.gamma(12, 1 / 12, (disks, n)), 0.001, 0.93)
        # Service time by load, as in a queue. Each entry is a mean over a random number of I/Os.
        latency = 4.0 * self.age(disks)[:, None] / (1 - busy) ** 0.7 * self.tail((disks, n))
        for i in sorted(chosen):
            factor = float(rng.uniform(1.5, 6))
            latency[i, self.moments(n)] *= factor
            self.truth[f"disk{first + i}"] = factor
        at = START_S + slow.ENTRY_S * np.arange(n)
        load = self.shape_load(busy * 180e6)
        names = [f"disk{first + i}" for i in range(disks)]
        return slow.Entries(f"n{first}", names, np.tile(at, disks), np.repeat(np.arange(disks), n), load.ravel(), latency.ravel())

    def moments(self, n: int) -> Array:
        """When a slow device is slow."""
        share = self.rng.choice([0.05, 0.1, 0.3, 0.6, 1.0])
        if share == 1.0:
            return np.ones(n, dtype=bool)
        if self.rng.random() < 0.3:
            return self.rng.random(n) < share
        slow_now = np.zeros(n, dtype=bool)
        while slow_now.mean() < share:
            begin, length = self.rng.integers(0, n), int(min(self.rng.geometric(1 / 90), 1 + (share - slow_now.mean()) * n))
            slow_now[begin : begin + length] = True
        return slow_now


class HeavyTails(Fleet):
    """Single entries from a Pareto distribution with finite mean and almost infinite variance."""

    def tail(self, shape: tuple[int, int]) -> Array:
        """The usual values, and rare entries of many times that."""
        return super().tail(shape) + 0.05 * self.rng.pareto(1.8, shape)


class Rounded(Fleet):
    """Whole milliseconds, and load in whole megabytes."""

    def seen(self, e: slow.Entries) -> slow.Entries:
        return slow.Entries(e.host, e.names, e.time_s, e.device, np.round(e.throughput / 1e6), np.maximum(np.round(e.latency), 1))


class Missing(Fleet):
    """A third of the time is missing: hours of the host, stretches of drives, single entries; times are not aligned."""

    def seen(self, e: slow.Entries) -> slow.Entries:
        kept = self.rng.random(len(e.time_s)) > 0.1
        hour = (e.time_s - START_S) // 3600
        kept &= ~np.isin(hour, self.rng.choice(24, 4, replace=False))
        for i in range(len(e.names)):
            begin = START_S + self.rng.integers(0, slow.DAY_S)
            kept &= ~((e.device == i) & (e.time_s >= begin) & (e.time_s < begin + self.rng.integers(0, 3 * 3600)))
        jitter = self.rng.integers(0, 15, len(e.time_s))
        return slow.Entries(e.host, e.names, (e.time_s + jitter)[kept], e.device[kept], e.throughput[kept], e.latency[kept])


class Ages(Fleet):
    """Half of each host's drives are older: always a fifth slower, which is not a failure."""

    def age(self, disks: int) -> Array:
        return super().age(disks) * np.where(self.rng.random(disks) < 0.5, 1.2, 1.0)


class Sizes(Fleet):
    """The same bytes in other sizes: the load of an entry explains only half as much of its latency."""

    def shape_load(self, load: Array) -> Array:
        return load * np.repeat(self.rng.lognormal(0, 0.5, (len(load), load.shape[1] // 30 + 1)), 30, axis=1)[:, : load.shape[1]]


class FewDrives(Fleet):
    """Hosts with four drives."""

    def __init__(self, rng: np.random.Generator, devices: int, disks: int, planted: bool) -> None:
        super().__init__(rng, devices // 4 * 4, 4, planted)


class Week(Fleet):
    """Seven days of a seventh of the fleet."""

    days = 7

    def __init__(self, rng: np.random.Generator, devices: int, disks: int, planted: bool) -> None:
        super().__init__(rng, devices // 7, disks, planted)


VARIANTS = {c.__name__: c for c in (Fleet, HeavyTails, Rounded, Missing, Ages, Sizes, FewDrives, Week)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", choices=[[], *VARIANTS], metavar="VARIANT", help=", ".join(VARIANTS))
    parser.add_argument("--fleets", type=int, default=2)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--hosts-of", type=int, default=12)
    parser.add_argument("--seed", type=int, default=977)
    parser.add_argument("--histograms", action="store_true")
    args = parser.parse_args()
    more = "  tails by means, both" if args.histograms else ""
    by_means = "  by means" if args.histograms else ""
    print(f"{'variant':12} {'devices':>8} {'named':>6} {'precision':>9} {'recall':>6}{by_means} {'false':>6}{more}  missed (factor >= 2), named by mistake")
    for name in args.variants or VARIANTS:
        t = Tally()
        for fleet in range(args.fleets):
            seed = [args.seed, fleet, list(VARIANTS).index(name)]
            rng = np.random.default_rng(seed)
            for planted in (True, False):
                made = VARIANTS[name](rng, args.devices, args.hosts_of, planted)
                t.add(made, slow.judge(made.with_histograms(fleet) if args.histograms else made.hosts()))
        print(t.line(name, args.histograms), flush=True)


class Tally:
    """The results for the fleets of a variant."""

    def __init__(self) -> None:
        self.devices = self.named = self.right = self.strong = self.hit = self.hit_by_means = self.false = 0
        self.tails = self.tails_hit = self.tails_by_means = 0
        self.remarks: list[str] = []

    def add(self, made: Fleet, verdicts: list[slow.Verdict]) -> None:
        """A fleet; `false` is of those without slow devices."""
        flagged = {v.device for v in verdicts if v.slow}
        by_means = {v.device for v in verdicts if v.slow and "mean" in (v.found_by or "mean")}
        if not made.planted:
            self.false += len(flagged)
            self.remarks += [f"{d}!!" for d in sorted(flagged)]
            return
        right = set(made.truth) | set(made.tails)
        expected = {d for d, factor in made.truth.items() if factor >= 2}
        self.devices += len(verdicts)
        self.named, self.right = self.named + len(flagged), self.right + len(flagged & right)
        self.strong, self.hit = self.strong + len(expected), self.hit + len(flagged & expected)
        self.hit_by_means += len(by_means & expected)
        self.tails, self.tails_hit = self.tails + len(made.tails), self.tails_hit + len(flagged & set(made.tails))
        self.tails_by_means += len(by_means & set(made.tails))
        self.remarks += [f"{d} x{made.truth[d]:.1f}" for d in sorted(expected - flagged)] + [f"{d}!" for d in sorted(flagged - right)]

    def line(self, name: str, histograms: bool) -> str:
        """A row of the table."""
        strong, tails = max(self.strong, 1), max(self.tails, 1)
        by_means = f" {self.hit_by_means / strong:9.3f}" if histograms else ""
        more = f"  {self.tails_by_means / tails:14.3f} {self.tails_hit / tails:5.3f}" if histograms else ""
        start = f"{name:12} {self.devices:8} {self.named:6} {self.right / max(self.named, 1):9.3f} {self.hit / strong:6.3f}"
        return f"{start}{by_means} {self.false:6}{more}  {', '.join(self.remarks[:8])}"


if __name__ == "__main__":
    main()
