#!/usr/bin/env bash
# All tests: Rust, then the page, Go and Python. Browser tests wait most of the time. Python uses the remaining CPU
# time, in two parts: fleets with slow disks, and all other tests. A part that has not ended after 90 minutes hangs,
# even on a busy machine: it is stopped, and the others report.
#   ci/all-tests.sh PYTHON_VENV
set -uo pipefail
cd "$(dirname "$0")/.."
# Python's modules are compiled when they are first imported (ci/venv.sh); the compiled files are kept.
unset PYTHONDONTWRITEBYTECODE
ci/cargo-test.sh || exit

# limited COMMAND...: for at most 90 minutes.
limited() {
  timeout --kill-after=10 5400 "$@"
  local status=$?
  [ $status -ne 124 ] || echo "--- FAIL: $* has not ended after 90 minutes"
  return $status
}

# Created once, before both parts need it. A failure here fails there again, and is reported there.
ci/python-venv.sh "$1" >/dev/null 2>&1
limited nice ci/python.sh "$1" -q --ignore=tests/test_slow.py >target/python.log 2>&1 &
python=$!
limited nice ci/python.sh "$1" -q tests/test_slow.py >target/python-slow.log 2>&1 &
slow=$!
limited ci/web-test.sh && limited ci/go.sh
others=$?
wait $slow
slow=$?
wait $python
python=$?
cat target/python-slow.log target/python.log
[ $others -eq 0 ] && [ $python -eq 0 ] && [ $slow -eq 0 ]
