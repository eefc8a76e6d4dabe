#!/usr/bin/env bash
# Ends the program, which saves, and gives the TPU back; from then on it costs nothing.
set -euo pipefail

# shellcheck disable=SC2016  # Expanded by the workers.
gcloud compute tpus tpu-vm ssh "$JAXAUG_NAME" --worker=all --command='
  pkill -TERM -f "python -m t5x[.]" || exit 0
  for _ in $(seq 60); do
    [ -e run.status ] && break
    sleep 5
  done
' || echo "$JAXAUG_NAME: not reachable; deleting it" >&2
gcloud compute tpus queued-resources delete "$JAXAUG_NAME" --force --quiet
