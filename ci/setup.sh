#!/usr/bin/env bash
# Installs the Debian packages that a make target needs beyond Rust, Node and a C compiler, and says so.
# Without root it names what is missing and goes on: tests that need it skip with a message.
#   ci/setup.sh test | bench | bpf | kernels | package | container | spark | web
set -euo pipefail

declare -A need=(
  [web]=""
  [bpf]="clang-14:clang-14 llvm-14:llvm-objcopy-14"
  [test]="fio:fio blktrace:blkparse sysstat:iostat clang-14:clang-14 e2fsprogs:mkfs.ext4 xfsprogs:mkfs.xfs btrfs-progs:mkfs.btrfs
          util-linux:losetup kmod:modprobe python3-venv:/usr/share/doc/python3-venv chromium:chromium poppler-utils:pdftoppm"
  [kernels]="qemu-system-x86:qemu-system-x86_64 cpio:cpio busybox-static:/bin/busybox gcc:cc kmod:depmod dmsetup:dmsetup mdadm:mdadm lvm2:lvm e2fsprogs:mkfs.ext4
             xfsprogs:mkfs.xfs f2fs-tools:mkfs.f2fs binutils:strip python3-venv:/usr/share/doc/python3-venv"
  [metrics]="prometheus:prometheus prometheus-node-exporter:prometheus-node-exporter fio:fio"
  [package]="mmdebstrap:mmdebstrap systemd:systemd-analyze man-db:man lintian:lintian"
  [container]="podman:podman runc:runc libcap2-bin:/usr/sbin/getcap python3-venv:/usr/share/doc/python3-venv"
  [spark]="openjdk-17-jre-headless:java python3-venv:/usr/share/doc/python3-venv"
  [bench]="fio:fio blktrace:blkparse sysstat:iostat libbpf-tools:/usr/sbin/biolatency bpftrace:bpftrace linux-perf:perf"
)

have() { # a command, or a path that exists
  case "$1" in /*) [ -e "$1" ] ;; *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null ;; esac
}

missing=()
for group in "$@"; do
  [ -v "need[$group]" ] || { echo "unknown group $group" >&2; exit 2; }
  for entry in ${need[$group]}; do
    have "${entry#*:}" || missing+=("${entry%%:*}")
  done
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing with apt-get: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  # One by one where all at once fails, so that one unknown package does not cost the others.
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    for p in "${missing[@]}"; do apt-get install -y -qq --no-install-recommends "$p" >/dev/null || echo "could not install $p"; done
else
  echo "missing Debian packages (install them as root for the full set): ${missing[*]}"
fi
