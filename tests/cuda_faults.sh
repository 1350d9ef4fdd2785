#!/bin/sh
# cuda_faults.sh: are mistakes that a GPU would punish caught without one? From anywhere:
#   sh tests/cuda_faults.sh            one line for each, the exit status is 0 if all are caught
#   sh tests/cuda_faults.sh few        those of the engine and of products alone: one or more of a
#                                      kind, which is what tests/run.sh has time for
# Mistakes are planted in copies of miras_cuda.cuh, miras.h and of tests, each behind a condition,
# so that one build under the watch of cuda_races.h has them all; small kernels hold what
# the library has no place for. 77: this compiler does not tell of accesses.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
programs='test_cuda test_cuda_units'
[ "${1:-}" = few ] || programs="$programs test_cuda_chunks test_cuda_perceptrons test_cuda_model"
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
cp tests/test_cuda*.cpp tests/cuda_device.h tests/cuda_calls.h tests/cuda_shim.h \
  tests/cuda_races.h tests/fingerprint.h "$folder/tests"

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
for name in $programs; do
  replace "tests/$name.cpp" 'int main(' 'unsigned failed = 0' \
    'unsigned failed = (unsigned)(shim.planted = atoi(getenv("PLANTED"))) * 0'
done
barrier='__syncthreads();'
less='if (!FAULT) __syncthreads();'
cuh=miras_cuda.cuh
plant 'no barrier behind a product' titans 'race: .* global memory' \
  $cuh 'struct miras__block_gemm' "$barrier" "$less"
plant 'no barrier behind a kernel of elements' titans 'race: .* memory' \
  $cuh 'BY_ELEMENTS> {' "$barrier" "$less"
plant 'no barrier behind a kernel of rows' titans 'race: .* global memory' \
  $cuh '#define MIRAS__BY_ROWS' "$barrier" "$less"
plant 'no barrier behind a kernel of one unit' titans 'race: .* global memory' \
  $cuh 'threadIdx.x < 16) f(' "$barrier" "$less"
plant 'no wait for copies to shared memory' gla 'copies are on their way' \
  $cuh 'void miras__state_bring' 'miras__copies_wait();' 'if (!FAULT) miras__copies_wait();'
plant 'an index beyond shared memory' gla 'not to shared memory' \
  $cuh 'void miras__state_bring' 'miras__copy16(to + i,' 'miras__copy16(to + i + 4 * FAULT,'
plant 'two threads store one column of a state' lightning 'race: .* global memory' \
  $cuh 'miras__run_step(const' 'to[(r + i) * ld] = w' \
  'to[(r + i) * ld - FAULT * (column % 2)] = w'
plant 'a barrier for some of the threads' titans 'they wait for each other' \
  $cuh 'struct miras__block_gemm' '__syncthreads();' \
  'if (!FAULT || threadIdx.x < 32) __syncthreads();'
plant 'two units run a kernel of one' titans 'another unit has used it' \
  $cuh 'miras__by_block<void (*)(P...), f, MIRAS__ONE_UNIT>' 'threadIdx.x < 16' \
  'threadIdx.x < (FAULT ? 32 : 16)'
plant 'two units store one row' titans 'another unit has used it' \
  $cuh 'static size_t miras__till' 'each * (miras__unit() + 1) <' \
  '(each + FAULT) * (miras__unit() + 1) <'
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
plant 'no barrier before a part of few rows' titans 'race: .* shared memory' \
  $cuh 'static void miras__few_rows(' "$barrier" "$less"
plant 'no wait for a part of few rows' titans 'copies are on their way\|race: ' \
  $cuh 'static void miras__few_rows(' 'miras__copies_wait_but(' \
  'if (!FAULT) miras__copies_wait_but('
plant 'no barrier behind a part on matrix units' units 'race: .* shared memory' \
  $cuh 'static void miras__unit_parts(' "$barrier" "$less"
plant 'a row of a fragment in a wrong lane' units ' of what units should find' \
  $cuh 'static void miras__fragment(' 'lane % 8' '(lane + FAULT) % 8'
plant 'an answer in a wrong lane' units ' of what units should find' \
  $cuh 'static void miras__on_units(' 'lane % 4 * 2' '(lane + FAULT) % 4 * 2'
plant 'fragments of a part for half a warp' units 'they wait for each other' \
  $cuh 'static void miras__part_times(' 'i >= frags' 'i >= frags || (FAULT && threadIdx.x & 16)'
plant 'no barrier between keys and values of a step' chunks 'race: .* shared memory' \
  $cuh 'static void miras__chunks_keys_of(' "$barrier" "$less"
plant 'no barrier between a step and the next' chunks 'race: .* shared memory' \
  $cuh 'miras__part_rows(rows, part), NULL, 1);' "$barrier" "$less"
plant 'no wait for the rows of a step' chunks 'copies are on their way\|race: ' \
  $cuh 'static void miras__chunks_keys_of(' 'miras__copies_wait();' \
  'if (!FAULT) miras__copies_wait();'
