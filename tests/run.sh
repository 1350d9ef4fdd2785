#!/bin/sh
# run.sh: every test of the library. Run from anywhere:
#   sh tests/run.sh           everything; about thirteen minutes on two cores
#   sh tests/run.sh quick     one compiler, no sanitizers, no matrix: about a minute
#   sh tests/run.sh device    the device half alone, all of it, ten minutes on two cores. When it
#                             has passed, tests/device.txt says of which sources, and until one of
#                             them changes, comments apart, its longer checks are left out above
# One line per check, the log of what failed, and at the end "N passed, N failed, N skipped". The
# exit status is 0 only if nothing failed. Missing packages are installed with apt-get where that is
# possible without a password; where it is not, what needs them is skipped and counted.
#   JOBS=n      jobs at a time (default: the number of processors)
#   ONLY=text   only the checks whose name contains the text
#   KEEP=1      keep the build folder and say where it is
#   SHARE=n     check one in n cases of the longest grids (default 1: all of them)
#   MIRAS_NO_INSTALL=1   install nothing
set -u
LC_ALL=C
export LC_ALL

# ---- one job: this script calls itself for each, so that xargs can run several at a time ----
if [ "${1:-}" = --job ]; then
  job=$2
  read -r name <"$job"
  start=$(date +%s)
  sh "$job" >"$job.log" 2>&1
  status=$?
  seconds=$(($(date +%s) - start))
  times >"$job.times"   # the last line: what the children used
  seconds="$seconds s, $(awk -F'[m.]' 'NR == 2 {print $1 * 60 + $2}' "$job.times") s of processor"
  case $status in
    0) word=pass ;;
    77) word=skip ;;
    *) word=FAIL ;;
  esac
  # xargs runs jobs side by side; one printf is one write, so that lines stay whole
  if [ $word = FAIL ]; then
    [ $status = 124 ] && echo "(killed after $MIRAS_TEST_LIMIT seconds)" >>"$job.log"
    printf '%s  %s (%s, status %s)\n%s\n' "$word" "${name#\# }" "$seconds" "$status" \
      "$(tail -n 40 "$job.log" | sed 's/^/      | /')"
  else
    printf '%s  %s (%s)\n' "$word" "${name#\# }" "$seconds"
  fi
  echo "$word" >"$job.result"
  exit 0
fi

mode=${1:-all}
case $mode in
  all|quick|device) ;;
  *) echo "usage: sh tests/run.sh [quick|device]" >&2; exit 2 ;;
esac
self=$(cd "$(dirname "$0")" && pwd)/run.sh
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 2
build=$(mktemp -d "${TMPDIR:-/tmp}/miras_tests.XXXXXX") || exit 2
clean() { if [ -n "${KEEP:-}" ]; then echo "kept: $build"; else rm -rf "$build"; fi; }
trap clean EXIT
trap 'exit 130' HUP INT TERM
mkdir "$build/jobs" "$build/bin"
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
MIRAS_TEST_LIMIT=1500
SHARE=${SHARE:-1}
ASAN_OPTIONS=detect_leaks=1:abort_on_error=0
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
TMPDIR=$build
export MIRAS_TEST_LIMIT ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS TMPDIR
limit=
command -v timeout >/dev/null 2>&1 && limit="timeout $MIRAS_TEST_LIMIT"

# ---- what this machine has, and what it can get ----

has() { command -v "$1" >/dev/null 2>&1; }
compiles() {   # compiler, flags...: a program that does nothing builds and runs
  compiler=$1
  shift
  has "$compiler" && echo 'int main(void) { return 0; }' >"$build/try.c" &&
    "$compiler" "$build/try.c" -o "$build/try" "$@" >/dev/null 2>&1 && "$build/try" >/dev/null 2>&1
}

small_arm() {   # a cross compiler for microcontrollers, with a C library
  has arm-none-eabi-gcc && printf '%s\n' '#include <string.h>' '#include <math.h>' |
    arm-none-eabi-gcc -x c --specs=nano.specs -fsyntax-only - 2>/dev/null
}

emulates() {   # AVX-512 where the processor has AVX2 alone (SIMDE=1: anywhere)
  [ "$(uname -m)" = x86_64 ] && grep -qw avx2 /proc/cpuinfo 2>/dev/null &&
    { [ -n "${SIMDE:-}" ] || ! grep -qw avx512f /proc/cpuinfo; }
}

wanted() {   # the packages that are missing, one per line
  compiles gcc -lm || echo gcc libc6-dev
  has cmp || echo diffutils
  has nm || echo binutils
  { has gcc && echo '#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
int main(void) { return 0; }' | gcc -x c - -o "$build/try" -lcmocka 2>/dev/null; } ||
    echo libcmocka-dev
  [ "$mode" = quick ] && { has g++ || echo g++; return; }
  has g++ || echo g++
  has clang || echo clang
  compiles clang -fsanitize=address,undefined || echo libclang-rt-14-dev
  compiles gcc -lblis || echo libblis-dev
  { has aarch64-linux-gnu-gcc && echo 'int main(void) { return 0; }' |
    aarch64-linux-gnu-gcc -x c - -static -o "$build/try" 2>/dev/null; } ||
    echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  has qemu-aarch64 || has qemu-aarch64-static || echo qemu-user
  ! emulates || [ -f /usr/include/simde/x86/avx512.h ] || echo libsimde-dev
  small_arm || echo gcc-arm-none-eabi libnewlib-arm-none-eabi
  has qemu-system-arm || echo qemu-system-arm
  { has mpicc && has mpirun; } || echo openmpi-bin libopenmpi-dev
}

missing=$(wanted | tr '\n' ' ')
if [ -n "$missing" ] && [ -z "${MIRAS_NO_INSTALL:-}" ] && has apt-get; then
  as_root=
  if [ "$(id -u)" != 0 ]; then
    if has sudo && sudo -n true 2>/dev/null; then as_root='sudo -n'; else as_root=no; fi
  fi
  if [ "$as_root" != no ]; then
    echo "installing: $missing"
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    $as_root apt-get update -q >"$build/apt.log" 2>&1
    # shellcheck disable=SC2086 # the lists are meant to split
    $as_root apt-get install -q -y --no-install-recommends $missing >>"$build/apt.log" 2>&1 ||
      for package in $missing; do   # one of them may be unknown here: take the rest
        $as_root apt-get install -q -y --no-install-recommends "$package" >>"$build/apt.log" 2>&1
      done
    missing=$(wanted | tr '\n' ' ')
  fi
fi
[ -z "$missing" ] || echo "Missing here, so what needs them is skipped: $missing"

gcc=
clang=
if compiles gcc -lm; then gcc=gcc; fi
if [ "$mode" != quick ] && compiles clang -lm; then clang=clang; fi
if [ -z "$gcc" ] && compiles clang -lm; then gcc=clang; fi
if [ -z "$gcc" ]; then
  echo "No C compiler was found and none could be installed; nothing can be tested."
  echo "0 passed, 1 failed"
  exit 1
fi

# ---- collecting jobs ----

count=0
skipped=0
of_device=   # in between: what follows is the device half's
job() {   # name, shell text
  [ "$mode" != device ] || [ -n "$of_device" ] || return 0
  case $1 in
    *"${ONLY:-}"*) ;;
    *) return ;;
  esac
  count=$((count + 1))
  printf '# %s\n%s\n' "$1" "$2" >"$build/jobs/$(printf %04d $count)"
}
skip() {   # name, reason
  [ "$mode" != device ] || [ -n "$of_device" ] || return 0
  case $1 in
    *"${ONLY:-}"*) ;;
    *) return ;;
  esac
  skipped=$((skipped + 1))
  echo "skip  $1: $2"
}

