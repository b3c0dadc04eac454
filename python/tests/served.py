"""Runs the program as a server of a root."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from free_port import free_port


@contextmanager
def served(program: str, root: Path) -> Iterator[str]:
    """The address of a program that serves a root; it is listening."""
    address = f"127.0.0.1:{free_port()}"
    words = [program, "serve", "--no-record", "--rec", str(root), "--listen", address, "--public-names"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr is not None
            said = []
            for line in service.stderr:
                said.append(line)
                if "listening on" in line:
                    break
            assert "listening on" in "".join(said[-1:]), said
            yield f"http://{address}"
        finally:
            service.terminate()
