#!/usr/bin/env bash
# Adds up the results of every test runner in a log and prints them in one line; fails if none ran or any failed.
# The failed tests come before that line, each with its output, so that the end of a long log is sufficient.
# A test that passed when it was repeated (ci/cargo-test.sh) counts as flaky, not as failed.
#   ci/totals.sh LOG
set -euo pipefail

# The output of cargo test for a failed test: "---- NAME stdout ----" and the lines until the next heading. Passed
# tests have such blocks too (--show-output), so the names of the failed ones are collected first.

awk '
  FNR == NR { if ($0 ~ /^test .* \.\.\. FAILED$/) failed[$2] = 1; next }
  /^---- .* stdout ----$/ { shown = ($2 in failed); lines = 0 }
  /^(successes|failures):$/ || /^test result:/ { shown = 0 }
  shown && lines++ < 40 { print }
' "$1" "$1"

awk '
  /^test result:/          { passed += $4; failed += $6 }                 # cargo test
  /^# pass [0-9]+$/        { passed += $3 }                               # node --test
  /^# fail [0-9]+$/        { failed += $3 }
  /^ℹ pass [0-9]+$/        { passed += $3 }
  /^ℹ fail [0-9]+$/        { failed += $3 }
  /^--- PASS: /            { passed++ }                                   # go test -v
  /^--- FAIL: /            { failed++ }
  /^[0-9]+ (passed|failed).* in [0-9.]+s/ {                                # pytest -q
    for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) passed += $(i - 1); if ($i ~ /^failed/) failed += $(i - 1) }
  }
  /SKIP: /                 { skipped++; print "skipped: " substr($0, index($0, "SKIP: ") + 6) }
  /^LEFT BEHIND: /         { print "a test left behind " substr($0, 14) }
  /^FLAKY: /               { flaky++; failed--; print "passed only when repeated: " substr($0, 8) }
  END {
    printf "%d passed, %d failed, %d flaky, %d skipped\n", passed, failed, flaky, skipped
    exit (failed > 0 || passed == 0)
  }' "$1"
