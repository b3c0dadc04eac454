#!/bin/sh
# Cost of `iolens report --json`: growth from 1 to 50 million I/Os, memory, and compared with `blkparse | btt` on one
# load. CPU time does not depend on other load, wall-clock time does. The report has four threads; blkparse and btt
# have one each and run one after the other, because btt reads the output of blkparse.
#
#   bench/report.sh [IOLENS]      (default: target/release/iolens; MILLIONS="1 10 50", TRACED=2000000 I/Os for btt)
#
# Target: 10 million in under 4 s and 512 MiB on 2 cores; linear growth; at least 10 times less per I/O than blkparse and btt;
# of 500 devices 1 million in 3 s of CPU, 256 MiB and 2 MB of JSON.
set -eu
cd "$(dirname "$0")/.."
iolens=$(realpath "${1:-target/release/iolens}")
millions=${MILLIONS:-1 10 50}
traced=${TRACED:-2000000}
cargo build --release --quiet -p iolens-core --example store_cost
maker=${CARGO_TARGET_DIR:-target}/release/examples/store_cost
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints: wall s, CPU s of all threads, CPU s of the busiest, peak MiB. Threads are sampled while they run.
watch() {
	python3 - "$@" <<'PY'
import os, subprocess, sys, threading, time
started = time.monotonic()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
threads = {}


def sample():
    """CPU time of each thread, as long as there are any."""
    while True:
        try:
            for tid in os.listdir(f"/proc/{child.pid}/task"):
                with open(f"/proc/{child.pid}/task/{tid}/schedstat") as file:
                    threads[tid] = int(file.read().split()[0])
        except (OSError, IndexError, ValueError):
            pass
        time.sleep(0.01)


threading.Thread(target=sample, daemon=True).start()
_, status, usage = os.wait4(child.pid, 0)
wall, cpu = time.monotonic() - started, usage.ru_utime + usage.ru_stime
if status:
    sys.exit(f"{sys.argv[1]} failed")
print(f"{wall:.3f} {cpu:.3f} {max(threads.values(), default=0) / 1e9:.2f} {usage.ru_maxrss / 1024:.0f}")
PY
}

first=
for m in $millions; do
	"$maker" --ios "${m}000000" --dir "$work/rec.iolens" --keep-files --write-only >/dev/null
	set -- $(watch "$iolens" report "$work/rec.iolens" --json)
	echo "$m million I/Os: $1 s, CPU $2 s, its busiest thread $3 s, peak $4 MiB"
	[ -n "$first" ] || first="$2 $m"
	echo "$first $2 $m" | awk '{ printf "  CPU per I/O: %.0f ns, %.2f times that of the smallest\n", $3 * 1000 / $4, ($3 / $4) / ($1 / $2) }'
	rm -rf "$work/rec.iolens"
done

"$maker" --ios 1000000 --devices 500 --seconds 33 --dir "$work/rec.iolens" --keep-files --write-only >/dev/null
set -- $(watch "$iolens" report "$work/rec.iolens" --json)
echo "1 million I/Os on 500 devices: $1 s, CPU $2 s, peak $4 MiB, $("$iolens" report "$work/rec.iolens" --json | wc -c) bytes of JSON"
rm -rf "$work/rec.iolens"

if ! command -v btt >/dev/null || ! command -v blkparse >/dev/null; then
	echo "SKIP: no blkparse and btt to compare with"
	exit 0
fi
bench/blktrace_load.py "$traced" "$work/load"
"$iolens" import "$work/load.blktrace.0" -o "$work/load.iolens" >/dev/null
cat >"$work/btt.sh" <<'SH'
cd "$1" && blkparse -q -i load -O -d load.bin >/dev/null && btt -i load.bin >btt.txt
SH
for round in 1 2 3 4 5; do
	set -- $(watch "$iolens" report "$work/load.iolens" --json)
	ours="$1 $2"
	set -- $(watch sh "$work/btt.sh" "$work")
	echo "$ours $1 $2 $traced" | awk '{
		printf "per I/O: iolens report %.0f ns, of CPU %.0f ns; blkparse | btt %.0f ns, of CPU %.0f ns: ", $1 * 1e9 / $5, $2 * 1e9 / $5, $3 * 1e9 / $5, $4 * 1e9 / $5
		printf "%.1f times, %.1f times\n", $3 / $1, $4 / $2
	}'
done
grep -E '^(Q2Q|Q2C|D2C|I2D)' "$work/btt.txt" | head -4 || true
