#!/bin/sh
# jobs.sh: what memories are worth at three jobs, beside what needs no memory: the tables of
# bench/results/jobs.md.
#
#   sh bench/jobs.sh [FOLDER]     all three, three seeds where there is chance; data into ./jobs
#   JOBS=npc sh bench/jobs.sh     one: npc, anomaly, keyboard
#
# Data comes from packages of Debian and PyPI (examples/data.sh). Models for the keyboard are
# trained first where FOLDER has none (three, ten minutes each). Programs say what they compare;
# where a baseline is better, the table says so too.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-jobs}
. bench/tables.sh

npc() {
  heading 'A player: npc'
  sh examples/data.sh npc "$folder" >&2
  build examples/npc
  for seed in 1 2 3; do (cd "$folder" && table ./npc --seed $seed .); done
  heading 'A player who praises and scolds: npc --praise'
  for seed in 1 2 3; do (cd "$folder" && table ./npc --praise --seed $seed .); done
}

anomaly() {
  heading 'A sensor: anomaly'
  sh examples/data.sh anomaly "$folder" >&2
  build examples/anomaly
  table "$folder/anomaly" "$folder/temps.csv" inject=0.1
  table "$folder/anomaly" "$folder/ecg.u16" inject=0.5
  table "$folder/anomaly" "$folder/shuttle.csv" labels
}

keyboard() {
  heading 'A user at a keyboard: keyboard'
  sh examples/data.sh keyboard "$folder" >&2
  build examples/keyboard
  for seed in 1 2 3; do
    [ -s "$folder/keyboard.$seed.safetensors" ] ||
      (cd "$folder" && ./keyboard train corpus.txt --steps 6500 --seed $seed \
        --model keyboard.$seed.safetensors >&2)
    (cd "$folder" && table ./keyboard bible.txt shakespeare.txt readme.txt heldout.txt \
      --corpus corpus.txt --model keyboard.$seed.safetensors)
  done
}

echo "# What memories are worth at three jobs"
echo
echo "\`sh bench/jobs.sh\` on $(machine)."
for job in ${JOBS:-npc anomaly keyboard}; do $job; done
