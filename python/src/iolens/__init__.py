"""Recordings of block I/O made by iolens as tables of DuckDB."""

from __future__ import annotations

from .errors import IolensError
from .recording import Recording, open_recording

open = open_recording  # noqa: A001  (iolens.open, as gzip.open)

__version__ = "0.1.0"
__all__ = ["IolensError", "Recording", "__version__", "open"]
