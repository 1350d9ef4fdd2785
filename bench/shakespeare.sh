#!/bin/sh
# shakespeare.sh: train six memories on one text, twice each, and write a table.
#
#   sh bench/shakespeare.sh FILE          FILE: tiny Shakespeare, or any text in UTF-8
#
# linear-attention, gated-deltanet, titans, moneta, yaad and memora at equal parameter count with
# the defaults of `lm train` (width 128, 2 layers, 5000 steps, characters), in windows of 64 (batch
# 32) and of 256 (batch 8), so that every step sees 2048 tokens. Perceptron memories have 4 heads,
# others 2, because a matrix of the same width holds less. The last 10 % of the text is validation.
# A run is skipped when its result exists in OUT, so an interrupted benchmark goes on where it was.
#
#   OUT      where runs are kept           bench/out
#   JOBS     runs side by side, one thread each   2 if there are 2 cores, else 1
#   STEPS    steps of a run                5000
#   OPTIONS  of every run   --parameters 643400 --dropout 0.05 --lr 0.002 --decay 1
#            --eval-every 1000 (5000 steps overfit with less decay; with --reset 0 no row is
#            given resets to outlive its windows)
#   MODELS, SHAPES   which runs            e.g. MODELS="yaad titans" SHAPES="64x32". MODELS=all are
#            the rows in the common block, MODELS=every all that lm models lists beside them
#   MAMBA2   of mamba2 and log-linear-mamba2, which have no MLP to make wider
#            --key-dim 128 --value-dim 64
#   SEED     of every run                  1
#   RESULT   the table                     bench/results/shakespeare.md
set -eu
LC_ALL=C
export LC_ALL

if [ $# -ne 1 ] || [ ! -r "$1" ]; then
  echo "shakespeare.sh: needs the text to train on: sh bench/shakespeare.sh FILE" >&2
  exit 2
fi
case $1 in
  /*) text=$1 ;;
  *) text=$PWD/$1 ;;
esac
cd "$(dirname "$0")/.."

cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
[ "$cores" -ge 2 ] && two=2 || two=1
JOBS=${JOBS:-$two}
OUT=${OUT:-bench/out}
STEPS=${STEPS:-5000}
OPTIONS=${OPTIONS---parameters 643400 --dropout 0.05 --lr 0.002 --decay 1 --eval-every 1000}
MODELS=${MODELS:-linear-attention gated-deltanet titans moneta yaad memora}
SHAPES=${SHAPES:-64x32 256x8}
RESULT=${RESULT:-bench/results/shakespeare.md}
CC=${CC:-cc}
MAMBA2=${MAMBA2:---key-dim 128 --value-dim 64}
SEED=${SEED:-1}
limit=$(printf '%s\n' "$OPTIONS" | sed -n 's/.*--parameters \([0-9]*\).*/\1/p')

mkdir -p "$OUT" "$(dirname "$RESULT")"
$CC -O2 examples/lm.c -o "$OUT/lm" -lm
rows=$("$OUT/lm" models | awk 'NR > 1 && !NF {exit} NR > 1 {print $1}')
wholes=$("$OUT/lm" models | awk 'whole {for (i = 1; i <= NF; i++) print $i} /^whole/ {whole = 1}')
if [ "$MODELS" = all ]; then
  MODELS=$(for row in $rows; do echo "$row-memory"; done)
elif [ "$MODELS" = every ]; then
  MODELS=$(for row in $rows; do
    echo "$row"
    ! printf '%s\n' "$wholes" | grep -qx "$row" || echo "$row-memory"
  done
  printf '%s\n' "$wholes" | grep -vxF "$rows")
fi

# What a model needs beside the options of all: more heads for perceptrons and attention, a layer
# for each part of a pattern, segments that training sees several of. Mamba-2 has no MLPs and so
# twice the layers.
own() { # MODEL
  case $1 in
    titans-mac) echo --heads 4 --set attention.window=16 ;;
    ttt-*|titans*|moneta*|yaad*|memora*|transformer) echo --heads 4 ;;
    kimi-linear|qwen3.5) echo --heads 2 --layers 4 ;;
    mamba2|log-linear-mamba2) echo "--heads 2 --layers 4 --parameters 0 $MAMBA2" ;;
    *) echo --heads 2 ;;
  esac
}

