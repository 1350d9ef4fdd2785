"""llama.py: what reading a prompt and writing take beside llama.cpp, on the same GGUF file.

    cc -O2 examples/run.c -o run -lm
    python3 -m venv venv && venv/bin/pip install xllamacpp gguf
    venv/bin/python bench/llama.py FILE.gguf [ROUNDS]                  a table of this file
    venv/bin/python bench/llama.py --shapes [FOLDER [ROUNDS [SHAPE ...]]]    one of each shape

llama.cpp is what is in xllamacpp of PyPI. Both take the same tokens, 256 to read and 48 to write,
greedily, in a process of their own, in turns; of every run the best of ROUNDS (3) counts. Rows are
differences of these, so that each is of what it says alone: milliseconds a token, of all processors
and on the wall. run holds matrices as the row says, read from the GGUF file, or from a file of its
own that `run --save` has made of that before; llama.cpp as the file has them. Memory is the peak of
a process that reads and writes, with a context of 1,024 tokens. Columns "beside llama.cpp" are
figures of run over those of llama.cpp on the same file and threads; "same" says how many of the
first tokens that are written are llama.cpp's: rounding parts them sooner or later.

--shapes: no registry has weights of recurrent models, so files of the published shapes are written
to FOLDER (else to a new one under the system's), each as bf16, Q8_0 and Q4_0 of one set of random
numbers (3.9 GB, and as much for run's own). What llama-quantize leaves as it is stays so; the
head is of the file's type too, as with its --pure. Vocabularies are of the published sizes, and
their texts are fillers. Files that are there are taken. TOKENS='32 8' in the environment reads and
writes that many, to try it.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zlib

READ, WRITE = (int(n) for n in os.environ.get("TOKENS", "256 48").split())
CONTEXT = 1024
IDS = [7919 * i % 40000 + 100 for i in range(READ)]
KINDS = {"bf16": "BF16", "q8": "Q8_0", "q4": "Q4_0"}   # what run calls them, and the files


# ---- files of random numbers ----

# A tensor: its name, its shape, what it is kept as, and its numbers' mean and deviation. Matrices
# are "" and become what the file is of.

def matrix(name, rows, columns, kept=""):
    return name + ".weight", (rows, columns), kept, 0, columns ** -0.5


def vector(name, size, mean=0.0, deviation=0.1):
    return name, size if isinstance(size, tuple) else (size,), "F32", mean, deviation


def gain(name, size):
    return vector(name + ".weight", size, 1.0)


def mamba2_130m():
    layers, width, inner, state, heads, vocabulary = 24, 768, 1536, 128, 24, 50288
    both = inner + 2 * state
    tensors = [matrix("token_embd", vocabulary, width), gain("output_norm", width)]
    for i in range(layers):
        b = "blk.%d." % i
        tensors += [
            gain(b + "attn_norm", width), matrix(b + "ssm_in", inner + both + heads, width),
            vector(b + "ssm_conv1d.weight", (both, 4), 0, 0.5), vector(b + "ssm_conv1d.bias", both),
            vector(b + "ssm_dt.bias", heads, -4, 1), vector(b + "ssm_a", (heads, 1), -4, 0.5),
            vector(b + "ssm_d", (heads, 1), 1), gain(b + "ssm_norm", (1, inner)),
            matrix(b + "ssm_out", width, inner)]
    return "mamba2", vocabulary, {
        "block_count": layers, "embedding_length": width, "context_length": 1 << 20,
        "feed_forward_length": 0, "attention.head_count": 0, "vocab_size": vocabulary,
        "attention.layer_norm_rms_epsilon": 1e-5, "ssm.conv_kernel": 4, "ssm.inner_size": inner,
        "ssm.state_size": state, "ssm.time_step_rank": heads, "ssm.group_count": 1}, tensors


def rwkv7_01b():
    layers, width, inner, vocabulary = 12, 768, 3072, 65536
    ranks = {"w": 64, "a": 64, "v": 32, "g": 128}
    tensors = [matrix("token_embd", vocabulary, width), matrix("output", vocabulary, width)]
    norms = ["token_embd_norm", "output_norm"]
    for i in range(layers):
        b, mix = "blk.%d." % i, "blk.%d.time_mix_" % i
        norms += [b + "attn_norm", b + "attn_norm_2", mix + "ln"]
        tensors += [vector(mix + "lerp_fused.weight", (6, 1, 1, width), 0.5, 0.15),
                    vector(b + "channel_mix_lerp_k.weight", width, 0.5, 0.15),
                    matrix(b + "channel_mix_key", inner, width),
                    matrix(b + "channel_mix_value", width, inner)]
        tensors += [matrix(mix + name, width, width)
                    for name in ("receptance", "key", "value", "output")]
        for letter, rank in ranks.items():
            kept = "F32" if letter == "w" else "BF16"
            if not i and letter == "v":      # unused there, and of another rank
                rank = ranks["a"]
            tensors += [matrix(mix + letter + "1", rank, width, kept),
                        matrix(mix + letter + "2", width, rank, kept)]
        tensors += [vector(mix + name + ".weight", width, mean, 0.2)
                    for name, mean in (("w0", -3), ("a0", 0), ("v0", 0), ("k_k", 1), ("k_a", 0.5),
                                       ("r_k", 0))]
    for name in norms:
        tensors += [gain(name, width), vector(name + ".bias", width)]
    return "rwkv7", vocabulary, {
        "block_count": layers, "embedding_length": width, "context_length": 1 << 20,
        "feed_forward_length": inner, "attention.head_count": 0, "vocab_size": vocabulary,
        "attention.layer_norm_epsilon": 1e-5, "wkv.head_size": 64, "token_shift_count": 2,
        "attention.decay_lora_rank": ranks["w"], "attention.iclr_lora_rank": ranks["a"],
        "attention.value_residual_mix_lora_rank": ranks["v"],
        "attention.gate_lora_rank": ranks["g"]}, tensors


def qwen35_08b():
    layers, width, inner, vocabulary = 24, 1024, 3584, 248320
    queries, keys, size = 8, 2, 256     # of attention
    heads, each = 16, 128               # of memories, as many of keys as of values
    rows = heads * each
    tensors = [matrix("token_embd", vocabulary, width), gain("output_norm", width)]
    for i in range(layers):
        b = "blk.%d." % i
        tensors += [gain(b + "attn_norm", width), gain(b + "post_attention_norm", width),
                    matrix(b + "ffn_gate", inner, width), matrix(b + "ffn_up", inner, width),
                    matrix(b + "ffn_down", width, inner)]
        if i % 4 == 3:
            tensors += [
                matrix(b + "attn_q", 2 * queries * size, width),
                matrix(b + "attn_k", keys * size, width), matrix(b + "attn_v", keys * size, width),
                gain(b + "attn_q_norm", size), gain(b + "attn_k_norm", size),
                matrix(b + "attn_output", width, queries * size)]
            continue
        tensors += [
            matrix(b + "attn_qkv", 3 * rows, width), matrix(b + "attn_gate", rows, width),
            vector(b + "ssm_conv1d.weight", (3 * rows, 4), 0, 0.5),
            matrix(b + "ssm_alpha", heads, width, "BF16"),
            matrix(b + "ssm_beta", heads, width, "BF16"), vector(b + "ssm_dt.bias", heads, -4, 1),
            vector(b + "ssm_a", heads, -4, 0.5), gain(b + "ssm_norm", each),
            matrix(b + "ssm_out", width, rows)]
    return "qwen35", vocabulary, {
        "block_count": layers, "embedding_length": width, "context_length": 262144,
        "feed_forward_length": inner, "attention.head_count": queries, "vocab_size": vocabulary,
        "attention.head_count_kv": keys, "attention.key_length": size,
        "attention.value_length": size, "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": size // 4, "rope.freq_base": 1e7,
        "rope.dimension_sections": [11, 11, 10, 0], "full_attention_interval": 4,
        "ssm.conv_kernel": 4, "ssm.state_size": each, "ssm.group_count": heads,
        "ssm.time_step_rank": heads, "ssm.inner_size": rows}, tensors


SHAPES = {"mamba2-130m": mamba2_130m, "rwkv7-0.1B": rwkv7_01b, "qwen3.5-0.8B": qwen35_08b}


def write_head(writer, arch, vocabulary, fields, tensors, types):
    """Everything before the first number."""
    import numpy
    from gguf.constants import GGML_QUANT_SIZES
    for key, value in fields.items():
        add = {int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
        add[type(value)]("%s.%s" % (arch, key), value)
    writer.add_tokenizer_model("rwkv" if arch == "rwkv7" else "gpt2")
    if arch != "rwkv7":
        writer.add_tokenizer_pre("default")
        writer.add_token_merges(["t 1"])
    writer.add_token_list(["t%d" % i for i in range(vocabulary)])
    writer.add_token_types([3, 3] + [1] * (vocabulary - 2))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    for (name, shape, _, _, _), of in zip(tensors, types):
        numbers, size = GGML_QUANT_SIZES[of]
        writer.add_tensor_info(name, shape, numpy.dtype("float32"),
                               int(numpy.prod(shape)) // numbers * size, of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()


def write_shape(path, shape, kind):
    """Matrices are rounded to bf16 before they become anything else; a piece is in memory."""
    import gguf
    import numpy
    from gguf.quants import dequantize, quantize
    arch, vocabulary, fields, tensors = SHAPES[shape]()
    bf16 = gguf.GGMLQuantizationType.BF16
    types = [gguf.GGMLQuantizationType[kept or kind] for _, _, kept, _, _ in tensors]
    writer = gguf.GGUFWriter(path + ".part", arch)
    write_head(writer, arch, vocabulary, fields, tensors, types)
    out = writer.fout[0]
    for (name, lengths, kept, mean, deviation), of in zip(tensors, types):
        draw = numpy.random.default_rng(zlib.crc32(name.encode()))
        count, columns = int(numpy.prod(lengths)), lengths[-1]
        writer.write_padding(out, out.tell())
        for at in range(0, count, 4096 * columns):
            x = draw.standard_normal(min(count - at, 4096 * columns), numpy.float32)
            x = (numpy.float32(mean) + numpy.float32(deviation) * x).reshape(-1, columns)
            if kept != "F32":
                x = dequantize(quantize(x, bf16), bf16)
            out.write(quantize(x, of).tobytes())
    writer.write_padding(out, out.tell())
    writer.close()
    os.replace(path + ".part", path)


# ---- what is measured ----

def measured(work):
    """Seconds of processors and on the wall."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.time()
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            time.time() - start)


