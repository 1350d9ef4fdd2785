#!/bin/sh
# train.sh: trains the models of this folder again, to the bit, on any machine with AVX2, AVX-512 or
# NEON, however many threads it has.
#
#   sh examples/weights/train.sh [FOLDER]     all of them: about four hours of one core
#   MODELS="yaad titans" sh examples/weights/train.sh
#
# FOLDER (./weights) has prose.txt, which examples/data.sh makes of packages, and what is trained.
# Stop it when you like: models that are there are not trained again, and one that was stopped goes
# on. A model that has ended takes its place here, its matrices in 8 bits. THREADS=n, one.
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-weights}
mkdir -p "$folder"
sh "$here/../data.sh" prose "$folder"
${CC:-cc} -O2 "$here/../lm.c" -o "$folder/lm" -lm -lpthread

for model in ${MODELS:-yaad titans moneta memora gated-deltanet titans-mac transformer}; do
  file=$folder/$model.safetensors
  pattern='(cm)*2'
  [ "$model" != transformer ] || pattern='(ca)*2'   # it has attention where others have memories
  if ! grep -q '^result' "$folder/$model.log" 2>/dev/null; then
    resume=
    [ ! -s "$file" ] || resume=--resume
    "$folder/lm" train "$folder/prose.txt" --model "$model" --pattern "$pattern" --dim 128 \
      --parameters 550000 --context 256 --batch 8 --steps 5000 --val 0.082 --eval-every 1000000 \
      --threads "${THREADS:-1}" --out "$file" $resume | tee "$folder/$model.part"
    grep -q '^result' "$folder/$model.part"
    mv "$folder/$model.part" "$folder/$model.log"
  fi
  "$folder/lm" convert "$file" --weights q8 --out "$here/$model.safetensors"
done
