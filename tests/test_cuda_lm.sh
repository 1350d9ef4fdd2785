#!/bin/sh
# test_cuda_lm.sh: examples/lm_cuda.cu, its GPU played by cuda_shim.h, against examples/lm.c: the
# file of a training, scores of a text and a text of its own are the same.
#   sh tests/test_cuda_lm.sh      exit status 77: the host has no fused multiply-add
#   LM_CUDA=program ...           built by nvcc with -fmad=false, for a GPU that is there. Attention
#                                 has a last bit of its own then, so its files may differ
set -u
cd "$(dirname "$0")/.." || exit 2
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM
cat >"$folder/lm_cuda.cpp" <<'END'
#include "tests/cuda_shim.h"
#define MIRAS_CUDA_BLOCKS 257
#define MIRAS_CUDA_THREADS 32
#include "examples/lm_cuda.cu"
END
"${CC:-cc}" -O1 examples/lm.c -o "$folder/lm" -lm -lpthread || exit 1
card=${LM_CUDA:+there}
if [ "$card" ]; then
  cp "$LM_CUDA" "$folder/lm_cuda" || exit 1
else
  "${CXX:-c++}" -std=c++17 -O1 -ffp-contract=off -w -I. "$folder/lm_cuda.cpp" \
    -o "$folder/lm_cuda" -lm -lpthread || exit 1
fi
head -c 3000 README.md >"$folder/text"
cd "$folder" || exit 2
./lm_cuda train text --products half 2>said && { echo '--products half is taken'; exit 1; }
grep -q 'must be float or fast' said || { cat said; exit 1; }
size='--dim 16 --layers 1 --heads 2 --context 16 --batch 2 --threads 1 --chars'
for what in '--model yaad --carry 0.5 --dropout 0.1' '--model gated-deltanet' \
  '--model transformer'; do
  for program in lm lm_cuda; do
    tier=
    [ $program = lm_cuda ] && tier='--products float'
    ./$program train text $size --steps 3 $what $tier --out $program.safetensors >said 2>&1 ||
      { cat said; exit 1; }
    if grep -q 'portable' said; then echo 'skipped: no fused multiply-add'; exit 77; fi
    ./$program generate $program.safetensors $tier --tokens 60 >$program.text || exit 1
    ./$program eval $program.safetensors $tier text >score || exit 1
    head -n 3 score >$program.score
  done
  for kind in safetensors text score; do
    cmp lm.$kind lm_cuda.$kind && continue
    [ "$card$what" = 'there--model transformer' ] || { echo "$what: differs"; exit 1; }
    [ $kind = score ] && cat lm.score lm_cuda.score
  done
  echo "$what: compared"
done
# the fast tier: what it has of a model, which is then the default, and the same training nearly
size='--dim 64 --layers 1 --heads 2 --context 32 --batch 2 --threads 1 --chars --steps 3'
./lm_cuda train text $size --model gated-deltanet --plan >said || { cat said; exit 1; }
grep -q '^18 of 18 operations are fast' said || { cat said; exit 1; }
./lm_cuda train text $size --model transformer --plan >said || { cat said; exit 1; }
grep -q 'the fast tier trains this model' said || { cat said; exit 1; }
grep -q 'has sessions of it, its weights bf16' said || { cat said; exit 1; }
./lm_cuda train text $size --model moneta --plan >said || { cat said; exit 1; }
grep -q 'reference memory y: its decays or steps are one number per channel' said ||
  { cat said; exit 1; }
./lm_cuda train text $size --model moneta --products fast >said 2>&1 && { cat said; exit 1; }
grep -q 'layer 0, operation memory' said || { cat said; exit 1; }
./lm_cuda train text $size --dim 16 --context 16 --steps 1 --model moneta \
  --out moneta.safetensors >said 2>&1 || { cat said; exit 1; }
grep -q 'the reference tier, in float: layer 0, operation memory' said || { cat said; exit 1; }
SHIM_CODE=75 ./lm_cuda train text $size --steps 1 --model gated-deltanet \
  --out older.safetensors >said 2>&1 || { cat said; exit 1; }
grep -q "the reference tier, in float: the program's code for this device is of" said ||
  [ "$card" ] || { cat said; exit 1; }
for products in float fast; do
  tier=
  [ $products = float ] && tier='--products float'
  ./lm_cuda train text $size --model gated-deltanet $tier --out $products.safetensors >said 2>&1 ||
    { cat said; exit 1; }
  [ "$tier" ] || grep -q 'lm_cuda: the fast tier' said || { cat said; exit 1; }
  ./lm eval $products.safetensors text >score || exit 1
  awk '/^one pass/ { print $(NF - 2) }' score >$products.score
done
head -c 500 text >part
for program in lm lm_cuda; do
  ./$program eval fast.safetensors part 2>said >score || { cat said; exit 1; }
  awk '/^one pass/ { print $(NF - 2) }' score >$program.part
done
grep -q 'lm_cuda: the fast tier' said || { cat said; exit 1; }
paste lm.part lm_cuda.part | awk '
  { print "a session of the fast tier: " $2 " bits a byte, of the host " $1
    exit $1 / $2 < 0.998 || $1 / $2 > 1.002 }' || exit 1
./lm_cuda eval fast.safetensors --weights q8 --plan part >said || { cat said; exit 1; }
grep -q 'has sessions of it, its weights q8' said || { cat said; exit 1; }
for program in lm lm_cuda; do
  ./$program eval fast.safetensors --weights q8 part 2>said >score || { cat said; exit 1; }
  awk '/^one pass/ { print $(NF - 2) }' score >$program.part
done
grep -q 'lm_cuda: the fast tier' said || { cat said; exit 1; }
paste lm.part lm_cuda.part | awk '
  { print "the same with weights q8: " $2 " bits a byte, of the host " $1
    exit $1 / $2 < 0.998 || $1 / $2 > 1.002 }' || exit 1
paste float.score fast.score | awk '
  { print "the fast tier: " $2 " bits a byte, the host\047s products " $1
    exit $1 / $2 < 0.998 || $1 / $2 > 1.002 }' || exit 1