# -Wconversion of clang includes signs, that of gcc does not; the house leaves them out.
c_warnings='-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wshadow -Wdouble-promotion'
strict="-Werror $c_warnings"
strict_c="$strict -Wmissing-prototypes -Wstrict-prototypes"

# Build tests/NAME.c and run it. A test that holds tests/check.h can do without cmocka.
cmocka='-lcmocka'
echo '#include <stddef.h>
#include <stdint.h>
#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
int main(void) { return 0; }' >"$build/try.c"
if ! $gcc "$build/try.c" -o "$build/try" -lcmocka 2>/dev/null; then
  cmocka='-DMIRAS_TEST_NO_CMOCKA'
  skip 'the runner of cmocka' 'it is not here; the plain one of tests/check.h is used'
fi
object_of() {   # label: the library of tests with these flags, compiled once for all of them
  echo "$build/bin/$(echo "object $1" | tr -c 'A-Za-z0-9\n' _).o"
}
test_job() {   # compiler, test, label, flags, libraries
  [ -f "tests/$2.c" ] && [ "$mode" != device ] || return 0
  binary=$build/bin/$(echo "$2 $3" | tr -c 'A-Za-z0-9\n' _)
  library=
  case " $linked " in
    *" $2 "*)   # what these call has been compiled once for all of them, before other jobs
      library=$(object_of "$3")
      case "$2: $3" in
        *"${ONLY:-}"*)
          echo "$1 -std=c99 $strict_c $4 -c tests/object.c -o '$library'" >"$library.sh" ;;
      esac
      library="-DMIRAS_TEST_LINKED '$library'" ;;
  esac
  job "$2: $3" "$1 -std=c99 $strict_c $4 tests/$2.c $library -o '$binary' $cmocka ${5:-} -lm \
-lpthread &&
$limit '$binary'"
}
linked='test_memory test_model test_framework test_state test_threads test_sessions'
linked="$linked test_old_files"

# Some tests walk long grids. gcc walks them whole, with vectors; what is slower, or compiles the
# same text again, one case in so many.
share() {   # test, times
  case $1 in
    test_memory|test_model) echo "-DMIRAS_TEST_SHARE=$((SHARE * $2 * $2))" ;;
    test_framework|test_kernels|test_files) echo "-DMIRAS_TEST_SHARE=$((SHARE * $2))" ;;
    test_checkpoints) echo "-DMIRAS_TEST_SHARE=$((SHARE * $2 * 2 - 1))" ;;
  esac
}

tests='test_memory test_model test_framework test_kernels test_api test_attention test_threads'
for file in tests/test_*.c; do   # none is forgotten
  name=$(basename "$file" .c)
  case " $tests " in
    *" $name "*) ;;
    *) tests="$tests $name" ;;
  esac
done

# The device code's fused multiply-adds: the processor's, where it has them, not calls of fmaf.
fused=
grep -qw fma /proc/cpuinfo 2>/dev/null && compiles g++ -mfma && fused=-mfma

job lint 'sh tests/lint.sh'
# The device half, of sources that may have passed already: their text without comments (-P: and
# without line numbers), the scripts, and what is built here with which flags.
of_device=yes
device_sources() {
  for file in miras.h miras_cuda.cuh tests/cuda_*.h tests/fingerprint.h tests/test_cuda*.cpp \
    examples/lm.c examples/lm_cuda.cu; do
    echo "$file"
    $gcc -x c -fpreprocessed -dD -E -P "$file" 2>/dev/null
  done
  cat tests/cuda_table.sh tests/cuda_table.txt tests/cuda_faults.sh tests/test_cuda_lm.sh
  sed -n '/^of_device=yes/,/^of_device=$/p' tests/run.sh
}
longer=
if [ "$mode" != quick ]; then
  sources=$(device_sources | sha256sum | cut -c1-32)
  longer=yes
  if [ "$mode" = all ] && grep -qx "sources $sources" tests/device.txt 2>/dev/null; then
    echo "The device half's longer checks have passed with these sources (tests/device.txt)."
    longer=
  fi
fi
job 'engines are device code' 'sh tests/test_device.sh'
if [ -n "$longer" ]; then   # six minutes of one processor: it begins first
  if has nvcc || has /usr/local/cuda/bin/nvcc; then
    job 'miras_cuda.cuh: registers, stack and spills' 'sh tests/cuda_table.sh'
  else
    skip 'miras_cuda.cuh: registers, stack and spills' 'there is no nvcc'
  fi
