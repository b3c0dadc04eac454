#!/usr/bin/env bash
# A Python environment with the Parquet readers and the statistics libraries against which iolens is tested.
#   ci/venv.sh DIR
set -euo pipefail
dir=$1
[ -x "$dir/bin/python" ] && "$dir/bin/python" -c 'import pyarrow, pandas, duckdb, scipy.stats' 2>/dev/null && exit 0
if ! command -v python3 >/dev/null; then echo "python3 is missing: the checks with pyarrow, DuckDB and SciPy will be skipped"; exit 0; fi
echo "making a Python environment with pyarrow, pandas, duckdb and scipy in $dir"
mkdir -p "$(dirname "$dir")"
# Modules are compiled when they are first imported, because most of them never are.
{ python3 -m venv "$dir" && "$dir/bin/pip" install -q --no-compile --disable-pip-version-check pyarrow pandas duckdb scipy; } ||
  {
    echo "pyarrow, pandas, duckdb and scipy could not be installed; SKIP_SETUP=1 goes on without, their checks are then skipped" >&2
    [ -n "${SKIP_SETUP:-}" ]
  }
