#!/usr/bin/env bash
# The signal and the throttle: a cached reading, a refresh, the cost of `throttle` itself, and its benefit.
#   bench/signal.sh [PATH]     the disks under PATH [.]
# The exit code is 1 if a condition does not hold.
set -euo pipefail
cd "$(dirname "$0")/.."
path=${1:-.}
failed=0
cargo build --quiet --release --locked -p iolens -p iolens-control --bins --example signal_cost
target/release/examples/signal_cost "$path" || failed=1

busy=""
trap '[ -z "$busy" ] || kill "$busy" 2>/dev/null || true; rm -f "$path/.iolens-bench-read"' EXIT

# CPU of iolens itself and of its guardian for 20 s, without the command's.
own_cost() { # NAME ARGUMENTS...
  local name=$1; shift
  target/release/iolens throttle -q --path "$path" "$@" -- sleep 24 & local pid=$!
  sleep 3
  local guardian before after
  guardian=$(for child in $(cat "/proc/$pid/task/$pid/children"); do
    if grep -qzx guard "/proc/$child/cmdline"; then echo "$child"; fi
  done)
  ticks() { awk '{ sum += $14 + $15 } END { print sum }' "/proc/$pid/stat" "/proc/$guardian/stat"; }
  before=$(ticks); sleep 20; after=$(ticks)
  awk -v t=$((after - before)) -v hz="$(getconf CLK_TCK)" -v n="$name" 'BEGIN {
    p = 100 * t / hz / 20
    printf "%s: throttle itself (%s): %.2f %% of a core (limit 0.5)\n", p < 0.5 ? "holds" : "FAILS", n, p
    exit p >= 0.5 }' || failed=1
  wait "$pid"
}
own_cost counters --source counters
if [ "$(id -u)" = 0 ]; then own_cost events; else echo "SKIP: events need root"; fi

# The same while it holds the command all the time, with a reader.
head -c 64M /dev/zero >"$path/.iolens-bench-read"
(while :; do dd if="$path/.iolens-bench-read" of=/dev/null bs=64k iflag=direct status=none || sleep 1; done) & busy=$!
own_cost "counters, holding" --source counters --low 0 --high 10 --max 11
if [ "$(id -u)" = 0 ]; then own_cost "events of a busy disk, holding" --low 0 --high 10 --max 11; fi
kill "$busy"; busy=""

if [ "$(id -u)" = 0 ] && command -v fio >/dev/null && [ -e /dev/fuse ]; then
  bench/throttle.py || failed=1
else
  echo "SKIP: the experiment needs root, fio and /dev/fuse"
fi
exit $failed
