#!/usr/bin/env python3
"""unicode.py: the tables of characters of examples/tokenizer.h.

    python3 tests/unicode.py            compares them with this Python's unicodedata
    python3 tests/unicode.py --write    writes them anew (needs `tokenizers` of PyPI)

A vocabulary's splits are those of the tokenizers library, whose parts know Unicode in different
versions: its regular expressions (Oniguruma 6.9.10) 16, its digits (Rust) 17, its NFC 9. So --write
asks the library about every character. What it says agrees with unicodedata wherever both know the
character, which the comparison shows without the library: characters of later versions may differ,
and for NFC these count as later that LATER lists."""
import pathlib
import re
import sys
import unicodedata

HEADER = pathlib.Path(__file__).resolve().parent.parent / "examples" / "tokenizer.h"
BEGIN, END = "/* tables: tests/unicode.py writes them */\n", "/* end of tables */\n"
EVERY = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
FLAT = 0x33480             # characters from here on are in no table; E0100 to E01EF are marks
OTHER, LETTER, NUMBER, NO_WORD, MARK, WORD, SPACE, DIGIT = range(8)
# characters newer than Unicode 9 that have a combining class or a composition; those newer than 14
# by whole blocks
LATER = [(0x7FD, 0x7FD), (0xA82C, 0xA82C), (0x897, 0x897), (0x1ACF, 0x1AEF), (0xECE, 0xECE),
         (0x105C0, 0x105FF), (0x10D69, 0x10D6D), (0x10EFA, 0x10EFF), (0x11380, 0x113FF),
         (0x11DB0, 0x11DEF), (0x11F00, 0x11F5F), (0x16100, 0x1613F), (0x16D40, 0x16D7F),
         (0x1E08F, 0x1E08F), (0x1E4EC, 0x1E4EF), (0x1E5EE, 0x1E5EF), (0x1E6C0, 0x1E6FF),
         (0x1715, 0x1715), (0x1ABF, 0x1ACE), (0x1DF6, 0x1DFA), (0x8D3, 0x8D3), (0x898, 0x89F),
         (0x8CA, 0x8D2), (0x9FE, 0x9FE), (0xAFA, 0xAFF), (0xC3C, 0xC3C), (0xD3B, 0xD3C),
         (0xEBA, 0xEBA), (0x10D24, 0x10D27), (0x10EAB, 0x10EAC), (0x10F46, 0x10F50),
         (0x10F82, 0x10F85), (0x11070, 0x11070), (0x1133B, 0x1133B), (0x1145E, 0x1145E),
         (0x11839, 0x1183A), (0x11935, 0x11943), (0x119E0, 0x119E0), (0x11A34, 0x11A34),
         (0x11A47, 0x11A47), (0x11A99, 0x11A99), (0x11D42, 0x11D45), (0x11D97, 0x11D97),
         (0x16FF0, 0x16FF1), (0x1E130, 0x1E136), (0x1E2AE, 0x1E2AE), (0x1E2EC, 0x1E2EF)]
# symbols that are alphabetic, and joiners: what \w takes beside letters, marks and numbers
WORDS = {0x200C, 0x200D, *range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A),
         *range(0x1F150, 0x1F16A), *range(0x1F170, 0x1F18A)}


def digit(v):
    """A value below 64 as a character: none that C reads as something else."""
    c = v + 35
    c += c >= ord("?")
    return chr(c + (c >= ord("\\")))


def undigit(character):
    c = ord(character)
    return c - 35 - (c > ord("?")) - (c > ord("\\"))


def number(n):
    text = ""
    while n >= 32:
        text += digit(n % 32 + 32)
        n //= 32
    return text + digit(n)


def signed(n):
    return number(2 * n if n >= 0 else -2 * n - 1)


def numbers(text):
    n = shift = 0
    for character in text:
        v = undigit(character)
        n |= (v & 31) << shift
        shift += 5
        if v < 32:
            yield n
            n = shift = 0


def runs(values, classes):
    """Runs of equal values: their lengths times classes, plus the value."""
    text, start = "", 0
    for i in range(1, len(values) + 1):
        if i == len(values) or values[i] != values[start]:
            if i < len(values) or values[start]:
                text += number((i - start) * classes + values[start])
            start = i
    return text


