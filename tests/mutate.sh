#!/bin/sh
# mutate.sh: which small mistakes in miras.h would no test see? By hand, some hours on one core:
#   sh tests/mutate.sh                  draws mutants of the rooms below and runs tests on each
#   SEED=2 sh tests/mutate.sh           others
#   ROOMS='55 80' SHARE=4 sh ...        of these rooms, one for four lines
#   ROOMS='78=_read$' sh ...            of functions whose name matches
#   sh tests/mutate.sh --list           only says which
#   sh tests/mutate.sh --only TEXT      those whose name holds the text (several: once more)
# A line for each that no test kills, then a table; all results are in FOLDER/results.txt. A test
# counts if it takes under LIMIT seconds of processor without a mutant. mutate.py says how it is
# done, mutate_same.txt which mutants are no faults, and why. Needs gcc, cmocka and python3.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
folder=${FOLDER:-$(mktemp -d)} || exit 2
rooms='26/3=entropy 28/40 29/3=cross_entropy 45/3=sparse'
rooms="$rooms 50 51 52 53 54 55 56 57 58 74 75 76 77 78 79 80"
share=-DMIRAS_TEST_SHARE
programs="test_state,test_sessions,test_old_files,test_learn:$share=8,test_recursive:$share=8"
programs="$programs,test_api,test_files:$share=3,test_signals:$share=4,test_attention"
programs="$programs,test_framework:$share=8,test_memory:$share=64,test_model:$share=64"
programs="$programs,test_threads,test_kernels:$share=8,test_checkpoints"
programs="$programs,test_memory@unit:-DMIRAS_CHECK,test_model@unit:-DMIRAS_CHECK"   # sizes
exec python3 tests/mutate.py "$folder" --rooms "${ROOMS:-$rooms}" --seed "${SEED:-1}" \
  --share "${SHARE:-14}" --limit "${LIMIT:-5}" --programs "${PROGRAMS:-$programs}" "$@"
