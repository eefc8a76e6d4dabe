#!/usr/bin/env bash
# Trains D3ST on MiniSGD with every set of training schemas and each seed, and prints
# the runs side by side, as mean and standard deviation over the seeds:
#
#   sgd      the originals only         tree_6x  + 5 variants by the paraphrase tree
#   eda_6x   + 5 variants by EDA        aug_6x   + 5 variants written by hand
#   sgdx_6x  + the human variants v1..v5 of SGD-X themselves (oracle)
#
#   benchmarks/compare.sh 0 1 2
#   FORMAT=t5dst SETS="sgd tree_6x" benchmarks/compare.sh 0
#
# One run a core at a time: models as small as these gain nothing from a second core.
# Logs lie beside the runs. A run that is complete is not trained again.
set -euo pipefail
export FORMAT=${FORMAT:-d3st} OUT=${RUNS:-runs}
sets=${SETS:-sgd eda_6x tree_6x aug_6x sgdx_6x}
[ $# -gt 0 ] || { echo "usage: $0 SEED..." >&2; exit 2; }
mkdir -p "$OUT"

train() { # SET SEED
  local run="$OUT/${FORMAT}_$1-seed$2" pin=()
  if command -v taskset > /dev/null; then
    pin=(taskset -c "$(python -c "import os; print(sorted(os.sched_getaffinity(0))[$CORE])")")
  fi
  echo "training $run"
  "${pin[@]}" python -m t5x.train --gin_file="configs/${FORMAT}_aug.gin" \
    --gin.MIXTURE_OR_TASK_NAME="'${FORMAT}_$1'" \
    --gin.RANDOM_SEED="$2" --gin.MODEL_DIR="'$run'" > "$run.log" 2>&1 ||
    { tail -n 3 "$run.log" >&2; return 255; }
}
export -f train

runs=()
for seed in "$@"; do
  for set in $sets; do
    echo "$set $seed"
    runs+=("$OUT/${FORMAT}_$set-seed$seed")
  done
done > "$OUT/compare.txt"
xargs -P "$(nproc)" --process-slot-var=CORE -L 1 bash -c 'train "$0" "$1"' < "$OUT/compare.txt"
jaxaug report "${runs[@]}"
