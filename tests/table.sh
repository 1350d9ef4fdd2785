# table.sh: every check, a row each: job NAME NEEDS COMMAND. What a row needs stands in run.sh
# (has_all); a row that needs all, quick, long or device is only in those runs. Commands see
# checks.sh. The slowest come first, so that no processor ends up waiting for the last one.
# shellcheck shell=sh disable=SC2034,SC2154,SC2016,SC2086 # variables are shared with run.sh

# Some tests walk long grids, of fields and damage too. gcc walks them with vectors, the longest by
# every second case or fewer and whole in run.sh learning; what is slower, or compiles the same text
# again, one case in so many.
share() {   # test, times
  case $1 in
    test_memory|test_model) echo "-DMIRAS_TEST_SHARE=$((SHARE * $2 * $2))" ;;
    test_framework|test_kernels|test_files|test_layers|test_learn|test_recursive|test_api|\
    test_sessions|test_signals|test_state|test_sizes|test_gguf|test_adapters|test_threads)
      echo "-DMIRAS_TEST_SHARE=$((SHARE * $2))" ;;
    test_tokenizer) echo "-DMIRAS_TEST_SHARE=$((SHARE * ($2 > 4 ? 4 : $2)))" ;;
    test_checkpoints) echo "-DMIRAS_TEST_SHARE=$((SHARE * $2 * 2 - 1))" ;;
  esac
}

# Build tests/NAME.c and run it. A test that holds tests/check.h can do without cmocka. What these
# call is compiled once for all of them, before other jobs.
linked='test_memory test_model test_framework test_state test_threads test_sessions'
linked="$linked test_old_files test_learn test_recursive test_signals test_stack test_layers"
linked="$linked test_adapters test_kernels test_attention test_algebra test_checkpoints"
linked="$linked test_gguf test_sizes"
object_of() {   # label: the library of tests with these flags
  echo "$build/bin/$(echo "object $1" | tr -c 'A-Za-z0-9\n' _).o"
}
object_row() {   # object, compiler, flags: it is built before other jobs
  echo "$2 -std=c99 $strict_c $3 -c tests/object.c -o '$1'" >"$1.sh"
}
linked_row() {   # name, needs, flags, command: what it builds finds the library of these in $object
  object=$(object_of "$gcc $3")
  job "$1" "$2" "object='$object' && $4" && object_row "$object" "$gcc" "$3"
}
plain='-O2 -DMIRAS_NO_SIMD'
[ "$mode" != quick ] || plain='-O1 -DMIRAS_NO_SIMD'
test_row() {   # needs, compiler, test, label, flags, libraries
  object=
  case " $linked " in *" $3 "*) object=$(object_of "$4") ;; esac
  binary="'$build/bin/$(echo "$3 $4" | tr -c 'A-Za-z0-9\n' _)'"
  job "$3: $4" "$1" "$2 -std=c99 $strict_c $5 tests/$3.c ${object:+-DMIRAS_TEST_LINKED '$object'} \
-o $binary $cmocka ${6:-} -lm -lpthread && $limit $binary" && [ -n "$object" ] &&
    object_row "$object" "$2" "$5"
}

tests='test_memory test_model test_framework test_kernels test_api test_attention test_threads'
for file in tests/test_*.c; do   # none is forgotten
  name=$(basename "$file" .c)
  case " $tests " in
    *" $name "*) ;;
    *) tests="$tests $name" ;;
  esac
done

job lint '' 'sh tests/lint.sh'

# ---- the device half ----

