#!/usr/bin/env bash
# Copies the tracked files of the checkout, as they are, to every worker and installs them.
set -euo pipefail

archive=$(mktemp -d)/jaxaug.tgz
trap 'rm -r "${archive%/*}"' EXIT
git -C "$JAXAUG_ROOT" ls-files -z |
  tar -C "$JAXAUG_ROOT" --null --files-from=- --create --gzip --file="$archive"
gcloud compute tpus tpu-vm scp "$archive" "$JAXAUG_NAME:jaxaug.tgz" --worker=all
# The images have an older Python than we need; uv brings one.
gcloud compute tpus tpu-vm ssh "$JAXAUG_NAME" --worker=all --command='
  set -e
  mkdir -p jaxaug
  tar -xzf jaxaug.tgz -C jaxaug
  cd jaxaug
  python3 -m pip install --quiet --user uv
  [ -x .venv/bin/python ] || python3 -m uv venv --quiet --python 3.11 .venv
  python3 -m uv pip install --quiet --constraint constraints.txt -e ./runtime -e ./papers -e ".[seqio,tpu]"
'
