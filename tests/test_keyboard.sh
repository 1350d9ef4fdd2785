#!/bin/sh
# test_keyboard.sh: what examples/keyboard.c promises, on text that it makes up.
#   sh tests/test_keyboard.sh PROGRAM
. "$(dirname "$0")/example.sh"
cd "$here" || exit 1

value() {   # field of the result line
  sed -n "s|^result .*$1=\([^ ]*\).*|\1|p" own
}

above() {   # what, number, least
  awk -v x="$2" -v least="$3" 'BEGIN { exit !(x != "" && x + 0 > least) }' ||
    wrong "$1 is $2, not above $3"
}

# The memory is worth bits, offers are worth keys, a saved state goes on with the same bits.
"$program" --steps 25 --characters 600 >own 2>errors || wrong "own: exit status $?: $(cat errors)"
above fewer "$(value fewer)" 5
above saved "$(value ' saved')" 5
[ "$(value loaded_same)" = 1 ] || wrong "own: a loaded state does not go on as the saved one"
for file in made-up-1.state made-up-2.state.words; do
  [ -s $file ] || wrong "own: a user's $file is missing"
done
tail -n 1 keyboard.svg | grep -qx '</svg>' || wrong "own: the picture is not whole"
less=$(awk '/^the model and its memory/ && !m {m = $NF} /^these, mixed/ {print m - $NF}' own)
above 'what counts take off' "$less" 0.1
grep -qi 'nan\|[^a-z]inf' keyboard.svg own && wrong "own: numbers that are none"

# Two lines typed at once, or with the state saved and loaded between them.
models='--model made-up.safetensors'
printf 'Kilo zivo ba. Talu zivo\nda zivo ba talu\n' >lines
# shellcheck disable=SC2086 # two words
{
  cp made-up-1.state once.state && cp made-up-1.state.words once.state.words
  cp made-up-1.state twice.state && cp made-up-1.state.words twice.state.words
  "$program" type --state once.state $models <lines >once || wrong "type: exit status $?"
  head -n 1 lines | "$program" type --state twice.state $models >twice
  tail -n 1 lines | "$program" type --state twice.state $models >>twice
  cmp -s once.state twice.state || wrong "type: a loaded state learns otherwise"
  for name in once twice; do
    sort $name.state.words >$name.words
    grep '^ ' $name >$name.said
  done
  cmp -s once.words twice.words || wrong "type: words are not what was saved"
  cmp -s once.said twice.said || wrong "type: a loaded state is offered something else"
  cmp -s once.state made-up-1.state && wrong "type: nothing was learned"
  grep -q 'zi\[vo\]\|\[zivo\]\|z\[ivo\]' once || wrong "type: a word typed before is not offered"

  # What was learned is shown, merged and forgotten: to the byte as if it had never been typed.
  for name in all without first; do cp made-up-2.state $name.state; done
  for name in all without first; do cp made-up-2.state.words $name.state.words; done
  printf 'Kilo zivo.\nMy secret is out.\nda zivo talu\nso secret\n' >told
  grep -v secret told >open
  "$program" type --state all.state $models <told >said || wrong "lines: exit status $?"
  "$program" type --state without.state $models <open >said
  head -n 1 told | "$program" type --state first.state $models >said
  sed 1d told | "$program" type --state rest.state $models >said
  cmp -s all.state without.state && wrong "lines: a line changes nothing"
  "$program" show --state all.state >said && grep -q '^   2  My secret is out.$' said ||
    wrong "show: $(cat said)"
  "$program" show zivo --state all.state | grep -q '^result lines=4 shown=2$' || wrong "show zivo"
  cp first.state both.state && cp first.state.words both.state.words
  for name in start start.words lines; do cp first.state.$name both.state.$name; done
  "$program" merge rest.state --state both.state $models >said || wrong "merge: exit status $?"
  cmp -s both.state all.state || wrong "merge: not what typing it all makes"
  cmp -s both.state.lines told || wrong "merge: other lines"
  "$program" delete secret --state all.state $models >said || wrong "delete: exit status $?"
  grep -q '^result deleted=2 lines=2$' said || wrong "delete: $(cat said)"
  "$program" delete 4 2 --state both.state $models >said || wrong "delete 4 2: exit status $?"
  for name in all both; do
    cmp -s $name.state without.state || wrong "delete: $name is not as if it had never been"
    cmp -s $name.state.lines without.state.lines || wrong "delete: lines of $name"
    sort $name.state.words >$name.words
    sort without.state.words | cmp -s - $name.words || wrong "delete: words of $name"
    grep -q secret $name.state* && wrong "delete: $name still holds it"
  done
  rm rest.state                                # whoever takes his state away begins anew
  tail -n 1 told | "$program" type --state rest.state $models >said
  [ "$(wc -l <rest.state.lines)" = 1 ] || wrong "type: lines of a state that is gone are kept"
  "$program" delete 9 --state all.state $models 2>errors && wrong "delete: a line that is not there"
  cp rest.state all.state
  "$program" delete 1 --state all.state $models 2>errors && wrong "delete: of another's state"
  grep -q 'learned something else' errors || wrong "delete: $(cat errors)"

  # Words of any script, whose letters have several bytes.
  word='\321\200\320\270\320\262\320\265\321\202'
  printf "\320\237$word, \320\277$word\nyes \320\237$word \320\277$word\n" |
    "$program" type --state other.state $models >other || wrong "type: exit status $?"
  grep -q "$(printf "\[\320\237$word\]")" other || wrong "type: a word beyond ASCII is not offered"
  grep -q ' for 14 characters' other || wrong "type: letters are counted by bytes"
  iconv -f UTF-8 -t UTF-8 other >other.whole || wrong "type: parts of characters are offered"

  for option in --steps '--steps 2x' '--contexts 9.5' '--seed 1.5' --modle; do
    "$program" nowhere.txt $option 2>errors
    [ $? = 2 ] && grep -qe "${option% *}" errors || wrong "$option is taken: $(cat errors)"
  done
  "$program" --help | grep -qe '--contexts N' || wrong "--help is not there"
  "$program" nowhere.txt $models 2>errors && wrong "a text that is not there is taken"
  "$program" lines --model lines 2>errors && wrong "a model that is none is taken"
  "$program" type --state own $models <lines 2>errors >&2 && wrong "a state that is none is taken"
}
exit $failed
