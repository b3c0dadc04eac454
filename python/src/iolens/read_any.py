"""Opens a recording, a root of recordings, or another tool's log."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from . import program
from .errors import IolensError
from .lake import Lake
from .recording import Recording


def read_any(path: str | os.PathLike[str], *more: str | os.PathLike[str]) -> Recording | Lake:
    """Opens `path`: a recording, a root of many hosts' recordings, or another tool's log, which the program imports.

    Several files are parts of one log. The recording of an imported log is in a temporary directory, which is removed with it.
    """
    text = os.fspath(path)
    if "://" in text:
        return Lake(text)
    first = Path(text)
    if not first.exists():
        raise IolensError(f"{first} does not exist")
    if first.is_dir() and not more:
        if (first / "meta.json").is_file() or (first / "meta.json.bak").is_file():
            return Recording(first)
        if next(first.glob("host=*"), None) is not None:
            return Lake(text)
    directory = tempfile.TemporaryDirectory(prefix="iolens-")
    try:
        made = Path(directory.name) / f"{first.stem}.iolens"
        program.run("import", first, *map(Path, more), "-o", made)
        recording = Recording(made)
    except BaseException:
        directory.cleanup()
        raise
    recording.directory = directory
    return recording