plant 'scores are read before all lanes have stored theirs' chunks 'race: .* shared memory' \
  $cuh 'm[i * 16 + j + e] =' '__syncwarp(0xffffffffu);' 'if (!FAULT) __syncwarp(0xffffffffu);'
plant 'a row of a factor in a wrong lane' chunks "from the host's" \
  $cuh 'static void miras__square_of(' 'lane % 16' '(lane + FAULT) % 16'
plant 'no barrier between values and features of a part' chunks 'race: .* shared memory' \
  $cuh 'miras__chunks_state_bwd<room>(G, y' "$barrier" "$less"
plant 'no barrier before rows of a part are whole' chunks 'race: .* shared memory' \
  $cuh '} else if (!room::CH) {' "$barrier" "$less"
plant 'no barrier before the keys of the part before' chunks 'race: .* shared memory' \
  $cuh 'const int back = step + 1 >= steps' "$barrier" "$less"
plant 'no barrier behind channels of a part' channels 'race: .* shared memory' \
  $cuh 'void miras__chunks_channels_bwd(' "$barrier" "$less"
plant 'a part of a left factor in the place of another' chunks "from the host's" \
  $cuh 'static void miras__chunks_turn(' 'to[i][1] = b[i][2]' 'to[i][1] = b[i][2 - FAULT]'
plant 'what a part leaves of the cotangent, once more' channels "from the host's" \
  $cuh 'static void miras__chunks_state_bwd(' 'miras__chunks_fade<room>(G, part, f);' \
  'for (int o = FAULT; o >= 0; o--) miras__chunks_fade<room>(G, part, f);'
plant 'no barrier between a slab of d and its reads' perceptrons 'race: .* shared memory' \
  $cuh 'miras__slab_down<P>(f, from, w);' "$barrier" "$less"
plant 'no barrier between a slab and the next' perceptrons 'race: .* shared memory' \
  $cuh '&tile[MIRAS__Y], &tile[MIRAS__ND]);' "$barrier" "$less"
plant 'no barrier between scores and what they weigh' perceptrons 'race: .* shared memory' \
  $cuh 'static void miras__slabs_scores(' "$barrier" "$less"
plant 'no wait for the weights' perceptrons 'copies are on their way\|race: ' \
  $cuh 'static void miras__slabs_bring(' 'miras__copies_wait();' \
  'if (!FAULT) miras__copies_wait();'
plant 'weights beyond shared memory' perceptrons 'not to shared memory' \
  $cuh 'static void miras__slabs_bring(' 'f->w[l] + r *' 'f->w[l] + (r + FAULT) *'
plant 'a column of weights in a wrong lane' perceptrons "from the host's" \
  $cuh 'static void miras__side_bring(' '(column + lane / 4)' '(column + (lane + FAULT) / 4 % 8)'
plant 'a row of a product in a wrong lane' perceptrons "from the host's" \
  $cuh '#define K_PAIRS' 'threadIdx.x % 32 / 4)' '(threadIdx.x + 4 * FAULT) % 32 / 4)'
plant 'no barrier behind decays of channels' channelled 'race: ' \
  $cuh 'if (live) miras__slabs_met(' "$barrier" "$less"
plant 'a decay of another token' channelled "from the host's" \
  $cuh 'static void miras__slabs_mixed(' 'alpha[j * n' 'alpha[(j + FAULT * (j > 0)) * n'
plant "a channel's share of another channel" channelled "from the host's" \
  $cuh 'static void miras__slab_fold(' 'layer ? j : i' 'layer ? j - (FAULT && j) : i'
plant "no barrier before a chunk's last token reads" linked 'race: ' \
  $cuh 'static void miras__slabs_close(' "$barrier" "$less"
plant 'the weights of the chunk before' linked "from the host's" \
  $cuh 'static void miras__slabs_close(' 'f->size.nearby' 'f->size.nearby && !FAULT'
plant "reads without a link's number" linked "from the host's" \
  $cuh 'static float miras__slab_left(' 'inv = c->inv[layer]' 'inv = FAULT ? 1 : c->inv[layer]'
plant 'no barrier behind tiles of a slab, back' perceptrons 'race: .* shared memory' \
  $cuh 'void miras__back_slab_of(' "$barrier" "$less"
plant 'hidden rows of the adjoint are read too soon' perceptrons 'race: .* shared memory' \
  $cuh 'miras__back_hidden<P>(f, from, w);' "$barrier" "$less"
plant 'weights of the adjoint change while they are read' perceptrons 'race: ' \
  $cuh 'miras__back_weights<P>(f, 1, from, w);' "$barrier" "$less"
plant 'tiles of the weights are read too soon' perceptrons 'race: .* shared memory' \
  $cuh 'f->at.weights[i], w->p' "$barrier" "$less"
plant 'a row of weights without a tile' perceptrons "from the host's" \
  $cuh 'f->at.weights[i].tile' 'w->ld, w->rows' 'w->ld, w->rows - FAULT'
plant 'a gate of another row' perceptrons "from the host's" \
  $cuh 'static void miras__back_outer(' 'threadIdx.x % 4' '(threadIdx.x + FAULT) % 4'
