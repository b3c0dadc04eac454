#!/usr/bin/env bash
# Bundles the pages. An unchanged page keeps its modification time, so that cargo does not rebuild the program.
set -euo pipefail
cd "$(dirname "$0")/../web"
[ -f package.json ] || exit 0
if [ ! -d node_modules ] || [ package-lock.json -nt node_modules ]; then
  echo "npm ci"
  npm ci --silent --no-audit --no-fund
  touch node_modules
fi
npm run --silent build
