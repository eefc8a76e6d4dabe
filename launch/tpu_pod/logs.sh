#!/usr/bin/env bash
# Follows the log of worker 0; Ctrl-C leaves the run alone.
set -euo pipefail

gcloud compute tpus tpu-vm ssh "$JAXAUG_NAME" --worker=0 \
  --command='tail -n 100 -F run.log'
