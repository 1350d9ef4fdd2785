#!/bin/sh
# test_run.sh RUN LM: what examples/run.c does, the program RUN, with models of others and with one
# that examples/lm.c, the program LM, has trained. Run where miras.h lies.
#   cc -O2 examples/run.c -o run -lm -lpthread && cc -O2 examples/lm.c -o lm -lm -lpthread
#   sh tests/test_run.sh ./run ./lm
set -u
LC_ALL=C
export LC_ALL
case $1 in /*) run=$1 ;; *) run=$PWD/$1 ;; esac
case $2 in /*) lm=$2 ;; *) lm=$PWD/$2 ;; esac
top=$PWD
models=$top/tests/data/checkpoints
folder=$(mktemp -d "${TMPDIR:-/tmp}/miras_run.XXXXXX") || exit 2
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 2
bad=0

say() { echo "test_run.sh: $*"; bad=1; }
expect() {   # status, words, got
  [ "$3" = "$1" ] || say "status $3 and not $1: $(cat log)"
  [ -z "$2" ] || grep -q -e "$2" log || say "no \"$2\" in: $(cat log)"
}
same() { cmp -s "$1" "$2" || say "$3: $(head -c 200 "$1") is not $(head -c 200 "$2")"; }

model=$models/gated_deltanet
cut -d ' ' -f 1-20 "$model/tokens.txt" >twenty
cut -d ' ' -f 1-8 "$model/tokens.txt" >eight
cut -d ' ' -f 9-20 "$model/tokens.txt" >twelve

# The likeliest token is that of the original's logits.
for name in gated_deltanet delta_net-gated; do
  for n in 1 2 7 28; do
    cut -d ' ' -f 1-$n "$models/$name/tokens.txt" |
      "$run" "$models/$name" --ids --tokens 1 --temperature 0 2>log >got || say "$(cat log)"
    od -An -v -tf4 -j $(((n - 1) * 192)) -N 192 "$models/$name/logits.f32" | tr -s ' \n' '\n\n' |
      sed '/^$/d' | awk 'NR == 1 || $1 > most { most = $1; at = NR - 1 } END { print at }' >want
    same got want "$name after $n tokens"
  done
done

# A GGUF file is the model of the folder that it was made of, held in any form.
gguf=$top/tests/data/llama-tied.gguf
for form in float bf16 q8; do
  "$run" "$gguf" --ids --tokens 12 --weights $form <eight 2>log >got || say "$(cat log)"
  "$run" "$models/llama-tied" --ids --tokens 12 --weights $form <eight 2>log >want
  same got want "a GGUF file as $form"
done
"$run" "$gguf" --info 2>log | grep -q '^pattern a\*3$' || say "--info of a GGUF file: $(cat log)"
"$run" "$gguf" --ids --ignore attention.head_count <eight >log 2>&1
expect 1 'attention.head_count is missing' $?
head -c 2000 "$gguf" >cut.gguf
"$run" cut.gguf --ids <eight >log 2>&1
expect 1 'its place is not within the file' $?
cp "$gguf" mine.gguf
"$run" mine.gguf --ids --save mine.gguf <eight >log 2>&1
expect 2 'is read from: it would be replaced' $?

# The rest of a text is the same whatever of it came from a cache or a state.
ids() { "$run" "$model" --ids --tokens 12 --seed 3 "$@" 2>log || say "$*: $(cat log)"; }
ids <twenty >want
ids --cache cache <eight >/dev/null
grep -q '0 of 8' log || say "a cache that is not there: $(cat log)"
ids --cache cache <twenty >got
grep -q '7 of 20' log || say "a prompt that begins as the one before: $(cat log)"
same got want 'with a cache'
ids --cache cache <twenty >got
grep -q '19 of 20' log || say "the same prompt again: $(cat log)"
same got want 'with a cache of all of it'
ids --cache cache <twelve >/dev/null
grep -q '0 of 12' log || say "another prompt: $(cat log)"
ids --cache cache <twenty >/dev/null
"$run" "$models/delta_net-gated" --ids --cache cache <twenty 2>log >/dev/null
grep -q '0 of 20' log || say "another model: $(cat log)"
ids --cache cache <twenty >/dev/null
head -c 3000 cache >half && mv half cache
ids --cache cache <twenty >got
same got want 'with half a cache'
for n in 0 7 23 50 1000; do
  ids --cache cache <twenty >/dev/null
  head -c $n cache >half && mv half cache
  ids --cache cache <twenty >got
  grep -q 'cache cache is cut off' log || say "a cache of $n bytes: $(cat log)"
  same got want "a cache of $n bytes"
done
for at in 9 17 40 50 70 200 1000 3000; do   # head, tokens, session: a byte that is not the old one
  cp cache damaged
  dd if=cache bs=1 skip=$at count=1 2>/dev/null | tr '\000-\377' '\001-\377\000' |
    dd of=damaged bs=1 seek=$at conv=notrunc 2>/dev/null
  ids --cache damaged <twenty >got
  grep -q 'the cache damaged is .*; it is made anew' log || say "damaged at $at: $(cat log)"
  same got want "a cache that is damaged at $at"
  ids --cache damaged <twenty >got
  grep -q '19 of 20' log || say "a damaged cache was not replaced: $(cat log)"
done
rm cache
ids --repeat-penalty 3 <twenty >often
cmp -s often want && say '--repeat-penalty changes nothing here'
ids --repeat-penalty 3 --cache cache <eight >/dev/null
ids --repeat-penalty 3 --cache cache <twenty >got
grep -q '7 of 20' log || say "a cache and --repeat-penalty: $(cat log)"
same got often 'with a cache and --repeat-penalty'
ln cache kept && cp cache old
ids --cache cache <twelve >/dev/null
same kept old 'a cache was written in place'
[ "$(ls | grep -c tmp)" = 0 ] || say "left behind: $(ls)"
chmod 600 cache
ids --cache cache <twenty >/dev/null
case $(ls -l cache) in -rw-------*) ;; *) say "now others may read: $(ls -l cache)" ;; esac
if mkfifo pipe 2>/dev/null; then
  "$run" "$model" --ids --cache pipe <twenty >log 2>&1; expect 2 'device or a pipe' $?
fi
echo nonsense >cache
"$run" "$model" --ids --cache cache <twenty >log 2>&1; expect 1 'no cache' $?
[ "$(cat cache)" = nonsense ] || say 'a file that is no cache was replaced'
"$run" "$model" --ids --cache "$folder" <twenty >log 2>&1; expect 2 'is a folder' $?
"$run" "$model" --ids --cache none/x <twenty >log 2>&1; expect 1 'cannot be written' $?

# A model whose decays alone are others says the same after one token, and is another one.
numbers() {   # of a tensor: where its bytes lie in the file
  length=$(od -An -tu8 -N8 "$1/model.safetensors" | tr -d ' ')
  tail -c +9 "$1/model.safetensors" | head -c $length | tr '{}' '\n\n' | grep -A1 "$2\"" |
    sed -n "s/.*data_offsets\": *\[\([0-9]*\), *\([0-9]*\).*/\1 \2/p" | head -n 1 |
    awk -v header=$((length + 8)) '{ print $1 + header, $2 - $1 }'
}
cp -r "$model" decays && chmod -R u+w decays
numbers decays A_log >place && read -r at count <place
tr '\0' '\100' </dev/zero | head -c "$count" |   # 3.0 and a bit, whatever was there
  dd of=decays/model.safetensors bs=1 seek="$at" conv=notrunc 2>/dev/null
