"""Recordings of block I/O made by iolens and fleets of them as tables of DuckDB and Spark; rates of this machine's disks."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .errors import IolensError

if TYPE_CHECKING:
    from .lake import Lake, lake
    from .read_any import read_any
    from .recording import Recording, open_recording

    open = open_recording  # noqa: A001  (iolens.open, as gzip.open)

__version__ = "0.1.0"
__all__ = ["IolensError", "Lake", "Recording", "__version__", "lake", "open", "read_any"]

# Recordings and lakes need DuckDB and pyarrow, which `iolens.signal` must not need, so they are imported on first use.
_MODULES = {"Lake": "lake", "Recording": "recording", "lake": "lake", "open": "recording", "read_any": "read_any"}


class _Package(ModuleType):
    """Keeps `iolens.lake` and `iolens.read_any` functions: importing a module would replace the function of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("lake", "read_any") and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{module}", __name__), "open_recording" if name == "open" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
