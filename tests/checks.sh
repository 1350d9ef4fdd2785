# checks.sh: what jobs of table.sh do that is longer than a command. run.sh reads this file in each
# job's shell; $build is the folder of what is built, and these are as run.sh found them: $gcc,
# $strict and $strict_c (warnings), $limit (a time), $cmocka, $qemu. A check fails by its status.
# shellcheck shell=sh disable=SC2154,SC2086 # run.sh's variables; flags are several words

# The table of combinations is the library's to say: the README holds the answer of this program.
combinations() {
  $gcc -std=c99 -O1 -DMIRAS_NO_SIMD -DMIRAS_TEST_NO_CMOCKA tests/test_framework.c \
    -o "$build/bin/table" -lm && "$build/bin/table" --table >"$build/table" &&
    sed -n '/^<!-- combinations -->/,/^<!-- end of combinations -->/p' README.md | sed '1d;$d' |
    diff - "$build/table"
}

cuda_parts() {
  printf '%s\n' '#include "tests/cuda_shim.h"' '#define MIRAS_IMPLEMENTATION' \
    '#include "miras.h"' '#define MIRAS_CUDA_IMPLEMENTATION' '#include "miras_cuda.cuh"' \
    >"$build/parts.cpp"
  for part in MODEL TRAINING FILES ATTENTION; do
    g++ -std=c++11 -fsyntax-only -w -I. -DMIRAS_NO_$part "$build/parts.cpp" || return 1
  done
}

# 10 seconds of clang's fuzzer, from the files that the plain program damages.
fuzzer() {
  mkdir "$build/corpus" &&
    $gcc -std=c99 -O1 -DMIRAS_NO_SIMD tests/fuzz_files.c -o "$build/bin/seeds" -lm &&
    "$build/bin/seeds" --seeds "$build/corpus" &&
    clang -std=c99 $strict -O1 -g1 -DMIRAS_NO_SIMD -DMIRAS_LIBFUZZER \
      -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all tests/fuzz_files.c \
      -o "$build/bin/fuzz" -lm && cd "$build" &&
    $limit bin/fuzz -max_total_time=10 -seed=1 -rss_limit_mb=2048 -timeout=20 corpus
}

# smoke TAG COMPILER FLAGS...: build and run the smoke program. What it prints is compared when all
# jobs have run, with that of the other builds of its kind.
smoke() {
  tag=$1
  shift
  "$@" -o "$build/bin/$tag" -lm -lpthread && $limit "$build/bin/$tag" >"$build/part_$tag" &&
    cat "$build/part_$tag" && mv "$build/part_$tag" "$build/$tag"
}

# strict TAG RUNNER COMPILER FLAGS...: the same with MIRAS_STRICT; RUNNER says how it is run.
strict() {
  tag=smoke_strict_$1 runner=$2
  shift 2
  "$@" -O1 -DMIRAS_STRICT -DMIRAS_NO_AVX512 tests/smoke.c -o "$build/bin/$tag.js" -lm || return 1
  $limit $runner "$build/bin/$tag.js" >"$build/part_$tag" 2>&1 </dev/null
  cat "$build/part_$tag"
  grep -q '^models' "$build/part_$tag" && mv "$build/part_$tag" "$build/$tag"
}

smoke_neon() {
  aarch64-linux-gnu-gcc -std=c99 $strict_c -O2 -static tests/smoke.c -o "$build/bin/arm" -lm &&
    $limit $qemu "$build/bin/arm" >"$build/smoke_arm" && cat "$build/smoke_arm" &&
    grep -q 'isa neon' "$build/smoke_arm"
}

# two FLAGS COMPILER LANGUAGE: one program of several files.
two() {
  here=$(mktemp -d "$build/two.XXXXXX")
  $gcc -std=c99 $strict_c -O1 $1 -c tests/two_tu_a.c -o "$here/a.o" &&
    $2 $3 $strict -O1 $1 -c tests/two_tu_b.c -o "$here/b.o" &&
    $2 "$here/a.o" "$here/b.o" -o "$here/two" -lm -lpthread && "$here/two"
}

