#!/usr/bin/env bash
# Waits for the run. A TPU that was taken away is requested again, JAXAUG_RESTARTS times at
# most, and the same command resumes from the last checkpoint in the run's folder.
set -euo pipefail

lost=0
restarts=0
stopped=0
unanswered=0
while true; do
  state=LOST
  if ! ((lost)); then
    state=$(gcloud compute tpus queued-resources describe "$JAXAUG_NAME" \
      --format='value(state.state)') || state=UNKNOWN
  fi
  case $state in
    UNKNOWN)
      # Once is nothing; for ten minutes it is the network, or somebody has stopped it.
      unanswered=$((unanswered + 1))
      if ((unanswered == 10)); then
        echo "$JAXAUG_NAME: gcloud does not answer; repeat \`watch\`" >&2
        exit 9
      fi
      ;;
    *) unanswered=0 ;;
  esac
  case $state in
    FAILED | SUSPENDING | SUSPENDED | LOST)
      restarts=$((restarts + 1))
      if ((restarts > JAXAUG_RESTARTS)); then
        echo "$JAXAUG_NAME: $state, and --restarts=$JAXAUG_RESTARTS allows no further" \
          "request" >&2
        exit 1
      fi
      echo "$JAXAUG_NAME: $state; asking for another one" \
        "($restarts of $JAXAUG_RESTARTS)" >&2
      # In the background, for only there `set -e` and `||` go together.
      {
        gcloud compute tpus queued-resources delete "$JAXAUG_NAME" --force --quiet || true
        create
        sync
        run "$@"
      } &
      lost=0
      stopped=0
      wait "$!" || lost=1
      ;;
    ACTIVE)
      # An unreachable worker is asked again: it may be about to be taken away.
      status=$(gcloud compute tpus tpu-vm ssh "$JAXAUG_NAME" --worker=0 \
        --command='cat run.status 2>/dev/null || echo running' || echo unknown)
      case $status in
        running | unknown) ;;
        0)
          # shellcheck disable=SC2034  # Read by end.sh.
          finished=1
          echo "$JAXAUG_NAME: the run is finished" >&2
          exit 0
          ;;
        75)
          # SIGTERM: the TPU is about to go; if it stays, the run goes on there.
          stopped=$((stopped + 1))
          if ((stopped == 5)); then
            stopped=0
            run "$@" &
            wait "$!" || true
          fi
          ;;
        *)
          echo "$JAXAUG_NAME: the run failed with status $status" >&2
          exit 1
          ;;
      esac
      ;;
  esac
  sleep 60
done