rm -f cache
ids --cache cache <twenty >got
"$run" decays --ids --tokens 12 --seed 3 <twenty >other 2>log || say "$(cat log)"
cmp -s got other && say 'other decays say the same'
"$run" decays --ids --tokens 12 --seed 3 --cache cache <twenty >got 2>log || say "$(cat log)"
grep -q 'of another model' log || say "a cache of other decays was taken: $(cat log)"
same got other 'with a cache of other decays'
ids --weights bf16 --cache cache <twenty >/dev/null
grep -q 'of another model' log || say "a cache of other weights was taken: $(cat log)"

# What is not a number is not written, for ever and with status 0.
cp -r "$model" damaged.folder && chmod -R u+w damaged.folder
length=$(od -An -tu8 -N8 "$model/model.safetensors" | tr -d ' ')
size=$(wc -c <"$model/model.safetensors")
{ head -c $((length + 8)) "$model/model.safetensors"
  tr '\0' '\377' </dev/zero | head -c $((size - length - 8)); } >damaged.folder/model.safetensors
"$run" damaged.folder --ids <eight >got 2>log; expect 1 'not finite' $?
[ ! -s got ] || say "a model of NaN says $(cat got)"
"$run" damaged.folder --ids --score <eight >log 2>&1; expect 1 'not finite' $?
"$run" damaged.folder --ids --threads 2 <eight >log 2>&1; expect 1 'not finite' $?
"$run" damaged.folder --save nan.safetensors >log 2>&1; expect 0 '' $?
{ echo 'miras-lm 1'; echo 'context 8'; echo 'characters 48'
  for c in 2 3 4; do for d in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do echo $c$d; done; done
} >nan.safetensors.vocab
"$lm" generate nan.safetensors --prompt '1234' >log 2>&1; expect 1 'not finite' $?
printf '1234567890' >digits
"$lm" eval nan.safetensors digits >log 2>&1; expect 1 'not finite' $?
[ ! -e lm_eval.svg ] || say 'losses that are not finite were drawn'

