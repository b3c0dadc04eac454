#!/usr/bin/env bash
# Adds up the results of every test runner in a log and prints them in one line; fails if none ran or any failed.
# A test that passed when it was repeated (ci/cargo-test.sh) counts as flaky, not as failed.
#   ci/totals.sh LOG
set -euo pipefail
awk '
  /^test result:/          { passed += $4; failed += $6 }                 # cargo test
  /^# pass [0-9]+$/        { passed += $3 }                               # node --test
  /^# fail [0-9]+$/        { failed += $3 }
  /^ℹ pass [0-9]+$/        { passed += $3 }
  /^ℹ fail [0-9]+$/        { failed += $3 }
  /^[0-9]+ (passed|failed).* in [0-9.]+s/ {                                # pytest -q
    for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) passed += $(i - 1); if ($i ~ /^failed/) failed += $(i - 1) }
  }
  /SKIP: /                 { skipped++; print "skipped: " substr($0, index($0, "SKIP: ") + 6) }
  /^FLAKY: /               { flaky++; failed--; print "passed only when repeated: " substr($0, 8) }
  END {
    printf "%d passed, %d failed, %d flaky, %d skipped\n", passed, failed, flaky, skipped
    exit (failed > 0 || passed == 0)
  }' "$1"
