#!/bin/sh
# test_lm.sh LM: what examples/lm.c does with files. LM is the program; run where miras.h lies.
#   cc -O2 examples/lm.c -o lm -lm -lpthread && sh tests/test_lm.sh ./lm
set -u
case $1 in /*) lm=$1 ;; *) lm=$PWD/$1 ;; esac
folder=$(mktemp -d "${TMPDIR:-/tmp}/miras_lm.XXXXXX") || exit 2
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
top=$PWD
head -c 6000 miras.h | tr -cd 'A-Za-z0-9 .,\n' >"$folder/text" || exit 2
head -c 9000 miras.h | tail -c 3000 | tr -cd 'a-z0-9 .,\n' | tr 'a-f' 'A-F' >"$folder/other"
cd "$folder" || exit 2
bad=0

say() { echo "test_lm.sh: $*"; bad=1; }
train() {   # text, options...
  text=$1
  shift
  "$lm" train "$text" --dim 8 --heads 2 --layers 1 --hidden 8 --context 8 --batch 2 --steps 4 \
    --eval-every 2 --threads 1 "$@" >log 2>&1
}
expect() {   # status, words, got
  [ "$3" = "$1" ] || say "status $3 and not $1: $(cat log)"
  grep -q "$2" log || say "no \"$2\" in: $(cat log)"
}

# Every model that lm lists is trained as it comes.
"$lm" models >names
for model in $(awk '$1 ~ /^[a-z]/ && $1 !~ /^(name|and|layers)$/ {print $1}' names | sort -u); do
  "$lm" train text --model "$model" --dim 64 --layers 1 --context 16 --batch 1 --steps 1 \
    --threads 1 --out any >log 2>&1 || say "$model: $(tail -n 1 log)"
done
rm -f any*

# A place that can hold no file is refused before the first step.
mkdir out out/x.loss.svg
train text --out out; expect 2 'folder' $?
train text --out out/; expect 2 'folder' $?
train text --out out/x; expect 2 'x.loss.svg, which is a folder' $?
train text --out ''; expect 2 'must name a file' $?
train text --out missing/x; expect 1 'cannot be written' $?
train text --out text/x; expect 1 'cannot be written' $?
[ -z "$(ls out | grep -v x.loss.svg)" ] || say "left behind: $(ls out)"
grep -q step log && say 'a step was taken'
rmdir out/x.loss.svg
if [ "$(id -u)" != 0 ]; then   # to root everything is writable
  chmod a-w out
  train text --out out/x; expect 1 'cannot be written' $?
  chmod u+w out
fi

# Every file is replaced in one step: what else has the name of the old one keeps it whole.
train text --out out/x --chars; expect 0 'wrote' $?
mkdir kept old
for file in x x.vocab x.loss.csv x.loss.svg; do
  ln out/$file kept/$file && cp out/$file old/$file
done
train other --out out/x --chars --seed 2; expect 0 'wrote' $?
for file in x x.vocab x.loss.csv x.loss.svg; do
  cmp -s kept/$file old/$file || say "$file was written in place"
  cmp -s out/$file old/$file && say "$file was not written"
done
[ "$(ls out | wc -l)" = 4 ] || say "left behind: $(ls out)"

# Stopped and resumed, the model is the one of an uninterrupted run.
train text --out out/y --chars; expect 0 'wrote' $?
train text --out out/z --chars --minutes 0.0000001; expect 0 'stopped' $?
train text --out out/z --chars --resume; expect 0 'wrote' $?
cmp -s out/y out/z || say 'a resumed run ends elsewhere'
train text --out out/q --chars --minutes 0.0000001; expect 0 'stopped' $?
train text --out out/q --chars --resume --reset 64; expect 2 'another model' $?
train text --out out/r --carry 0.9 --streams 3 --parameters 9000 --context 16; expect 0 'wrote' $?
train text --out out/s --carry 0.9 --streams 3 --parameters 9000 --context 16 \
  --minutes 0.0000001
expect 0 'stopped' $?
train text --out out/s --carry 0.9 --streams 3 --parameters 9000 --context 16 --resume
expect 0 'wrote' $?
cmp -s out/r out/s || say 'resumed running texts end elsewhere'

# A model is trained on, as its own layers are, on a text of its characters; some of it alone.
head -c 3000 text >some
train some --from out/y --out out/t --model titans --dim 64; expect 0 'wrote' $?
"$lm" eval out/t some >log 2>&1; expect 0 'windows of 8' $?
train some --from out/y --out out/u --only '*memory.init,*gates.*'; expect 0 'wrote' $?
cmp -s out/t out/u && say '--only changes nothing'
cmp -s out/y out/u && say '--only trains nothing'
train some --from out/y --out out/u --only '*init,no*such'
expect 2 'matches no parameter of the model, such as blocks.0.norm1.gain' $?
train some --from out/none --out out/u; expect 1 'out/none cannot be opened' $?
printf 'characters of its own \303\246\n' >strange
train strange --from out/y --out out/u; expect 2 'does not know the character U+00E6' $?
train some --from out/y --out out/u --minutes 0.0000001; expect 0 'stopped' $?
train some --from out/y --out out/u --resume; expect 0 'wrote' $?
cmp -s out/t out/u || say 'resumed, a model that is trained on ends elsewhere'

# Shorter weights: the file is shorter, a float's numbers are the shorter's, and so is what it says.
# Matrices lie in blocks of 32 rows and 16 columns or more, which are padded: so it is wider here.
train text --out out/wide --chars --dim 32 --hidden 32; expect 0 'wrote' $?
for form in bf16 f16 q8 q4 q4-pure; do
  "$lm" convert out/wide --weights $form --out out/v >log 2>&1; expect 0 'wrote out/v' $?
  "$lm" convert out/v --weights float --out out/w >log 2>&1; expect 0 'wrote out/w' $?
  [ "$(wc -c <out/v)" -lt "$(wc -c <out/wide)" ] || say "$form takes as many bytes as float"
  "$lm" generate out/wide --weights $form --tokens 50 >said; "$lm" generate out/w --tokens 50 >same
  cmp -s said same || say "$form writes otherwise than its numbers as floats"
  "$lm" eval out/v some --weights $form >log 2>&1; expect 0 'windows of 8' $?
done
"$lm" convert out/y --weights q3 --out out/v >log 2>&1
expect 2 'it must be float, bf16, f16, q8, q4 or q4-pure' $?
"$lm" convert out/y --out out/y >log 2>&1; expect 2 'out/y, which is read from' $?

# Nothing that is written takes the place of what is read, by whatever name; the model goes on in
# its place.
cp out/y mine && cp out/y.vocab mine.vocab && ln -s mine link && ln mine hard && cp text learn
for out in mine ./mine "$folder/mine" link hard out/../mine mine.vocab; do
  "$lm" emit mine --out "$out" >log 2>&1; expect 2 'which is read from' $?
  "$lm" convert mine --weights q8 --out "$out" >log 2>&1; expect 2 'which is read from' $?
  "$lm" eval mine text --svg "$out" >log 2>&1; expect 2 'which is read from' $?
done
"$lm" emit link --out mine >log 2>&1; expect 2 'which is read from' $?
"$lm" eval mine learn --svg ./learn >log 2>&1; expect 2 'which is read from' $?
train learn --out ./learn; expect 2 'which is read from' $?
cp text x.loss.csv
train x.loss.csv --out x; expect 2 'which is read from' $?
cmp -s mine out/y && cmp -s mine.vocab out/y.vocab && cmp -s learn text && cmp -s text x.loss.csv ||
  say 'what was read was replaced'
train learn --from mine --out mine; expect 0 'wrote mine' $?
cmp -s mine out/y && say 'a model that goes on in its place stays as it was'
"$lm" eval mine text >log 2>&1; expect 0 'wrote lm_eval.svg' $?
"$lm" eval out/y text >log 2>&1; expect 0 'wrote lm_eval.svg' $?

# Into a pipe is written, and who may read a file stays so.
if mkfifo pipe 2>/dev/null; then
  "$lm" emit out/y --out plain.c >log 2>&1; expect 0 'wrote' $?
  cat pipe >piped.c &
  "$lm" emit out/y --out pipe >log 2>&1; expect 0 'wrote' $?
  wait $!
  [ -p pipe ] || say 'a pipe was replaced'
  cmp -s plain.c piped.c || say 'through a pipe comes something else'
fi
chmod 600 plain.c
"$lm" emit out/y --out plain.c >log 2>&1; expect 0 'wrote' $?
case $(ls -l plain.c) in -rw-------*) ;; *) say "now others may read: $(ls -l plain.c)" ;; esac

# A model that is trained on keeps its name, in words, in the picture and in its file.
train text --model titans --out named; expect 0 'result model=titans' $?
train text --from named --out other.named; expect 0 '^titans: ' $?
grep -q 'result model=titans' log || say "no titans in: $(cat log)"
grep -q '>titans, ' other.named.loss.svg || say 'the picture has another name'
"$lm" convert named --weights q8 --out again >log 2>&1; expect 0 'wrote' $?
train text --from again --out other.named; expect 0 '^titans: ' $?
grep -v '^model' named.vocab >kept.vocab && mv kept.vocab named.vocab   # of an older version
train text --from named --out other.named; expect 0 '^named: ' $?

# The time that is given holds the validation at its end, and a cut run is validated too.
"$lm" train text --dim 8 --heads 2 --layers 1 --context 8 --batch 2 --threads 1 --minutes 0.01 \
  --out timed >log 2>&1; expect 0 'tokens that it has not seen: [0-9.]* nats per token' $?
train text --steps 100000000 --eval-every 0 --minutes 0.02 --out timed
expect 0 'stopped after .* validation [0-9.]* nats per token' $?
tail -n 1 timed.loss.csv | grep -q '^[0-9]*,[0-9.]*,[0-9.]' || say 'no validation in the record'

# Layers as text: what is printed is what is trained, and a line that is wrong is named.
small='--dim 16 --heads 2'
# shellcheck disable=SC2086 # options are words
{
  "$lm" models deltanet --program $small >own.layer; expect 0 '' $?
  "$lm" train text $small --model deltanet --steps 3 --batch 2 --out own1 >log 2>&1; expect 0 '' $?
  "$lm" train text $small --layer own.layer --steps 3 --batch 2 --out own2 >log 2>&1; expect 0 '' $?
  cmp own1.loss.csv own2.loss.csv || say "a printed layer is trained to other losses"
  "$lm" generate own2 --tokens 3 >log 2>&1; expect 0 '' $?
  sed 's/^y = memory q/y = memory p/' own.layer >wrong.layer
  "$lm" train text $small --layer wrong.layer >log 2>&1
  expect 2 'line [0-9]*: there is no array p yet' $?
}

# Mistakes are said with what is allowed.
mistake() {   # words, arguments...: status 2
  words=$1
  shift
  "$lm" "$@" >log 2>&1; expect 2 "$words" $?
}
mistake 'is it train?' tran text
mistake 'is it --steps?' train text --stps 3
mistake 'of another command' train text --prompt x
mistake 'needs a value' train text --steps
mistake 'threads is "-1"; it must be a whole number from 1 to 256' train text --threads -1
mistake 'threads is "0"' train text --threads 0
mistake 'minutes is "0"; it must be a number from' train text --minutes 0
mistake 'model is "yad"; is it yaad?' train text --model yad
mistake 'is it titans-mac?' train text --model titans-mc
mistake 'is it deltanet?' models deltanot
mistake 'there is no field p; is it memory.p?' train text --set p=2
mistake 'outputs has 130 characters; it must have less than 112' train text \
  --set "outputs=$(printf '%0130d' 0)"
mistake 'there is no field m.memory.windo; is it m.memory.window?' train text --set m.memory.windo=2
mistake 'no layers z, but m w a g' train text --set z.attention.window=2
mistake 'the value of memory.p must be a number' train text --set memory.p=two
mistake 'must be a word, such as one of: .*huber' train text --set memory.bias=hubber
mistake 'must be FIELD=VALUE' train text --set memory.p
mistake 'miras.h is not here' train
mistake 'a text file' read
mistake 'weights/yaad.safetensors is not here' read text
mistake 'a model and a text file' eval out/y
printf '' >empty && printf 'short' >short
mistake '0 tokens to learn from' train empty
mistake '4 tokens to learn from, and --context 64 needs at least 65' train short
mistake 'is too short' eval out/y empty
mistake 'prompt is empty' generate out/y --prompt ''
"$lm" train missing >log 2>&1; expect 1 'missing cannot be opened: No such file' $?
"$lm" train out >log 2>&1; expect 1 'out cannot be read: Is a directory' $?
"$lm" generate missing >log 2>&1; expect 1 'missing cannot be opened' $?
"$lm" generate text >log 2>&1; expect 1 'text cannot be opened' $?
"$lm" --help >log 2>&1; expect 0 'minutes X' $?
[ ! -e model.safetensors ] || say 'a mistake left a model'

# A model reads a page, and knows more of it then; a page that is too short is none. The one that
# comes with the program reads as it is.
train text --out out/b --steps 40; expect 0 'wrote' $?
"$lm" read other --with out/b --svg page.svg >log 2>&1
expect 0 'result learning=[0-9.]* frozen=[0-9.]* counts=[0-9.]* words=' $?
knows() {
  awk -F'[ =]' '/^result/ {good = $3 < $5 && $13 >= $11} END {exit !good}' log
}
knows || say "nothing was learned: $(tail -n 1 log)"
tail -n 1 page.svg | grep -q '</svg>' || say 'the picture of a page has no end'
mistake 'is too short' read short --with out/b --svg page.svg
mistake 'which is read from' read other --with out/b --svg other
(cd "$top" && "$lm" read README.md --svg "$folder/page.svg") >log 2>&1; expect 0 '^Next:' $?
sed -i.old '/^Next/,$d' log
knows || say "nothing was learned: $(tail -n 1 log)"

# As C source: without files the model says the same.
"$lm" emit out/y --weights q8 --out model.c >log 2>&1; expect 0 'wrote model.c' $?
cat >emitted.c <<'END'
#define MIRAS_IMPLEMENTATION
#define MIRAS_NO_STDIO
#define MIRAS_NO_TRAINING
#include "miras.h"
#include "model.c"
#include <stdio.h>
static unsigned char bytes[1 << 20];
int main(void) {
  miras_model *m = model_size() <= sizeof bytes ? model_init(bytes, sizeof bytes) : NULL;
  miras_session *s = m ? miras_session_open(m, NULL, NULL, NULL, 0) : NULL;
  miras_sampler likeliest = {0, 0, 0, 0};
  const float *logits;
  int32_t token = 0;
  int i, vocab = m ? miras_model_desc_of(m)->vocab : 0;
  if (!s) return 1;
  while (model_characters[token] != 'e') token++;
  for (i = 0; i <= 50; i++) {
    putchar((int)model_characters[token]);
    logits = miras_session_step(s, token);
    token = miras_sampler_sample(&likeliest, logits, vocab);
  }
  putchar('\n');
  return 0;
}
END
${CC:-cc} -std=c99 -O1 -I"$top" emitted.c -o emitted -lm || say 'what emit wrote is not compiled'
./emitted >said || say 'what emit wrote does not run'
"$lm" generate out/y --weights q8 --prompt e --tokens 50 --temperature 0 >same
cmp -s said same || say 'a model as C source writes otherwise'

# The file alone is a hybrid or a transformer: it writes, is measured and goes on to the bit.
for kind in '--pattern mwm' '--pattern (mw)*2a --set w.attention.window=3' '--model transformer' \
            '--pattern mgwg --set g.mlp.experts=4 --set g.mlp.hidden=9'; do
  train text --out out/h --chars $kind; expect 0 'wrote' $?
  "$lm" generate out/h --tokens 20 >log 2>&1; expect 0 '' $?
  "$lm" eval out/h text >log 2>&1; expect 0 'windows of 8' $?
  train text --out out/k --chars $kind --minutes 0.0000001; expect 0 'stopped' $?
  train text --out out/k --chars $kind --resume; expect 0 'wrote' $?
  cmp -s out/h out/k || say "resumed, $kind ends elsewhere"
done
train text --out out/k --chars --pattern mwm --minutes 0.0000001; expect 0 'stopped' $?
train text --out out/k --chars --pattern mmw --resume
expect 2 'pattern is "mwm" and not "mmw"' $?
train text --out out/k --chars --pattern mwm --set w.attention.window=5 --resume
expect 2 'w.attention.window is 64 and not 5' $?
train text --out out/k --chars --pattern mwm --set w.memory.heads=5
expect 2 'memory.heads is 5, but it has a meaning only with type memory' $?

# A pattern with MLPs has no others, but where --set gives them back; --parameters counts on that.
train text --out out/k --chars --pattern mgwg --parameters 9000; expect 0 'wrote' $?
parameters() { sed -n 's/.*: \([0-9]*\) parameters.*/\1/p' log; }
own=$(parameters)
train text --out out/k --chars --pattern mw --parameters 9000; expect 0 'wrote' $?
[ "$own" = "$(parameters)" ] || say "mgwg has $own parameters, mw $(parameters)"
[ "$own" -gt 8900 ] && [ "$own" -le 9000 ] || say "$own parameters, not up to 9000"
train text --out out/k --chars --pattern mgw --set m.mlp.none=0 --set w.mlp.none=0 --parameters 9000
expect 0 'wrote' $?
[ "$(parameters)" -gt 8900 ] || say "$(parameters) parameters, not up to 9000"
train text --out out/k --chars --pattern mg --set m.mlp.hidden=5
expect 2 'hidden is 5, but it has a meaning only with mlp.none 0' $?
train text --out out/k --chars --pattern m --set m.mlp.none=1 --parameters 9000
expect 2 'no layer has an MLP' $?
train text --out out/k --chars --pattern g --set g.attention.window=5
expect 2 'window is 5, but it has a meaning only with type attention' $?

