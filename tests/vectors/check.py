"""An implementation against the files here (README.md). numpy alone:

    python3 tests/vectors/check.py       a naive recurrence, as an example, on three rows

In a program of your own, whatever it computes by:

    from check import check
    check("kda-memory", lambda t: {"output": mine(t["query"], t["key"], ...)})
"""
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 1e-12   # of the largest entry of a tensor; floats reach 1e-5, of gradients 1e-4


def load(row):
    """The tensors of a row by name, as in README.md."""
    with open(os.path.join(HERE, row + ".safetensors"), "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        head, numbers = json.loads(file.read(size)), np.frombuffer(file.read(), "<f8")
    head.pop("__metadata__")
    return {name: numbers[v["data_offsets"][0] // 8:v["data_offsets"][1] // 8].reshape(v["shape"])
            for name, v in head.items()}


def check(row, compute, limit=LIMIT):
    """Does compute(tensors), a dict of some of the names, say what the row's file says?"""
    t = load(row)
    far = {name: np.abs(np.asarray(x, "f8") - t[name]).max() / np.abs(t[name]).max()
           for name, x in compute({k: v.copy() for k, v in t.items()}).items()}
    wrong = [name for name, x in far.items() if not x <= limit]
    print("%-27s %2d tensors, %.0e at most%s" % (
        row, len(far), max(far.values()),
        "".join("; %s is off by %.1e" % (name, far[name]) for name in wrong)))
    return not wrong


def matrix(t, delta):
    """S <- a S + eta k (v - delta (a S)' k)', y = S' q, and its adjoint, of all heads."""
    S, T, H = t["init.W1"], *t["key"].shape[:2]
    a = t.get("keep", np.ones((T, H)))[..., None, None]
    eta = t.get("learning_rate", np.ones((T, H)))[..., None, None]
    k, q = t["key"][..., None], t["query"][..., None]                       # [T, H, dk, 1]
    v, dy = t["value"][..., None, :], t["projection"][..., None, :]         # [T, H, 1, dv]
    out, before, error = np.zeros_like(v), [], []
    for n in range(T):
        before.append(S)
        S = a[n] * S
        error.append(v[n] - delta * np.sum(k[n] * S, 1, keepdims=True))
        S = S + eta[n] * k[n] * error[n]
        out[n] = np.sum(q[n] * S, 1, keepdims=True)
    grad = {name: np.zeros(t[name].shape) for name in
            ("key", "value", "query", "keep", "learning_rate") if name in t}
    after, dS = S, np.zeros_like(S)
    for n in reversed(range(T)):
        grad["query"][n] = np.sum(after * dy[n], 2)
        dS = dS + q[n] * dy[n]
        de = eta[n] * np.sum(k[n] * dS, 1, keepdims=True)
        grad["value"][n] = de[:, 0]
        if "learning_rate" in t:
            grad["learning_rate"][n] = np.sum(k[n] * error[n] * dS, (1, 2))
        grad["key"][n] = np.sum(eta[n] * error[n] * dS - delta * a[n] * before[n] * de, 2)
        dS = dS - delta * k[n] * de
        if "keep" in t:
            grad["keep"][n] = np.sum(before[n] * dS, (1, 2))
        after, dS = before[n], a[n] * dS
    return {"output": out[:, :, 0], "final.W1": S, "grad.init.W1": dS,
            **{"grad." + name: x for name, x in grad.items()}}


if __name__ == "__main__":
    sys.exit(not all([check("linear-attention", lambda t: matrix(t, 0)),
                      check("deltanet-memory", lambda t: matrix(t, 1)),
                      check("gated-deltanet", lambda t: matrix(t, 1))]))
