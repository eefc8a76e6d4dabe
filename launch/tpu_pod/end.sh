#!/usr/bin/env bash
# Says at the end of a command that the TPU costs money, or deletes it as JAXAUG_DELETE says.
# After Ctrl-C, and where gcloud refuses or does not answer (9), nothing is deleted: a run may
# continue without its watcher.
set -euo pipefail

step=
finished=0
ended() {
  local status=$1 delete=0
  trap - EXIT
  case $status in
    0) if ((finished)) && [[ -n $JAXAUG_DELETE ]]; then delete=1; fi ;;
    9 | 130) ;;
    *)
      [[ $step == watch ]] || echo "$JAXAUG_NAME: $step failed with status $status" >&2
      if [[ $JAXAUG_DELETE == always ]]; then
        delete=1
        # The log is lost with the machine.
        gcloud compute tpus tpu-vm ssh "$JAXAUG_NAME" --worker=0 \
          --command='tail -n 50 run.log' >&2 || true
      fi
      ;;
  esac
  if ((delete)) && stop; then
    echo "$JAXAUG_NAME: deleted" >&2
  else
    echo "$JAXAUG_NAME: a TPU that is up costs money until you delete it: $JAXAUG_STOP" >&2
  fi
}
trap 'ended "$?"' EXIT
trap 'exit 130' INT TERM HUP