# Of sources that may have passed already: their text without comments (-P: and without line
# numbers), the scripts, and what is built here with which flags.
group=device
device_sources() {
  for file in miras.h miras_cuda.cuh tests/cuda_*.h tests/fingerprint.h tests/test_cuda*.cpp \
    examples/lm.c examples/lm_*.h examples/counts.h examples/lm_cuda.cu; do
    echo "$file"
    $gcc -x c -fpreprocessed -dD -E -P "$file" 2>/dev/null
  done
  cat tests/cuda_table.sh tests/cuda_table.txt tests/cuda_faults.sh tests/test_cuda_lm.sh
  cat tests/cuda_front.sh tests/cuda_fast.sh bench/gpu_fast.cu
  sed -n '/^group=device/,/^group=$/p' tests/table.sh
}
device_look
job 'engines are device code' device 'sh tests/test_device.sh'
job 'what runs on a device, for nvcc' 'device nvcc' 'sh tests/cuda_front.sh'
job 'miras_cuda.cuh: registers, stack and spills' 'long nvcc' 'sh tests/cuda_table.sh'
job 'the fast tier: registers, spills, arguments' 'long nvcc' 'sh tests/cuda_fast.sh'
cuda='miras_cuda.cuh without a GPU'
cuda_of() {   # test: how its source is built; AVX-512 has the bits of AVX2
  case $1 in
    test_cuda_model|test_cuda_kernels|test_cuda_limits|test_cuda_fast) parts= ;;
    *) parts=-DMIRAS_NO_MODEL ;;
  esac
  echo "-std=c++11 $fused -ffp-contract=off -DMIRAS_NO_AVX512 $parts tests/$1.cpp"
}
cuda_tests='test_cuda test_cuda_kernels test_cuda_model test_cuda_limits test_cuda_fast'
for name in $cuda_tests; do
  needs='long g++' rows=
  [ $name = test_cuda ] && [ -z "$longer" ] && needs='all g++' rows='gla gated-deltanet titans'
  job "$cuda: $name" "$needs" "
g++ -O1 $(cuda_of $name) -o '$build/$name' -lm && '$build/$name' $rows"
done
job 'lm_cuda as lm, without a GPU' 'long g++' 'sh tests/test_cuda_lm.sh'
job 'miras_cuda.cuh: builds that leave parts out' 'long g++' cuda_parts
# races, which link without the run-time (tests/cuda_races.h); indices; whether mistakes are found
for name in $cuda_tests; do
  rows=
  case $name in
    test_cuda)
      rows='linear-attention gla gated-deltaproduct rwkv7 mesa softmax-attention events'
      rows="$rows ttt-linear titans moneta closes" ;;
    test_cuda_model) rows='deltanet-memory titans' ;;
    test_cuda_fast) rows='clusters token whole session deltanet kda hybrid rwkv7 experts' ;;
    test_cuda_kernels|test_cuda_limits) continue ;;
  esac
  job "$cuda: races, $name" 'long g++-races' "
g++ -O1 -g1 -fsanitize=thread -c $(cuda_of $name) -o '$build/$name.races.o' &&
g++ '$build/$name.races.o' -o '$build/$name.races' -lm && $limit '$build/$name.races' $rows"
done
job "$cuda: planted mistakes" 'long g++-races' "FUSED='$fused' $limit sh tests/cuda_faults.sh"
for name in test_cuda test_cuda_fast; do
  rows='gla sliding-window mesa ttt-mlp titans'
  [ $name = test_cuda_fast ] && rows='token whole session retnet gated-deltanet hgrn2 experts'
  job "$cuda: address and undefined sanitizers, $name" 'long g++-asan' "
g++ -O0 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all \
$(cuda_of $name) -o '$build/$name.sane' -lm && $limit '$build/$name.sane' $rows"
done
group=

# ---- tests that are programs ----

# NEON, emulated. What memories compute with these kernels, smoke compares with AVX, bit for bit.
arm='aarch64-linux-gnu-gcc'
arm_object=$(object_of "$arm -O2")
job "test_kernels: $arm -O2, NEON under qemu" 'all aarch64' "$arm -std=c99 $strict_c -O2 -static \
-DMIRAS_TEST_LINKED $(share test_kernels 60) -DMIRAS_TEST_NO_CMOCKA tests/test_kernels.c \
'$arm_object' -o '$build/bin/arm_kernels' -lm -lpthread && $limit $qemu '$build/bin/arm_kernels'" &&
  object_row "$arm_object" "$arm" -O2
job "smoke: $arm -O2, NEON under qemu" 'all aarch64' "smoke_neon '$arm_object'" &&
  object_row "$arm_object" "$arm" -O2

