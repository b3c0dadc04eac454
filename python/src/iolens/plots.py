"""Plots of a recording with matplotlib, if it is installed."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from .durations import parse_ns
from .errors import IolensError
from .moments import Moment

if TYPE_CHECKING:
    from .recording import Recording

# For each plot, the columns of `series` for reads and writes, and the axis.
SERIES = {
    "throughput": ("r_kib_per_s", "w_kib_per_s", "KiB/s"),
    "iops": ("r_per_s", "w_per_s", "I/Os per second"),
    "latency": ("r_us", "w_us", "mean latency, us"),
}
# Number of bins of the plotted time, unless a step is given; number of groups with a line of their own.
BINS = 240
MAX_GROUPS = 8


def plot(
    recording: Recording, what: str, step: str | float | None, by: str, start: Moment | None, stop: Moment | None, ax: Any
) -> Any:
    """Draws into `ax`, or into a new figure; returns the axes."""
    if what not in (*SERIES, "heatmap"):
        raise IolensError(f"what={what!r}: choose {', '.join(SERIES)} or heatmap")
    if what == "heatmap" and by != "all":
        raise IolensError("a heat map is of all I/Os: by='all'")
    try:
        import matplotlib.dates
        import matplotlib.pyplot
    except ImportError as e:
        raise IolensError("plot needs matplotlib: pip install matplotlib") from e
    if ax is None:
        _, ax = matplotlib.pyplot.subplots(figsize=(10, 4), layout="constrained")
    from_ns, to_ns = recording.window_ns(start, stop)
    # As text, which has no rounding errors.
    width = step if step is not None else f"{max((to_ns - from_ns) // BINS, 1_000_000)}ns"
    if what == "heatmap":
        _heatmap(recording, width, from_ns, to_ns, ax)
    else:
        _lines(recording, what, width, by, from_ns, to_ns, ax)
    formatter: Any = matplotlib.dates.ConciseDateFormatter
    ax.xaxis.set_major_formatter(formatter(ax.xaxis.get_major_locator()))
    ax.set_xlabel("UTC")
    ax.set_title(recording.path.name)
    return ax


def _wall(recording: Recording, seconds: float) -> datetime:
    start = datetime.fromtimestamp(recording.meta.start_unix_ns // 10**9, timezone.utc)
    return start + timedelta(microseconds=recording.meta.start_unix_ns % 10**9 // 1000, seconds=seconds)


def _lines(recording: Recording, what: str, step: str | float, by: str, from_ns: int, to_ns: int, ax: Any) -> None:
    read, write, unit = SERIES[what]
    group = "null" if by == "all" else by
    rows = recording.series(step, by, start=from_ns / 1e9, stop=to_ns / 1e9).project(f"{group}, time_s, {read}, {write}")
    of_group: dict[str | None, list[Any]] = {}
    for name, *row in rows.fetchall():
        of_group.setdefault(name, []).append(row)
    largest = sorted(of_group, key=lambda name: -sum((r or 0) + (w or 0) for _, r, w in of_group[name]))
    for name in largest[:MAX_GROUPS]:
        times = [_wall(recording, at) for at, _, _ in of_group[name]]
        for column, words, style in ((1, "read", "-"), (2, "write", "--")):
            values = [row[column] for row in of_group[name]]
            if any(values):
                ax.plot(times, values, style, label=words if name is None else f"{name} {words}")
    ax.set_ylabel(unit)
    ax.set_ylim(bottom=0)
    if ax.lines:
        ax.legend()


def _heatmap(recording: Recording, step: str | float, from_ns: int, to_ns: int, ax: Any) -> None:
    from matplotlib.colors import LogNorm

    cells = recording.heatmap(step, start=from_ns / 1e9, stop=to_ns / 1e9, per_octave=4)
    rows = cells.aggregate("time_s, low_us, high_us, sum(ios)", "time_s, low_us, high_us").fetchall()
    if not rows:
        return
    width_s = parse_ns(step) / 1e9
    for_all = {"cmap": "viridis", "norm": LogNorm(1, max(max(row[3] for row in rows), 2))}
    # One mesh over all times and durations. Cells without I/Os are not drawn.
    first_s = from_ns / 1e9
    columns = math.ceil((to_ns - from_ns) / parse_ns(step))
    edges_us = sorted({row[1] for row in rows} | {row[2] for row in rows})
    index = {low: i for i, low in enumerate(edges_us)}
    counts = [[float("nan")] * columns for _ in range(len(edges_us) - 1)]
    for at, low, _, ios in rows:
        # A cell is labelled by its end, and the last one by the end of the window.
        counts[index[low]][math.ceil((at - first_s) / width_s - 1e-6) - 1] = ios
    x = [_wall(recording, first_s + i * width_s) for i in range(columns + 1)]
    mesh = ax.pcolormesh(x, [max(edge, 0.004) for edge in edges_us], counts, **for_all)
    ax.set_yscale("log")
    ax.set_ylabel("start to completion, us")
    ax.figure.colorbar(mesh, ax=ax, label="I/Os")
