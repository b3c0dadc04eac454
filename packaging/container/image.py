#!/usr/bin/env python3
"""Creates the files of the container image from the tar.gz of `make package`; needs no privileges.

    image.py iolens-VERSION-ARCH-linux.tar.gz iolens-VERSION-ARCH-image.tar.gz

A container's user other than root keeps capabilities only through the file that it executes: the program carries them as the
attribute `security.capability`. Without them in the container's bounding set the kernel refuses to start it.
"""

import gzip
import io
import struct
import sys
import tarfile
from typing import IO

USER = 65532
# Numbers of linux/capability.h. Probes are attached with the first two, CAP_SYSLOG resolves the kernel's symbols,
# CAP_DAC_READ_SEARCH names files and control groups by their numbers.
CAPABILITIES = {"BPF": 39, "PERFMON": 38, "SYSLOG": 34, "DAC_READ_SEARCH": 2}
# Destinations of the archive's files; directories end in a slash.
PLACES = {
    "bin/iolens": "usr/bin/iolens",
    "LICENSE-APACHE": "usr/share/doc/iolens/LICENSE-APACHE",
    "LICENSE-MIT": "usr/share/doc/iolens/LICENSE-MIT",
}
DIRECTORIES = ["usr", "usr/bin", "usr/share", "usr/share/doc", "usr/share/doc/iolens", "var", "var/lib"]


def capability_attribute() -> bytes:
    """`struct vfs_cap_data`, revision 2: permitted, and effective from the start."""
    bits = sum(1 << number for number in CAPABILITIES.values())
    revision_2, effective = 0x0200_0000, 1
    return struct.pack("<IIIII", revision_2 | effective, bits & 0xFFFF_FFFF, 0, bits >> 32, 0)


def write(source: tarfile.TarFile, target: tarfile.TarFile) -> None:
    """Copy the files of the image."""
    top = source.getnames()[0].split("/")[0]
    made_s = max(member.mtime for member in source.getmembers())

    def add(name: str, mode: int, content: bytes | None = None, owner: int = 0, attribute: bytes | None = None) -> None:
        entry = tarfile.TarInfo(name)
        entry.mode, entry.mtime, entry.uid, entry.gid = mode, made_s, owner, owner
        entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
        entry.size = len(content or b"")
        if attribute is not None:
            entry.pax_headers["SCHILY.xattr.security.capability"] = attribute.decode("utf-8", "surrogateescape")
        target.addfile(entry, io.BytesIO(content or b""))

    for directory in DIRECTORIES:
        add(directory, 0o755)
    add("var/lib/iolens", 0o750, owner=USER)
    for name, place in PLACES.items():
        found: IO[bytes] | None = source.extractfile(f"{top}/{name}")
        if found is None:
            raise SystemExit(f"image.py: the archive has no {name}")
        is_program = place.endswith("bin/iolens")
        add(place, 0o755 if is_program else 0o644, found.read(), attribute=capability_attribute() if is_program else None)


def main() -> None:
    """Read one archive and write the other; the same input gives the same bytes."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: image.py ARCHIVE.tar.gz IMAGE.tar.gz")
    with tarfile.open(sys.argv[1]) as source, open(sys.argv[2], "wb") as raw:
        with gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
            with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as target:
                write(source, target)


if __name__ == "__main__":
    main()
