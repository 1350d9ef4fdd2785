"""By hand: the naive references of flash-linear-attention against the files here. They are read
where that package is installed and run in double; nothing of it is imported, so Triton is not
needed. README.md has what comes out.

    python3 -m pip install torch einops && python3 -m pip install --no-deps fla-core
    python3 tests/vectors/peers.py
"""
import importlib.util
import os

import torch

from check import check
from naive import peer

ROOT = importlib.util.find_spec("fla").submodule_search_locations[0]


def naive(path, name):
    """A function of ops/PATH, whose floats are doubles."""
    with open(os.path.join(ROOT, "ops", path)) as file:
        text = "".join(line for line in file if not line.startswith("from fla"))
    for short, long in ((".float()", ".double()"), ("torch.float32", "torch.float64"),
                        ("torch.float)", "torch.float64)"), ("torch.float,", "torch.float64,")):
        text = text.replace(short, long)
    space = {"__name__": path}
    exec(compile(text, path, "exec"), space)
    return space[name]


def batch(*tensors):
    return [x[None] for x in tensors]


def heads_first(*tensors):
    return [x[None].transpose(1, 2) for x in tensors]


def steps(x):   # [T, H, steps, ...] as tokens of their own
    return x.transpose(1, 2).flatten(0, 1)[None]


def linear(t):
    q, k, v = batch(t["query"], t["key"], t["value"])
    return naive("linear_attn/naive.py", "naive_recurrent_linear_attn")(
        q, k, v, 1.0, t["init.W1"][None], True)


def scalar(alpha):
    """Fixed or given decays of a head; what is written is the value times the step."""
    def of(t):
        g = alpha(t) if alpha else t["keep"].log()
        q, k, v = batch(t["query"], t["key"], t["value"])
        if "learning_rate" in t:
            v = v * t["learning_rate"][None, ..., None]
        return naive("simple_gla/naive.py", "naive_recurrent_simple_gla")(
            q, k, v, g[None], 1.0, t["init.W1"][None], True)
    return of


def fixed(gammas):
    return scalar(lambda t: torch.tensor(gammas).log().expand(t["query"].shape[:2]))


def gla(t):
    q, k, v, g = batch(t["query"] * 2, t["key"], t["value"], t["keep"].log())   # 2: sqrt(key_dim)
    return naive("gla/naive.py", "naive_recurrent_gla")(q, k, v, g, t["init.W1"][None], True)


def rwkv6(t):   # without the bonus, which is no part of the memory
    q, k, v, w = heads_first(t["query"], t["key"], t["value"], t["keep"].log())
    return naive("rwkv6/recurrent_naive.py", "naive_recurrent_rwkv6")(
        q, k, v, w, torch.zeros_like(q[0, :, 0]), 1.0, t["init.W1"][None], True)


def delta(rate):
    def of(t):
        q, k, v, b = heads_first(t["query"] * 2, t["key"], t["value"], rate(t))
        return naive("delta_rule/naive.py", "delta_rule_recurrence")(
            q, k, v, b, t["init.W1"][None])
    return of


def square(t):
    return (t["key"] ** 2).sum(-1, keepdim=True)


def gated(path, name, **more):
    def of(t):
        given = {"q": "query", "k": "key", "v": "value", "beta": "learning_rate", "p": "erase"}
        code = naive(path, name).__code__
        names = code.co_varnames[:code.co_argcount]
        x = {n: t[given[n]][None] for n in names if n in given}
        x["g"] = t["keep"].log()[None]
        return naive(path, name)(**x, scale=1.0, initial_state=t["init.W1"][None],
                                 output_final_state=True, **more)
    return of


def gdn2(t):
    q, k, v, g = batch(t["query"], t["key"], t["value"], t["keep"].log())
    b, w = batch(t["erase"] / (t["keep"] * t["key"]).detach(), t["learning_rate"])
    return naive("gdn2/naive.py", "naive_recurrent_gdn2")(
        q, k, v, g, b, w, 1.0, t["init.W1"][None], True)


def product(t):
    g = t["keep"].log()[None] if "keep" in t else None
    return naive("gated_delta_product/naive.py", "naive_recurrent_gated_delta_product")(
        t["query"][None], steps(t["key"]), steps(t["value"]), g, steps(t["learning_rate"]), 1.0,
        initial_state=t["init.W1"][None], output_final_state=True, num_householder=2)


def dplr(t):
    q, k, v, a, b, g = heads_first(t["query"] * 2, t["key"], t["value"], t["erase"], t["replace"],
                                   t["keep"].log())
    return naive("generalized_delta_rule/dplr/naive.py", "dplr_recurrence")(
        q, k, v, a, b, g, t["init.W1"][None])


