"""Queries over a lake, as SQL for both DuckDB and Spark."""

from __future__ import annotations

from .tables import bucket_low_sql

MINUTE_NS = 60 * 10**9
DAY_NS = 86_400 * 10**9

# An I/O through dm, md or a loop device is also counted on the disk below, so sums over devices include disks only.
DISKS = "coalesce(kind, 'unknown') <> 'bio' and coalesce(device, '') not like 'loop%'"

# Sums are calculated before devices get their names, because there are far fewer sums than rows. A host's newest recording
# is read by minutes, and the beginning of its last minute is when the host was last seen: that minute may not be over yet.
# An hour of an older recording also counts as its beginning, because the recording may have ended within it. A host of which
# no disk was recorded has recordings and times, but no sums.
HOSTS = f"""
with sums as (
    select host, start_ns, dev, min(at_ns) as first_ns, max(at_ns) as last_ns,
           sum(ios) as ios, sum(bytes) as bytes, sum(lost_ios) as lost_ios
    from raw_rollup_long where class = 'all' group by host, start_ns, dev),
named as (
    select s.host, s.start_ns, first_ns, last_ns, ios, bytes, lost_ios, coalesce(stable_id, device) as disk, {DISKS} as is_disk
    from sums s left join named_devices d on d.host = s.host and d.start_ns = s.start_ns and d.dev = s.dev)
select host, count(distinct start_ns) as recordings, min(start_ns + first_ns) as first_unix_ns,
       max(start_ns + last_ns) as last_unix_ns, count(distinct case when is_disk then disk end) as disks,
       cast(sum(case when is_disk then ios end) as bigint) as ios,
       cast(sum(case when is_disk then bytes end) as bigint) as bytes,
       cast(sum(case when is_disk then lost_ios end) as bigint) as lost_ios
from named group by host order by host"""

# The k-th largest minute of a day is the 99th percentile. Minutes without I/O have no row and sort last. A day has 1440.
P99_RANK_MAX = 15
_P99 = "coalesce(nth_largest({}, cast(n - ceil(0.99 * n) + 1 as int)), 0)"


def busy_days(largest: str) -> str:
    """The 99th percentiles of the minutes of each device and day; `largest` is the engine's list of the largest values of {}.

    Devices are numbers until the last step, because there are very many minutes. Sums below 2^53 are exact as doubles.
    """
    percent = f"100.0 * busy / {MINUTE_NS}"
    return f"""
with disks as (
    select host, start_ns, dev, device, stable_id, dense_rank() over (order by host, device, coalesce(stable_id, '')) as disk,
           dense_rank() over (order by host, device) as unit
    from named_devices where device is not null),
minutes as (
    select unit, disk, m.start_ns + at_ns - (m.start_ns + at_ns) % {MINUTE_NS} as minute,
           coalesce(sum(cast(busy_ns as double)), 0) as busy,
           sum(cast(ios as double)) as ios, sum(cast(bytes as double)) as bytes
    from raw_rollup_peaks m join disks d on d.host = m.host and d.start_ns = m.start_ns and d.dev = m.dev
    group by unit, disk, m.start_ns + at_ns - (m.start_ns + at_ns) % {MINUTE_NS}),
days as (
    select unit, minute - minute % {DAY_NS} as day_unix_ns, max(disk) as disk, min(minute) as first, max(minute) as last,
           {largest.format(percent)} as busy, {largest.format("ios / 60")} as ios, {largest.format("bytes / 60")} as bytes
    from minutes group by unit, minute - minute % {DAY_NS}),
names as (
    select disk, max(host) as host, max(device) as device, max(stable_id) as stable_id from disks group by disk),
named as (
    select n.host, n.device, n.stable_id, day_unix_ns, first, last, busy, ios, bytes
    from days d join names n on n.disk = d.disk),
observed as (
    select host, day_unix_ns, 1 + cast((max(last) - min(first)) as double) / {MINUTE_NS} as n
    from named group by host, day_unix_ns)
select d.host, device, stable_id, d.day_unix_ns, n as minutes, {_P99.format("busy")} as busy_p99_percent,
       {_P99.format("ios")} as ios_per_s_p99, {_P99.format("bytes")} as bytes_per_s_p99
from named d join observed o on o.host = d.host and o.day_unix_ns = d.day_unix_ns
order by d.host, device, d.day_unix_ns"""


def latency(by: str, part: str, q: float) -> str:
    """A quantile of the merged histograms: the middle of the bucket that contains it."""
    key = {"device": "host, device", "host": "host", "model": "model"}[by]
    disks = "" if by == "device" else f"and {DISKS}"
    return f"""
with counted as (
    select host, start_ns, dev, class, bucket, sum(ios) as ios from raw_buckets_long
    where part = '{part}' group by host, start_ns, dev, class, bucket),
named as (
    select c.host, device, model, kind, class, bucket, ios
    from counted c left join named_devices d on d.host = c.host and d.start_ns = c.start_ns and d.dev = c.dev),
merged as (
    select {key}, class, bucket, {bucket_low_sql("bucket")} as low_ns, sum(ios) as ios from named
    where true {disks} group by {key}, class, bucket),
running as (
    select *, sum(ios) over (partition by {key}, class order by bucket) as upto,
           sum(ios) over (partition by {key}, class) as n from merged)
select {key}, class, cast(max(n) as bigint) as ios,
       min(case when upto >= {q} * n then cast(low_ns + {bucket_low_sql("(bucket + 1)")} as double) end) / 2000.0 as quantile_us
from running group by {key}, class order by {key}, class"""
