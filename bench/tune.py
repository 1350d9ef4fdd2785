"""tune.py: a step of training beside a model that stays as it is, by miras.h (bench/tune.c) and by
PyTorch with transformers and peft, in turns, on one thread; prints what belongs into
bench/results/tune.md.

    cc -O2 -shared -fPIC bench/tune.c -o libtune.so -lm
    python bench/tune.py ./libtune.so [SHAPE ...]      mamba2-130m rwkv7-0.1B

Models have the published shapes and random weights, written to a folder under the system's. A step
is loss, gradients and AdamW of one text of LENGTH (512) tokens. miras.h holds matrices as q8, or as
floats where all is trained; PyTorch has floats. Adapters are of rank 8, of the same matrices.
Mamba-2 is transformers' (its code without kernels), RWKV-7 tests/rwkv7.py, in chunks. All take a
step in turn, ROUNDS (3) times behind one that does not count; of each the least processor time
counts. Last comes the memory that miras.h asks for, for 512 tokens, with layers kept and computed
again, also of Qwen3.5's text half with 0.75 billion parameters, of which no numbers are read.
"""
import ctypes
import json
import os
import struct
import sys
import tempfile
import time

LENGTH = int(os.environ.get("LENGTH", 512))
ROUNDS = int(os.environ.get("ROUNDS", 3))
Q8, RANK = 3, 8
HERE = os.path.dirname(os.path.abspath(__file__))


def rwkv7_sizes():
    with open(os.path.join(HERE, "..", "tests", "data", "checkpoints", "rwkv7",
                           "config.json")) as f:
        c = json.load(f)
    c.update(hidden_size=768, intermediate_size=3072, hidden_ratio=4.0, head_dim=64, num_heads=12,
             num_hidden_layers=12, vocab_size=65536, a_low_rank_dim=64, decay_low_rank_dim=64,
             v_low_rank_dim=32, gate_low_rank_dim=128, value_dim=[768] * 12)
    return c


def write_rwkv7(folder):
    import torch
    from safetensors.torch import save_file
    sys.path.insert(0, os.path.join(HERE, "..", "tests"))
    import rwkv7
    torch.manual_seed(1)
    c = rwkv7_sizes()
    model = rwkv7.RWKV7(c)
    with torch.no_grad():
        for name, x in model.named_parameters():
            if ".x_" in name:
                x.uniform_(0.2, 0.8)
    save_file({k: x.contiguous() for k, x in model.state_dict().items() if "state" not in k},
              os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f)


def open_rwkv7(folder):
    import rwkv7
    model = rwkv7.load(folder)
    return model, lambda net, tokens: net(tokens)


def write_mamba2(folder):
    import torch
    from transformers import Mamba2Config, Mamba2ForCausalLM
    torch.manual_seed(1)
    config = Mamba2Config(hidden_size=768, num_hidden_layers=24, vocab_size=50288, state_size=128,
                          num_heads=24, head_dim=64, n_groups=1, expand=2,
                          tie_word_embeddings=True)
    Mamba2ForCausalLM(config).save_pretrained(folder)


def open_mamba2(folder):
    from transformers import Mamba2ForCausalLM
    model = Mamba2ForCausalLM.from_pretrained(folder)
    return model, lambda net, tokens: net(tokens[None], use_cache=False).logits[0]


def write_qwen(folder):
    """Tensors without numbers: the file is one hole."""
    layers, width, inner, words = 24, 1024, 3584, 248320
    with open(os.path.join(HERE, "..", "tests", "data", "checkpoints", "qwen3_5",
                           "config.json")) as f:
        c = json.load(f)
    t = c["text_config"]
    t.update(hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, head_dim=256,
             vocab_size=words, full_attention_interval=4, linear_key_head_dim=128,
             linear_value_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=16,
             num_attention_heads=8, num_key_value_heads=2,
             layer_types=["full_attention" if i % 4 == 3 else "linear_attention"
                          for i in range(layers)])
    t["rope_parameters"]["mrope_section"] = [11, 11, 10]
    at, header = 0, {}

    def tensor(name, *shape):
        nonlocal at
        size = 2
        for n in shape:
            size *= n
        header["model.language_model." + name] = {
            "dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    tensor("embed_tokens.weight", words, width)
    tensor("norm.weight", width)
    for i in range(layers):
        b = "layers.%d." % i
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensor(b + name + ".weight", width)
        for name, shape in (("gate", (inner, width)), ("up", (inner, width)),
                            ("down", (width, inner))):
            tensor(b + "mlp.%s_proj.weight" % name, *shape)
        if i % 4 == 3:
            for name, shape in (("q", (4096, width)), ("k", (512, width)), ("v", (512, width)),
                                ("o", (width, 2048))):
                tensor(b + "self_attn.%s_proj.weight" % name, *shape)
            tensor(b + "self_attn.q_norm.weight", 256)
            tensor(b + "self_attn.k_norm.weight", 256)
            continue
        b += "linear_attn."
        for name, shape in (("A_log", (16,)), ("dt_bias", (16,)), ("conv1d.weight", (6144, 1, 4)),
                            ("in_proj_qkv.weight", (6144, width)),
                            ("in_proj_z.weight", (2048, width)), ("in_proj_a.weight", (16, width)),
                            ("in_proj_b.weight", (16, width)), ("norm.weight", (128,)),
                            ("out_proj.weight", (width, 2048))):
            tensor(b + name, *shape)
    head = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.truncate(8 + len(head) + at)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f)