def theirs(path, threads, asked):
    """In a process of its own: load, read, read and write; then the tokens, if they are asked for,
    with no clock."""
    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.verbosity = path, CONTEXT, 1, False, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
    made = []

    def complete(ids, tokens, **more):
        return made[0].handle_completions({"prompt": ids, "n_predict": tokens, "temperature": 0,
                                           "cache_prompt": False, "ignore_eos": True, **more})

    load = measured(lambda: made.append(xllamacpp.Server(p)))
    complete(IDS[:2], 1)
    read = measured(lambda: complete(IDS, 1))
    both = measured(lambda: complete(IDS, 1 + WRITE))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = []
    if asked:
        said = complete(IDS, WRITE, n_probs=1)["choices"][0]["logprobs"]["content"]
    print("RESULT", json.dumps([[load, (0, 0), read, both], peak, [one["id"] for one in said]]),
          flush=True)
    os._exit(0)


def child(command, text):
    """Its seconds, of processors and on the wall, its peak in KB, and what it wrote."""
    start = time.time()
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True)
    p.stdin.write(text)
    p.stdin.close()
    out = p.stdout.read()
    _, status, used = os.wait4(p.pid, 0)
    if status:
        sys.exit("%s failed" % " ".join(command))
    return (used.ru_utime + used.ru_stime, time.time() - start), used.ru_maxrss, out


