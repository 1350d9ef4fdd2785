#!/usr/bin/env python3
"""vocabularies.py: examples/tokenizer.h beside the programs whose vocabularies it reads.

    python3 tests/vocabularies.py [--strings N] [--only NAME] [--seed S] [FILE ...]
    python3 tests/vocabularies.py --vectors       writes tests/data/tokenizers anew

By hand, from any folder: it needs `tokenizers` (0.23) of PyPI, `sentencepiece` and `gguf` for files
of these, and a C compiler. It trains vocabularies of every kind that is read, on the texts of this
repository and on words of ten languages, and compares N strings (a million) in both directions,
byte for byte. A FILE is a tokenizer.json, a .gguf, a model of sentencepiece or a vocabulary of
RWKV, and is compared as well. What was measured is in bench/results/tokenizers.md."""
import argparse
import ctypes
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "tokenizers"
SPECIAL, PLAIN = 1, 2
BLANK = "\u2581"
GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = CL100K.replace("{1,3}", "")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"\s\p{L}\p{N}", r"\s\p{L}\p{M}\p{N}")

WORDS = """the of and tokenizer memory o'clock it's we'll they'd I'M DON'T he'Ll \u017f '\u017f
l'\u00e9t\u00e9 gar\u00e7on na\u00efve \u0153uvre \u00fcber Stra\u00dfe Gr\u00f6\u00dfe se\u00f1or
ma\u00f1ana \u00bfqu\u00e9? \u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0451\u0436
\u4f60\u597d\u4e16\u754c \u8a18\u61b6\u529b \u3053\u3093\u306b\u3061\u306f \u30c6\u30b9\u30c8
\ud55c\uad6d\uc5b4 \uae30\uc5b5 \u1112\u1161\u11ab \u0645\u0631\u062d\u0628\u0627 \u0639\u064e\u0627
\u05e9\u05b8\u05dc\u05d5\u05b9\u05dd \u0928\u092e\u0938\u094d\u0924\u0947 \u0939\u093f\u0928\u094d
\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 Vi\u1ec7t e\u0301 a\u0323\u0302 \u212b \uf9d0 \U0001f600
\U0001f468\u200d\U0001f469\u200d\U0001f467 \U00020bb7 \U0001d54f 123 4567 89012345 \u0663\u0664
\u00bd \u2167 3.14 0x1f for(i=0;i<n;i++) {} /* */ printf("%d\\n"); #include <stdio.h>
""".split()
RUNS = [" ", "\n", "\t", "\r", "\r\n", "'", "a", "A", "0", "9", "\u4e00", "\u0301", "\u0323",
        "\u05b0", "\u1161", "\uac00", ".", "\u2581", "\u00a0", "\u3000", "\u0085", "\u200b",
        "\u0000", "\ufffd", "<", "\U0001f600", "\u0e33", "\u094d", "\u0345", "\u1100", "\u11a8"]


class Text(ctypes.Structure):
    _fields_ = [("at", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Arrays(ctypes.Structure):
    _fields_ = [("model", ctypes.c_char_p), ("pre", ctypes.c_char_p),
                ("tokens", ctypes.POINTER(Text)), ("token_type", ctypes.POINTER(ctypes.c_int32)),
                ("scores", ctypes.POINTER(ctypes.c_float)), ("count", ctypes.c_size_t),
                ("merges", ctypes.POINTER(Text)), ("merge_count", ctypes.c_size_t),
                ("bos", ctypes.c_int32), ("eos", ctypes.c_int32), ("unknown", ctypes.c_int32),
                ("add_bos", ctypes.c_int), ("add_eos", ctypes.c_int),
                ("no_space_prefix", ctypes.c_int)]


def build(folder, compiler="cc"):
    source = folder / "library.c"
    source.write_text('#include "miras.h"\n#define MIRAS_TOKENIZER_IMPLEMENTATION\n'
                      '#include "examples/tokenizer.h"\n')
    subprocess.run([compiler, "-std=c99", "-O2", "-shared", "-fPIC", f"-I{ROOT}", str(source),
                    "-o", str(folder / "library.so")], check=True)
    library = ctypes.CDLL(str(folder / "library.so"))
    why = [ctypes.c_char_p, ctypes.c_size_t]
    room = [ctypes.c_uint64, ctypes.c_void_p] + why
    for name, result, arguments in (
            ("open", ctypes.c_void_p, [ctypes.c_char_p] + room),
            ("open_arrays", ctypes.c_void_p, [ctypes.POINTER(Arrays)] + room),
            ("encode", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t,
                                      ctypes.c_int, ctypes.c_void_p,
                                      ctypes.POINTER(ctypes.c_size_t)] + why),
            ("decode", ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                         ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                                         ctypes.c_char_p, ctypes.c_size_t]),
            ("size", ctypes.c_int32, [ctypes.c_void_p]), ("close", None, [ctypes.c_void_p])):
        call = getattr(library, "miras_tokenizer_" + name)
        call.restype, call.argtypes = result, arguments
    return library


