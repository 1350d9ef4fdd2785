#!/bin/sh
# evidence.sh: what the papers say of these memories, tried at small scale: the tables and pictures
# of bench/README.md.
#
#   sh bench/evidence.sh [FOLDER]            all of it; runs are kept in FOLDER (./evidence)
#   JOBS=parity sh bench/evidence.sh         some: parity, s3, number
#   TEXT=FILE sh bench/evidence.sh           hay of numbers (Debian's copy of the GPL, version 3)
#
# Seeds 1 to 3 each, so that the same command has the same numbers. What has been run is in FOLDER's
# NAME.txt and is not run again: stop it when you like, and start it again. A line on a terminal
# says what is running.
set -eu
cd "$(dirname "$0")/.."
folder=${1:-evidence}
mkdir -p "$folder"
${CC:-cc} -O2 bench/recall.c -o "$folder/recall" -lm -lpthread

reflect=memory.learning_rate=2   # writes may reflect what the memory holds
exact=linear-attention,mamba2-memory,gated-deltanet,gated-deltanet-neg-eigval,deltanet-memory
exact=$exact,deltanet-neg-eigval,deltaproduct,gated-deltaproduct,rwkv7-memory,kda-memory
exact=$exact,kda-memory:$reflect,gated-deltanet-2,comba,mamba-memory,mesa,softmax-attention
found=deltanet-memory,gated-deltanet,mamba2-memory,ttt-mlp-memory,titans,yaad,moneta,memora
found=$found,softmax-attention,titans:memory.learning_rate=1e-8,titans-mac,titans-mag,titans-mal
text=${TEXT:-/usr/share/common-licenses/GPL-3}

run() {   # name, options
  name=$1
  shift
  "$folder/recall" "$@" --seeds 3 --results "$folder/$name.txt" --svg "$folder/$name.svg" \
    >"$folder/$name.log" || exit
  printf '\n## %s\n\n' "$name"
  sed '/^result/d' "$folder/$name.log"
}

for job in ${JOBS:-parity s3 number}; do
  case $job in
    parity) run parity --task parity --model "$exact" --length 32 --longer 2,4,8 --steps 1500 ;;
    s3) run s3 --task s3 --model "$exact" --length 32 --longer 2,4,8 --steps 3000 ;;
    number)
      run number --task number --text "$text" --model "$found" --length 128 --longer 4,16,64,128 \
        --batch 16 --steps 2000 --stop 0.98 --sequences 32 --curve-sequences 64 ;;
    *) echo "evidence.sh: there is no $job; it is parity, s3 or number" >&2; exit 2 ;;
  esac
done
