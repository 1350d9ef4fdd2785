#!/usr/bin/env python3
"""plots.py: the pictures of README.md and bench/README.md, from numbers that are kept in bench.

    python3 bench/plots.py               draws all of them again, into bench/results
    python3 bench/plots.py FOLDER        into that folder
    python3 bench/plots.py FILE.csv      accuracy by step, of what bench/recall.c wrote by --csv

Where a picture's numbers come from:
  flat.svg       bench/results/flat.csv, by ./flat times (bench/flat.c)
  roofline.svg   bench/results/roofline.csv, by POINTS=FILE ./limits exact decode products
  needles        the tables of bench/results/needle.md
  all others     the tables below them in bench/README.md, which bench/evidence.py makes
space.svg and read.svg are drawn by bench/evidence.py and ./lm read, which have their numbers.

A memory has one colour in all pictures; where its line is broken or its dot hollow, something about
it was changed. Names stand at the ends of lines. Pictures follow the reader's light or dark
background and have one of their own, so that they can be read on any.
"""
import csv
import math
import os
import re
import statistics
import sys

BENCH = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(BENCH, "results")

# ---- colours: a row's is its own; kinds of memories have neighbouring ones ----

COLOURS = {
    # attention
    "softmax-attention": "#c2410c", "sliding-window": "#e58a4b", "transformer": "#8f3413",
    # matrices that add and fade
    "linear-attention": "#be185d", "dfw": "#e26ba3", "retnet": "#a21caf", "lightning": "#d65be0",
    "gla": "#9a6bd6", "mamba": "#6b3fa0", "mamba2": "#8250df", "hgrn2": "#b892e0",
    "rwkv6": "#c48fc9",
    # matrices that correct
    "deltanet": "#5b9a0b", "deltanet-neg-eigval": "#3b5f0c", "longhorn": "#8cae2b",
    "nlms": "#a8a11c", "gated-deltanet": "#16803c", "gated-deltanet-neg-eigval": "#0a4d27",
    "gated-deltanet-2": "#3fb57a", "deltaproduct": "#0f9d8f", "gated-deltaproduct": "#07655f",
    "kda": "#7a8f4c", "eda": "#a3b18a", "mdn": "#4d7c0f", "pgdn": "#2e6b4f", "pkda": "#93a86a",
    "comba": "#6fa58a", "rwkv7": "#3a8d9a",
    # least squares
    "mesa": "#8a6a1f", "rls": "#b99232",
    # perceptrons
    "ttt-linear": "#6aa7e8", "ttt-mlp": "#2f9be6", "titans": "#0a6ebd", "moneta": "#0795a8",
    "yaad": "#4338ca", "memora": "#1e3a8a", "atlas": "#6f8aa8",
    # no memories
    "token": "#c2410c", "sequence": "#0a6ebd", "product": "#16803c"}
DASHES = ["7 4", "2 3", "9 3 2 3", "12 4"]


def row_of(label):
    """The row that a label is about, and whether something about it was changed."""
    text = label.lower()
    best = max((name for name in COLOURS if re.match(rf"{name}(?![a-z0-9])", text)), key=len,
               default=None)
    if best is None:
        return None, True
    return best, text[len(best):] not in ("", "-memory") and not text[len(best):].startswith(", at")


def lighter(colour, share=0.45):
    """For a dark background."""
    parts = [int(colour[k:k + 2], 16) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(v + (255 - v) * share):02x}" for v in parts)


W, H, LEFT, RIGHT, TOP, BOTTOM = 760, 460, 78, 150, 62, 62
STYLE = """
  .card{fill:#ffffff} text{font:13px system-ui,sans-serif;fill:#24292f} .title{font-size:16px;
  font-weight:600} .small{font-size:12px;fill:#57606a} .grid{stroke:#d8dee4;stroke-width:1}
  .axis{stroke:#57606a;stroke-width:1.2;fill:none} .line{fill:none;stroke-width:2.2}
  .thin{fill:none;stroke-width:1} .roof{fill:none;stroke:#57606a;stroke-width:1.8}
  .map{fill:#0a6ebd}
"""
DARK = """.card{fill:#0d1117} text{fill:#e6edf3}
  .small{fill:#9da7b3} .grid{stroke:#272e37} .axis,.roof{stroke:#9da7b3} .map{fill:#58b0ff} """


def escaped(words):
    return words.replace("&", "&amp;").replace("<", "&lt;")


