#!/bin/sh
# cuda_table.sh: what device code takes of a GPU: registers, stack, spills, shared memory.
#   sh tests/cuda_table.sh           compares with cuda_table.txt; exit status 77: there is no nvcc
#   sh tests/cuda_table.sh write     writes that table
#   sh tests/cuda_table.sh whole     prints the table of a build in one piece, minutes for each GPU
#   ARCHS="sm_90a" ...               these alone
# All of miras_cuda.cuh is translated for sm_80, and for the host, with warnings as errors. The PTX
# that comes of it is assembled for each GPU and linked: the text is one for all of them, from sm_80
# on, and translating it takes longer than assembling it. That nvcc takes it for the others, too, is
# seen without optimisation. More of anything than the table says fails, unless another nvcc wrote
# it.
#
# The build is the documented one, relocatable (-rdc=true): every function is translated once. In
# one piece, nvcc's default, all that a grid may reach is translated anew for it, and registers are
# dealt out over the whole of its calls, which takes ptxas over ten minutes and spills much more.
#
# Rows: the grids, whose registers and stack are those of all that they reach, which nvlink has to
# know: nothing is called through a pointer. And of the other functions those with 200 registers,
# 256 spilled bytes, or 1024 bytes of stack of their own and more.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || { echo 'no nvcc'; exit 77; }
PATH=$PATH:$(dirname "$nvcc")
command -v readelf >/dev/null || { echo 'no readelf'; exit 77; }
mode=${1:-compare}
archs=${ARCHS:-sm_80 sm_90a sm_120}
table=tests/cuda_table.txt
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM
version=$("$nvcc" --version | sed -n 's/.*release.* V//p')

cat >"$folder/all.cu" <<'END2'
#define MIRAS_IMPLEMENTATION
#include "miras.h"
#define MIRAS_CUDA_REFERENCE
#define MIRAS_CUDA_NO_FAST
#define MIRAS_CUDA_IMPLEMENTATION
#include "miras_cuda.cuh"
END2
# pragmas of gcc, and what cpuid returns beside what is asked for, are the host's
flags='-std=c++14 -O3 -fmad=false -Xcompiler -Werror -Werror all-warnings -I.
-diag-suppress 1675,550'
rdc=-rdc=true apart=-c
[ "$mode" = whole ] && rdc='' apart=''
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }; }

mkdir "$folder/sm_80"
# shellcheck disable=SC2086 # the flags are meant to split
quietly "$nvcc" $flags $rdc -Xptxas -v -arch=compute_80 -code=sm_80 -c -keep \
  -keep-dir "$folder/sm_80" "$folder/all.cu" -o "$folder/sm_80/all.o"
