"""`iolens query` of the program runs this package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iolens.cli import main

FINISHED = Path(__file__).resolve().parents[2] / "fixtures/recordings/v1/finished.iolens"


@pytest.fixture
def ask(program: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `iolens query` in a directory with a misleading `iolens/`, and with this interpreter as `python3`."""
    known = subprocess.run([program, "query", "--help"], capture_output=True, check=False)
    if known.returncode != 0:
        pytest.skip(f"SKIP: {program} is older than its command query")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin/python3").chmod(0o755)
    (tmp_path / "cwd/iolens").mkdir(parents=True)
    (tmp_path / "cwd/iolens/__init__.py").write_text("raise SystemExit('the working directory was imported')")
    source = str(Path(__file__).resolve().parents[1] / "src")
    known_to_all = {k: v for k, v in os.environ.items() if k not in ("PATH", "PYTHONPATH", "IOLENS")}
    environment = {**known_to_all, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": source}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [program, "query", *map(str, arguments)]
        return subprocess.run(words, env=environment, cwd=tmp_path / "cwd", capture_output=True, text=True, check=False)

    return run


def test_query_of_the_program_is_the_packages(
    ask: Callable[..., subprocess.CompletedProcess[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "-- by operation\nselect op, count(*) as n, sum(bytes) as bytes from ios group by op order by op"
    for how in ("table", "csv", "json"):
        assert main(["query", "--format", how, "--", str(FINISHED), sql]) == 0
        expected = capsys.readouterr().out
        done = ask(FINISHED, sql, "--format", how)
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    assert len(json.loads(expected)) > 0


def test_query_passes_the_exit_code_and_the_one_line(ask: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    for arguments, words in (
        ((FINISHED, "selec 1"), "syntax error"),
        ((FINISHED, "select * from nosuch"), "nosuch"),
        (("/nonexistent", "select 1"), "/nonexistent"),
    ):
        done = ask(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert done.stderr.count("\n") == 1


def test_report_is_the_programs(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = subprocess.run([program, "report", FINISHED], capture_output=True, text=True, check=True).stdout
    assert main(["report", str(FINISHED)]) == 0
    assert capsys.readouterr().out == text
    assert main(["report", str(FINISHED), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["devices"]
    for wrong in (["--format", "csv"], ["--host", "x"], ["--at", "9h"]):
        assert main(["report", str(FINISHED), *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1
