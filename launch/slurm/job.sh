#!/usr/bin/env bash
# The batch script of a run on GPUs: one process a node, with all GPUs of the node.
# Slurm queues the job again when it preempts it. When the time is nearly over it sends
# USR1: the processes save, and the job queues itself again. Either way the run goes on
# from its last checkpoint.
set -euo pipefail

nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
export JAXAUG_JOIN="${nodes%%$'\n'*}:$JAXAUG_PORT"
export JAXAUG_PROCESS_COUNT="$SLURM_NNODES"

out_of_time=0
step=
# srun hands SIGTERM on to all processes.
trap 'out_of_time=1; kill -TERM "$step" 2>/dev/null || true' USR1

# shellcheck disable=SC2016  # The index is known on each node only.
srun --kill-on-bad-exit=1 bash -c \
  'JAXAUG_PROCESS_INDEX=$SLURM_PROCID exec "$JAXAUG_ROOT/launch/entry.sh" "$@"' \
  entry "$@" &
step=$!
# The signal may have come before there was a step.
if ((out_of_time)); then kill -TERM "$step" || true; fi
status=0
wait "$step" || status=$?
if ((out_of_time)); then
  # The signal has ended `wait`; asked again it gives the status of the step.
  status=0
  wait "$step" || status=$?
  echo "out of time: queued again" >&2
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
