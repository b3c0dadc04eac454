#!/usr/bin/env bash
# Tests of the report's page: unit tests in node, the page itself in headless Chromium.
set -euo pipefail
cd "$(dirname "$0")/../web"
[ -f package.json ] || exit 0
if ! command -v npm >/dev/null; then echo "SKIP: web: npm is missing"; exit 0; fi
npm run --silent test
