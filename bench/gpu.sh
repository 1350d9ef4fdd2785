#!/bin/sh
# gpu.sh: everything about miras_cuda.cuh that takes a GPU: every row against the host, bit for bit;
# the same under compute-sanitizer; then times. Prints what belongs into bench/results/gpu-NAME.md.
#   sh bench/gpu.sh            exit status 77: there is no nvcc or no GPU
set -u
cd "$(dirname "$0")/.." || exit 2
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || { echo 'no nvcc'; exit 77; }
nvidia-smi -L 2>/dev/null || { echo 'no GPU'; exit 77; }
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM
flags="-O3 -std=c++14 -arch=native -w"
"$nvcc" $flags -x cu tests/test_cuda.cpp -o "$folder/test" &
"$nvcc" $flags bench/gpu.cu -o "$folder/gpu" || exit 1
wait
echo "$("$nvcc" --version | tail -n 1), $(date +%Y-%m-%d), $flags"
"$folder/test" || exit 1
sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer)
for tool in memcheck racecheck initcheck synccheck; do
  [ -n "$sanitizer" ] || break
  "$sanitizer" --tool $tool "$folder/test" linear-attention ttt-mlp mesa >"$folder/log" 2>&1 ||
    { tail -n 40 "$folder/log"; exit 1; }
  echo "$tool: $(tail -n 1 "$folder/log")"
done
"$folder/gpu" "$@"
