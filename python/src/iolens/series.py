"""SQL of the analyses over single I/Os: time series, busy time, percentiles, heat map (A2, A3, A5, A6).

All of them read the view `chosen` that `Recording` creates: the I/Os of the window, with `start_ns` and `total_ns`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tables import bucket_low_sql, bucket_of_sql

# A zoom has no finer step. More rows indicate a mistake in the query.
MIN_STEP_NS = 1_000_000
MAX_ROWS = 10_000_000

GROUPS = ("all", "device", "process", "cgroup", "file")


def chosen_sql(columns: str, from_ns: int, to_ns: int, end_ns: int, label: str, where: str) -> str:
    """The I/Os of a window, each with its `label`.

    I/Os that complete at the recording's last instant, which a half-open window excludes, count in the nanosecond before.
    """
    done = f"case when done_ns = {end_ns} and {to_ns} = {end_ns} then done_ns - 1 else done_ns end"
    return f"""
with moved as (select * replace ({done} as done_ns) from ios)
select {columns}, {label} as label, device_ns + coalesce(queue_ns, 0) as total_ns,
       done_ns - device_ns - coalesce(queue_ns, 0) as start_ns,
       done_ns >= {from_ns} and done_ns < {to_ns} as completed
from moved
where done_ns >= {from_ns} and done_ns - device_ns - coalesce(queue_ns, 0) < {to_ns} and {where}"""


@dataclass(frozen=True)
class Window:
    """A window of time, and the number of labels with I/Os in it. Each label has a number `lane` in the table `lanes`.

    Its SQL reads the table `placed`, the I/Os with their lanes.

    A time and a label are encoded in one integer, `lane * stride` plus the time since the window's start. So I/Os of all labels
    are sorted by one number, which costs a fraction of a sort by label and time, and no I/O extends into the next lane.
    """

    from_ns: int
    to_ns: int
    lanes: int = 1

    @property
    def stride(self) -> int:
        """An end at the window's end is before the next lane."""
        return self.to_ns - self.from_ns + 1

    def spans_sql(self, start: str = "start_ns", where: str = "true", lane: str = "lane") -> str:
        """Start `s` and end `e`, encoded like this, of the I/Os in the window; both are limited to it."""
        # Each I/O has at most two lanes, by class, and one bit that distinguishes start and end.
        integer = "bigint" if 4 * (self.lanes + 1) * self.stride < 1 << 63 else "hugeint"
        begin, end = f"greatest({start}, {self.from_ns})", f"least(done_ns, {self.to_ns})"
        at = f"({lane})::{integer} * {self.stride} - {self.from_ns}"
        return f"select {at} + {begin} as s, {at} + {end} as e from placed where {where} and {begin} < {end}"

    def levels_sql(self) -> str:
        """Intervals `[since, until)` of each lane with the number in flight `n`, above 0, in nanoseconds of the window."""
        # An end is an even number and a start is odd, so ends sort before starts of the same time.
        return f"""
spans as ({self.spans_sql()}),
steps as (select 2 * s + 1 as step from spans union all select 2 * e from spans),
running as (
    select step // 2 as place, lead(step // 2) over by_step as next,
           sum(2 * (step % 2) - 1) over (order by step rows unbounded preceding)::bigint as n
    from steps window by_step as (order by step)),
levels as (
    select place // {self.stride} as lane, place % {self.stride} as since, place % {self.stride} + next - place as until, n
    from running where n > 0 and place < next)"""

    def busy_sql(self, start: str = "start_ns", where: str = "true", lane: str = "lane") -> str:
        """Time `ns` with any I/O in flight, by lane.

        With starts and ends sorted separately, all I/Os that started before the i-th start have ended at the (i-1)th end. If
        the i-th start is later, a busy period has ended and the next one begins. Sentinels align the two.
        """
        never = 4 * (self.lanes + 1) * self.stride
        return f"""(
with spans as ({self.spans_sql(start, where, lane)}),
pairs as (
    select * from (select s from (select s from spans union all select {never}) order by s)
    positional join (select e from (select e from spans union all select -1) order by e)),
idle as (select s, e from pairs where s > e),
bounds as (
    select s as place, -1 as sign from idle where s < {never}
    union all select e, 1 from idle where e >= 0)
select place // {self.stride} as lane, sum(sign * (place % {self.stride}))::bigint as ns from bounds group by lane)"""