# Address and undefined behaviour: of vectors, whose over-reads guard pages and exact buffers would
# show, addresses, by gcc, which needs a third of clang's time for them (of AVX-512 the guard pages
# of the plain build tell); the portable build of every test, by clang where its run-time is here,
# else by gcc. -O1 takes clang a minute, once for those that share it; what pointers to nothing and
# beyond objects do is the address sanitizer's to see, which saves half of one. Sizes and stacks are
# those of optimised builds. The reference of memories is watched in other tests than their own.
sane='-g1 -fno-omit-frame-pointer -fno-sanitize-recover=all'
job 'test_kernels: gcc -O1, address sanitizer' 'all gcc-asan' "gcc -std=c99 $strict_c $sane -O1 \
-fsanitize=address -DMIRAS_STATIC -DMIRAS_NO_AVX512 $(share test_kernels 16) tests/test_kernels.c \
-o '$build/bin/sane_kernels' $cmocka -lm -lpthread && $limit '$build/bin/sane_kernels'"
sane="-fsanitize=address,undefined -fno-sanitize=null,object-size $sane"
checker=clang
has_all clang-asan || checker=gcc
for name in $tests; do
  level=-O1 unwatched=
  case $name in
    test_sizes|test_stack) continue ;;
    test_api|test_files) level=-O0 ;;
    test_memory) unwatched=-DMIRAS_REFERENCE_UNWATCHED ;;
  esac
  test_row "all $checker-asan" $checker $name \
    "$checker $level -DMIRAS_NO_SIMD, address and undefined sanitizers" \
    "$sane $level -DMIRAS_NO_SIMD $unwatched $(share $name 14)"
done

racer=clang
has_all 'all clang-tsan' || racer=gcc
job "test_threads: $racer -O1, thread sanitizer" "all $racer-tsan" \
  "threads $racer $(share test_threads 14)"

# AVX-512 where the processor has AVX2 alone (SIMDE=1: anywhere).
job 'test_kernels: AVX-512, emulated by SIMDe' 'all emulates simde gcc' "gcc -std=gnu99 -O1 -w \
-mavx2 -mfma -mf16c -include tests/simde.h -DMIRAS_STATIC $(share test_kernels 8) \
tests/test_kernels.c -o '$build/bin/simde' $cmocka -lm && $limit '$build/bin/simde'"

# Gaps between arrays, looked at after every engine and layer; products by BLIS, whose header asks
# for GNU C.
flags='-O1 -DMIRAS_NO_AVX512 -DMIRAS_CHECK -DMIRAS_USE_BLIS'
for name in test_memory test_model; do
  test_row 'all blis' "$gcc" $name "$gcc $flags" "-std=gnu99 $flags $(share $name 10)" -lblis
done

# The portable kernels: sanitizers above have run all tests on them; the optimiser is met where
# memories and kernels are, smoke does the same with models, and run.sh learning with combinations.
for name in test_memory test_kernels; do
  test_row all "$gcc" $name "$gcc -O2 -DMIRAS_NO_SIMD" "-O2 -DMIRAS_NO_SIMD $(share $name 10)"
done
for name in $tests; do   # those that are thinned out run.sh learning walks whole
  times=1 flags=-O2
  case $name in
    test_memory|test_model) times=4 ;;
    test_framework|test_kernels|test_tokenizer) times=2 ;;
    test_sizes) times=8 ;;
    test_checkpoints) times=3 flags=$plain ;;   # the work of these is plain C
    test_gguf) flags=$plain ;;
    test_files) times=2 flags='-O1 -DMIRAS_NO_SIMD' ;;
    test_api) flags='-O1 -DMIRAS_NO_SIMD' ;;
  esac
  test_row all "$gcc" $name "$gcc $flags" "$flags $(share $name $times)"
done
for name in $tests; do   # one library for nearly all of them; stacks are those of -O2
  case $name in test_stack|test_checkpoints|test_gguf|test_sizes) continue ;; esac
  case " $linked test_files " in
    *" $name "*)
      test_row quick "$gcc" $name "$gcc -O1 -DMIRAS_NO_SIMD" \
        "-O1 -DMIRAS_NO_SIMD $(share $name 16)" ;;
  esac
done
for name in test_memory test_model test_framework test_kernels; do
  test_row 'all clang' clang $name 'clang -O2' "-O2 $(share $name 10)"
done

# Products and sums that compilers would fuse.
test_row all "$gcc" test_encoders "$gcc -O2 -std=gnu99 $fused" "-O2 -std=gnu99 $fused"
[ "$gcc" = clang ] ||
  test_row 'all clang' clang test_encoders "clang -O2 $fused" "-O2 $fused"
