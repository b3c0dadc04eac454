#!/usr/bin/env bash
# Builds the static program for an architecture, amd64 or arm64 (Debian's names; default: this machine's), with its
# debug information beside it. The last line is its path.
#   ci/static-build.sh [ARCH]
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
host=$(rustc -vV | sed -n 's/^host: //p')
case ${1:-} in
  "") target=$host ;;
  amd64) target=x86_64-unknown-linux-gnu ;;
  arm64) target=aarch64-unknown-linux-gnu ;;
  *) echo "static-build.sh: $1: amd64 or arm64" >&2; exit 2 ;;
esac
if [ "$target" != "$host" ]; then
  gnu=${target%%-*}-linux-gnu
  command -v "$gnu-gcc" >/dev/null || { echo "static-build.sh: $gnu-gcc is missing; install gcc-${gnu/x86_64/x86-64}" >&2; exit 1; }
  rustc --print target-libdir --target "$target" | xargs test -d || rustup target add "$target" >&2
  linker=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")_LINKER
  export "$linker=$gnu-gcc"
fi
RUSTFLAGS="-C target-feature=+crt-static" $CARGO build --release --locked -p iolens --target "$target" >&2
program=target/$target/release/iolens
ci/split-debug.sh "$program"
echo "$program"
