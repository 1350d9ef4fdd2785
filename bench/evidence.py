#!/usr/bin/env python3
"""evidence.py: what the papers say of these memories, tried at small scale: the numbers and the
pictures of bench/README.md.

    python3 bench/evidence.py                     everything, about ten hours of two cores
    python3 bench/evidence.py rows parts          some questions
    python3 bench/evidence.py --quick             all of it in a minute: does it run?

  rows     every memory as a language model: loss on prose, three learning rates
  second   the same on a text that is unlike it, at the rates found for the first
  parts    what each part of Titans, Yaad, Moneta and Memora is worth, and the depth, the chunk and
           the gates of a memory
  context  loss by the length of the training windows, at equal tokens
  size     loss by the number of parameters
  space    every bias with every retention: a memory alone at five jobs, and in a network
  parity, s3, s5           can it keep track?
  passkey, number, uuid    can it find a needle?
  rates    those that did not learn one of these, at a third and at three times the learning rate

  --folder FOLDER   where runs are kept (evidence)       --jobs N     runs side by side (2)
  --seeds N         1 to N (3)                           --model A,B  only these lines of a question
                                                     (recall.c's: A:FIELD=VALUE too)

Prose is what examples/data.sh makes of Debian's packages (novels in the public domain); the second
text is the source of Python's own library. Neither decided a default of this library. Networks
have width 64, two layers and 170,000 parameters unless a question says otherwise, and see 300 steps
of 2,048 bytes. The same command has the same losses. What has been run is in FOLDER and is not run
again: stop it when you like, and start it again. A line on a terminal says how far it is.

A question leaves FOLDER/NAME.md (the table) and NAME.svg, which bench/plots.py draws of it (rates
has none); FOLDER/runs.csv has every run.
"""
import argparse
import concurrent.futures
import csv
import os
import statistics
import subprocess
import sys
import sysconfig
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
import plots  # noqa: E402  (the folder of this file has it)

# ---- the questions ----

ROWS = """linear-attention dfw retnet-memory lightning gla-memory mamba-memory mamba2-memory
  hgrn2-memory rwkv6-memory deltanet-memory deltanet-neg-eigval longhorn nlms gated-deltanet
  gated-deltanet-neg-eigval gated-deltanet-2 deltaproduct gated-deltaproduct kda-memory eda
  mdn pgdn pkda-memory comba rwkv7-memory mesa rls softmax-attention sliding-window
  ttt-linear-memory ttt-mlp-memory titans moneta yaad memora atlas""".split()
WHOLES = """titans-mac titans-mag titans-mal moneta-h yaad-h memora-h ttt-linear-mamba ttt-mlp-mamba
  rwkv7 transformer""".split()
FOUR_HEADS = ("ttt-", "titans", "moneta", "yaad", "memora", "atlas", "transformer")
RATES = (0.005, 0.01, 0.02)
RATE = 0.005


def model(name, *more):
    """Options of a model by its name; a name may bring FIELD=VALUE behind colons."""
    name, *fields = name.split(":")
    options = ["--model", name]
    options += ["--heads", "4" if name.startswith(FOUR_HEADS) else "2"]
    if name == "titans-mac":
        options += ["--set", "attention.window=16"]  # segments that a window has several of
    for field in fields:
        options += ["--set", field]
    return options + list(more)


CONV = ("--pattern", "(cm)*2")
EVERY_ROW = {name: model(name) for name in ROWS + WHOLES}
EVERY_ROW["titans that do not learn"] = model("titans:memory.learning_rate=0")
EVERY_ROW["transformer + convolutions"] = model("transformer", "--pattern", "(ca)*2")
EVERY_ROW["titans + convolutions"] = model("titans", *CONV)
EVERY_ROW["gated-deltanet + convolutions"] = model("gated-deltanet", *CONV)

SIX = {"yaad": model("yaad"), "titans": model("titans"), "moneta": model("moneta"),
       "memora": model("memora"), "gated-deltanet": model("gated-deltanet"),
       "transformer + convolutions": model("transformer", "--pattern", "(ca)*2")}