class Ours:
    """A tokenizer of examples/tokenizer.h."""

    def __init__(self, library, path=None, arrays=None):
        self.library = library
        why = ctypes.create_string_buffer(512)
        if path:
            self.at = library.miras_tokenizer_open(str(path).encode(), 0, None, why, 512)
        else:
            self.at = library.miras_tokenizer_open_arrays(arrays, 0, None, why, 512)
        if not self.at:
            raise ValueError(why.value.decode())
        self.room = 1 << 16
        self.ids = (ctypes.c_int32 * self.room)()
        self.text = ctypes.create_string_buffer(4 * self.room)

    def __del__(self):
        if getattr(self, "at", None):
            self.library.miras_tokenizer_close(self.at)

    def encode(self, text, flags=0):
        count = ctypes.c_size_t(self.room)
        why = ctypes.create_string_buffer(512)
        if self.library.miras_tokenizer_encode(self.at, text, len(text), flags, self.ids,
                                               ctypes.byref(count), why, 512):
            raise ValueError(why.value.decode())
        if count.value > self.room:
            self.room = count.value
            self.ids = (ctypes.c_int32 * self.room)()
            return self.encode(text, flags)
        return self.ids[:count.value]

    def decode(self, ids, flags=0, place=None):
        given = (ctypes.c_int32 * len(ids))(*ids)
        place = ctypes.c_int(0) if place is None else place
        n = self.library.miras_tokenizer_decode(self.at, given, len(ids), flags,
                                                ctypes.byref(place), self.text, len(self.text))
        if n == ctypes.c_size_t(-1).value:
            return None
        if n > len(self.text):
            self.text = ctypes.create_string_buffer(n)
            return self.decode(ids, flags, place)
        return self.text.raw[:n]


def arrays_of(model, tokens, pre="", types=None, scores=None, merges=(), bos=-1, eos=-1,
              unknown=-1, add_bos=0, no_space_prefix=0):
    def texts(strings):
        return (Text * len(strings))(*[Text(s, len(s)) for s in strings])
    a = Arrays(model.encode(), pre.encode(), texts(tokens), None, None, len(tokens), texts(merges),
               len(merges), bos, eos, unknown, add_bos, 0, no_space_prefix)
    if types is not None:
        a.token_type = (ctypes.c_int32 * len(types))(*types)
    if scores is not None:
        a.scores = (ctypes.c_float * len(scores))(*scores)
    return a


# ---- vocabularies of every kind ----

def texts():
    """What is learned from: this repository's own texts, and words."""
    draw = random.Random(1)
    for name in ("README.md", "miras.h", "examples/README.md", "examples/run.c", "LICENSE"):
        yield (ROOT / name).read_text()[:400000]
    for _ in range(2000):
        yield " ".join(draw.choice(WORDS) for _ in range(30))


def added(tokenizer, more=()):
    from tokenizers import AddedToken
    tokenizer.add_special_tokens([
        AddedToken("<|im_start|>", normalized=False), AddedToken("<|im_end|>", normalized=False),
        AddedToken("<|end|>", normalized=False, lstrip=True),
        AddedToken("<|e|>", normalized=False, rstrip=True), *more])
    tokenizer.add_tokens([
        AddedToken("    "), AddedToken("  "), AddedToken("Alone", single_word=True),
        AddedToken("both", lstrip=True, rstrip=True), AddedToken("caf\u00e9"),
        AddedToken("word", single_word=True, lstrip=True, normalized=False),
        AddedToken("\u212b"), AddedToken("b c", normalized=True), AddedToken("\u00e9\u00e8")])
    return tokenizer


