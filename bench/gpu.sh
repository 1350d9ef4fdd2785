#!/bin/sh
# gpu.sh: everything about miras_cuda.cuh that takes a GPU, the most needed first: the fast tier
# against the host, and its times; every row, model and kernel of the reference tier against the
# host; some of that under the tools of compute-sanitizer; other people's kernels; a build for four
# GPUs. Prints what belongs into bench/results/gpu-NAME.md.
#   sh bench/gpu.sh            exit status 77: there is no nvcc or no GPU; 1: something failed
#   PARTS='fast checks sanitizer peers builds'   which of these; fast: the fast tier, five minutes
#                              with its builds
#   OUT=folder                 also keeps logs there
#   BUILT=folder               programs that are there already are not built
#   PYTHON=python3             has torch, and fla if it can; else peers are skipped
# What is checked runs side by side, what is timed alone.
# Builds are relocatable (-rdc=true): in one piece ptxas takes over ten minutes. -fmad=false: nvcc
# would fuse products and sums that the host keeps apart: other bits.
set -u
cd "$(dirname "$0")/.." || exit 2
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || { echo 'no nvcc'; exit 77; }
nvidia-smi -L 2>/dev/null || { echo 'no GPU'; exit 77; }
parts=" ${PARTS:-fast checks sanitizer peers builds} "
folder=${OUT:-}
if [ -z "$folder" ]; then
  folder=$(mktemp -d) || exit 2
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder" || exit 2
trap 'exit 2' HUP INT TERM
failed=0
flags='-O3 -std=c++17 -fmad=false -w -rdc=true -arch=native'
flags="$flags -split-compile=8 -Xnvlink -suppress-stack-size-warning"
asked() { case $parts in *" $1 "*) return 0 ;; esac; return 1; }
build() {   # program, then flags and a source; its log beside it
  program=$1
  shift
  [ -x "${BUILT:-}/$program" ] && cp "$BUILT/$program" "$folder/$program" && return
  # shellcheck disable=SC2086 # the flags are meant to split
  "$nvcc" $flags "$@" -o "$folder/$program" >"$folder/$program.log" 2>&1
}
ready() {   # program: is it there, now that its build has ended?
  [ -x "$folder/$1" ] && return
  echo "$1 was not built:"
  tail -n 20 "$folder/$1.log"
  return 1
}
step() {   # words, seconds, command...: its output, or the end of it if it fails
  words=$1 most=$2
  shift 2
  begun=$(date +%s)
  timeout -k 5 "$most" stdbuf -oL "$@" >"$folder/step" 2>&1
  status=$?
  echo "---- $words, $(($(date +%s) - begun)) s"
  case $status in
    0|77) cat "$folder/step" ;;
    *) tail -n 60 "$folder/step"; echo "FAILED: $words, status $status"; failed=1 ;;
  esac
}
begin() {   # program, words, seconds, command...: side by side with others, once it is built
  (
    program=$1 words=$2 most=$3
    shift 3
    ready "$program" || exit 1
    begun=$(date +%s)
    timeout -k 5 "$most" stdbuf -oL "$@"
    status=$?
    echo "$words: status $status, $(($(date +%s) - begun)) s"
    [ $status = 0 ] || [ $status = 77 ]
  ) >"$folder/$number.said" 2>&1 && : >"$folder/$number.fine"
}
number=100
told() {   # what those have said, in the order in which they began
  wait
  while [ "$shown" -le "$number" ]; do
    if [ -e "$folder/$shown.said" ]; then
      echo '----'
      tail -n 80 "$folder/$shown.said"
      [ -e "$folder/$shown.fine" ] ||
        { echo "FAILED: $(tail -n 1 "$folder/$shown.said")"; failed=1; }
    fi
    shown=$((shown + 1))
  done
}
shown=100
if asked fast; then
  whole=$flags flags='-O3 -std=c++14 -w -arch=native'
  build test_cuda_fast -x cu tests/test_cuda_fast.cpp &
  build gpu_fast bench/gpu_fast.cu &
  wait
  flags=$whole
  ready test_cuda_fast && step 'the fast tier against the host' 120 "$folder/test_cuda_fast"
  ready gpu_fast && step 'the fast tier: times' 120 "$folder/gpu_fast"
fi

echo "$("$nvcc" --version | sed -n 's/.*release.* V/nvcc /p'), $(date +%Y-%m-%d), $flags"
nvidia-smi --query-gpu=driver_version,power.limit,clocks.max.sm,clocks.max.mem --format=csv,noheader

if asked checks || asked sanitizer; then
  for name in test_cuda test_cuda_model test_cuda_kernels; do
    number=$((number + 1))
    part=-DMIRAS_NO_MODEL
    case $name in test_cuda_model|test_cuda_kernels) part= ;; esac
    (
      # shellcheck disable=SC2086
      build $name $part -x cu tests/$name.cpp
      asked checks && begin $name $name 150 "$folder/$name"
    ) &
  done
  number=$((number + 1))
  (
    build lm_cuda examples/lm_cuda.cu
    asked checks && begin lm_cuda lm_cuda 100 env LM_CUDA="$folder/lm_cuda" sh tests/test_cuda_lm.sh
  ) &
fi
told

sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer) ||
  sanitizer=
if asked sanitizer && [ "$sanitizer" ]; then
  # no initcheck: loads of 16 bytes bring what lies between rows, too, which nobody has written;
  # that nothing depends on it is tested with memory that is full of NaN
  for tool in memcheck racecheck synccheck; do
    for name in test_cuda test_cuda_model; do
      number=$((number + 1))
      rows='linear-attention gated-deltanet ttt-mlp mesa'
      [ $name = test_cuda ] || rows=gated-deltanet
      # shellcheck disable=SC2086
      begin $name "$tool, $name" 110 "$sanitizer" --tool $tool --error-exitcode 9 \
        "$folder/$name" $rows &
    done
  done
  told
fi

asked peers && step 'peers' 200 "${PYTHON:-python3}" bench/gpu_peers.py
if asked builds; then
  four=
  for arch in 80 90 100 120; do four="$four -gencode arch=compute_$arch,code=sm_$arch"; done
  flags=$(echo "$flags" | sed 's/-arch=native//')
  # shellcheck disable=SC2086
  build four -DMIRAS_NO_MODEL $four -t 4 -x cu tests/test_cuda.cpp
  ready four && step 'a build for four GPUs' 60 "$folder/four" gated-deltanet titans
fi
[ $failed = 0 ] && echo 'all done' || echo 'something failed'
exit $failed
