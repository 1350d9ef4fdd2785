#!/bin/sh
# test_mpi.sh: examples/lm_mpi.c: two and three processes learn what one learns that takes their
# shares in turn, bit for bit where gradients are added in order, and nearly so where MPI adds.
#   sh tests/test_mpi.sh [OBJECT]    OBJECT: tests/object.c, instead of the library once more. Exit
#                                    status 77: there is no mpicc
set -u
cd "$(dirname "$0")/.." || exit 2
linked=${1:+-DMIRAS__IMPLEMENTED $1}
if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
  echo 'skipped: no mpicc'
  exit 77
fi
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
trap 'exit 2' HUP INT TERM
compile() {   # program, flags...: lm_mpi.c
  program=$1
  shift
  # shellcheck disable=SC2086 # several words or none
  mpicc -O2 -Wall -Wextra -Werror "$@" examples/lm_mpi.c $linked -o "$folder/$program" -lm \
    -lpthread || exit 1
}
[ -z "$linked" ] || mpicc -Wall -Wextra -Werror -fsyntax-only examples/lm_mpi.c || exit 1
compile lm_mpi
head -c 9000 README.md >"$folder/text"
# a program of its own, which learns numbers and categories of vectors, some without a target
cat >"$folder/rows.c" <<'END'
#include "miras.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
enum { B = 6, T = 24, N = B * T };
static float vectors[N * 3], values[N * 2], weights[N];
static int32_t tokens[N], classes[N];
int main(int argc, char **argv) {
  miras_adamw_options o = MIRAS_ADAMW(0.1f, 1);
  miras_trainer_desc room = {B, T, 0, 0, 0, NULL, NULL};
  miras_model_desc d;
  miras_batch x;
  miras_model *m;
  miras_trainer *t;
  float loss = 0, first = 0;
  uint32_t s = 1;
  int step, i;
  if (argc != 2 || miras_model_preset(&d, MIRAS_PRESET_GATED_DELTANET, 1) != MIRAS_OK) return 1;
  d.width = 16, d.heads = 2;
  strcpy(d.inputs, "vector 3, category 4");
  strcpy(d.outputs, "category 5, huber 2 at 1");
  m = miras_model_open(&d, NULL, NULL, 0);
  t = miras_trainer_open(m, &room, NULL, NULL, 0);
  if (!t) return 1;
  memset(&x, 0, sizeof x);
  x.batch = B, x.length = T, x.tokens = tokens, x.vectors = vectors;
  x.classes = classes, x.values = values, x.weights = weights;
  for (step = 0; step < 40; step++) {
    for (i = 0; i < N * 3; i++)
      s = s * 1664525u + 1013904223u, vectors[i] = (float)(s >> 16) / 65536;
    for (i = 0; i < N; i++) {            /* sequences have as many targets and weights each */
      const int at = i % T;
      tokens[i] = i * 7 % 4, classes[i] = at % 9 ? (int)(vectors[3 * i] * 5) : -1;
      values[2 * i] = vectors[3 * i + 1], values[2 * i + 1] = at % 5 ? vectors[3 * i + 2] : NAN;
      weights[i] = (float)(at % 4);
    }
    if (miras_trainer_loss(t, &x, 1, &loss) != MIRAS_OK ||
        miras_trainer_backward(t, NULL) != MIRAS_OK ||
        miras_trainer_step(t, &o, 1e-2f, NULL) != MIRAS_OK)
      return 1;
    if (!step) first = loss;
  }
  miras_close(t);
  if (miras_save(m, argv[1]) != MIRAS_OK) return 1;
  printf("first %.4f last %.4f\n", (double)first, (double)loss);
  miras_close(m);
  return loss < 0.9f * first ? 0 : 1;
}
END
compile rows -DMPI_TRAINS='"rows.c"' -I. -I"$folder"
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
  timeout 100 mpirun -n $n ./rows rows.many --ordered >said 2>&1 || fail "$n processes of rows fail"
  timeout 100 mpirun -n 1 ./rows rows.one --shares $n >said 2>&1 || fail "rows: $n shares fail"
  cmp rows.many rows.one || fail "rows: $n processes learn something else"
  sed '/^first/!d' said >rows.loss
  timeout 100 mpirun -n 1 ./rows rows.whole >said 2>&1 || fail 'rows: a whole batch fails'
  sed '/^first/!d' said | cmp - rows.loss || fail "rows: $n shares are not the whole"
  echo "$n processes: the same"
done
train long 2 --minutes 0.02 || fail 'processes do not agree on the time'
train bad 2 --steps 2 --carry 0.5 && fail '--carry is taken'
grep -q 'carry needs one process' said || fail 'no word on --carry'
train bad 4 --steps 2 && fail 'a batch of 6 for 4 processes is taken'
grep -q 'must be a multiple of the processes' said || fail 'no word on --batch'
echo 'refusals: as they should be'
