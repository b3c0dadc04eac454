#!/usr/bin/env bash
# Installs the wheel of a directory into a new environment, as a user would, and queries a recording and a root with
# it.
#   packaging/wheel_test.sh DIR [IOLENS ROOT]     DIR contains the wheel; `IOLENS query` is also run on the recording
# root ROOT
# Needs Python with venv, and a package index for duckdb and pyarrow; says SKIP without them.
set -euo pipefail
wheels=$(realpath "$1") program=${2:-} root=${3:-}
cd "$(dirname "$0")/.."
skip() { echo "SKIP: wheel: $*"; exit 0; }
wheel=$(find "$wheels" -name 'iolens-*.whl' | head -1)
[ -n "$wheel" ] || skip "$wheels holds none"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv" 2>/dev/null || skip "python3 with venv is missing"
"$work/venv/bin/pip" install -q --disable-pip-version-check "$wheel" 2>"$work/pip" || skip "$(tail -1 "$work/pip")"
PATH=$work/venv/bin:$PATH
unset PYTHONPATH

recording=$PWD/fixtures/recordings/v1/finished.iolens
asked="select count(*) as ios from ios"
expect() { # WHAT IT PRINTED, WHAT IT SHOULD
  [ "$1" = "$2" ] || { printf 'FAIL: wheel: not %q but %q\n' "$2" "$1" >&2; exit 1; }
}
cd "$work"
expect "$(iolens-lake query "$recording" "$asked" --format csv)" $'ios\n200'
expect "$(python -m iolens query "$recording" "$asked" --format csv)" $'ios\n200'
python - "$recording" <<'PY'
import sys
import iolens
from pathlib import Path
assert "site-packages" in iolens.__file__, iolens.__file__
assert (Path(iolens.__file__).parent / "py.typed").is_file()
r = iolens.open(sys.argv[1])
assert r.ios.shape[0] == 200 and r.series(step="10ms").fetchall()
PY
if [ -n "$program" ]; then
  expect "$("$program" query "$recording" "$asked" --format csv)" $'ios\n200'
  counted=$("$program" query "$root" "select count(*) > 0 as some from ios" --format csv)
  expect "$counted" $'some\nTrue'
  iolens-lake hosts "$root"
fi
echo "wheel: installed in a new environment and asked"
