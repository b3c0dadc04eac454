#!/usr/bin/env bash
# The Python package (python/): environment, style, types, tests, wheel. Compares its figures with the program's if that is built.
#   ci/python.sh VENV [PYTEST-OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(realpath -m "$1")
shift
if ! command -v python3 >/dev/null; then echo "SKIP: python: python3 is missing"; exit 0; fi
if ! "$venv/bin/python" -c 'import duckdb, hatchling, mypy, numpy, pyarrow, pytest' 2>/dev/null; then
  echo "making a Python environment for the package in $venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check duckdb pyarrow numpy ruff mypy pytest hatchling build
fi
for program in target/release/iolens target/debug/iolens; do
  [ -z "${IOLENS:-}" ] && [ -x "$program" ] && export IOLENS=$PWD/$program
done
cd python
"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
"$venv/bin/mypy"
PYTHONPATH=src "$venv/bin/python" -m pytest "$@"
"$venv/bin/python" -m build --wheel --no-isolation --outdir ../target/wheel . >/dev/null
ls ../target/wheel/*.whl
