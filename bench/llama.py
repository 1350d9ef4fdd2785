"""llama.py: what reading a prompt and writing take beside llama.cpp, on the same GGUF file.

    cc -O2 examples/run.c -o run -lm
    python3 -m venv venv && venv/bin/pip install xllamacpp
    venv/bin/python bench/llama.py FILE.gguf [ROUNDS]         the table of bench/results/llama.md

llama.cpp is what is in xllamacpp of PyPI. Both take the same tokens, 256 to read and 48 to write,
greedily, in a process of their own, in turns; of each the best of ROUNDS (3) counts. Differences of
whole runs are taken, so that a row is of what it says alone: seconds of all processors, and on the
wall. run holds matrices as --weights says; llama.cpp as the file has them. Memory is the peak of a
process that reads and writes, with a context of 1,024 tokens.
"""
import json
import os
import resource
import subprocess
import sys
import time

READ, WRITE, CONTEXT = 256, 48, 1024
IDS = [7919 * i % 40000 + 100 for i in range(READ)]


def measured(work):
    """Seconds of processors and on the wall."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.time()
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            time.time() - start)


def theirs(path, threads):
    """In a process of its own: load, read, read and write."""
    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.verbosity = path, CONTEXT, 1, False, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
    made = []

    def complete(ids, tokens):
        made[0].handle_completions({"prompt": ids, "n_predict": tokens, "temperature": 0,
                                    "cache_prompt": False, "ignore_eos": True})

    load = measured(lambda: made.append(xllamacpp.Server(p)))
    complete(IDS[:2], 1)
    read = measured(lambda: complete(IDS, 1))
    both = measured(lambda: complete(IDS, 1 + WRITE))
    print("RESULT", json.dumps([load, read, both,
                                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]), flush=True)
    os._exit(0)


def child(command, text):
    """Its seconds, of processors and on the wall, and its peak in KB."""
    start = time.time()
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True)
    p.stdin.write(text)
    p.stdin.close()
    out = p.stdout.read()
    _, status, used = os.wait4(p.pid, 0)
    if status:
        sys.exit("%s failed" % command[0])
    return (used.ru_utime + used.ru_stime, time.time() - start), used.ru_maxrss, out


def ours(path, threads, weights):
    def run(ids, tokens):
        return child(["./run", path, "--ids", "--tokens", str(tokens), "--temperature", "0",
                      "--window", str(CONTEXT), "--weights", weights, "--threads", str(threads)],
                     " ".join(map(str, IDS[:ids])))
    load, _, _ = run(1, 0)
    read, _, _ = run(READ, 0)
    both, peak, _ = run(READ, WRITE)
    minus = lambda a, b: (a[0] - b[0], a[1] - b[1])
    return [load, minus(read, load), minus(both, load), peak]


def main():
    if sys.argv[1] == "--theirs":
        theirs(sys.argv[2], int(sys.argv[3]))
    path, rounds, best = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3, {}
    for _ in range(rounds):
        for threads in (1, 2):
            out = child([sys.executable, __file__, "--theirs", path, str(threads)], "")[2]
            runs = {("llama.cpp", threads): json.loads(out.split("RESULT ")[1].splitlines()[0])}
            for weights in ("q8", "bf16"):
                runs["run, " + weights, threads] = ours(path, threads, weights)
            for key, (load, read, both, peak) in runs.items():
                now = [*load, *read, both[0] - read[0], both[1] - read[1], peak / 1024]
                best[key] = [min(pair) for pair in zip(now, best.get(key, now))]
    print("| | threads | load, wall s | read, tokens/s of CPU | on the wall | "
          "write, tokens/s of CPU | on the wall | peak, MB |\n|---|--:|--:|--:|--:|--:|--:|--:|")
    for (name, threads), b in best.items():
        print("| %s | %d | %.2f | %.0f | %.0f | %.1f | %.1f | %.0f |" % (
            name, threads, b[1], READ / b[2], READ / b[3], WRITE / b[4], WRITE / b[5], b[6]))


main()
