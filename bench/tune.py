"""tune.py: a step of training beside a model that stays as it is, by miras.h (bench/tune.c) and by
PyTorch with transformers and peft, in turns, on one thread; prints what belongs into
bench/results/tune.md.

    cc -O2 -shared -fPIC bench/tune.c -o libtune.so -lm
    python bench/tune.py ./libtune.so [SHAPE ...]      mamba2-130m rwkv7-0.1B qwen3.5-0.75B

Models have the published shapes and random weights, written to a folder under the system's; the
last is Qwen3.5's text half with 0.75 billion parameters. A step is loss, gradients and AdamW of one
text of LENGTH (512) tokens. miras.h holds matrices as q8, or as floats where all is trained;
PyTorch has floats. Adapters are of rank 8, of the same matrices. Mamba-2 and Qwen3.5 are
transformers' (its code without kernels), RWKV-7 tests/rwkv7.py, in chunks. All take a step in turn,
ROUNDS (3) times behind one that does not count; of each the least processor time counts. ALONE=1:
one is measured behind the other, where there is no room for all; SKIP names some that are left out,
"PyTorch, everything;states, q8". Said first, on stderr, is the memory that miras.h asks for, for
512 tokens, with layers kept and computed again; then the seconds of each.
"""
import ctypes
import gc
import json
import os
import sys
import tempfile
import time
import weakref

LENGTH = int(os.environ.get("LENGTH", 512))
ROUNDS = int(os.environ.get("ROUNDS", 3))
ALONE = os.environ.get("ALONE") == "1"
SKIP = [which for which in os.environ.get("SKIP", "").split(";") if which]
ASKED, Q8, RANK = 512, 3, 8
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
    """In chunks of 32, with which PyTorch makes products of all pairs of tokens in a chunk, and of
    all channels, an eighth as large as with the published 256, and the same numbers."""
    import torch
    from transformers import Mamba2Config, Mamba2ForCausalLM
    torch.manual_seed(1)
    config = Mamba2Config(hidden_size=768, num_hidden_layers=24, vocab_size=50288, state_size=128,
                          num_heads=24, head_dim=64, n_groups=1, expand=2,
                          chunk_size=32, tie_word_embeddings=True)
    Mamba2ForCausalLM(config).save_pretrained(folder)


def open_mamba2(folder):
    from transformers import Mamba2ForCausalLM
    model = Mamba2ForCausalLM.from_pretrained(folder)
    return model, lambda net, tokens: net(tokens[None], use_cache=False).logits[0]


def write_qwen(folder):
    """As bf16, which both open as floats."""
    import torch
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    config = Qwen3_5TextConfig(
        hidden_size=1024, intermediate_size=3584, num_hidden_layers=24, vocab_size=248320,
        num_attention_heads=8, num_key_value_heads=2, head_dim=256, linear_key_head_dim=128,
        linear_value_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=16,
        tie_word_embeddings=True,
        layer_types=["full_attention" if i % 4 == 3 else "linear_attention" for i in range(24)])
    Qwen3_5ForCausalLM(config).save_pretrained(folder)
    torch.set_default_dtype(torch.float32)


def open_qwen(folder):
    import torch
    from transformers import Qwen3_5ForCausalLM
    model = Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model, lambda net, tokens: net(tokens[None], use_cache=False).logits[0]


# writes, opens, modules with adapters, and the same as patterns of views. in_proj of Mamba-2 is one
# matrix there and five views here, each with an A of its own.
SHAPES = {
    "mamba2-130m": (write_mamba2, open_mamba2, ["in_proj"],
                    "*.q.weight,*.k.weight,*.v.weight,*.out_gate.weight,*.gates.down"),
    "rwkv7-0.1B": (write_rwkv7, open_rwkv7,
                   ["r_proj", "k_proj", "v_proj", "o_proj", "ffn.key", "ffn.value"],
                   "*.q.weight,*.k.weight,*.v.weight,*.o.weight,*.mlp.up,*.mlp.down"),
    "qwen3.5-0.75B": (write_qwen, open_qwen,
                      ["q_proj", "k_proj", "v_proj", "o_proj", "in_proj_qkv", "in_proj_z",
                       "out_proj", "up_proj", "down_proj"],
                      "*.q.weight,*.k.weight,*.v.weight,*.o.weight,*.out_gate.weight,*.mlp.up,"
                      "*.mlp.down"),
}