fi
cuda='miras_cuda.cuh without a GPU'
cuda_of() {   # test: how its source is built; AVX-512 has the bits of AVX2
  case $1 in
    test_cuda_model|test_cuda_kernels|test_cuda_limits) parts= ;;
    test_cuda_segments) parts='-DMIRAS_NO_MODEL -O3' ;;   # the host's half as nvcc -O3 has it
    *) parts=-DMIRAS_NO_MODEL ;;
  esac
  echo "-std=c++11 $fused -ffp-contract=off -DMIRAS_NO_AVX512 $parts tests/$1.cpp"
}
cuda_tests='test_cuda test_cuda_segments test_cuda_chunks test_cuda_perceptrons test_cuda_kernels'
cuda_tests="$cuda_tests test_cuda_model test_cuda_units test_cuda_limits"
for name in $cuda_tests; do
  [ -n "$longer" ] || [ "$name" = test_cuda ] || [ "$mode" = quick ] || continue
  has g++ && job "$cuda: $name" "g++ -O1 $(cuda_of $name) -o '$build/$name' -lm && '$build/$name'"
done
if [ -n "$longer" ]; then
  has g++ && job 'lm_cuda as lm, without a GPU' 'sh tests/test_cuda_lm.sh'
  printf '%s\n' '#include "tests/cuda_shim.h"' '#define MIRAS_IMPLEMENTATION' '#include "miras.h"' \
    '#define MIRAS_CUDA_IMPLEMENTATION' '#include "miras_cuda.cuh"' >"$build/parts.cpp"
  has g++ && job 'miras_cuda.cuh: builds that leave parts out' "
  for part in MODEL TRAINING FILES ATTENTION; do
    g++ -std=c++11 -fsyntax-only -w -I. -DMIRAS_NO_\$part '$build/parts.cpp' || exit 1
  done"
  # races, which link without the run-time (tests/cuda_races.h); indices; whether mistakes are found
  echo 'int main() { return 0; }' >"$build/try.cpp"
  if has g++ && g++ -fsanitize=thread -c "$build/try.cpp" -o "$build/try.o" 2>/dev/null; then
    for name in $cuda_tests; do
      rows=
      case $name in
        test_cuda)
          rows='linear-attention gla gated-deltaproduct rwkv7 mesa softmax-attention'
          rows="$rows ttt-linear titans moneta" ;;
        test_cuda_model) rows='deltanet-memory titans chunks' ;;
        test_cuda_segments) rows='gated-deltanet' ;;
        test_cuda_chunks) rows='kda gated-deltanet deltanet retnet' ;;
        test_cuda_perceptrons) rows='ttt-mlp channels moneta' ;;
        test_cuda_kernels|test_cuda_limits) continue ;;
      esac
      job "$cuda: races, $name" "
g++ -O1 -g1 -fsanitize=thread -c $(cuda_of $name) -o '$build/$name.races.o' &&
g++ '$build/$name.races.o' -o '$build/$name.races' -lm && $limit '$build/$name.races' $rows"
    done
    job "$cuda: planted mistakes" "FUSED='$fused' $limit sh tests/cuda_faults.sh few"
  else
    skip "$cuda: races, planted mistakes" 'g++ has no -fsanitize=thread'
  fi
  if compiles g++ -fsanitize=address,undefined; then
    for name in test_cuda test_cuda_chunks; do
      rows='gla deltanet'
      [ $name = test_cuda ] && rows='gla sliding-window mesa ttt-mlp titans'
      job "$cuda: address and undefined sanitizers, $name" "
g++ -O0 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all \
$(cuda_of $name) -o '$build/$name.sane' -lm && $limit '$build/$name.sane' $rows"
    done
  else
    skip "$cuda: address and undefined sanitizers" 'g++ cannot'
  fi
fi
of_device=

# The slowest first, so that no processor ends up waiting for the last one: NEON, emulated.
if [ "$mode" = all ]; then
  arm='aarch64-linux-gnu-gcc'
  qemu=
  for name in qemu-aarch64 qemu-aarch64-static; do
    if [ -z "$qemu" ] && has "$name"; then qemu=$name; fi
  done
  if [ -n "$qemu" ] && has $arm; then
    # what memories compute with these kernels, smoke compares with AVX below, bit for bit
    job "test_kernels: $arm -O2, NEON under qemu" "$arm -std=c99 $strict_c -O2 -static \
$(share test_kernels 15) -DMIRAS_TEST_NO_CMOCKA tests/test_kernels.c -o '$build/bin/arm_kernels' \
-lm -lpthread &&
$limit $qemu '$build/bin/arm_kernels'"
    job "smoke: $arm -O2, NEON under qemu" "$arm -std=c99 $strict_c -O2 -static tests/smoke.c \
-o '$build/bin/smoke_arm' -lm && $limit $qemu '$build/bin/smoke_arm' >'$build/smoke_arm' &&
cat '$build/smoke_arm' && grep -q 'isa neon' '$build/smoke_arm'"
  else
    skip 'test_kernels, smoke: NEON' 'the cross compiler or qemu-user is not installed'
  fi
fi

