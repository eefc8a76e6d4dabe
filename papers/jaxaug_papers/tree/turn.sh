#!/usr/bin/env bash
# Runs one turn of the queue on a machine with JAX and Flax, from the parts that
# jaxaug_papers.tree.pack writes next to this script, whose copy is called turn.sh:
#
#   PACK/turn.sh --minutes 9 --out OUT [options of jaxaug_papers.tree.queue]
#
# It unpacks into PACK/unpacked once, installs the packed wheels there, and starts the
# queue with the unpacked code. $PYTHON is the interpreter, python3 by default.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
place=$here/unpacked
if [[ ! -e $place/complete ]]; then
  (cd "$here" && sha256sum --quiet --check SHA256SUMS) || {
    echo "turn.sh: a part is missing or damaged; bring all parts of SHA256SUMS to $here" >&2
    exit 1
  }
  rm -rf "$place"
  mkdir "$place"
  cat "$here"/part.* | tar -x -C "$place"
  tar -xJf "$place/data.tar.xz" -C "$place" &
  tar -xJf "$place/code.tar.xz" -C "$place"
  wait $!
  if [[ -d $place/wheels ]]; then
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir \
      --target "$place/site" "$place"/wheels/*.whl
  fi
  touch "$place/complete"
fi
export PYTHONPATH=$place:$place/runtime:$place/papers:$place/site PYTHONUNBUFFERED=1
export JAXAUG_CACHE_DIR=${JAXAUG_CACHE_DIR:-$place/cache}
if command -v nvidia-smi >/dev/null; then
  # Trying fewer kernels halves the time to compile and costs little speed.
  XLA_FLAGS="${XLA_FLAGS:-} --xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=2"
  XLA_FLAGS+=" --xla_gpu_experimental_enable_fusion_autotuner=false"
  export XLA_FLAGS
fi
exec "$python" -P -m jaxaug_papers.tree.queue --data_dir "$place/data" \
  --compiled "$place/compiled.tar" "$@"