# Every group begins with what the others are compared with.
PARTS = {
    "Titans": {
        "as it comes": "titans",
        "no decay": "titans:memory.retention=all",
        "no momentum": "titans:memory.algorithm=gradient-descent",
        "no convolution": "titans:mixer.conv_on=none",
        "rates that no token sets": "titans:memory.decay_gate=constant:"
                                    "memory.learning_rate_gate=constant:"
                                    "memory.momentum_gate=constant",
        "a gate per channel": "titans:memory.decay_gate=channel:memory.learning_rate_gate=channel",
        "rotary positions": "titans:mixer.rope.type=position",
        "a matrix": "titans:memory.architecture=matrix",
        "it does not learn": "titans:memory.learning_rate=0"},
    "Titans' integrations": {
        "MAC": "titans-mac", "MAC, no persistent pairs": "titans-mac:attention.persistent=0",
        "MAG": "titans-mag", "MAG, no persistent pairs": "titans-mag:attention.persistent=0",
        "MAL": "titans-mal", "MAL, no persistent pairs": "titans-mal:w.attention.persistent=0"},
    "Yaad": {
        "as it comes": "yaad",
        "no retention": "yaad:memory.retention=all",
        "a threshold that no token sets": "yaad:memory.threshold_gate=constant:memory.threshold=1",
        "bias L2": "yaad:memory.bias=l2:memory.threshold_gate=constant",
        "bias L1": "yaad:memory.bias=lp:memory.p=1:memory.threshold_gate=constant",
        "a matrix": "yaad:memory.architecture=matrix",
        "gates of a head": "yaad:memory.decay_gate=head:memory.learning_rate_gate=head:"
                           "memory.threshold_gate=head",
        "rotary positions": "yaad:mixer.rope.type=position",
        "it does not learn": "yaad:memory.learning_rate=0"},
    "Moneta": dict(
        {"as it comes (p 3, q 2.5)": "moneta"},
        **{f"p {p}": f"moneta:memory.p={p}" for p in (1, 1.5, 2, 2.5, 4)},
        **{f"q {q}": f"moneta:memory.q={q}" for q in (2, 3, 4, 5)},
        **{"no retention": "moneta:memory.retention=all"}),
    "Memora": {
        "as it comes": "memora",
        "as in the paper: weights positive": "memora:memory.simplex_signed=0",
        "the whole layer one simplex": "memora:memory.simplex_whole=1",
        "retention L2": "memora:memory.retention=l2",
        "no retention": "memora:memory.retention=all"},
    "depth": {f"yaad, depth {n}": f"yaad:memory.depth={n}" for n in (2, 1, 3, 4)},
    "chunk": {f"yaad, chunk {n}": f"yaad:memory.chunk={n}" for n in (16, 1, 4, 64)},
}

REFLECT = "memory.learning_rate=2"  # writes may reflect what the memory holds
TRACKING = f"""linear-attention mamba-memory mamba2-memory gated-deltanet gated-deltanet-neg-eigval
  gated-deltanet-2 comba deltanet-memory deltanet-neg-eigval deltaproduct gated-deltaproduct
  rwkv7-memory kda-memory kda-memory:{REFLECT} mesa softmax-attention""".split()
SEARCHING = """mamba2-memory deltanet-memory gated-deltanet ttt-mlp-memory titans yaad moneta memora
  titans-mac titans-mag titans-mal softmax-attention titans:memory.learning_rate=0""".split()
TASKS = {   # rows, how, learning rates
    "parity": (TRACKING, "--length 32 --longer 2,4,8 --steps 1500", ["0.003"]),
    "s3": (TRACKING, "--length 32 --longer 2,4,8 --steps 3000", ["0.003", "0.01"]),
    "s5": (TRACKING, "--length 16 --longer 2,4,8 --steps 3000", ["0.003"]),
    **{name: (SEARCHING, f"--length 128 --longer 4,16,64,128 --batch 16 --steps {steps} "
                         "--stop 0.98 --sequences 32 --curve-sequences 64", ["0.003"])
       for name, steps in (("passkey", 2000), ("number", 2000), ("uuid", 3000))},
}
STRUGGLING = {   # of them rows that learn them with no seed or with one
    "s3": ["deltaproduct", "gated-deltaproduct", "gated-deltanet-neg-eigval",
           "deltanet-neg-eigval"],
    "s5": ["deltanet-neg-eigval", "gated-deltaproduct", f"kda-memory:{REFLECT}",
           "softmax-attention"],
    "passkey": ["mamba2-memory"],
    "number": ["mamba2-memory", "titans-mac"],
    "uuid": ["gated-deltanet", "mamba2-memory"],
}

# ---- runs ----