job "test_encoders: $arm -O2" 'all aarch64' "$arm -O2 -static -DMIRAS_TEST_NO_CMOCKA \
tests/test_encoders.c -o '$build/bin/arm_encoders' -lm && $qemu '$build/bin/arm_encoders'"
# What clang does not know on every machine it must not warn of.
job 'clang for AArch64: no warning' 'all clang aarch64' "clang --target=aarch64-linux-gnu -std=c99 \
$strict_c -isystem /usr/aarch64-linux-gnu/include -fsyntax-only tests/object.c"

linked_row 'bench/table.md: what combines' all "$plain" combinations

# The files by which others check what they have written.
linked_row 'tests/vectors: the reference, the files, the library' '' "$plain" "$gcc -std=c99 \
$strict_c -O1 -DMIRAS_TEST_LINKED tests/vectors.c \"\$object\" -o '$build/bin/vectors' -lm \
-lpthread && $limit '$build/bin/vectors'"

# Damaged files: a fixed number of mutations everywhere, the fuzzer where clang has it.
job "fuzz_files: $gcc -O1 -DMIRAS_NO_SIMD" all "$gcc -std=c99 $strict_c -O1 tests/fuzz_files.c \
-DMIRAS_NO_SIMD -o '$build/bin/damage' -lm && $limit '$build/bin/damage'"
job 'fuzz_files: clang, 10 seconds of libFuzzer' 'all clang-fuzzer' fuzzer
# This row runs the inputs that the fuzzer of other people's files begins with, as they are.
level="$checker -O1 -DMIRAS_NO_SIMD, address and undefined sanitizers" object=$(object_of "$level")
job "fuzz_readers: $level" "all $checker-asan" "$checker -std=c99 $strict_c $sane -O0 \
-DMIRAS_NO_SIMD -DMIRAS__IMPLEMENTED tests/fuzz_readers.c '$object' -o '$build/bin/readers' -lm \
-lpthread && $limit '$build/bin/readers'" &&
  object_row "$object" $checker "$sane -O1 -DMIRAS_NO_SIMD"

# ---- the smoke program at every level; fingerprints are compared at the end ----

smoke_row() {   # needs, kind of arithmetic, compiler, flags, source
  job "smoke: $3 $4" "$1" "smoke smoke_$2_$count '' $3 $strict_c $4 $5 -lpthread"
}
smoke_linked() {   # needs, kind, compiler, flags: of a test whose library is an object already
  object=$(object_of "$3 $4")
  [ ! -f "$object.sh" ] || job "smoke: $3 $4, linked" "$1" \
    "smoke smoke_$2_$count '' $3 -std=c99 $strict_c -DMIRAS_TEST_LINKED tests/smoke.c '$object' \
-lpthread"
}
smoke_row all simd "$gcc" '-std=c99 -O0' tests/smoke.c
smoke_linked all simd "$gcc" -O2
[ "$gcc" = clang ] || smoke_linked 'all clang' simd clang -O2
smoke_row all simd "$gcc" '-std=gnu17 -O3 -march=native -DMIRAS_NO_AVX512' tests/smoke.c
smoke_linked all plain "$gcc" '-O2 -DMIRAS_NO_SIMD'
object=$(object_of "$level")   # clang's at -O1, with the checks of sanitizers
[ ! -f "$object.sh" ] || job "smoke: $level, linked" all "smoke smoke_plain_$count '' $checker \
-std=c99 $strict_c $sane -O0 -DMIRAS_TEST_LINKED tests/smoke.c '$object' -lpthread"
smoke_row all plain $fast '-std=c11 -O0 -DMIRAS_NO_SELF_INCLUDE' tests/smoke.c
smoke_row quick simd "$gcc" '-std=c99 -O1 -DMIRAS_NO_AVX512' tests/smoke.c
for row in 'all g++:-std=c++20 -O0' 'all clang++:-std=c++11 -O0' 'quick g++:-std=c++11 -O0'; do
  needs=${row%%:*}
  job "smoke: ${needs#* } ${row#*:}" "$needs" \
    "smoke smoke_simd_$count '' ${needs#* } $strict ${row#*:} tests/smoke.cpp -lpthread"