def byte_level(size, pre, normalizer=None, ends=None, **model):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()   # as whole texts are slow
    tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts(), trainers.BpeTrainer(
        vocab_size=size, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.pre_tokenizer = pre
    added(tokenizer)
    if ends:
        template = processors.TemplateProcessing(single=ends, pair=ends + " $B", special_tokens=[
            (t, tokenizer.token_to_id(t)) for t in ("<|im_start|>", "<|im_end|>")])
        tokenizer.post_processor = processors.Sequence(
            [processors.ByteLevel(trim_offsets=False), template])
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def split(pattern, inverted=False):
    from tokenizers import Regex, pre_tokenizers
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "removed" if inverted else "isolated", inverted),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentencepiece_like(size, pre=None, normalizer=None, decoder=None, fallback=True, **model):
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE(byte_fallback=fallback, fuse_unk=True, unk_token="<unk>",
                                     **model))
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] * fallback
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(BLANK, "never")   # as whole texts are slow
    tokenizer.train_from_iterator(
        texts(),
        trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=first,
                            limit_alphabet=size // 10))
    saved = json.loads(tokenizer.to_str())
    saved["added_tokens"] = [t for t in saved["added_tokens"] if t["content"][:3] != "<0x"]
    saved["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    if pre:
        tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False)])
    return added(tokenizer)


def kinds(size=3000):
    """The vocabularies by name: each a function that makes it, of about so many tokens."""
    from tokenizers import Regex, decoders, normalizers as n, pre_tokenizers as p
    llama = [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse(),
             decoders.Strip(" ", 1, 0)]
    return {
        "gpt2": lambda: byte_level(size, p.ByteLevel(add_prefix_space=False)),
        "gpt2-nfc": lambda: byte_level(size, p.ByteLevel(add_prefix_space=False),
                                       normalizer=n.NFC()),
        "gpt2-prefix": lambda: byte_level(size, p.ByteLevel(add_prefix_space=True)),
        "gpt2-split": lambda: byte_level(size, split(GPT2)),
        "smollm": lambda: byte_level(size, p.Sequence([p.Digits(individual_digits=True),
                                                       p.ByteLevel(add_prefix_space=False)])),
        "digits": lambda: byte_level(size, p.Sequence([p.Digits(), p.ByteLevel()])),
        "llama3": lambda: byte_level(size, split(CL100K), ends="<|im_start|> $A",
                                     ignore_merges=True),
        "cl100k": lambda: byte_level(size, split(CL100K, True), ends="<|im_start|> $A <|im_end|>"),
        "qwen2": lambda: byte_level(size, split(QWEN2), normalizer=n.NFC()),
        "qwen35": lambda: byte_level(size, split(QWEN35), normalizer=n.Sequence([n.NFC()])),
        "unsplit": lambda: byte_level(size, p.ByteLevel(add_prefix_space=False, use_regex=False)),
        "llama": lambda: sentencepiece_like(
            size, normalizer=n.Sequence([n.Prepend(BLANK), n.Replace(" ", BLANK)]),
            decoder=decoders.Sequence(llama)),
        "gemma": lambda: sentencepiece_like(
            size, normalizer=n.Replace(" ", BLANK), decoder=decoders.Sequence(llama[:3])),
        "metaspace": lambda: sentencepiece_like(
            size, p.Metaspace(BLANK, "always"), decoder=decoders.Metaspace(BLANK, "always"),
            fallback=False),
        "metaspace-first": lambda: sentencepiece_like(
            size, p.Metaspace(BLANK, "first", False), n.NFC(), decoders.Sequence(llama)),
        "metaspace-never": lambda: sentencepiece_like(
            size, p.Metaspace(BLANK, "never"), decoder=decoders.Metaspace(BLANK, "never"),
            fallback=False)}


