#!/usr/bin/env bash
# Sets the environment and becomes `python -m PROGRAM FLAGS`, on every machine of a run:
#
#   launch/entry.sh t5x.train --gin_file=configs/d3st_aug.gin
#
# JAXAUG_JOIN says how the processes of a run find each other:
#   unset       one process
#   auto        JAX asks the TPU's own metadata
#   HOST:PORT   of the first process; JAXAUG_PROCESS_COUNT and JAXAUG_PROCESS_INDEX too
# JAXAUG_PYTHON is the interpreter (default: .venv of the checkout, else python3).
# JAXAUG_DEVICES splits a CPU into that many devices, for trials.
set -euo pipefail

(($# > 0)) || {
  echo "entry.sh: name a program, such as t5x.train, and its flags" >&2
  exit 2
}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${JAXAUG_PYTHON:-$root/.venv/bin/python}
command -v "$python" >/dev/null || python=python3

# Lines reach the log when they are written; TensorFlow's notes on its build do not.
export PYTHONUNBUFFERED=1 TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-3}"
if [[ -n ${JAXAUG_DEVICES:-} ]]; then
  export JAX_PLATFORMS=cpu
  devices=--xla_force_host_platform_device_count=$JAXAUG_DEVICES
  export XLA_FLAGS="${XLA_FLAGS:-} $devices"
fi

join=()
case ${JAXAUG_JOIN:-} in
  '') ;;
  auto) join=(--multiprocess_gpu) ;;
  *)
    join=(
      --multiprocess_gpu
      "--coordinator_address=$JAXAUG_JOIN"
      "--process_count=${JAXAUG_PROCESS_COUNT:?how many processes run}"
      "--process_index=${JAXAUG_PROCESS_INDEX:?the number of this one, from 0}"
    )
    ;;
esac
exec "$python" -m "$@" ${join[@]+"${join[@]}"}
