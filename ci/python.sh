#!/usr/bin/env bash
# The Python package (python/): environment, style, types, tests, wheel. Compares its figures with the program's if that is built.
#   ci/python.sh VENV [PYTEST-OPTION...]      with the options -m spark on a Spark cluster of its own; with tests/FILE these tests alone
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(realpath -m "$1")
shift
case " $* " in *" spark "*) extra=spark ;; *) extra= ;; esac
ci/python-venv.sh "$venv" $extra || { [ $? -eq 3 ] && exit 0; exit 1; }

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
