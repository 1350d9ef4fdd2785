#!/bin/sh
# lint.sh: the rules of the house that a compiler does not check. Run from anywhere:
#   sh tests/lint.sh          prints file:line: what, one line per finding; exit status 1 if any
#   sh tests/lint.sh --toc    prints the table of contents that the banners of miras.h imply
#   sh tests/lint.sh --rooms  prints the lines of each room of miras.h
# Each pattern is written so that it does not match itself.
# shellcheck disable=SC2129 # one block per rule reads better than one redirection
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
header=miras.h
# Functions and records that are longer than rules 5 and 6 allow, until somebody shortens them.
over='miras_memory_desc'
findings=$(mktemp) || exit 2
trap 'rm -f "$findings" "$findings.code" "$findings.cuda"' EXIT
trap 'exit 2' HUP INT TERM

if [ ! -f "$header" ]; then
  echo "$header: is missing"
  exit 1
fi

if [ "${1:-}" = --toc ]; then
  sed -n 's|^/\* \(@[0-9][0-9] .*[^ -]\) ---.*|  \1|p' "$header"
  exit 0
fi
if [ "${1:-}" = --rooms ]; then
  awk '
    /^\/\* @[0-9][0-9] / {
      if (room) printf "%6d  %s\n", FNR - from, room
      from = FNR
      room = substr($0, 4)
      sub(/ --+.*/, "", room)
    }
    END { printf "%6d  %s\n%6d  in all\n", FNR + 1 - from, room, FNR }' "$header"
  exit 0
fi

# The header and everything that is compiled or run by hand; names from git where there is one, so
# that ignored build products do not count.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  all=$(git ls-files --cached --others --exclude-standard | sort -u)
else
  all=$(find . -type f | sed 's|^\./||' | grep -v '^\.git/')
fi
existing=
for file in $all; do
  [ -f "$file" ] && existing="$existing $file"
done
sources=
for file in $existing; do
  case $file in
    *.c|*.h|*.cpp|*.cu|*.cuh|*.sh|*.py|.ci/run) sources="$sources $file" ;;
  esac
done

# 1. The top level holds only what the design allows.
for file in $existing; do
  case $file in
    miras.h|miras_cuda.cuh|LICENSE|README.md|tests/*|examples/*|bench/*|.*) ;;
    *) echo "$file: is not one of the names allowed at the top level" ;;
  esac
done >>"$findings"

# 2. Text: 100 columns, ASCII, no tabs, no trailing blanks, a newline at the end.
texts=$sources
for file in $existing; do
  case $file in
    *.hpp|*.cs|*.lua|*.ino|*.ld|*.cmake|*.in|*/CMakeLists.txt) texts="$texts $file" ;;
  esac
done
for file in $texts; do
  awk -v file="$file" '
    function say(text) { printf "%s:%d: %s\n", file, FNR, text }
    length($0) > 100 { say("is " length($0) " columns wide; 100 are allowed") }
    /\t/             { say("holds a tab") }
    /[^\t -~]/       { say("holds a character that is not printable ASCII") }
    /[ \t]$/         { say("ends in a blank") }' "$file"
  [ -z "$(tail -c 1 "$file")" ] || echo "$file: has no newline at its end"
done >>"$findings"

# 3. No left-overs, no paths of somebody's machine.
for file in $existing; do
  grep -nIE '(^|[^A-Za-z_])([T]ODO|[F]IXME|[X]XX|[H]ACK)([^A-Za-z_]|$)' "$file" |
    sed "s|^\([0-9]*\):.*|$file:\1: open work belongs in the issue list|"
  grep -nIE '(^|[^A-Za-z0-9_.])/([w]ork|[f]arm|[r]oot|[h]ome|[U]sers)/' "$file" |
    sed "s|^\([0-9]*\):.*|$file:\1: names a path of one machine|"
