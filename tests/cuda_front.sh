#!/bin/sh
# cuda_front.sh: nvcc's front end on what runs on a device, without the minutes that code takes: the
# host's half sees names there which g++ with the emulation does not (CUDA's own, both halves').
#   sh tests/cuda_front.sh [file ...]   exit status 1: a file has an error, 77: there is no nvcc
set -u
cd "$(dirname "$0")/.." || exit 2
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || {
  echo 'skipped: no nvcc'
  exit 77
}
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM
failed=0
PATH="$PATH:$(dirname "$nvcc")"
[ $# -gt 0 ] || set -- tests/test_cuda*.cpp bench/gpu_fast.cu examples/lm_cuda.cu
for file in "$@"; do
  model=-DMIRAS_NO_MODEL
  case $file in
    *_limits.cpp) continue ;;   # is about the emulation's card
    *_model.cpp|*_kernels.cpp|*_fast.cpp|*fast.cu|*lm_cuda.cu) model= ;;
  esac
  # of what nvcc would run: the host's preprocessor, which comes first, and the front end behind it
  # shellcheck disable=SC2086 # the flag may be none
  TMPDIR="$folder" "$nvcc" --dryrun -std=c++17 -w -rdc=true -arch=sm_90 $model -x cu -c \
    -o "$folder/object" "$PWD/$file" 2>&1 |
    awk '/^#. (gcc|cudafe\+\+) / { print substr($0, 4) } / cudafe\+\+ / { exit }' >"$folder/steps"
  grep -q '^cudafe++' "$folder/steps" || { echo "$file: nvcc names no front end"; exit 2; }
  if (cd "$folder" && sh -e ./steps) >"$folder/said" 2>&1; then
    echo "$file: fine"
  else
    head -n 30 "$folder/said"
    failed=1
  fi
done
exit $failed