def respelt(tokenizer):
    """Its JSON with merges spelt "a b", where no token has a blank."""
    saved = json.loads(tokenizer.to_str())
    merges = saved["model"]["merges"]
    if not any(" " in part for pair in merges for part in pair):
        saved["model"]["merges"] = [" ".join(pair) for pair in merges]
    return saved


# ---- strings ----

PLANES = [(0, 0x80), (0, 0x250), (0x250, 0x900), (0x900, 0x1200), (0x1200, 0x3000),
          (0x3000, 0xD800), (0xE000, 0x10000), (0x10000, 0x20000), (0x20000, 0x40000),
          (0xE0000, 0xE0200), (0x10FF00, 0x110000), (0x300, 0x370), (0x1100, 0x1200),
          (0x1AB0, 0x1B00), (0xF900, 0xFB00), (0x2F800, 0x2FA20)]


def strings(count, seed, specials):
    draw = random.Random(seed)
    base = [t for t in texts()]

    def character():
        low, high = draw.choice(PLANES)
        c = draw.randrange(low, high)
        return chr(c) if not 0xD800 <= c < 0xE000 else "\ud7ff"

    def part():
        kind = draw.randrange(10)
        if kind == 0:
            return character()
        if kind == 1:
            return "".join(character() for _ in range(draw.randrange(12)))
        if kind == 2:
            return draw.choice(RUNS) * draw.choice((1, 1, 2, 3, 4, 7, 30))
        if kind == 3:
            return draw.choice(specials)
        if kind == 4:
            text = draw.choice(base)
            at = draw.randrange(len(text))
            return text[at:at + draw.randrange(80)]
        if kind == 5:
            return " " * draw.randrange(4) + draw.choice(specials) + " " * draw.randrange(3)
        if kind == 6:
            return "".join(draw.choice(RUNS) for _ in range(draw.randrange(8)))
        if kind == 7:
            return draw.choice(("'", "\u2019", " '")) + draw.choice(
                ("s", "S", "t", "re", "rE", "VE", "m", "ll", "lL", "d", "\u017f", "x", "l"))
        return draw.choice(WORDS) + draw.choice((" ", "", "\n"))

    for i in range(count):
        if i % 3000 == 2999:
            yield draw.choice(RUNS) * draw.randrange(200, 3000)
        else:
            yield "".join(part() for _ in range(draw.choice((1, 2, 3, 5, 8, 13))))


class Difference(Exception):
    pass


