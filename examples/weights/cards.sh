#!/bin/sh
# cards.sh: what the models of this folder are good for: the table of README.md here.
#
#   sh examples/weights/cards.sh [FOLDER]   FOLDER (./weights) has prose.txt, as train.sh leaves it
#
# A quarter of an hour of one core. Bits per byte of texts that no model has seen: Persuasion's
# first 100,000 bytes, in windows of 256 and in one pass; the GNU GPL, as it comes and while the
# head learns; then 4,096 bytes of Persuasion read twice, each time; and of the digits of a number
# that stands in the GPL, in 128 and 1,024 bytes, where one knows nothing at 3.32.
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-weights}
gpl=/usr/share/common-licenses/GPL-3
mkdir -p "$folder"
sh "$here/../data.sh" prose "$folder" >&2
for program in examples/lm bench/recall; do
  ${CC:-cc} -O2 "$here/../../$program.c" -o "$folder/${program#*/}" -lm -lpthread
done
sed -n '/^Persuasion$/,$p' "$folder/prose.txt" | head -c 100000 >"$folder/unseen.txt"
head -c 20000 "$folder/unseen.txt" | tail -c 4096 >"$folder/page"
cat "$folder/page" "$folder/page" >"$folder/twice"

# The bits per byte that eval says in a line that begins so.
bits() {   # words
  sed -n "s/^$1[^.]*  *\([0-9.]*\)  *[0-9.]*  *[0-9.]*\$/\1/p" "$folder/eval" | cut -c1-4
}
eval_of() {   # model, text, options
  "$folder/lm" eval "$@" --weights q8 --svg "$folder/eval.svg" >"$folder/eval"
}
needle() {   # model, length
  "$folder/recall" --task number --text $gpl --model "$1" --steps 0 --length "$2" --longer 2 \
    --sequences 32 | sed -n 's/^result.* loss=\([0-9.]*\).*/\1/p' |
    awk '{printf "%.2f", $1 / log(2)}'
}

printf '| model | KB | Persuasion, windows | one pass | GPL | its head learns | read once | again '
printf '| a number, 128 | 1,024 |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n'
for file in "$here"/*.safetensors; do
  name=${file##*/}
  printf '| %s | %s' "${name%.safetensors}" $(($(wc -c <"$file") / 1000))
  eval_of "$file" "$folder/unseen.txt"
  printf ' | %s | %s' "$(bits 'windows of')" "$(bits 'one pass, memory')"
  eval_of "$file" $gpl --adapt
  printf ' | %s | %s' "$(bits 'one pass, memory')" "$(bits 'one pass, the head')"
  eval_of "$file" "$folder/twice"
  awk '/tenth/ {getline; for (i = 1; i <= 10; i++) half[i > 5] += $i / 5 / log(2)}
       END {printf " | %.2f | %.2f", half[0], half[1]}' "$folder/eval"
  printf ' | %s | %s |\n' "$(needle "$file" 128)" "$(needle "$file" 1024)"
done
