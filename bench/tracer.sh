#!/bin/sh
# The tracer's cost on a loop disk in memory, driven by fio at its highest IOPS (4 KiB random direct reads, depth 32):
# time in the probes per I/O with and without attribution, and recorded against unrecorded IOPS, interleaved.
# Needs root, losetup, fio; a quiet machine for numbers that mean something.
#
#   bench/tracer.sh [ROUNDS]        rounds of unrecorded, attribution, bare; default 5
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5}
seconds=${SECONDS_PER_RUN:-2}
cargo build --release -q -p iolens-observe --example tracer_cost
tool=${CARGO_TARGET_DIR:-target}/release/examples/tracer_cost
image=$(mktemp /dev/shm/iolens-bench-XXXXXX)
truncate -s 512M "$image"
disk=$(losetup --find --show "$image")
pipe=$(mktemp -u)
mkfifo "$pipe"
trap 'losetup -d "$disk"; rm -f "$image" "$pipe"' EXIT
# Pages that were never written are faster to read than others.
dd if=/dev/urandom of="$disk" bs=1M oflag=direct status=none 2>/dev/null || true

load() { # jobs -> IOPS
    fio --name=b --filename="$disk" --rw=randread --bs=4k --iodepth=32 --ioengine=libaio --direct=1 --size=512m \
        --time_based --runtime="$seconds" --numjobs="$1" --group_reporting --output-format=terse --terse-version=3 |
        cut -d';' -f8
}

traced() { # jobs, options... -> IOPS, with the tool's report on descriptor 3
    jobs=$1
    shift
    "$tool" "${disk#/dev/}" "$@" <"$pipe" >"$pipe.out" 2>"$pipe.err" &
    exec 9>"$pipe"
    while ! grep -q attached "$pipe.err" 2>/dev/null; do sleep 0.05; done
    load "$jobs"
    exec 9>&-
    wait $!
    cat "$pipe.out" >&3
    rm -f "$pipe.out" "$pipe.err"
}

echo "== time in the probes (BPF run-time statistics)"
for options in "attribution measure" "bare measure"; do
    echo "-- $options"
    # shellcheck disable=SC2086
    traced 1 $options 3>&1 >/dev/null
done

for jobs in 1 2; do
    echo "== IOPS with $jobs job(s): unrecorded, with attribution, bare; $rounds rounds of $seconds s"
    for _ in $(seq "$rounds"); do
        a=$(load "$jobs")
        b=$(traced "$jobs" attribution 3>/dev/null)
        a2=$(load "$jobs")
        c=$(traced "$jobs" bare 3>/dev/null)
        echo "$a $b $a2 $c"
    done | awk '{ printf "%s %s %s %s\n", $1, $2, $3, $4; r[NR] = $2 / (($1 + $3) / 2); s[NR] = $4 / $3 }
        function median(x, n,  i, j, t) {
            for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (x[j] < x[i]) { t = x[i]; x[i] = x[j]; x[j] = t }
            return n % 2 ? x[(n + 1) / 2] : (x[n / 2] + x[n / 2 + 1]) / 2
        }
        END { printf "median ratio: with attribution %.3f (%.3f..%.3f), bare %.3f (%.3f..%.3f)\n",
              median(r, NR), r[1], r[NR], median(s, NR), s[1], s[NR] }'
done
