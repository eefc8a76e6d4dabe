#!/usr/bin/env bash
# Trains with and without schema-variant augmentation for each seed and prints the
# runs side by side, as mean and standard deviation over the seeds.
#
#   benchmarks/compare.sh 0 1 2            D3ST and T5DST, three seeds
#   FORMATS=d3st benchmarks/compare.sh 0   D3ST only, one seed
set -euo pipefail
formats=${FORMATS:-d3st t5dst}
out=${RUNS:-runs}
[ $# -gt 0 ] || { echo "usage: $0 SEED..." >&2; exit 2; }
for format in $formats; do
  for seed in "$@"; do
    for name in "$format" "${format}_aug"; do
      python -m t5x.train --gin_file="configs/$name.gin" \
        --gin.RANDOM_SEED="$seed" --gin.MODEL_DIR="\"$out/$name-seed$seed\""
    done
  done
done
for format in $formats; do
  runs=()
  for name in "$format" "${format}_aug"; do
    for seed in "$@"; do runs+=("$out/$name-seed$seed"); done
  done
  jaxaug report "${runs[@]}"
done
