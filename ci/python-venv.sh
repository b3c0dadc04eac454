#!/usr/bin/env bash
# The environment of the Python package (python/). Without it the package's tests are skipped with a message and
# status 3.
#   ci/python-venv.sh VENV [spark]
set -euo pipefail
venv=$(realpath -m "$1")
if ! command -v python3 >/dev/null; then echo "SKIP: python: python3 is missing"; exit 3; fi

# install MODULES PACKAGE...
install() {
  "$venv/bin/python" -c "import $1" 2>/dev/null && return
  echo "installing into $venv: ${*:2}"
  { [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"; } && "$venv/bin/pip" install -q --no-compile --disable-pip-version-check "${@:2}" ||
    { echo "SKIP: python: ${*:2} could not be installed"; exit $([ -n "${SKIP_SETUP:-}" ] && echo 3 || echo 1); }
}
# Only an S3 server is needed from moto: moto[server] would install all services of AWS.
install "build, duckdb, hatchling, matplotlib, moto.server, mypy, numpy, pyarrow, pytest, ruff" \
  build duckdb flask flask-cors hatchling matplotlib "moto[s3]" mypy numpy pyarrow pytest ruff
if [ "${2:-}" = spark ]; then install pyspark "pyspark>=4"; fi