if [ "$mode" = all ]; then
  # address and undefined behaviour: the kernels, portable and vectors, whose over-reads guard pages
  # and exact buffers would show, by gcc, which needs a third of clang's time for them; the portable
  # build of every other test, by clang where its run-time is here, else by gcc
  sane='-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all'
  if compiles gcc -fsanitize=address,undefined; then
    # of AVX-512 the guard pages of the plain build tell
    test_job gcc test_kernels 'gcc -O1, address and undefined sanitizers' \
      "$sane -DMIRAS_NO_AVX512 $(share test_kernels 8)"
  else
    skip 'test_kernels: gcc, address and undefined sanitizers' 'gcc cannot'
  fi
  checker=
  for compiler in clang gcc; do
    if [ -z "$checker" ] && compiles $compiler -fsanitize=address,undefined; then
      checker=$compiler
    fi
  done
  for name in $tests; do
    case $name in test_sizes|test_stack|test_kernels) continue ;; esac   # two of optimised builds
    if [ -n "$checker" ]; then
      case $name in   # -O1 takes clang half a minute, which short tests do not win back
        test_api|test_attention|test_files|test_checkpoints) level=-O0 ;;
        *) level=-O1 ;;
      esac
      test_job "$checker" "$name" \
        "$checker $level -DMIRAS_NO_SIMD, address and undefined sanitizers" \
        "$sane $level -DMIRAS_NO_SIMD $(share "$name" 7)"
    else
      skip "$name: address and undefined sanitizers" 'no compiler here has their run-time'
    fi
  done

  # threads: some kernels place programs where the run-time does not expect them
  races=
  around=
  for compiler in clang gcc; do
    if [ -n "$races" ] || ! has $compiler; then continue; fi
    echo 'int main(void) { return 0; }' >"$build/try.c"
    $compiler -fsanitize=thread "$build/try.c" -o "$build/try" >/dev/null 2>&1 || continue
    if "$build/try" >/dev/null 2>&1; then
      races=$compiler
    elif setarch -R "$build/try" >/dev/null 2>&1; then
      races=$compiler
      around='setarch -R'
    fi
  done
  if [ -n "$races" ]; then
    job "test_threads: $races -O1, thread sanitizer" "$races -std=c99 $strict_c -O1 -g1 \
-DMIRAS_NO_SIMD -fsanitize=thread tests/test_threads.c -o '$build/bin/tsan' $cmocka -lm -lpthread &&
$limit $around '$build/bin/tsan'"
  else
    skip 'test_threads: thread sanitizer' 'it does not run on this machine'
  fi

  if emulates; then
    if [ -f /usr/include/simde/x86/avx512.h ] && has gcc; then
      job 'test_kernels: AVX-512, emulated by SIMDe' "gcc -std=gnu99 -O1 -w -mavx2 -mfma \
-include tests/simde.h tests/test_kernels.c -o '$build/bin/simde' $cmocka -lm &&
$limit '$build/bin/simde'"
    else
      skip 'test_kernels: AVX-512' 'neither the processor nor libsimde-dev has it'
    fi
  fi

  # gaps between arrays, looked at after every engine and layer
  for name in test_memory test_model; do
    test_job "$gcc" "$name" "$gcc -O1 -DMIRAS_CHECK -DMIRAS_NO_AVX512" \
      "-O1 -DMIRAS_CHECK -DMIRAS_NO_AVX512 $(share "$name" 4)"
  done

  # the portable kernels: sanitizers above have run all tests on them; the optimiser is met where
  # memories and kernels are, and smoke does the same with models
  for name in test_memory test_framework test_kernels test_attention; do
    test_job "$gcc" "$name" "$gcc -O2 -DMIRAS_NO_SIMD" "-O2 -DMIRAS_NO_SIMD $(share "$name" 4)"
  done

  if compiles "$gcc" -lblis; then
    # gnu99: blis.h asks for pthread_barrier_t
    test_job "$gcc" test_model "$gcc -O2 -DMIRAS_USE_BLIS" \
      "-std=gnu99 -O2 -DMIRAS_USE_BLIS $(share test_model 4)" -lblis
  else
    skip 'test_model: -DMIRAS_USE_BLIS' 'BLIS is not installed'
  fi
fi
for name in $tests; do
  test_job "$gcc" "$name" "$gcc -O2" "-O2 $(share "$name" 1)"
done
[ -z "$clang" ] || for name in test_memory test_model test_framework test_kernels; do
  test_job clang "$name" 'clang -O2' "-O2 $(share "$name" 2)"
done

# What combines is the library's to say: the README holds the answer of this program.
job 'README: the table of combinations' "$gcc -std=c99 -O1 -DMIRAS_NO_SIMD \
-DMIRAS_TEST_NO_CMOCKA tests/test_framework.c -o '$build/bin/table' -lm &&
'$build/bin/table' --table >'$build/table' &&
sed -n '/^<!-- combinations -->/,/^<!-- end of combinations -->/p' README.md | sed '1d;\$d' |
diff - '$build/table'"

# Damaged files: a fixed number of mutations everywhere, the fuzzer where clang has it.
if [ -f tests/fuzz_files.c ]; then
  job "fuzz_files: $gcc -O2" "$gcc -std=c99 $strict_c -O2 tests/fuzz_files.c \
-o '$build/bin/damage' -lm && $limit '$build/bin/damage'"
  fuzz=
  if [ -n "$clang" ]; then
    printf '%s\n' '#include <stddef.h>' '#include <stdint.h>' \
      'int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) { return p && n > 1u << 30; }' \
      >"$build/try.c"
    clang -fsanitize=fuzzer "$build/try.c" -o "$build/try" >/dev/null 2>&1 && fuzz=yes
  fi
  if [ -n "$fuzz" ]; then
    job 'fuzz_files: clang, 10 seconds of libFuzzer' "mkdir '$build/corpus' &&
$gcc -std=c99 -O1 -DMIRAS_NO_SIMD tests/fuzz_files.c -o '$build/bin/seeds' -lm &&
'$build/bin/seeds' --seeds '$build/corpus' &&
clang -std=c99 $strict -O1 -g1 -DMIRAS_NO_SIMD -DMIRAS_LIBFUZZER \
-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all tests/fuzz_files.c \
-o '$build/bin/fuzz' -lm &&
cd '$build' && $limit bin/fuzz -max_total_time=10 -seed=1 -rss_limit_mb=2048 -timeout=20 corpus"
  elif [ "$mode" = all ]; then
    skip 'fuzz_files: libFuzzer' 'clang with its fuzzer is not installed'
  fi
fi

