"""Points in time of a recording: seconds since its start, or times of day."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone

from .errors import IolensError

# Types of `start` and `stop` of a window.
Moment = float | str | datetime

_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")


def since_start_ns(moment: Moment, start_unix_ns: int, end_ns: int) -> int:
    """Nanoseconds from the start of a recording that is `end_ns` long.

    A number is seconds since the start. A `datetime`, or text such as `2026-11-18 11:06:40`, is in the local time zone unless
    it names another. `11:06:40` is the latest such time within the recording.
    """
    if isinstance(moment, (int, float)):
        return round(moment * 1e9)
    if isinstance(moment, datetime):
        return unix_ns(moment) - start_unix_ns
    text = moment.strip()
    if _TIME_OF_DAY.fullmatch(text):
        return _newest(text, start_unix_ns, end_ns)
    try:
        # Before 3.11 Python does not parse `Z`.
        return unix_ns(datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))) - start_unix_ns
    except ValueError as e:
        raise IolensError(f"{moment!r} is no time: write 2026-11-18 11:06:40, 11:06:40, or seconds since the start") from e


def unix_ns(moment: datetime) -> int:
    """Nanoseconds since the epoch; local time where no zone is given."""
    since = moment.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def _newest(text: str, start_unix_ns: int, end_ns: int) -> int:
    """A time of day on the last day on which it is within the recording; on the first day if there is none."""
    hour, _, rest = text.partition(":")
    try:
        of_day = time.fromisoformat(f"{hour:0>2}:{rest}" if "." not in rest else _micros(f"{hour:0>2}:{rest}"))
    except ValueError as e:
        raise IolensError(f"{text!r} is no time of day") from e
    first = _local_day(start_unix_ns)
    day = _local_day(start_unix_ns + end_ns)
    while day > first:
        found = unix_ns(datetime.combine(day, of_day)) - start_unix_ns
        if found <= end_ns:
            return found
        day -= timedelta(days=1)
    return unix_ns(datetime.combine(first, of_day)) - start_unix_ns


def _micros(text: str) -> str:
    """With six digits after the point, which Python before 3.11 requires."""
    seconds, _, fraction = text.partition(".")
    return f"{seconds}.{fraction:0<6.6}"


def _local_day(at_unix_ns: int) -> date:
    return datetime.fromtimestamp(at_unix_ns // 10**9).date()
