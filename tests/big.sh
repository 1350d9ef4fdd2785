#!/bin/sh
# big.sh: what real sizes compute, by hand, as it takes too long for run.sh. Run from anywhere:
#   sh tests/big.sh             every case: under 30 minutes and 16 GiB on two cores
#   sh tests/big.sh NAME...     those whose name contains one of the words
#   sh tests/big.sh -l          the names
# One line per case: what was checked, seconds, processor time, peak memory. At the end "N passed,
# N failed"; the exit status is 0 only if nothing failed. Each case is a process that may take
# 16 GiB. bench/results/big.md has what was measured.
#
#   row/           every row, width 4,096, 64 heads, one layer: a prefill and one whose last 38
#                  tokens are steps have the same bits, all finite
#   name/          the same of every whole model, width 2,048, heads of 128, two to four layers
#   experts/, weights/   of a mixture of experts; of matrices in 16 and 8 bits, width 4,096
#   words/, score/, step/   151,936 words: the same; a score is that of its logits in double; the
#                  gradient of a batch of one is what differences of the loss say
#   heads/         64 heads, a memory of each row, chunks of 1 and 16: one call and many, one thread
#                  and two, gradients too
#   tokens/        the same memories with one head: 100,000 tokens in one call and in many
#   prefill/       100,000 tokens in one prefill and in many
#   state/, session/   a state of 16 MB: saved, loaded, gone on
#   trainer/       batches of 4 x 2,048 tokens, a model per type of layer: loss and gradient by one
#                  thread and by two, and the gradient against differences
#
#   CC      the compiler          cc
#   CFLAGS  its flags             -O2
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
build=$(mktemp -d "${TMPDIR:-/tmp}/miras_big.XXXXXX")
trap 'rm -rf "$build"' EXIT
trap 'exit 130' HUP INT TERM
# shellcheck disable=SC2086 # flags are meant to split
${CC:-cc} -std=c99 ${CFLAGS:--O2} tests/big.c -o "$build/big" -lm -lpthread
"$build/big" "$@"