done >>"$findings"
# Sentences of the headers hold what miras__say knows.
for file in miras.h miras_cuda.cuh; do
  grep -nE '"([^"%]|%%|%s|%d|%zu|%g)*%[^sdzg%"0-9]' "$file" |
    sed "s|^\([0-9]*\):.*|$file:\1: miras__say knows %s, %d, %zu, %g and %%|"
done >>"$findings"

# 4. Banners of the header: form, ascending numbers, needs below the own number, table of contents.
# A banner is "/* @NN TITLE --- needs a b -- */" at the start of a line; a line of the table of
# contents is "@NN title" at the start of a line of the comment before the first banner, with the
# description, if any, two blanks further on.
awk -v file="$header" '
  function say(line, text) { printf "%s:%d: %s\n", file, line, text }
  function plain(text) {
    gsub(/^ +| +$/, "", text)
    return toupper(text)
  }
  /^\/\* @/ {
    seen++
    number = substr($0, 5, 2)
    if ($0 !~ /^\/\* @[0-9][0-9] [^ ].* -+( needs( [0-9][0-9])+ -+)?( \*\/)?$/) {
      say(FNR, "this banner is not of the form \"/* @NN TITLE --- needs NN NN -- */\"")
      next
    }
    if (number in banner) say(FNR, "room @" number " has a second banner")
    if (seen > 1 && number + 0 <= last + 0) say(FNR, "room @" number " comes after room @" last)
    last = number
    title = substr($0, 8)
    sub(/ --+.*$/, "", title)
    banner[number] = plain(title)
    where[number] = FNR
    order[++rooms] = number
    if (match($0, / needs [0-9 ]+/)) {
      count = split(substr($0, RSTART + 7, RLENGTH - 7), need, " ")
      for (i = 1; i <= count; i++) {
        if (need[i] + 0 >= number + 0)
          say(FNR, "room @" number " needs @" need[i] ", which is not below it")
        else if (!(need[i] in banner))
          say(FNR, "room @" number " needs @" need[i] ", which has no banner")
      }
    }
    next
  }
  !seen && /^[ *]*@[0-9][0-9] / {
    line = $0
    sub(/^[ *]*@/, "", line)
    number = substr(line, 1, 2)
    title = substr(line, 4)
    sub(/^ +/, "", title)
    sub(/  .*$/, "", title)
    if (number in toc) say(FNR, "room @" number " is in the table of contents twice")
    if (entries && number + 0 <= lasttoc + 0)
      say(FNR, "the table of contents is not ascending at @" number)
    lasttoc = number
    entries++
    toc[number] = plain(title)
    tocline[number] = FNR
  }
  END {
    if (!seen) say(1, "holds no banner")
    if (!entries) say(1, "holds no table of contents")
    for (i = 1; i <= rooms; i++) {
      number = order[i]
      if (entries && !(number in toc))
        say(where[number], "room @" number " is not in the table of contents")
      else if (entries && toc[number] != banner[number])
        say(tocline[number], "@" number " is \"" toc[number] "\" here and \"" banner[number] \
            "\" in its banner")
    }
    for (number in toc)
      if (!(number in banner)) say(tocline[number], "room @" number " has no banner")
  }' "$header" >>"$findings"

