# checks.sh: what jobs of table.sh do that is longer than a command. run.sh reads this file in each
# job's shell; $build is the folder of what is built, and these are as run.sh found them: $gcc,
# $strict and $strict_c (warnings), $limit (a time), $cmocka, $qemu. A check fails by its status.
# shellcheck shell=sh disable=SC2154,SC2086 # run.sh's variables; flags are several words

# What combines is the library's to say: bench/table.md holds the answer of this program.
combinations() {
  $gcc -std=c99 -O1 -DMIRAS_TEST_LINKED -DMIRAS_TEST_NO_CMOCKA tests/test_framework.c "$object" \
    -o "$build/bin/table" -lm -lpthread && "$build/bin/table" --table >"$build/table" &&
    sed -n '/^<!-- combinations -->/,/^<!-- end of combinations -->/p' bench/table.md |
    sed '1d;$d' | diff - "$build/table"
}

cuda_parts() {
  printf '%s\n' '#include "tests/cuda_shim.h"' '#define MIRAS_IMPLEMENTATION' \
    '#include "miras.h"' '#define MIRAS_CUDA_IMPLEMENTATION' '#include "miras_cuda.cuh"' \
    >"$build/parts.cpp"
  for flags in '-DMIRAS_CUDA_REFERENCE -DMIRAS_NO_MODEL' \
    '-DMIRAS_CUDA_REFERENCE -DMIRAS_NO_TRAINING' '-DMIRAS_CUDA_REFERENCE -DMIRAS_NO_FILES' \
    '-DMIRAS_CUDA_REFERENCE -DMIRAS_CUDA_NO_FAST' '-DMIRAS_NO_FILES' '-DMIRAS_NO_ATTENTION'; do
    g++ -std=c++11 -fsyntax-only -w -I. $flags "$build/parts.cpp" || return 1
  done
  # without the fast tier there is none, unless the other one is asked for
  for part in NO_MODEL NO_TRAINING CUDA_NO_FAST; do
    g++ -std=c++11 -fsyntax-only -w -I. -DMIRAS_$part "$build/parts.cpp" 2>"$build/parts.log" &&
      return 1
    grep -q 'error "no tier is left' "$build/parts.log" || return 1
  done
}

# 10 seconds of clang's fuzzer, from the files that the plain program damages.
fuzzer() {
  mkdir "$build/corpus" &&
    $fast -std=c99 -O0 -DMIRAS_NO_SIMD tests/fuzz_files.c -o "$build/bin/seeds" -lm &&
    "$build/bin/seeds" --seeds "$build/corpus" &&
    clang -std=c99 $strict -O0 -g1 -DMIRAS_NO_SIMD -DMIRAS_LIBFUZZER \
      -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all tests/fuzz_files.c \
      -o "$build/bin/fuzz" -lm && cd "$build" &&
    $limit bin/fuzz -max_total_time=10 -seed=1 -rss_limit_mb=2048 -timeout=20 corpus
}

