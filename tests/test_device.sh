#!/bin/sh
# test_device.sh: the engines are programs over kernels, so that a GPU can run the same text.
#   sh tests/test_device.sh
# Rooms 15 and 41 to 56 as C++ in which all floats behind a pointer are const, against kernels that
# are only declared: nothing stores to an array but a kernel, and nothing calls a function of a
# kernel room past the table, or the C library for arrays. That device code calls nothing of the
# host, and holds no table or record that a device cannot read, nvcc says in cuda_table.sh.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM

# But for what draws a memory's parameters on the host; the caller's functions may store.
host='constant_keeps\|draw\|frozen_params\|mesa_params\|scan_params'
sed "/^static void miras__\($host\)(/,/^}/! s/\(const \)\{0,1\}float \*/const float */g" miras.h \
  >"$folder/const.h"
{
  echo '#define MIRAS_IMPLEMENTATION'
  echo '#include "miras.h"'
  echo 'namespace declared {'
  grep '^#define miras__.* miras__cuda_' miras_cuda.cuh | grep -v kernels
  echo 'size_t miras__cuda_gemm_room(size_t, size_t, size_t);   // how much, and no array'
  cat <<'END'
#define MIRAS__KERNEL_PASS
#define miras__kernels kernels
#undef MIRAS__KERNELS
#define MIRAS__DEVICE MIRAS__DEVICE_TYPES
#include "const.h"
#undef MIRAS__DEVICE
END
  for name in memcpy memset memmove malloc calloc realloc free printf; do
    echo "#define $name engines_do_without_$name"
  done
  cat <<'END'
struct kernels {
#define MIRAS_X(part, result, name, arguments) result name arguments const;
  MIRAS__KERNELS(MIRAS_X)
#undef MIRAS_X
};
struct miras__net;
struct miras__hidden;
struct miras__answer;
struct miras__retention_record;
#define MIRAS__DEVICE MIRAS__DEVICE_ENGINES
#include "const.h"
}
END
} >"$folder/declared.cpp"
"${CXX:-c++}" -std=c++11 -fsyntax-only -fpermissive -w -I. -I"$folder" "$folder/declared.cpp" ||
  exit 1
echo 'rooms 41 to 56 leave arrays to kernels'
