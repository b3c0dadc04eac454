#!/usr/bin/env python3
"""Measures how demanding or non-reading clients affect a recorder: the values of docs/measurements.md.

  bench/attack.py [--seconds 20] [unread heavy silent watchers]

Needs root and fio. The recorder is a separate process beside reads of 4 KiB; the clients run as another user (nobody). Printed
for each attack: the recorder's memory before and its maximum, the answers of /healthz and /metrics meanwhile, I/Os lost.
"""
import argparse, os, pathlib, re, signal, socket, sys, tempfile, threading, time

from disk import loop_device
from serve import ADDRESS, Service, ask, fio, serve

NOBODY = 65534


def send(path: str) -> socket.socket:
    s = socket.create_connection(ADDRESS, timeout=60)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return s


def unread(n: int = 40) -> None:
    """Request 10 MB on each connection, read 12 bytes, wait."""
    held = []
    for _ in range(n):
        try:
            held.append(send("/api/v1/ios?limit=100000"))
            held[-1].recv(12)
        except OSError as e:
            print(f"# unread: {e}", file=sys.stderr)
    time.sleep(3600)


def heavy(n: int = 100) -> None:
    """Send expensive queries one after the other and read the answers."""

    def one() -> None:
        while True:
            try:
                s = send("/api/v1/findings?from=-1m")
                while s.recv(1 << 16):
                    pass
                s.close()
            except OSError:
                time.sleep(0.1)

    for _ in range(n):
        threading.Thread(target=one, daemon=True).start()
    time.sleep(3600)


def silent(n: int = 300) -> None:
    """Connect and send nothing; reconnect as soon as the connection is closed."""
    held = [socket.create_connection(ADDRESS) for _ in range(n)]
    while True:
        time.sleep(1)
        for i, s in enumerate(held):
            s.setblocking(False)
            try:
                if not s.recv(1):
                    held[i] = socket.create_connection(ADDRESS)
            except BlockingIOError:
                pass
            except OSError:
                held[i] = socket.create_connection(ADDRESS)


def watchers(n: int = 16) -> None:
    """Follow the live events and never read."""
    held = [send("/api/v1/live?since=0") for _ in range(n)]
    time.sleep(3600)
    del held


def as_nobody(attack) -> int:
    """Run it in a process of that user; returns its process ID."""
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            attack()
        finally:
            os._exit(0)
    return pid


class Watcher(threading.Thread):
    """A live viewer that reads: the number of its events, and whether it was disconnected."""

    def __init__(self):
        super().__init__(daemon=True)
        self.events, self.is_cut = 0, False

    def run(self) -> None:
        try:
            s = send("/api/v1/live")
            while data := s.recv(1 << 16):
                self.events += data.count(b"\ndata:")
        except OSError:
            pass
        self.is_cut = True


def lost(text: str) -> int:
    return sum(int(float(v)) for v in re.findall(r"^iolens_lost_ios_total\{[^}]*\} (\S+)$", text, re.M))


def measure(service: Service, attack, seconds: float) -> None:
    lost_before = lost(ask("/metrics")[1].decode())
    watcher = Watcher()
    watcher.start()
    before, most = service.rss_mib(), 0.0
    pid = as_nobody(attack)
    answers = {"/healthz": [], "/metrics": []}
    slowest = 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path, got in answers.items():
            begin = time.monotonic()
            got.append(ask(path)[0])
            slowest = max(slowest, time.monotonic() - begin)
        most = max(most, service.rss_mib())
        time.sleep(0.2)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lost_after = lost(ask("/metrics")[1].decode())
    said = ", ".join(f"{path} {sum(a == 200 for a in got)} of {len(got)} with 200" for path, got in answers.items())
    print(
        f"{attack.__name__}: {before:.0f} MiB, at most {most:.0f} MiB; {said}, the slowest after {slowest:.2f} s; "
        f"a viewer got {watcher.events} events{', and was cut off' if watcher.is_cut else ''}; {lost_after - lost_before} I/Os lost",
        flush=True,
    )


def main() -> None:
    attacks = {f.__name__: f for f in (unread, heavy, silent, watchers)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=" ".join(attacks))
    options = parser.parse_args()
    names = options.attacks or list(attacks)
    with tempfile.TemporaryDirectory(prefix="iolens-bench-") as work, loop_device(256) as device:
        service = serve(pathlib.Path(work) / "root", "-d", os.path.basename(device))
        load = fio(device, 10 + (options.seconds + 5) * len(names), "--rate_iops=5000")
        time.sleep(8)
        for name in names:
            measure(service, attacks[name], options.seconds)
            time.sleep(2)
        load.terminate()
        load.wait()
        service.end()


if __name__ == "__main__":
    main()