# smoke TAG RUNNER COMPILER FLAGS...: build and run the smoke program; RUNNER says how, and is empty
# where it runs by itself. What it prints is compared when all jobs have run, with that of the other
# builds of its kind.
smoke() {
  tag=$1 runner=$2
  shift 2
  "$@" -o "$build/bin/$tag.js" -lm &&     # node asks for that name
    $limit $runner "$build/bin/$tag.js" >"$build/part_$tag" 2>&1 </dev/null
  status=$?
  cat "$build/part_$tag"
  [ $status = 0 ] && mv "$build/part_$tag" "$build/$tag"
}
strict() {   # tag, runner, compiler, flags: the same with MIRAS_STRICT
  tag=smoke_$1 runner=$2
  shift 2
  smoke "$tag" "$runner" "$@" -O1 -DMIRAS_STRICT -DMIRAS_NO_AVX512 tests/smoke.c
}
# A strict build makes nothing where its arithmetic is another, and calls nothing of the C library's
# mathematics, which is what a linker misses without -lm, but what has one right answer. Companions,
# whose functions are inline, are held to that too.
strict_refuses() {
  keep=
  [ "$gcc" = clang ] || keep=-fkeep-inline-functions
  $gcc -std=gnu99 $strict_c -O0 -DMIRAS_NO_SIMD -DMIRAS_STRICT $keep -c tests/strict.c \
    -o "$build/strict.o" && $gcc "$build/strict.o" -o "$build/bin/strict" -lm &&
    "$build/bin/strict" || return 1
  ! $gcc "$build/strict.o" -o "$build/bin/strict" 2>&1 |
    sed -n 's/.*undefined reference to .\([A-Za-z0-9_]*\).*/\1/p' |
    grep -vxE '(ceil|floor|fmod|l?rint|sqrt)f?|fesetround'
}
# What clang is given against the pragmas: in kernels, in plain code, and what it says by itself.
strict_clang() {
  grep -qw fma /proc/cpuinfo || return 77
  some='-DMIRAS_STRICT -DMIRAS_ONLY_MEMORIES -DMIRAS_ONLY_EXACT'
  for how in -DMIRAS_NO_AVX512 '-DMIRAS_NO_SIMD -mfma'; do
    clang $strict_c -O1 $how $some -ffp-contract=fast tests/strict.c \
      -o "$build/bin/strict_clang" -lm && "$build/bin/strict_clang" contract || return 1
  done
  clang -fsyntax-only -DMIRAS_NO_SIMD $some -freciprocal-math tests/strict.c \
    2>"$build/strict.log" && return 1
  cat "$build/strict.log" && grep -q float_control "$build/strict.log"
}
strict_command() {   # README.md and the head of smoke.c have a command that prints README.md's line
  flags=$(sed -n 's/^`cc \(.*tests.smoke\.c\) -o smoke -lm && \.\/smoke` .*/\1/p' README.md)
  [ -n "$flags" ] && grep -qF "cc $flags -o smoke -lm && ./smoke" tests/smoke.c &&
    $gcc $flags -o "$build/bin/command" -lm && "$build/bin/command" >"$build/command" || return 1
  [ "$(wc -l <"$build/command")" -eq 3 ] && sed 1d "$build/command" | while read -r line; do
    echo "$line" && grep -qF "\`$line\`" README.md || return 1
  done
}
smoke_neon() {   # the library
  smoke smoke_arm "$qemu" aarch64-linux-gnu-gcc -std=c99 $strict_c -O2 -static \
    -DMIRAS_TEST_LINKED tests/smoke.c "$1" &&
    grep -q 'isa neon' "$build/smoke_arm"
}

# two FLAGS COMPILER LANGUAGE FIRST: one program of several files, the first of them by FIRST.
two() {
  here=$(mktemp -d "$build/two.XXXXXX")
  $4 -std=c99 $1 -c tests/two_tu_a.c -o "$here/a.o" &&
    $2 $3 $1 -c tests/two_tu_b.c -o "$here/b.o" &&
    $2 "$here/a.o" "$here/b.o" -o "$here/two" -lm -lpthread && "$here/two"
}

# threads COMPILER SHARE: test_threads under its thread sanitizer. Some kernels place programs where
# the run-time does not expect them: run.sh has tried $build/try_tsan_COMPILER both ways.
threads() {
  around=
  "$build/try_tsan_$1" >/dev/null 2>&1 || around='setarch -R'
  "$1" -std=c99 $strict_c -O1 -g1 -DMIRAS_NO_SIMD -fsanitize=thread $2 tests/test_threads.c \
    -o "$build/bin/tsan" $cmocka -lm -lpthread && $limit $around "$build/bin/tsan"
}

renamed() {
  mkdir "$build/renamed" && cp miras.h "$build/renamed/other.h" &&
    printf '%s\n' '#define MIRAS_IMPLEMENTATION' '#include "other.h"' \
      'int main(void) { return miras_isa()[0] == 0; }' >"$build/renamed/a.c" &&
    $light -DMIRAS_NO_SIMD -DMIRAS_SELF='"other.h"' "$build/renamed/a.c" -o "$build/renamed/a" \
      -lm &&
    "$build/renamed/a"
}

