#!/usr/bin/env bash
# The Go module (go/) and the adapter for AIStore (examples/go/aistore): format, vet, tests, race detector, other systems.
#   ci/go.sh [GO-TEST-OPTION...]
set -uo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/go/bin
if ! command -v go >/dev/null; then echo "SKIP: go: go is missing"; exit 0; fi
# No dependencies, no other toolchain, no network.
export GOTOOLCHAIN=local GOPROXY=off GOFLAGS=-mod=mod GOWORK=off
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
for program in target/release/iolens target/debug/iolens; do
  [ -z "${IOLENS:-}" ] && [ -x "$program" ] && export IOLENS=$PWD/$program
done

# check WHAT COMMAND...: prints nothing unless it fails.
check() {
  local what=$1
  shift
  "$@" >"$log" 2>&1 && return
  cat "$log"
  echo "--- FAIL: $what"
  status=1
}

for module in go examples/go/aistore; do
  [ -f "$module/go.mod" ] || continue
  pushd "$module" >/dev/null
  unformatted=$(gofmt -l .)
  [ -z "$unformatted" ] || { echo "--- FAIL: $module: gofmt -l: $unformatted"; status=1; }
  check "$module: go vet" go vet ./...
  # As object stores are built: without cgo, also on systems without support for reading disks.
  check "$module: linux, arm64" env CGO_ENABLED=0 GOARCH=arm64 go build ./...
  check "$module: darwin" env CGO_ENABLED=0 GOOS=darwin go vet ./...

  if CGO_ENABLED=0 go test -count=1 -v "$@" ./... >"$log" 2>&1; then
    grep -E '^--- PASS: |^ .*SKIP: ' "$log"
  else
    cat "$log"
    grep -q '^--- FAIL: ' "$log" || echo "--- FAIL: $module: go test"
    status=1
  fi
  if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
    check "$module: go test -race" env IOLENS= go test -count=1 -race ./...
  else
    echo "SKIP: $module: the race detector needs a C compiler"
  fi
  popd >/dev/null
done
exit $status