# The smoke program at every optimisation level; its fingerprints are compared at the end.
smoke_job() {   # compiler, label, flags, source
  job "smoke: $1 $2" "$1 $3 $4 -o '$build/bin/smoke_$count' -lm -lpthread &&
$limit '$build/bin/smoke_$count' >'$build/smoke_$count.part' && cat '$build/smoke_$count.part' &&
mv '$build/smoke_$count.part' '$build/smoke_$5$count'"
}
smoke_linked() {   # compiler, label of a test whose library is an object already, kind
  object=$(object_of "$2")
  [ -f "$object.sh" ] || return 0
  smoke_job "$1" "${2#* }, linked" "-std=c99 $strict_c -DMIRAS_TEST_LINKED" \
    "tests/smoke.c '$object'" "$3"
}
if [ "$mode" = all ]; then
  for compiler in $gcc $clang; do
    smoke_job "$compiler" -O0 "-std=c99 $strict_c -O0" tests/smoke.c simd_
    smoke_linked "$compiler" "$compiler -O2" simd_
  done
  smoke_job "$gcc" -O3 "-std=c99 $strict_c -O3" tests/smoke.c simd_
  smoke_job "$gcc" '-O2 -march=native -std=gnu17' "-std=gnu17 $strict_c -O2 -march=native" \
    tests/smoke.c simd_
  smoke_job "$gcc" '-O2 -DMIRAS_NO_AVX512' "-std=c99 $strict_c -O2 -DMIRAS_NO_AVX512" \
    tests/smoke.c simd_
  smoke_linked "$gcc" "$gcc -O2 -DMIRAS_NO_SIMD" plain_
  [ -z "$clang" ] || smoke_job "$clang" '-O2 -DMIRAS_NO_SIMD' \
    "-std=c99 $strict_c -O2 -DMIRAS_NO_SIMD" tests/smoke.c plain_
  smoke_job "$gcc" '-O3 -DMIRAS_NO_SELF_INCLUDE' \
    "-std=c11 $strict_c -O3 -DMIRAS_NO_SELF_INCLUDE" tests/smoke.c plain_
  for compiler in g++ clang++; do   # the oldest standard and a new one
    std=-std=c++11
    [ $compiler = g++ ] && std=-std=c++20
    if has $compiler; then
      smoke_job $compiler "$std -O1" "$std $strict -O1" tests/smoke.cpp simd_
    else
      skip "smoke: $compiler" 'it is not installed'
    fi
  done
else
  smoke_job "$gcc" -O0 "-std=c99 $strict_c -O0" tests/smoke.c simd_
  smoke_job "$gcc" '-O2 -DMIRAS_NO_SIMD' "-std=c99 $strict_c -O2 -DMIRAS_NO_SIMD" \
    tests/smoke.c plain_
  has g++ && smoke_job g++ '-std=c++11 -O2' "-std=c++11 $strict -O2" tests/smoke.cpp simd_
fi

# Several files, one program.
two() {   # label, flags, compiler of b, language of b
  here=$build/two_$count
  job "two files: $1" "$gcc -std=c99 $strict_c -O1 $2 -c tests/two_tu_a.c -o '$here.a.o' &&
$3 $4 $strict -O1 $2 -c tests/two_tu_b.c -o '$here.b.o' &&
$3 '$here.a.o' '$here.b.o' -o '$here' -lm -lpthread && '$here'"
}
two 'one implementation' -DMIRAS_NO_SIMD "$gcc" -std=c99
two 'one implementation, MIRAS_PTHREADS' '-DMIRAS_PTHREADS -DMIRAS_NO_SIMD' "$gcc" -std=gnu17
two 'MIRAS_STATIC in both' '-DMIRAS_STATIC -DMIRAS_NO_SIMD' "$gcc" -std=c99
if has g++ && [ "$gcc" = gcc ]; then
  two 'C++ calls the C implementation' -DMIRAS_NO_SIMD g++ '-x c++ -std=c++11'
fi

# A copy under another name.
job 'renamed header, MIRAS_SELF' "mkdir '$build/renamed' && cp miras.h '$build/renamed/other.h' &&
printf '%s\n' '#define MIRAS_IMPLEMENTATION' '#include \"other.h\"' \
'int main(void) { return miras_isa()[0] == 0; }' >'$build/renamed/a.c' &&
$gcc -std=c99 -O0 -DMIRAS_SELF='\"other.h\"' '$build/renamed/a.c' -o '$build/renamed/a' -lm &&
'$build/renamed/a'"

# Symbols: only miras_ names leave the object, nothing mutable but the cached instruction set, and
# with the allocator replaced and no stdio nothing of either is asked for.
job 'symbols' "
printf '%s\n' '#include <stddef.h>' 'void *mine(size_t); void yours(void *);' \
'#define MIRAS_MALLOC(n) mine(n)' '#define MIRAS_FREE(p) yours(p)' '#define MIRAS_NO_STDIO' \
'#define MIRAS_ASSERT(x) ((void)0)' '#define MIRAS_IMPLEMENTATION' '#include \"miras.h\"' \
>'$build/symbols.c' &&
$gcc -std=c99 -O1 -fno-pic -fno-stack-protector -U_FORTIFY_SOURCE -I. -c '$build/symbols.c' \
-o '$build/symbols.o' || exit 1
bad=0
nm -g --defined-only '$build/symbols.o' | awk '{print \$3}' | grep -v '^miras_[a-z]' && {
  echo 'these names should not leave the object'; bad=1; }
nm '$build/symbols.o' | awk '\$2 ~ /^[bBdDcC]\$/ {print \$3}' | grep -v '^cached' && {
  echo 'these are mutable and static'; bad=1; }
nm -u '$build/symbols.o' | awk '{print \$2}' |
  grep -E '^_*(malloc|calloc|realloc|free|f?open|f?read|f?write|v?s?n?f?printf(_chk)?|puts|exit|\
abort|remove|rename|getenv|time|rand|pthread_.*|setlocale|strtod)\$' && {
  echo 'the library should not call these'; bad=1; }
exit \$bad"