def mesa(name, **more):
    def of(t):
        q, k, v, g, beta = batch(t["query"], t["key"], t["value"], t["keep"].log(),
                                 t["learning_rate"])
        ridge = torch.nn.functional.softplus(t["ridge"])
        # there values must be as wide as keys
        v, G = (torch.nn.functional.pad(x, (0, 1)) for x in (v, t["init.G"][None]))
        y, H, G = naive("mesa_net/naive.py", name)(q, k, v, g, ridge, beta, h_kv_init=G, **more)
        return {"output": y[0, ..., :3], "final.H": H[0], "final.G": G[0, ..., :3]}
    return of


def attention(window):
    def of(t):
        q, k, v = batch(t["query"], t["key"], t["value"])
        y, _ = naive("attn/naive.py", "naive_parallel_attn")(q, k, v, window_size=window)
        return {"output": y[0]}
    return of


def tree(t):
    q, k, v, g, w = batch(t["query"], t["key"], t["value"] * t["learning_rate"][..., None],
                          t["keep"].log(), t["weight"])
    return {"output": naive("log_linear_attn/naive.py", "naive_log_linear_attn")(
        q, k, v, g, w, 1.0)[0]}


def titans_gradient():
    """Titans' own: one token from a memory M, and what autograd says of the loss that it names."""
    torch.manual_seed(1)
    D = 4
    M, k, v = torch.randn(1, 1, D, D), torch.randn(1, 1, 1, D), torch.randn(1, 1, 1, D)
    one, zero = torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 1, 1)
    w, b = torch.rand(1, D) + 0.5, torch.randn(1, D)
    said = naive("titans/naive.py", "titans_linear")(
        k, k, v, w, b, one, zero, zero, 1e-6, 1, M, True)[1]
    W = M.clone().requires_grad_()
    z = torch.nn.functional.layer_norm(k @ W, (D,), w[0], b[0], 1e-6)
    ((z - (v - k)) ** 2).sum().backward()
    far = ((M - said - W.grad).abs().max() / W.grad.abs().max()).item()
    print("titans: its gradient is off by %.1e of that of its loss" % far)


if __name__ == "__main__":
    rate = {"as": lambda t: t["learning_rate"],
            "implicit": lambda t: t["learning_rate"] / (1 + t["learning_rate"] * square(t)),
            "normalized": lambda t: t["learning_rate"] / (1e-6 + square(t)[..., 0])}
    gdr = gated("gated_delta_rule/naive.py", "naive_recurrent_gated_delta_rule")
    chunked = gated("gated_delta_rule/naive.py", "naive_chunk_gated_delta_rule", chunk_size=4)
    undo = ("erase", "replace", "keep", "key", "learning_rate")
    for row, run, chained in (
            ("linear-attention", linear, ()),
            ("retnet-memory", fixed([1 - 1 / 32, 1 - 1 / 64]), ()),
            ("lightning", fixed([1.0, 2.718281828459045 ** -3]), ()),
            ("gla-memory", gla, ()), ("hgrn2-memory", gla, ()), ("rwkv6-memory", rwkv6, ()),
            ("mamba2-memory", scalar(None), ()), ("log-linear-mamba2", tree, ()),
            ("deltanet-memory", delta(rate["as"]), ()),
            ("deltanet-neg-eigval", delta(rate["as"]), ()),
            ("longhorn", delta(rate["implicit"]), ()),
            ("nlms", delta(rate["normalized"]), ()),
            ("gated-deltanet", gdr, ()), ("gated-deltanet", chunked, ()),
            ("gated-deltanet-neg-eigval", gdr, ()),
            ("gated-deltanet-2", gdn2, undo),
            ("deltaproduct", product, ()), ("gated-deltaproduct", product, ()),
            ("kda-memory", gated("kda/naive.py", "naive_recurrent_kda"), ()),
            ("comba", gated("comba/naive.py", "naive_recurrent_comba"), undo),
            ("comba", gated("comba/naive.py", "naive_chunk_comba", chunk_size=4), undo),
            ("rwkv7-memory", dplr, ()),
            ("mesa", mesa("naive_mesa_net_exact"), ()),
            ("mesa", mesa("naive_mesa_net_CG", chunk_size=4), ()),
            ("softmax-attention", attention(None), ()), ("sliding-window", attention(5), ())):
        try:
            check(row, peer(run, chained))
        except Exception as error:   # of theirs
            print("%-27s %s: %s" % (row, type(error).__name__, error))
    titans_gradient()
