#!/bin/sh
# weights.sh: what shorter weights save in time, and what they cost models that `lm train` saved,
# in bits per byte of one text.
#
#   sh bench/weights.sh                    ms a token, under 5 minutes
#   sh bench/weights.sh TEXT MODEL...      bits per byte; TEXT: what the models have not seen
#
# Time is that of bench/weights.c, one thread, models in turns, with every compiler that there is
# and with and without AVX-512. For bits, each model is evaluated on the text in windows of its
# training and in one pass, with its matrices as they are and in FORMS; KiB are those of the file
# that `lm convert` writes. A model is called what the folder is called that it lies in.
#
#   OUT        where programs and converted models are kept  bench/out
#   COMPILERS  that time is measured with                    gcc clang
#   FORMS      of weights, behind float                      bf16 f16 q8 q4 q4-pure
set -eu
LC_ALL=C
export LC_ALL

if [ $# = 1 ]; then
  echo "weights.sh: needs a text and a model, or neither: sh bench/weights.sh TEXT MODEL..." >&2
  exit 2
fi
OUT=${OUT:-bench/out}
CC=${CC:-cc}
mkdir -p "$OUT"

# Programs run in turns, so that what else the machine does meets all of them.
if [ $# = 0 ]; then
  set --
  for compiler in ${COMPILERS:-gcc clang}; do
    command -v "$compiler" >/dev/null || continue
    for flags in -DMIRAS_NO_AVX512 ''; do
      program=$OUT/weights_$compiler$flags
      # shellcheck disable=SC2086  # no flag, or one
      "$compiler" -O2 $flags -DMIRAS_NO_TRAINING "$(dirname "$0")/weights.c" -o "$program" -lm
      set -- "$@" "$program"
    done
  done
  echo "| compiler | call | model, set | float | bf16 | f16 | q8 | q4" \
    "| bf16: times as fast | f16 | q8 | q4 |"
  echo "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
  for size in 512x4 1024x8; do
    for program in "$@"; do
      label=${program##*/weights_}
      "$program" "${label%%-*}" "$size"
    done
  done
  exit 0
fi
text=$1
shift
$CC -O2 "$(dirname "$0")/../examples/lm.c" -o "$OUT/lm" -lm

echo "| model | weights | KiB | windows | more | one pass | more |"
echo "|---|---|--:|--:|--:|--:|--:|"
for model in "$@"; do
  first= name=$(basename "$model" .safetensors)
  [ "$name" != model ] || name=$(basename "$(dirname "$model")")
  for weights in float ${FORMS:-bf16 f16 q8 q4 q4-pure}; do
    "$OUT/lm" convert "$model" --weights "$weights" --out "$OUT/converted.safetensors" >"$OUT/said"
    "$OUT/lm" eval "$model" "$text" --weights "$weights" --svg "$OUT/positions.svg" >"$OUT/said"
    pass=$(sed -n 's/^one pass, memory[^0-9]*\([0-9.]*\).*/\1/p' "$OUT/said")
    windows=$(sed -n 's/^windows of [0-9]* *\([0-9.]*\).*/\1/p' "$OUT/said")
    first=${first:-$windows $pass}
    bytes=$(wc -c <"$OUT/converted.safetensors")
    echo "$name $weights $bytes $windows $pass $first" |
      awk '{printf "| %s | %s | %.0f | %s | %+.4f | %s | %+.4f |\n",
                   $1, $2, $3 / 1024, $4, $4 - $6, $5, $5 - $7}'
  done
done