# What has no remedy of its own begins anew after two windows.
train text --out out/v --chars --model gated-deltanet; expect 0 ' reset=16 ' $?
train text --out out/v --chars --model gated-deltanet --horizon 8; expect 0 ' reset=0 ' $?
train text --out out/v --chars --model gated-deltanet --reset 0; expect 0 ' reset=0 ' $?
train text --out out/v --chars --model sliding-window; expect 0 ' reset=16 ' $?
train text --out out/v --chars --model titans; expect 0 ' reset=0 ' $?
train text --out out/v --chars --model raven --context 32; expect 0 ' reset=32 ' $?
# A tree has no more levels than its windows fill, unless that is asked for.
train text --out out/v --chars --model log-linear-gdn; expect 0 ' reset=16 ' $?
grep -aq 'mixer.levels":"3"' out/v || say 'windows of 8 do not have 3 levels'
train text --out out/v --chars --model log-linear-gdn --set mixer.levels=5; expect 0 '' $?
grep -aq 'mixer.levels":"5"' out/v || say '--set of levels is not heard'

# A finished model can be given resets; not every number is one.
"$lm" eval out/y other --reset 64 --svg with.svg >log 2>&1; expect 0 'one pass' $?
"$lm" eval out/y other --reset 64 >with; "$lm" eval out/y other >without
cmp -s with without && say '--reset changes nothing'
awk '/^one pass, memory/ {all = $NF}
     /tenth/ {getline; for (i = 1; i <= NF; i++) sum += $i / 10; n = NF}
     END {d = sum - all; exit !(n == 10 && d < 0.01 && d > -0.01)}' with ||
  say 'the tenths of one pass are not its loss'
"$lm" eval out/y other --reset 63 >log 2>&1; expect 1 'opened' $?

# A model whose sessions are large is refused, unless the limit allows it.
train text --out out/w --model softmax-attention --dim 128 --context 2000 --batch 1 --steps 1
expect 0 'wrote' $?
"$lm" generate out/w --limit 1 --tokens 3 >log 2>&1; expect 1 'limit' $?
"$lm" eval out/w text --limit 1 >log 2>&1; expect 1 'limit' $?
"$lm" generate out/w --tokens 3 >log 2>&1; expect 0 '' $?
"$lm" eval out/w text >log 2>&1; expect 0 'windows of 2000' $?
exit $bad
