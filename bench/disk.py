"""Loop devices for benchmarks."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def loop_device(mib: int) -> Iterator[str]:
    """The path of a loop device of `mib` MiB of zeros in memory, which is removed afterwards."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="iolens-bench-") as backing:
        backing.truncate(mib << 20)
        setup = ["losetup", "--find", "--show", backing.name]
        device = subprocess.run(setup, check=True, capture_output=True, text=True).stdout.strip()
        try:
            yield device
        finally:
            subprocess.run(["losetup", "-d", device], check=False)