plant "a lane's part of a row's sum twice" perceptrons "from the host's" \
  $cuh 'static void miras__back_sum(' 'sum, 2)' 'sum, 2 - FAULT)'
plant 'no barrier behind scores of channels, back' channelled 'race: ' \
  $cuh 'miras__slabs_met(l, c->back.dz, c->live_d, c->back.bp);' "$barrier" "$less"
plant 'no barrier behind rows of channels, back' channelled 'race: ' \
  $cuh 'miras__back_run(f, &s, at' "$barrier" "$less"
plant "a channel's row goes back by another decay" channelled "from the host's" \
  $cuh 'static void miras__back_run(' '(row.alpha, b[j])' '(FAULT ? alpha[j] : row.alpha, b[j])'
plant "a lane's part of a channel's share is left out" channelled "from the host's" \
  $cuh 'static void miras__back_shares(' 'k < 4)' 'k < 4 - 2 * FAULT)'
plant 'queries of another gate, back' channelled "from the host's" \
  $cuh 'static void miras__back_weights(' 'more && !layer' 'more && !layer && !FAULT'
plant 'no barrier behind the fold of a slab, back' linked 'race: ' \
  $cuh 'miras__back_folded<P>(f, i, from, w);' "$barrier" "$less"
plant "a link's number without its gradient" linked "from the host's" \
  $cuh 'static void miras__back_linked(' 'binv[i] = sum' 'binv[i] = FAULT ? 0 : sum'
plant "a chunk's last read goes back by the weights before" linked "from the host's" \
  $cuh 'void miras__back_closing(' 'p = c->back.wc' 'p = (FAULT ? c->w : c->back.wc)'
plant "a layer's heads go back by another head's rows" layers 'differs: by' \
  $cuh 'void miras__chunks_of_layer(' '_dy_of(&v, o).p + h *' \
  '_dy_of(&v, o).p + (h ^ (size_t)FAULT) *'
plant "sums of a layer's heads are not begun" layers 'differs: by' \
  $cuh 'void miras__chunks_of_layer(' 'v.adds = again' 'v.adds = again || FAULT'

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
for name in $programs; do
  rows=
  parts=-DMIRAS_NO_MODEL
  case $name in
    test_cuda) rows='titans gla' ;;
    test_cuda_chunks) rows='deltanet hgrn2' ;;
    test_cuda_model) rows='chunks-ttt-mlp-memory' parts= ;;
  esac
  # shellcheck disable=SC2086 # flags and rows are several words
  { "$cxx" -std=c++11 -O1 -g1 -w $flags $parts -fsanitize=thread \
      -c "$folder/tests/$name.cpp" -o "$folder/$name.o" &&
      "$cxx" "$folder/$name.o" -o "$folder/$name" -lm &&
      PLANTED=0 "$folder/$name" $rows; } >"$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
done
number=0
while IFS='|' read -r what row says; do
  number=$((number + 1))
  case $row in
    units) name=test_cuda_units ;;
    chunks) name=test_cuda_chunks row=deltanet ;;
    channels) name=test_cuda_chunks row=hgrn2 ;;
    perceptrons) name=test_cuda_perceptrons row=ttt-mlp ;;
    channelled) name=test_cuda_perceptrons row=channels ;;
    linked) name=test_cuda_perceptrons row=moneta ;;
    layers) name=test_cuda_model row=chunks-ttt-mlp-memory ;;
    *) name=test_cuda ;;
  esac
  [ -x "$folder/$name" ] || continue
  PLANTED=$number timeout 100 "$folder/$name" "$row" >"$folder/said" 2>&1
  tell "$what" $? "$says"
done <"$folder/list"

# Kernels of their own: 64 threads and 64 floats of shared memory.
cat >"$folder/tests/small.cpp" <<'END'
#include "cuda_shim.h"
#define MIRAS_CUDA_THREADS 64
typedef struct job { int planted; } job;
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
int main(int, char **argv) {
  const job a = {atoi(argv[1])};
  void *arguments[1] = {(void *)&a};
  const dim3 grid(a.planted == 8 ? 0 : 2), block(a.planted == 9 ? 288 : MIRAS_CUDA_THREADS);
  return cudaLaunchKernel(kernel, grid, block, arguments, a.planted == 7 ? 50000 : 256, NULL);
}
END

small() {   # what, its number, what is said, compiler flags
  # shellcheck disable=SC2086 # flags are several words
  [ "$4" = "$built" ] ||
    "$cxx" -std=c++11 -g1 -w $4 "$folder/tests/small.cpp" -o "$folder/small" -lm || exit 1
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
small 'a stack that is too small' 6 'more than SHIM_STACK bytes' -O0
if "$cxx" -fsanitize=address "$folder/try.cpp" -o "$folder/try" 2>/dev/null && "$folder/try"; then
  address='-O1 -fsanitize=address'
  small 'an index beyond shared memory, under ASan' 1 'ERROR.*heap-buffer-overflow' "$address"
  small 'a stack that is too small, under ASan' 6 'ERROR.*stack-overflow' "$address"
fi
echo "$failed not caught"
[ "$failed" = 0 ]
