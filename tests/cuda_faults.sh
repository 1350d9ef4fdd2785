#!/bin/sh
# cuda_faults.sh: are mistakes that a GPU would punish caught without one? From anywhere:
#   sh tests/cuda_faults.sh            one line for each, the exit status is 0 if all are caught
# Mistakes are planted in copies of miras_cuda.cuh, miras.h and of tests, each behind a condition,
# so that one build under the watch of cuda_races.h has them all; small kernels hold what
# the library has no place for. 77: this compiler does not tell of accesses.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM
cxx=${CXX:-g++}
echo 'int main() { return 0; }' >"$folder/try.cpp"
if ! "$cxx" -fsanitize=thread -c "$folder/try.cpp" -o "$folder/try.o" 2>/dev/null; then
  echo "skipped: $cxx has no -fsanitize=thread"
  exit 77
fi
mkdir "$folder/tests"
cp miras.h miras_cuda.cuh "$folder"
cp tests/test_cuda*.cpp tests/cuda_device.h tests/cuda_shim.h tests/cuda_races.h \
  tests/fingerprint.h "$folder/tests"

# In a file, behind the first line that holds a text: the first `old` becomes `new`.
replace() {   # file, text, old, new
  behind=$2 old=$3 new=$4 awk '
    index($0, ENVIRON["behind"]) { seen = 1 }
    seen && !done && (at = index($0, ENVIRON["old"])) {
      $0 = substr($0, 1, at - 1) ENVIRON["new"] substr($0, at + length(ENVIRON["old"]))
      done = 1
    }
    { print }
    END { exit !done }' "$folder/$1" >"$folder/new" && mv "$folder/new" "$folder/$1" && return
  echo "there is no place for a mistake: $1, $2, $3"
  exit 1
}
count=0
plant() {   # what, row of the table, what is said, file, text, old, new
  count=$((count + 1))
  replace "$4" "$5" "$6" "$(echo "$7" | sed "s/FAULT/(shim.planted == $count)/g")"
  printf '%s|%s|%s\n' "$1" "$2" "$3" >>"$folder/list"
}

replace tests/cuda_shim.h '} shim;' '} shim;' '  int planted; } shim;'
replace tests/cuda_races.h enum 'SHIM_FINDINGS = 8' 'SHIM_FINDINGS = 2'
replace tests/test_cuda.cpp 'int main(' 'unsigned failed = 0' \
  'unsigned failed = (unsigned)(shim.planted = atoi(getenv("PLANTED"))) * 0'
barrier='__syncthreads();'
less='if (!FAULT) __syncthreads();'
cuh=miras_cuda.cuh
plant 'no barrier behind a product' titans 'race: .* global memory' \
  $cuh 'MIRAS__OF_BLOCK(gemm' "$barrier" "$less"
plant 'no barrier behind a kernel of elements' titans 'race: .* memory' \
  $cuh 'BY_ELEMENTS> {' "$barrier" "$less"
plant 'no barrier behind a kernel of rows' titans 'race: .* global memory' \
  $cuh '#define MIRAS__BY_ROWS' "$barrier" "$less"
plant 'no barrier behind a kernel of one unit' titans 'race: .* global memory' \
  $cuh 'threadIdx.x < 16) miras__of_unit<' "$barrier" "$less"
plant 'a barrier for some of the threads' titans 'they wait for each other' \
  $cuh 'MIRAS__OF_BLOCK(gemm' '__syncthreads();' \
  'if (!FAULT || threadIdx.x < 32) __syncthreads();'
plant 'two units run a kernel of one' titans 'another unit has used it' \
  $cuh 'miras__by_block<void (*)(P...), f, MIRAS__ONE_UNIT>' 'threadIdx.x < 16' \
  'threadIdx.x < (FAULT ? 32 : 16)'
plant 'two units store one row' titans 'another unit has used it' \
  $cuh 'static size_t miras__till' '/ 16 + 1' '/ 16 + 1 + FAULT'
plant 'a number is stored while other lanes read it' titans 'another lane of its unit' \
  $cuh '#define V_KEEP(to, value)' 'V_SYNC();' 'if (!FAULT) V_SYNC();'
plant 'no barrier of the unit behind elements' sliding-window 'without a barrier between them' \
  miras.h 'static void miras__online_softmax_rows(' 'V_SYNC();' 'if (!FAULT) V_SYNC();'
plant 'blocks work on one head' titans 'another block of the grid' \
  $cuh 'GRID miras__run_backward' '(int)blockIdx.x, (int)blockIdx.x' \
  'FAULT ? 0 : (int)blockIdx.x, FAULT ? 0 : (int)blockIdx.x'
plant "a pointer of the host's" titans "race: .* memory that is not the device's" \
  tests/test_cuda.cpp 'result = miras_cuda_memory_forward' 'dy, device_tape' \
  'FAULT ? y : dy, device_tape'

# the processor's multiply-add, where run.sh found one; AVX-512 has the bits of AVX2
flags="${FUSED:-} -ffp-contract=off -DMIRAS_NO_AVX512"
failed=0
tell() {   # what, status, what is said
  said=$(grep -m1 "$3" "$folder/said")
  if [ "$2" != 0 ] && [ -n "$said" ]; then
    printf '%-55s caught by "%.90s"\n' "$1" "$said"
  else
    printf '%-55s NOT CAUGHT (status %s)\n' "$1" "$2"
    head -n 5 "$folder/said"
    failed=$((failed + 1))
  fi
}
# shellcheck disable=SC2086 # flags are several words
{ "$cxx" -std=c++11 -O1 -g1 -w $flags -DMIRAS_NO_MODEL -fsanitize=thread \
    -c "$folder/tests/test_cuda.cpp" -o "$folder/test_cuda.o" &&
    "$cxx" "$folder/test_cuda.o" -o "$folder/test_cuda" -lm &&
    PLANTED=0 "$folder/test_cuda" titans sliding-window; } >"$folder/said" 2>&1 ||
  { cat "$folder/said"; exit 1; }
