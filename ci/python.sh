#!/usr/bin/env bash
# The Python package (python/): environment, style, types, tests, wheel. Compares its figures with the program's if that is built.
#   ci/python.sh VENV [PYTEST-OPTION...]      with the options -m spark on a Spark cluster of its own; with tests/FILE these tests alone
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(realpath -m "$1")
shift
if ! command -v python3 >/dev/null; then echo "SKIP: python: python3 is missing"; exit 0; fi

# install MODULES PACKAGE...: what cannot be installed is skipped.
install() {
  "$venv/bin/python" -c "import $1" 2>/dev/null && return
  echo "installing into $venv: ${*:2}"
  { [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"; } && "$venv/bin/pip" install -q --disable-pip-version-check "${@:2}" ||
    { echo "SKIP: python: ${*:2} could not be installed"; [ -n "${SKIP_SETUP:-}" ]; exit; }
}
install "build, duckdb, hatchling, matplotlib, moto.server, mypy, numpy, pyarrow, pytest, ruff" \
  build duckdb hatchling matplotlib "moto[server]" mypy numpy pyarrow pytest ruff
case " $* " in *" spark "*) install pyspark "pyspark>=4" ;; esac

for program in target/release/iolens target/debug/iolens; do
  [ -z "${IOLENS:-}" ] && [ -x "$program" ] && export IOLENS=$PWD/$program
done
cd python
case " $* " in *" tests/"*) PYTHONPATH=src exec "$venv/bin/python" -m pytest "$@" ;; esac
"$venv/bin/ruff" check -q .
"$venv/bin/ruff" format -q --check .
"$venv/bin/mypy"
PYTHONPATH=src "$venv/bin/python" -m pytest "$@"
cd ..
ci/wheel.sh "$venv" target/wheel
