#!/bin/sh
# test_tune.sh TUNE RUN: what examples/tune.c trains beside a model, the program RUN reads. Run
# where miras.h lies.
#   cc -O2 examples/tune.c -o tune -lm -lpthread && cc -O2 examples/run.c -o run -lm -lpthread
#   sh tests/test_tune.sh ./tune ./run
set -u
LC_ALL=C
export LC_ALL
case $1 in /*) tune=$1 ;; *) tune=$PWD/$1 ;; esac
case $2 in /*) run=$2 ;; *) run=$PWD/$2 ;; esac
top=$PWD
models=$top/tests/data/checkpoints
folder=$(mktemp -d "${TMPDIR:-/tmp}/miras_tune.XXXXXX") || exit 2
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2
bad=0

say() { echo "test_tune.sh: $*"; bad=1; }
expect() {   # status, words, got
  [ "$3" = "$1" ] || say "status $3 and not $1: $(cat log)"
  [ -z "$2" ] || grep -q -e "$2" log || say "no \"$2\" in: $(cat log)"
}
same() { cmp -s "$1" "$2" || say "$3: $1 and $2 differ"; }
score() { "$run" "$@" --file text --score 2>log | cut -d ' ' -f 1 || say "$(cat log)"; }
less() { awk "BEGIN { exit !($1 < $2) }" || say "$3: $1 is not below $2"; }

# A vocabulary of 48 tokens, as the models have, and a text by it.
awk 'BEGIN { s = " etaoinshrdlucmfwypvbgkqjxz.,ETAOINSHRDLUCMFWYPVB"
             for (i = 1; i <= 47; i++) printf "%d \x27%s\x27 1\n", i, substr(s, i, 1) }' >vocab
awk 'BEGIN { srand(1)
             n = split("the cat sat on a mat and then it ran to its house near the mill", w, " ")
             for (i = 0; i < 1500; i++) printf "%s ", w[int(n * rand()) + 1] }' >text
usual="--vocab vocab --steps 24 --batch 4 --context 32 --rate 0.01 --seed 3"

# Adapters, in PEFT's form and as a file, over floats and over q8; what they say afterwards.
before=$(score "$models/llama" --vocab vocab)
"$tune" "$models/llama" text $usual --adapter 4 --out mine >log 2>&1 || say "$(cat log)"
grep -q "in PEFT's form" log || say "$(cat log)"
less "$(score "$models/llama" --vocab vocab --adapter mine)" "0.8 * $before" 'adapters'
"$tune" "$models/llama" text $usual --adapter 4 --out mine.safetensors >log2 2>&1
"$run" "$models/llama" --vocab vocab --adapter mine --prompt the --tokens 40 >got 2>log
"$run" "$models/llama" --vocab vocab --adapter mine.safetensors --prompt the --tokens 40 >want 2>log
same got want 'both forms'
"$tune" "$models/llama" text $usual --threads 3 --adapter 4 --out again.safetensors >log 2>&1
same mine.safetensors again.safetensors 'three threads'
"$tune" "$models/llama" text $usual --weights q8 --adapter 4 --dropout 0.1 --out short >log 2>&1 ||
  say "$(cat log)"
less "$(score "$models/llama" --vocab vocab --weights q8 --adapter short)" "0.8 * $before" 'q8'
"$tune" "$models/llama" text $usual --targets '*.q.weight,*.v.weight' --adapter 2 --out few \
  >log 2>&1 || say "$(cat log)"
[ "$(grep -c '_proj"' few/adapter_config.json)" = 6 ] || say "$(cat few/adapter_config.json)"

# A run that was ended goes on to the same bits, and says the same of another text beside.
tr 'a-m' 'n-za' <text | head -c 2000 >other
"$tune" "$models/llama" text $usual --beside other --adapter 4 --out whole.safetensors >want 2>&1
same mine.safetensors whole.safetensors '--beside'
"$tune" "$models/llama" text $usual --stop 9 --adapter 4 --out half --checkpoint point >log 2>&1
expect 0 'ended behind step 9' $?
"$tune" "$models/llama" text $usual --beside other --adapter 4 --out on.safetensors \
  --checkpoint point >log 2>&1
grep -q '^on from step 9$' log || say "$(cat log)"
grep '^beside: 1024 tokens, loss ' log >got
grep '^beside' want >want2
same got want2 '--beside, and on from a checkpoint'
[ "$(wc -l <got)" = 2 ] || say "$(cat log)"
"$tune" "$models/llama" text $usual --beside text --adapter 4 --out own.safetensors >log 2>&1
grep -q '^beside: .* behind (-' log || say "$(cat log)"
head -c 20 text >short.text
"$tune" "$models/llama" text $usual --beside short.text --adapter 4 --out no >log 2>&1
expect 1 '--beside is short.text, of 20 tokens' $?
same mine.safetensors on.safetensors 'on from a checkpoint'
"$tune" "$models/llama" text $usual --state --adapter 4 --out no --checkpoint point >log 2>&1
expect 1 'matches no parameter' $?
"$tune" "$models/llama" text $usual --adapter 3 --out no --checkpoint point >log 2>&1
expect 1 'adapter.rank' $?

# A folder with the adapter in its weights says what both say, and takes no place of another's.
"$run" "$models/llama" --adapter mine --merge both >log 2>&1; expect 0 '' $?
with=$(score "$models/llama" --vocab vocab --adapter mine)
less "$(score both --vocab vocab)" "$with + 1e-5" 'merged'
less "$with" "$(score both --vocab vocab) + 1e-5" 'merged'
[ "$(wc -c <both/model.safetensors)" = "$(wc -c <"$models/llama/model.safetensors")" ] ||
  say "$(ls -l both)"
"$run" "$models/llama" --adapter mine --merge both >log 2>&1; expect 1 'a model is there already' $?
"$run" "$models/llama" --adapter mine.safetensors --merge no >log 2>&1; expect 2 'in PEFT' $?
"$run" "$models/llama" --adapter mine --merge no --weights q8 >log 2>&1
expect 2 'in the types' $?
"$run" "$models/llama" --adapter mine --merge no --prompt the >log 2>&1; expect 2 'no more' $?
"$run" "$models/llama/model.safetensors" --adapter mine --merge no >log 2>&1; expect 2 'a file' $?

# The same in a file of miras.h, of a folder, of a file of miras.h and of short weights.
"$run" "$models/llama" --adapter mine --merge both.safetensors >log 2>&1; expect 0 '' $?
for file in both.safetensors both; do score $file --vocab vocab >score.$file; done
less "$(cat score.both.safetensors)" "$(cat score.both) + 1e-5" 'merged into a file'
less "$(cat score.both)" "$(cat score.both.safetensors) + 1e-5" 'merged into a file'
grep -q adapter_a both.safetensors && say 'adapters are left'
"$run" "$models/llama" --weights q8 --save q8.safetensors >log 2>&1 || say "$(cat log)"
"$run" q8.safetensors --adapter mine.safetensors --merge q8both.safetensors >log 2>&1
expect 0 '' $?
less "$(score q8both.safetensors --vocab vocab)" "$with + 0.1" 'merged, q8'
"$run" "$models/llama" --adapter mine --weights q8 --merge q8two.safetensors >log 2>&1
same q8both.safetensors q8two.safetensors 'merged in q8'
"$run" "$models/llama" --merge no.safetensors >log 2>&1; expect 2 "a --state of tune's" $?
"$run" q8.safetensors --adapter mine.safetensors --merge q8.safetensors >log 2>&1
expect 2 '' $?
"$run" "$models/mamba2" --adapter mine --merge no >log 2>&1; expect 1 'has no weight for it' $?
[ "$(ls no)" = '' ] || say "left behind: $(ls no)"

# A Llama that is a file becomes a folder, in the type that is asked for; other models do not.
gguf=$top/tests/data/llama-tied.gguf
"$tune" "$gguf" text $usual --adapter 4 --out file >log 2>&1 || say "$(cat log)"
for form in float bf16 f16; do
  "$run" "$gguf" --adapter file --weights $form --merge new.$form >log 2>&1
  expect 0 'without a vocabulary' $?
  with=$(score "$gguf" --vocab vocab --weights $form --adapter file)
  got=$(score new.$form --vocab vocab --weights $form)
  most=2e-3
  [ $form = float ] && most=1e-5
  less "$got" "$with + $most" "a folder of a file, $form"
  less "$with" "$got + $most" "a folder of a file, $form"
  "$run" "$gguf" --weights $form --info 2>log | grep -v '^bytes' >want
  "$run" new.$form --weights $form --info 2>log | grep -v '^bytes' >got
  same want got "$form, its descriptor"
done
less "$(wc -c <new.bf16/model.safetensors)" "0.6 * $(wc -c <new.float/model.safetensors)" 'bf16'
"$run" "$gguf" --adapter file --merge new.float >log 2>&1; expect 1 'a model is there already' $?
"$run" "$gguf" --adapter file --weights q8 --merge no >log 2>&1; expect 1 'float, bf16 or f16' $?
"$run" "$gguf" --adapter mine --merge no >log 2>&1; expect 2 'that is one too' $?
"$run" "$gguf" --merge no >log 2>&1; expect 2 'needs an --adapter' $?
own=$top/examples/weights/transformer.safetensors
"$tune" "$own" text --steps 1 --batch 1 --context 32 --adapter 2 --out file >log 2>&1 ||
  say "$(cat log)"
"$run" "$own" --adapter file --merge no >log 2>&1; expect 1 'a folder is written of a Llama' $?
[ "$(ls no)" = '' ] || say "left behind: $(ls no)"

# States: of memories, over q8 as well.
for name in gated_deltanet mamba2 rwkv7; do
  before=$(score "$models/$name" --vocab vocab --weights q8)
  "$tune" "$models/$name" text $usual --weights q8 --state --rate 0.05 --out state >log 2>&1 ||
    say "$(cat log)"
  after=$(score "$models/$name" --vocab vocab --weights q8 --state state)
  less "$after" "$before" "$name"
  "$run" "$models/$name" --weights q8 --state state --merge "$name.safetensors" >log 2>&1
  expect 0 '' $?
  [ "$(score "$name.safetensors" --vocab vocab)" = "$after" ] || say "$name, merged: $(cat log)"
  "$run" "$models/$name" --state state --merge no >log 2>&1; expect 2 'no family has a place' $?
done

# Rates that are not given: one with adapters, another of states alone.
few="--vocab vocab --steps 1 --batch 1 --context 32"
"$tune" "$models/llama" text $few --adapter 2 --out rate >log 2>&1; expect 0 ' rate 0.004 ' $?
"$tune" "$models/mamba2" text $few --state --adapter 2 --targets '*.q.weight' --out rated >log 2>&1
expect 0 ' rate 0.004 ' $?
"$tune" "$models/mamba2" text $few --state --out rated >log 2>&1; expect 0 ' rate 0.02 ' $?

# Talks: of a model whose template is named; answers alone are learned.
for i in 1 2 3 4 5 6 7 8; do
  printf '{"id": %d, "messages": [{"role": "user", "content": "the cat"}, ' "$i"
  printf '{"role": "assistant", "content": " sat on\\u0020the mat"}]}\n'
done >talks.jsonl
"$tune" "$models/llama" talks.jsonl $usual --template rwkv --adapter 4 --out talk >log 2>&1
expect 1 'rwkv\|no token\|line 1' $?
sed "s/'Y'/'\\\\n'/; s/'W'/':'/" vocab >vocab2
"$tune" "$models/llama" talks.jsonl $usual --vocab vocab2 --template rwkv --adapter 4 --out talk \
  >log 2>&1
expect 0 '8 of 8 talks are longer' $?
"$tune" "$models/llama" talks.jsonl $usual --vocab vocab2 --template rwkv --adapter 4 --out talk \
  --context 64 >log 2>&1
expect 0 'held out: 17 tokens' $?
echo '{"messages": [{"role": "cat", "content": "a"}]}' >wrong.jsonl
"$tune" "$models/llama" wrong.jsonl $usual --vocab vocab2 --template rwkv --adapter 4 --out talk \
  >log 2>&1
expect 1 'role is cat' $?

# What does not fit, or is wrong.
"$tune" "$models/llama" text $usual --memory 400000 --adapter 4 --out small >log 2>&1
expect 1 'the model takes' $?
"$tune" "$models/llama" text $usual --memory 900000 --adapter 4 --out small >log 2>&1
expect 0 'batch 1\|batch 2' $?
"$tune" "$models/llama" text $usual --recompute 99 --adapter 4 --out less.safetensors >log 2>&1
expect 0 ' \([0-9]*\) of \1 layers computed again' $?
same mine.safetensors less.safetensors '--recompute'
"$tune" "$models/llama" text $usual --memory 1300000 --adapter 4 --out less.safetensors >log 2>&1
expect 0 'batch 4, context 32, [1-9][0-9]* of [0-9]* layers' $?
same mine.safetensors less.safetensors '--memory'
"$tune" "$models/llama" text $usual --out none >log 2>&1
expect 2 '--adapter N or --state' $?
"$tune" "$models/llama" text $usual --state --out none >log 2>&1
expect 1 'matches no parameter' $?
"$tune" "$models/llama" text $usual --adapter 4 --targets '*.no' --out none >log 2>&1
expect 1 'matches no matrix' $?
"$run" "$models/mamba2" --vocab vocab --adapter mine --prompt the >log 2>&1
expect 1 'lora_A' $?
head -c 1000 mine.safetensors >damaged.safetensors
"$run" "$models/llama" --vocab vocab --adapter damaged.safetensors --prompt the >log 2>&1
expect 1 'damaged.safetensors' $?
sed 's/"use_rslora": false/"use_dora": true/' mine/adapter_config.json >config
mkdir dora && cp mine/adapter_model.safetensors dora && cp config dora/adapter_config.json
"$run" "$models/llama" --vocab vocab --adapter dora --prompt the >log 2>&1
expect 1 'use_dora is true' $?
exit $bad
