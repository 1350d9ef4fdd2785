#!/bin/sh
# cuda_fast.sh: what nvcc makes of the fast tier of miras_cuda.cuh, without a GPU.
#   sh tests/cuda_fast.sh        exit status 1: a grid takes more than it may, 77: there is no nvcc
#   ARCHS="sm_90" ...            these alone
# For each GPU: registers of row kernels at most 64, of dense products 128, of chunk kernels 255;
# no spills, no stack (arguments are below 4 KB, or it is not compiled). Of the last one also what
# PTX has for each product of matrix units, from the first to the last: of dense products, C2, C3;
# and those of the kernel for one token. Of the machine's there are somewhat fewer or more: this
# counts what the text asks for.
# A build of the fast tier alone takes up to TIME seconds of a processor (120).
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
  mkdir "$folder/$arch"
  (
    "$nvcc" -std=c++14 -O3 -arch="$arch" -cubin -Xptxas -v -Xcompiler -Werror -Werror all-warnings \
      -keep -keep-dir "$folder/$arch" -diag-suppress 1675,550,177 -I. "$folder/fast.cu" \
      -o "$folder/$arch.cubin" >"$folder/log" 2>&1 || exit 1
    times >"$folder/times"
  ) || { cat "$folder/log"; exit 1; }
  took=$(awk 'NR == 2 { split($1, user, "[ms]"); printf "%.0f", 60 * user[1] + user[2] }' \
    "$folder/times")
  echo "$arch: built in $took s of a processor"
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
      most = name ~ /^([ac][1-4][_a-z]*<|p[12]$)/ ? 255 : name ~ /^product/ ? 128 : 64
      grids++
      if (registers > worst[most]) { worst[most] = registers; whose[most] = name }
      if (registers > most || stack || spills) {
        printf "%s %s: %d registers (%d), %d bytes of stack, %d spilled\n", arch, name, registers,
          most, stack, spills
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
done
awk -v arch="$arch" '
  /\.entry/ {
    match($0, /miras__run_fast_[a-zA-Z0-9_]*/)
    name = substr($0, RSTART + 16, RLENGTH - 16)
    at = 0
    next
  }
  /^[ \t]+[@a-z].*;/ {
    at++
    if (name ~ /^tokenILi128/) token = at
    if (/mma\.sync/) {
      if (!first[name]) first[name] = at
      last[name] = at
      count[name]++
    }
  }
  END {
    for (name in count) {
      kind = name
      sub(/I.*/, "", kind)
      each = (last[name] - first[name] + 1) / count[name]
      if (each > worst[kind]) worst[kind] = each
      if (name ~ /^c[23]ILi128ELi64/ && each > wide) wide = each
    }
    printf "%s, in PTX for one of matrix units: dense products %.1f, ", arch, worst["product"]
    printf "C2 and C3 of 128 x 64 %.1f, ", wide
    printf "all %.1f and %.1f, C4 %.1f; for one token %d\n", worst["c2"], worst["c3"], worst["c4"],
      token
    exit worst["product"] > 6 || wide > 6.1 || token > 800
  }' "$folder/$arch"/*.ptx || { echo "$arch: more instructions than there may be"; failed=1; }
exit $failed
