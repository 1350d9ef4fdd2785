# example.sh: what tests of examples begin with. Sourced with a program's path in $1: that becomes
# $program, from anywhere; $here is a folder that goes with the shell, and wrong says what is.
# shellcheck shell=sh
set -u
LC_ALL=C
export LC_ALL
case $1 in
  /*) program=$1 ;;
  *) program=$PWD/$1 ;;
esac
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

wrong() {
  echo "wrong: $*"
  failed=1
}
