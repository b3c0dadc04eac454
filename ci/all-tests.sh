#!/usr/bin/env bash
# All tests: Rust, the page, Go and Python. Those in Rust and in a browser wait for disks, timers and each other much of the time, those
# in Python use one CPU: they run beside each other.
# What has not ended after an hour hangs, also on a machine whose CPUs are busy: it is ended, and the rest reports.
#   ci/all-tests.sh PYTHON_VENV
set -uo pipefail
cd "$(dirname "$0")/.."
# The package compares its figures with the program's.
"${CARGO:-cargo}" test --workspace --locked --no-run || exit

# limited COMMAND...: for an hour at most.
limited() {
  timeout --kill-after=10 3600 "$@"
  local status=$?
  [ $status -ne 124 ] || echo "--- FAIL: $1 has not ended after an hour"
  return $status
}

limited ci/python.sh "$1" -q --ignore=tests/test_slow.py >target/python.log 2>&1 &
python=$!
ci/cargo-test.sh
rust=$?
# Slow disks of a fleet are computed: this is apart, since it takes as long as the browser does.
limited ci/python.sh "$1" -q tests/test_slow.py >target/python-slow.log 2>&1 &
slow=$!
limited ci/web-test.sh
web=$?
limited ci/go.sh
go=$?
wait $python
python=$?
wait $slow
slow=$?
cat target/python.log target/python-slow.log
for status in $rust $web $go $python $slow; do [ "$status" -eq 0 ] || exit "$status"; done