SHAPES = {   # writes, opens, modules with adapters, and the same as patterns of views
    "mamba2-130m": (write_mamba2, open_mamba2, ["in_proj"], None),
    "rwkv7-0.1B": (write_rwkv7, open_rwkv7,
                   ["r_proj", "k_proj", "v_proj", "o_proj", "ffn.key", "ffn.value"],
                   "*.q.weight,*.k.weight,*.v.weight,*.o.weight,*.mlp.up,*.mlp.down"),
}


def library(path):
    lib = ctypes.CDLL(os.path.abspath(path))
    lib.tune_open.restype = ctypes.c_void_p
    lib.tune_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p,
                              ctypes.c_char_p, ctypes.c_int, ctypes.c_int,
                              ctypes.POINTER(ctypes.c_uint64)]
    lib.tune_step.restype = ctypes.c_float
    lib.tune_step.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32)]
    lib.tune_close.argtypes = [ctypes.c_void_p]
    return lib


def ours(lib, folder, form, targets, only, recompute=0):
    room = (ctypes.c_uint64 * 2)()
    t = lib.tune_open(folder.encode(), form, RANK, targets and targets.encode(),
                      only and only.encode(), LENGTH, recompute, room)
    if not t:
        sys.exit(1)
    return t, room[0], room[1]


def peer(opened, modules):
    """A step of PyTorch's, of adapters or, without modules, of everything."""
    import torch
    from peft import LoraConfig, get_peft_model
    model, call = opened
    if modules:
        model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=2 * RANK,
                                                 target_modules=modules))
        net = model.base_model.model
    else:
        net = model
    moves = [x for x in model.parameters() if x.requires_grad]
    how = torch.optim.AdamW(moves, lr=1e-4, fused=True)

    def step(tokens):
        loss = torch.nn.functional.cross_entropy(call(net, tokens)[:-1], tokens[1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(moves, 1)
        how.step()
        how.zero_grad()
        return float(loss.detach())
    return step


def main(path, names):
    import torch
    torch.set_num_threads(1)
    lib = library(path)
    tokens = [7919 * i % 40000 + 100 for i in range(LENGTH)]
    theirs, mine = torch.tensor(tokens), (ctypes.c_int32 * LENGTH)(*tokens)
    print("| model | step | tokens a CPU second | beside everything | beside PyTorch's adapters |")
    print("|---|---|---|---|---|")
    for name in names:
        write, opens, modules, targets = SHAPES[name]
        targets = targets or "*.q.weight,*.k.weight,*.v.weight,*.out_gate.weight"
        with tempfile.TemporaryDirectory() as folder:
            write(folder)
            runs = {
                "adapters, q8": ours(lib, folder, Q8, targets, "*.adapter_*")[0],
                "states, q8": ours(lib, folder, Q8, None, "*memory.init")[0],
                "everything": ours(lib, folder, 0, None, None)[0],
            }
            peers = {"PyTorch, adapters": peer(opens(folder), modules),
                     "PyTorch, everything": peer(opens(folder), None)}
            least = {}
            for k in range(ROUNDS + 1):
                for which in list(runs) + list(peers):
                    begin = time.process_time()
                    if which in runs:
                        loss = lib.tune_step(runs[which], mine)
                    else:
                        loss = peers[which](theirs)
                    took = time.process_time() - begin
                    if not 0 < loss < 100:
                        sys.exit("%s: the loss is %g" % (which, loss))
                    if k:
                        least[which] = min(took, least.get(which, took))
            for which, took in least.items():
                print("| %s | %s | %.0f | %.2f | %.2f |" % (
                    name, which, LENGTH / took, least["everything"] / took,
                    least["PyTorch, adapters"] / took), flush=True)
            for t in runs.values():
                lib.tune_close(t)
            memory(lib, name, folder, targets)
    with tempfile.TemporaryDirectory() as folder:
        write_qwen(folder)
        memory(lib, "qwen3.5-0.75B", folder, "*.q.weight,*.k.weight,*.v.weight,*.o.weight,"
               "*.mlp.up,*.mlp.down")


def memory(lib, name, folder, targets):
    for what, only in (("adapters", "*.adapter_*"), ("states", "*memory.init")):
        for again in (0, 1 << 20):
            t, model, room = ours(lib, folder, Q8, targets if what == "adapters" else None, only,
                                  again)
            print("%s over q8, %s, %d tokens, layers %s: model %.3f GB, training %.3f, together "
                  "%.3f" % (name, what, LENGTH, "computed again" if again else "kept", model / 1e9,
                            room / 1e9, (model + room) / 1e9), flush=True)
            lib.tune_close(t)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(SHAPES))
