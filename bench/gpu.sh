#!/bin/sh
# gpu.sh: everything about miras_cuda.cuh that takes a GPU, in ten minutes, the most needed first:
# every row against the host, bit for bit; times of all rows; the same under the four tools of
# compute-sanitizer; other builds; other people's kernels. Prints what belongs into
# bench/results/gpu-NAME.md.
#   sh bench/gpu.sh [row ...]  exit status 77: there is no nvcc or no GPU; 1: something failed
#   OUT=folder                 also keeps logs there
#   PYTHON=python3             has torch, and fla if it can; else peers are skipped
# Builds are relocatable (-rdc=true): ptxas takes two minutes for one in one piece, and ten seconds
# so. -fmad=false: nvcc would fuse products and sums that the host keeps apart: other bits.
# A step that fails does not keep the others from running.
set -u
cd "$(dirname "$0")/.." || exit 2
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || { echo 'no nvcc'; exit 77; }
nvidia-smi -L 2>/dev/null || { echo 'no GPU'; exit 77; }
folder=${OUT:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d) || exit 2
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder" || exit 2
trap 'exit 2' HUP INT TERM
failed=0
flags='-O3 -std=c++14 -fmad=false -w -rdc=true'
four=
for arch in 80 90 100 120; do four="$four -gencode arch=compute_$arch,code=sm_$arch"; done
build() {   # program, then flags and a source; its log beside it
  program=$1
  shift
  # shellcheck disable=SC2086 # the flags are meant to split
  "$nvcc" $flags "$@" -o "$folder/$program" >"$folder/$program.log" 2>&1
}
step() {   # words, seconds, command...: its output, or the end of it if it fails
  words=$1 most=$2
  shift 2
  echo "---- $words"
  timeout "$most" "$@" >"$folder/log" 2>&1
  status=$?
  case $status in
    0|77) cat "$folder/log" ;;
    *) tail -n 40 "$folder/log"; echo "FAILED: $words, status $status"; failed=1 ;;
  esac
}
ready() {   # program: is it there, once its build has ended?
  [ -x "$folder/$1" ] && return
  echo "---- $1 was not built:"
  tail -n 20 "$folder/$1.log"
  failed=1
  return 1
}

build test -arch=native -x cu tests/test_cuda.cpp & test=$!
build chunks -arch=native -x cu tests/test_cuda_chunks.cpp & chunks=$!
build perceptrons -arch=native -x cu tests/test_cuda_perceptrons.cpp & perceptrons=$!
build gpu -arch=native bench/gpu.cu & gpu=$!
build few -arch=native -maxrregcount=128 bench/gpu.cu & few=$!
build wide -arch=native -maxrregcount=128 -DMIRAS_CUDA_THREADS=256 bench/gpu.cu & wide=$!
# shellcheck disable=SC2086
build four $four -t 4 -x cu tests/test_cuda.cpp & fat=$!
build whole -rdc=false -arch=native bench/gpu.cu & whole=$!
echo "$("$nvcc" --version | sed -n 's/.*release.* V/nvcc /p'), $(date +%Y-%m-%d), $flags"
nvidia-smi --query-gpu=driver_version,power.limit,clocks.max.sm,clocks.max.mem --format=csv,noheader

wait $test
ready test && step 'every row against the host' 300 "$folder/test"
wait $chunks
ready chunks && step 'chunks on matrix units against the host' 60 "$folder/chunks"
wait $perceptrons
ready perceptrons && step 'perceptrons on matrix units against the host' 60 "$folder/perceptrons"
wait $gpu
if ready gpu; then
  step 'decode' 200 env ONLY=decode "$folder/gpu" "$@"
  step 'decode, states in half the bytes' 60 env HALF=1 "$folder/gpu" retnet gla mamba2 deltanet \
    gated-deltanet kda
  step 'passes' 500 env ONLY=passes "$folder/gpu" "$@"
  matrices='gated-deltanet deltanet retnet mamba2'
  # shellcheck disable=SC2086 # the rows are meant to split
  for products in 2 1; do
    step "passes, products $products" 120 env ONLY=passes PRODUCTS=$products "$folder/gpu" $matrices
    step "passes per channel, products $products" 120 env ONLY=passes CHANNELS=1 \
      PRODUCTS=$products "$folder/gpu" gla kda
    for size in 64 128; do
      step "passes of perceptrons, products $products, $size" 120 env ONLY=passes D=$size \
        PRODUCTS=$products "$folder/gpu" titans yaad ttt-mlp
    done
  done
  step 'decode, 64 x 64' 200 env ONLY=decode D=64 "$folder/gpu" "$@"
fi
sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer) || {
  sanitizer=
  echo '---- there is no compute-sanitizer'
}
for tool in memcheck racecheck synccheck initcheck; do   # shared memory, too, and a perceptron
  [ -z "$sanitizer" ] || ! [ -x "$folder/test" ] && continue
  step "$tool" 120 "$sanitizer" --tool $tool --error-exitcode 9 "$folder/test" linear-attention \
    gated-deltanet ttt-mlp mesa
  step "$tool, chunks" 120 "$sanitizer" --tool $tool --error-exitcode 9 "$folder/chunks" kda \
    deltanet
  step "$tool, perceptrons" 120 "$sanitizer" --tool $tool --error-exitcode 9 \
    "$folder/perceptrons" ttt-mlp
done
compared='gated-deltanet gla ttt-mlp titans'
wait $few $wide
# shellcheck disable=SC2086
{
  ready few && step '128 registers, 128 threads' 120 "$folder/few" $compared
  ready wide && step '128 registers, 256 threads' 120 "$folder/wide" $compared
}
wait $fat
ready four && step 'a build for four GPUs' 60 "$folder/four" gated-deltanet titans
step 'peers' 200 "${PYTHON:-python3}" bench/gpu_peers.py
wait $whole
# shellcheck disable=SC2086
ready whole && step 'a build in one piece' 120 "$folder/whole" $compared
[ $failed = 0 ] && echo 'all done' || echo 'something failed'
exit $failed
