"""A port for a server of a test."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of loopback on which nothing listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
