"""Recordings of block I/O made by iolens and fleets of them as tables of DuckDB and Spark."""

from __future__ import annotations

from .errors import IolensError
from .lake import Lake, lake
from .read_any import read_any
from .recording import Recording, open_recording

open = open_recording  # noqa: A001  (iolens.open, as gzip.open)

__version__ = "0.1.0"
__all__ = ["IolensError", "Lake", "Recording", "__version__", "lake", "open", "read_any"]
