#!/bin/sh
# What iolens' iostat costs beside the distribution's, as ratios within one run.
#
#   bench/iostat.sh [IOLENS]      (default: target/release/iolens)
#
# Wanted: CPU per sample at most 0.20 of the reference's at 10 and at 500 devices; start-up no slower; below 4 MiB of
# resident memory; a poll within 1.15 of a bare pread; 1 kHz of one device below 1 % of a core.
set -eu
cd "$(dirname "$0")/.."
iolens=${1:-target/release/iolens}
samples=${SAMPLES:-20}
command -v iostat >/dev/null || { echo "SKIP: no iostat to compare with"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# 500 disks in an alternate statistics directory, all in use.
i=0
while [ $i -lt 500 ]; do
	mkdir -p "$work/500/block/sd$i"
	echo "$((i + 49601)) 2822 3195498 623970 12180 9784 821088 117109 0 32862 714408 8638 547 362610 123000 904 3311" >"$work/500/block/sd$i/stat"
	echo "8 $i sd$i $((i + 49601)) 2822 3195498 623970 12180 9784 821088 117109 0 32862 714408 8638 547 362610 123000 904 3311" >>"$work/500/diskstats"
	i=$((i + 1))
done

# Nanoseconds on a processor per sample, after the first: `schedstat` counts them exactly.
cost() {
	"$@" 1 >/dev/null 2>&1 &
	pid=$!
	sleep 1.5
	read -r before _ </proc/$pid/schedstat
	sleep "$samples"
	read -r after _ </proc/$pid/schedstat
	grep VmHWM /proc/$pid/status | tr -dc 0-9 >"$work/rss"
	kill $pid
	wait $pid 2>/dev/null || true
	echo $(((after - before) / samples))
}

compare() {
	what=$1
	shift
	theirs=$(cost iostat "$@")
	ours=$(cost "$iolens" iostat "$@")
	awk -v w="$what" -v o="$ours" -v t="$theirs" -v r="$(cat "$work/rss")" \
		'BEGIN { printf "%-34s %8.0f us, reference %8.0f us per sample, ratio %.3f, RSS %d KiB\n", w, o / 1000, t / 1000, o / t, r }'
}

devices=$(ls /sys/block | wc -l)
compare "-x, $devices devices of this machine" -x
compare "-x ALL, $devices devices" -x ALL
compare "-x, 500 devices (-f)" -x -f "$work/500"
compare "-x -p ALL, 500 devices (-f)" -x -f "$work/500" -p ALL

startup() {
	start=$(date +%s%N)
	n=0
	while [ $n -lt 200 ]; do
		"$@" >/dev/null
		n=$((n + 1))
	done
	echo $((($(date +%s%N) - start) / 200))
}
theirs=$(startup iostat -x)
ours=$(startup "$iolens" iostat -x)
theirs=$(((theirs + $(startup iostat -x)) / 2))
ours=$(((ours + $(startup "$iolens" iostat -x)) / 2))
awk -v o="$ours" -v t="$theirs" 'BEGIN { printf "start to end of one report: %.2f ms, reference %.2f ms, ratio %.3f\n", o / 1e6, t / 1e6, o / t }'

cargo run --quiet --release -p iolens-observe --example poll_cost
