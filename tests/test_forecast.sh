#!/bin/sh
# test_forecast.sh: what examples/forecast.c promises, on tables that are made up here.
#   sh tests/test_forecast.sh PROGRAM
. "$(dirname "$0")/example.sh"

forecast() {   # name of the output, arguments
  name=$1
  shift
  "$program" "$@" plot="$here/$name.svg" >"$here/$name" 2>&1 || wrong "$name: exit status $?"
}

value() {   # output, method, field
  sed -n "s|^result .* method=$2 .*$3=\([^ ]*\).*|\1|p" "$here/$1"
}

between() {   # what, number, least, most
  awk -v x="$2" -v least="$3" -v most="$4" 'BEGIN { exit !(x != "" && x >= least && x <= most) }' ||
    wrong "$1 is $2, not $3 to $4"
}

# Its own table: better than a season ago, nearly the line that has made it, a fan as wide as it
# says, a whole picture; the same again.
set -- horizon=6 lags=24 width=32 layers=1 steps=100 rate=0.01
forecast own "$@"
line=$(value own line-per-column test)
between "own: the line by the season" \
  "$(awk -v x="$line" -v y="$(value own season-of-24 test)" 'BEGIN { print x / y }')" 0 0.9
for from in own left; do
  [ $from = own ] || forecast left "$@" from=line
  between "$from: the network by the line" \
    "$(awk -v x="$(value $from network-1 test)" -v y="$line" 'BEGIN { print x / y }')" 0.5 1.2
done
between "own: the memory by the line" \
  "$(awk -v x="$(value own memory-per-column test)" -v y="$line" 'BEGIN { print x / y }')" 0.8 1.1
between "own: values inside the fan" "$(value own network-1 inside)" 0.8 0.97
grep -q '^by valid, take: ' "$here/own" || wrong "own: nothing is to be taken"
tail -n 1 "$here/own.svg" | grep -qx '</svg>' || wrong "own: the picture is not whole"
[ "$(grep -c 'class="band"' "$here/own.svg")" -eq 12 ] || wrong "own: the picture has no fans"
forecast again "$@"
grep -v drawn "$here/own" >"$here/own.same"
grep -v drawn "$here/again" | cmp -s - "$here/own.same" || wrong "own: another run differs"

# A table with dates, gaps, quotes, a column of words, and one that never moves; one of its columns,
# one row ahead and with one quantile.
awk 'BEGIN {
  srand(3)
  print "time,\"wave\",word,still,other"
  for (t = 0; t < 900; t++)
    printf "2020-01-%02d 00:00,%s,\"a,b\",\"7\",%.4f\n%s", t % 28,
      t % 97 == 50 ? "" : sprintf("%.3f", 2000 + 1000 * sin(t * 0.2618) + 20 * rand()),
      cos(t * 0.2618) + rand() / 9, t == 899 ? "\n" : ""
}' >"$here/table.csv"
set -- width=16 layers=1 steps=30 every=10
forecast table "$here/table.csv" "$@" horizon=12 season=24,168
grep -q '^table.csv: 3 columns; rows 0 to 540 train, to 720 valid, to 900 test' "$here/table" ||
  wrong "table: other columns or parts"
grep -q '^season of 168 ' "$here/table" || wrong "table: a season is missing"
forecast one "$here/table.csv" "$@" horizon=1 columns=wave quantiles=0.5 train=500 valid=100 test=50
grep -q '^table.csv: 1 column; rows 0 to 500 train, to 600 valid, to 650 test' "$here/one" ||
  wrong "one: other columns or parts"
for name in own left table one; do
  grep -qi 'nan\|[^a-z]inf[^a-z]' "$here/$name" "$here/$name.svg" &&
    wrong "$name: numbers that are none"
done

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
refused 1 'no such column' "$here/table.csv" columns=tide
refused 1 'too few for lags=512' "$here/table.csv" lags=512
refused 2 'is no row of the table' "$here/table.csv" model=oracle
refused 2 'seasons have 2 rows' "$here/table.csv" season=1
refused 2 'quantiles ascend' "$here/table.csv" quantiles=0.9,0.1
refused 2 'more than 4' quantiles=0.1,0.2,0.3,0.4,0.5
for bad in horizon=0 lags=x steps=1.5 rate=-1 seeds=0 from=here colour=red --halp; do
  refused 2 'is not understood' "$here/table.csv" "$bad"
done
refused 0 'horizon=N' --help
exit $failed