# 5. What only some rooms may hold. Comments are blanked first; the lines keep their numbers and
# "isa:" marks are kept as a character that occurs nowhere else.
code() {
  awk '
    {
      line = $0
      marked = line ~ /\/\* isa: .*\*\//
      out = ""
      while (line != "") {
        if (inside) {
          at = index(line, "*/")
          if (!at) { line = ""; break }
          line = substr(line, at + 2)
          inside = 0
        } else {
          at = index(line, "/*")
          if (!at) { out = out line; line = ""; break }
          out = out substr(line, 1, at - 1)
          if ($0 ~ /^\/\* @[0-9][0-9] / && at == 1) out = out substr($0, 4, 3)
          line = substr(line, at + 2)
          inside = 1
        }
      }
      print out (marked ? "`" : "")
    }' "$1"
}
code "$header" >"$findings.code"
awk -v file="$header" '
  function say(line, text) { printf "%s:%d: %s\n", file, line, text }
  /^@[0-9][0-9]$/ { room = substr($0, 2, 2) + 0; next }
  BEGIN {
    intrinsic = "(^|[^A-Za-z0-9_])(_mm[0-9]*_|__m(128|256|512|mask)|" \
                "v[a-z]+(_n|_lane)?q?_[fsu](8|16|32|64)|(u?int|float)(8|16|32|64)x[0-9]+_t)"
  }
  room != 21 && !/`$/ && $0 ~ intrinsic {
    say(FNR, "intrinsics belong in room @21, or on a line with an isa: comment")
  }
  room > 12 && /^ *# *(if|ifdef|ifndef|elif)/ && /__(AVX|SSE|FMA__|ARM_NEON|BMI)/ {
    say(FNR, "instruction sets are tested in room @12 only")
  }
  room >= 10 && room < 70 && !/^ *#/ && !/MIRAS_API/ &&
  /(^|[^A-Za-z0-9_])miras_[a-z0-9][a-z0-9_]*\(/ {
    say(FNR, "an inner room calls a public function")
  }
  # A static prototype: from "static" to the first of ; { =, ending in ");". The file is bottom-up.
  /^ *static / { start = FNR; text = "" ; open = 1 }
  open {
    text = text " " $0
    if (match(text, /[;{=]/)) {
      if (substr(text, RSTART, 1) == ";" && substr(text, 1, RSTART) ~ /\) *;$/ && text !~ /\(\*/)
        say(start, "a static prototype; define the function above its first use instead")
      open = 0
    }
  }
  /(^|[^A-Za-z0-9_])(alloca|setjmp|longjmp|strcpy|strcat|sprintf|gets)\(/ {
    say(FNR, "calls a function that the library does without")
  }' "$findings.code" >>"$findings"

# What a banner names after "needs" is the rooms whose functions, types, macros, enumerators and
# tables the room's text uses: names of miras__, MIRAS__, the vector vocabulary and public calls. Of
# a name that several rooms define the nearest below counts. K->name is a use of @20, whose table it
# is; struct members are none.
awk -v file="$header" '
  function say(line, text) { printf "%s:%d: %s\n", file, line, text }
  function define(name) {
    sub(/[^A-Za-z0-9_].*/, "", name)
    if (name !~ /^(miras_|MIRAS__|[VK]_)/ || (name, room) in own) return
    own[name, room] = 1
    homes[name] = homes[name] " " room
  }
  FNR == NR {
    asks = /^ *# *(if|el|undef)/ || (asks && more)     # a conditional is about the build, no use
    more = /\\$/
    if (/^@[0-9][0-9]$/) room = substr($0, 2, 2)
    else if (room + 0 < 10 || room + 0 == 99 || asks || /MIRAS__IN_SET/ || /^MIRAS__FITS/) next
    text[++lines] = $0
    in_room[lines] = room
    if (/^ *# *define /) {
      sub(/^ *# *define +/, "")
      define($0)
    } else if (/^struct miras__[a-z_]+ *\{/) {
      define(substr($0, 8))
    } else if (/^} *[A-Za-z_]+;/) {
      sub(/^} */, "")
      define($0)
    } else if (/^(static|MIRAS_API|typedef|MIRAS__).*miras_[a-z0-9_]*( *=|[[(])/) {
      match($0, /miras_[a-z0-9_]*( *=|[[(])/)
      define(substr($0, RSTART))
    }
    if (/^(typedef )?enum[ a-z_]*\{/) within = sub(/^[^{]*\{/, "")
    while (within && match($0, /MIRAS__[A-Z0-9_]+ *(,|=|}|$)/)) {
      define(substr($0, RSTART))
      $0 = substr($0, RSTART + RLENGTH)
    }
    if (/}/) within = 0
    next
  }
  /^\/\* @[0-9][0-9] / {
    room = substr($0, 5, 2)
    where[room] = FNR
    order[++rooms] = room
    if (match($0, / needs [0-9 ]+/)) {
      count = split(substr($0, RSTART + 7, RLENGTH - 7), need, " ")
      for (i = 1; i <= count; i++) named[room, need[i]] = 1
    }
  }
  END {
    for (i = 1; i <= lines; i++) {
      room = in_room[i]
      count = split(text[i], word, /[^A-Za-z0-9_]+/)
      for (k = 1; k <= count; k++) {
        name = word[k]
        sub(/_(portable|avx2|avx512|neon|simd128)$/, "", name)
        if (!(name in homes) || (name, room) in own) continue
        m = split(homes[name], home, " ")
        for (best = 0; m && !best; m--) if (home[m] + 0 < room + 0) best = home[m]
        if (best && !((room, best) in uses)) uses[room, best] = name
      }
    }
    for (i = 1; i <= rooms; i++) {
      room = order[i]
      right = more = less = ""
      for (k = 1; k < i; k++) {
        used = (room, order[k]) in uses
        if (used) right = right " " order[k]
        if (used && !((room, order[k]) in named))
          more = more " @" order[k] " (" uses[room, order[k]] ")"
        if (!used && (room, order[k]) in named) less = less " @" order[k]
      }
      if (more != "") more = " uses" more " unsaid;"
      if (less != "") less = " uses nothing of" less ";"
      if (more less != "") say(where[room], "@" room more less " its banner needs" right)
    }
  }' "$findings.code" "$header" >>"$findings"

# Records of at most 60 members.
awk -v file="$header" '
  /^(typedef )?struct [a-z_0-9]+ *\{/ && !/}/ {
    name = $0
    sub(/^(typedef )?struct /, "", name)
    sub(/[^a-z_0-9].*/, "", name)
    start = FNR
    members = 0
    next
  }
  start && /^}/ {
    if (members > 60)
      printf "%s:%d: %s has %d members; 60 are allowed\n", file, start, name, members
    start = 0
  }
  start && !/^ *#/ {
    while (gsub(/\([^()]*\)|\[[^][]*\]/, "")) {}
    members += gsub(/[,;]/, "")
  }' "$findings.code" >>"$findings"

# A refusal that begins with a name, "NAME is ...", or asks miras__whole for it: callers know the
# name, for it is declared in what they include, rooms @02 to @04, or the beginning of the GPU half.
code miras_cuda.cuh >"$findings.cuda"
awk -v header="$header" '
  function say(line, text) { printf "%s:%d: %s\n", file, line, text }
  function known(name) {
    sub(/.*[].>]/, "", name)
    if (!(name in public)) say(FNR, "a refusal names " name ", which no caller knows")
  }
  FNR == 1 { file = FNR == NR ? header : "miras_cuda.cuh"; room = 0 }
  /^@[0-9][0-9]$/ { room = substr($0, 2, 2) + 0; next }
  /^#ifdef MIRAS_CUDA_IMPLEMENTATION/ { room = 5 }
  room < 5 {
    count = split($0, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= count; i++) public[word[i]] = 1
    next
  }
  {
    for (line = $0; match(line, /"[a-z][a-z0-9_.>%[-]*(][a-z0-9_.]*)* is [^a-z]/);
         line = substr(line, RSTART + RLENGTH))
      known(substr(line, RSTART + 1, RLENGTH - 6))
    if (match($0, /miras__whole\([a-z_]+, [a-z_]+, "[a-z0-9_.>-]+"/)) {
      line = substr($0, RSTART, RLENGTH - 1)
      sub(/.*"/, "", line)
      known(line)
    }
  }' "$findings.code" "$findings.cuda" >>"$findings"

# 6. Shape: functions of at most 80 lines (of tests, which are lists of cases, 100) and 10
# parameters, and the real name of each stands in
# the text: no macro makes it, and only MIRAS__JOIN2 of the rename block pastes. A function begins
# at the first column and ends with a brace there.
for file in $sources; do
  case $file in
    *.c|*.h|*.cpp|*.cu|*.cuh) ;;
    *) continue ;;
  esac
  case $file in tests/*) most=100 ;; *) most=80 ;; esac
  awk -v file="$file" -v most=$most '
    function say(line, text) { printf "%s:%d: %s\n", file, line, text }
    function begin(text,   i, c, depth, count) {   # of the text before the body
      sub(/[ \t]*\{.*/, "", text)
      if (text !~ /\)$/ || text ~ /=/) return ""
      count = text ~ /\( *(void)? *\)$/ ? 0 : 1
      for (i = length(text); i > 0; i--) {
        c = substr(text, i, 1)
        depth += (c == ")") - (c == "(")
        if (c == "," && depth == 1) count++
        if (!depth) break
      }
      text = substr(text, 1, i - 1)
      if (text ~ /\)$/) say(start, "a macro makes the name of this function")
      sub(/.*[^A-Za-z0-9_]/, "", text)
      if (count > 10) say(start, text " takes " count " parameters; 10 are allowed")
      return text
    }
    {
      line = $0
      gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
      gsub(/\047([^\047\\]|\\.)+\047/, "0", line)
      sub(/[/][/].*/, "", line)
      out = ""
      while (line != "") {
        at = index(line, inside ? "*/" : "/*")
        if (!inside) out = out (at ? substr(line, 1, at - 1) : line)
        line = at ? substr(line, at + 2) : ""
        if (at) inside = !inside
      }
      sub(/[ \t]+$/, "", out)
    }
    directive || out ~ /^ *#/ {
      directive = out ~ /\\$/
      if (file == "miras.h" && out ~ /##/ &&
          out !~ /MIRAS__JOIN2|MIRAS__##part\(miras__##name\),|_mm(256|512)_##word/)
        say(FNR, "pastes a name that should stand in the text")
      next
    }
    body {
      if (out !~ /^}/) next
      if (name != "" && FNR - start >= most)
        say(start, name " has " FNR - start + 1 " lines; " most " are allowed")
      body = 0
      next
    }
    head == "" && out !~ /^[A-Za-z_]/ { next }
    {
      if (head == "") start = FNR
      head = head " " out
      if (out !~ /[;{}]$/) next
      if (head ~ /\{/ && head !~ /extern "" \{$/) {
        name = begin(head)
        body = out !~ /}[;]?$/
      }
      head = ""
    }' "$file"
done >>"$findings"

for name in $over; do
  if grep -q ": $name has " "$findings"; then
    grep -v ": $name has " "$findings" >"$findings.code"
    cp "$findings.code" "$findings"
  else
    echo "tests/lint.sh: $name is not too long any more; take it off the list" >>"$findings"
  fi
done

# 7. What commands of pages and of head comments leave at the top level is ignored.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  for file in $existing; do
    case $file in
      *.md) lines='' ;;
      *.c|*.h|*.cpp|*.cu|*.cuh|*.sh|*.py) lines='^( \*|#|//|    [a-z]*cc) ' ;;
      *) continue ;;
    esac
    grep -E -e "$lines" "$file" |
      grep -oE -e ' (-o|--out|--cache|--csv) [A-Za-z0-9_.]+([ `)]|$)' | tr -d '`)' |
      while read -r _ name; do
        git check-ignore -q --no-index "$name" ||
          echo "$file: a command leaves $name, which .gitignore does not have"
      done
  done >>"$findings"
fi

if [ -s "$findings" ]; then
  head -n 200 "$findings"
  total=$(wc -l <"$findings")
  echo "lint: $((total)) findings"
  exit 1
fi
echo "lint: clean"
