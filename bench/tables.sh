# tables.sh: what programs that print tables of results begin with. Sourced from a script of this
# folder, from the root on, with $folder for data and programs: it is made.
# shellcheck shell=sh
mkdir -p "$folder"
cc=${CC:-cc}

heading() { printf '\n## %s\n\n' "$1"; }

machine() {
  name=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
  echo "${name:-unknown processor}, $($cc --version | head -n 1), $(date +%Y-%m-%d)"
}

build() { $cc -O2 "$1.c" -o "$folder/${1##*/}" -lm; }

table() { echo '```'; "$@" 2>/dev/null; echo '```'; }
