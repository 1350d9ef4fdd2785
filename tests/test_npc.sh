#!/bin/sh
# test_npc.sh NPC: examples/npc.c on invented players, few steps: it learns, its character is saved
# and rolled back to the same bits, its chart is whole. NPC is the program.
set -u
case $1 in /*) npc=$1 ;; *) npc=$PWD/$1 ;; esac
folder=$(mktemp -d "${TMPDIR:-/tmp}/miras_npc.XXXXXX") || exit 2
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2
bad=0
say() { echo "test_npc.sh: $*"; bad=1; }
at_most() {   # name, bound
  value=$(sed -n "s/^result.* $1=\([^ ]*\).*/\1/p" log)
  [ "$(echo "${value:-9999} $2" | awk '{ print $1 <= $2 }')" = 1 ] || say "$1 is $value, over $2"
}

"$npc" --synthetic --steps 60 --seed 3 >log 2>err || say "status $?: $(tail -n 2 err)"
[ "$(grep -c '^result ' log)" = 1 ] || say "no result: $(tail -n 3 log)"
for word in rollback=same file=same allocations=0 seed=3 steps=60; do
  tail -n 1 log | grep -q " $word\( \|$\)" || say "not $word: $(tail -n 1 log)"
done
at_most warm 1.0                      # shares of tics alone: 3.3; of tics after a tic: 0.96
at_most cold 1.0
at_most frozen 1.5
at_most bytes_per_character 131072
[ -s npc.character ] || say 'no character was saved'
[ "$(grep -c '<path class="line' npc.svg)" -ge 9 ] && tail -n 1 npc.svg | grep -q '^</svg>$' ||
  say 'npc.svg is not whole'

# Companions that are praised and scolded: the same twice; the memory is ahead where a wish takes
# how somebody has been playing, and the table is not held back where it is its own.
"$npc" --praise --synthetic --seed 2 >log 2>err || say "--praise: status $?: $(cat err)"
"$npc" --praise --synthetic --seed 2 2>err | cmp -s - log || say '--praise is not the same twice'
part() { tail -n 1 log | sed "s/.* $1=\([^ ]*\).*/\1/" | cut -d / -f "$2"; }
more() { awk -v x="$2" -v y="$3" 'BEGIN { exit !(x > y + 5) }' || say "$1: $2 is not above $3"; }
more 'praise, style' "$(part style_now 4)" "$(part style_now 1)"
more 'praise, style, late' "$(part style_late 4)" "$(part style_late 1)"
more 'praise, habits' "$(part habit_now 1)" 90
more 'praise, drawn' "$(part style_now 3)" 60

printf 'no wad at all, by far' >x.wad
"$npc" x.wad x.wad >log 2>err && say 'a damaged WAD was taken'
grep -q 'x.wad is no WAD' err || say "of a damaged WAD: $(cat err)"
"$npc" --steps few >log 2>err && say '--steps few was taken'
"$npc" --stepz 5 >log 2>err && say '--stepz was taken'
"$npc" --help >log 2>err && grep -q -e '--steps N' log || say "--help: $(cat log err)"
if command -v timeout >/dev/null 2>&1; then   # a reader of a pipe need not wait for the end
  timeout 3 "$npc" --synthetic --steps 1000000 2>err | grep -q '^invented' ||
    say 'nothing is said before the training'
  grep -q 'steps; 3000 take' err || say "of the training is said: $(cat err)"
fi
exit $bad