def _flow(letter: str, extended: bool) -> str:
    name = {"r": "read", "w": "write"}[letter]
    # Percentiles keep all values in memory, so they are calculated only if they are shown.
    more = f""", max(total_ns) filter (class = '{name}') as {letter}_max,
    quantile_disc(total_ns, 0.99) filter (class = '{name}') as {letter}_p99"""
    return f"""
    count(*) filter (class = '{name}') as {letter}_ios, sum(bytes) filter (class = '{name}') as {letter}_bytes,
    sum(total_ns) filter (class = '{name}') as {letter}_ns{more if extended else ""}"""


def _columns(letter: str) -> str:
    known = f"not removed or coalesce({letter}_ios, 0) > 0"
    return f"""
    case when {known} then coalesce({letter}_ios, 0) / seconds end as {letter}_per_s,
    case when {known} then coalesce({letter}_bytes, 0) / 1024.0 / seconds end as {letter}_kib_per_s,
    {letter}_ns / 1e3 / {letter}_ios as {letter}_us"""


_EXTENDED = """,
    r_p99 / 1e3 as r_p99_us, w_p99 / 1e3 as w_p99_us, r_max / 1e3 as r_max_us, w_max / 1e3 as w_max_us,
    case when not removed or ios > 0 then coalesce(area, 0)::double / (to_ns - from_ns) end as inflight_mean,
    case when not removed or ios > 0 then coalesce(most, 0) end as inflight_max,
    case when not removed or ios > 0 then 100.0 * coalesce(busy, 0) / (to_ns - from_ns) end as busy_percent"""


def series_sql(window: Window, step_ns: int, by: str, extended: bool) -> str:
    """The columns of `iolens zoom`, a row for each slot, including empty ones. Reads `chosen`, `always` and `missing`."""
    from_ns, to_ns = window.from_ns, window.to_ns
    group = "" if by == "all" else f"label as {by}, "
    of_device = "and (m.label is null or m.label = r.label)" if by == "device" else ""
    seen = "r.ios" if by == "device" else "sum(r.ios) over (partition by slot)"
    # Idle groups have no row, except devices, which are known. A slot without any group has one row without a name.
    no_actor = (
        "select slot, null as label from slots where slot not in (select slot from rows_with_group)"
        if by not in ("all", "device")
        else "select slot, label from slots, always"
    )
    meets = "least(t.to_ns, m.end_ns) - greatest(t.from_ns, m.from_ns)"
    flights = f"""{window.levels_sql()},
cuts as (
    select lane, since, until, n, unnest(range(since // {step_ns}, (until - 1) // {step_ns} + 1)) as slot from levels),
lengths as (select lane, slot, n, least(until, (slot + 1) * {step_ns}) - greatest(since, slot * {step_ns}) as length from cuts),
by_lane as (select slot, lane, sum(n * length) as area, sum(length) as busy, max(n) as most from lengths group by slot, lane),
flights as (select slot, label, area, busy, most from by_lane join lanes using (lane)),"""
    return f"""
with {flights if extended else ""}
slots as (select unnest(range(0, ({to_ns} - {from_ns} + {step_ns} - 1) // {step_ns})) as slot),
flows as (
    select (done_ns - {from_ns}) // {step_ns} as slot, label, count(*) as ios, {_flow("r", extended)}, {_flow("w", extended)}
    from chosen where completed group by slot, label),
rows_with_group as (
    select slot, label from flows {"union select slot, label from flights" if extended else ""}),
wanted as (select slot, label from rows_with_group union {no_actor}),
times as (select slot, {from_ns} + slot * {step_ns} as from_ns,
                 least({from_ns} + (slot + 1) * {step_ns}, {to_ns}) as to_ns from slots),
filled as (
    select w.slot, w.label, f.* exclude (slot, label, ios), coalesce(f.ios, 0) as ios{", area, busy, most" if extended else ""}
    from wanted w left join flows f on f.slot = w.slot and f.label is not distinct from w.label
    {"left join flights l on l.slot = w.slot and l.label is not distinct from w.label" if extended else ""}),
losses as (
    select t.slot, m.label, m.ios * ({meets}) / (m.end_ns - m.from_ns)::double as expected,
           m.reason = 'retention' and m.from_ns <= t.from_ns and m.to_ns >= t.to_ns as removed
    from times t join missing m on t.from_ns < m.end_ns and m.from_ns < t.to_ns),
marked as (
    select r.*, {seen} as seen,
           (select sum(expected) from losses m where m.slot = r.slot {of_device}) as expected,
           coalesce((select bool_or(removed) from losses m where m.slot = r.slot), false) as removed
    from filled r)
select (to_ns / 1e9) as time_s, {group}{_columns("r")}, {_columns("w")}{_EXTENDED if extended else ""},
       coalesce(expected > 0.01 * greatest(seen, 1), false) as lossy
from (select *, (to_ns - from_ns) / 1e9 as seconds from marked join times using (slot))
order by slot, label"""