# Any number of threads says the same, and the clock on the wall is asked.
ids <twenty >want
for threads in 2 3; do
  ids --threads $threads <twenty >got
  same got want "$threads threads"
  grep -q '^12 tokens in .* s, [0-9]* tokens/s' log || say "no speed: $(cat log)"
  rm -f cache
  ids --threads $threads --cache cache <eight >/dev/null
  ids --threads $threads --cache cache <twenty >got
  same got want "$threads threads with a cache"
done
"$run" "$model" --ids --score <twenty >one 2>log
"$run" "$model" --ids --score --threads 2 <twenty >got 2>log
same got one 'the score on two threads'
"$run" "$model" --ids --tokens 0 --save-state state <eight >log 2>&1; expect 0 '' $?
ids --state state <twelve >got
same got want 'with a state'
"$run" "$models/delta_net-gated" --ids --state state <twelve >log 2>&1; expect 1 'no state' $?

# A text that was saved goes on as if it had not been: likeliest or drawn, on one thread or two.
for name in gated_deltanet qwen3_5 ttt-mlp-mamba rwkv7; do
  for heat in 0 1; do
    "$run" $models/$name --ids --tokens 24 --temperature $heat <twenty >whole 2>log ||
      say "$(cat log)"
    for threads in 1 2; do
      part() { "$run" $models/$name --ids --temperature $heat "$@" 2>log || say "$*: $(cat log)"; }
      { part --tokens 7 --threads $threads --save-state saved <twenty
        part --tokens 0 --threads $threads --state saved --save-state saved </dev/null
        part --tokens 9 --state saved --save-state saved </dev/null
        part --tokens 8 --threads $threads --state saved </dev/null; } >parts
      same parts whole "$name, saved on the way with $threads threads, temperature $heat"
    done
  done
done
"$run" "$top/tests/data/0.3-yaad.safetensors" --ids --state "$top/tests/data/0.3-yaad.fresh" \
  </dev/null >log 2>&1; expect 1 'a state without its last token: a prompt is needed' $?

# No output takes the place of what is read.
cp -r "$model" mine && chmod -R u+w mine && ln -s mine/model.safetensors link
for out in mine/model.safetensors ./mine/../mine/model.safetensors link mine/config.json; do
  "$run" mine --save $out >log 2>&1; expect 2 'which is read from' $?
  "$run" mine --ids --save-state $out <eight >log 2>&1; expect 2 'which is read from' $?
  "$run" mine --ids --cache $out <eight >log 2>&1; expect 2 'which is read from' $?
done
"$run" mine/model.safetensors --save link >log 2>&1; expect 2 'which is read from' $?
for file in config.json model.safetensors; do
  cmp -s "$model/$file" mine/$file || say "$file was replaced"
done
"$run" "$model" --ids --tokens 0 --state state --save-state state <eight >log 2>&1; expect 0 '' $?

# Fewer bits, a file of ours, what it is.
"$run" "$model" --save own.safetensors >log 2>&1; expect 0 '' $?
"$run" own.safetensors --ids --tokens 12 --seed 3 <twenty >got 2>log; expect 0 '' $?
same got want 'a file of ours'
"$run" "$model/model.safetensors" --ids --tokens 12 --seed 3 <twenty >got 2>log; expect 0 '' $?
same got want 'a file and not its folder'
for weights in bf16 f16 q8 q4 q4-pure; do
  "$run" "$model" --weights $weights --save small.safetensors >log 2>&1; expect 0 '' $?
  "$run" "$model" --weights $weights --ids --tokens 12 --seed 3 <twenty >want 2>log
  "$run" small.safetensors --weights $weights --ids --tokens 12 --seed 3 <twenty >got 2>log
  same got want "$weights"
  "$run" small.safetensors --ids --tokens 12 --seed 3 <twenty >got 2>log
  same got want "a file in $weights"
done
"$run" small.safetensors --weights q4 --ids --tokens 12 --seed 3 <twenty >got 2>log
same got want 'q4 of a file whose head has 4 bits'

# Bytes times bytes: the same text on any number of threads; of other weights it is refused.
"$run" "$model" --weights q8 --int8 --ids --tokens 12 --seed 3 <twenty >want 2>log; expect 0 '' $?
"$run" "$model" --weights q8 --int8 --ids --tokens 12 --seed 3 --threads 3 <twenty >got 2>log
same got want '--int8 on three threads'
"$run" "$model" --int8 --ids <twenty >log 2>&1
expect 1 'products is int8; weights of the model must be q8 or q4' $?
"$run" "$model" --info >log 2>&1; expect 0 'm.memory.value_dim 16' $?
grep -q '^parameters 25100$' log || say "no size: $(cat log)"
sed -n '/^parameters/,$p' log >want
"$run" own.safetensors --info 2>log | sed -n '/^parameters/,$p' >got
same got want 'the size of a file of ours'