def command(path, weights):
    window = ["--window", str(CONTEXT)]
    own = path.endswith(".safetensors")   # which has its window
    return ["./run", path, "--weights", weights, *([] if own else window)]


def ours(path, threads, weights, *more):
    def run(ids, tokens):
        return child([*command(path, weights), "--ids", "--tokens", str(tokens),
                      "--temperature", "0", "--threads", str(threads), *more],
                     " ".join(map(str, IDS[:ids])))
    load, _, _ = run(1, 0)
    read, _, _ = run(READ, 0)
    both, peak, said = run(READ, WRITE)
    return [load, load, read, both], peak, [int(i) for i in said.split()]


def run_takes(path, weights):
    """Is this a value of --weights? A file that is refused says so when it is to be saved."""
    return subprocess.run([*command(path, weights), "--info"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode != 2


def row_of(peak, _, load, *rest):
    """Seconds on the wall, milliseconds a token, MB. What starts run reads a token, whose time is
    taken off."""
    start, read, both = (rest[i:i + 2] for i in (0, 2, 4))
    one = int(start[0] > 0)
    reads = [1e3 * (b - a) / (READ - one) for a, b in zip(start, read)]
    writes = [1e3 * (b - a) / WRITE for a, b in zip(read, both)]
    return [load - one * writes[1] / 1e3, *reads, *writes, peak / 1024]


def table(files, own, rounds):
    """files: path, what llama.cpp's row says of it, and how run holds it; own: how the names of
    run's own files begin."""
    best, same, saved, tokens = {}, {}, {}, {}
    for path, _, forms in files:
        saved[path] = [(form, "%s-%s.safetensors" % (own, form)) for form in forms
                       if run_takes(path, form)]
        for form, to in saved[path]:
            subprocess.run([*command(path, form), "--save", to], check=True)
    os.sync()   # what is still to be written would disturb the clocks
    for _ in range(rounds):
        for threads, (path, what, _) in ((n, file) for n in (1, 2) for file in files):
            out = child([sys.executable, __file__, "--theirs", path, str(threads),
                         str(int(path not in tokens))], "")[2]
            runs = {"llama.cpp" + what: json.loads(out.split("RESULT ")[1].splitlines()[0])}
            first = tokens.setdefault(path, runs["llama.cpp" + what][2])
            for form, to in saved[path]:
                runs["run, " + form] = ours(path, threads, form)
                runs["run, %s, own file" % form] = ours(to, threads, form)
                if form in ("q8", "q4"):
                    runs["run, %s, own file, --int8" % form] = ours(to, threads, form, "--int8")
            for name, (times, peak, said) in runs.items():
                now = [peak, *(t for pair in times for t in pair)]
                key = threads, "llama.cpp" + what, name
                best[key] = [min(pair) for pair in zip(now, best.get(key, now))]
                same[key] = next((i for i, pair in enumerate(zip(first, said))
                                  if pair[0] != pair[1]), WRITE)
    print("| | threads | load, s | read, CPU ms | wall | write, CPU ms | wall | peak, MB "
          "| beside llama.cpp: read, CPU | write, CPU | write, wall | same |\n"
          "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    rows = {key: row_of(*b) for key, b in best.items()}
    for key, row in sorted(rows.items(), key=lambda item: item[0][0]):
        by = rows[key[:2] + key[1:2]]
        print("| %s | %d | %.2f | %.2f | %.2f | %.1f | %.1f | %.0f |" % (key[2], key[0], *row)
              + (" | | | |" if row is by else " %.2f | %.2f | %.2f | %d |" % (
                  *(row[i] / by[i] for i in (1, 3, 4)), same[key])), flush=True)


def main():
    words = dict(enumerate(sys.argv[1:]))
    if not words:
        sys.exit(__doc__)
    if words[0] == "--theirs":
        theirs(words[1], int(words[2]), int(words[3]))
    if words[0] != "--shapes":
        with tempfile.TemporaryDirectory() as folder:
            table([(words[0], "", KINDS)], os.path.join(folder, "own"), int(words.get(1, 3)))
        return
    folder = words.get(1) or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    for shape in sys.argv[4:] or SHAPES:
        own = os.path.join(folder, shape)
        files = [("%s.%s.gguf" % (own, kind), ", " + kind, [form]) for form, kind in KINDS.items()]
        for path, kind, _ in files:
            if not os.path.exists(path):
                write_shape(path, shape, kind[2:])
        print("\n%s, in %s:\n" % (shape, folder), flush=True)
        table(files, own, int(words.get(2, 3)))


main()
