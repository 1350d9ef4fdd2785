#!/bin/sh
# rooms.sh: miras.h as a file for each of its rooms, and back, byte for byte. The header is the
# source; tools that want smaller files, or a room alone, get them from here. From anywhere:
#   sh tests/rooms.sh split FOLDER    writes FOLDER/00.h, 01.h, ... and removes older ones there
#   sh tests/rooms.sh join FOLDER     writes them, in the order of their names, to miras.h
# A room begins with its banner, /* @NN TITLE ---, and file 00.h is what stands before the first.
set -eu
LC_ALL=C
export LC_ALL
root=$(cd "$(dirname "$0")/.." && pwd)
case ${1:-} in
  split|join) ;;
  *) echo "usage: sh tests/rooms.sh split|join FOLDER" >&2; exit 2 ;;
esac
folder=${2:?which folder?}
if [ "$1" = split ]; then
  mkdir -p "$folder"
  rm -f "$folder"/[0-9][0-9].h
  awk -v to="$folder" 'BEGIN {file = to "/00.h"}
    /^\/\* @[0-9][0-9] [A-Z].*-- \*\/$/ {close(file); file = to "/" substr($0, 5, 2) ".h"}
    {print >file}' "$root/miras.h"
  cat "$folder"/[0-9][0-9].h | cmp - "$root/miras.h"
else
  cat "$folder"/[0-9][0-9].h >"$folder/joined"
  mv "$folder/joined" "$root/miras.h"
fi