# A file of ours can be given narrower windows, as others can.
"$run" "$gguf" --save tied.safetensors >log 2>&1; expect 0 '' $?
"$run" "$gguf" --ids --tokens 12 --seed 3 --window 5 <twenty >want 2>log
"$run" tied.safetensors --ids --tokens 12 --seed 3 --window 5 <twenty >got 2>log; expect 0 '' $?
same got want 'a window of 5 in a file of ours'
"$run" tied.safetensors --info --window 5 >log 2>&1; expect 0 'a.attention.window 5' $?
"$run" tied.safetensors --info --window 99999 >log 2>&1; expect 0 'a.attention.window 64' $?

# A model is described without its weights, which here are a hole of 3 GB.
words=400000 wide=4096 place=0
tensor() {   # name, shape, how many numbers
  printf '%s"%s":{"dtype":"F16","shape":[%s],"data_offsets":[%d,%d]}' "$comma" "$1" "$2" $place \
    $((place + 2 * $3))
  place=$((place + 2 * $3)) comma=,
}
mkdir large && {
  comma='{' layer=model.layers.0.
  tensor model.embeddings.weight $words,$wide $((words * wide))
  tensor model.norm.weight $wide $wide
  for name in attn_norm mlp_norm; do tensor ${layer}$name.weight $wide $wide; done
  for name in q k v o; do
    tensor ${layer}attn.${name}_proj.weight $wide,$wide $((wide * wide))
  done
  tensor ${layer}attn.norm.weight 128 128
  for name in gate up; do tensor ${layer}mlp.${name}_proj.weight 64,$wide $((64 * wide)); done
  tensor ${layer}mlp.down_proj.weight $wide,64 $((64 * wide))
  printf '}'
} >header
printf '{"model_type":"linear_attn","hidden_size":%d,"num_hidden_layers":1,"num_heads":32,
"feature_map":"relu","intermediate_size":64,"tie_word_embeddings":true}' $wide >large/config.json
count=$(wc -c <header)
{ printf "\\$(printf %o $((count % 256)))\\$(printf %o $((count / 256)))\\0\\0\\0\\0\\0\\0"
  cat header; } >large/model.safetensors
dd of=large/model.safetensors bs=1 count=0 seek=$((8 + count + place)) if=/dev/null 2>/dev/null
(ulimit -v 300000 2>/dev/null; exec "$run" large --info --weights f16) >log 2>&1
# beside what is read: what memories begin with, and the norm of each head
expect 0 "^parameters $((place / 2 + 32 * 128 * 128 + 31 * 128))\$" $?
grep -q '^vocab 400000$' log || say "no words of the embedding: $(cat log)"
rm -r large

# Fields that are not known are all named, and passed over if asked.
cp -r "$model" fields && chmod -R u+w fields
{ printf '\357\273\277'; sed 's/{/{"first": 1, "second": {"a": []}, "third": null,/' \
    "$model/config.json"; } >fields/config.json
"$run" fields --ids <twenty >log 2>&1
expect 1 'first is 1, second is an object; .*--ignore unknown' $?
"$run" fields --ids --ignore first <twenty >log 2>&1; expect 1 ': second is an object; ' $?
ids <twenty >want
for names in unknown first,second second,unknown; do
  "$run" fields --ids --tokens 12 --seed 3 --ignore $names <twenty >got 2>log; expect 0 '' $?
  same got want "with $names ignored"
done
grep -q 'ignored: first is 1' log || say "not said what was ignored: $(cat log)"
"$run" "$model" --ids --score <twenty >log 2>&1; expect 0 'nats per token, 19 tokens' $?
"$run" "$model" --ids <twenty --limit 1000 >log 2>&1; expect 1 'limit is 1000 bytes' $?
"$run" "$model" --weights q3 >log 2>&1; expect 2 'weights is q3' $?
"$run" "$model" --prompt x >log 2>&1; expect 2 'has 48 tokens' $?
"$run" "$model" --top-p 2 >log 2>&1; expect 2 'from 0 to 1' $?
"$run" "$model" --topp 2 >log 2>&1; expect 2 'no option --topp; is it --top-p?' $?
"$run" "$model" --tokens 2.5 >log 2>&1; expect 2 'a whole number from 0 to 1000000000' $?
"$run" "$model" --threads -1 >log 2>&1; expect 2 'threads is "-1"; it must be a whole number' $?
"$run" "$model" --threads 0 >log 2>&1; expect 2 'from 1 to 256' $?
"$run" "$model" --tokens >log 2>&1; expect 2 'needs a value' $?
"$run" "$model" --ids --stop 48 <eight >log 2>&1; expect 2 'stop is 48' $?
echo 4 | "$run" "$model" --ids --score >log 2>&1; expect 2 'two tokens' $?
"$run" "$model" --ids --score --cache cache <eight >log 2>&1; expect 2 'no use for --cache' $?
"$run" own.safetensors --ids --ignore x <eight >log 2>&1; expect 2 'no config.json' $?
"$run" "$model" --ids --save-state none/x <eight >log 2>&1; expect 1 'cannot be written' $?
grep -q tokens/s log && say 'a state that cannot be written was found out at the end'
"$run" >log 2>&1; expect 2 'a model is needed' $?
"$run" --help >log 2>&1; expect 0 'tokens N .*(256)' $?
mkdir none.yet python && touch python/pytorch_model.bin
"$run" none.yet >log 2>&1
expect 1 'to_safetensors.py none.yet/pytorch_model\*.bin none.yet/model' $?
"$run" python/pytorch_model.bin >log 2>&1; expect 1 'to_safetensors.py python/pytorch_model' $?
"$run" text >log 2>&1; expect 1 'cannot be opened' $?
echo text >text; "$run" text >log 2>&1; expect 1 'none that lm has written' $?
"$run" missing --ids <twenty >log 2>&1; expect 1 'cannot be opened' $?
echo 4 48 | "$run" "$model" --ids >log 2>&1; expect 1 '48 is no token' $?
echo 4 x | "$run" "$model" --ids >log 2>&1; expect 1 'more than numbers: x' $?

