#!/usr/bin/env bash
# Runs a command with its output in LOG, and shows that output as it comes. What the command leaves behind is named and ended.
# A file and not a pipe: a process that a test left behind keeps a pipe open, and who reads it then waits for ever.
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
