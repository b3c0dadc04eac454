#!/bin/sh
# Cost of recording the process that dirties pages of buffered writes: time in the probes per I/O of 4 KiB written back, and the
# time of `dd bs=4k` into the page cache, recorded against unrecorded, interleaved. On ext4 over a loop disk in memory.
# Needs root, losetup, fio; a quiet machine for numbers that mean something.
#
#   bench/dirtiers.sh [ROUNDS]      rounds of unrecorded, with attribution, unrecorded, bare; default 9
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-9}
mib=128
cargo build --release -q -p iolens-observe --example tracer_cost
tool=${CARGO_TARGET_DIR:-target}/release/examples/tracer_cost
image=$(mktemp /dev/shm/iolens-bench-XXXXXX)
truncate -s 1G "$image"
disk=$(losetup --find --show "$image")
dir=$(mktemp -d)
pipe=$dir.pipe
mkfifo "$pipe"
trap 'umount "$dir" 2>/dev/null; losetup -d "$disk"; rm -f "$image" "$pipe" "$pipe".*; rmdir "$dir"' EXIT
mkfs.ext4 -Fq -E lazy_itable_init=0,lazy_journal_init=0 "$disk"
mount "$disk" "$dir"

attach() { # options...
    "$tool" "${disk#/dev/}" "$@" <"$pipe" >"$pipe.out" 2>"$pipe.err" &
    exec 9>"$pipe"
    while ! grep -q attached "$pipe.err" 2>/dev/null; do sleep 0.05; done
}

detach() {
    exec 9>&-
    wait
}

copy() { # -> nanoseconds per page
    rm -f "$dir/copy"
    sync -f "$dir"
    LC_ALL=C dd if=/dev/zero of="$dir/copy" bs=4k count=$((mib * 256)) 2>&1 |
        awk -v pages=$((mib * 256)) '/copied/ { for (i = 1; i < NF; i++) if ($(i + 1) == "s,") printf "%.1f\n", $i * 1e9 / pages }'
}

echo "== time in the probes (BPF run-time statistics): buffered writes of every other 4 KiB, then fsync"
for options in "attribution measure" "bare measure"; do
    echo "-- $options"
    # shellcheck disable=SC2086
    attach $options
    fio --name=b --filename="$dir/sparse" --rw=write:4k --bs=4k --size=${mib}m --ioengine=psync --end_fsync=1 \
        --fallocate=posix --output-format=terse >/dev/null
    detach
    cat "$pipe.out"
    rm -f "$dir/sparse"
done

echo "== ns per page of dd bs=4k into the page cache: unrecorded, with attribution, unrecorded, bare; $rounds rounds"
copy >/dev/null
for _ in $(seq "$rounds"); do
    a=$(copy)
    attach attribution && b=$(copy) && detach
    a2=$(copy)
    attach bare && c=$(copy) && detach
    echo "$a $b $a2 $c"
done | awk '{ print; u[NR] = ($1 + $3) / 2; r[NR] = $2 / u[NR]; s[NR] = $4 / u[NR] }
    function at(x, n, q,  i, j, t) {
        for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (x[j] < x[i]) { t = x[i]; x[i] = x[j]; x[j] = t }
        i = int(1 + q * (n - 1) + 0.5)
        return x[i]
    }
    END { printf "median: unrecorded %.0f ns per page; time with attribution %.3f (%.3f..%.3f), bare %.3f (%.3f..%.3f) of that\n",
          at(u, NR, 0.5), at(r, NR, 0.5), at(r, NR, 0.25), at(r, NR, 0.75), at(s, NR, 0.5), at(s, NR, 0.25), at(s, NR, 0.75) }'
