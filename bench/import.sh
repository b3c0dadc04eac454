#!/usr/bin/env bash
# Speed of imports: megabytes per CPU second for each kind of log, and the same of blkparse on the same trace.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
cargo run --release --locked -q -p iolens-import --example import_speed -- fixtures/import "$dir/disk.blktrace.0"
if command -v blkparse > /dev/null; then
  TIMEFORMAT='%U %S'
  times=$( { time blkparse -q -D "$dir" -i disk -o /dev/null > /dev/null 2>&1; } 2>&1 )
  bytes=$(stat -c %s "$dir/disk.blktrace.0")
  awk -v b="$bytes" -v t="$times" 'BEGIN { split(t, s, " "); printf "blkparse -q      %7.1f MB per second of processor (formats each event instead of pairing them)\n", b / 1e6 / (s[1] + s[2]) }'
else
  echo "blkparse is not installed: no peer"
fi
