#!/bin/sh
# test_device.sh: the engines are programs over kernels, so that a GPU can run the same text. Here
# rooms @40 to @56 of miras.h are compiled without the other rooms, with every entry of
# MIRAS__KERNELS a function that is only declared. What the engines need besides (records, constants
# and small functions of rooms @10 to @19) is looked up by name and joins them.
#   sh tests/test_device.sh            exit status 77: there is no nvcc, and the first half passed
#   sh tests/test_device.sh print      the text that is compiled
# First as C++ in which all floats behind a pointer are const: nothing stores to an array but a
# kernel. Then with nvcc as device code. Both fail where an engine touches memory through the C
# library or calls a function of a kernel room past the table, the second also where it calls one of
# the host, or holds a table or a record that a device cannot read.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || nvcc=
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM

# Comments become blanks, lines keep their numbers; "@NN" stands where a banner was.
awk '
  {
    line = $0
    out = ""
    while (line != "") {
      at = index(line, inside ? "*/" : "/*")
      if (inside) {
        line = at ? substr(line, at + 2) : ""
        if (at) inside = 0
      } else {
        out = out (at ? substr(line, 1, at - 1) : line)
        if (at == 1 && $0 ~ /^\/\* @[0-9][0-9] /) out = substr($0, 4, 3)
        line = at ? substr(line, at + 2) : ""
        if (at) inside = 1
      }
    }
    sub(/ +$/, "", out)
    print out
  }' miras.h >"$folder/code"