mv "$folder/log" "$folder/sm_80/log"
for arch in $archs; do
  if [ "$arch" != sm_80 ]; then
    mkdir "$folder/$arch"
    # shellcheck disable=SC2086
    quietly "$nvcc" $flags $rdc -Xcicc -O0 -arch="compute_${arch#sm_}" -ptx "$folder/all.cu" \
      -o "$folder/other.ptx"
    # shellcheck disable=SC2086
    quietly ptxas -arch="$arch" -m64 -v --warning-as-error --fmad false $apart \
      "$folder/sm_80/all.ptx" -o "$folder/$arch/all.cubin"
    mv "$folder/log" "$folder/$arch/log"
  fi
  nvlink -arch="$arch" -v "$folder/$arch/all.cubin" -o "$folder/linked" \
    >"$folder/$arch/link" 2>&1 || { cat "$folder/$arch/link"; exit 1; }
  ! grep 'cannot be statically determined' "$folder/$arch/link" || exit 1
  # registers of functions: in section .nv.info, records of 12 bytes: 4 47 8 0, a symbol, the count
  readelf -SsW "$folder/$arch/all.cubin" >"$folder/$arch/symbols" 2>/dev/null
  at=$(sed -n 's/.* \.nv\.info  *[^ ]*  *[^ ]* \([^ ]*\) \([^ ]*\) .*/-j 0x\1 -N 0x\2/p' \
    "$folder/$arch/symbols")
  # shellcheck disable=SC2086
  od -An -v -w12 -tu2 $at "$folder/$arch/all.cubin" >"$folder/$arch/info"
  awk -v arch="$arch" '
    # What the house calls a function: the first of the names in a mangled one, or the kernel that
    # a block or a unit calls.
    function house(s,   i, n, name, args) {
      kind = ""
      if (match(s, /L_ZNS0_[0-9]+miras__/)) {
        kind = index(s, "miras__of_unit") ? "unit." : "block."
        s = substr(s, RSTART + 7)
      }
      if (!match(s, /[0-9]+miras__/)) return s
      n = substr(s, RSTART) + 0
      i = RSTART + RLENGTH - 7
      name = substr(s, i + 7, n - 7)
      s = substr(s, i + n)
      args = ""
      sub(/^INS[0-9A-Z]*_[0-9]+miras__[a-z_]+I/, "I", s)
      if (match(s, /^I(Li[0-9]+E)+E/)) {
        args = substr(s, 4, RLENGTH - 5)
        gsub(/ELi/, ",", args)
        args = "<" args ">"
      }
      if (sub(/^block_/, "", name)) kind = "block."
      sub(/_unit$/, "", name)
      return kind name args
    }

    FILENAME ~ /log$/ {   # frames and spills, of ptxas
      if (match($0, /Compiling entry function .[A-Za-z0-9_$]+/))
        grid[substr($0, RSTART + 26, RLENGTH - 26)] = 1
      if (/Function properties for/) f = $NF
      else if (/bytes stack frame/) {
        if (!(f in frame)) names[++count] = f
        if ($1 + 0 >= frame[f] + 0) frame[f] = $1 + 0
        if ($5 + 0 >= stores[f] + 0) { stores[f] = $5 + 0; loads[f] = $9 + 0 }
      }
      next
    }
    FILENAME ~ /symbols$/ { if ($4 == "FUNC") symbol[$1 + 0] = $NF; next }
    FILENAME ~ /info$/ { if ($1 == 47 * 256 + 4) registers[symbol[$3 + $4 * 65536]] = $5; next }
    # link: what the whole of a grid takes
    /Function properties for/ { f = $NF; gsub(/[^A-Za-z0-9_$]/, "", f) }
    /used [0-9]+ registers/ {
      match($0, /used [0-9]+/)
      registers[f] = substr($0, RSTART + 5, RLENGTH - 5) + 0
      match($0, /[0-9]+ stack/)
      frame[f] = substr($0, RSTART) + 0
      match($0, /[0-9]+ bytes smem/)
      shared[f] = RLENGTH > 0 ? substr($0, RSTART) + 0 : 0
    }
    END {
      for (i = 1; i <= count; i++) {
        f = names[i]
        if (!(f in grid) && registers[f] < 200 && stores[f] < 256 && frame[f] < 1024) continue
        printf "%d %-8s%-28s%9s%7d%8d%7d%8s\n", f in grid, arch, house(f),
          registers[f] ? registers[f] : "-", frame[f], stores[f], loads[f],
          f in grid ? shared[f] + 0 : "-"
      }
    }' "$folder/$arch/log" "$folder/$arch/symbols" "$folder/$arch/info" "$folder/$arch/link" |
    sort -k1,1nr -k4,4nr -k5,5nr -k3,3 | cut -c3- >"$folder/$arch/rows"
  [ -s "$folder/$arch/rows" ] || { echo "$arch: no figures of the compiler's"; exit 1; }
done

new() {
  echo "# what device code takes, by nvcc $version; tests/cuda_table.sh says what the columns are"
  printf '%-8s%-28s%9s%7s%8s%7s%8s\n' gpu function registers stack stores loads shared
  for arch in $archs; do cat "$folder/$arch/rows"; done
}
new >"$folder/new"
case $mode in
  write) cp "$folder/new" $table && cat $table; exit ;;
  whole) cat "$folder/new"; exit ;;
esac

awk -v archs="$archs" '
  BEGIN { split("- - registers stack stores loads shared", what) }
  FNR <= 2 { next }
  NR == FNR { for (i = 3; i <= NF; i++) was[$1, $2, i] = $i; row[$1, $2] = 1; next }
  !(($1, $2) in row) { printf "%s %s: is not in the table\n", $1, $2; more = 1; next }
  {
    for (i = 3; i <= NF; i++)
      if ($i + 0 > was[$1, $2, i] + 0) {
        printf "%s %s: %s are %s, were %s\n", $1, $2, what[i], $i, was[$1, $2, i]
        more = 1
      } else if ($i + 0 < was[$1, $2, i] + 0) less++
  }
  END {
    if (less) printf "%d figures are less than the table has: sh tests/cuda_table.sh write\n", less
    exit more
  }' $table "$folder/new" && { echo "no more than $table has, for $archs"; exit 0; }
head -n 1 $table | grep -q "nvcc $version;" && exit 1
echo "but this nvcc is $version, and the table has: $(head -n 1 $table)"
