#!/usr/bin/env bash
# Runs the program in JAXAUG_PROCESS_COUNT processes on this machine and waits for them.
# Process 0 writes to the terminal, the others to JAXAUG_LOGS/process_N.log. When one
# fails the others are stopped; SIGTERM and Ctrl-C reach all of them, which save and end.
set -euo pipefail

pids=()
stopped=
# Once only: a second signal would break into what the first one has begun.
stop() {
  [[ -z $stopped ]] || return 0
  stopped=1
  kill -TERM "${pids[@]}" 2>/dev/null || true
}
trap stop INT TERM

mkdir -p "$JAXAUG_LOGS"
for ((i = 0; i < JAXAUG_PROCESS_COUNT; i++)); do
  [[ -z $stopped ]] || break
  # A GPU for each, where there are any; a CPU does not mind.
  export JAXAUG_PROCESS_INDEX=$i JAX_LOCAL_DEVICE_IDS=$i
  if ((i == 0)); then
    "$JAXAUG_ROOT/launch/entry.sh" "$@" &
  else
    "$JAXAUG_ROOT/launch/entry.sh" "$@" >"$JAXAUG_LOGS/process_$i.log" 2>&1 &
  fi
  pids+=($!)
done
while [[ -n $(jobs -rp) ]]; do
  wait -n || stop
done
status=0
for i in "${!pids[@]}"; do
  code=0
  wait "${pids[i]}" || code=$?
  if ((code)); then
    echo "process $i of $JAXAUG_PROCESS_COUNT ended with status $code" >&2
    ((i == 0)) || tail -n 5 "$JAXAUG_LOGS/process_$i.log" >&2
    status=1
  fi
done
exit "$status"
