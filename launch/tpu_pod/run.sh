#!/usr/bin/env bash
# Starts the program on every worker and returns. Each writes to run.log in its home, and
# its exit status to run.status when it ends: 75 where SIGTERM stopped it.
set -euo pipefail

printf -v words '%q ' "$@"
line="${JAXAUG_REMOTE_ENV}export JAXAUG_JOIN=auto T5X_STOPPED_STATUS=75"
line+="; cd ~/jaxaug; launch/entry.sh $words; echo \$? >~/run.status"
printf -v line '%q' "$line"
gcloud compute tpus tpu-vm ssh "$JAXAUG_NAME" --worker=all --command="
  rm -f ~/run.status
  nohup bash -c $line >>~/run.log 2>&1 </dev/null &
"
