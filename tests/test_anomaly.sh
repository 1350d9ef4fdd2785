#!/bin/sh
# test_anomaly.sh: what examples/anomaly.c promises, on series that are made up here.
#   sh tests/test_anomaly.sh PROGRAM
. "$(dirname "$0")/example.sh"

watch() {   # name of the output, arguments
  name=$1
  shift
  "$program" "$@" plot="$here/$name.svg" >"$here/$name" 2>&1 || wrong "$name: exit status $?"
}

value() {   # output, field: of the first line that has it
  sed -n "s|.* $2=\([^ ]*\).*|\1|p" "$here/$1" | head -n 1
}

at_most() {   # what, number, most
  awk -v x="$2" -v most="$3" 'BEGIN { exit !(x != "" && x + 0 <= most) }' ||
    wrong "$1 is $2, not $3"
}

# Its own series: forecasts as good as recursive least squares, twice its bytes, a whole picture.
watch own seeds=1
at_most "own: error_by_rls" "$(value own error_by_rls)" 1.05
at_most "own: bytes_by_rls" "$(value own bytes_by_rls)" 2
[ "$(grep -c '^result .* method=' "$here/own")" -eq 12 ] || wrong "own: methods are missing"
tail -n 1 "$here/own.svg" | grep -qx '</svg>' || wrong "own: the picture is not whole"
grep -q 'class="alarm"' "$here/own.svg" || wrong "own: the picture has no alarm"
grep -qi 'nan\|inf[^o]' "$here/own.svg" && wrong "own: the picture has numbers that are none"
watch again seeds=1
for name in own again; do
  sed 's/ us=.*//' "$here/$name" | grep -v 'drawn\|look for' >"$here/$name.same"
done
cmp -s "$here/own.same" "$here/again.same" || wrong "own: another run says something else"

# A wave with two spikes and some missing samples, in a CSV file; the same as raw numbers.
awk 'BEGIN {
  srand(3)
  print "time,wave,seven"
  for (t = 0; t < 3000; t++) {
    x = 2000 + 1000 * sin(t * 0.26) + 20 * rand()
    if (t == 1500 || t == 2222) x += 300
    printf "2020-01-%02d 00:00,%s,%d\n", t % 28, t % 97 == 50 ? "" : int(x), t % 7
    printf "%c%c", int(x) % 256, int(x / 256) >"/dev/stderr"
  }
}' >"$here/wave.csv" 2>"$here/wave.u16"
watch csv "$here/wave.csv" column=wave
at_most "csv: error" "$(grep 'method=memory' "$here/csv" | sed 's/.*error=//')" 0.01
grep -q 'sample 1500:' "$here/csv" || wrong "csv: the first spike is no alarm"
grep -q 'sample 2222:' "$here/csv" || wrong "csv: the second spike is no alarm"
if [ "$(wc -c <"$here/wave.u16")" -eq 6000 ]; then   # awk writes bytes
  watch raw "$here/wave.u16"
  grep -q 'sample 1500: ' "$here/raw" || wrong "raw: the first spike is no alarm"
fi

# Rows of two numbers that belong together, one of them not where the label says so.
awk 'BEGIN {
  srand(4)
  print "a,b,label"
  for (t = 0; t < 3000; t++) {
    x = 10 * rand()
    odd = t % 50 == 49
    printf "%.3f,%.3f,%d\n", x, odd ? 40 + x : x + rand(), odd
  }
}' >"$here/rows.csv"
watch rows "$here/rows.csv" labels
at_most "rows: one less what is found" \
  "$(grep 'method=memory' "$here/rows" | sed 's/.*found=//' | awk '{ print 1 - $1 }')" 0.05

# Labelled stretches are one event each; the scores go into a file, one row a sample.
awk 'BEGIN {
  srand(5)
  for (t = 0; t < 3000; t++) {
    odd = t >= 1500 && t < 1600 || t >= 2400 && t < 2480
    printf "%.3f,%d\n", 10 + rand() + rand() + (odd ? 3 : 0), odd
  }
}' >"$here/stretch.csv"
watch stretch "$here/stretch.csv" labels --scores "$here/scores.csv"
[ "$(value stretch of)" = 1 ] || wrong "stretch: kinds are $(value stretch of), not 1"
grep -q 'found=[0-9]* of=2$' "$here/stretch" || wrong "stretch: two runs of labels are not 2 events"
at_most "stretch: one less what is found" \
  "$(grep 'method=memory' "$here/stretch" | sed 's/.* found=//' | awk '{ print 1 - $1 }')" 0.05
at_most "stretch: methods without both figures" \
  "$(grep 'method=' "$here/stretch" | grep -vc ' found=.* by_sample=')" 0
[ "$(head -n 1 "$here/scores.csv")" = time,value,score,probability,alarm ] ||
  wrong "scores: the head is \"$(head -n 1 "$here/scores.csv")\""
awk -F, 'NR > 1 && !(NF == 5 && $1 == NR - 2 &&
  $3 >= 0 && $4 > 0 && $4 <= 1 && $5 == ($5 != 0)) { exit 1 }
END { exit NR != 3001 }' "$here/scores.csv" || wrong "scores: a row is not what it should be"
at_most "scores: probability at the first labelled sample" \
  "$(sed -n 's/^1500,[^,]*,[^,]*,\([^,]*\),1$/\1/p' "$here/scores.csv")" 0.02
watch plain "$here/wave.csv" column=wave scores="$here/wave.scores"
[ "$(wc -l <"$here/wave.scores")" -eq 3001 ] || wrong "scores: rows are missing"
grep -q '^50,,' "$here/wave.scores" || wrong "scores: a missing sample has a value"

# What it refuses, and how it says so.
refused() {   # status, what it says, arguments
  status=$1 says=$2
  shift 2
  "$program" "$@" plot="$here/no.svg" >"$here/no" 2>&1
  got=$?
  [ $got -eq "$status" ] || wrong "$*: exit status $got, not $status"
  grep -q "$says" "$here/no" || wrong "$*: says \"$(tail -n 1 "$here/no")\""
}
refused 1 'cannot be opened' "$here/nothing"
refused 1 'no column 9' "$here/wave.csv" column=9
refused 1 'no column tide' "$here/wave.csv" column=tide
refused 1 '1000 are the least' "$here/wave.csv" column=time
refused 2 '1 to 63' lags=64
refused 2 'is not understood' "$here/wave.csv" colour=red
refused 1 'cannot be written' "$here/wave.csv" column=wave --scores "$here/no/where.csv"
for bad in watch=none lags=x lags=8x lags=1.5 seeds=0 first=no inject=x inject=-1 --halp; do
  refused 2 'is not understood' "$here/wave.csv" "$bad"
done
refused 1 'no column 2nd' "$here/wave.csv" column=2nd
refused 0 'scores FILE.csv' --help
refused 2 'are too many' "$here/rows.csv" labels lags=40
exit $failed