def from_library():
    from tokenizers import Regex, normalizers, pre_tokenizers
    values = [OTHER] * 0x110000

    def matched(pattern):
        split = pre_tokenizers.Split(Regex(pattern), "removed")
        found = set()
        for i in range(0, len(EVERY), 4096):
            text = "".join(map(chr, EVERY[i:i + 4096]))
            found |= set(text) - set("".join(a for a, _ in split.pre_tokenize_str(text)))
        return {ord(c) for c in found}

    digits = pre_tokenizers.Digits(True)
    for c in EVERY:
        if len(digits.pre_tokenize_str("a" + chr(c) + "a")) == 3:
            values[c] = DIGIT
    no_word = matched(r"\p{No}")
    for pattern, value in ((r"\p{L}", LETTER), (r"\p{M}", MARK), (r"\p{Pc}", WORD),
                           (r"\p{N}", NUMBER), (r"\s", SPACE)):
        for c in matched(pattern):
            values[c] = NO_WORD if c in no_word else value
    for c in WORDS:
        values[c] = WORD
    nfc = normalizers.NFC()

    def reorders(c):
        own = unicodedata.combining(chr(c))
        other = "\u0334" if own > 1 else "\u0301"
        pair = chr(c) + other if own > 1 else other + chr(c)
        return nfc.normalize_str("q" + pair) != "q" + pair

    order = [unicodedata.combining(chr(c)) if unicodedata.combining(chr(c)) and reorders(c) else 0
             for c in range(FLAT)]
    parts = []
    for c in EVERY:
        parts_of = unicodedata.decomposition(chr(c)).split()
        if not parts_of or parts_of[0][0] == "<" or 0xAC00 <= c < 0xD7A4:
            continue
        parts_of = [int(p, 16) for p in parts_of]
        text = "".join(map(chr, parts_of))
        if len(parts_of) == 2 and nfc.normalize_str(text) == chr(c):
            parts.append((c, *parts_of, 1))
        elif nfc.normalize_str(chr(c)) != chr(c):
            parts.append((c, *parts_of, 0) if len(parts_of) == 2 else (c, parts_of[0], 0, 0))
    assert all(not unicodedata.decomposition(chr(p[2])) for p in parts)
    return values, order, parts


def packed(values, order, parts):
    assert all((v == MARK) == (0xE0100 <= c < 0xE01F0) and v in (OTHER, MARK)
               for c, v in enumerate(values) if c >= FLAT)
    text, last = "", (0, 0, 0)
    for p in parts:
        text += number((p[0] - last[0]) * 2 + p[3]) + signed(p[1] - last[1])
        text += signed(p[2] - last[2])
        last = p
    return runs(values[:FLAT], 8), runs(order, 256), text


def unpacked(classes, order, parts):
    values, orders, compositions = [], [], []
    for n in numbers(classes):
        values += [n % 8] * (n // 8)
    for n in numbers(order):
        orders += [n % 256] * (n // 256)
    all_parts = list(numbers(parts))
    last = [0, 0, 0]
    for i in range(0, len(all_parts), 3):
        half = [(n >> 1) if n % 2 == 0 else -((n + 1) >> 1) for n in all_parts[i:i + 3]]
        last = [last[0] + (all_parts[i] >> 1), last[1] + half[1], last[2] + half[2]]
        compositions.append((*last, all_parts[i] & 1))
    values += [OTHER] * (0x110000 - len(values))
    values[0xE0100:0xE01F0] = [MARK] * 240
    return values, orders + [0] * (FLAT - len(orders)), compositions


def as_c(name, text):
    """Strings of whole lines; C99 knows none of more than 4,095 characters."""
    lines = [f'  "{text[i:i + 95]}"' for i in range(0, len(text), 95)]
    parts = ["\n".join(lines[i:i + 40]) for i in range(0, len(lines), 40)]
    body = ",\n".join(parts)
    return f"static const char *const {name}[] = {{\n{body}, NULL}};\n"


def from_header():
    text = HEADER.read_text()
    tables = text[text.index(BEGIN):text.index(END)]
    return unpacked(*("".join(re.findall(r'^  "(.*?)"', part, re.M))
                      for part in tables.split("static const char *const ")[1:]))


def compare():
    values, order, parts = from_header()
    bad = []
    later = {c for a, b in LATER for c in range(a, b + 1)}
    spaces = {9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
              0x202F, 0x205F, 0x3000}
    of = {p[0]: p for p in parts}
    known = 0
    for c in EVERY:
        kind = unicodedata.category(chr(c))
        if kind == "Cn":
            continue
        known += 1
        value = (SPACE if c in spaces else WORD if c in WORDS or kind == "Pc" else
                 NO_WORD if kind == "No" else
                 {"L": LETTER, "N": NUMBER, "M": MARK}.get(kind[0], OTHER))
        if value != values[c]:
            bad.append((hex(c), value, values[c]))
        if c in later:
            continue
        if c < FLAT and unicodedata.combining(chr(c)) != order[c]:
            bad.append((hex(c), "combining", unicodedata.combining(chr(c)), order[c]))
        p = unicodedata.decomposition(chr(c)).split()
        if p and p[0][0] != "<" and not 0xAC00 <= c < 0xD7A4:
            p = [int(x, 16) for x in p]
            whole = unicodedata.normalize("NFC", chr(c)) == chr(c)
            if of.get(c) != (c, p[0], p[1] if len(p) > 1 else 0, int(whole)):
                bad.append((hex(c), "parts", p, of.get(c)))
        elif c in of:
            bad.append((hex(c), "no parts", of[c]))
    print(f"unicode.py: Unicode {unicodedata.unidata_version}: {known} characters, "
          f"{len(bad)} differ from the tables{': ' if bad else ''}"
          f"{' '.join(map(str, bad[:20]))}")
    return 1 if bad else 0


def write():
    tables = packed(*from_library())
    text = HEADER.read_text()
    names = "tok__classes", "tok__orders", "tok__parts"
    made = "\n".join(as_c(name, table) for name, table in zip(names, tables))
    HEADER.write_text(text[:text.index(BEGIN)] + BEGIN + made + text[text.index(END):])
    print(f"unicode.py: {[len(t) for t in tables]} characters of tables")
    return 0


if __name__ == "__main__":
    sys.exit(write() if sys.argv[1:] == ["--write"] else compare())
