#!/bin/sh
# cuda_fast.sh: what nvcc makes of the fast tier of miras_cuda.cuh, without a GPU.
#   sh tests/cuda_fast.sh        exit status 1: a grid takes more than it may, 77: there is no nvcc
#   ARCHS="sm_90" ...            these alone
# For each GPU: registers of row kernels at most 64, of dense products 128, of chunk kernels 255;
# no spills, no stack; arguments below 4 KB. Of sm_90 instructions of the machine are counted too:
# in the loop of a dense product, for each product of matrix units; and in the kernel for one token,
# for each row of a state that a lane has (four, unrolled).
# A build of the fast tier alone ends within TIME seconds (120).
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || { echo 'no nvcc'; exit 77; }
PATH=$PATH:$(dirname "$nvcc")
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM
cat >"$folder/fast.cu" <<'END'
#define MIRAS_IMPLEMENTATION
#include "miras.h"
#define MIRAS_CUDA_NO_REFERENCE
#define MIRAS_CUDA_FAST
#define MIRAS_CUDA_IMPLEMENTATION
#include "miras_cuda.cuh"
int main(void) { return 0; }
END
failed=0
for arch in ${ARCHS:-sm_80 sm_90}; do
  begun=$(date +%s)
  "$nvcc" -std=c++14 -O3 -arch="$arch" -cubin -Xptxas -v -Xcompiler -Werror -Werror all-warnings \
    -diag-suppress 1675,550,177 -I. "$folder/fast.cu" -o "$folder/$arch.cubin" \
    >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  took=$(($(date +%s) - begun))
  echo "$arch: built in $took s"
  [ $took -le "${TIME:-120}" ] || { echo "$arch: that is over ${TIME:-120} s"; failed=1; }
  awk -v arch="$arch" '
    /Compiling entry function/ {
      match($0, /miras__run_fast_[a-z0-9_]*/)
      name = substr($0, RSTART + 16, RLENGTH - 16)
      sub(/(I|E)*$/, "", name)
      full = $0
      sub(/.*miras__run_fast_[a-z0-9_]*/, "", full)
      of = ""
      while (match(full, /Li[0-9]+E/)) {
        of = of (of == "" ? "" : ",") substr(full, RSTART + 2, RLENGTH - 3)
        full = substr(full, RSTART + RLENGTH)
      }
      if (of != "") name = name "<" of ">"
    }
    /bytes stack frame/ { stack = $1; spills = $5 + $9 }
    /Used [0-9]+ registers/ {
      match($0, /Used [0-9]+/)
      registers = substr($0, RSTART + 5, RLENGTH - 5) + 0
      most = name ~ /^c[1-4]</ ? 255 : name ~ /^product/ ? 128 : 64
      bytes = 0
      if (match($0, /[0-9]+ bytes cmem\[0\]/)) bytes = substr($0, RSTART) + 0
      grids++
      if (registers > worst[most]) { worst[most] = registers; whose[most] = name }
      if (registers > most || stack || spills || bytes > 4096) {
        printf "%s %s: %d registers (%d), %d bytes of stack, %d spilled, %d of arguments\n",
          arch, name, registers, most, stack, spills, bytes
        bad = 1
      }
    }
    END {
      for (most in worst)
        printf "%s: of those that may have %d registers, %s has most, %d\n", arch, most,
          whose[most], worst[most]
      if (grids < 50) { printf "%s: only %d grids\n", arch, grids; bad = 1 }
      exit bad
    }' "$folder/log" || failed=1
  [ "$arch" = sm_90 ] && command -v cuobjdump >/dev/null || continue
  cuobjdump -sass "$folder/$arch.cubin" >"$folder/sass" || exit 2
  # the loop of a grid is what lies between its matrix instructions, the first and the last
  awk '
    /Function : / { name = $3; at = 0 }
    / \/\*[0-9a-f]*\*\/ / && !/^[ \t]*\/\* 0x/ {
      at++
      if (name ~ /fast_product/ && /HMMA/) {
        if (!first[name]) first[name] = at
        last[name] = at, count[name]++
      }
      if (name ~ /fast_c2/ && /HMMA/) {
        if (!first[name]) first[name] = at
        last[name] = at, count[name]++
      }
      if (name ~ /fast_tokenILi128/) token = at
    }
    END {
      for (name in count) {
        each = (last[name] - first[name] + 1) / count[name]
        kind = name ~ /product/ ? "a dense product" : "C2"
        if (each > worst[kind]) worst[kind] = each
      }
      for (kind in worst)
        printf "sm_90: %s: up to %.1f instructions for one of matrix units\n", kind, worst[kind]
      printf "sm_90: the kernel for one token has %d instructions, %.0f for each of four rows\n",
        token, token / 4
      exit worst["a dense product"] > 6 || token > 800
    }' "$folder/sass" || { echo 'sm_90: more instructions than there may be'; failed=1; }
done
exit $failed
