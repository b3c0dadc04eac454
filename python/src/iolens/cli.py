"""`python -m iolens` and `iolens-lake`: query recordings and lakes from a shell."""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb

from . import compact as compaction
from . import program
from .errors import IolensError
from .lake import Lake, lake
from .recording import open_recording
from .waits import GROUPS, LAKE_GROUPS

_EXAMPLES = """examples:
  python -m iolens query db.iolens "select comm, count(*) from ios group by comm"
  python -m iolens hosts /var/lib/iolens
  python -m iolens query s3://bucket/iolens "select host, count(*) from ios group by host"
  python -m iolens slow /srv/lake
  iolens-lake compact /srv/lake --day 2026-11-18
  python -m iolens slow fleet/*.csv            (columns ts,disk_id,throughput,latency; a file is a host)
"""


@dataclass(frozen=True)
class Rows:
    """A result: its column names, which an empty table has as well, and its rows with these columns as keys."""

    names: list[str]
    rows: list[dict[str, Any]]


def main(argv: list[str] | None = None) -> int:
    """Runs a command. Returns 0 on success, and 2 on a usage error or failure, with one line on standard error."""
    args = _parser().parse_args(argv)
    warnings.showwarning = lambda message, *_: print(f"iolens: {message}", file=sys.stderr)
    try:
        _print(args.run(args), args.format)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, so nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (IolensError, duckdb.Error, OSError) as e:
        print(f"iolens: {' '.join(str(e).split())}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m iolens",
        description="Questions to recordings, and to recording roots of many hosts.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, help_: str, run: Any) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help_, description=help_)
        sub.add_argument("--format", choices=["table", "csv", "json"], default="table", help="how to print")
        sub.set_defaults(run=run)
        return sub

    def of_root(name: str, help_: str, run: Any) -> argparse.ArgumentParser:
        sub = command(name, help_, run)
        sub.add_argument("root", help="the recording root: a directory, or a URL such as s3://bucket/prefix")
        return sub

    query = of_root("query", "SQL over a recording or a root", _query)
    query.add_argument("sql", help="over ios, rollup, lost, devices, ...: docs/python.md")
    of_root("hosts", "each host: recordings, time, disks, I/Os, losses", lambda a: _rows(lake(a.root).hosts()))
    of_root("capacity", "headroom of each device, and the weeks until none is left", lambda a: _rows(lake(a.root).capacity()))
    noisy = of_root("noisy", "behind whom others' I/Os waited, the worst first", _noisy)
    noisy.add_argument("--by", choices=LAKE_GROUPS, default="cgroup")
    noisy.add_argument("--per-day", action="store_true", help="each day (UTC) by itself")
    waits = command("waits", "whose I/O time of a recording went where, and behind whom", _waits)
    waits.add_argument("recording", help="a recording of `iolens serve`")
    waits.add_argument("--by", choices=GROUPS, default="process")
    findings = of_root("findings", "what the program finds on each host", lambda a: _rows(lake(a.root).findings(not a.all)))
    findings.add_argument("--all", action="store_true", help="in all recordings, not only in each host's newest")
    report = of_root("report", "the program's report on a recording or a host; as text, or as JSON", _report)
    report.add_argument("--host", help="which host; needed where there are several")
    report.add_argument("--at", help="the minute around this moment, as of `iolens report --at`")
    compact = command("compact", "one file of a table for each host and day, beside the recordings", _compact)
    compact.add_argument("root", help="the recording root: a directory")
    compact.add_argument(
        "--day", action="append", type=_day, metavar="YYYY-MM-DD", help="recordings that began on it (UTC); may be repeated"
    )
    slow = command("slow", "fail-slow devices beside the peers of their host", _slow)
    slow.add_argument("paths", nargs="+", help="a recording root, or CSV files (ts,disk_id,throughput,latency) and directories")
    slow.add_argument("--all", action="store_true", help="every device, not only the slow ones")
    return parser


def _rows(table: Any) -> Rows:
    # If several columns have the same name, the rows have the value of the last one.
    return Rows(list(dict.fromkeys(table.column_names)), table.to_pylist())


def _noisy(args: argparse.Namespace) -> Rows:
    return _rows(lake(args.root).noisy(args.by, per_day=args.per_day))


def _waits(args: argparse.Namespace) -> Rows:
    return _rows(open_recording(args.recording).who_waited(args.by).to_arrow_table())


def _day(text: str) -> str:
    try:
        return f"{datetime.strptime(text, '%Y-%m-%d'):%Y-%m-%d}"
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"{text!r} is no day such as 2026-11-18") from e


# The columns that `compact` sums for each day.
_ADDED_UP = ("recordings", "files_before", "files", "bytes_before", "bytes")


