#!/usr/bin/env python3
"""plots.py: the two pictures of the README, from numbers in bench/results.

    ./flat times >bench/results/flat.csv              what the next token costs (bench/flat.c)
    POINTS=bench/results/roofline.csv ./limits exact decode products          (bench/limits.c)
    python3 bench/plots.py                            draws flat.svg and roofline.svg beside them

Both follow the reader's light or dark background and have one of their own, so that they can be
read on any.
"""
import csv
import math
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
W, H, LEFT, RIGHT, TOP, BOTTOM = 760, 460, 78, 24, 62, 62
STYLE = """
  .card{fill:#ffffff} text{font:13px system-ui,sans-serif;fill:#24292f} .title{font-size:16px;
  font-weight:600} .small{font-size:12px;fill:#57606a} .grid{stroke:#d8dee4;stroke-width:1}
  .axis{stroke:#57606a;stroke-width:1.2;fill:none} .line{fill:none;stroke-width:2.4}
  .roof{fill:none;stroke:#57606a;stroke-width:1.8}
  .s0{stroke:#c2410c} .s1{stroke:#0a6ebd} .s2{stroke:#16803c} .s3{stroke:#8250df}
  .f0{fill:#c2410c} .f1{fill:#0a6ebd} .f2{fill:#16803c} .f3{fill:#8250df}
  @media (prefers-color-scheme: dark){ .card{fill:#0d1117} text{fill:#e6edf3}
  .small{fill:#9da7b3} .grid{stroke:#272e37} .axis,.roof{stroke:#9da7b3}
  .s0{stroke:#ff9a5c} .s1{stroke:#58b0ff} .s2{stroke:#56d364} .s3{stroke:#c9a6ff}
  .f0{fill:#ff9a5c} .f1{fill:#58b0ff} .f2{fill:#56d364} .f3{fill:#c9a6ff} }
"""


def escaped(words):
    return words.replace("&", "&amp;").replace("<", "&lt;")


class Picture:
    """An SVG of text, lines and dots under a title and a sentence."""

    def __init__(self, title, what, width=W, height=H, left=20):
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                    f'width="{width}" height="{height}" role="img" aria-label="{escaped(title)}">',
                    f"<title>{escaped(title)}</title><style>{STYLE}</style>",
                    f'<rect class="card" width="{width}" height="{height}" rx="8"/>']
        self.text(left, 26, title, "title")
        self.text(left, 46, what, "small")

    def text(self, x, y, words, kind="", anchor="start", more=""):
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}" '
                        f"{more}>{escaped(words)}</text>")

    def path(self, way, kind, more=""):
        self.out.append(f'<path class="{kind}" d="{way}"{more}/>')

    def dot(self, x, y, kind, size=4.5):
        self.out.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>')

    def save(self, path):
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(self.out) + "\n</svg>\n")


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

    def line(self, points, kind):
        self.path("M" + "L".join(f"{self.px(x):.1f} {self.py(y):.1f}" for x, y in points), kind)

    def dots(self, points, kind):
        for x, y in points:
            self.dot(self.px(x), self.py(y), kind)


def rows_of(name):
    with open(os.path.join(HERE, name), newline="", encoding="ascii") as f:
        return list(csv.reader(f))


def flat():
    head, *rows = rows_of("flat.csv")
    at = [int(r[0]) for r in rows]
    labels = {"softmax-attention": "softmax attention", "gated-deltanet": "gated DeltaNet",
              "titans": "Titans", "mamba2": "Mamba-2"}
    ticks = [(v, f"{v:,}") for v in at]
    p = Plot("What the next token costs", "one head of 64, a write and a read, one core; attention "
             "sees all tokens before", (200, 1.3e6), (50, 1e9), "tokens before it",
             "time of a token", ticks, [(1e2, "100 ns"), (1e3, "1 \u00b5s"), (1e4, "10 \u00b5s"),
                                        (1e5, "100 \u00b5s"), (1e6, "1 ms"), (1e7, "10 ms"),
                                        (1e8, "100 ms"), (1e9, "1 s")])
    for i, name in enumerate(head[1:]):
        points = [(t, float(r[i + 1])) for t, r in zip(at, rows)]
        p.line(points, f"line s{i}")
        p.dots(points, f"f{i}")
        x, y = points[4]
        dx, dy = (-12, -6) if i == 0 else (0, 20 if i == 3 else -10)
        p.text(p.px(x) + dx, p.py(y) + dy, labels[name], f"f{i}", "end" if i == 0 else "middle")
    p.save(os.path.join(HERE, "flat.svg"))


def roofline():
    rows = rows_of("roofline.csv")[1:]
    peak = next(float(r[3]) for r in rows if r[0] == "peak")
    isa = next(r[1] for r in rows if r[0] == "peak")
    x, y = (0.15, 300), (8, 400)
    p = Plot("How near one core comes to what the machine can do",
             f"{isa}; lines: loops of multiply-adds alone, and of loads and stores alone, in the "
             "same run", x, y, "operations for a byte that has to move", "GFLOP/s",
             [(v, f"{v:g}") for v in (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)],
             [(v, f"{v:g}") for v in (10, 20, 50, 100, 200, 400)])
    p.line([(peak / max(float(r[3]) for r in rows if r[0] == "roof"), peak), (x[1], peak)], "roof")
    p.text(p.px(x[1]) - 4, p.py(peak) - 8, f"{peak:.0f} GFLOP/s", "small", "end")
    for r in rows:
        if r[0] != "roof":
            continue
        rate = float(r[3])
        start = max(x[0], y[0] / rate)
        p.line([(start, start * rate), (peak / rate, peak)], "roof")
        where = r[1].replace("read and write ", "")
        along = 0.6 * peak / rate
        beside = p.py(along * rate) - 7
        slope = -math.degrees(math.atan2(p.py(1 * rate) - p.py(2 * rate), p.px(2) - p.px(1)))
        p.text(0, 0, f"{where}: {rate:.0f} GB/s", "small", "middle",
               f'transform="translate({p.px(along):.1f} {beside:.1f}) '
               f'rotate({slope:.1f})"')
    kinds = [("decoding, one token", "decode", 0), ("exact memories, a sequence", "forward", 1),
             ("matrix products", "product", 2)]
    for i, (name, word, kind) in enumerate(kinds):
        points = [(float(r[2]), float(r[3])) for r in rows
                  if r[0] == "point" and word in r[1] and "'" not in r[1]]
        p.dots(points, f"f{kind}")
        p.dot(W - 236, H - BOTTOM - 62 + 20 * i, f"f{kind}")
        p.text(W - 224, H - BOTTOM - 58 + 20 * i, name)
    p.save(os.path.join(HERE, "roofline.svg"))


if __name__ == "__main__":
    flat()
    roofline()