done
group=learning   # which optimisers else see it
for flags in '-std=c99 -O0' '-std=gnu17 -O3 -march=native' '-std=gnu17 -O2 -march=native'; do
  smoke_row '' simd "$gcc" "$flags" tests/smoke.c
done
smoke_row clang plain clang '-std=c99 -O2 -DMIRAS_NO_SIMD' tests/smoke.c
smoke_row clang simd clang '-std=c99 -O0 -DMIRAS_NO_AVX512' tests/smoke.c
job 'smoke: g++ -std=c++20 -O1' g++ \
  "smoke smoke_simd_$count '' g++ $strict -std=c++20 -O1 tests/smoke.cpp -lpthread"
smoke_row '' plain "$gcc" '-std=c99 -O1 -DMIRAS_NO_SIMD' tests/smoke.c
smoke_row '' plain "$gcc" '-std=c11 -O3 -DMIRAS_NO_SELF_INCLUDE' tests/smoke.c
group=

# One answer on every machine: with MIRAS_STRICT all of these say the same, which the end of a run
# looks at. s390x keeps its numbers the other way round. GNU C, because its float arithmetic is
# floats' there.
strict_row() {   # needs, name, how it is run, compiler, flags
  job "strict: $4 $5" "$1" "strict strict_$2 '$3' $4 -std=gnu99 $5"
}
strict_flags='-std=gnu99 -O1 -DMIRAS_STRICT -DMIRAS_NO_AVX512'
strict_linked() {   # needs, name, flags: of a library that examples/zip.c has too
  linked_row "strict: $gcc $3" "$1" "$strict_flags $3" \
    "smoke smoke_strict_$2 '' $gcc $strict_flags $3 -DMIRAS_TEST_LINKED tests/smoke.c \$object \
-lpthread"
}
job 'strict: the command of README.md' all strict_command
job 'strict: what is refused, what is called' all strict_refuses
job 'strict: clang -ffp-contract=fast, -freciprocal-math' 'all clang x86' strict_clang
strict_linked '' plain -DMIRAS_NO_SIMD
strict_linked all vectors -march=native
strict_row 'all clang' clang '' clang ''
strict_row 'all tcc' tcc '' tcc ''
strict_row 'all aarch64' neon "$qemu" aarch64-linux-gnu-gcc '-static -march=armv8.2-a+fp16'
# Its emulator is slow: here one row and one model in three, whose bits are those of this machine.
linked_row "strict: $gcc, one in three" all "$strict_flags -DMIRAS_NO_SIMD" \
  "smoke smoke_few_plain '' $gcc $strict_flags -DMIRAS_NO_SIMD -DMIRAS_TEST_LINKED -DSMOKE_EVERY=3 \
tests/smoke.c \$object -lpthread"
job 'strict: s390x-linux-gnu-gcc, one in three' 'all s390x-linux-gnu-gcc qemu-s390x' \
  'strict few_s390x qemu-s390x s390x-linux-gnu-gcc -std=gnu99 -static -DSMOKE_EVERY=3'
wasm='-sALLOW_MEMORY_GROWTH -sTOTAL_STACK=1048576'
strict_row 'all emcc node' wasm 'node --no-experimental-fetch' emcc "$wasm"
strict_row 'all emcc node' simd128 'node --no-experimental-fetch' emcc "-msimd128 $wasm"
strict_row 'all cortex' cortex 'qemu-system-arm -M mps2-an386 -nographic -semihosting -kernel' \
  arm-none-eabi-gcc "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 \
-ffunction-sections -fdata-sections examples/cortex-m/board.c -nostartfiles -T tests/small.ld \
-Wl,--gc-sections -Wl,--defsym=_large=1 --specs=nano.specs --specs=nosys.specs -DMIRAS_NO_STDIO"

group=targets
while IFS='|' read -r packages runner compiler flags; do
  [ "$mode" = targets ] || break
  needs=${runner%% *}
  links $compiler $flags || needs=${packages%% *}   # which is no command: it is what is missing
  strict_row "$needs" "target_$count" "$runner" "$compiler" "$flags"
done <<END
$(target_rows)
END
group=

# ---- how programs include the header ----

