#!/usr/bin/env bash
# Moves a program's debug information into PROGRAM.debug, which debuggers and perf find by the link that stays behind.
#   ci/split-debug.sh PROGRAM
set -euo pipefail
program=$1
# Cargo links the built program to this name anew at each build, so it has debug information again only after a build.
objdump -h "$program" | grep -q '\.debug_info' || exit 0
objcopy --only-keep-debug --compress-debug-sections "$program" "$program.debug"
objcopy --strip-debug --add-gnu-debuglink="$program.debug" "$program" "$program.stripped"
mv "$program.stripped" "$program"
