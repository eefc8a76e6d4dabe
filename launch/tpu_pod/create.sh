#!/usr/bin/env bash
# Asks for the TPU as a queued resource and waits until it is there. Exits with 9 if gcloud
# refuses the request, for instance because the name is taken, or does not answer.
set -euo pipefail

read -ra options <<<"$JAXAUG_OPTIONS"
gcloud compute tpus queued-resources create "$JAXAUG_NAME" \
  --node-id="$JAXAUG_NAME" \
  --accelerator-type="$JAXAUG_TYPE" \
  --runtime-version="$JAXAUG_VERSION" \
  ${options[@]+"${options[@]}"} || {
  echo "$JAXAUG_NAME: gcloud refused the request" >&2
  exit 9
}
unanswered=0
while true; do
  # A request stays in the queue, and costs money once it is served, whoever asks or not.
  state=$(gcloud compute tpus queued-resources describe "$JAXAUG_NAME" \
    --format='value(state.state)') || state=UNKNOWN
  case $state in
    UNKNOWN) unanswered=$((unanswered + 1)) ;;
    *) unanswered=0 ;;
  esac
  case $state in
    ACTIVE) break ;;
    FAILED | SUSPENDING | SUSPENDED)
      echo "$JAXAUG_NAME: $state before it was ready" >&2
      exit 1
      ;;
  esac
  if ((unanswered == 10)); then
    echo "$JAXAUG_NAME: gcloud does not answer; the request stays" >&2
    exit 9
  fi
  echo "$JAXAUG_NAME: $state" >&2
  sleep 30
done