# A host says what stands in front of the public functions: all of them leave a shared library.
job 'MIRAS_API of a host: every call is exported' "printf '%s\\n' \
'#define MIRAS_API __attribute__((visibility(\"default\")))' '#define MIRAS_IMPLEMENTATION' \
'#include \"miras.h\"' >'$build/exports.c' &&
$gcc -std=c99 $strict_c -O0 -DMIRAS_NO_SIMD -shared -fPIC -fvisibility=hidden -I. \
'$build/exports.c' -o '$build/exports.so' -lm &&
nm -D --defined-only '$build/exports.so' | awk '{print \$3}' | sort >'$build/exported' &&
sed -n 's/^MIRAS_API[^(]*[ *]\\(miras_[a-z0-9_]*\\)(.*/\\1/p' miras.h | sort -u |
grep -v '^miras_pool_' | diff - '$build/exported' && wc -l <'$build/exported'"

# Headers of hosts define macros with names that are words (tests/macros.txt).
macros() {   # label, compiler, headers that come first, the library's includes
  job "macros of hosts: $1" "{ printf '#include <%s>\\n' $3 &&
sed 's/#.*//' tests/macros.txt | tr -s ' ' '\\n' | grep . |
  sed 's/^\([^(]*\).*/#undef \1/' &&
sed 's/#.*//' tests/macros.txt | tr -s ' ' '\\n' | grep . |
  sed 's/()/(...)/; s/.*/#define & 0bad/' &&
printf '%s\\n' $4; } >'$build/macros_$count.c' &&
grep -q 'define near 0bad' '$build/macros_$count.c' && grep -q 'define clear(...) 0bad' \
'$build/macros_$count.c' && $2 -I. -fsyntax-only '$build/macros_$count.c'"
}
before='assert.h float.h limits.h math.h stdarg.h stddef.h stdint.h stdio.h stdlib.h string.h'
before="$before time.h pthread.h sched.h signal.h unistd.h"
[ "$(uname -m)" != x86_64 ] || before="$before cpuid.h immintrin.h"
library="'#define MIRAS_PTHREADS' '#include \"miras.h\"' '#define MIRAS_IMPLEMENTATION'"
library="$library '#include \"miras.h\"'"
macros miras.h "$gcc -std=gnu99" "$before" "$library"
if has g++; then
  macros 'miras.h in C++' 'g++ -std=c++11 -x c++' "$before cmath cstdlib" "$library"
  macros miras_cuda.cuh "g++ -std=c++11 -x c++ $fused -w" \
    "$before cmath cstdlib vector algorithm" \
    "'#include \"tests/cuda_shim.h\"' $library '#define MIRAS_CUDA_IMPLEMENTATION' \
'#include \"miras_cuda.cuh\"'"
fi

# What must not compile.
refuse() {   # label, flags
  job "refused: $1" "printf '%s\n' '#define MIRAS_IMPLEMENTATION' '#include \"miras.h\"' \
>'$build/refuse_$count.c' && ! $gcc -std=c99 -fsyntax-only -I. $2 '$build/refuse_$count.c' \
2>'$build/refuse_$count.log' && cat '$build/refuse_$count.log' &&
grep -q '#error' '$build/refuse_$count.log'"
}
refuse '-ffast-math' -ffast-math
refuse '-ffinite-math-only' -ffinite-math-only
if [ "$gcc" = gcc ]; then   # clang does not tell of these, and takes them back where it compiles
  refuse '-fassociative-math' '-fassociative-math -fno-signed-zeros -fno-trapping-math'
  refuse '-fno-signed-zeros' -fno-signed-zeros
  refuse '-freciprocal-math' -freciprocal-math
fi
refuse 'MIRAS_STATIC with MIRAS_API' '-DMIRAS_STATIC -DMIRAS_API=extern'
refuse 'MIRAS_MALLOC without MIRAS_FREE' "'-DMIRAS_MALLOC(n)=malloc(n)'"
refuse 'MIRAS_FREE without MIRAS_MALLOC' "'-DMIRAS_FREE(p)=free(p)'"

# What a build leaves out: it refuses that, computes the same bits in the rest, and is small.
parts='TRAINING MODEL FILES EXACT FROZEN MESA ATTENTION'
if [ "$mode" = all ]; then
  job 'parts: what is left out is refused, the rest keeps its bits' "
build() { $gcc -std=c99 $strict_c -O0 -DMIRAS_NO_SIMD \$1 tests/parts.c -o '$build/bin/parts' -lm; }
build && '$build/bin/parts' >'$build/parts_all' || exit 1
for part in $parts; do
  build -DMIRAS_NO_\$part && '$build/bin/parts' >'$build/parts_one' || exit 1
  echo \"\$part: \$(grep -c ^refused '$build/parts_one') refused of \$(wc -l <'$build/parts_one')\"
  [ \"\$(wc -l <'$build/parts_one')\" -gt 1000 ] || exit 1
  grep ^refused '$build/parts_one' | grep -v MIRAS_NO_\$part && exit 1
  grep -v ^refused '$build/parts_one' | grep -vxFf '$build/parts_all' && exit 1
done
exit 0"
fi
if small_arm && has qemu-system-arm; then
  cortex="arm-none-eabi-gcc -std=c99 -Os -Wall -Wextra -Werror -mcpu=cortex-m4 -mthumb \
-mfloat-abi=hard -mfpu=fpv4-sp-d16 -ffunction-sections -fdata-sections tests/small.c -nostartfiles \
-T tests/small.ld -Wl,--gc-sections --specs=nano.specs --specs=nosys.specs -lm"
  emulated="$limit qemu-system-arm -M mps2-an386 -nographic -semihosting -kernel"
  job 'small: Cortex-M4, at most 40 KB' "$cortex -o '$build/small' &&
arm-none-eabi-size '$build/small' &&
arm-none-eabi-size '$build/small' | awk 'NR == 2 && \$1 + \$2 > 40960 {exit 1}' &&
$emulated '$build/small' >'$build/small.txt' 2>&1 </dev/null; status=\$?
cat '$build/small.txt'; [ \$status = 0 ] && grep -q 'one read' '$build/small.txt' &&
grep -q MIRAS_NO_FROZEN '$build/small.txt'"
  job 'small: Cortex-M4, a memory of any row in 4 KB of stack' "$cortex -DEVERY_ROW \
-o '$build/small_rows' && $emulated '$build/small_rows' >'$build/small_rows.txt' 2>&1 </dev/null
status=\$?; cat '$build/small_rows.txt'; [ \$status = 0 ] &&
grep -q '^stack of the deepest: ' '$build/small_rows.txt'"
else
  skip 'small: Cortex-M4' 'gcc-arm-none-eabi, its C library or qemu-system-arm is not installed'
fi

# Windows: what its compiler takes, and what runs under wine. Both are large: where they are not
# installed this is skipped.
windows=x86_64-w64-mingw32-gcc
if [ "$mode" = all ] && has $windows; then
  job 'Windows: every configuration compiles' "
printf '%s\\n' '#include <windows.h>' '#include \"miras.h\"' '#define MIRAS_IMPLEMENTATION' \
'#include \"miras.h\"' >'$build/windows.c'
for flags in -DNDEBUG -DMIRAS_STATIC -DMIRAS_NO_STDIO -DMIRAS_NO_SIMD -DMIRAS_WINDOWS_AVX \
  -DMIRAS_PTHREADS -DMIRAS_NO_TRAINING -DMIRAS_NO_MODEL -DMIRAS_NO_FILES \
  '-DMIRAS_API=__declspec(dllexport)'; do
  $windows -std=c99 -fsyntax-only -Wall -Wextra -Werror -I. \"\$flags\" '$build/windows.c' ||
    exit 1
done
for file in examples/*.c bench/*.c; do
  case \$file in *lm_mpi.c|*/flat.c|*/products.c) continue ;; esac
  $windows -fsyntax-only -Wall -Wextra -Werror \$file || exit 1
