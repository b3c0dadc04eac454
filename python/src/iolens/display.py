"""The display in a notebook: throughput and latencies over time of a recording, the hosts of a lake."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lake import Lake
    from .recording import Recording

_WIDTH, _HEIGHT = 720, 120
_SLOTS = 240
_COLOURS = {"read": "#2a78b5", "write": "#c8553d"}


def recording_html(recording: Recording) -> str:
    """Self-contained HTML: no script, no external request."""
    meta = recording.meta
    parts = [
        f"<p><b>{escape(recording.path.name)}</b>: {escape(meta.host or 'unknown host')}, "
        f"{recording.duration_s:.3f} s, source {escape(meta.source)}</p>"
    ]
    if not recording.ios.limit(1).fetchall():
        return parts[0] + _rates_html(recording)
    step_s = max(recording.duration_s / _SLOTS, 0.001)
    rows = recording.series(step_s).project("time_s, r_kib_per_s, w_kib_per_s").fetchall()
    parts.append(_svg(rows, recording.duration_s))
    parts.append(_heat_svg(recording, step_s))
    columns = ["device", "class", "ios", "mean_us", "p50_us", "p99_us", "max_us", "queue_mean_us", "device_mean_us"]
    parts.append(_table(columns, recording.percentiles().project(", ".join(columns)).fetchall()))
    return "".join(parts)


def _rates_html(recording: Recording) -> str:
    """Throughput and the devices' means of an imported table, which has no single I/Os."""
    kib = ", ".join(f"sum(bytes_per_s) filter (class = '{name}') / 1024.0" for name in _COLOURS)
    # The table's sums over devices would count bytes twice.
    sums = [device.dev for device in recording.devices if device.is_sum]
    known = recording.rates.filter(f"dev not in ({', '.join(map(str, sums))})") if sums else recording.rates
    rows = known.aggregate(f"to_ns / 1e9 as time_s, {kib}", "to_ns").order("time_s").fetchall()
    if not rows:
        return "<p>No single I/Os.</p>"
    names = {device.dev: device.name for device in recording.devices}
    means = "dev, class, avg(ios_per_s), avg(bytes_per_s) / 1024.0, avg(mean_us), max(mean_us)"
    found = recording.rates.aggregate(means, "dev, class").order("dev, class").fetchall()
    columns = ["device", "class", "ios_per_s", "kib_per_s", "mean_us", "max_mean_us"]
    return _svg(rows, recording.duration_s) + _table(columns, [(names.get(dev, dev), *row) for dev, *row in found])


def _svg(rows: list[Any], duration_s: float) -> str:
    most = max((v or 0 for row in rows for v in row[1:]), default=0) or 1
    lines = []
    for at, (name, colour) in enumerate(_COLOURS.items(), start=1):
        points = " ".join(
            f"{_WIDTH * row[0] / duration_s:.1f},{_HEIGHT - (_HEIGHT - 4) * (row[at] or 0) / most:.1f}" for row in rows
        )
        lines.append(f'<polyline fill="none" stroke="{colour}" points="{points}"><title>{name}</title></polyline>')
    return (
        f'<svg role="img" aria-label="throughput over time" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}">'
        f"{''.join(lines)}</svg>"
        f'<p>0 to {most / 1024:.1f} MiB/s: <span style="color:{_COLOURS["read"]}">read</span>, '
        f'<span style="color:{_COLOURS["write"]}">write</span></p>'
    )


def _heat_svg(recording: Recording, step_s: float) -> str:
    """Latencies over time: a rectangle for each cell with I/Os; the more I/Os, the darker."""
    cells = (
        recording.heatmap(step_s, per_octave=1)
        .aggregate("time_s, low_us, high_us, sum(ios)", "time_s, low_us, high_us")
        .fetchall()
    )
    # The range of the shortest durations begins at 0, which has no logarithm.
    lowest_us = max(min(cell[1] for cell in cells), 1.0)
    highest_us = max(max(cell[2] for cell in cells), 2 * lowest_us)
    octaves = math.log2(highest_us / lowest_us)

    def height(us: float) -> float:
        return _HEIGHT * (1 - math.log2(max(us, lowest_us) / lowest_us) / octaves)

    most = max(cell[3] for cell in cells)
    width = _WIDTH * step_s / recording.duration_s
    rectangles = []
    for at, low, high, ios in cells:
        opacity = 0.15 + 0.85 * math.log1p(ios) / math.log1p(most)
        rectangles.append(
            f'<rect x="{max(_WIDTH * at / recording.duration_s - width, 0):.1f}" y="{height(high):.1f}" width="{width:.1f}" '
            f'height="{height(low) - height(high):.1f}" fill-opacity="{opacity:.2f}"/>'
        )
    return (
        f'<svg role="img" aria-label="latencies over time" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" fill="#5b3f8c">'
        f"{''.join(rectangles)}</svg>"
        f"<p>Start to completion, {lowest_us:.3g} us (bottom) to {highest_us:.3g} us, up to {most} I/Os in a cell</p>"
    )


# The maximum number of hosts that a notebook shows.
_HOSTS = 20


def lake_html(lake: Lake) -> str:
    """The hosts of a lake and its relations, from directory names only: no file is opened."""
    of_host: dict[str, list[int]] = {}
    for host, start_ns, _ in lake.files.recordings:
        of_host.setdefault(host, []).append(start_ns)
    rows = [(host, len(starts), _utc(min(starts)), _utc(max(starts))) for host, starts in sorted(of_host.items())]
    more = f"<p>and {len(rows) - _HOSTS} hosts more</p>" if len(rows) > _HOSTS else ""
    relations = ", ".join(f"<code>{escape(name)}</code>" for name in lake.relations)
    return (
        f"<p><b>{escape(lake.root)}</b>: {len(rows)} hosts, {len(lake.files.recordings)} recordings</p>"
        f"{_table(['host', 'recordings', 'oldest began', 'newest began'], rows[:_HOSTS])}{more}<p>Relations: {relations}</p>"
    )


def _utc(unix_ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(unix_ns // 10**9, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return str(unix_ns)


def _table(columns: list[str], rows: list[Any]) -> str:
    def cell(value: Any) -> str:
        if value is None:
            return "<td>-</td>"
        return f"<td>{value:.1f}</td>" if isinstance(value, float) else f"<td>{escape(str(value))}</td>"

    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = "".join(f"<tr>{''.join(cell(v) for v in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
