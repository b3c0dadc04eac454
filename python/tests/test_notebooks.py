"""The notebooks of examples/notebooks run, cell by cell, and show something."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from lakes import make_root

NOTEBOOKS = FIXTURES.parent / "examples/notebooks"


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell; returns the value of its last line, if that is an expression, as a notebook does."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_root(tmp_path)
    monkeypatch.setenv("IOLENS_LAKE", str(tmp_path))
    monkeypatch.chdir(NOTEBOOKS)
    cells = [cell["source"] for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    shown = [run_cell(source, names) for source in cells]
    assert len(shown) >= 7
    assert all(result is not None and str(result) for result in shown)
    # The files in the repository contain no output, and no trace of the user who ran them.
    assert not any(cell.get("outputs") for cell in json.loads(path.read_text())["cells"])
