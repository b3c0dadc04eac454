#!/usr/bin/env bash
# The signal and the brake: a cached reading, a refresh, what `throttle` itself takes, and what it is worth.
#   bench/signal.sh [PATH]     the disks under PATH [.]
set -euo pipefail
cd "$(dirname "$0")/.."
path=${1:-.}
cargo build --quiet --release --locked -p iolens --example signal_cost
target/release/examples/signal_cost "$path"

# CPU of iolens itself while it watches for 20 s, without the command's.
own_cost() { # NAME ARGUMENTS...
  local name=$1; shift
  target/release/iolens throttle -q --path "$path" "$@" -- sleep 24 & local pid=$!
  sleep 3
  local before after
  before=$(awk '{print $14 + $15}' "/proc/$pid/stat"); sleep 20; after=$(awk '{print $14 + $15}' "/proc/$pid/stat")
  awk -v t=$((after - before)) -v hz="$(getconf CLK_TCK)" -v n="$name" 'BEGIN { printf "throttle itself (%s): %.2f %% of a core (limit 0.5)\n", n, 100 * t / hz / 20 }'
  wait $pid
}
own_cost counters --source counters
[ "$(id -u)" = 0 ] && own_cost events
if [ "$(id -u)" = 0 ] && command -v fio >/dev/null && [ -e /dev/fuse ]; then bench/throttle.py; else echo "SKIP: the experiment needs root, fio and /dev/fuse"; fi