awk '
  # An item of the outermost level is a function, a type, a table, a directive; it may go on for
  # several lines.
  function finish(   name) {
    name = head
    sub(/\(.*/, "", name)
    sub(/.*[^A-Za-z0-9_]/, "", name)
    if (room >= 40) {
      if (head !~ /^static miras_result/) {   # only what the host calls can fail
        engines = engines item
        names(item)
      }
    } else if (kind == "function") {
      if (!(name in body)) order[++functions] = name
      body[name] = item
    } else if (kind == "define") {
      name = head
      sub(/^ *#define /, "", name)
      sub(/[^A-Za-z0-9_].*/, "", name)
      if (item ~ /^ *#define [A-Z_]+[A-Z0-9_]*(\(X\))? +[^ ]/ && !(name in macro) &&
          name !~ /^MIRAS__(UN|INLINE|RESTRICT)/) {
        macros[++defines] = name
        macro[name] = item
      }
    } else if (kind == "kernels") {
      kernels = item
    } else if (room >= 15) {
      types = types item
    }
    item = ""
  }
  function names(text,   word) {   # what is called or named in it
    gsub(/->[a-z_0-9]+/, " ", text)
    while (match(text, /[A-Za-z_][A-Za-z0-9_]*/)) {
      word = substr(text, RSTART, RLENGTH)
      text = substr(text, RSTART + RLENGTH)
      if (word in wanted) continue
      wanted[word] = 1
      queue[++waiting] = word
    }
  }
  /^@[0-9][0-9]$/ {
    room = substr($0, 2) + 0
    next
  }
  room < 10 || room > 56 || (room >= 30 && room < 40) { next }
  item == "" {
    if ($0 ~ /^ *#define MIRAS__KERNELS/) kind = "kernels"
    else if ($0 ~ /^ *#define/) kind = "define"
    else if (room < 20 && $0 ~ /^(static|MIRAS__INLINE) .*\(/) kind = "function"
    else if ((room < 21 && $0 ~ /^(typedef|enum) /) || (room >= 40 && $0 != "")) kind = "other"
    else next
    if (kind == "other" && room == 20 && $0 ~ /miras__kernels/) kind = "skip"
    head = $0
    depth = 0
  }
  {
    item = item $0 "\n"
    if (kind == "define" || kind == "kernels" || head ~ /^ *#/) {
      if ($0 !~ /\\$/) finish()
      next
    }
    text = $0
    depth += gsub(/{/, "", text)
    depth -= gsub(/}/, "", text)
    if (depth == 0 && $0 ~ /[;}]$/) {
      if (kind == "skip") item = ""
      else finish()
    }
  }
  END {
    split("memcpy memset memmove malloc calloc realloc free printf", c_library, " ")
    for (i = 1; i <= waiting; i++)
      if (queue[i] in body) names(body[queue[i]])
      else if (queue[i] in macro) names(macro[queue[i]])
    for (i = 1; i <= defines; i++)
      if (macros[i] in wanted) printf "%s", macro[macros[i]]
    printf "%s%s", types, kernels
    print "struct miras__kernels {"
    split("BACK EXACT FROZEN MESA PAIRS CURVED EXACT_BACK FROZEN_BACK MESA_BACK PAIRS_BACK", part,
          " ")
    for (i in part) print "#define MIRAS__" part[i] "(f) f"   # nothing is left out
    print "#define MIRAS_X(part, result, name, arguments) __device__ result name arguments const;"
    print "  MIRAS__KERNELS(MIRAS_X)"
    print "};"
    print "#undef MIRAS_X"
    for (i = 1; i <= 8; i++) print "#define " c_library[i] " engines_do_without_" c_library[i]
    print "#define static static __device__"
    for (i = 1; i <= functions; i++)
      if (order[i] in wanted) printf "%s", body[order[i]]
    printf "%s", engines
  }' "$folder/code" >"$folder/engines.h"

# A kernel that uses all of it, so that nothing is left out before code is made.
cat >"$folder/device.cu" <<'END'
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef ONLY_KERNELS_STORE
#define __device__
#define __global__
#endif
#include "public.h"
#define MIRAS__UNUSED
#define MIRAS__UNROLL
#define MIRAS__INLINE static inline
#define MIRAS__RESTRICT __restrict__
struct miras__kernels;
#include "engines.h"
#undef static
__global__ void all(const miras__call *a, const float *q, float *o) {
  miras__head_forward(a);
  miras__head_backward(a);
  miras__head_read(a, 0, q, o);
  miras__states_of[a->p->engine].live(a, o);
  miras__states_of[a->p->engine].clear(a);
}
END
cp miras.h "$folder/public.h"
if [ "${1:-}" = print ]; then
  cat "$folder/device.cu" "$folder/engines.h"
  exit 0
fi
# The same with const floats. What is asked for by `print` is the text before that.
mkdir "$folder/const"
for file in device.cu engines.h public.h; do
  sed 's/\(const \)\{0,1\}float \*/const float */g' "$folder/$file" >"$folder/const/$file"
done
"${CXX:-c++}" -std=c++11 -fsyntax-only -w -DONLY_KERNELS_STORE -x c++ "$folder/const/device.cu" ||
  exit 1
echo "rooms 40 to 56 leave arrays to kernels"
if [ -z "$nvcc" ]; then
  echo 'there is no nvcc here'
  exit 77
fi
"$nvcc" -std=c++11 -ptx -rdc=true -arch=sm_80 -I"$folder" "$folder/device.cu" \
  -o "$folder/device.ptx" || exit 1
functions=$(grep -c '^ *\.func\|^\.visible .*\.func' "$folder/device.ptx")
echo "rooms 40 to 56 are device code: $functions functions"

# And with their kernels, as tests/test_block.cpp runs them on the host.
cat >"$folder/block.cu" <<'END'
#define MIRAS_IMPLEMENTATION
#include "miras.h"
#include "tests/block.h"
__global__ void all(const void *call, const float *q, float *o) {
  const miras_block::miras__call *a = (const miras_block::miras__call *)call;
  miras_block::miras__head_forward(a);
  miras_block::miras__head_backward(a);
  miras_block::miras__head_read(a, 0, q, o);
}
END
"$nvcc" -std=c++11 -ptx -arch=sm_80 -w -I. "$folder/block.cu" -o "$folder/block.ptx" || exit 1
echo "so are the kernels of rooms 22 to 29"
