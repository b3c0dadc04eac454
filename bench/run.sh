#!/usr/bin/env bash
# Every benchmark, compared with similar tools; needs root and an idle machine. docs/measurements.md explains the
# values.
#   bench/run.sh [quick]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then echo "the benchmarks record real devices: run them as root" >&2; exit 2; fi
rounds=5; seconds=3
[ "${1:-}" = quick ] && { rounds=2; seconds=2; }

section() { printf '\n## %s\n' "$1"; }
section "What recording costs the recorded (fastest device)"; bench/overhead.py --rounds "$rounds" --seconds "$seconds"
section "What following files costs a loop of cached preads";    bench/files.py --rounds "$rounds"
section "What the recorder takes";                            bench/footprint.py
for script in bench/*.sh; do
  case "$script" in bench/run.sh) ;; *) section "$script"; bash "$script" ;; esac
done
section "What the screen of live takes";                          bench/live.py
section "What serve costs and how fast it answers"; cargo build --release --quiet -p iolens-core --example root_store; bench/serve.py
section "The page in Chromium";                               cargo build --release --quiet -p iolens --example html_report; bench/page.py
section "Rooms by themselves (criterion)"
cargo bench --locked -p iolens-core
