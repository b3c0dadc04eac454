#!/bin/sh
# Compiles the BPF programs. The result is checked in, so that `cargo build` needs no clang; it is the same byte for
# byte wherever it is built with the pinned compiler.
#
#   build.sh           writes blkio.bpf.o, blkio-without-fetch.bpf.o and files.bpf.o
#   build.sh --check   builds aside and compares (exit 1 if they differ)
#
# CLANG names the compiler; the pinned one is clang 14 as in Debian 12 (apt-get install clang-14).
set -eu
cd "$(dirname "$0")"
clang=${CLANG:-clang-14}
if ! command -v "$clang" >/dev/null; then
    echo "build.sh: $clang not found; install it (Debian 12: apt-get install clang-14) or set CLANG" >&2
    exit 2
fi
out=.
if [ "${1:-}" = --check ]; then
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi
# compile SOURCE NAME FLAGS...
compile() {
    source=$1
    name=$2
    shift 2
    "$clang" -target bpf "$@" -O2 -g -Wall -Wextra -Werror \
        -Wno-unused-function -Wno-unused-const-variable -Wno-unused-parameter \
        -ffile-prefix-map="$PWD"=. -fdebug-compilation-dir=. \
        -c "$source.bpf.c" -o "$out/$name.bpf.o"
    if [ "$out" != . ] && ! cmp "$name.bpf.o" "$out/$name.bpf.o"; then
        echo "build.sh: the checked-in $name.bpf.o is not what its source compiles to; run crates/observe/bpf/build.sh" >&2
        exit 1
    fi
}
compile blkio blkio -mcpu=v3
# Kernels before 5.12 refuse atomic operations that return a value even where they are never reached, and so does
# the compiler for processor v2.
compile blkio blkio-without-fetch -mcpu=v2 -DWITHOUT_FETCH
compile files files -mcpu=v3
