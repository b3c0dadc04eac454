#!/usr/bin/env bash
# Builds the wheel of the Python package: pure Python, identical bytes from the same commit.
#   ci/wheel.sh VENV DIR      VENV is created if needed
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(realpath -m "$1") out=$(realpath -m "$2")
if ! command -v python3 >/dev/null; then echo "SKIP: wheel: python3 is missing"; exit 0; fi
if ! "$venv/bin/python" -c 'import build, hatchling' 2>/dev/null; then
  { [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"; } && "$venv/bin/pip" install -q --disable-pip-version-check build hatchling ||
    { echo "SKIP: wheel: build and hatchling could not be installed"; exit 0; }
fi
mkdir -p "$out"
rm -f "$out"/iolens-*.whl
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) "$venv/bin/python" -m build --wheel --no-isolation --outdir "$out" python >/dev/null
ls "$out"/iolens-*.whl
