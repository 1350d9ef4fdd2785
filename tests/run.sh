#!/bin/sh
# run.sh: runs every test of the library: the rows of table.sh. Run from anywhere:
#   sh tests/run.sh           everything; about a quarter of an hour on two cores
#   sh tests/run.sh quick     one compiler, no sanitizers, no matrix
#   sh tests/run.sh device    the device half alone, all of it, ten minutes on two cores. When it
#                             has passed, tests/device.txt says of which sources, and until one of
#                             them changes, comments apart, its longer checks are left out above
#   sh tests/run.sh targets   MIRAS_STRICT on the machines of targets.txt alone, emulated, half an
#                             hour on two cores; installs 1.3 GB of cross compilers
#   sh tests/run.sh learning  what networks of every row learn, what many writes do to memories, the
#                             longest grids whole and more levels of optimisation: a quarter of an
#                             hour on two cores
# One line per check, the log of what failed, and at the end "N passed, N failed, N skipped". The
# exit status is 0 only if nothing failed. Missing packages are installed with apt-get where that is
# possible without a password (all of them on a bare Debian 12: 710 MB to download, 3.7 GB);
# otherwise what needs them is skipped and counted.
#   JOBS=n      jobs at a time (default: one more than processors, since some wait)
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
  sh -c '. tests/checks.sh && . "$0"' "$job" >"$job.log" 2>&1
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
  all|quick|device|targets|learning) ;;
  *) echo "usage: sh tests/run.sh [quick|device|targets|learning]" >&2; exit 2 ;;
esac
self=$(cd "$(dirname "$0")" && pwd)/run.sh
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 2
build=$(mktemp -d "${TMPDIR:-/tmp}/miras_tests.XXXXXX") || exit 2
clean() { if [ -n "${KEEP:-}" ]; then echo "kept: $build"; else rm -rf "$build"; fi; }
trap clean EXIT
trap 'exit 130' HUP INT TERM
mkdir "$build/jobs" "$build/bin"
jobs=${JOBS:-$(($(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1))}
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

has_cmocka() {   # compiler
  echo '#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
int main(void) { return 0; }' | "$1" -x c - -o "$build/try" -lcmocka 2>/dev/null
}

small_arm() {   # a cross compiler for microcontrollers, with a C library
  has arm-none-eabi-gcc && printf '%s\n' '#include <string.h>' '#include <math.h>' |
    arm-none-eabi-gcc -x c --specs=nano.specs -fsyntax-only - 2>/dev/null
}

emulates() {   # AVX-512 where the processor has AVX2 alone (SIMDE=1: anywhere)
  [ "$(uname -m)" = x86_64 ] && grep -qw avx2 /proc/cpuinfo 2>/dev/null &&
    { [ -n "${SIMDE:-}" ] || ! grep -qw avx512f /proc/cpuinfo; }
}

target_rows() { sed 's/#.*//; /|/!d; s/ *| */|/g' tests/targets.txt; }
links() {   # compiler, flags...: it has a C library
  echo 'int main(void) { return 0; }' | "$@" -x c - -o "$build/try" >/dev/null 2>&1
}
targets_wanted() {
  has qemu-arm || echo qemu-user
  target_rows | while IFS='|' read -r packages runner compiler flags; do
    # shellcheck disable=SC2086 # flags are several words
    { links $compiler $flags && has "${runner%% *}"; } || echo "$packages"
  done
}
wanted() {   # the packages that are missing, one per line
  compiles gcc -lm || echo gcc libc6-dev
  has cmp || echo diffutils
  has nm || echo binutils
  { has gcc && has_cmocka gcc; } || echo libcmocka-dev
  [ "$mode" = quick ] && { has g++ || echo g++; return; }
  [ "$mode" = targets ] && { targets_wanted; return; }
  has g++ || echo g++
  has clang || echo clang
  has tcc || echo tcc
  compiles clang -fsanitize=address,undefined || echo libclang-rt-14-dev
  compiles gcc -lblis || echo libblis-dev
  { has aarch64-linux-gnu-gcc && echo 'int main(void) { return 0; }' |
    aarch64-linux-gnu-gcc -x c - -static -o "$build/try" 2>/dev/null; } ||
    echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  has qemu-aarch64 || has qemu-aarch64-static || echo qemu-user
  has s390x-linux-gnu-gcc || echo gcc-s390x-linux-gnu libc6-dev-s390x-cross
  has emcc || echo emscripten nodejs
  has chromium || has chromium-headless-shell || has google-chrome || echo chromium-headless-shell
  ! emulates || [ -f /usr/include/simde/x86/avx512.h ] || echo libsimde-dev
  has cmake || echo cmake
  has luajit || echo luajit
  { has mcs && has mono; } || echo mono-mcs mono-runtime
  has pkg-config || echo pkg-config
  has git || echo git
  has arduino-builder || echo arduino-builder
  small_arm || echo gcc-arm-none-eabi libnewlib-arm-none-eabi
  has qemu-system-arm || echo qemu-system-arm
  { has mpicc && has mpirun; } || echo openmpi-bin libopenmpi-dev
  has python3 || echo python3
  compiles gcc -lmicrohttpd -lcjson || echo libmicrohttpd-dev libcjson-dev
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
if compiles gcc -lm; then gcc=gcc; fi
if [ -z "$gcc" ] && compiles clang -lm; then gcc=clang; fi
if [ -z "$gcc" ]; then
  echo "No C compiler was found and none could be installed; nothing can be tested."
  echo "0 passed, 1 failed"
  exit 1
fi

# Where a program is built only to be run once: a compiler that takes no time, if there is one.
light="$gcc -O0"
if compiles tcc -lm; then light=tcc; fi
# Where it must know all options: clang, which at -O0 takes a quarter of the time of gcc, as that
# optimises kernels all the same.
fast=$gcc
if compiles clang -lm; then fast=clang; fi

# ---- the table ----

# Has this machine what a row needs? Else $lacks is what is missing; it is empty where the run is of
# another kind. What a compiler is tried for is tried once.
once() {   # name, command...: 0 if the command succeeds
  known=$build/known_$1
  shift
  [ -f "$known" ] || { "$@" >/dev/null 2>&1; echo $? >"$known"; }
  [ "$(cat "$known")" = 0 ]
}
races() {   # compiler: some kernels place programs where the run-time does not expect them
  echo 'int main(void) { return 0; }' >"$build/try.c"
  "$1" -fsanitize=thread "$build/try.c" -o "$build/try_tsan_$1" &&
    { "$build/try_tsan_$1" || setarch -R "$build/try_tsan_$1"; }
}
links_races() {
  echo 'int main() { return 0; }' >"$build/try.cpp"
  g++ -fsanitize=thread -c "$build/try.cpp" -o "$build/try.o"
}
fuzzes() {
  printf '%s\n' '#include <stddef.h>' '#include <stdint.h>' \
    'int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) { return p && n > 1u << 30; }' \
    >"$build/try.c"
  clang -fsanitize=fuzzer "$build/try.c" -o "$build/try"
}
has_all() {   # needs, as one argument
  for need in $1; do
    lacks=$need
    case $need in
      all|quick) lacks= && [ "$mode" = "$need" ] ;;
      device) ;;   # in every run
      long) lacks= && [ -n "$longer" ] ;;
      emulates) lacks= && emulates ;;
      gcc) lacks= && [ "$gcc" = gcc ] ;;
      x86) lacks= && [ "$(uname -m)" = x86_64 ] ;;
      *-asan) once "$need" compiles "${need%-asan}" -fsanitize=address,undefined ;;
      *-tsan) once "$need" races "${need%-tsan}" ;;
      g++-races) once "$need" links_races ;;
      clang-fuzzer) once "$need" fuzzes ;;
      aarch64) [ -n "$qemu" ] && has aarch64-linux-gnu-gcc ;;
      blis) once blis compiles "$gcc" -lblis ;;
      cortex) once cortex small_arm && has qemu-system-arm ;;
      microhttpd) once microhttpd compiles "$gcc" -lmicrohttpd -lcjson ;;   # and cJSON
      mingw) has x86_64-w64-mingw32-gcc ;;
      mpi) has mpicc && has mpirun ;;
      nvcc) has nvcc || has /usr/local/cuda/bin/nvcc ;;
      simde) [ -f /usr/include/simde/x86/avx512.h ] ;;
      *) has "$need" ;;
    esac || return 1
  done
}