class Library:
    """The tokenizers library. Its decoders give text, where bytes that are none are replacement
    characters: by ByteFallback all of a run that is no text as a whole. Then bytes are compared,
    which the tokens spell."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        saved = json.loads(tokenizer.to_str())
        how = json.dumps(saved["decoder"])
        self.fallback = "ByteFallback" in how
        self.strips = '"Strip"' in how
        self.special = {t["id"] for t in saved["added_tokens"] if t["special"]}
        self.size = max(tokenizer.get_vocab(True).values()) + 1
        self.specials = [t["content"] for t in saved["added_tokens"]] + ["<0x41>", "<s>"]

    def encode(self, text, special):
        return self.tokenizer.encode(text, add_special_tokens=special).ids

    def decode(self, ids, skip, raw):
        """raw if it is what the library says, else what that is."""
        want = self.tokenizer.decode(ids, skip_special_tokens=skip)
        if not self.fallback or "\ufffd" not in want:
            return raw if raw.decode(errors="replace") == want else want
        spelt = b""
        for i in ids:
            token = self.tokenizer.id_to_token(i)
            if token is None or (skip and i in self.special):
                continue
            byte = len(token) == 6 and token[:3] == "<0x" and token[5] == ">"
            spelt += bytes([int(token[3:5], 16)]) if byte else token.replace(BLANK, " ").encode()
        return spelt[1:] if self.strips and spelt[:1] == b" " else spelt


class SentencePiece:
    specials = ["a", " "]

    def __init__(self, path):
        import sentencepiece
        self.model = sentencepiece.SentencePieceProcessor(str(path))
        self.size = self.model.get_piece_size()
        # control pieces are never found in a text by sentencepiece, and here they are
        self.arrays = arrays_of(
            "llama", [self.model.id_to_piece(i).encode() for i in range(self.size)],
            types=[6 if self.model.is_byte(i) else 2 if self.model.is_unknown(i) else
                   3 if self.model.is_control(i) else 5 if self.model.is_unused(i) else 1
                   for i in range(self.size)],
            scores=[self.model.get_score(i) for i in range(self.size)], bos=self.model.bos_id(),
            eos=self.model.eos_id(), unknown=self.model.unk_id(), add_bos=1)

    def encode(self, text, special):
        return [self.model.bos_id()] * special + self.model.encode(text)

    def decode(self, ids, skip, raw):
        spelt = b""
        for i in ids:
            piece = self.model.id_to_piece(i)
            if self.model.is_control(i):
                spelt += b"" if skip else piece.encode()
            elif self.model.is_byte(i):
                spelt += bytes([int(piece[3:5], 16)])
            else:
                spelt += (piece if self.model.is_unknown(i) else piece.replace(BLANK, " ")).encode()
        return spelt[1:] if spelt[:1] == b" " else spelt


class Rwkv:
    """RWKV's own program: the longest token first."""
    specials = ["\x00", "\x80"]

    def __init__(self, path):
        import ast
        self.tokens = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            number, literal = line.split(" ", 1)
            token = ast.literal_eval(literal[:literal.rindex(" ")])
            self.tokens[int(number)] = token if isinstance(token, bytes) else token.encode()
        self.ids = {token: i for i, token in self.tokens.items()}
        self.longest = max(map(len, self.ids))
        self.size = max(self.tokens) + 1

    def encode(self, text, special):
        data, ids, at = text.encode(), [], 0
        while at < len(data):
            n = min(self.longest, len(data) - at)
            while data[at:at + n] not in self.ids:
                n -= 1
            ids.append(self.ids[data[at:at + n]])
            at += n
        return ids

    def decode(self, ids, skip, raw):
        return b"".join(self.tokens.get(i, b"") for i in ids)


def gguf_tokenizer(path):
    """The vocabulary of a GGUF file, and the same for the tokenizers library."""
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    fields = gguf.GGUFReader(str(path)).fields

    def value(name, default=None):
        field = fields.get("tokenizer.ggml." + name)
        return field.contents() if field else default
    tokens, merges, types = value("tokens"), value("merges"), value("token_type")
    pre = value("pre")
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)},
                                     [tuple(m.split(" ")) for m in merges]))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = {
        "gpt-2": level,
        "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level]),
        "llama-bpe": split(CL100K), "qwen2": split(QWEN2), "qwen35": split(QWEN35)}[pre]
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False)
                                  for t, kind in zip(tokens, types) if kind == 3])
    arrays = arrays_of("gpt2", [t.encode() for t in tokens], pre, types,
                       merges=[m.encode() for m in merges], bos=value("bos_token_id", -1),
                       eos=value("eos_token_id", -1))
    return Library(tokenizer), arrays


# ---- comparing ----

VECTORS = "smollm", "llama3", "qwen35", "llama", "metaspace-first"

def compare(name, theirs, ours, count, seed):
    """The first difference is raised: of the tokens, of the bytes, and of these in two calls."""
    draw = random.Random(seed + 1)
    seen = 0
    for text in strings(count, seed, theirs.specials):
        special = draw.random() < 0.5
        encoded = text.encode()
        want = theirs.encode(text, special)
        got = ours.encode(encoded, SPECIAL if special else 0)
        if want != got:
            raise Difference(f"{name}: {text!r} (special {special}): {want} and not {got}")
        skip = SPECIAL if draw.random() < 0.5 else 0
        ids = list(want)
        if draw.random() < 0.1:
            ids = [draw.randrange(theirs.size) for _ in range(draw.randrange(1, 20))]
        got = ours.decode(ids, skip)
        want = theirs.decode(ids, bool(skip), got)
        if want != got:
            raise Difference(f"{name}: {ids} (skip {skip}): {want} and not {got}")
        at = draw.randrange(len(ids) + 1)
        place = ctypes.c_int(0)
        parts = ours.decode(ids[:at], skip, place) + ours.decode(ids[at:], skip, place)
        if parts != got:
            raise Difference(f"{name}: {ids} at {at}: {parts} and not {got}")
        seen += len(encoded)
    return seen