class Picture:
    """An SVG of text, lines and dots under a title and a sentence."""

    def __init__(self, title, what, width=W, height=H, left=20):
        self.head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                     f'width="{width}" height="{height}" role="img" '
                     f'aria-label="{escaped(title)}">']
        self.title = escaped(title)
        self.out = [f'<rect class="card" width="{width}" height="{height}" rx="8"/>']
        self.used = []
        self.text(left, 26, title, "title")
        self.text(left, 46, what, "small")

    def colour(self, letter, name):
        """The class of a colour: s for lines, f for what is filled."""
        if name not in self.used:
            self.used.append(name)
        return f"{letter}{self.used.index(name)}"

    def text(self, x, y, words, kind="", anchor="start", more=""):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}" '
                        f"{more}>{escaped(words)}</text>")

    def path(self, way, kind, more=""):
        self.out.append(f'<path class="{kind}" d="{way}"{more}/>')

    def dot(self, x, y, name, size=4.5, hollow=False):
        kind = f"card {self.colour('s', name)}" if hollow else self.colour("f", name)
        more = ' stroke-width="2"' if hollow else ""
        self.out.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"{more}/>')

    def line(self, points, name, dash=""):
        self.path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points),
                  f"line {self.colour('s', name)}", f' stroke-dasharray="{dash}"' if dash else "")

    def names(self, ends, x, top, bottom, apart=15):
        """ends: [(x, y of a line's end, its name, its row)]. Names stand at x, none on another, and
        a thin line leads to a name that had to move."""
        ends = sorted(ends, key=lambda end: end[1])
        apart = min(apart, (bottom - top) / max(1, len(ends) - 1))
        at = []
        for _, y, _, _ in ends:
            at.append(max(y, top, at[-1] + apart if at else top))
        for i in reversed(range(len(at))):
            at[i] = min(at[i], at[i + 1] - apart if i + 1 < len(at) else bottom)
        for (from_x, y, name, row), to in zip(ends, at):
            if abs(to - y) > 3 or from_x < x - 30:
                self.path(f"M{from_x + 6:.1f} {y:.1f}L{x - 3:.1f} {to:.1f}",
                          f"thin {self.colour('s', row)}", ' stroke-opacity="0.6"')
            self.text(x, to + 4, name, self.colour("f", row))

    def save(self, path):
        light = "".join(f".s{i}{{stroke:{COLOURS[n]}}} .f{i}{{fill:{COLOURS[n]}}} "
                        for i, n in enumerate(self.used))
        dark = "".join(f".s{i}{{stroke:{lighter(COLOURS[n])}}} .f{i}{{fill:{lighter(COLOURS[n])}}} "
                       for i, n in enumerate(self.used))
        dark = f"@media (prefers-color-scheme: dark){{{DARK}{dark}}}"
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(self.head + [f"<title>{self.title}</title><style>{STYLE}{light}",
                                           dark, "</style>"] + self.out) + "\n</svg>\n")


def ticks(low, high, count):
    """About so many round numbers from low to high."""
    raw = (high - low) / count
    unit = 10 ** math.floor(math.log10(raw))
    step = unit * next(k for k in (1, 2, 5, 10) if k * unit >= raw / 1.2)
    first = math.ceil(low / step - 1e-9)
    return [(k * step, f"{k * step:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}")
            for k in range(first, math.floor(high / step + 1e-9) + 1)]


class Plot(Picture):
    """Two logarithmic axes."""

    def __init__(self, title, what, x, y, xname, yname, xticks, yticks):
        super().__init__(title, what, left=LEFT)
        self.x, self.y = [math.log10(v) for v in x], [math.log10(v) for v in y]
        for value, name in xticks:
            at = self.px(value)
            self.path(f"M{at:.1f} {TOP}V{H - BOTTOM}", "grid")
            self.text(at, H - BOTTOM + 20, name, "small", "middle")
        for value, name in yticks:
            at = self.py(value)
            self.path(f"M{LEFT} {at:.1f}H{W - RIGHT}", "grid")
            self.text(LEFT - 8, at + 4, name, "small", "end")
        self.path(f"M{LEFT} {TOP}V{H - BOTTOM}H{W - RIGHT}", "axis")
        self.text((LEFT + W - RIGHT) / 2, H - 14, xname, anchor="middle")
        self.text(0, 0, yname, anchor="middle",
                  more=f'transform="translate(18 {(TOP + H - BOTTOM) / 2}) rotate(-90)"')

    def px(self, v):
        low, high = self.x
        return LEFT + (math.log10(v) - low) / (high - low) * (W - LEFT - RIGHT)

    def py(self, v):
        low, high = self.y
        return H - BOTTOM - (math.log10(v) - low) / (high - low) * (H - TOP - BOTTOM)

    def at(self, points):
        return [(self.px(x), self.py(y)) for x, y in points]