class Runs:
    """Runs of programs, kept in a file: a key and what the program said."""

    def __init__(self, path, jobs):
        self.path, self.jobs, self.lock = path, jobs, threading.Lock()
        self.known = {}
        if os.path.exists(path):
            with open(path, newline="", encoding="utf-8") as f:
                self.known = {row[0]: row[1] for row in csv.reader(f) if len(row) == 2}

    def all(self, wanted):
        """Run what is not known of wanted {key: function that returns a string}."""
        missing = [key for key in wanted if key not in self.known]
        start, done = time.monotonic(), 0
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            futures = {pool.submit(wanted[key]): key for key in missing}
            try:
                for future in concurrent.futures.as_completed(futures):
                    self.keep(futures[future], future.result())
                    done += 1
                    left = (time.monotonic() - start) / done * (len(missing) - done) / 60
                    self.say(f"{done} of {len(missing)}, about {left:.0f} minutes left: "
                             f"{futures[future]}")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return {key: self.known[key] for key in wanted}

    def keep(self, key, said):
        with self.lock:
            self.known[key] = said
            with open(self.path, "a", newline="", encoding="utf-8") as f:
                csv.writer(f).writerow((key, said))

    @staticmethod
    def say(words):
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K" + words[:100])
            sys.stderr.flush()


