#!/bin/sh
# cuda_fast.sh: what nvcc makes of the fast tier of miras_cuda.cuh, without a GPU.
#   sh tests/cuda_fast.sh        exit status 1: a grid takes more than it may, 77: there is no nvcc
#   ARCHS="sm_90" ...            these alone
#   PTX=compute_90 ...           of the text that has clusters, for sm_90 and later
# For each GPU: registers of row kernels at most 64, of one token of RWKV-7 with 128 keys 72, of
# dense products 128, of chunk kernels 255; no spills, no stack (arguments are below 4 KB, or it is
# not compiled). Then the instructions for each product of matrix units, from the first to the last,
# of dense products, C2, C3; of one token those for each column of 128 keys, from its load to its
# store; of norms those for each access of 16 bytes, from the first to the last; and of product_q8's
# loop those for each 16 bytes of whole numbers: of PTX, what the text asks for, and of the
# machine's where there is a cuobjdump, of each GPU.
# A build of the fast tier alone has up to LINES of PTX (380000), by which nvcc's time goes: the
# seconds of a processor are said, as a machine's are no test.
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
#define MIRAS_CUDA_IMPLEMENTATION
#include "miras_cuda.cuh"
int main(void) { return 0; }
END
failed=0
archs=${ARCHS:-sm_80 sm_90 sm_120}
(
  "$nvcc" -std=c++14 -O3 -fatbin \
    -gencode "arch=${PTX:-compute_80},code=[$(echo "$archs" | tr ' ' ,)]" -Xptxas -v \
    -Xcompiler -Werror -Werror all-warnings -keep -keep-dir "$folder" \
    -diag-suppress 1675,550,177 -I. "$folder/fast.cu" -o "$folder/fast.fatbin" \
    >"$folder/log" 2>&1 || exit 1
  times >"$folder/times"
) || { cat "$folder/log"; exit 1; }
took=$(awk 'NR == 2 { split($1, user, "[ms]"); printf "%.0f", 60 * user[1] + user[2] }' \
  "$folder/times")
echo "$archs: built in $took s of a processor"
lines=$(wc -l <"$folder/fast.ptx")
[ "$lines" -le "${LINES:-380000}" ] || { echo "$lines lines of PTX are too many"; failed=1; }
for arch in $archs; do
  awk -v arch="$arch" '
    /Compiling entry function/ {
      on = index($0, "\047" arch "\047")
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
    on && /bytes stack frame/ { stack = $1; spills = $5 + $9 }
    on && /Used [0-9]+ registers/ {
      match($0, /Used [0-9]+/)
      registers = substr($0, RSTART + 5, RLENGTH - 5) + 0
      most = name ~ /^([ac][1-4][_a-z]*<|walk<|p[12]$)/ ? 255 : name ~ /^product/ ? 128 : 64
      if (name == "token<128,1>") most = 72
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
counted() {   # what, is it the machine's
  awk -v arch="$1" -v sass="$2" '
  /\.entry|Function :/ {
    match($0, /miras__run_fast_[a-zA-Z0-9_]*/)
    name = substr($0, RSTART + 16, RLENGTH - 16)
    if (name ~ /^product_q8/) name = "product_q8"
    at = 0
    next
  }
  sass ? /^[ \t]+\/\*[0-9a-f]+\*\// && !/ NOP/ : /^[ \t]+[@a-z].*;/ {
    at++
    if (/(ld|st)\.global(\.nc)?\.v4|(LDG|STG)\.E\.128/) {
      if (!from[name]) from[name] = at
      to[name] = at
      accesses[name]++
      stores[name] += /st\.global|STG/
    }
    if (/mma\.sync|HMMA/) {
      if (!first[name]) first[name] = at
      last[name] = at
      count[name]++
    }
    if (name == "product_q8" && !scale && /ld\.global\.v4|LDG\.E\.128/) whole = at
    if (name == "product_q8" && /ld\.global\.v2|LDG\.E\.64/) scale = at
  }
  END {
    for (name in accesses) {
      all = to[name] - from[name] + 1
      if (name ~ /^tokenILi128ELi0E/) token = all / stores[name]
      if (name ~ /^tokenILi128ELi1E/) erasing = all / stores[name]
      if (name ~ /^normILi0E/) norm = all / accesses[name]
      if (name ~ /^norm_backILi0E/) norm_back = all / accesses[name]
    }
    for (name in count) {
      kind = name
      sub(/I.*/, "", kind)
      each = (last[name] - first[name] + 1) / count[name]
      if (each > worst[kind]) worst[kind] = each
      if (name ~ /^c2ILi128ELi64/ && each > c2) c2 = each
      if (name ~ /^c3ILi128ELi64/ && each > c3) c3 = each
    }
    whole = (last["product_q8"] - whole + 1) / (count["product_q8"] / 2)
    printf "%s, for one of matrix units: dense products %.1f, ", arch, worst["product"]
    printf "C2 and C3 of 128 x 64 %.1f and %.1f, ", c2, c3
    printf "all %.1f and %.1f, C4 %.1f; for a column of one token %.1f, ", worst["c2"],
      worst["c3"], worst["c4"], token
    printf "that is erased apart %.1f; ", erasing
    printf "for 16 bytes of norms %.1f, back %.1f, of q8 %.1f\n", norm, norm_back, whole
    exit !count["product_q8"] || worst["product"] > 6 || c2 > (sass ? 6 : 6.1) || c3 > 6.1 ||
      token > (sass ? 28 : 30) || !token || erasing > 36 || !erasing || norm > 28 || !norm ||
      norm_back > 39 || !norm_back || whole > (sass ? 66 : 80)
  }' && return
  echo "$1: more instructions than there may be"
  failed=1
}
counted PTX 0 <"$folder/fast.ptx"
# code of before 8.0 computes nothing: of its grids none can be launched
"$nvcc" -std=c++14 -ptx -arch=compute_75 -w -I. "$folder/fast.cu" -o "$folder/old.ptx" || failed=1
grids=$(grep -c '\.entry' "$folder/old.ptx")
if [ "$grids" -lt 50 ] || [ "$(grep -c '^\.maxntid 1, 1, 1' "$folder/old.ptx")" != "$grids" ]; then
  echo 'older code can be launched'
  failed=1
fi
cuobjdump=${CUOBJDUMP:-$(command -v cuobjdump)}
for arch in $archs; do
  [ "$cuobjdump" ] || continue
  cubin=$folder/fast.$arch.cubin     # of one GPU alone nvcc leaves its name out
  [ -e "$cubin" ] || cubin=$folder/fast.cubin
  "$cuobjdump" -sass "$cubin" >"$folder/sass" || failed=1
  counted "$arch" 1 <"$folder/sass"
done
exit $failed
