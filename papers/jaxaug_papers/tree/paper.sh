#!/usr/bin/env bash
# Fine-tunes a pretrained T5 1.1 on SGD for rows of tables 2 and 7 of Coca et al. (2023).
# It trains one seed after the other, evaluates each run on v1..v5, and compares the runs:
#
#   JAXAUG_DATA_DIR=SGD papers/jaxaug_papers/tree/paper.sh d3st2a "sgd pegasus_2x pegasus_6x" 0 1 2
#   SCALE=base_hf JAXAUG_DATA_DIR=SGD papers/jaxaug_papers/tree/paper.sh t5dst "sgd pegasus_b_4x" 0 1 2
#
# FORMAT is d3st2a (the prompts of the paper's figure 2a), t5dst, or d3st (the prompts of
# Google's script). README.md lists the sets. SCALE is a file of configs/scale, and RUNS the
# folder of the runs. Complete runs are not trained again. --dry_run checks the settings and
# runs nothing.
set -euo pipefail
# Exit status of a run that SIGTERM stopped; later runs must wait.
export T5X_STOPPED_STATUS=75
dry=()
[ "${1:-}" != --dry_run ] || { dry=(--dry_run); shift; }
[ $# -gt 2 ] || { echo "usage: $0 [--dry_run] FORMAT SETS SEED..." >&2; exit 2; }
format=$1 sets=$2 scale=${SCALE:-base} out=${RUNS:-runs}
shift 2
base=${format/#d3st2a/d3st} stacked=()
[ "$format" = "$base" ] || stacked=(--gin_file=configs/runs/figure2a.gin)
runs=()
for seed in "$@"; do
  for set in $sets; do
    run="$out/${format}_$set-$scale-seed$seed" experiment="configs/${base}_aug.gin"
    [ "$set" != sgd ] || experiment="configs/$base.gin"
    runs+=("$run")
    python -m t5x.train "${dry[@]}" --gin_file="$experiment" \
      --gin_file="configs/scale/$scale.gin" "${stacked[@]}" --gin.RANDOM_SEED="$seed" \
      --gin.MIXTURE_OR_TASK_NAME="'${format}_$set'" --gin.MODEL_DIR="'$run'"
    python -m t5x.eval "${dry[@]}" \
      --gin_file="t5x/examples/t5/t5_1_1/${scale%_hf}.gin" \
      --gin_file=configs/runs/robustness.gin --gin.CHECKPOINT_PATH="'$run'" \
      --gin.EVAL_MIXTURE="'${format}_eval'" \
      --gin.TASK_FEATURE_LENGTHS="{'inputs': 1024, 'targets': 256}" \
      --gin.vocabulary.default_vocabulary.path="'${VOCABULARY:-gs://t5-data/vocabs/cc_all.32000.100extra/sentencepiece.model}'"
  done
done
[ ${#dry[@]} -gt 0 ] || jaxaug report "${runs[@]}"
