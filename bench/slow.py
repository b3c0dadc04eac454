#!/usr/bin/env python3
"""How well fail-slow devices are found in fleets that the method was not tuned on; prints a table.

    bench/slow.py [--fleets 2] [--devices 1000] [--hosts-of 12] [VARIANT...]

The generator is another one than that of the tests: a queue with a service time by load, arrivals in on and off periods, hosts
with jobs of their own, sizes that shift, ages. Each variant changes one thing. 2 % of the devices are slow, by factors of
1.5 to 6 for 5 to 100 % of the time, in episodes or at single entries. Precision: of the named devices, how many were planted;
recall: of those planted with a factor of 2 and more, how many are named; `false`: named in a fleet without any.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/src"))

import numpy as np  # noqa: E402

from iolens import slow  # noqa: E402

SLOTS = slow.DAY_S // slow.ENTRY_S
START_S = 1_700_000_000 // slow.DAY_S * slow.DAY_S
Array = np.ndarray


class Fleet:
    """One variant: what is made, and what is done to it before it is judged."""

    def __init__(self, rng: np.random.Generator, devices: int, disks: int, planted: bool) -> None:
        self.rng, self.devices, self.disks, self.planted = rng, devices, disks, planted
        self.truth: dict[str, float] = {}

    # What variants change.
    spread = 0.06
    days = 1

    def tail(self, shape: tuple[int, int]) -> Array:
        """Factors of single entries."""
        return self.rng.gamma(25, 1 / 25, shape)

    def shape_load(self, load: Array) -> Array:
        """Bytes per second as the log has them."""
        return load

    def age(self, disks: int) -> Array:
        """Factors of healthy drives."""
        return self.rng.lognormal(0, self.spread, disks)

    def seen(self, entries: slow.Entries) -> slow.Entries:
        """What the log keeps."""
        return entries

    def hosts(self) -> list[slow.Entries]:
        """All of them; `truth` has the factors of the slow devices."""
        chosen = set(self.rng.choice(self.devices, self.devices // 50, replace=False)) if self.planted else set()
        found = []
        for first in range(0, self.devices, self.disks):
            disks = min(self.disks, self.devices - first)
            if disks >= slow.MIN_PEERS:
                found.append(self.seen(self.host(first, disks, {d - first for d in chosen if first <= d < first + disks})))
        return found

    def host(self, first: int, disks: int, chosen: set[int]) -> slow.Entries:
        """A closed queue: utilisation of a host's jobs in on and off periods, with bursts that one drive has alone."""
        rng, n = self.rng, SLOTS * self.days
        jobs = np.zeros(n)
        for _ in range(rng.integers(2, 6)):
            period, duty = int(rng.integers(40, 2000)), rng.uniform(0.2, 0.9)
            jobs += rng.uniform(0.05, 0.25) * (((np.arange(n) + rng.integers(0, period)) % period) < duty * period)
        share = rng.dirichlet(np.full(disks, 30)) * disks
        own = np.repeat(rng.gamma(2, 0.5, (disks, n // 60 + 1)), 60, axis=1)[:, :n]
        busy = np.clip(share[:, None] * jobs * own * rng.gamma(12, 1 / 12, (disks, n)), 0.001, 0.93)
        # Service time by load, as of a queue; each entry is a mean of a random number of I/Os.
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
    """Single entries of a Pareto with finite mean and hardly a variance."""

    def tail(self, shape: tuple[int, int]) -> Array:
        """The usual, and rare entries of many times that."""
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
    """Half of each host's drives are older: a fifth slower all the time, which is no failure."""

    def age(self, disks: int) -> Array:
        return super().age(disks) * np.where(self.rng.random(disks) < 0.5, 1.2, 1.0)


class Sizes(Fleet):
    """The same bytes in other sizes: the load of an entry says half as much about its latency."""

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
    args = parser.parse_args()
    print(f"{'variant':12} {'devices':>8} {'named':>6} {'precision':>9} {'recall':>6} {'false':>6}  missed (factor >= 2), named by mistake")
    for name in args.variants or VARIANTS:
        devices = named = right = strong = hit = false = 0
        remarks = []
        for fleet in range(args.fleets):
            rng = np.random.default_rng([args.seed, fleet, list(VARIANTS).index(name)])
            made = VARIANTS[name](rng, args.devices, args.hosts_of, True)
            verdicts = slow.judge(made.hosts())
            flagged = {v.device for v in verdicts if v.slow}
            expected = {d for d, factor in made.truth.items() if factor >= 2}
            devices += len(verdicts)
            named, right = named + len(flagged), right + len(flagged & set(made.truth))
            strong, hit = strong + len(expected), hit + len(flagged & expected)
            remarks += [f"{d} x{made.truth[d]:.1f}" for d in sorted(expected - flagged)] + [f"{d}!" for d in sorted(flagged - set(made.truth))]
            false += sum(v.slow for v in slow.judge(VARIANTS[name](rng, args.devices, args.hosts_of, False).hosts()))
        print(f"{name:12} {devices:8} {named:6} {right / max(named, 1):9.3f} {hit / max(strong, 1):6.3f} {false:6}  {', '.join(remarks[:8])}", flush=True)


if __name__ == "__main__":
    main()