def _compact(args: argparse.Namespace) -> Rows | str:
    days: dict[str, dict[str, Any]] = {}
    outcome = compaction.outcome(args.root, args.day, os.cpu_count() or 1)
    for done in outcome.done:
        row = days.setdefault(done.day, {"day": done.day, "hosts": 0})
        row["hosts"] += 1
        for name in _ADDED_UP:
            row[name] = row.get(name, 0) + getattr(done, name)
    waiting = outcome.waiting()
    if not days and args.format == "table":
        return f"nothing to do yet: {waiting}\n" if waiting else "nothing new: what has ended is compacted\n"
    if waiting:
        print(f"iolens: {waiting}", file=sys.stderr)
    return Rows(["day", "hosts", *_ADDED_UP], [days[day] for day in sorted(days)])


def _is_recording(path: str) -> bool:
    return (Path(path) / "meta.json").is_file() or (Path(path) / "meta.json.bak").is_file()


def _query(args: argparse.Namespace) -> Rows:
    if _is_recording(args.root):
        return _rows(open_recording(args.root).sql(args.sql).to_arrow_table())
    return _rows(lake(args.root).query(args.sql))


def _report(args: argparse.Namespace) -> dict[str, Any] | str:
    if args.format == "csv":
        raise IolensError("a report is no table: choose --format table (text) or json")
    when = ["--at", args.at] if args.at else []
    if not _is_recording(args.root):
        where = lake(args.root).report_arguments(args.host, args.at)
    elif args.host:
        raise IolensError(f"--host {args.host}: {args.root} is one recording")
    else:
        where = [args.root, *when]
    if args.format == "table":
        return program.run("report", *where)
    return dict(program.run_json("report", *where, "--json"))


def _slow(args: argparse.Namespace) -> Rows:
    try:
        from . import slow, slow_input, slow_table
    except ImportError as e:
        raise IolensError("slow needs numpy: pip install 'iolens[slow]'") from e
    first = args.paths[0]
    if len(args.paths) == 1 and ("://" in first or next(Path(first).glob("host=*"), None)):
        found = Lake(first).slow()
    else:
        found = slow_table.table(*slow.judge_all(slow_input.from_csv([Path(p) for p in args.paths])))
    answer = _rows(found)
    rows = answer.rows
    judged = [row for row in rows if row["not_judged"] is None]
    reasons = Counter(row["not_judged"] for row in rows if row["not_judged"] is not None)
    if not judged:
        [(why, _), *_] = reasons.most_common(1) or [("it has no entries", 0)]
        raise IolensError(f"{first}: no device can be judged, as {why}")
    slow_ones = sum(row["slow"] for row in judged)
    print(f"iolens: {slow_ones} of {len(judged)} devices are slow", file=sys.stderr)
    for why, devices in reasons.most_common():
        print(f"iolens: {devices} not judged: {why}", file=sys.stderr)
    shown = [row for row in rows if args.all or row["slow"]]
    # A log has neither models nor histograms.
    optional = ("stable_id", "model", "class", "tail_percent", "found_by", "not_judged")
    absent = [name for name in optional if all(row[name] is None for row in rows)]
    names = [name for name in answer.names if name not in absent]
    return Rows(names, [{name: row[name] for name in names} for row in shown])


def _print(found: Rows | dict[str, Any] | str, how: str) -> None:
    if isinstance(found, str):
        sys.stdout.write(found)
        return
    if how == "json" or isinstance(found, dict):
        document = found if isinstance(found, dict) else found.rows
        json.dump(_finite(document), sys.stdout, default=str, indent=1, allow_nan=False)
        print()
        return
    names = found.names
    rows = found.rows
    if how == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_harmless(row[name]) for name in names] for row in rows)
        return
    if not rows:
        print("iolens: no rows", file=sys.stderr)
        return
    cells = [[_cell(row[name], name) for name in names] for row in rows]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]
    numeric = [all(isinstance(row[name], int | float | None) for row in rows) for name in names]
    for line in [names, *cells]:
        parts = (c.rjust(w) if n else c.ljust(w) for c, w, n in zip(line, widths, numeric, strict=True))
        print("  ".join(parts).rstrip())


def _finite(value: Any) -> Any:
    """The value for JSON, which has neither infinity nor NaN: these become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value


# Characters that begin a formula in a spreadsheet. With an East Asian locale their full-width forms do as well.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def _harmless(value: Any) -> Any:
    """A CSV cell, escaped: names of processes and files may contain formulas and terminal control sequences."""
    if not isinstance(value, str):
        return value
    text = _printable(value)
    return f"'{text}" if value.lstrip().startswith(_FORMULA) else text


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _cell(value: Any, name: str) -> str:
    if value is None:
        return "-"
    if name.endswith("_unix_ns") and isinstance(value, int):
        return f"{datetime.fromtimestamp(value // 10**9, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    # Names of processes and files may contain terminal control sequences.
    return _printable(str(value))