# threads COMPILER: test_threads under its thread sanitizer. Some kernels place programs where the
# run-time does not expect them: run.sh has tried $build/try_tsan_COMPILER both ways.
threads() {
  around=
  "$build/try_tsan_$1" >/dev/null 2>&1 || around='setarch -R'
  "$1" -std=c99 $strict_c -O1 -g1 -DMIRAS_NO_SIMD -fsanitize=thread tests/test_threads.c \
    -o "$build/bin/tsan" $cmocka -lm -lpthread && $limit $around "$build/bin/tsan"
}

renamed() {
  mkdir "$build/renamed" && cp miras.h "$build/renamed/other.h" &&
    printf '%s\n' '#define MIRAS_IMPLEMENTATION' '#include "other.h"' \
      'int main(void) { return miras_isa()[0] == 0; }' >"$build/renamed/a.c" &&
    $gcc -std=c99 -O0 -DMIRAS_SELF='"other.h"' "$build/renamed/a.c" -o "$build/renamed/a" -lm &&
    "$build/renamed/a"
}

# Only miras_ names leave the object, nothing mutable but the cached instruction set, and with the
# allocator replaced and no stdio nothing of either is asked for.
symbols() {
  printf '%s\n' '#include <stddef.h>' 'void *mine(size_t); void yours(void *);' \
    '#define MIRAS_MALLOC(n) mine(n)' '#define MIRAS_FREE(p) yours(p)' \
    '#define MIRAS_NO_STDIO' '#define MIRAS_ASSERT(x) ((void)0)' \
    '#define MIRAS_IMPLEMENTATION' '#include "miras.h"' >"$build/symbols.c" &&
    $gcc -std=c99 -O1 -fno-pic -fno-stack-protector -U_FORTIFY_SOURCE -I. -c "$build/symbols.c" \
      -o "$build/symbols.o" || return 1
  bad=0
  nm -g --defined-only "$build/symbols.o" | awk '{print $3}' | grep -v '^miras_[a-z]' && {
    echo 'these names should not leave the object'
    bad=1
  }
  nm "$build/symbols.o" | awk '$2 ~ /^[bBdDcC]$/ {print $3}' | grep -v '^cached' && {
    echo 'these are mutable and static'
    bad=1
  }
  never='malloc|calloc|realloc|free|f?open|f?read|f?write|v?s?n?f?printf(_chk)?|puts|exit|abort'
  never="$never|remove|rename|getenv|time|rand|pthread_.*|setlocale|strtod"
  nm -u "$build/symbols.o" | awk '{print $2}' | grep -E "^_*($never)\$" && {
    echo 'the library should not call these'
    bad=1
  }
  return $bad
}

# A host says what stands in front of the public functions: all of them leave a shared library.
exports() {
  printf '%s\n' '#define MIRAS_API __attribute__((visibility("default")))' \
    '#define MIRAS_IMPLEMENTATION' '#include "miras.h"' >"$build/exports.c" &&
    $gcc -std=c99 $strict_c -O0 -DMIRAS_NO_SIMD -shared -fPIC -fvisibility=hidden -I. \
      "$build/exports.c" -o "$build/exports.so" -lm &&
    nm -D --defined-only "$build/exports.so" | awk '{print $3}' | sort >"$build/exported" &&
    sed -n 's/^MIRAS_API[^(]*[ *]\(miras_[a-z0-9_]*\)(.*/\1/p' miras.h | sort -u |
    grep -v '^miras_pool_' | diff - "$build/exported" && wc -l <"$build/exported"
}

