#!/bin/sh
# copy.sh: puts the library together where Arduino looks for libraries.
#   sh examples/arduino/copy.sh FOLDER      FOLDER/Miras; of the IDE it is Arduino/libraries
set -eu
[ $# = 1 ] || { sed -n '2,3s/^# //p' "$0"; exit 2; }
here=$(dirname "$0")
mkdir -p "$1/Miras"
cp -R "$here/library.properties" "$here/src" "$here/examples" "$1/Miras"
cp "$here/../../miras.h" "$here/../encoders.h" "$1/Miras/src"
cp "$here/../../LICENSE" "$here/README.md" "$1/Miras"
