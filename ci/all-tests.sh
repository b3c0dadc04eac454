#!/usr/bin/env bash
# All tests: Rust, then the page, Go and Python. Those in Python use one CPU, those in a browser wait most of the time: they run
# beside each other. Slow disks of a fleet are computed once the browser is done, beside what is left in Python.
# What has not ended after an hour and a half hangs, also on a machine that is busy otherwise: it is ended, and the rest reports.
#   ci/all-tests.sh PYTHON_VENV
set -uo pipefail
cd "$(dirname "$0")/.."
ci/cargo-test.sh || exit

# limited COMMAND...: for an hour and a half at most.
limited() {
  timeout --kill-after=10 5400 "$@"
  local status=$?
  [ $status -ne 124 ] || echo "--- FAIL: $1 has not ended after 90 minutes"
  return $status
}

limited ci/python.sh "$1" -q --ignore=tests/test_slow.py >target/python.log 2>&1 &
python=$!
limited ci/web-test.sh && limited ci/go.sh
others=$?
limited ci/python.sh "$1" -q tests/test_slow.py
slow=$?
wait $python
python=$?
cat target/python.log
[ $others -eq 0 ] && [ $python -eq 0 ] && [ $slow -eq 0 ]
