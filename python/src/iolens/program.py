"""Runs the iolens program, for analyses that only it has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from .errors import IolensError


def find() -> str | None:
    """The program: `$IOLENS`, or `iolens` on the PATH."""
    named = os.environ.get("IOLENS")
    if named:
        return named if shutil.which(named) else None
    return shutil.which("iolens")


def run(*args: str | Path) -> str:
    """Its standard output. On failure, its standard error becomes the error message."""
    program = find()
    if program is None:
        raise IolensError("the iolens program is not on the PATH: install it, or name it in the variable IOLENS")
    done = subprocess.run([program, *map(str, args)], capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise IolensError(said[-1] if said else f"iolens ended with status {done.returncode}")
    return done.stdout.decode(errors="replace")


def run_json(*args: str | Path) -> Any:
    """The JSON document that it prints."""
    return json.loads(run(*args))