job 'two files: one implementation' '' \
  "two '-DMIRAS_PTHREADS -DMIRAS_NO_SIMD' '$fast -O0 $strict' -std=gnu17 '$fast -O0 $strict_c'"
job 'two files: MIRAS_STATIC in both' all \
  "two '-DMIRAS_STATIC -DMIRAS_NO_SIMD' '$light' -std=c99 '$light'"
job 'two files: C++ calls the C implementation' 'all gcc g++' \
  "two -DMIRAS_NO_SIMD 'g++ -O0 $strict' '-x c++ -std=c++11' '$fast -O0 $strict_c'"
job 'renamed header, MIRAS_SELF' '' renamed
job 'symbols' '' symbols
job 'MIRAS_API of a host: every call is exported' '' exports

before='assert.h float.h limits.h math.h stdarg.h stddef.h stdint.h stdio.h stdlib.h string.h'
before="$before time.h pthread.h sched.h signal.h unistd.h"
[ "$(uname -m)" != x86_64 ] || before="$before cpuid.h immintrin.h"
library='#define MIRAS_PTHREADS\n#include "miras.h"\n#define MIRAS_IMPLEMENTATION\n'
library=$library'#include "miras.h"\n'
device='#include "tests/cuda_shim.h"\n'$library'#define MIRAS_CUDA_IMPLEMENTATION\n'
device=$device'#include "miras_cuda.cuh"\n'
job 'macros of hosts: miras.h' '' "macros c '$gcc -std=gnu99' '$library' $before"
job 'macros of hosts: miras.h in C++' 'all g++' \
  "macros c++ 'g++ -std=c++11 -x c++' '$library' $before cmath cstdlib"
job 'macros of hosts: miras_cuda.cuh' 'all g++' "
macros cuh 'g++ -std=c++11 -x c++ $fused -w -DMIRAS_CUDA_REFERENCE' \\
  '$device' $before cmath cstdlib vector algorithm"

# ---- what must not compile; clang takes the parts of -ffast-math back where it compiles ----

job 'refused: -ffast-math' '' 'refuse -ffast-math'
job 'refused: -ffinite-math-only' '' 'refuse -ffinite-math-only'
job 'refused: -fassociative-math' gcc \
  'refuse -fassociative-math -fno-signed-zeros -fno-trapping-math'
job 'refused: -fno-signed-zeros' gcc 'refuse -fno-signed-zeros'
job 'refused: -freciprocal-math' gcc 'refuse -freciprocal-math'
job 'refused: MIRAS_STATIC with MIRAS_API' '' 'refuse -DMIRAS_STATIC -DMIRAS_API=extern'
job 'refused: MIRAS_MALLOC without MIRAS_FREE' '' "refuse '-DMIRAS_MALLOC(n)=malloc(n)'"
job 'refused: MIRAS_FREE without MIRAS_MALLOC' '' "refuse '-DMIRAS_FREE(p)=free(p)'"

# ---- small builds and other systems ----

parts='TRAINING MODEL FILES PROGRAMS EXACT FROZEN MESA RECURSIVE ATTENTION'
job 'parts: what is left out is refused, the rest keeps its bits' all "parts 2 $parts"
job 'small: Cortex-M4, at most 42 KB' cortex cortex_memory
job 'small: Cortex-M4, a memory of any row in 4 KB of stack' 'all cortex' cortex_rows
job 'Windows: every configuration compiles' 'all mingw' windows_compiles
job 'Windows: programs under wine' 'all mingw wine' windows_runs
# what there is, of goals of 345,000, 255,000 and 165,000 bytes
job 'sizes: machine code at -Os' 'all gcc x86' 'size_at_most 537000'
group=learning
job 'parts: every combination of choices' '' "parts 1 $parts"
job 'sizes: machine code at -Os, parts' 'gcc x86' "size_at_most 466000 -DMIRAS_NO_SIMD &&
size_at_most 327500 -DMIRAS_NO_SIMD -DMIRAS_NO_TRAINING"
group=

# ---- examples for those who build something else, each by its README's commands ----

job 'examples/cmake: in place, fetched, installed, by pkg-config' 'all cmake pkg-config git' \
  cmake_ways
