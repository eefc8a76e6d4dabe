#!/usr/bin/env bash
# Asks for the TPU as a queued resource and waits until it is there.
set -euo pipefail

spot=()
if ((JAXAUG_SPOT)); then spot=(--spot); fi
gcloud compute tpus queued-resources create "$JAXAUG_NAME" \
  --node-id="$JAXAUG_NAME" \
  --accelerator-type="$JAXAUG_TYPE" \
  --runtime-version="$JAXAUG_VERSION" \
  ${spot[@]+"${spot[@]}"}
while true; do
  state=$(gcloud compute tpus queued-resources describe "$JAXAUG_NAME" \
    --format='value(state.state)')
  case $state in
    ACTIVE) break ;;
    FAILED | SUSPENDING | SUSPENDED)
      echo "$JAXAUG_NAME: $state before it was ready" >&2
      exit 1
      ;;
  esac
  echo "$JAXAUG_NAME: $state" >&2
  sleep 30
done
