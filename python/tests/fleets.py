"""Fleets with planted slow devices, so that the correct result is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from iolens import slow_tails
from iolens.slow import DAY_S, ENTRY_S, Entries

Array = np.ndarray

SLOTS = DAY_S // ENTRY_S
START_S = 1_795_046_400 // DAY_S * DAY_S


@dataclass(frozen=True)
class Planted:
    """A slow device: latency times `factor` for `share` of the time, in episodes of minutes or at scattered entries."""

    factor: float
    share: float
    scattered: bool = False


def make_host(host: str, disks: int, rng: np.random.Generator, planted: dict[int, Planted], days: int = 1) -> Entries:
    """A host: loads by day and by drive, latency that grows with load, drives that differ, bursts, host-wide incidents."""
    n = SLOTS * days
    at = START_S + ENTRY_S * np.arange(n)
    daily = 1 + 0.6 * np.sin(2 * np.pi * at / DAY_S + rng.uniform(0, 6))
    noise = np.repeat(rng.lognormal(0, 0.5, (disks, n // 40 + 1)), 40, axis=1)[:, :n]
    load = rng.lognormal(3, 0.4, (disks, 1)) * daily * noise * rng.lognormal(0, 0.3, (disks, n))
    load *= rng.random((disks, n)) > 0.02
    busy = load / (load + 120)
    # Drives of one model differ by some 7 %; single entries vary by a fifth, and one in a hundred is an outlier.
    latency = 0.2 * rng.lognormal(0, 0.07, (disks, 1)) * (1 + 2 * busy + 3 * busy**3) * rng.lognormal(0, 0.2, (disks, n))
    latency *= np.where(rng.random((disks, n)) < 0.01, rng.lognormal(1.2, 0.5, (disks, n)), 1)
    if rng.random() < 0.3:
        begin = rng.integers(0, n - 400)
        latency[:, begin : begin + rng.integers(40, 400)] *= rng.uniform(1.5, 4)
    for disk, p in planted.items():
        latency[disk, _slow_entries(p, n, rng)] *= p.factor
    names = [f"{host}-d{i}" for i in range(disks)]
    device = np.repeat(np.arange(disks), n)
    return Entries(host, names, np.tile(at, disks), device, load.ravel(), latency.ravel())


def _slow_entries(p: Planted, n: int, rng: np.random.Generator) -> np.ndarray:
    if p.share >= 1:
        return np.ones(n, dtype=bool)
    if p.scattered:
        return rng.random(n) < p.share
    slow = np.zeros(n, dtype=bool)
    while slow.mean() < p.share:
        begin, length = rng.integers(0, n), rng.integers(40, 160)
        slow[begin : begin + min(length, math.ceil((p.share - slow.mean()) * n))] = True
    return slow


def plant(devices: int, slow: int, rng: np.random.Generator) -> dict[int, Planted]:
    """Slow devices with factors 1.3 to 5, steady down to 5 % of the time."""
    factors = np.exp(np.linspace(math.log(1.3), math.log(5), slow))
    shares = np.array([1.0, 0.5, 0.2, 0.1, 0.05])
    chosen = rng.choice(devices, slow, replace=False)
    return {
        int(d): Planted(float(f), float(shares[i % 5]), bool(i % 3 == 2))
        for i, (d, f) in enumerate(zip(chosen, rng.permutation(factors), strict=True))
    }


def make_fleet(devices: int, slow: int, seed: int, disks: int = 12) -> tuple[list[Entries], dict[str, Planted]]:
    """A fleet of one day; the names of its slow devices with their planted properties."""
    rng = np.random.default_rng(seed)
    planted = plant(devices, slow, rng)
    hosts, truth = [], {}
    for first in range(0, devices, disks):
        here = {d - first: p for d, p in planted.items() if first <= d < first + disks}
        host = f"host{first // disks:03}"
        hosts.append(make_host(host, min(disks, devices - first), rng, here))
        truth.update({f"{host}-d{i}": p for i, p in here.items()})
    return hosts, truth


# Logarithms of durations in nanoseconds: the range of a device's levels.
LEVELS = np.log(2) * np.arange(16 * 32, 37 * 32) / 32


@dataclass(frozen=True)
class Tail:
    """A device of which a share of the I/Os takes longer by a factor, in the marked slots."""

    share: float
    factor: float
    slots: Array


@cache
def shape(factor: float, sigma: float) -> Array:
    """For each level, the share of its I/Os in each bucket: lognormal, and slower by the factor."""
    at = (slow_tails.edges()[None, 1:-1] - LEVELS[:, None] - math.log(factor)) / sigma
    x = np.linspace(-8, 8, 3201)
    upto = np.interp(at, x, [0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x], left=0, right=1)
    return np.diff(np.pad(upto, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1))), axis=1).astype(np.float32)


def histograms(
    rng: np.random.Generator, level: Array, ios: Array, outliers: Array, tails: dict[int, Tail]
) -> slow_tails.Buckets:
    """Latencies of entries by device and slot; `level` is in milliseconds."""
    rows = []
    for device, levels in enumerate(level):
        index = np.clip(np.round((np.log(levels * 1e6) - LEVELS[0]) / (LEVELS[1] - LEVELS[0])), 0, len(LEVELS) - 1).astype(int)
        some = outliers[device][:, None]
        share = shape(1, 0.5)[index] * (1 - some) + shape(6, 0.8)[index] * some
        if device in tails:
            tail = tails[device]
            slowed = (tail.share * tail.slots)[:, None]
            share = share * (1 - slowed) + shape(round(tail.factor), 0.5)[index] * slowed
        expected = share * ios[device][:, None]
        # If fewer than about one in 10,000 such buckets would have an I/O, none is drawn; that is most of them.
        slot, bucket = np.nonzero(expected > 1e-4)
        counts = rng.poisson(expected[slot, bucket])
        drawn = counts > 0
        rows.append((slot[drawn] + device * level.shape[1], bucket[drawn], counts[drawn]))
    return slow_tails.Buckets(*(np.concatenate(column).astype(np.int32) for column in zip(*rows, strict=True)))


def with_histograms(e: Entries, rng: np.random.Generator, tails: dict[int, Tail]) -> Entries:
    """The entries with histograms around their latencies, 40 I/Os per unit of load; means are those of the I/Os with tails.

    Of healthy devices' I/Os one in 200 is six times slower; some devices have a few more.
    """
    disks = len(e.names)
    latency, load = e.latency.reshape(disks, -1), e.throughput.reshape(disks, -1)
    outliers = np.repeat(0.005 * rng.lognormal(0, 0.3, (disks, 1)), load.shape[1], axis=1)
    found = histograms(rng, latency, 40 * load, outliers, tails)
    mean = np.ones(latency.shape)
    for device, tail in tails.items():
        mean[device] += tail.share * (tail.factor - 1) * tail.slots
    return Entries(e.host, e.names, e.time_s, e.device, e.throughput, (latency * mean).ravel(), found)