cpp_row() {   # needs, C++ compiler, C compiler, label, flags: of a library that tests have too
  object=$(object_of "$4")
  job "examples/cpp: $2, address and undefined sanitizers" "$1" "cpp $2 '$object'" &&
    object_row "$object" "$3" "$5"
}
cpp_row 'all g++-asan' g++ "$gcc" "$gcc -O2 -DMIRAS_NO_SIMD" '-O2 -DMIRAS_NO_SIMD'
label='clang -O1 -DMIRAS_NO_SIMD, address and undefined sanitizers'
cpp_row 'all clang-asan clang++-asan' clang++ clang "$label" "$sane -O1 -DMIRAS_NO_SIMD"
linked_row 'examples/cpp: its example' 'all g++' "$plain" cpp_example
shared_row() {   # name, needs, command: over the shared library, which is built once
  job "$1" "$2" "LD_LIBRARY_PATH='$build/bin' && export LD_LIBRARY_PATH && $3" &&
    echo "$gcc -std=c99 $strict_c -O1 -DMIRAS_NO_SIMD -shared -fPIC -fvisibility=hidden \
examples/shared/miras.c -o '$build/bin/libmiras.so' -lm" >"$build/bin/shared.o.sh"
}
shared_row 'examples/csharp: Mono, and as Unity compiles it' 'all mcs mono python3' csharp
shared_row 'examples/lua: LuaJIT' 'all luajit' lua
job 'examples/cortex-m: a memory and a network learn in 196 KB' 'all cortex' cortex_learns
job 'examples/arduino: the sketch' 'all cortex arm-none-eabi-g++' arduino_sketch
job "examples/arduino: by Arduino's own builder" 'all cortex arduino-builder' arduino_builder
job 'examples/packages: the port of vcpkg, without vcpkg' 'all cmake python3' vcpkg_port
job 'examples/packages: Conan' 'all cmake python3' conan_package

# ---- the matrix: every flag by one of gcc's and one of clang's, in C and in C++ ----

cell_row() {   # needs, compiler, dialect, flags
  job "compiles: $2 -std=$3 $4" "$1" "cell $2 $3 $4"
}
for pair in gcc:c99 clang:c99 g++:c++11 clang++:c++11; do
  compiler=${pair%%:*} dialect=${pair#*:}
  cell_row "all $compiler" $compiler $dialect ''
  case $compiler in
    gcc|clang++)
      for flags in -DMIRAS_STATIC -DMIRAS_NO_STDIO -DMIRAS_NO_SIMD -DMIRAS_NO_AVX512 \
        -DMIRAS_NO_SELF_INCLUDE \
        '-DMIRAS_PTHREADS -DMIRAS_STATIC' '-DNDEBUG -DMIRAS_NO_SIMD -DMIRAS_NO_STDIO'; do
        cell_row "all $compiler" $compiler $dialect "$flags"
      done ;;
    *)
      for part in $parts 'MODEL -DMIRAS_NO_TRAINING -DMIRAS_NO_FILES'; do
        cell_row "all $compiler" $compiler $dialect "-DMIRAS_NO_SIMD -DMIRAS_NO_$part"
      done ;;
  esac
done
for pair in gcc:c11 gcc:gnu17 g++:c++17 clang:c11 clang:gnu17 clang++:c++17; do
  cell_row "all ${pair%%:*}" ${pair%%:*} ${pair#*:} -DMIRAS_PTHREADS
done
cell_row 'all aarch64' $arm c99 ''
cell_row quick "$gcc" c11 -DMIRAS_PTHREADS
cell_row quick "$gcc" c99 -DMIRAS_NO_STDIO

# ---- examples and benchmarks, each by the one command that it promises ----

for file in examples/*.c bench/*.c; do
  needs= compiler=$gcc
  case $file in
    bench/lab_exact.c) ;;              # has a pragma of gcc's
    bench/*) compiler=$fast ;;         # which reads it in half the time
  esac
  case $file in
    */lm_mpi.c|*/npc.c) continue ;;   # built below
    */openai.c) needs=microhttpd how= ;;
    */quickstart.c|*/serve.c)
      program=$build/bin/$(basename "$file" .c)
      how="&& $fast -O0 -DMIRAS_NO_SIMD '$file' -o '$program' -lm -lpthread" ;;
    *) how= ;;
  esac
  job "compiles: $file" "$needs" "$compiler '$file' -Wall -Wextra -Werror -fsyntax-only $how"