# What the converter refuses, before it looks for torch.
if command -v python3 >/dev/null; then
  converter="python3 $top/examples/to_safetensors.py"
  cp own.safetensors copy.safetensors
  $converter >log 2>&1; expect 2 'are needed' $?
  $converter --help >log 2>&1; expect 0 'runs nothing' $?
  $converter missing.bin x.safetensors >log 2>&1; expect 1 'missing.bin is not there' $?
  $converter python x.safetensors >log 2>&1; expect 1 'python is a folder' $?
  $converter text x >log 2>&1; expect 2 'must end in .safetensors' $?
  $converter text none/x.safetensors >log 2>&1; expect 1 'its folder none is not there' $?
  $converter copy.safetensors ./copy.safetensors >log 2>&1; expect 2 'would be replaced' $?
  cmp -s own.safetensors copy.safetensors || say 'the converter replaced what it reads'
fi

# A vocabulary of tokens of several bytes: the longest first, and back again.
cat >vocab <<'END'
1 'a' 1
2 'ab' 2
3 'abc' 3
4 'b' 1
5 'c' 1
6 '\n' 1
7 "'" 1
8 '"' 1
9 '\\' 1
10 b'\xff' 1
11 '\xff' 2
12 '\u20ac' 3
13 '\U0001f600' 4
14 'abca' 4
15 "it's" 4
16 ' ' 1
END
printf "17 '\303\251' 2\n" >>vocab
i=18
while [ $i -lt 48 ]; do echo "$i 'token $i.' 9" >>vocab; i=$((i + 1)); done
printf 'abcab' >text
printf 'it'"'"'s \303\277\377\342\202\254\360\237\230\200\303\251"\\\nabcabc' >>text
echo '14 4 15 16 11 10 12 13 17 8 9 6 14 4 5' >want
# token 0 has no text here, and ends a text with a vocabulary
"$run" "$model" --ids --tokens 9 --temperature 0 --stop 0 <want 2>log >ids || say "$(cat log)"
"$run" "$model" --vocab vocab --file text --tokens 9 --temperature 0 2>log >got || say "$(cat log)"
grep -q 'prompt: 15 tokens' log || say "$(cat log)"
while read -r id; do
  case $id in
    6) printf '\n' ;; 7) printf "'" ;; 8) printf '"' ;; 9) printf '\\' ;; 10) printf '\377' ;;
    11) printf '\303\277' ;; 12) printf '\342\202\254' ;; 13) printf '\360\237\230\200' ;;
    15) printf "it's" ;; 17) printf '\303\251' ;;
    *) grep "^$id " vocab | sed "s/^[0-9]* '\\(.*\\)' [0-9]*\$/\\1/" | tr -d '\n' ;;
  esac
done <ids >want
echo >>want
grep -q token want || say "no token but the first in $(cat want)"
same got want 'text of a vocabulary'
for line in "1 'x' 1" "0 'x' 2" "0 'x 1" "0 x 1" "0 'x'" "0 '\\q' 1" "0 '' 0" "x" \
            "0 '\\xg0' 1" "0 b'\\u20ac' 3" "0 '\\Uffffffff' 4"; do
  { cat vocab; printf '%s\n' "$line"; } >wrong
  "$run" "$model" --vocab wrong --prompt abc >log 2>&1; expect 1 'wrong: line 48' $?
done
{ cat vocab; echo "48 'x' 1"; } >wide   # a token that the model has not got
"$run" "$model" --vocab wide --prompt x >log 2>&1; expect 1 'token 48 of the prompt is none' $?
"$run" "$model" --vocab vocab --prompt xyz >log 2>&1; expect 1 'no token for byte 120' $?