def rows_of(name):
    with open(os.path.join(RESULTS, name), newline="", encoding="ascii") as f:
        return list(csv.reader(f))


def flat(path):
    head, *rows = rows_of("flat.csv")
    at = [int(r[0]) for r in rows]
    p = Plot("What the next token costs", "one head of 64, a write and a read, one core; attention "
             "sees all tokens before", (200, 1.3e6), (50, 1e9), "tokens before it",
             "time of a token", [(v, f"{v:,}") for v in (1000, 10000, 100000, 1000000)],
             [(1e2, "100 ns"), (1e3, "1 \u00b5s"), (1e4, "10 \u00b5s"), (1e5, "100 \u00b5s"),
              (1e6, "1 ms"), (1e7, "10 ms"), (1e8, "100 ms"), (1e9, "1 s")])
    ends = []
    for i, name in enumerate(head[1:]):
        points = p.at([(t, float(r[i + 1])) for t, r in zip(at, rows)])
        p.line(points, name)
        for x, y in points:
            p.dot(x, y, name)
        ends.append((*points[-1], name, name))
    p.names(ends, W - RIGHT + 10, TOP, H - BOTTOM)
    p.save(path)


def roofline(path):
    rows = rows_of("roofline.csv")[1:]
    peak = next(float(r[3]) for r in rows if r[0] == "peak")
    isa = next(r[1] for r in rows if r[0] == "peak")
    x, y = (0.15, 300), (8, 400)
    p = Plot("How near one core comes to what the machine can do",
             f"{isa}; lines: loops of multiply-adds alone, and of loads and stores alone, in the "
             "same run", x, y, "operations for a byte that has to move", "GFLOP/s",
             [(v, f"{v:g}") for v in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)],
             [(v, f"{v:g}") for v in (10, 20, 50, 100, 200, 400)])
    roofs = [(float(r[3]), r[1].replace("read and write ", "")) for r in rows if r[0] == "roof"]

    def roof(points):
        p.path("M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in p.at(points)), "roof")
    roof([(peak / max(rate for rate, _ in roofs), peak), (x[1], peak)])
    p.text(W - RIGHT + 10, p.py(peak) + 4, f"{peak:.0f} GFLOP/s", "small")
    slope = -math.degrees(math.atan2(p.py(1) - p.py(2), p.px(2) - p.px(1)))
    for rate, where in roofs:
        start = max(x[0], y[0] / rate)
        roof([(start, start * rate), (peak / rate, peak)])
        p.text(0, 0, f"{where}: {rate:.0f} GB/s", "small", "middle",
               f'transform="translate({p.px(0.31) - 5:.1f} {p.py(0.31 * rate) - 5:.1f}) '
               f'rotate({slope:.1f})"')
    for name, word, kind, place in (
            ("decoding, one token", "decode", "token", lambda ps: (max(ps)[0] + 12, max(
                q[1] for q in ps) + 4)),
            ("memories of a matrix, a sequence", "forward", "sequence", lambda ps: (
                min(ps)[0] - 6, max(q[1] for q in ps) + 22)),
            ("matrix products", "product", "product", lambda ps: (
                max(ps)[0] - 46, max(q[1] for q in ps) + 4))):
        points = p.at([(float(r[2]), float(r[3])) for r in rows
                       if r[0] == "point" and word in r[1] and "'" not in r[1]])
        for px, py in points:
            p.dot(px, py, kind)
        p.text(*place(points), name, p.colour("f", kind))
    p.save(path)


# ---- pictures of tables ----


def dot_rows(path, title, what, rows, unit):
    """rows: [(label, row, [median, lowest, highest], is it changed)]; no numbers: a heading."""
    step, left, right, top, width = 19, 300, 30, 66, 760
    height = top + step * len(rows) + 46
    p = Picture(title, what, width, height)
    values = [v for _, _, vs, _ in rows for v in vs]
    low, high = min(values), max(values)
    high = min(high, low + 6 * (statistics.median(values) - low) + 1e-9)  # no row squeezes the rest
    pad = 0.03 * (high - low) or 1
    low, high = low - pad, high + pad

    def at(v):
        return left + (min(v, high) - low) / (high - low) * (width - left - right)
    for value, name in ticks(low, high, 9):
        p.path(f"M{at(value):.1f} {top - 8}V{height - 40}", "grid")
        p.text(at(value), height - 24, name, "small", "middle")
    for i, (label, row, vs, changed) in enumerate(rows):
        y = top + step * i + 6
        if not vs:
            p.text(20, y + 4, label, "title")
            continue
        p.text(left - 12, y + 4, label, "", "end")
        p.path(f"M{at(vs[1]):.1f} {y}H{at(vs[2]):.1f}", f"line {p.colour('s', row)}")
        p.dot(at(vs[0]), y, row, 5, changed)
        if vs[2] > high:
            p.text(width - right + 2, y + 4, ">", "small")
    p.text((left + width - right) / 2, height - 8, unit, "small", "middle")
    p.save(path)


def line_rows(path, title, what, xs, rows, xname, yname, span=None):
    """rows: [(label, row, [value at each x], is it changed)] against xs, evenly apart."""
    width, height, left, right, top, bottom = 800, 450, 66, 230, 66, 56
    p = Picture(title, what, width, height)
    values = [v for _, _, vs, _ in rows for v in vs if v is not None]
    low, high = span or (min(values), max(values))
    pad = 0 if span else 0.05 * (high - low) or 1
    low, high = low - pad, high + pad

    def px(i):
        return left + i / max(1, len(xs) - 1) * (width - left - right)

    def py(v):
        return top + (high - v) / (high - low) * (height - top - bottom)
    for i, x in enumerate(xs):
        p.path(f"M{px(i):.1f} {top}V{height - bottom}", "grid")
        p.text(px(i), height - bottom + 20, f"{x:,}", "small", "middle")
    for value, name in ticks(low, high, 6):
        p.path(f"M{left} {py(value):.1f}H{width - right}", "grid")
        p.text(left - 8, py(value) + 4, name, "small", "end")
    ends, dashed = [], {}
    for label, row, vs, changed in rows:
        points = [(px(i), py(v)) for i, v in enumerate(vs) if v is not None]
        dash = ""
        if changed:
            dash = DASHES[dashed.setdefault(row, 0) % len(DASHES)]
            dashed[row] += 1
        p.line(points, row, dash)
        for x, y in points:
            p.dot(x, y, row, 3.5, changed)
        ends.append((*points[-1], label, row, sum(y for _, y in points)))
    ends = [end[:4] for end in sorted(ends, key=lambda end: end[4])]   # where ends are alike
    p.names(ends, width - right + 22, top, height - bottom)
    p.text((left + width - right) / 2, height - 14, xname, "", "middle")
    p.text(0, 0, yname, "small", "middle",
           f'transform="translate(16 {(top + height - bottom) / 2}) rotate(-90)"')
    p.save(path)


def number(cell):
    cell = cell.strip().replace(",", "")
    return float(cell) if re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", cell) else None


def dots_of(path, title, what, head, rows):
    """Of a table: label, median, lowest, highest, ...; "GROUP: label" has headings."""
    lines, group = [], None
    for label, *cells in rows:
        values = [number(cell) for cell in cells[:3]]
        if None in values:
            continue
        row, changed = row_of(label)
        if head[0] == "part":
            before, label = label.split(": ", 1)
            first = before != group
            if first:
                lines.append((before, None, [], False))
                group = before
            row, changed = row_of(before)[0] or row_of(label)[0], not first
        lines.append((label, row, values, changed))
    dot_rows(path, title, what, lines, "nats per byte")


def curves_of(path, title, what, head, rows, xname, yname, span=None):
    """Of a table: label, and a value in each column whose head is a number."""
    columns = [k for k, name in enumerate(head) if number(name) is not None]
    lines = []
    for cells in rows:
        values = [number(cells[k]) for k in columns]
        if not any(v is not None for v in values):
            continue
        row, changed = row_of(cells[0])
        lines.append((cells[0], row, values, changed))
    line_rows(path, title, what, [round(number(head[k])) for k in columns], lines, xname, yname,
              span)


LENGTHS = ("tokens", "accuracy, median of three seeds", (0, 1))
PICTURES = {   # how a table is drawn, the title, what it says below, the rest
    "rows": (dots_of, "Memories as language models: novels",
             "170,000 parameters, 614,000 bytes seen, windows of 256; dots are medians of three "
             "seeds, lines their range"),
    "second": (dots_of, "Memories as language models: the source of Python's library",
               "170,000 parameters, 614,000 bytes seen, windows of 256; dots are medians of three "
               "seeds, lines their range"),
    "parts": (dots_of, "What each part is worth",
              "nats per byte of prose; each group's first line is the memory as it comes"),
    "context": (curves_of, "Do longer windows of training pay?",
                "loss on prose in windows of that length; 614,000 bytes seen by each",
                "bytes of a training window", "nats per byte"),
    "size": (curves_of, "Does more size pay?", "loss on prose; 614,000 bytes seen by each",
             "parameters", "nats per byte"),
    "parity": (curves_of, "Parity: has it seen an even number of ones?",
               "learned over 32 tokens, asked over more; a guess is right half the time", *LENGTHS),
    "s3": (curves_of, "S3: where are three things after every shuffle?",
           "learned over 32 tokens, at the better of two learning rates; a guess is right once in "
           "six", *LENGTHS),
    "s5": (curves_of, "S5: where are five things after every shuffle?",
           "learned over 16 tokens", *LENGTHS),
    "passkey": (curves_of, "Passkey: a number in one sentence over and over",
                "learned over 128 tokens, asked in more", *LENGTHS),
    "number": (curves_of, "Number: one of six digits, by its name, in prose",
               "learned over 128 tokens, asked in more", *LENGTHS),
    "uuid": (curves_of, "UUID: eight hexadecimal digits, by their name, in prose",
             "learned over 128 tokens, asked in more", *LENGTHS)}


def draw(name, head, rows, path):
    """A picture by its name, of its table."""
    how, title, what, *rest = PICTURES[name]
    how(path, title, what, head, rows, *rest)


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(path):
    """{name of a picture: (head, rows)}: the first table behind results/NAME.svg or "## NAME"."""
    found, wanted, head, rows = {}, [], None, []
    with open(path, encoding="utf-8") as f:
        for line in f.read().splitlines() + [""]:
            named = re.search(r"\]\(results/(\w+)\.svg\)|^## (\w+)$", line)
            if named:
                wanted.append(named[1] or named[2])
            if not line.startswith("|"):
                if head:
                    found.update({name: (head, rows) for name in wanted})
                    head, rows, wanted = None, [], []
            elif head is None:
                head = cells_of(line)
            elif not line.startswith("|--"):
                rows.append(cells_of(line))
    return found


def by_step(source, path):
    """What bench/recall.c --csv wrote: a line per run."""
    runs, last = {}, 1
    with open(source, newline="", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            key = tuple(list(r.values())[:4])
            runs.setdefault(key, []).append((int(r["step"]), float(r["accuracy"])))
            last = max(last, int(r["step"]))
    width, height, left, right, top, bottom = 860, 460, 66, 290, 66, 56
    p = Picture("Accuracy while they learn", os.path.basename(source), width, height)

    def at(step, accuracy):
        return (left + step / last * (width - left - right),
                top + (1 - accuracy) * (height - top - bottom))
    for value, name in ticks(0, last, 6):
        p.path(f"M{at(value, 0)[0]:.1f} {top}V{height - bottom}", "grid")
        p.text(at(value, 0)[0], height - bottom + 20, name, "small", "middle")
    for value, name in ticks(0, 1, 5):
        p.path(f"M{left} {at(0, value)[1]:.1f}H{width - right}", "grid")
        p.text(left - 8, at(0, value)[1] + 4, name, "small", "end")
    varied = [len({key[k] for key in runs}) > 1 for k in range(4)]
    ends = []
    for key, curve in runs.items():
        row = row_of(key[0])[0] or "product"
        points = [at(*point) for point in curve]
        p.line(points, row, DASHES[0] if row_of(key[0])[1] else "")
        ends.append((*points[-1], ", ".join(v for v, more in zip(key, [True] + varied[1:]) if more),
                     row))
    p.names(ends, width - right + 22, top, height - bottom)
    p.text((left + width - right) / 2, height - 14, "step", "", "middle")
    p.save(path)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else RESULTS
    if out.endswith(".csv"):
        return by_step(out, out[:-4] + ".svg")
    flat(os.path.join(out, "flat.svg"))
    roofline(os.path.join(out, "roofline.svg"))
    kept = tables(os.path.join(BENCH, "README.md"))
    kept.update(tables(os.path.join(RESULTS, "needle.md")))
    for name in PICTURES:
        if name in kept:
            draw(name, *kept[name], os.path.join(out, name + ".svg"))
    return None


if __name__ == "__main__":
    main()