class Bench:
    """What the questions share: programs, texts, runs."""

    def __init__(self, o):
        self.o = o
        os.makedirs(o.folder, exist_ok=True)
        self.runs = Runs(os.path.join(o.folder, "quick.csv" if o.quick else "runs.csv"), o.jobs)
        self.serial, self.compiled = 0, set()
        self.seeds = range(1, 2 if o.quick else o.seeds + 1)

    def path(self, name):
        return os.path.join(self.o.folder, name)

    def program(self, source):
        """Compile bench/NAME.c or examples/NAME.c, if it has not been."""
        name = self.path(os.path.basename(source)[:-2])
        if name not in self.compiled:
            cc = os.environ.get("CC", "cc").split() + ["-O1" if self.o.quick else "-O2"]
            subprocess.run(cc + [os.path.join(ROOT, source), "-o", name, "-lm", "-lpthread"],
                           check=True)
            self.compiled.add(name)
        return os.path.abspath(name)

    def text(self, which):
        """The path of a text: prose, or python."""
        if self.o.quick:
            return os.path.join(ROOT, "README.md")
        path = self.path(which + ".txt")
        with self.runs.lock:         # runs side by side ask for it at once
            if not os.path.exists(path):
                (self.prose if which == "prose" else self.library)(path)
        return os.path.abspath(path)

    @staticmethod
    def prose(path):
        subprocess.run(["sh", os.path.join(ROOT, "examples", "data.sh"), "prose",
                        os.path.dirname(path)], check=True)

    @staticmethod
    def library(path):
        library = sysconfig.get_paths()["stdlib"]
        with open(path + ".part", "wb") as f:
            for name in sorted(n for n in os.listdir(library) if n.endswith(".py")):
                with open(os.path.join(library, name), "rb") as source:
                    f.write(source.read())
        os.rename(path + ".part", path)

    def loss(self, text, options, rate, seed, context=256, steps=300, size=(64, 170000)):
        """(key, function): a language model's losses, "windows,pass,parameters" or a refusal."""
        batch = max(1, 2048 // context)
        steps = 4 if self.o.quick else steps * 2048 // (batch * context)
        told = options + ["--context", str(context), "--batch", str(batch), "--steps", str(steps),
                          "--lr", str(rate), "--seed", str(seed), "--dim", str(size[0]),
                          "--parameters", str(size[1])]
        return " ".join([text] + told), lambda: self.train(text, told)

    def train(self, text, told):
        with self.runs.lock:
            self.serial += 1
            out = self.path(f"model{self.serial}.safetensors")
        command = [self.program("examples/lm.c"), "train", self.text(text), "--layers", "2",
                   "--warmup", "50", "--val", "0.02", "--eval-every", "1000000", "--threads", "1",
                   "--out", out] + told
        done = subprocess.run(command, capture_output=True, check=False,
                              encoding="utf-8", errors="replace")
        for end in ("", ".vocab", ".loss.csv", ".loss.svg"):
            if os.path.exists(out + end):
                os.remove(out + end)
        line = [x for x in done.stdout.splitlines() if x.startswith("result ")]
        if not line:
            return "refused: " + done.stderr.strip().splitlines()[-1]
        said = dict(x.split("=", 1) for x in line[0].split()[1:])
        return f"{said['val']},{said['stream']},{said['parameters']}"


def numbers(said):
    """(windows, pass, parameters), or None where a run was refused."""
    return None if said.startswith("refused") else tuple(float(x) for x in said.split(","))


def chosen(o, lines):
    """Those of the lines of a question that --model names."""
    wanted = o.model.split(",") if o.model else None
    lines = {k: v for k, v in lines.items() if not wanted or k in wanted}
    return dict(list(lines.items())[:2]) if o.quick else lines


def swept(b, text, lines, rates=None, **more):
    """{label: (rate, [(windows, pass, parameters) by seed])}: the rate that is best with seed 1."""
    tried = {}
    for label, options in lines.items():
        for rate in rates[label] if rates else RATES[:1] if b.o.quick else RATES:
            tried[label, rate] = b.loss(text, options, rate, 1, **more)
    said = b.runs.all(dict(tried.values()))
    best = {}
    for (label, rate), (key, _) in tried.items():
        x = numbers(said[key])
        if x and (label not in best or x[0] < best[label][0]):
            best[label] = x[0], rate
        elif not x:
            print(f"{label}: {said[key]}")
    rest = {(label, seed): b.loss(text, lines[label], rate, seed, **more)
            for label, (_, rate) in best.items() for seed in b.seeds}
    said = b.runs.all(dict(rest.values()))
    return {label: (rate, [numbers(said[rest[label, seed][0]]) for seed in b.seeds])
            for label, (_, rate) in best.items()}


# ---- tables and pictures ----


def grids(path, title, what, maps):
    """maps: [(name, sentence, more is better, {(row, column): value})], all of the same rows and
    columns or some of them; darker is better."""
    rows, columns = (list(dict.fromkeys(cell[k] for cell in maps[0][3])) for k in (0, 1))
    cell, left, top, gap, across = (44, 19), 116, 80, 96, 2
    wide = left + cell[0] * len(columns) + 24
    tall = gap + cell[1] * len(rows)
    p = plots.Picture(title, what, wide * min(across, len(maps)),
                      top + tall * ((len(maps) + across - 1) // across) + 10)
    for m, (name, sentence, more, values) in enumerate(maps):
        x0, y0 = wide * (m % across) + left, top + tall * (m // across) + 66
        p.text(x0, y0 - 58, name, "title")
        p.text(x0, y0 - 42, sentence, "small")
        shown = sorted(values.values(), reverse=more)
        best, worst = shown[0], shown[-1] if more else shown[int(0.9 * (len(shown) - 1))]
        for j, column in enumerate(columns):
            p.text(x0 + cell[0] * (j + 0.5), y0 - 6 - (12 if j % 2 else 0), column, "small",
                   "middle")
        for i, row in enumerate(rows):
            y = y0 + cell[1] * i
            p.text(x0 - 8, y + 14, row, "small", "end")
            for j, column in enumerate(columns):
                v = values.get((row, column))
                if v is None:
                    continue
                share = max(0.0, min(1.0, (v - worst) / (best - worst))) if best != worst else 1
                p.out.append(f'<rect class="map" fill-opacity="{0.5 * share:.2f}" '
                             f'x="{x0 + cell[0] * j}" y="{y}" width="{cell[0] - 1}" '
                             f'height="{cell[1] - 1}"/>')
                p.text(x0 + cell[0] * (j + 0.5), y + 13, f"{v:.2f}", "", "middle")
    p.save(path)


def table(b, name, head, rows):
    """A Markdown table, printed too, and its picture, where it has one."""
    rows = [[str(x) for x in row] for row in rows]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    with open(b.path(name + ".md"), "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    print("\n".join(lines) + "\n")
    if name in plots.PICTURES:
        plots.draw(name, head, rows, b.path(name + ".svg"))


def spread(xs):
    """The median of some runs, and how far they lie apart."""
    return f"{statistics.median(xs):.3f}", f"{min(xs):.3f}", f"{max(xs):.3f}"


# ---- the answers ----


def rows_on(b, name, text, rates=None):
    found = swept(b, text, chosen(b.o, EVERY_ROW), rates)
    order = sorted(found, key=lambda x: statistics.median(v[0] for v in found[x][1]))
    table(b, name,
          ["row", "windows", "lowest", "highest", "one pass", "rate", "parameters"],
          [[x, *spread([v[0] for v in found[x][1]]),
            f"{statistics.median(v[1] for v in found[x][1]):.3f}", f"{found[x][0]:g}",
            f"{found[x][1][0][2]:.0f}"] for x in order])


def rows(b):
    rows_on(b, "rows", "prose")


def second(b):
    """At the rates that were best on the first text."""
    first = swept(b, "prose", chosen(b.o, EVERY_ROW))
    rows_on(b, "second", "python", {label: [rate] for label, (rate, _) in first.items()})


def parts(b):
    wanted = {(group, label, seed): b.loss("prose", model(name), RATE, seed)
              for group, lines in PARTS.items() for label, name in chosen(b.o, lines).items()
              for seed in b.seeds}
    said = b.runs.all(dict(wanted.values()))
    shown = []
    for group, names in PARTS.items():
        base = None
        for label in chosen(b.o, names):
            runs = [said[wanted[group, label, seed][0]] for seed in b.seeds]
            xs = [numbers(x) for x in runs]
            if None in xs:
                shown.append([f"{group}: {label}", "refused", "", "", ""])
                print(f"{group}: {label}: {runs[0]}")
                continue
            ys = [x[0] for x in xs]
            base = statistics.median(ys) if base is None else base
            shown.append([f"{group}: {label}", *spread(ys), f"{statistics.median(ys) - base:+.3f}"])
    table(b, "parts", ["part", "windows", "lowest", "highest", "against the first"], shown)


def by_number(b, name, lines, xs, told):
    """A loss for each of xs: windows, and one pass."""
    lines = chosen(b.o, lines)
    wanted = {(label, x, seed): b.loss("prose", options, RATE, seed, **told(x))
              for label, options in lines.items() for x in xs for seed in b.seeds}
    said = b.runs.all(dict(wanted.values()))

    def middle(label, x, which):
        vs = [numbers(said[wanted[label, x, seed][0]]) for seed in b.seeds]
        return None if None in vs else statistics.median(v[which] for v in vs)
    found = {label: [[middle(label, x, k) for x in xs] for k in (0, 1)] for label in lines}
    table(b, name, ["row"] + [f"{x:,}" for x in xs] + [f"pass, {x:,}" for x in xs],
          [[label] + [f"{v:.3f}" if v else "" for v in windows + passes]
           for label, (windows, passes) in found.items()])


def context(b):
    by_number(b, "context", SIX, (64, 256, 1024, 4096), lambda x: {"context": x})


def size(b):
    widths = {45000: 32, 170000: 64, 650000: 128}
    by_number(b, "size", SIX, tuple(widths), lambda x: {"size": (widths[x], x)})


def space(b):
    csv_file = b.path("space_alone.csv")
    if not os.path.exists(csv_file) or b.o.quick:
        with open(b.path("space_alone.md"), "w", encoding="utf-8") as f:
            subprocess.run([b.program("bench/space.c"), "--csv", csv_file]
                           + (["--quick"] if b.o.quick else []), check=True, stdout=f)
    alone, nearest = {}, {}      # by job: scores of the cells, and of the rules that keep all pairs
    with open(csv_file, newline="", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            if row["bias"] == "baseline":
                nearest.setdefault(row["job"], []).append(
                    f"{row['retention']} {float(row['score']):.2f}")
            elif row["score"] != "refused":
                cell = row["bias"], row["retention"]
                alone.setdefault(row["job"], {})[cell] = float(row["score"])
    cells = list(next(iter(alone.values())))[:2 if b.o.quick else None]
    wanted = {(x, r): b.loss("prose", model(f"yaad:memory.bias={x}:memory.retention={r}"),
                             RATE, 1, steps=150) for x, r in cells}
    said = b.runs.all(dict(wanted.values()))
    network = {cell: numbers(said[key]) for cell, (key, _) in wanted.items()}
    for cell, found in network.items():
        if not found:
            print(f"{' with '.join(cell)}: {said[wanted[cell][0]]}")
    network = {cell: found[0] for cell, found in network.items() if found}
    biases, retentions = (list(dict.fromkeys(cell[k] for cell in cells)) for k in (0, 1))
    table(b, "space", ["bias"] + retentions,
          [[x] + [f"{network[x, r]:.3f}" if (x, r) in network else "" for r in retentions]
           for x in biases])
    grids(b.path("space.svg"), "Which bias and which retention for what?",
          "darker is better; a matrix alone: the cosine of answer and truth at five jobs; then the "
          "loss of a network",
          [(job, ", ".join(nearest[job]), True, values) for job, values in alone.items()]
          + [("in a network (nats per byte)", "Yaad's perceptron, 150 steps of prose", False,
              network)])


def asks(b, name):
    """The command of a question that bench/recall.c asks, and how it is told to."""
    told = TASKS[name][1].split()
    if b.o.quick:
        told[told.index("--steps") + 1] = "2"
        told += ["--sequences", "2", "--curve-sequences", "2", "--longer", "2"]
    text = "README.md" if b.o.quick else "/usr/share/common-licenses/GPL-3"
    return [b.program("bench/recall.c"), "--task", name, "--text", os.path.join(ROOT, text)], told


def recall(command, *more):
    return subprocess.run(command + list(more), stdout=subprocess.PIPE, encoding="utf-8",
                          check=True).stdout


def asked(b, name, m, seed, rate):
    """(key, function): what recall keeps of a run."""
    command, told = asks(b, name)
    told += ["--lr", rate]
    kept = b.path(".".join([name, m.replace("/", "_"), rate, str(seed)]))

    def run():
        recall(command, *told, "--model", m, "--seeds", f"{seed},", "--results", kept)
        with open(kept, encoding="utf-8") as f:
            said = f.read()
        os.remove(kept)
        return said
    return f"{name} {m} {' '.join(told)} seed {seed}", run


def task(name):
    """A question that bench/recall.c asks."""
    def ask(b):
        named = [m for m in b.o.model.split(",") if m]
        models = [m for m in TASKS[name][0] if not named or m in named]
        models += [m for m in named if ":" in m and m not in models]
        models = models[-1:] if b.o.quick else models
        command, told = asks(b, name)
        kept = b.path(name + ".txt")
        said = b.runs.all(dict(asked(b, name, m, seed, rate) for rate in TASKS[name][2]
                               for m in models for seed in b.seeds))
        with open(kept, "w", encoding="utf-8") as f:      # all of them: one table, one picture
            f.write("".join(said.values()))
        seeds = ",".join(str(seed) for seed in b.seeds) + ","
        lines = [plots.cells_of(x) for x in
                 recall(command, *told, "--model", ",".join(models), "--seeds", seeds, "--lr",
                        ",".join(TASKS[name][2]), "--results", kept).splitlines()
                 if x.startswith("| ")]
        times = [(k, int(x[6:])) for k, x in enumerate(lines[0]) if x.startswith("times ")]
        length = int(lines[1][1])
        table(b, name, ["row", "rate", f"{length:,}", "lowest", "highest"]
              + [f"{length * n:,}" for _, n in times],
              [[x[0].replace(":memory.", ", "), x[2], *x[3:6], *(x[k] for k, _ in times)]
               for x in lines[1:]])
    return ask


def rates(b):
    """Accuracies after training: the median, and every seed."""
    tried = ["0.001", "0.003", "0.01"]
    lines = [(name, m) for name, models in STRUGGLING.items()
             for m in chosen(b.o, dict.fromkeys(models))]
    wanted = {(name, m, rate, seed): asked(b, name, m, seed, rate)
              for name, m in (lines[:1] if b.o.quick else lines) for rate in tried
              for seed in b.seeds}
    said = b.runs.all(dict(wanted.values()))

    def shown(name, m, rate):
        ys = [float(said[wanted[name, m, rate, seed][0]].split("\t")[1].split()[1])
              for seed in b.seeds]
        return f"{statistics.median(ys):.2f} ({', '.join(f'{y:.2f}' for y in ys)})"
    table(b, "rates", ["question: row", *tried],
          [[f"{name}: {m}", *(shown(name, m, rate) for rate in tried)]
           for name, m in dict.fromkeys(key[:2] for key in wanted)])


QUESTIONS = {"rows": rows, "second": second, "parts": parts, "context": context, "size": size,
             "space": space, **{name: task(name) for name in TASKS}, "rates": rates}


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("questions", nargs="*", metavar="QUESTION")
    p.add_argument("--folder", default="evidence")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--model", default="")
    p.add_argument("--quick", action="store_true")
    o = p.parse_args()
    for name in o.questions:
        if name not in QUESTIONS:
            p.error(f"there is no question {name}; they are {', '.join(QUESTIONS)}")
    b = Bench(o)
    for source in ("examples/lm.c", "bench/recall.c"):
        b.program(source)
    for name in o.questions or QUESTIONS:
        print(f"## {name}\n", flush=True)
        QUESTIONS[name](b)


if __name__ == "__main__":
    main()