# One run: MODEL CONTEXTxBATCH. The result line goes to its place only when it is complete.
run() {
  dir=$OUT/$1-$2
  mkdir -p "$dir"
  # shellcheck disable=SC2046,SC2086  # lists of words
  "$OUT/lm" train "$text" --model "$1" --chars --context "${2%x*}" --batch "${2#*x}" \
    --steps "$STEPS" --threads 1 --seed "$SEED" $OPTIONS $(own "$1") \
    --out "$dir/model.safetensors" \
    >"$dir/log" 2>"$dir/progress" &
  child=$!
  if wait "$child" && grep '^result ' "$dir/log" >"$dir/result.tmp"; then
    mv "$dir/result.tmp" "$dir/result"
    echo "done  $1 $2"
  else
    echo "FAILED $1 $2: $(tail -n 1 "$dir/progress")" >&2
    return 1
  fi
}

# Every worker walks the whole list and takes what nobody has claimed; making a folder is the claim,
# because only one can succeed.
worker() {
  child=
  bad=0
  trap 'kill $child 2>/dev/null; exit 143' TERM
  for shape in $SHAPES; do
    for model in $MODELS; do
      mkdir "$OUT/$model-$shape.claim" 2>/dev/null || continue
      if [ -s "$OUT/$model-$shape/result" ]; then
        echo "kept  $model $shape"
      else
        run "$model" "$shape" || bad=1
      fi
    done
  done
  return $bad
}

rm -rf "$OUT"/*.claim
pids=
trap 'kill $pids 2>/dev/null; exit 130' INT TERM
slot=0
while [ "$slot" -lt "$JOBS" ]; do
  worker &
  pids="$pids $!"
  slot=$((slot + 1))
done
failed=0
for pid in $pids; do
  wait "$pid" || failed=1
done
rm -rf "$OUT"/*.claim

field() { # FILE NAME: the value of name=value
  tr ' ' '\n' <"$1" | sed -n "s/^$2=//p"
}

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
[ -n "$cpu" ] || cpu=$(sysctl -n machdep.cpu.brand_string 2>/dev/null || uname -m)

{
  echo "# Memories on $(basename "$text")"
  echo
  echo "- machine: $cpu, $cores cores, $JOBS runs side by side, one thread each"
  echo "- compiler: $($CC --version | head -n 1), \`-O2\`"
  echo "- date: $(date -u +%Y-%m-%d)"
  echo "- command: \`STEPS=$STEPS JOBS=$JOBS sh bench/shakespeare.sh $(basename "$text")\`"
  echo "- width 128, 2 layers unless said, characters, $STEPS steps, \`$OPTIONS\`;" \
       "4 heads for perceptron memories, 2 for matrices; seed $SEED; AdamW with 100 steps of" \
       "warm-up and a cosine to 5 %, decay 0.1 unless said, clipping 1"
  echo
  echo "Losses are nats per character on the text's last part, every character a target once:"
  echo "in windows of the training length, each from an empty memory; and in one pass, the memory"
  echo "carried from the first character to the last. Best is the lowest of the windowed losses"
  echo "measured on the way. State is what a running text needs per block. Seconds include the"
  echo "measurements. Reset: tokens after which a head begins anew, which windows do not see."
  echo "Bits: those of the windows, per character."
  for shape in $SHAPES; do
    echo
    echo "## Windows of ${shape%x*}, batch ${shape#*x}"
    echo
    echo "| model | parameters | windows | bits | one pass | best | tokens/s | state KiB |" \
         "seconds | peak MiB | reset |"
    echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for model in $MODELS; do
      file=$OUT/$model-$shape/result
      if [ ! -s "$file" ]; then
        echo "| $model | | failed | | | | | | | | |"
        continue
      fi
      parameters=$(field "$file" parameters)
      [ "$parameters" -le "${limit:-$parameters}" ] || {
        echo "shakespeare.sh: $model has $parameters parameters, more than $limit" >&2
        failed=1
      }
      bits=$(field "$file" val | awk '{printf "%.3f", $1 / log(2)}')
      echo "| $model | $parameters | $(field "$file" val) | $bits | $(field "$file" stream) |" \
           "$(field "$file" best) | $(field "$file" tokens_per_s) | $(field "$file" state_kib) |" \
           "$(field "$file" seconds) | $(field "$file" peak_mib) | $(field "$file" reset) |"
    done
  done
} >"$RESULT.tmp"
mv "$RESULT.tmp" "$RESULT"
cat "$RESULT"
exit $failed
