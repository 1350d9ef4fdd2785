#!/bin/sh
# weights.sh: what shorter weights cost models that `lm train` saved, in bits per byte of one text.
#
#   sh bench/weights.sh TEXT MODEL...      TEXT: what the models have not seen
#
# Each model is evaluated on the text in windows of its training and in one pass, with its matrices
# as they are, in bf16, in f16 and in q8; KiB are those of the file that `lm convert` writes. A
# model is called what the folder is called that it lies in.
#
#   OUT      where lm and converted models are kept     bench/out
set -eu
LC_ALL=C
export LC_ALL

if [ $# -lt 2 ]; then
  echo "weights.sh: needs a text and a model: sh bench/weights.sh TEXT MODEL..." >&2
  exit 2
fi
text=$1
shift
OUT=${OUT:-bench/out}
CC=${CC:-cc}
mkdir -p "$OUT"
$CC -O2 "$(dirname "$0")/../examples/lm.c" -o "$OUT/lm" -lm

echo "| model | weights | KiB | windows | more | one pass | more |"
echo "|---|---|--:|--:|--:|--:|--:|"
for model in "$@"; do
  first=
  for weights in float bf16 f16 q8; do
    "$OUT/lm" convert "$model" --weights "$weights" --out "$OUT/converted.safetensors" >"$OUT/said"
    "$OUT/lm" eval "$model" "$text" --weights "$weights" --svg "$OUT/positions.svg" >"$OUT/said"
    pass=$(sed -n 's/^one pass, memory[^0-9]*\([0-9.]*\).*/\1/p' "$OUT/said")
    windows=$(sed -n 's/^windows of [0-9]* *\([0-9.]*\).*/\1/p' "$OUT/said")
    first=${first:-$windows $pass}
    bytes=$(wc -c <"$OUT/converted.safetensors")
    echo "$(basename "$(dirname "$model")") $weights $bytes $windows $pass $first" |
      awk '{printf "| %s | %s | %.0f | %s | %+.4f | %s | %+.4f |\n",
                   $1, $2, $3 / 1024, $4, $4 - $6, $5, $5 - $7}'
  done
done
