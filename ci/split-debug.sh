#!/usr/bin/env bash
# Moves a program's debug information into PROGRAM.debug, which debuggers and perf find by a link in the program.
#   ci/split-debug.sh PROGRAM
set -euo pipefail
program=$1
# The tools for the program's architecture: this machine's own, those of a cross compiler, or LLVM's, which support
# all.
machine=$(od -An -t u2 -j 18 -N 2 "$program" | tr -d ' ')
case $machine in 62) machine=x86_64 ;; 183) machine=aarch64 ;; esac
tool() {
  if [ "$machine" = "$(uname -m)" ]; then command -v "$1"; else command -v "$machine-linux-gnu-$1" || command -v "llvm-$1"; fi
}
objdump=$(tool objdump) && objcopy=$(tool objcopy) ||
  { echo "split-debug.sh: no objcopy for $machine; install binutils-$machine-linux-gnu or llvm" >&2; exit 1; }
# Cargo links the built program to this name at each build, so it has debug information again only after a build.
"$objdump" -h "$program" | grep -q '\.debug_info' || exit 0
"$objcopy" --only-keep-debug --compress-debug-sections "$program" "$program.debug"
"$objcopy" --strip-debug --add-gnu-debuglink="$program.debug" "$program" "$program.stripped"
mv "$program.stripped" "$program"
