#!/bin/sh
# run.sh: how near this machine's limits one core comes (bench/limits.c), with both instruction sets
# of a PC; prints what belongs into bench/results/cpu.md.
#   sh bench/run.sh [exact] [perceptrons] [decode] [products]
#   CC=cc  ROUNDS=15  TOKENS=2048
set -u
cd "$(dirname "$0")/.." || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM
cc=${CC:-cc}
for set in '' -DMIRAS_NO_AVX512; do
  # shellcheck disable=SC2086 # no word where there is none
  "$cc" -std=c99 -O2 $set bench/limits.c -o "$folder/limits$set" -lm || exit 1
done
echo "- machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)," \
  "$(getconf _NPROCESSORS_ONLN) cores; load $(cut -d ' ' -f 1-3 /proc/loadavg 2>/dev/null)"
echo "- compiler: $("$cc" --version | head -n 1)"
echo "- date: $(date +%Y-%m-%d), commit $(git rev-parse --short HEAD 2>/dev/null)"
echo "- command: \`ROUNDS=${ROUNDS:-15} sh bench/run.sh $*\`"
for set in '' -DMIRAS_NO_AVX512; do
  echo
  "$folder/limits$set" "$@" || exit 1
done