done
job 'compiles: tests/big.c' '' \
  "$gcc -std=c99 $strict_c -DMIRAS_TEST_LINKED -fsyntax-only tests/big.c"

# The quick forms of two benchmarks, built the quick way, as AVX2 has the bits of AVX-512. In soak
# every row passes; of recall those are listed that do (Memora needs the long form), and of layers
# as published those with a convolution or positions.
recall_rows=linear-attention,dfw,retnet-memory,lightning,gla-memory,mamba-memory,mamba2-memory
recall_rows=$recall_rows,hgrn2-memory,rwkv6-memory,deltanet-memory,deltanet-neg-eigval,longhorn
recall_rows=$recall_rows,nlms
recall_rows=$recall_rows,gated-deltanet,gated-deltanet-neg-eigval,gated-deltanet-2,deltaproduct
recall_rows=$recall_rows,gated-deltaproduct,kda-memory,eda,mdn,pgdn,pkda-memory,comba
recall_rows=$recall_rows,rwkv7-memory,mesa
recall_rows=$recall_rows,softmax-attention,sliding-window
recall_rows=$recall_rows,ttt-linear-memory,ttt-mlp-memory,titans,moneta,yaad
recall_rows=$recall_rows,gsa:mixer.conv_on=all:mixer.conv_size=4
recall_rows=$recall_rows,raven:mixer.conv_on=all:mixer.conv_size=4
recall_rows=$recall_rows,retnet,mamba,mamba2,deltanet,kda,rwkv6,rwkv7,titans-mag
recall_rows=$recall_rows,log-linear-mamba2,log-linear-gdn
group=learning
job 'recall: small networks look pairs up' '' "recall $recall_rows"
job 'soak: 3000 writes of every kind' '' soak
for name in test_memory test_model test_framework test_kernels test_files test_tokenizer \
  test_checkpoints test_sizes; do
  test_row '' "$gcc" $name "$gcc -O2, all of it" "-O2 $(share $name 1)"
done
test_row '' "$gcc" test_framework "$gcc -O2 -DMIRAS_NO_SIMD" "-O2 -DMIRAS_NO_SIMD"
test_row "$checker-asan" $checker test_checkpoints \
  "$checker -O0 -DMIRAS_NO_SIMD, address and undefined sanitizers, all of it" \
  "$sane -O0 -DMIRAS_NO_SIMD $(share test_checkpoints 1)"
job "$cuda: every field of a layer, in the fast tier" g++ "
g++ -O2 $(cuda_of test_cuda_fast) -o '$build/fields' -lm && '$build/fields' fields"
job 'bench/evidence.py: every question is asked' python3 evidence
group=
job 'examples/tokenizer.h: its tables of characters' python3 'python3 tests/unicode.py'
job 'bench/plots.py: pictures are what the tables say' 'all python3' pictures
linked_row 'examples/lm.c: its files' all -O2 lm_files
linked_row 'examples/run.c: models of others' all "$plain" run_others
linked_row 'examples/tune.c: what is trained beside a model' all "$plain" tunes
linked_row 'examples/openai.c: answers over HTTP' 'all python3 microhttpd' "$plain" answers_http
vectors_object=$(object_of "$gcc $strict_flags -march=native")
linked_row 'examples/zip.c: other arithmetic, same bytes' all "$strict_flags -DMIRAS_NO_SIMD" \
  "zips '$vectors_object'" && object_row "$vectors_object" "$gcc" "$strict_flags -march=native"
job 'examples/npc.c: a character of invented players' all npc_learns
linked_row 'examples/keyboard.c: bits, keys, states' all -O2 types
linked_row 'examples/anomaly.c: forecasts, alarms, refusals' '' "$plain" watches
linked_row 'examples/forecast.c: networks, lines, fans, refusals' all -O2 foresees
linked_row 'examples/lm_mpi.c: processes learn as one' 'all mpi' -O2 \
  'sh tests/test_mpi.sh "$object"'
job 'examples/python: installs, pytest; tests/vectors/check.py' 'all python3' python_door
job 'examples/web: the page learns' 'all emcc node' web_page
