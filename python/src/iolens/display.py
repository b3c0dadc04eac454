"""What a notebook shows of a recording: a heading, throughput over time, and the devices' latencies."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
        return parts[0] + "<p>No single I/Os.</p>"
    step_s = max(recording.duration_s / _SLOTS, 0.001)
    rows = recording.series(step_s).project("time_s, r_kib_per_s, w_kib_per_s").fetchall()
    parts.append(_svg(rows, recording.duration_s))
    columns = ["device", "class", "ios", "mean_us", "p50_us", "p99_us", "max_us", "queue_mean_us", "device_mean_us"]
    parts.append(_table(columns, recording.percentiles().project(", ".join(columns)).fetchall()))
    return "".join(parts)


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


def _table(columns: list[str], rows: list[Any]) -> str:
    def cell(value: Any) -> str:
        if value is None:
            return "<td>-</td>"
        return f"<td>{value:.1f}</td>" if isinstance(value, float) else f"<td>{escape(str(value))}</td>"

    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = "".join(f"<tr>{''.join(cell(v) for v in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