done"
  if has wine; then
    job 'Windows: programs under wine' "
WINEPREFIX='$build/wine' WINEDEBUG=-all
LC_ALL=C.UTF-8   # under C wine opens no file whose name is not ASCII
export WINEPREFIX WINEDEBUG LC_ALL
mkdir '$build/windows' &&
for file in examples/quickstart examples/lm tests/test_api tests/test_files; do
  $windows -static -O1 -Wall -Wextra -Werror -DMIRAS_TEST_NO_CMOCKA \$file.c \
    -o '$build/windows/'\$(basename \$file).exe -lm -lpthread || exit 1
done
cd '$build/windows' && mkdir -p tests/data && cp '$root/tests/data/6-gla.safetensors' tests/data &&
$limit wine quickstart.exe && $limit wine test_api.exe &&
$limit wine test_files.exe &&
cp '$root/README.md' . && $limit wine lm.exe train README.md --dim 16 --heads 1 --steps 3 \
  --out small.safetensors && ls -l small.safetensors
status=\$?
wineserver -k
exit \$status"
  else
    skip 'Windows: programs under wine' 'wine is not installed'
  fi
else
  [ "$mode" != all ] || skip 'Windows' 'gcc-mingw-w64-x86-64 is not installed'
fi

# The whole library at -Os, by the text column of size: machine code, constants, tables to unwind.
# The goals are 345,000, 255,000 and 165,000 bytes; until they are reached what there is is held.
if [ "$(uname -m)" = x86_64 ] && [ "$gcc" = gcc ] && has size; then
  job 'sizes: machine code at -Os' "
code() {   # most bytes, flags
  most=\$1; shift
  $gcc -std=c99 -Os \$* -DMIRAS_IMPLEMENTATION -x c -c miras.h -o '$build/size.o' || exit 1
  size '$build/size.o' | awk -v most=\$most -v flags=\"\$*\" '
    NR == 2 {
      printf \"%d bytes of %d %s\\n\", \$1, most, flags
      exit \$1 > most }'
}
code 349300 && code 292800 -DMIRAS_NO_SIMD && code 191300 -DMIRAS_NO_SIMD -DMIRAS_NO_TRAINING"
else
  skip 'sizes: machine code at -Os' 'they are promised of gcc on x86-64'
fi

# The matrix: dialect by configuration, syntax and warnings only. The builds above have covered the
# warnings that need the optimiser.
cell() {   # compiler, dialect, flags
  case $1 in
    *++) language='-x c++' extra=$strict ;;
    *) language='-x c' extra=$strict_c ;;
  esac
  job "compiles: $1 -std=$2 $3" "printf '%s\n' '#include \"miras.h\"' \
'#define MIRAS_IMPLEMENTATION' \
'#include \"miras.h\"' '#include \"miras.h\"' 'int main(void) { return miras_isa()[0] == 0; }' |
$1 $language -std=$2 $extra -fsyntax-only -I. $3 -"
}
if [ "$mode" = all ]; then
  for pair in gcc:c99 clang:c99 g++:c++11 clang++:c++11; do
    compiler=${pair%%:*}
    dialect=${pair#*:}
    if ! has "$compiler"; then
      skip "compiles: $compiler, every configuration" 'it is not installed'
      continue
    fi
    cell "$compiler" "$dialect" ''
    case $pair in   # every flag by one of gcc's and one of clang's, in C and in C++
      gcc:*|clang++:*)
        for flags in -DMIRAS_STATIC -DMIRAS_NO_STDIO -DMIRAS_NO_SIMD -DMIRAS_NO_AVX512 \
          -DMIRAS_NO_SELF_INCLUDE \
          '-DMIRAS_PTHREADS -DMIRAS_STATIC' '-DNDEBUG -DMIRAS_NO_SIMD -DMIRAS_NO_STDIO'; do
          cell "$compiler" "$dialect" "$flags"
        done ;;
      *)
        for part in $parts 'MODEL -DMIRAS_NO_TRAINING -DMIRAS_NO_FILES'; do
          cell "$compiler" "$dialect" "-DMIRAS_NO_SIMD -DMIRAS_NO_$part"
        done ;;
    esac
  done
  for pair in gcc:c11 gcc:gnu17 g++:c++17 clang:c11 clang:gnu17 clang++:c++17; do
    has "${pair%%:*}" && cell "${pair%%:*}" "${pair#*:}" -DMIRAS_PTHREADS
  done
  has aarch64-linux-gnu-gcc && cell aarch64-linux-gnu-gcc c99 ''
