#!/usr/bin/env bash
# Trains D3ST on MiniSGD with every set of training schemas and each seed, and ends with
# one page: means, 95% intervals, which differences hold, plots.
#
#   sgd      the originals only         tree_6x  + 5 variants by the paraphrase tree
#   eda_6x   + 5 variants by EDA        aug_6x   + 5 variants written by hand
#   sgdx_6x  + the human variants v1..v5 of SGD-X themselves (oracle)
#
#   benchmarks/compare.sh               seeds 0 to 4
#   benchmarks/compare.sh --left        which runs are left; trains nothing
#   FORMAT=t5dst SETS="sgd tree_6x" benchmarks/compare.sh 0
#
# One run a core at a time: models as small as these gain nothing from a second core.
# Logs lie beside the runs. A run that is finished with the same configuration is not
# trained again, one that was interrupted goes on. The page is compare_FORMAT.html.
set -euo pipefail
export FORMAT=${FORMAT:-d3st} OUT=${RUNS:-runs}
sets=${SETS:-sgd eda_6x tree_6x aug_6x sgdx_6x}
train=true
if [ "${1:-}" = --left ]; then
  train=false
  shift
fi
[ $# -gt 0 ] || set -- 0 1 2 3 4
for seed in "$@"; do
  [[ $seed =~ ^[0-9]+$ ]] || { echo "usage: $0 [--left] [SEED]... (got $seed)" >&2; exit 2; }
done
mkdir -p "$OUT"
list="$OUT/compare_$FORMAT.txt"
# Another configuration makes a finished run stale, and so do other data.
data=${JAXAUG_DATA_DIR:-jaxaug/data/minisgd}
STATE=$({ find configs -name '*.gin' -print0; find -L "$data" -name '*.json' -print0; } |
  LC_ALL=C sort -z | xargs -0 cat | cksum)
export STATE list

finished() { # RUN
  [ "$(cat "$1/compare.finished" 2> /dev/null)" = "$STATE" ]
}

left() { # names of the runs that are not finished
  while read -r set seed; do
    finished "$OUT/${FORMAT}_$set-seed$seed" || echo "${FORMAT}_$set-seed$seed"
  done < "$list"
}

train() { # SET SEED
  local run="$OUT/${FORMAT}_$1-seed$2" pin=()
  finished "$run" && return
  if command -v taskset > /dev/null; then
    pin=(taskset -c "$(python -c "import os; print(sorted(os.sched_getaffinity(0))[$CORE])")")
  fi
  echo "training $run"
  "${pin[@]}" python -m t5x.train --gin_file="configs/${FORMAT}_aug.gin" \
    --gin.MIXTURE_OR_TASK_NAME="'${FORMAT}_$1'" \
    --gin.RANDOM_SEED="$2" --gin.MODEL_DIR="'$run'" > "$run.log" 2>&1 ||
    { tail -n 3 "$run.log" >&2; return 255; }
  echo "$STATE" > "$run/compare.finished"
  echo "finished $run in ${SECONDS}s; left: $(left | wc -l)"
}
export -f train finished left

runs=()
for seed in "$@"; do
  for set in $sets; do
    echo "$set $seed"
    runs+=("$OUT/${FORMAT}_$set-seed$seed")
  done
done > "$list"
echo "${#runs[@]} runs, left: $(left | wc -l)"
if ! $train; then
  left
  exit
fi
xargs -P "$(nproc)" --process-slot-var=CORE -L 1 bash -c 'train "$0" "$1"' < "$list"
page="$OUT/compare_$FORMAT"
jaxaug report "${runs[@]}" --html "$page.html" --csv "$page.csv" --png "$page.png"