def percentiles_sql(label: str) -> str:
    """Latencies by label and class: nearest rank, in microseconds."""
    quantiles = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
    ranks = ", ".join(f"ranks[{i}] / 1e3 as {name}_us" for i, name in enumerate(quantiles, 1))
    return f"""
select {label}, class, ios, bytes, merges, errors, mean_us, {ranks}, max_us, queue_mean_us, device_mean_us from (
select label as {label}, class, count(*) as ios, sum(bytes)::bigint as bytes, sum(merges)::bigint as merges,
       count(*) filter (error <> 0) as errors, sum(total_ns)::double / count(*) / 1e3 as mean_us,
       quantile_disc(total_ns, {list(quantiles.values())}) as ranks,
       max(total_ns) / 1e3 as max_us, sum(queue_ns)::double / count(queue_ns) / 1e3 as queue_mean_us,
       sum(device_ns)::double / count(*) / 1e3 as device_mean_us
from chosen where completed group by label, class) order by {label}, class"""


def busy_sql(window: Window, only_data: bool) -> str:
    """Exact busy time and concurrency by device. Reads `placed`, `always` and `lanes`.

    `only_data`: all I/Os are reads and writes.
    """
    length = window.to_ns - window.from_ns
    data = "class in ('read', 'write')"
    by_class = window.busy_sql(where=data, lane="2 * lane + (class = 'write')::int")
    # Without other classes these are all I/Os, whose numbers in flight are already known, which saves a sort.
    either = "select label, ns from levelled" if only_data else f"from {window.busy_sql(where=data)} join lanes using (lane)"
    of_quantile = ", ".join(
        f"coalesce(min(n) filter (upto >= {q} * {length}), 0) as in_flight_{name}"
        for name, q in (("p50", 0.5), ("p75", 0.75), ("p99", 0.99))
    )
    return f"""
with {window.levels_sql()},
by_lane as (select lane, n, sum(until - since)::bigint as ns from levels group by lane, n),
at_level as (select label, n, ns from by_lane join lanes using (lane)),
idle as (select label, 0 as n, ({length} - coalesce((select sum(ns) from at_level l where l.label = a.label), 0))::bigint as ns
         from always a),
counted as (select *, sum(ns) over (partition by label order by n) as upto
            from (select * from at_level union all by name select * from idle where ns > 0)),
levelled as (
    select label, coalesce(sum(ns) filter (n > 0), 0) as ns, sum(n * ns)::double / {length} as mean, {of_quantile},
           max(n) as most from counted where ns > 0 group by label),
classes as (from {by_class}),
reads as (select label, ns from classes c join lanes l on c.lane = 2 * l.lane),
writes as (select label, ns from classes c join lanes l on c.lane = 2 * l.lane + 1),
either as ({either}),
driver as (from {window.busy_sql("done_ns - device_ns")} join lanes using (lane))
select d.label as device, 100.0 * d.ns / {length} as busy_percent, 100.0 * coalesce(r.ns, 0) / {length} as busy_read_percent,
       100.0 * coalesce(w.ns, 0) / {length} as busy_write_percent,
       100.0 * (coalesce(r.ns, 0) + coalesce(w.ns, 0) - coalesce(b.ns, 0)) / {length} as busy_both_percent,
       100.0 * coalesce(v.ns, 0) / {length} as busy_device_percent, d.mean as in_flight_mean, in_flight_p50, in_flight_p75,
       in_flight_p99, d.most as in_flight_max
from levelled d left join reads r using (label) left join writes w using (label) left join either b using (label)
left join driver v using (label) order by d.label"""


def heatmap_sql(from_ns: int, to_ns: int, step_ns: int, part: str, per_octave: int) -> str:
    """Completions per slot and range of durations. Reads `chosen`; empty cells have no row."""
    duration = {"total": "total_ns", "queue": "queue_ns", "device": "device_ns"}[part]
    low = f"bucket - bucket % {16 // per_octave}"
    next_low = bucket_low_sql(f"(bucket + {16 // per_octave})")
    return f"""
with cells as (
    select (done_ns - {from_ns}) // {step_ns} as slot, {bucket_of_sql(duration)} as fine, class
    from chosen where completed and {duration} is not null),
coarse as (select slot, class, fine as bucket from cells),
named as (select slot, class, {low} as bucket, count(*) as ios from coarse group by all)
select least({from_ns} + (slot + 1) * {step_ns}, {to_ns}) / 1e9 as time_s, class,
       {bucket_low_sql("bucket")} / 1e3 as low_us, {next_low} / 1e3 as high_us, ios
from named order by slot, class, low_us"""
