#!/usr/bin/env bash
# The HTML report of an hour at 10 000 I/Os a second: its size, and how long Chromium takes until it is drawn.
#   bench/html.sh [RUNS]
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-5}
[ -f web/dist/file.html ] || ci/web.sh
cargo build --release --locked -q -p iolens --example html_report
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
target/release/examples/html_report "$dir/hour.html" 3600 >/dev/null
printf 'size: %s bytes (target: under 4194304)\n' "$(stat -c %s "$dir/hour.html")"
if ! [ -x "${CHROMIUM:-/usr/bin/chromium}" ] || ! command -v node >/dev/null; then
  echo "SKIP: no Chromium or no node: not drawn"; exit 0
fi
node web/test/render_time.mjs "$dir/hour.html" "$runs"
