#!/bin/sh
# peers.sh: miras.h against code that none of us wrote: the PyTorch references of
# flash-linear-attention, and PyTorch's own attention. Perceptron memories have no reference there:
# for them PyTorch differentiates the papers' update. Not a part of run.sh, because it downloads
# PyTorch, once. Run from anywhere:
#   sh tests/peers.sh [folder]
# The folder (default: miras-peers in TMPDIR or /tmp) keeps a virtual environment between runs: 5 GB
# where the package index has PyTorch for CUDA only; set PIP_EXTRA_INDEX_URL to one that has it for
# the CPU and it takes a tenth of that. Prints a table of largest differences relative to the
# largest entry, and at the end "N passed, N failed"; the exit status is 0 only if nothing failed.
#   ONLY=text   only the rows whose name contains the text
#   CC=cc       the compiler of miras.h
#   PROGRAM=tests/peers.py   what to run there; bench/peers.sh says another
#   PYTHON=     the Python of the environment, 3.10 or later (default: python3)
set -u
LC_ALL=C
export LC_ALL
torch=2.11.0
einops=0.8.1
fla=0.5.2   # fla-core: the half of flash-linear-attention that holds the operations

root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-${TMPDIR:-/tmp}/miras-peers}
cc=${CC:-cc}
case $folder in
  /*) ;;
  *) folder=$PWD/$folder ;;
esac
case $folder/ in
  "$root"/*) echo "peers.sh: $folder lies in the repository; name another" >&2; exit 2 ;;
esac
mkdir -p "$folder" || exit 2

# ---- the peers ----

venv=$folder/peers-venv
mark=$folder/has-torch-$torch-einops-$einops-fla-core-$fla
if [ ! -f "$mark" ]; then
  echo "installing PyTorch $torch and fla-core $fla in $venv" >&2
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv" || exit 2
  pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }
  # fla-core without its dependencies: only files of it are read, its kernels stay on the disk
  if ! {
    pip install -q "torch==$torch+cpu" || pip install -q "torch==$torch"
  } >"$folder/pip.log" 2>&1 || ! {
    pip install -q "einops==$einops" && pip install -q --no-deps "fla-core==$fla"
  } >>"$folder/pip.log" 2>&1; then
    tail -n 20 "$folder/pip.log" >&2
    exit 2
  fi
  : >"$mark"
fi

# ---- miras.h as a shared library, and where its fields lie ----

printf '%s\n' '#define MIRAS_IMPLEMENTATION' '#include "miras.h"' |
  "$cc" -O2 -shared -fPIC -x c -I "$root" - -o "$folder/libmiras.so" -lm || exit 2
"$cc" "$root/tests/peers.c" -o "$folder/layout" && "$folder/layout" >"$folder/layout.txt" || exit 2

exec "$venv/bin/python" -B "$root/${PROGRAM:-tests/peers.py}" "$folder/libmiras.so" \
  "$folder/layout.txt" "$("$cc" --version | head -n 1), -O2"
