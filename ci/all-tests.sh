#!/usr/bin/env bash
# All tests: Rust, then the page, Go and Python. Those in Python use one CPU, those in a browser wait most of the time: they run
# beside each other.
#   ci/all-tests.sh PYTHON_VENV
set -uo pipefail
cd "$(dirname "$0")/.."
ci/cargo-test.sh || exit

ci/python.sh "$1" -q >target/python.log 2>&1 &
python=$!
ci/web-test.sh && ci/go.sh
others=$?
wait $python
python=$?
cat target/python.log
[ $others -eq 0 ] && [ $python -eq 0 ]
