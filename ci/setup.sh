#!/usr/bin/env bash
# Installs the Debian packages that a make target needs beyond Rust, Node and a C compiler, and says so.
# Without root it names the missing packages and continues: tests that need them are skipped with a message. As root,
# a package that cannot be installed is an error, so that no test is skipped unnoticed; SKIP_SETUP=1 continues without
# it.
#   ci/setup.sh test | cross-arm64 | kernels-arm64 | bench | bpf | kernels | package | container | diagnose | spark | web
set -euo pipefail

declare -A need=(
  [web]=""
  [bpf]="clang-14:clang-14 llvm-14:llvm-objcopy-14"
  [test]="fio:fio blktrace:blkparse sysstat:iostat clang-14:clang-14 e2fsprogs:mkfs.ext4 xfsprogs:mkfs.xfs btrfs-progs:mkfs.btrfs
          util-linux:losetup kmod:modprobe python3-venv:/usr/share/doc/python3-venv chromium:chromium poppler-utils:pdftoppm"
  [kernels]="qemu-system-x86:qemu-system-x86_64 cpio:cpio busybox-static:/bin/busybox gcc:cc kmod:depmod dmsetup:dmsetup mdadm:mdadm lvm2:lvm e2fsprogs:mkfs.ext4
             xfsprogs:mkfs.xfs f2fs-tools:mkfs.f2fs binutils:strip python3-venv:/usr/share/doc/python3-venv"
  [kernels-arm64]="qemu-system-arm:qemu-system-aarch64 ipxe-qemu:/usr/share/doc/ipxe-qemu"
  [cross-arm64]="gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/lib/libc.a"
  [metrics]="prometheus:prometheus prometheus-node-exporter:prometheus-node-exporter fio:fio"
  [package]="mmdebstrap:mmdebstrap systemd:systemd-analyze man-db:man lintian:lintian"
  [container]="podman:podman runc:runc libcap2-bin:/usr/sbin/getcap python3-venv:/usr/share/doc/python3-venv"
  [diagnose]="e2fsprogs:mkfs.ext4 btrfs-progs:mkfs.btrfs util-linux:losetup"
  [spark]="openjdk-17-jre-headless:java python3-venv:/usr/share/doc/python3-venv"
  [bench]="fio:fio blktrace:blkparse sysstat:iostat libbpf-tools:/usr/sbin/biolatency bpftrace:bpftrace linux-perf:perf clang:clang bpftool:/usr/sbin/bpftool"
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

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing Debian packages (install them as root for the full set): ${missing[*]}"
  exit 0
fi

# A cloud machine runs apt itself after its first boot, so this waits for the lock. Progress is a line per package.
wait_s=900
echo "installing with apt-get (waiting up to $((wait_s / 60)) minutes for its lock): ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt() { apt-get -q -o DPkg::Lock::Timeout=$wait_s -o Dpkg::Use-Pty=0 "$@"; }
install() {
  apt install -y --no-install-recommends "$@" |
    grep --line-buffered -E '^(Need to get|Get:|Setting up|Waiting|E:|W:)' || return "${PIPESTATUS[0]}"
  return "${PIPESTATUS[0]}"
}
stop() {
  [ -z "${SKIP_SETUP:-}" ] || { echo "$1; going on without (SKIP_SETUP)"; exit 0; }
  echo "$1; what needs it would be skipped. SKIP_SETUP=1 goes on without" >&2
  exit 1
}

# apt-get update itself does not wait for the lock of its lists.
for ((s = 0; ; s += 5)); do
  updated=$(apt update 2>&1) && break
  grep -q 'Could not get lock' <<<"$updated" && ((s < wait_s)) || stop "apt-get update failed: $(tail -1 <<<"$updated")"
  ((s % 30)) || echo "waiting for apt's lock"
  sleep 5
done
if ! install "${missing[@]}"; then
  # One by one, so that one unknown package does not prevent the installation of the others.
  failed=()
  for p in "${missing[@]}"; do install "$p" || failed+=("$p"); done
  [ ${#failed[@]} -eq 0 ] || stop "could not be installed: ${failed[*]}"
fi
