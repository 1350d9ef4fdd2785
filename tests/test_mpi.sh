#!/bin/sh
# test_mpi.sh: examples/lm_mpi.c: two and three processes learn what one learns that takes their
# shares in turn, bit for bit where gradients are added in order, and nearly so where MPI adds.
#   sh tests/test_mpi.sh          exit status 77: there is no mpicc
set -u
cd "$(dirname "$0")/.." || exit 2
if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
  echo 'skipped: no mpicc'
  exit 77
fi
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM
mpicc -O2 -Wall -Wextra -Werror examples/lm_mpi.c -o "$folder/lm_mpi" -lm -lpthread || exit 1
head -c 9000 README.md >"$folder/text"
cd "$folder" || exit 2
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1   # Open MPI asks root, as in containers
OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
export OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_mpi_yield_when_idle
fail() {
  echo "$1"
  cat said
  exit 1
}
train() {   # file, processes, options
  out=$1 processes=$2
  shift 2
  timeout 100 mpirun -n "$processes" ./lm_mpi train text --dim 32 --layers 2 --heads 2 \
    --context 32 --batch 6 --threads 1 --out "$out.safetensors" "$@" >said 2>&1
}
for n in 2 3; do
  train many $n --steps 9 --ordered --minutes 0.00001 || fail "$n processes fail"
  train many $n --steps 9 --ordered --resume || fail "$n processes do not go on"
  train one 1 --steps 9 --shares $n || fail "one process with $n shares fails"
  cmp many.safetensors one.safetensors || fail "$n processes learn something else"
  train sum $n --steps 9 || fail "$n processes fail"
  sed 's/.*train=\([0-9.]*\).*/\1/;t;d' said >sum.loss
  train sum 1 --steps 9 --shares $n || fail "one process with $n shares fails"
  sed 's/.*train=\([0-9.]*\).*/\1/;t;d' said | cmp - sum.loss || fail 'another loss'
  echo "$n processes: the same"
done
train long 2 --minutes 0.02 || fail 'processes do not agree on the time'
train bad 2 --steps 2 --carry 0.5 && fail '--carry is taken'
grep -q 'carry needs one process' said || fail 'no word on --carry'
train bad 4 --steps 2 && fail 'a batch of 6 for 4 processes is taken'
grep -q 'must be a multiple of the processes' said || fail 'no word on --batch'
echo 'refusals: as they should be'
