#!/usr/bin/env bash
# Runs a command with its output in LOG, and prints that output as it comes. Processes that the command leaves behind
# are named and ended. It uses a file and not a pipe: a process left by a test keeps a pipe open, and its reader would
# wait for ever.
#   ci/logged.sh LOG COMMAND...
set -uo pipefail
log=$1
shift
: >"$log"

# tail shows the rest and ends when this process has ended.
sleep infinity >/dev/null 2>&1 &
running=$!
tail --pid=$running --sleep-interval=0.2 -n +1 -f "$log" &
shown=$!
trap 'kill $running 2>/dev/null' EXIT

"$@" >>"$log" 2>&1
status=$?

for process in /proc/[0-9]*; do
  [ "$process/fd/1" -ef "$log" ] || [ "$process/fd/2" -ef "$log" ] || continue
  echo "LEFT BEHIND: process ${process#/proc/}: $(tr '\0' ' ' <"$process/cmdline" | cut -c 1-200)" >>"$log"
  kill -KILL "${process#/proc/}"
done 2>/dev/null

kill $running
wait $shown
exit $status