# macros TAG COMPILER LINES HEADERS...: headers of hosts define macros with names that are words
# (tests/macros.txt). LINES are the includes of the library, behind those headers.
macros() {
  file=$build/macros_$1.c compiler=$2 lines=$3
  shift 3
  sed 's/#.*//' tests/macros.txt | tr -s ' ' '\n' | grep . >"$build/macros_$$.txt"
  {
    printf '#include <%s>\n' "$@"
    sed 's/^\([^(]*\).*/#undef \1/' "$build/macros_$$.txt"
    sed 's/()/(...)/; s/.*/#define & 0bad/' "$build/macros_$$.txt"
    printf '%b' "$lines"
  } >"$file"
  grep -q 'define near 0bad' "$file" && grep -q 'define clear(...) 0bad' "$file" &&
    $compiler -I. -fsyntax-only "$file"
}

# refuse FLAGS...: what must not compile, and says so.
refuse() {
  printf '%s\n' '#define MIRAS_IMPLEMENTATION' '#include "miras.h"' >"$build/refuse_$$.c"
  ! $gcc -std=c99 -fsyntax-only -I. "$@" "$build/refuse_$$.c" 2>"$build/refuse_$$.log" &&
    cat "$build/refuse_$$.log" && grep -q '#error' "$build/refuse_$$.log"
}

# What a build leaves out it refuses, and it computes the same bits in the rest.
parts_build() {
  $gcc -std=c99 $strict_c -O0 -DMIRAS_NO_SIMD $1 tests/parts.c -o "$build/bin/parts" -lm
}
parts() {
  parts_build '' && "$build/bin/parts" >"$build/parts_all" || return 1
  for part in "$@"; do
    one=$build/parts_one
    parts_build -DMIRAS_NO_$part && "$build/bin/parts" >"$one" || return 1
    echo "$part: $(grep -c ^refused "$one") refused of $(wc -l <"$one")"
    [ "$(wc -l <"$one")" -gt 1000 ] || return 1
    grep ^refused "$one" | grep -v MIRAS_NO_$part && return 1
    grep -v ^refused "$one" | grep -vxFf "$build/parts_all" && return 1
  done
  return 0
}

# cortex NAME BYTES FLAGS...: a program for a Cortex-M4, run by an emulator; BYTES 0: of any size.
cortex() {
  program=$build/$1 most=$2
  shift 2
  arm-none-eabi-gcc -std=c99 -Os -Wall -Wextra -Werror -mcpu=cortex-m4 -mthumb -mfloat-abi=hard \
    -mfpu=fpv4-sp-d16 -ffunction-sections -fdata-sections "$@" tests/small.c -nostartfiles \
    -T tests/small.ld -Wl,--gc-sections --specs=nano.specs --specs=nosys.specs -lm \
    -o "$program" && arm-none-eabi-size "$program" || return 1
  [ "$most" = 0 ] || arm-none-eabi-size "$program" |
    awk -v most="$most" 'NR == 2 && $1 + $2 > most {exit 1}' || return 1
  $limit qemu-system-arm -M mps2-an386 -nographic -semihosting -kernel "$program" \
    >"$program.txt" 2>&1 </dev/null
  status=$?
  cat "$program.txt"
  [ $status = 0 ]
}
cortex_memory() {
  cortex small 40960 && grep -q 'one read' "$build/small.txt" &&
    grep -q MIRAS_NO_FROZEN "$build/small.txt"
}
cortex_rows() {
  cortex small_rows 0 -DEVERY_ROW && grep -q '^stack of the deepest: ' "$build/small_rows.txt"
}

