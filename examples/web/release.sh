#!/bin/sh
# release.sh: builds the page. For whoever gets it, one file is all: examples/web/release/index.html
# opens straight from a disk, a mail or any server of files, and asks nothing of a network.
#
#   sh examples/web/release.sh          needs emcc (Debian: apt install emscripten, 800 MB)
#
# page.js is left beside index.html, which then opens too: that is for changing the page.
set -eu
cd "$(dirname "$0")"
command -v emcc >/dev/null 2>&1 || {
  echo "release.sh: emcc is not here (Debian: apt install emscripten)" >&2
  exit 1
}
emcc -O1 -Wno-ignored-pragmas page.c -o page.js -sMODULARIZE -sEXPORT_NAME=openPage -sSINGLE_FILE \
  -sENVIRONMENT=web,node -sFILESYSTEM=0 -sINITIAL_MEMORY=64MB \
  -sEXPORTED_RUNTIME_METHODS=HEAPU8,HEAPF32
mkdir -p release
awk '$0 != "<script src=\"page.js\"></script>" { print; next }
{
  print "<script>"
  while ((getline line <"page.js") > 0) print line
  print "</script>"
}' index.html >release/index.html
echo "examples/web/release/index.html: $(wc -c <release/index.html) bytes"
