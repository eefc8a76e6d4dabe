#!/usr/bin/env bash
# Trains D3ST on MiniSGD with every set of training schemas and each seed. The result is a
# page with means, 95% intervals, significant differences, and plots.
#
#   sgd      the originals only         tree_6x  + 5 variants by the grammar and `spread`
#   eda_6x   + 5 variants by EDA        aug_6x   + 5 variants written by hand
#   sgdx_6x  + the human variants v1..v5 of SGD-X themselves (oracle)
#
#   benchmarks/compare.sh               seeds 0 to 4
#   benchmarks/compare.sh --left        prints the missing runs; trains nothing
#   FORMAT=t5dst SETS="sgd tree_6x" benchmarks/compare.sh 0
#   SETS=curricula benchmarks/compare.sh    tree_6x's variants as a plain mixture and in
#                  cyclic, gradual, inverse, and random order, with equal updates
#   WITH="--gin_file=configs/runs/sgd_mini.gin" benchmarks/compare.sh    words for all runs
#
# Each core trains one run at a time, because such small models gain little from a second
# core. If a single run would remain at the end, the first run uses all cores. Logs are next
# to the runs. Finished runs with the same configuration are not trained again, and
# interrupted runs resume. The page is compare_FORMAT.html, or compare_curricula.html.
set -euo pipefail
export FORMAT=${FORMAT:-d3st} OUT=${RUNS:-runs}
# Of a run that was stopped from outside (SIGTERM): it is not finished.
export T5X_STOPPED_STATUS=75
sets=${SETS:-sgd eda_6x tree_6x aug_6x sgdx_6x}
page=$FORMAT
if [ "$sets" = curricula ]; then
  page=curricula sets="mixture cyclic gradual inverse random"
fi
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
list="$OUT/compare_$page.txt"
# Another configuration makes a finished run stale, and so do other data, another `mini`.
data=${JAXAUG_DATA_DIR:-jaxaug/data/minisgd.tar.xz}
STATE=$({ find configs -name '*.gin' -print0; find -L "$data" -name '*.json' -print0 -o -name '*.xz' -print0
          find jaxaug/models/named/mini -type f ! -name README.md -print0; } |
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

arguments() { # SET: what T5X is told, one word a line
  case $1 in
    mixture) # as many updates as the schedules have
      steps=$(sed -n 's/^TRAIN_STEPS = //p' configs/d3st_cyclic.gin)
      printf '%s\n' "--gin_file=configs/${FORMAT}_aug.gin" \
        --gin.TRAIN_STEPS="$steps" --gin.EVAL_PERIOD="$steps" ;;
    cyclic | gradual | inverse | inverse_cyclic | two_stage | random)
      printf '%s\n' "--gin_file=configs/${FORMAT}_cyclic.gin" \
        --gin_file="configs/curriculum/$1.gin" ;;
    *)
      printf '%s\n' "--gin_file=configs/${FORMAT}_aug.gin" \
        --gin.MIXTURE_OR_TASK_NAME="'${FORMAT}_$1'" ;;
  esac
  # shellcheck disable=SC2086
  [ -z "${WITH:-}" ] || printf '%s\n' $WITH
}

train() { # SET SEED
  local run="$OUT/${FORMAT}_$1-seed$2" pin=() words=()
  finished "$run" && return
  if [ -n "${CORE:-}" ] && command -v taskset > /dev/null; then
    pin=(taskset -c "$(python -c "import os; print(sorted(os.sched_getaffinity(0))[$CORE])")")
  fi
  echo "training $run"
  mapfile -t words < <(arguments "$1")
  "${pin[@]}" python -m t5x.train "${words[@]}" \
    --gin.RANDOM_SEED="$2" --gin.MODEL_DIR="'$run'" > "$run.log" 2>&1 ||
    { tail -n 3 "$run.log" >&2; return 255; }
  echo "$STATE" > "$run/compare.finished"
  echo "finished $run in ${SECONDS}s; left: $(left | wc -l)"
}
export -f train arguments finished left

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
if [ $(($(left | wc -l) % $(nproc))) -eq 1 ]; then
  while read -r set seed; do
    finished "$OUT/${FORMAT}_$set-seed$seed" || { CORE="" train "$set" "$seed"; break; }
  done < "$list"
fi
xargs -P "$(nproc)" --process-slot-var=CORE -L 1 bash -c 'train "$0" "$1"' < "$list"
page="$OUT/compare_$page"
jaxaug report "${runs[@]}" --html "$page.html" --csv "$page.csv" --png "$page.png"