windows_compiles() {
  printf '%s\n' '#include <windows.h>' '#include "miras.h"' '#define MIRAS_IMPLEMENTATION' \
    '#include "miras.h"' >"$build/windows.c"
  for flags in -DNDEBUG -DMIRAS_STATIC -DMIRAS_NO_STDIO -DMIRAS_NO_SIMD -DMIRAS_WINDOWS_AVX \
    -DMIRAS_PTHREADS -DMIRAS_NO_TRAINING -DMIRAS_NO_MODEL -DMIRAS_NO_FILES \
    '-DMIRAS_API=__declspec(dllexport)'; do
    x86_64-w64-mingw32-gcc -std=c99 -fsyntax-only -Wall -Wextra -Werror -I. "$flags" \
      "$build/windows.c" || return 1
  done
  for file in examples/*.c bench/*.c; do
    case $file in *lm_mpi.c|*/flat.c|*/products.c) continue ;; esac
    x86_64-w64-mingw32-gcc -fsyntax-only -Wall -Wextra -Werror "$file" || return 1
  done
}
windows_runs() {
  WINEPREFIX=$build/wine WINEDEBUG=-all
  LC_ALL=C.UTF-8   # under C wine opens no file whose name is not ASCII
  export WINEPREFIX WINEDEBUG LC_ALL
  mkdir "$build/windows" || return 1
  for file in examples/quickstart examples/lm tests/test_api tests/test_files; do
    x86_64-w64-mingw32-gcc -static -O1 -Wall -Wextra -Werror -DMIRAS_TEST_NO_CMOCKA $file.c \
      -o "$build/windows/$(basename $file).exe" -lm -lpthread || return 1
  done
  cp README.md "$build/windows" && mkdir -p "$build/windows/tests/data" &&
    cp tests/data/6-gla.safetensors "$build/windows/tests/data" && cd "$build/windows" &&
    $limit wine quickstart.exe && $limit wine test_api.exe && $limit wine test_files.exe &&
    $limit wine lm.exe train README.md --dim 16 --heads 1 --steps 3 --out small.safetensors &&
    ls -l small.safetensors
  status=$?
  wineserver -k
  return $status
}

# size_at_most BYTES FLAGS...: the whole library at -Os, by the text column of size: machine code,
# constants, tables to unwind.
size_at_most() {
  most=$1
  shift
  $gcc -std=c99 -Os "$@" -DMIRAS_IMPLEMENTATION -x c -c miras.h -o "$build/size.o" || return 1
  size "$build/size.o" | awk -v most="$most" -v flags="$*" '
    NR == 2 {
      printf "%d bytes of %d %s\n", $1, most, flags
      exit $1 > most
    }'
}

# cell COMPILER DIALECT FLAGS...: dialect by configuration, syntax and warnings only.
cell() {
  case $1 in
    *++) language='-x c++' extra=$strict ;;
    *) language='-x c' extra=$strict_c ;;
  esac
  compiler=$1 dialect=$2
  shift 2
  printf '%s\n' '#include "miras.h"' '#define MIRAS_IMPLEMENTATION' '#include "miras.h"' \
    '#include "miras.h"' 'int main(void) { return miras_isa()[0] == 0; }' |
    $compiler $language -std=$dialect $extra -fsyntax-only -I. "$@" -
}

recall() {   # rows: small networks look pairs up
  $gcc -O1 -Wall -Wextra -Werror -DMIRAS_NO_AVX512 bench/recall.c -o "$build/bin/recall" -lm \
    -lpthread && $limit "$build/bin/recall" --quick --model "$1" &&
    $limit "$build/bin/recall" --quick --task parity --model deltanet-memory,deltaproduct \
      --set memory.learning_rate=2 &&
    $limit "$build/bin/recall" --quick --task passkey --length 48 --model deltanet-memory \
      --results "$build/passkey.txt" --svg "$build/passkey.svg" --bar 0.9 &&
    grep -q '^passkey deltanet-memory' "$build/passkey.txt" &&
    tail -n 1 "$build/passkey.svg" | grep -q '</svg>' &&
    { "$build/bin/recall" --set p=2 2>&1 || :; } | grep 'is it memory.p?'
}

evidence() {   # every question, quickly, has a table and a picture
  CC="$gcc -DMIRAS_NO_AVX512" $limit python3 bench/evidence.py --quick --jobs 1 \
    --folder "$build/evidence" >"$build/evidence.log" || return 1
  for name in rows second parts context size space parity s3 s5 passkey number uuid; do
    grep -q '^| [a-z]' "$build/evidence/$name.md" &&
      tail -n 1 "$build/evidence/$name.svg" | grep -q '</svg>' || { echo "$name"; return 1; }
  done
}

