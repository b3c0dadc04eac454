#!/usr/bin/env bash
# All Rust tests. A failed integration test is repeated alone, at most twice: it shares disks, clocks and CPUs with
# the others and with other load on the machine. If it passes then, it is counted as flaky and named (ci/totals.sh).
# Unit tests are never repeated, and neither are more failures than a busy machine explains.
#   ci/cargo-test.sh [--no-run]      with --no-run they are only built
set -uo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
simulations_log=$(mktemp)
trap 'rm -f "$log" "$simulations_log"' EXIT
cargo=${CARGO:-cargo}
export CARGO_TERM_COLOR=never
run=("$cargo" test --workspace --locked --no-fail-fast)

# Of the examples only the one that the page's tests run; clippy checks all of them.
build() {
  "$cargo" test --workspace --locked --no-run --lib --bins --tests &&
    "$cargo" build --workspace --locked --example html_report
}
build || exit
[ "${1:-}" = --no-run ] && exit

# Simulations of the core, and examples in the documentation, need no disk and no clock: they use the remaining CPU
# time. One at a time, so that the load of the machine stays low enough for disks with a programmed time.
simulations() {
  chrt --idle 0 "${run[@]}" --test integration -- --show-output --test-threads=1
  local status=$?
  chrt --idle 0 "${run[@]}" --doc -- --show-output && return $status
}

# All others. Most of them wait for disks and timers, not for a CPU: three at once take less time than two on 2 CPUs.
others() {
  ci/logged.sh "$log" "${run[@]}" --lib --bins --test '[!i]*' --test 'io*' -- --show-output --test-threads=3
}

simulations >"$simulations_log" 2>&1 &
simulated=$!
others
status=$?
wait $simulated || status=$?
cat "$simulations_log"
[ $status -eq 0 ] && exit 0
cat "$simulations_log" >>"$log"

# Lines of "TARGET TEST" for integration tests, "unit TEST" for the others.
failed=$(awk '
  / Running unittests / || / Doc-tests / { target = "unit" }
  / Running tests\// { target = $2; sub(/^tests\//, "", target); sub(/\/main\.rs$|\.rs$/, "", target) }
  /^test .* \.\.\. FAILED$/ { print target, $2 }
' "$log")
count=$(printf '%s' "$failed" | grep -c .)
# As many targets as cargo lists: a crashed target has no line for the test in which it crashed.
targets=$(cut -d' ' -f1 <<<"$failed" | sort -u | wc -l)
listed=$(grep -c '^    `-p ' "$log")
if [[ $count -eq 0 || $count -gt 8 || $targets -ne $listed ]] || grep -q '^unit ' <<<"$failed"; then exit 1; fi

status=0
while read -r target test; do
  for try in 2 3; do
    echo "REPEAT: $target $test, try $try"
    # Its own result is not added to the totals; the line is printed below.
    if ci/logged.sh "$log" "$cargo" test --workspace --locked --test "$target" -- --exact "$test" --test-threads=1 --nocapture </dev/null |
      sed 's/^test result:/repeated:/'; then
      echo "FLAKY: $test"
      continue 2
    fi
  done
  status=1
done <<<"$failed"
exit $status