# Only miras_ names leave the object, nothing mutable but the cached instruction set, and with the
# allocator replaced and no stdio nothing of either is asked for.
symbols() {
  printf '%s\n' '#include <stddef.h>' 'void *mine(size_t); void yours(void *);' \
    '#define MIRAS_MALLOC(n) mine(n)' '#define MIRAS_FREE(p) yours(p)' \
    '#define MIRAS_NO_STDIO' '#define MIRAS_ASSERT(x) ((void)0)' \
    '#define MIRAS_IMPLEMENTATION' '#include "miras.h"' >"$build/symbols.c" &&
    $fast -std=c99 -O0 -fno-pic -fno-stack-protector -U_FORTIFY_SOURCE -I. -c "$build/symbols.c" \
      -o "$build/symbols.o" || return 1
  bad=0
  nm -g --defined-only "$build/symbols.o" | awk '{print $3}' | grep -v '^miras_[a-z]' && {
    echo 'these names should not leave the object'
    bad=1
  }
  nm "$build/symbols.o" | awk '$2 ~ /^[bBdDcC]$/ {print $3}' | grep -vE '^([a-z_]*\.)?cached' && {
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
    $fast -std=c99 $strict_c -O0 -DMIRAS_NO_SIMD -shared -fPIC -fvisibility=hidden -I. \
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

# parts EVERY PARTS...: what a build leaves out it refuses, and it computes the same bits in the
# rest; one combination of choices in EVERY is looked at.
parts_build() {
  $light -DMIRAS_NO_SIMD -DPARTS_EVERY=$every $1 tests/parts.c -o "$build/bin/parts" -lm
}
parts() {
  every=$1
  shift
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

# bare NAME FLAGS AND FILES...: a program for a Cortex-M4 that examples/cortex-m/board.c starts, run
# by an emulator.
bare() {
  program=$build/$1
  shift
  arm-none-eabi-gcc -Os -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 \
    -ffunction-sections -fdata-sections "$@" examples/cortex-m/board.c -nostartfiles \
    -Wl,--gc-sections --specs=nano.specs --specs=nosys.specs -lm -o "$program" &&
    arm-none-eabi-size "$program" &&
    $limit qemu-system-arm -M mps2-an386 -nographic -semihosting -kernel "$program" \
      >"$program.txt" 2>&1 </dev/null
  status=$?
  cat "$program.txt"
  return $status
}
# cortex NAME FLAGS...: small.c
cortex() {
  bare "$@" -std=c99 -Wall -Wextra -Werror tests/small.c -T tests/small.ld
}
cortex_memory() {
  cortex small && grep -q 'one read' "$build/small.txt" &&
    grep -q MIRAS_NO_FROZEN "$build/small.txt" &&
    arm-none-eabi-size "$build/small" | awk 'NR == 2 && $1 + $2 > 43008 {exit 1}'
}
cortex_rows() {
  cortex small_rows -DEVERY_ROW && grep -q '^stack of the deepest: ' "$build/small_rows.txt"
}

# ---- examples for those who build something else ----

version_of() { sed -n 's/^#define MIRAS_VERSION_TEXT "\(.*\)"/\1/p' miras.h; }
few="-DMIRAS_NO_SIMD -DMIRAS_ONLY_MEMORIES -DMIRAS_ONLY_EXACT"

# The consumer in its three ways, and by pkg-config; without threads there is no pool.
cmake_ways() {
  export CC="$fast"
  here=$build/cmake from=examples/cmake/consumer
  cmake -S examples/cmake -B "$here/miras" >/dev/null &&
    cmake --install "$here/miras" --prefix "$here/a prefix" &&
    cmake -S $from -B "$here/installed" -DCMAKE_C_FLAGS="$few" \
      -DCMAKE_PREFIX_PATH="$here/a prefix" && cmake --build "$here/installed" &&
    "$here/installed/consumer" && "$here/installed/pool" || return 1

  mkdir -p "$here/repository/examples" && cp miras.h miras_cuda.cuh "$here/repository" &&
    cp -R examples/cmake examples/cpp examples/encoders.h "$here/repository/examples" &&
    (cd "$here/repository" && git init -q -b main && git add . &&
      git -c user.name=tests -c user.email=tests@example.org commit -q -m tests) &&
    cmake -S $from -B "$here/fetched" -DCMAKE_C_FLAGS="$few" -DMIRAS_INSTALL=OFF \
      -DMIRAS_REPOSITORY="$here/repository" && cmake --build "$here/fetched" --target consumer &&
    "$here/fetched/consumer" || return 1

  cmake -S $from -B "$here/folder" -DCMAKE_C_FLAGS="$few" -DMIRAS_FOLDER="$PWD" \
    -DMIRAS_THREADS=OFF && cmake --build "$here/folder" && "$here/folder/consumer" &&
    [ ! -e "$here/folder/pool" ] || return 1

  ln -s "$here/a prefix" "$here/prefix" && PKG_CONFIG_PATH=$here/prefix/share/pkgconfig &&
    export PKG_CONFIG_PATH && pkg-config --validate miras &&
    pkg-config --exact-version="$(version_of)" miras &&
    flags=$(pkg-config --cflags --libs miras) &&
    $gcc $few $from/main.c "$here/installed/libmemories.a" $flags -o "$here/main" &&
    "$here/main" && companions "$here/a prefix"
}
# companions PREFIX: what lies beside an installed miras.h compiles with it.
companions() {
  printf '#include <%s>\n' miras.h huggingface.h gguf.h tokenizer.h encoders.h \
    >"$build/companions.c" &&
    $gcc -fsyntax-only -I"$1/include" "$build/companions.c"
}

# The portfile by CMake, and a consumer of what it installs.
vcpkg_port() {
  export CC="$fast"
  here=$build/vcpkg port=examples/packages/vcpkg/miras
  python3 - $port/vcpkg.json "$(version_of)" <<'END' &&
import json, sys
manifest = json.load(open(sys.argv[1]))
assert manifest["name"] == "miras" and manifest["version"] == sys.argv[2], manifest
assert all(d["host"] for d in manifest["dependencies"])
END
    cmake -DPORTFILE="$PWD/$port/portfile.cmake" -DPORT=miras -DCURRENT_BUILDTREES_DIR="$here/b" \
      -DCURRENT_PACKAGES_DIR="$here/p" -P tests/vcpkg.cmake &&
    cmp LICENSE "$here/p/share/miras/copyright" &&
    cmake -S examples/cmake/consumer -B "$here/c" -DCMAKE_C_FLAGS="$few" \
      -DCMAKE_PREFIX_PATH="$here/p" && cmake --build "$here/c" --target consumer &&
    "$here/c/consumer" && companions "$here/p"
}

# Conan's own create, which builds the consumer too; pip brings Conan where it is missing.
conan_package() {
  if ! command -v conan >/dev/null && [ -z "${MIRAS_NO_INSTALL:-}" ]; then
    python3 -m venv "$build/conan" && "$build/conan/bin/pip" install -q conan
    PATH=$build/conan/bin:$PATH
  fi
  if ! command -v conan >/dev/null; then
    echo 'there is no conan, and pip could not bring it'
    return 77
  fi
  CONAN_HOME=$build/conan_home
  export CONAN_HOME CC="$fast"
  conan profile detect && conan create examples/packages/conan -o '&:threads=True' \
    -c "tools.build:cflags=$(echo "['$few']" | sed "s/ /','/g")" \
    -c "tools.cmake.cmake_layout:test_folder=$build/conan_test" >"$build/conan.txt" 2>&1
  status=$?
  cat "$build/conan.txt"
  [ $status = 0 ] && grep -q '^miras [0-9.]*, portable: 0.500 -0.250' "$build/conan.txt"
}

# cpp COMPILER OBJECT: the classes with exceptions and without, their library plain or not.
cpp() {
  for how in -fexceptions -fno-exceptions; do
    $1 -std=c++17 $strict $how -g1 -O0 -fno-omit-frame-pointer -fsanitize=address,undefined \
      -fno-sanitize-recover=all tests/test_cpp.cpp "$2" -o "$build/bin/cpp_$1" -lm -lpthread &&
      $limit "$build/bin/cpp_$1" || return 1
  done
}
cpp_example() {
  set -- g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror examples/cpp/example.cpp
  "$@" -DMIRAS_NO_SIMD -fsyntax-only &&
    "$@" -DMIRAS__IMPLEMENTED "$object" -o "$build/bin/cpp_example" -lm -lpthread &&
    "$build/bin/cpp_example" >"$build/cpp.txt" && cat "$build/cpp.txt" &&
    grep -qx 'coral is 1.00 0.50 0.31' "$build/cpp.txt" &&
    grep -qx 'refused: key_dim is 5000; it must lie in 1..4096' "$build/cpp.txt" &&
    awk '/^said/ {n++; e = $2 - $4; sum += e * e} END {exit !(n == 4 && sum / n < 0.05)}' \
      "$build/cpp.txt"
}

# Mono: the sample, the same as Unity compiles it, and a test of every class.
csharp() {
  here=$build/csharp from=examples/csharp
  mkdir "$here" || return 1
  set -- mcs -unsafe -warnaserror $from/Runtime/Miras.cs
  "$@" -out:"$here/pairs.exe" $from/Samples~/Pairs/Pairs.cs &&
    mono "$here/pairs.exe" >"$here/said" && cat "$here/said" &&
    grep -qx 'saved and opened: 0.010' "$here/said" &&
    "$@" -d:UNITY_5_3_OR_NEWER -out:"$here/unity.exe" $from/Samples~/Pairs/Pairs.cs \
      tests/unity.cs && (cd "$here" && mono unity.exe | diff said -) &&
    "$@" -out:"$here/test.exe" tests/test_csharp.cs && mono "$here/test.exe" "$here" &&
    python3 - $from/package.json $from/Runtime/Miras.asmdef "$(version_of)" <<'END'
import json, sys
package, assembly = (json.load(open(name)) for name in sys.argv[1:3])
assert package["version"] == sys.argv[3] and assembly["allowUnsafeCode"], package
END
}

lua() {
  luajit examples/lua/pairs.lua >"$build/lua.txt" && cat "$build/lua.txt" &&
    grep -qx 'saved and opened: 0.010' "$build/lua.txt" &&
    grep -qx 'refused: key_dim is 5000; it must lie in 1..4096' "$build/lua.txt" &&
    luajit tests/test_lua.lua "$build"
}

# The linker holds flash and data to board.ld, which keeps 14 KB for the stack. The program fails
# where the network has not learned; here, that it is the best, by what, and what the memory is.
cortex_learns() {
  bare fridge -std=c99 -Wall -Wextra -Werror -Wno-maybe-uninitialized examples/cortex-m/fridge.c \
    -T examples/cortex-m/board.ld && awk '
      $1 == "stack" {stack = $2}
      $1 == "week" && NF == 4 {same = $2; memory = $3; network = $4}
      /^best of the week: network/ {best = 1}
      END {exit !(best && stack > 4096 && stack < 14912 && memory < 0.35 * same &&
                  network < 0.33 * same && network > 0.1)}' "$build/fridge.txt"
}

# The sketch of the Arduino library, as its copying script puts it together: on a stand-in for
# Arduino's core, and so by Arduino's own builder. It must halve the error of "the same as now".
sketch_learns() {
  cat "$1" && awk -F '[:,]' '
    /^sensor/ {n++; error = $6; same = $8}
    /^stack/ {split($0, stack, " ")}
    END {exit !(n == 9 && error > 0 && error < 0.55 * same && stack[2] < 4096)}' "$1"
}
arduino_sketch() {
  here=$build/arduino flags='-Wall -Wextra -Werror'
  grep -qx "version=$(version_of)" examples/arduino/library.properties &&
    sh examples/arduino/copy.sh "$here" || return 1
  lib=$here/Miras
  set -- arm-none-eabi-g++ -std=gnu++17 -Os -mcpu=cortex-m4 -mthumb -mfloat-abi=hard \
    -mfpu=fpv4-sp-d16 -ffunction-sections -fdata-sections $flags -fno-exceptions -fno-rtti \
    -fno-threadsafe-statics -Itests/arduino -I"$lib/src" -c -x c++
  "$@" -include Arduino.h "$lib/examples/Forecast/Forecast.ino" -o "$here/sketch.o" &&
    "$@" tests/arduino/board.cpp -o "$here/board.o" &&
    bare forecast -std=gnu11 $flags "$lib/src/MirasMemory.c" "$here/sketch.o" "$here/board.o" \
      -T examples/cortex-m/board.ld && sketch_learns "$build/forecast.txt"
}
arduino_builder() {
  here=$build/builder
  board=$here/hardware/tests/samd
  mkdir -p "$board/cores/emulated" "$here/out" && cp tests/arduino/*.txt "$board" &&
    cp tests/arduino/Arduino.h tests/arduino/board.cpp examples/cortex-m/board.ld \
      "$board/cores/emulated" && cp examples/cortex-m/board.c "$board/cores/emulated/start.c" &&
    sh examples/arduino/copy.sh "$here/libraries" && arduino-builder -compile \
      -hardware "$here/hardware" -hardware /usr/share/arduino-builder -tools /usr/bin \
      -libraries "$here/libraries" -fqbn tests:samd:emulated -build-path "$here/out" \
      "$here/libraries/Miras/examples/Forecast/Forecast.ino" &&
    $limit qemu-system-arm -M mps2-an386 -nographic -semihosting \
      -kernel "$here/out/Forecast.ino.elf" >"$here/said" 2>&1 </dev/null &&
    sketch_learns "$here/said"
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
    cp tests/data/0.3-yaad.safetensors "$build/windows/tests/data" && cd "$build/windows" &&
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
      --results "$build/passkey.txt" --csv "$build/passkey.csv" --bar 0.9 &&
    grep -q '^passkey deltanet-memory' "$build/passkey.txt" &&
    grep -q '^deltanet-memory,48,.*,1,[1-9]' "$build/passkey.csv" &&
    { "$build/bin/recall" --set p=2 2>&1 || :; } | grep 'is it memory.p?'
}

pictures() {   # are what the tables of bench/README.md and the numbers of bench/results say
  mkdir "$build/pictures" && python3 bench/plots.py "$build/pictures" || return 1
  for file in "$build"/pictures/*.svg; do
    cmp "$file" "bench/results/${file##*/}" || return 1
    grep -q "(results/${file##*/})" README.md bench/README.md ||
      grep -q "(bench/results/${file##*/})" README.md || return 1
  done
  [ "$(ls "$build/pictures" | wc -l)" -eq 12 ]
}

evidence() {   # every question, quickly, has a table and a picture
  CC="$gcc -DMIRAS_NO_AVX512" $limit python3 bench/evidence.py --quick --jobs 1 \
    --folder "$build/evidence" >"$build/evidence.log" || return 1
  for name in rows second parts context size space parity s3 s5 passkey number uuid; do
    grep -q '^| [a-z]' "$build/evidence/$name.md" &&
      tail -n 1 "$build/evidence/$name.svg" | grep -q '</svg>' || { echo "$name"; return 1; }
  done
  grep -q '^| [a-z]' "$build/evidence/rates.md"
}

soak() {
  $gcc -O1 -Wall -Wextra -Werror -DMIRAS_NO_AVX512 bench/soak.c -o "$build/bin/soak" -lm &&
    $limit "$build/bin/soak" --quick --writes 3000
}

# linked NAME [PROGRAM]: an example whose library is $object. The one command that it promises is
# among the rows that compile.
linked() {
  grep -q '^#define MIRAS_IMPLEMENTATION' "examples/$1.c" &&
    $gcc -O1 -Wall -Wextra -Werror -DMIRAS__IMPLEMENTED "examples/$1.c" "$object" \
      -o "$build/bin/${2:-$1}" ${3:-} -lm -lpthread   # libraries are several words
}
lm_files() {
  linked lm && sh tests/test_lm.sh "$build/bin/lm"
}
npc_learns() {
  $gcc -std=c99 -O1 -Wall -Wextra -Wpedantic -Werror -DMIRAS_NO_SIMD examples/npc.c \
    -o "$build/bin/npc" -lm && sh tests/test_npc.sh "$build/bin/npc"
}
watches() {
  linked anomaly && sh tests/test_anomaly.sh "$build/bin/anomaly"
}
foresees() {
  linked forecast && sh tests/test_forecast.sh "$build/bin/forecast"
}
types() {
  linked keyboard && sh tests/test_keyboard.sh "$build/bin/keyboard"
}
zips() {   # a library of vectors: what it compresses, $object reads, in plain C; damage is said
  linked zip zip-plain && object=$1 && linked zip zip-vectors || return 1
  head -c 5000 README.md >"$build/page" && cd "$build" || return 1
  $limit bin/zip-vectors c page page.z --train 320 &&
    $limit bin/zip-plain c page page.plain --train 320 && cmp page.z page.plain &&
    $limit bin/zip-plain d page.z page.back && cmp page page.back || return 1
  ls -l page page.z
  [ "$(wc -c <page.z)" -lt 2300 ] || return 1
  head -c 1500 page.z >page.short
  { cat page.z | tr 'a' 'b'; } >page.other
  { cat page.z && echo more; } >page.long
  for bad in page page.short page.other page.long; do
    bin/zip-plain d $bad page.bad 2>said && return 1
    cat said
    grep -q "damaged\|not what zip" said || return 1
  done
  for bad in '--train x' '--train 64x' '--train 100' '--train 16384' --train --trian; do
    bin/zip-plain page $bad >said 2>&1
    [ $? = 2 ] && grep -qe --tr said || { echo "$bad"; return 1; }
  done
  bin/zip-plain --help >said && grep -qe '--train N' said
}
run_others() {
  linked run && linked lm lm_of_run && sh tests/test_run.sh "$build/bin/run" "$build/bin/lm_of_run"
}

tunes() {
  linked tune && linked run run_of_tune &&
    sh tests/test_tune.sh "$build/bin/tune" "$build/bin/run_of_tune"
}

answers_http() {
  linked openai '' '-lmicrohttpd -lcjson' && linked run run_of_openai && linked lm lm_of_openai &&
    python3 tests/test_openai.py "$build/bin/openai" "$build/bin/run_of_openai" \
      "$build/bin/lm_of_openai"
}

# A source distribution of the Python package builds elsewhere, by wheel.sh into a wheel, and what
# that installs passes pytest. Where numpy is, tests/vectors/check.py runs too.
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
    CFLAGS='-O1 -g0 -DMIRAS_NO_AVX512' PYTHON=python FLAGS=--no-build-isolation \
      sh examples/python/wheel.sh "$build/wheels" "$build"/sdist/miras-*.tar.gz &&
    pip install -q --no-deps "$build"/wheels/miras-*.whl &&
    $limit python -m pytest -q -rs -p no:cacheprovider examples/python/tests &&
    python tests/vectors/check.py
}

# Built by the README's commands: its size, one hash everywhere, then a browser, which gets the one
# file that is released.
web_page() {
  test=$PWD/tests/test_web.js here=$build/web page=examples/web
  mkdir "$here" "$here/examples" && cp miras.h "$here" && cp -r $page examples/encoders.h \
    "$here/examples" && cd "$here" && rm -rf $page/page $page/page.js $page/release || return 1
  sed -n 's/^    \(\(sh\|cc\) .*\)/\1/p' $page/README.md >build.sh
  cat build.sh && $limit sh -e build.sh >said && cat said && tail -n 1 said >native &&
    node "$test" $page >node && cat node &&
    tail -n 1 node | cmp - native || return 1
  grep -qxF "    $(cat native)" $page/README.md || { echo 'README.md has another'; return 1; }
  tr -s ' \n' ' ' <$page/index.html | grep -qF ">$(cat native)<" ||
    { echo 'index.html has another'; return 1; }
  bytes=$(wc -c <$page/release/index.html)
  echo "$bytes bytes of 400000"
  [ "$bytes" -le 400000 ] || return 1
  for chromium in chromium chromium-headless-shell google-chrome; do
    command -v $chromium >/dev/null 2>&1 || continue
    $limit node "$test" $page/release $page/page $chromium
    return
  done
  echo 'there is no Chromium: nobody has looked at the page'
  return 77
}
