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

cargo build --quiet --release -p iolens-observe --example poll_cost
sleeper=target/release/examples/poll_cost

# Nanoseconds on a processor per sample, after the first (`schedstat` counts them exactly): ours, the reference's, and
# what waking once a second costs by itself, all three at the same time.
compare() {
	what=$1
	shift
	"$sleeper" --sleep & bare=$!
	sleep 0.3
	"$iolens" iostat "$@" 1 >/dev/null 2>&1 & ours=$!
	sleep 0.3
	iostat "$@" 1 >/dev/null 2>&1 & theirs=$!
	sleep 1.2
	for p in $bare $ours $theirs; do cut -d' ' -f1 /proc/$p/schedstat; done >"$work/before"
	sleep "$samples"
	for p in $bare $ours $theirs; do cut -d' ' -f1 /proc/$p/schedstat; done >"$work/after"
	rss=$(grep VmHWM /proc/$ours/status | tr -dc 0-9)
	kill $bare $ours $theirs
	wait 2>/dev/null || true
	paste "$work/before" "$work/after" | awk -v w="$what" -v n="$samples" -v r="$rss" '
		{ us[NR] = ($2 - $1) / n / 1000 }
		END { printf "%-32s %6.0f us, reference %6.0f us per sample: ratio %.3f; less the wake-up (%.0f us): %.3f; RSS %d KiB\n",
			w, us[2], us[3], us[2] / us[3], us[1], (us[2] - us[1]) / (us[3] - us[1]), r }'
}

devices=$(ls /sys/block | wc -l)
compare "-x, $devices devices of this machine" -x
compare "-x ALL, $devices devices" -x ALL
compare "-x, 500 devices (-f)" -x -f "$work/500"
compare "-x -p ALL, 500 devices (-f)" -x -f "$work/500" -p ALL

# Start to end of one report, in turns; medians.
n=0
while [ $n -lt 150 ]; do
	t0=$(date +%s%N)
	iostat -x >/dev/null
	t1=$(date +%s%N)
	"$iolens" iostat -x >/dev/null
	t2=$(date +%s%N)
	echo "$((t1 - t0))" >>"$work/theirs"
	echo "$((t2 - t1))" >>"$work/ours"
	n=$((n + 1))
done
theirs=$(sort -n "$work/theirs" | sed -n 75p)
ours=$(sort -n "$work/ours" | sed -n 75p)
awk -v o="$ours" -v t="$theirs" 'BEGIN { printf "start to end of one report: %.2f ms, reference %.2f ms: ratio %.3f\n", o / 1e6, t / 1e6, o / t }'

"$sleeper"

# The same poll of 500 devices that the kernel really has to print: loop devices without a file behind them, for a moment.
if [ -w /dev/loop-control ] && command -v python3 >/dev/null; then
	python3 - "$sleeper" <<'PYTHON'
import fcntl, os, subprocess, sys
ADD, REMOVE = 0x4C80, 0x4C81
control = os.open("/dev/loop-control", os.O_RDWR)
added = []
try:
    for i in range(4000, 4500):
        fcntl.ioctl(control, ADD, i)
        added.append(i)
    subprocess.run([sys.argv[1], "--all"], check=True)
finally:
    for i in added:
        try:
            fcntl.ioctl(control, REMOVE, i)
        except OSError as e:
            print(f"loop{i} could not be removed: {e}", file=sys.stderr)
PYTHON
else
	echo "SKIP: 500 real devices: /dev/loop-control cannot be written"
fi

# Both programs on one device under fio, value by value; IOLENS_FULL=1 for the whole minute.
bench/iostat_live.py "$iolens"
