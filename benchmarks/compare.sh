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
# A run that is complete is not trained again.
set -euo pipefail
format=${FORMAT:-d3st}
sets=${SETS:-sgd eda_6x tree_6x aug_6x sgdx_6x}
out=${RUNS:-runs}
[ $# -gt 0 ] || { echo "usage: $0 SEED..." >&2; exit 2; }
runs=()
for set in $sets; do
  for seed in "$@"; do
    run="$out/${format}_$set-seed$seed"
    python -m t5x.train --gin_file="configs/${format}_aug.gin" \
      --gin.MIXTURE_OR_TASK_NAME="'${format}_$set'" \
      --gin.RANDOM_SEED="$seed" --gin.MODEL_DIR="'$run'"
    runs+=("$run")
  done
done
jaxaug report "${runs[@]}"
