#!/bin/sh
# Cost of iolens' iostat compared with the distribution's, as ratios within one run.
#
#   bench/iostat.sh [IOLENS]      (default: target/release/iolens)
#
# Target: CPU per sample at most 0.20 of the reference's at 10 and at 500 devices; start-up no slower; below 4 MiB of
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
# The minimum of any program: the wake-up alone, and with the reads and the write of a report (floor.c).
if cc -O2 -static -o "$work/floor" bench/floor.c 2>/dev/null; then
	sleeping="$work/floor 0"
	reading="$work/floor"
else
	echo "SKIP: no C compiler, or no static C library: the floor is the wake-up alone"
	sleeping="$sleeper --sleep"
	reading="$sleeping"
fi

# CPU nanoseconds per sample, after the first (`schedstat` counts them exactly): of iolens, the reference and the
# floor, all at the same time.
compare() {
	what=$1
	shift
	bytes=$("$iolens" iostat "$@" 2>/dev/null | wc -c)
	$sleeping >/dev/null & bare=$!
	sleep 0.2
	$reading "$bytes" >/dev/null & floor=$!
	sleep 0.2
	"$iolens" iostat "$@" 1 >/dev/null 2>&1 & ours=$!
	sleep 0.2
	iostat "$@" 1 >/dev/null 2>&1 & theirs=$!
	sleep 1.2
	for p in $bare $floor $ours $theirs; do cut -d' ' -f1 /proc/$p/schedstat; done >"$work/before"
	sleep "$samples"
	for p in $bare $floor $ours $theirs; do cut -d' ' -f1 /proc/$p/schedstat; done >"$work/after"
	rss=$(grep VmHWM /proc/$ours/status | tr -dc 0-9)
	kill $bare $floor $ours $theirs
	wait 2>/dev/null || true
	paste "$work/before" "$work/after" | awk -v w="$what" -v n="$samples" -v r="$rss" '
		{ us[NR] = ($2 - $1) / n / 1000 }
		END {
			printf "%-32s %6.0f us, reference %6.0f us per sample: ratio %.3f; RSS %d KiB\n", w, us[3], us[4], us[3] / us[4], r
			printf "%-32s %6.0f us of it are the wake-up (without it %.3f); with bare reads and write %.0f us: %.3f of the reference, ours %.2f times that\n",
				"", us[1], (us[3] - us[1]) / (us[4] - us[1]), us[2], us[2] / us[4], us[3] / us[2]
		}'
}

devices=$(ls /sys/block | wc -l)
compare "-x, $devices devices of this machine" -x
compare "-x ALL, $devices devices" -x ALL
compare "-x, 500 devices (-f)" -x -f "$work/500"
compare "-x -p ALL, 500 devices (-f)" -x -f "$work/500" -p ALL

# Duration of one report, ten at a time in turns, so that the overhead of the clock is negligible; medians.
ten() {
	n=0
	while [ $n -lt 10 ]; do
		"$@" >/dev/null
		n=$((n + 1))
	done
}
turn=0
while [ $turn -lt 31 ]; do
	t0=$(date +%s%N)
	ten iostat -x
	t1=$(date +%s%N)
	ten "$iolens" iostat -x
	t2=$(date +%s%N)
	echo "$(((t1 - t0) / 10))" >>"$work/theirs"
	echo "$(((t2 - t1) / 10))" >>"$work/ours"
	turn=$((turn + 1))
done
theirs=$(sort -n "$work/theirs" | sed -n 16p)
ours=$(sort -n "$work/ours" | sed -n 16p)
awk -v o="$ours" -v t="$theirs" 'BEGIN { printf "start to end of one report: %.2f ms, reference %.2f ms: ratio %.3f\n", o / 1e6, t / 1e6, o / t }'

"$sleeper"

# The same poll of 500 devices that the kernel really prints: loop devices without a file, for a minute (the kernel
# removes them slowly).
if [ -w /dev/loop-control ] && command -v python3 >/dev/null; then
	python3 - "$sleeper" <<'PYTHON'
import fcntl, os, signal, subprocess, sys
ADD, REMOVE = 0x4C80, 0x4C81
control = os.open("/dev/loop-control", os.O_RDWR)
added = []
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
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