number=0
while IFS='|' read -r what row says; do
  number=$((number + 1))
  PLANTED=$number timeout 100 "$folder/test_cuda" "$row" >"$folder/said" 2>&1
  tell "$what" $? "$says"
done <"$folder/list"

# Kernels of their own: 64 threads and 64 floats of shared memory, the second in clusters of two.
cat >"$folder/tests/small.cpp" <<'END'
#include "cuda_shim.h"
#define MIRAS_CUDA_THREADS 64
typedef struct job { int planted; float *there; } job;
static int deep(volatile char *above) {
  volatile char here[1024];
  here[0] = above ? *above : 0;
  return deep(here) + here[0];
}
static void kernel(const job a) {
  float *shared = (float *)shim_shared;
  const unsigned i = threadIdx.x;
  shared[i] = 1;
  __syncthreads();
  if (a.planted == 1) shared[i + 1] = 2;
  if (a.planted == 2 && i == 3) return;
  if (a.planted == 3) { if (i < 32) __syncthreads(); else __syncthreads(); }
  if (a.planted == 3 && i < 32) __syncthreads();
  if (a.planted == 4) {
    if (i % 32 < 7)
      __syncwarp(~0u);
    else
      __syncwarp(~0u);
  }
  if (a.planted == 5) __shfl_xor_sync(0xffffu, 1.0f, 16);
  if (a.planted == 6 && i == 5) shared[0] = (float)deep(NULL);
  __syncthreads();
}
static void together(const job a) {
  const unsigned i = threadIdx.x;
  a.there[64 * blockIdx.x + i] = 1;
  if (a.planted == 10) __syncthreads();
  else if (a.planted == 11 && blockIdx.x) return;
  else shim_wait(0, SHIM_CLUSTER, SHIM_HERE);
  if (a.planted == 12 && !blockIdx.x) ((float *)shim_shared)[64 + i] = 1;
  a.there[64 * blockIdx.x + i + 128] = a.there[64 * (blockIdx.x ^ 1) + i];
}
int main(int, char **argv) {
  job a = {atoi(argv[1]), NULL};
  void *arguments[1] = {(void *)&a};
  cudaLaunchAttribute of;
  const cudaLaunchConfig_t two = {dim3(2), dim3(64), 256, NULL, &of, 1};
  of.id = cudaLaunchAttributeClusterDimension, of.val.clusterDim.x = 2;
  if (a.planted == 0 || a.planted > 9) {
    if (cudaMalloc((void **)&a.there, 1024) != cudaSuccess) return 2;
    if (cudaLaunchKernelEx(&two, together, a) != cudaSuccess) return 2;
    cudaFree(a.there);
    if (a.planted || shim_findings()) return shim_findings() != 0;
  }
  const dim3 grid(a.planted == 8 ? 0 : 2), block(a.planted == 9 ? 288 : MIRAS_CUDA_THREADS);
  return cudaLaunchKernel(kernel, grid, block, arguments, a.planted == 7 ? 50000 : 256, NULL);
}
END

small() {   # what, its number, what is said, compiler flags
  # shellcheck disable=SC2086 # flags are several words
  [ "$4" = "$built" ] ||
    { "$cxx" -std=c++11 -g1 -w $4 -c "$folder/tests/small.cpp" -o "$folder/small.o" &&
      "$cxx" ${4%-fsanitize=thread} "$folder/small.o" -o "$folder/small" -lm; } || exit 1
  built=$4
  "$folder/small" 0 >"$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
  timeout 100 "$folder/small" "$2" >"$folder/said" 2>&1
  tell "$1" $? "$3"
}
built=
small 'two barriers of a block, each for half of it' 3 'they wait for each other' -O1
small 'a barrier without a thread that has ended' 2 'thread 3 has ended' -O1
small 'two barriers of a warp, each for some of its lanes' 4 'they wait for each other' -O1
small 'an exchange with a lane outside the mask' 5 'who is not there\|not in the mask' -O1
small 'shared memory that nobody allowed' 7 '50000 bytes of shared memory' -O1
small 'a grid without blocks' 8 'refuses a grid with 0 blocks' -O1
small 'more threads than registers' 9 '288 threads, too many' -O1
small 'a cluster without a block that has ended' 11 'of block 0 of the cluster' -O1
small 'blocks of a cluster and no barrier of it' 10 'race: .* global memory' '-O1 -fsanitize=thread'
small "another block's shared memory" 12 "stores to another block's shared memory" "$built"
small 'a stack that is too small' 6 'more than SHIM_STACK bytes' -O0
if "$cxx" -fsanitize=address "$folder/try.cpp" -o "$folder/try" 2>/dev/null && "$folder/try"; then
  address='-O1 -fsanitize=address'
  small 'an index beyond shared memory, under ASan' 1 'ERROR.*heap-buffer-overflow' "$address"
  small 'a stack that is too small, under ASan' 6 'ERROR.*stack-overflow' "$address"
fi
echo "$failed not caught"
[ "$failed" = 0 ]