count=0
skipped=0
group=   # what follows is of device, which every run has too, or of targets or learning alone
chosen() {   # name
  case $mode-$group in
    "$mode-$mode"|all-|all-device|quick-|quick-device) ;;
    *) return 1 ;;
  esac
  case $1 in
    *"${ONLY:-}"*) ;;
    *) return 1 ;;
  esac
}
job() {   # name, needs, command: 0 if it will run
  chosen "$1" || return 1
  if has_all "$2"; then
    count=$((count + 1))
    printf '# %s\n%s\n' "$1" "$3" >"$build/jobs/$(printf %04d $count)"
    return 0
  fi
  [ -n "$lacks" ] || return 1
  skipped=$((skipped + 1))
  echo "skip  $1: there is no $lacks"
  return 1
}

# -Wconversion of clang includes signs, that of gcc does not; the house leaves them out.
c_warnings='-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wshadow -Wdouble-promotion'
strict="-Werror $c_warnings"
strict_c="$strict -Wmissing-prototypes -Wstrict-prototypes"
cmocka='-lcmocka'
if ! has_cmocka $gcc; then
  cmocka='-DMIRAS_TEST_NO_CMOCKA'
  skipped=1
  echo "skip  the runner of cmocka: it is not here; the plain one of tests/check.h is used"
fi
# The device code's fused multiply-adds: the processor's, where it has them, not calls of fmaf.
fused=
grep -qw fma /proc/cpuinfo 2>/dev/null && compiles g++ -mfma && fused=-mfma
qemu=
for name in qemu-aarch64 qemu-aarch64-static; do
  if [ -z "$qemu" ] && has "$name"; then qemu=$name; fi
done
device_look() {   # have the device half's longer checks passed with these sources?
  longer=
  case $mode in quick|targets|learning) return 0 ;; esac
  sources=$(device_sources | sha256sum | cut -c1-32)
  longer=yes
  if [ "$mode" = all ] && grep -qx "sources $sources" tests/device.txt 2>/dev/null; then
    echo "The device half's longer checks have passed with these sources (tests/device.txt)."
    longer=
  fi
}
export build gcc fast light strict strict_c limit cmocka qemu

. tests/table.sh   # from the root, where all of this runs

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

set --
for file in "$build"/smoke_strict_*; do [ -f "$file" ] && set -- "$@" "$file"; done
if [ $# -ge 1 ]; then   # README.md says what they agree on
  grep -o '[a-z]* [0-9a-f]\{16\}' README.md >"$build/smoke_readme"
  fingerprints 'MIRAS_STRICT and README.md, memories' memories "$@" "$build/smoke_readme"
  fingerprints 'MIRAS_STRICT and README.md, models, files, samples' models "$@" \
    "$build/smoke_readme"
fi
set --
for file in "$build"/smoke_few_*; do [ -f "$file" ] && set -- "$@" "$file"; done
fingerprints 'MIRAS_STRICT, one in three, memories' memories "$@"
fingerprints 'MIRAS_STRICT, one in three, models, files, samples' models "$@"

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