soak() {
  $gcc -O1 -Wall -Wextra -Werror -DMIRAS_NO_AVX512 bench/soak.c -o "$build/bin/soak" -lm &&
    $limit "$build/bin/soak" --quick --writes 3000
}

example() {   # name, level: the program, without vectors
  $gcc "$2" -DMIRAS_NO_SIMD "examples/$1.c" -o "$build/bin/$1$2" -lm -lpthread
}
lm_files() {
  example lm -O1 && sh tests/test_lm.sh "$build/bin/lm-O1"
}
npc_learns() {
  $gcc -std=c99 -O1 -Wall -Wextra -Wpedantic -Werror -DMIRAS_NO_SIMD examples/npc.c \
    -o "$build/bin/npc" -lm && sh tests/test_npc.sh "$build/bin/npc"
}
watches() {
  example anomaly -O1 && sh tests/test_anomaly.sh "$build/bin/anomaly-O1"
}
types() {
  example keyboard -O1 && sh tests/test_keyboard.sh "$build/bin/keyboard-O1"
}
zips() {   # what vectors compress, plain C reads; damage is said
  for how in -DMIRAS_NO_AVX512 -DMIRAS_NO_SIMD; do
    $gcc -O1 -Wall -Wextra -Werror $how examples/zip.c -o "$build/bin/zip$how" -lm || return 1
  done
  head -c 5000 README.md >"$build/page" && cd "$build" || return 1
  $limit bin/zip-DMIRAS_NO_AVX512 c page page.z --train 320 &&
    $limit bin/zip-DMIRAS_NO_SIMD c page page.plain --train 320 && cmp page.z page.plain &&
    $limit bin/zip-DMIRAS_NO_SIMD d page.z page.back && cmp page page.back || return 1
  ls -l page page.z
  [ "$(wc -c <page.z)" -lt 2900 ] || return 1
  head -c 1500 page.z >page.short
  { cat page.z | tr 'a' 'b'; } >page.other
  for bad in page page.short page.other; do
    bin/zip-DMIRAS_NO_SIMD d $bad page.bad 2>said && return 1
    cat said
    grep -q "damaged\|not what zip" said || return 1
  done
}
run_others() {
  example run -O1 && example lm -O0 && sh tests/test_run.sh "$build/bin/run-O1" "$build/bin/lm-O0"
}

# A source distribution of the Python package builds elsewhere, and what it installs passes pytest.
python_has() {
  python -c 'import cffi, numpy, pytest, setuptools
if tuple(map(int, setuptools.__version__.split(".")[:2])) < (70, 1): import wheel' 2>/dev/null
}
python_compiles() {
  python -c 'import pathlib, sysconfig
open(pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h")' 2>/dev/null
}
python_door() {
  python3 -m venv --system-site-packages "$build/python" || {
    echo 'missing: venv of python3 (Debian: python3-venv)'
    return 77
  }
  PATH=$build/python/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
  export PATH PIP_DISABLE_PIP_VERSION_CHECK PYTHONDONTWRITEBYTECODE
  python_compiles || {
    echo 'missing: Python.h (Debian: python3-dev)'
    return 77
  }
  python_has || pip install -q cffi numpy pytest 'setuptools>=70.1'
  python_has || {
    echo 'missing: cffi, numpy, pytest or setuptools, and pip cannot install them'
    return 77
  }
  (cd examples/python && python -c 'import sys, setuptools.build_meta as build
build.build_sdist(sys.argv[1])' "$build/sdist") >/dev/null &&
    CFLAGS='-O1 -g0 -DMIRAS_NO_AVX512' pip install -q --no-build-isolation --no-deps \
      "$build"/sdist/miras-*.tar.gz &&
    $limit python -m pytest -q -rs -p no:cacheprovider examples/python/tests
}