# A folder with a tokenizer.json: its tokens, special ones in the prompt, and the one that ends.
mkdir own && cp "$model"/config.json "$model"/*.safetensors own
cat >own/tokenizer.json <<'END'
{"added_tokens": [{"id": 6, "content": "<|x|>", "normalized": false, "special": true}],
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
 "decoder": {"type": "ByteLevel"},
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "\u0120": 3, "ab": 4, "\u0120c": 5},
           "merges": ["a b", "\u0120 c"]}}
END
echo 4 5 6 0 >want
"$run" own --ids --tokens 30 --temperature 0 --stop 6 <want 2>log >ids || say "$(cat log)"
while read -r id; do
  case $id in 0) printf a ;; 1) printf b ;; 2) printf c ;; 3) printf ' ' ;; 4) printf ab ;;
    5) printf ' c' ;; esac
done <ids >want
echo >>want
echo '{"eos_token": {"content": "<|x|>"}}' >own/tokenizer_config.json
"$run" own --prompt 'ab c<|x|>a' --tokens 30 --temperature 0 2>log >got || say "$(cat log)"
grep -q 'prompt: 4 tokens' log || say "$(cat log)"
same got want 'text of a tokenizer.json'
"$run" own --prompt x --save-state own/tokenizer.json >log 2>&1; expect 2 'would be replaced' $?
sed 's/"BPE"/"WordPiece"/' own/tokenizer.json >own/t && mv own/t own/tokenizer.json
"$run" own --prompt x >log 2>&1; expect 1 'tokenizer.json: model.type is WordPiece' $?

# Which template a folder names, and what its first turn is; a mark that others have is not enough.
mkdir chats && cp "$models/llama"/config.json "$models/llama"/*.safetensors chats
cat >words <<'END'
{"added_tokens": [{"id": 6, "content": "<s>", "normalized": false, "special": true},
                  {"id": 7, "content": "ENDS", "normalized": false, "special": true}],ADDS
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
 "decoder": {"type": "ByteLevel"},
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "s": 2, "e": 3, "r": 4, "t": 5}, "merges": []}}
END
names() {   # the template, the token that ends answers, what encoding adds
  printf '%s' "$1" >chats/chat_template.jinja
  sed "s/ENDS/$2/; s/ADDS/${3-}/" words >chats/tokenizer.json
  printf 'ab\n' | "$run" chats --chat --show-prompt --tokens 0 >log 2>&1
}
zephyr="{% if message['role'] == 'user' %}{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}{{ '<|assistant|>\\n' + message['content'] + eos_token }}"
phi="{% if message['role'] == 'user' %}{{ '<|user|>\\n' + message['content'] + '<|end|>\\n' }}"
jamba="{%- set bom = \"<|bom|>\" %}{{ bom }}<|user|>{{ content }}{{ \"<|eom|>\" }}"
falcon="{% elif message['role'] == 'user' %}{{ '<|user|>\\n' + message['content'] + '\\n' }}{% elif
message['role'] == 'assistant' %}{{ '<|assistant|>\\n' + message['content'] + eos_token + '\\n' }}"
chatml="{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}<|im_end|>"
names "$chatml" '<|im_end|>'; expect 0 '^<|im_start|>user$' $?
names "$falcon" '<|endoftext|>'; expect 0 '^<|user|>$' $?
grep -q '^ab$' log || say "a user's line: $(cat log)"
names "$falcon" '<|end_of_text|>'; expect 2 'names no template' $?
names "$zephyr" '<|endoftext|>'; expect 2 'names no template' $?
names "$phi" '<|endoftext|>'; expect 2 'names no template' $?
names "$jamba" '<|endoftext|>'; expect 2 'names no template' $?
names "[INST] <<SYS>>" '<|endoftext|>'; expect 2 'names no template' $?
names "[INST] " '<\/s>'; expect 0 '^\[INST\] ab \[/INST\]$' $?

# A template begins with bos, if it says so and encoding does not add it.
first='^<s><|im_start|>user$'
adds='"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>",
"type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"<s>":
{"id": "<s>", "ids": [6], "tokens": ["<s>"]}}},'
for bos in '"<s>"' '{"lstrip": false, "content": "<s>"}'; do
  printf '{"add_bos_token": false, "bos_token": %s, "eos_token": null}' "$bos" \
    >chats/tokenizer_config.json
  names "{{- bos_token }}$chatml" '<|im_end|>'; expect 0 "$first" $?
  names "$chatml" '<|im_end|>'; expect 0 '^<|im_start|>user$' $?
  names "{{- bos_token }}$chatml" '<|im_end|>' "$(printf '%s' "$adds" | tr '\n' ' ')"
  expect 0 '^<|im_start|>user$' $?
done
printf '{"bos_token": null, "eos_token": "<|im_end|>"}' >chats/tokenizer_config.json
names "{{- bos_token }}$chatml" '<|im_end|>'; expect 0 '^<|im_start|>user$' $?

# A mark of UTF-8 is no text, and UTF-16 is not read.
for file in vocab text twenty; do
  { printf '\357\273\277'; cat $file; } >$file.8
  { printf '\377\376'; cat $file; } >$file.16
done
"$run" "$model" --vocab vocab --file text --tokens 9 2>log >want || say "$(cat log)"
"$run" "$model" --vocab vocab.8 --file text.8 --tokens 9 2>log >got || say "$(cat log)"
same got want 'behind a mark of UTF-8'
"$run" "$model" --vocab vocab.16 --file text >log 2>&1; expect 1 'vocab.16: it is UTF-16; it' $?
"$run" "$model" --vocab vocab --file text.16 >log 2>&1; expect 1 'text.16 is UTF-16; it must' $?
ids <twenty >want
ids <twenty.8 >got
same got want 'numbers behind a mark of UTF-8'

# Bytes, with a model of our own.
head -c 4000 "$top/miras.h" >learn
"$lm" train learn --dim 8 --heads 2 --layers 1 --hidden 8 --context 8 --batch 2 --steps 4 \
  --eval-every 2 --threads 1 --out byte.safetensors >log 2>&1; expect 0 'wrote' $?
"$run" byte.safetensors --prompt 'The ' --tokens 40 2>log >got || say "$(cat log)"
[ "$(wc -c <got)" = 41 ] || say "40 bytes and a newline: $(wc -c <got)"
"$run" byte.safetensors --prompt 'The ' --tokens 40 2>log >want
same got want 'the same seed'
"$run" byte.safetensors --prompt 'The ' --tokens 40 --seed 2 2>log >want
cmp -s got want && say 'another seed says the same'
printf '84 104 101 32' | "$run" byte.safetensors --ids --tokens 40 2>log |
  awk '{ printf "%c", $1 + 0 }' >/dev/null


# A talk says what its text as one prompt is answered by, and every way back leads there.
talk() {
  "$run" byte.safetensors --chat --template rwkv --tokens 30 "$@" 2>log || say "$*: $(cat log)"
}
ask() { "$run" byte.safetensors --file "$1" --tokens 30 --until '

' 2>log || say "$*: $(cat log)"; }
printf 'User: one\n\nAssistant:' >first
ask first >answer
printf 'one\n' | talk >got
same got answer 'a talk and its text'
{ cat first; head -c -1 answer; printf '\n\nUser: two\n\nAssistant:'; } >second
ask second >more
cat answer more >want
printf 'one\ntwo\n' | talk >got
same got want 'two turns and their text'
printf 'one\nx\n/undo\ntwo\n' | talk >got
{ cat answer; printf 'one\nx\n' | talk | tail -n +$(($(wc -l <answer) + 1)); cat more; } >want
same got want '/undo'
printf 'one\n/branch here\ny\nz\n/to here\ntwo\n/save talk.state\n' | talk |
  tail -c "$(wc -c <more)" >got
same got more '/branch and /to'
# what has been said in a branch is what its draws know, whatever was said in another since
printf 'one\nx\ntwo\n' | talk --repeat-penalty 3 >want
printf 'one\nx\n' | talk --repeat-penalty 3 >both
printf 'one\n/branch a\nx\n/branch b\n/to a\nyesterday\n/to b\ntwo\n' |
  talk --repeat-penalty 3 >got
for name in want got; do tail -c $(($(wc -c <want) - $(wc -c <both))) $name >$name.end; done
same got.end want.end 'a branch with --repeat-penalty'
printf 'one\n/save talk.state\n/quit\nnever\n' | talk >got
same got answer '/quit'
printf '/load talk.state\ntwo\n' | talk >got
same got more '/save and /load'
printf 'one\ntwo\n' | talk --threads 2 >got
cat answer more >want
same got want 'two turns on two threads'
printf 'o\\\nne\n/what\n//w\n' | talk --show-prompt >/dev/null
grep -q '^User: o$' log || say "a line that goes on: $(cat log)"
grep -q '^ne$' log || say "a line that goes on: $(cat log)"
grep -q '^User: /w$' log || say "a line with two strokes: $(cat log)"
grep -q '/undo  ' log || say "an unknown line lists what there is: $(cat log)"
printf 'one\n' | talk --system 'Be brief.' --show-prompt >/dev/null
[ "$(head -n 1 log)" = 'System: Be brief.' ] || say "the system's text: $(cat log)"
printf '/to nowhere\n/undo\n/load nothing\n/save\n/branch\n' | talk >got
for words in 'no branch "nowhere"' 'no turn' 'nothing: ' "a file's name" 'no branches yet'; do
  grep -q "$words" log || say "no \"$words\" in: $(cat log)"
done
"$run" byte.safetensors --chat --template x >log 2>&1; expect 2 'it must be chatml' $?
"$run" byte.safetensors --chat </dev/null >log 2>&1; expect 2 'names no template' $?
"$run" byte.safetensors --chat --prompt x >log 2>&1; expect 2 'chat takes what is said' $?
"$run" byte.safetensors --prompt x --system y >log 2>&1; expect 2 'system is for --chat' $?

# A head that learns what it reads: fewer bits, whatever holds the matrices; the same on any number
# of threads, from a cache, and saved on the way. What it writes it does not learn.
awk 'BEGIN { for (i = 0; i < 60; i++) printf "4 7 9 %d 2 ", 11 + (i * i) % 3 }' >often
few() { "$run" "$@" --ids --score <often 2>log | cut -d ' ' -f 1 || say "$*: $(cat log)"; }
for name in gated_deltanet llama; do
  for form in float bf16 q8 q4; do
    awk "BEGIN { exit !($(few "$models/$name" --weights $form --adapt 1) < \
                        0.5 * $(few "$models/$name" --weights $form)) }" ||
      say "$name as $form learns nothing"
  done
done
"$run" "$model" --weights q8 --save own8.safetensors >log 2>&1; expect 0 '' $?
few own8.safetensors --adapt 1 >got
few "$model" --weights q8 --adapt 1 >want
same got want '--adapt with a file of ours'
few "$model" --weights q8 --adapt 1 --threads 2 >got
same got want 'the score with --adapt on two threads'
few "$model" --weights q8 --adapt 0 >got
few "$model" --weights q8 >want
same got want '--adapt 0'
ids --adapt 1 <often >want
ids --adapt 1 --threads 2 <often >got
same got want '--adapt on two threads'
cut -d ' ' -f 1-100 often >half
cut -d ' ' -f 101- often >rest
rm -f cache
ids --adapt 1 --cache cache <half >/dev/null
ids --adapt 1 --cache cache <often >got
grep -q '99 of 300' log || say "--adapt and a cache: $(cat log)"
same got want '--adapt with a cache'
ids --cache cache <often >/dev/null
grep -q 'of another model' log || say "a cache of --adapt was taken without it: $(cat log)"
for threads in 1 2; do
  "$run" "$model" --ids --adapt 1 --tokens 0 --threads $threads --save-state state <half >log 2>&1
  expect 0 '' $?
  ids --adapt 1 --state state <rest >got
  same got want "--adapt, saved with $threads threads"
  { "$run" "$model" --ids --adapt 1 --seed 3 --tokens 5 --threads $threads --save-state saved \
      <often 2>log
    "$run" "$model" --ids --adapt 1 --seed 3 --tokens 7 --state saved </dev/null 2>log; } >got
  same got want "--adapt, saved on the way with $threads threads"
done
"$run" "$model" --ids --state state <rest >log 2>&1; expect 1 'no state of this model' $?
ids --adapt 1 --save-state written <often >more
cat often more | tr '\n' ' ' >read
"$run" "$model" --ids --adapt 1 --tokens 0 --save-state state <read >log 2>&1; expect 0 '' $?
cmp -s written state && say 'what --adapt writes it learns'
ids --save-state written <often >more
cat often more | tr '\n' ' ' >read
"$run" "$model" --ids --tokens 0 --save-state state <read >log 2>&1; expect 0 '' $?
same written state 'what is written and what is read, without --adapt'
printf 'one\ntwo\n' | talk --adapt 1 >want
printf 'one\nx\n/undo\ntwo\n' | talk --adapt 1 >got
printf 'one\n' | talk --adapt 1 >one
behind() { tail -c +$(($(wc -c <one) + 1)); }
{ cat one; printf 'one\nx\n' | talk --adapt 1 | behind; behind <want; } >more
same got more '/undo with --adapt'
printf 'one\n/branch a\nx\n/to a\n/save talk.state\n' | talk --adapt 1 >/dev/null
{ cat one; printf '/load talk.state\ntwo\n' | talk --adapt 1; } >got
same got want '/branch, /save and /load with --adapt'
"$run" "$model" --ids --adapt 9 <eight >log 2>&1; expect 2 'from 0 to 8' $?
"$run" "$model" --adapt 1 --save x.safetensors >log 2>&1; expect 2 '--save writes a model' $?

# Draws: among the likeliest alone, and less often what has come.
write() { "$run" byte.safetensors --prompt 'The ' --tokens 60 "$@" 2>log || say "$*: $(cat log)"; }
write --temperature 0 >want
write --min-p 1 >got
same got want '--min-p 1 and --temperature 0'
write --temperature 0 --repeat-penalty 1.3 >got
cmp -s got want && say '--repeat-penalty changes nothing'
write >want
write --until "$(head -c 12 want | tail -c 3)" >got
[ "$(wc -c <got)" -le 10 ] || say "--until: $(cat got)"

[ $bad = 0 ] && echo 'test_run.sh: all right'
exit $bad
