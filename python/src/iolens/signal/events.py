"""Reads the stream of a running `iolens serve`, with a slot per device and 100 ms, without blocking."""

from __future__ import annotations

import json
import socket
import time
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from .counters import ClassRate
from .rates import Busy, Rate

SLOT_S = 0.1
REQUEST = b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
RETRY_NS = 1_000_000_000


@dataclass(slots=True)
class ClassSums:
    """I/Os of a class, summed over slots."""

    ios: int = 0
    bytes: int = 0
    total_us: float = 0.0

    def add(self, per_s: float, kib_per_s: float, mean_us: float | None) -> None:
        """Converts the rates of a slot back to whole I/Os and bytes."""
        ios = round(per_s * SLOT_S)
        self.ios += ios
        self.bytes += round(kib_per_s * 1024 * SLOT_S)
        if ios and mean_us is not None:
            self.total_us += mean_us * ios

    def rate(self, span_s: float) -> ClassRate:
        """Rates and means over the slots."""
        out = ClassRate(ios=self.ios, per_s=self.ios / span_s, bytes_per_s=self.bytes / span_s)
        if self.ios:
            out.await_ms, out.request_bytes = self.total_us / self.ios / 1e3, self.bytes / self.ios
        return out


@dataclass(slots=True)
class SlotSums:
    """The sums of a device's slots since the last take."""

    slots: int = 0
    busy_percent: float = 0.0
    in_flight: float = 0.0
    read: ClassSums = field(default_factory=ClassSums)
    write: ClassSums = field(default_factory=ClassSums)
    lossy: bool = False
    end_unix_s: float = 0.0


class Events:
    """A connection to the service's socket. After an error it reconnects, once a second."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.error: str | None = None
        self.devices: dict[str, SlotSums] = {}
        self._socket: socket.socket | None = None
        self._retry_ns = 0
        self._raw = b""
        self._body = b""
        self._has_headers = False
        self._event = b""
        self._missed = False

    @property
    def is_connected(self) -> bool:
        """Whether the service answers."""
        return self._socket is not None

    def poll(self, now_ns: int) -> None:
        """Reads what has arrived."""
        try:
            if self._socket is None:
                if now_ns < self._retry_ns:
                    return
                self._retry_ns = now_ns + RETRY_NS
                self._connect()
            self._receive()
        except (OSError, ValueError) as e:
            self.error = f"{self.path}: {e}"
            self.close()

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.connect(self.path)
            connection.sendall(REQUEST)
        except OSError:
            connection.close()
            raise
        self._socket, self.error = connection, None
        self._raw = self._body = self._event = b""
        self._has_headers = False
        self.devices.clear()

    def _receive(self) -> None:
        assert self._socket is not None
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return
            if not data:
                raise ValueError("the service has closed the connection")
            self._raw += data
            self._take()
            if len(data) < 1 << 16:
                return

    def _take(self) -> None:
        """Decodes headers once, then chunks: a line with the size, the data, an empty line."""
        if not self._has_headers:
            head, found, rest = self._raw.partition(b"\r\n\r\n")
            if not found:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                raise ValueError("the service answered " + head.split(b"\r\n")[0].decode("ascii", "replace"))
            self._has_headers, self._raw = True, rest
        while True:
            line, found, rest = self._raw.partition(b"\r\n")
            if not found:
                return
            size = int(line, 16)
            if size == 0:
                raise ValueError("the service has ended its answer")
            if len(rest) < size + 2:
                return
            self._body += rest[:size]
            self._raw = rest[size + 2 :]
            *lines, self._body = self._body.split(b"\n")
            for text in lines:
                self._line(text)

    def _line(self, line: bytes) -> None:
        if line.startswith(b"event: "):
            self._event = line[7:]
            self._missed = self._missed or self._event == b"missed"
        elif line.startswith(b"data: ") and self._event == b"slot":
            self._slot(json.loads(line[6:]))

    def _slot(self, row: dict[str, Any]) -> None:
        d = self.devices.setdefault(row["device"], SlotSums())
        d.slots += 1
        d.busy_percent += row.get("busy_percent") or 0.0
        d.in_flight += row.get("inflight_mean") or 0.0
        d.read.add(row["r_per_s"], row["r_kib_per_s"], row["r_us"])
        d.write.add(row["w_per_s"], row["w_kib_per_s"], row["w_us"])
        d.lossy = d.lossy or bool(row["lossy"]) or self._missed
        d.end_unix_s = row["time_s"]
        self._missed = False

    def take(self, device: str, counters: Rate) -> tuple[Rate, int] | None:
        """The exact rate of a device over the slots since the last take, and its age in nanoseconds.

        Values that slots do not contain (discards, flushes, the current number in flight) are those of `counters`.
        """
        d = self.devices.pop(device, None)
        if d is None:
            return None
        span_s = d.slots * SLOT_S
        out = copy(counters)
        out.reset, out.not_accounted, out.lossy = False, False, d.lossy
        out.span_ns = d.slots * 100_000_000
        out.read, out.write = d.read.rate(span_s), d.write.rate(span_s)
        both = ClassSums(d.read.ios + d.write.ios, d.read.bytes + d.write.bytes, d.read.total_us + d.write.total_us).rate(
            span_s
        )
        out.await_ms, out.request_bytes = both.await_ms, both.request_bytes
        out.in_flight_mean = d.in_flight / d.slots
        percent = min(d.busy_percent / d.slots, 100.0)
        out.busy = Busy(percent, counters.busy.ticks_percent, None, "events", out.span_ns)
        return out, int((time.time() - d.end_unix_s) * 1e9)

    def close(self) -> None:
        """Closes the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