def library(path):
    lib = ctypes.CDLL(os.path.abspath(path))
    lib.tune_open.restype = ctypes.c_void_p
    what = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p,
            ctypes.c_int]
    lib.tune_open.argtypes = what
    lib.tune_room.argtypes = what + [ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)]
    lib.tune_step.restype = ctypes.c_float
    lib.tune_step.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32)]
    lib.tune_close.argtypes = [ctypes.c_void_p]
    return lib


def asked(folder, form, targets, only, length):
    return (folder.encode(), form, RANK, targets and targets.encode(), only and only.encode(),
            length)


def ours(lib, *what):
    """A step of miras.h's, which is closed with the function."""
    t = lib.tune_open(*asked(*what, LENGTH))
    if not t:
        sys.exit(1)

    def step(tokens):
        return lib.tune_step(t, (ctypes.c_int32 * LENGTH)(*tokens))
    weakref.finalize(step, lib.tune_close, t)
    return step


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
        tokens = torch.tensor(tokens)
        loss = torch.nn.functional.cross_entropy(call(net, tokens)[:-1], tokens[1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(moves, 1)
        how.step()
        how.zero_grad()
        return float(loss.detach())
    return step


def timed(which, step, tokens):
    begin = time.process_time()
    loss = step(tokens)
    took = time.process_time() - begin
    if not 0 < loss < 100:
        sys.exit("%s: the loss is %g" % (which, loss))
    return took


def measure(runs):
    """The least seconds of each, all open at once and in turns or, with ALONE, one by one."""
    tokens, least = [7919 * i % 40000 + 100 for i in range(LENGTH)], {}
    groups = [[which] for which in runs] if ALONE else [list(runs)]
    for group in groups:
        steps = {which: runs[which]() for which in group}
        for k in range(ROUNDS + 1):
            for which, step in steps.items():
                took = timed(which, step, tokens)
                if k:
                    least[which] = min(took, least.get(which, took))
        for which in group:
            print("%s: %.3f s" % (which, least[which]), file=sys.stderr, flush=True)
        del steps, step
        gc.collect()
    return least


def main(path, names):
    import torch
    torch.set_num_threads(1)
    lib = library(path)
    print("| model | step | tokens a CPU second | beside everything | beside PyTorch's adapters |")
    print("|---|---|---|---|---|")
    for name in names:
        write, opens, modules, targets = SHAPES[name]
        with tempfile.TemporaryDirectory() as folder:
            write(folder)
            memory(lib, name, folder, targets)
            runs = {
                "adapters, q8": lambda: ours(lib, folder, Q8, targets, "*.adapter_*"),
                "states, q8": lambda: ours(lib, folder, Q8, None, "*memory.init"),
                "everything": lambda: ours(lib, folder, 0, None, None),
                "PyTorch, adapters": lambda: peer(opens(folder), modules),
                "PyTorch, everything": lambda: peer(opens(folder), None),
            }
            for which in SKIP:
                del runs[which]
            least = measure(runs)
            for which, took in least.items():
                print("| %s | %s | %.1f | %s | %s |" % ((name, which, LENGTH / took) + tuple(
                    "%.2f" % (least[other] / took) if other in least else ""
                    for other in ("everything", "PyTorch, adapters"))), flush=True)


def memory(lib, name, folder, targets):
    for what, only in (("adapters", "*.adapter_*"), ("states", "*memory.init")):
        for again in (0, 1 << 20):
            room = (ctypes.c_uint64 * 2)()
            if not lib.tune_room(*asked(folder, Q8, targets if what == "adapters" else None, only,
                                        ASKED), again, room):
                sys.exit(1)
            print("%s: %s over q8, %d tokens, layers %s: model %.3f GB, training %.3f, together "
                  "%.3f" % (name, what, ASKED, "computed again" if again else "kept", room[0] / 1e9,
                            room[1] / 1e9, sum(room) / 1e9), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(SHAPES))