def speed(name, theirs, ours):
    """Megabytes of text per second of processor, and of runs that are one long piece."""
    book = "\n".join(texts())
    rows = []
    for what, text in (("text", book), ("a", "a" * 10**7), ("blanks", " " * 10**7),
                       ("U+4E00", "\u4e00" * (10**7 // 3)), ("marks", "\u0301\u0323" * 2500000)):
        encoded = text.encode()
        start = time.process_time()
        got = ours.encode(encoded)
        middle = time.process_time()
        want = theirs.encode(text, False)
        end = time.process_time()
        if want != got:
            raise Difference(f"{name}: {len(text)} of {what}")
        rows.append(f"{what} {len(encoded) / 1e6 / (middle - start):.1f} "
                    f"({len(encoded) / 1e6 / (end - middle):.1f})")
    print(f"  {name}, MB/s, the other's in brackets: {', '.join(rows)}", flush=True)


def write_vectors():
    """Small vocabularies, and what the library makes of some strings by them, for
    tests/test_tokenizer.c: a line for each, its text and what it is decoded to in hexadecimal."""
    DATA.mkdir(parents=True, exist_ok=True)
    lines = []
    for k, name in enumerate(VECTORS):
        theirs = Library(kinds(330)[name]())
        saved = respelt(theirs.tokenizer) if k % 2 else json.loads(theirs.tokenizer.to_str())
        (DATA / f"{name}.json").write_text(json.dumps(saved, separators=(",", ":")) + "\n")
        some = [t for t in strings(400, 7 + k, theirs.specials) if 0 < len(t.encode()) < 32]
        for i, text in enumerate(some[:40]):
            ids = theirs.encode(text, i % 2 == 1)
            told = theirs.tokenizer.decode(ids, skip_special_tokens=True)
            told = "?" if "\ufffd" in told else told.encode().hex() or "-"   # bytes that are none
            lines.append(f"{name} {i % 2} {text.encode().hex()} {','.join(map(str, ids)) or '-'} "
                         f"{told}")
    (DATA / "vectors.txt").write_text("\n".join(lines) + "\n")
    print(f"vocabularies.py: {len(lines)} vectors, "
          f"{sum(p.stat().st_size for p in DATA.iterdir())} bytes")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strings", type=int, default=1000000)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()
    if options.vectors:
        return write_vectors()
    from tokenizers import Tokenizer
    bad = total = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        library = build(folder)
        names = [n for n in kinds() if options.only in n]
        rows = names + options.files
        for k, row in enumerate(rows):
            begin = time.perf_counter()
            if row in names:
                name, path = row, folder / "tokenizer.json"
                theirs = Library(kinds()[name]())
                saved = respelt(theirs.tokenizer) if k % 2 else json.loads(
                    theirs.tokenizer.to_str())
                path.write_text(json.dumps(saved, ensure_ascii=bool(k % 3)), encoding="utf-8")
                ours = Ours(library, path)
            elif row.suffix == ".json":
                name, theirs = row.name, Library(Tokenizer.from_file(str(row)))
                ours = Ours(library, row)
            elif row.suffix == ".gguf":
                theirs, arrays = gguf_tokenizer(row)
                name, ours = row.name, Ours(library, arrays=arrays)
            elif row.suffix == ".txt":
                name, theirs, ours = row.name, Rwkv(row), Ours(library, row)
            else:
                name, theirs = row.name, SentencePiece(row)
                ours = Ours(library, arrays=theirs.arrays)
            opened = time.perf_counter() - begin
            count = -(-options.strings // len(rows))
            try:
                seen = compare(name, theirs, ours, count, options.seed + k)
                total += count
                print(f"{name}: {count} strings, {seen} bytes, no difference "
                      f"({opened:.1f} s to make and open, "
                      f"{time.perf_counter() - begin - opened:.0f} s)", flush=True)
                if options.speed:
                    speed(name, theirs, ours)
            except Difference as difference:
                bad += 1
                print(str(difference)[:2000], flush=True)
    print(f"vocabularies.py: {total} strings without a difference, {bad} vocabularies with one")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
