#!/usr/bin/env bash
# All tests: Rust, then the page, Go and Python. Those in a browser wait most of the time. Python takes what they leave of the
# CPUs, in two parts: fleets with slow disks, and all else.
# What has not ended after an hour and a half hangs, also on a machine that is busy otherwise: it is ended, and the rest reports.
#   ci/all-tests.sh PYTHON_VENV
set -uo pipefail
cd "$(dirname "$0")/.."
# Python's modules are compiled when they are first imported (ci/venv.sh): that is kept.
unset PYTHONDONTWRITEBYTECODE
ci/cargo-test.sh || exit

# limited COMMAND...: for an hour and a half at most.
limited() {
  timeout --kill-after=10 5400 "$@"
  local status=$?
  [ $status -ne 124 ] || echo "--- FAIL: $* has not ended after 90 minutes"
  return $status
}

# Made once, before both parts look for it. What fails here fails there again, and is said there.
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