else
  cell "$gcc" c11 -DMIRAS_PTHREADS
  cell "$gcc" c99 -DMIRAS_NO_STDIO
fi

# Every example and benchmark compiles with the one command that it promises; those that tests run
# are built below.
for file in examples/*.c bench/*.c; do
  case $file in */recall.c|*/soak.c|*/lm_mpi.c) continue ;; esac
  [ -f "$file" ] || continue
  case $file in
    examples/lm.c|examples/run.c|bench/*) how=-fsyntax-only ;;
    *) how="-O1 -DMIRAS_NO_SIMD -o '$build/bin/example' -lm -lpthread" ;;
  esac
  job "compiles: $file" "$gcc '$file' -Wall -Wextra -Werror $how"
done

job 'compiles: tests/big.c' "$gcc -std=c99 $strict_c -DMIRAS_TEST_LINKED -fsyntax-only tests/big.c"
has g++ && job 'compiles: bench/gpu_count.cpp' 'g++ -std=c++11 -fsyntax-only bench/gpu_count.cpp'

# The quick forms of two benchmarks, built the quick way, as AVX2 has the bits of AVX-512. In soak
# every row passes; of recall those are listed that do (Memora needs the long form), and of layers
# as published those with a convolution or positions.
recall_rows=linear-attention,dfw,retnet-memory,lightning,gla-memory,mamba2-memory,hgrn2-memory
recall_rows=$recall_rows,deltanet-memory,longhorn,gated-deltanet,deltaproduct,gated-deltaproduct
recall_rows=$recall_rows,kda-memory,rwkv7-memory,mesa,softmax-attention,sliding-window
recall_rows=$recall_rows,ttt-linear-memory,ttt-mlp-memory,titans,moneta,yaad
recall_rows=$recall_rows,retnet,mamba2,deltanet,kda,rwkv7,titans-mag
quick='-O1 -Wall -Wextra -Werror -DMIRAS_NO_AVX512'
job 'recall: small networks look pairs up' "$gcc $quick bench/recall.c \
-o '$build/bin/recall' -lm -lpthread && $limit '$build/bin/recall' --quick --model $recall_rows &&
{ '$build/bin/recall' --set p=2 2>&1 || :; } | grep 'is it memory.p?'"
job 'soak: 3000 writes of every kind' "$gcc $quick bench/soak.c \
-o '$build/bin/soak' -lm && $limit '$build/bin/soak' --quick --writes 3000"
job 'examples/lm.c: its files' "$gcc -O1 -DMIRAS_NO_SIMD examples/lm.c -o '$build/bin/lm' -lm \
-lpthread && sh tests/test_lm.sh '$build/bin/lm'"
job 'examples/run.c: models of others' "$gcc -O1 -DMIRAS_NO_SIMD examples/run.c \
-o '$build/bin/run' -lm -lpthread && $gcc -O0 -DMIRAS_NO_SIMD examples/lm.c \
-o '$build/bin/lm_run' -lm -lpthread && sh tests/test_run.sh '$build/bin/run' '$build/bin/lm_run'"
if has mpicc && has mpirun; then
  job 'examples/lm_mpi.c: processes learn as one' 'sh tests/test_mpi.sh'
else
  skip 'examples/lm_mpi.c: processes learn as one' 'there is no mpicc'
fi

# ---- running them ----

for object in "$build"/bin/*.o.sh; do [ -f "$object" ] && echo "$object"; done |
  xargs -P "$jobs" -n 1 sh   # what cannot be built is missed, and shown, where it is linked
if [ "$count" -gt 0 ]; then
  find "$build/jobs" -type f | sort | xargs -P "$jobs" -n 1 sh "$self" --job
fi

# Fingerprints: the same for all compilers and levels, per kind of arithmetic; NEON adds its
# memories, whose bits are promised to equal those of AVX2 and AVX-512.
passed=0
failed=0
fingerprints() {   # name, field, files...
  title=$1
  field=$2
  shift 2
  [ $# -ge 2 ] || return 0
  if [ "$(grep -h "^$field " "$@" | sort -u | wc -l)" = 1 ]; then
    echo "pass  fingerprints: $title, $# builds agree"
    passed=$((passed + 1))
  else
    echo "FAIL  fingerprints: $title differ"
    grep "^$field \|^isa" "$@" | sed 's|^.*/|      |'
    failed=$((failed + 1))
  fi
}
set --
for file in "$build"/smoke_simd_*; do [ -f "$file" ] && set -- "$@" "$file"; done
if [ $# -ge 2 ]; then
  fingerprints 'vector builds, memories' memories "$@"
  fingerprints 'vector builds, models' models "$@"
  if [ -f "$build/smoke_arm" ] && grep -q 'isa avx' "$1"; then
    fingerprints 'NEON against AVX, memories' memories "$1" "$build/smoke_arm"
  fi
fi
set --
for file in "$build"/smoke_plain_*; do [ -f "$file" ] && set -- "$@" "$file"; done
if [ $# -ge 2 ]; then
  fingerprints 'portable builds, memories' memories "$@"
  fingerprints 'portable builds, models' models "$@"
fi

for file in "$build"/jobs/*; do
  case $file in
    *.log|*.result|*.times) continue ;;
  esac
  [ -f "$file" ] || continue
  word=FAIL   # no result: the job never came to its end
  [ -f "$file.result" ] && read -r word <"$file.result"
  case $word in
    pass) passed=$((passed + 1)) ;;
    skip) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
  esac
done
if [ "$failed" -gt 0 ]; then
  echo "Failed:"
  for file in "$build"/jobs/*.result; do
    grep -q FAIL "$file" && sed -n '1s/^# /  /p' "${file%.result}"
  done
fi
if [ "$mode" = device ] && [ "$failed" = 0 ] && [ "$skipped" = 0 ] && [ -z "${ONLY:-}" ]; then
  printf '%s\n' '# Written by sh tests/run.sh device: with these sources all of it has passed.' \
    "sources $sources" "date $(date +%Y-%m-%d)" "checks $passed" >tests/device.txt
fi
if [ "$skipped" -gt 0 ]; then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
[ "$failed" = 0 ]
