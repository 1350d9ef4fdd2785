"""By hand: the rows that peers.py has nobody's reference for, written down as README.md has them,
with inner gradients and those of the projection by PyTorch's autograd.

    python3 -m pip install torch && python3 tests/vectors/naive.py
"""
import torch

from check import check

torch.set_default_dtype(torch.float64)
CHUNK, Q, C = 4, 2.5, 8.0   # of all perceptrons; of moneta; of memora


def peer(run, chained=()):
    """What run says as a dict, and its gradients by autograd. chained: inputs that are made of
    others there, so that their gradients are not comparable one by one."""
    def of(tensors):
        t = {name: torch.tensor(x) for name, x in tensors.items()}
        inputs = [name for name in t if "grad." + name in t]
        for name in inputs:
            t[name].requires_grad_()
        said = run(t)
        if not isinstance(said, dict):
            y, S = said
            if y.shape[1] != t["query"].shape[0]:
                y = y.transpose(1, 2)
            said = {"output": y[0], "final.W1": S[0]}
        (said["output"] * t["projection"]).sum().backward()
        said.update({"grad." + name: t[name].grad for name in inputs
                     if name not in chained and t[name].grad is not None})
        return {name: x.detach().numpy() for name, x in said.items()}
    return of


def dfw(t, h):
    S, out = t["init.W1"][h], []
    for n in range(len(t["key"])):
        S = t["keep"][n, h][:, None] * S * t["value_keep"][n, h]
        S = S + torch.outer(t["key"][n, h], t["value"][n, h])
        out.append(t["query"][n, h] @ S)
    return out, {"W1": S}


def mamba(t, h):
    S, out = t["init.W1"][h], []
    for n in range(len(t["key"])):
        S = torch.exp(-t["decay_log"][h].exp() * t["keep"][n, h]) * S
        S = S + torch.outer(t["key"][n, h], t["learning_rate"][n, h] * t["value"][n, h])
        out.append(t["query"][n, h] @ S)
    return out, {"W1": S}


def diagonal(scale, turning=False):
    """Entries that decay each by itself; how much of a pair is written: scale(w, token)."""
    def run(t, h):
        S, out, half = t["init.W1"][h], [], t["value"].shape[2] // 2
        if turning:
            S = torch.complex(S[:, :half], S[:, half:])
        for n in range(len(t["key"])):
            tau, k, a = t["keep"][n, h], t["key"][n, h], t["decay_log"][h]
            v = t["value"][n, h] * (t["learning_rate"][n, h] if "learning_rate" in t else 1)
            if turning:
                w = torch.exp(-a[:, :half].exp() * tau[:half])
                S = torch.polar(w, a[:, half:] * tau[half:]) * S
                v = torch.complex(v[:half], v[half:])
            else:
                w = torch.exp(-a.exp() * tau)
                S = w * S
            S = S + scale(w, n) * torch.outer(k.to(v.dtype), v)
            y = t["query"][n, h].to(S.dtype) @ S
            out.append(torch.cat([y.real, y.imag]) if turning else y)
        return out, {"W1": torch.cat([S.real, S.imag], 1) if turning else S}
    return run


def eda(t, h):
    """Two reflections, then the write; nothing is written along e, whose value v0 is 0."""
    S, out, one = t["init.W1"][h], [], torch.eye(t["key"].shape[-1])
    for n in range(len(t["key"])):
        (e, k), (v0, v), (gamma, beta) = (t[x][n, h] for x in ("key", "value", "learning_rate"))
        erase, write = one - gamma * torch.outer(e, e), one - beta * torch.outer(k, k)
        S = write @ erase @ torch.diag(t["keep"][n, h]) @ S
        S = S + beta * torch.outer(k, v) + write @ (gamma * torch.outer(e, v0))
        out.append(t["query"][n, h] @ S)
    return out, {"W1": S}


def mdn(t, h):
    """M collects errors, S takes all of it (beta 1)."""
    S, out = t["init.W1"][h], []
    M = torch.zeros_like(S)
    for n in range(len(t["key"])):
        k, error = t["key"][n, h], t["key"][n, h] @ S - t["value"][n, h]
        M = t["momentum"][n, h] * M + t["learning_rate"][n, h] * torch.outer(k, error)
        S = t["keep"][n, h] * S - M
        out.append(t["query"][n, h] @ S)
    return out, {"W1": S, "momentum.W1": -M}


def preconditioned(t, h):
    """The key that is written, of which others say what is erased and where."""
    S, out = t["init.W1"][h], []
    for n in range(len(t["key"])):
        keep, k, a, b = (t[x][n, h] for x in ("keep", "key", "erase", "replace"))
        v = t["learning_rate"][n, h] * t["value"][n, h]
        S = keep.reshape(-1, 1) * S + torch.outer(b, a @ S) + torch.outer(k, v)
        out.append(t["query"][n, h] @ S)
    return out, {"W1": S}


def tree(delta):   # states as a Fenwick tree merges them, token by token
    def of(t, h):
        S, out = [0 * torch.outer(t["key"][0, h], t["value"][0, h])] * t["weight"].shape[2], []
        for n in range(len(t["key"])):
            k, b = t["key"][n, h], t["learning_rate"][n, h]
            if n:
                low = (n & -n).bit_length()   # its lowest bit, from 1 on
                S = [0 * S[0]] * low + [sum(S[:low])] + S[low + 1:]
            S = [t["keep"][n, h] * s for s in S]
            S = [s - delta * b * torch.outer(k, k @ s) for s in S]
            S[0] = b * torch.outer(k, t["value"][n, h])
            out.append(sum(w * (t["query"][n, h] @ s) for w, s in zip(t["weight"][n, h], S)))
        return out, {}
    return of


def root(w, n):
    return torch.sqrt(1 - w * w)


def rls(t, h):
    ridge = torch.nn.functional.softplus(t["ridge"][h])
    W, H, faded, out, F = t["init.W"][h], torch.diag(ridge), torch.zeros_like(ridge), [], len(ridge)
    for n in range(len(t["key"])):
        k, v, a, eta = (t[name][n, h] for name in ("key", "value", "keep", "learning_rate"))
        G = a * H @ W + eta * torch.outer(k, v)
        back = (torch.arange(F) == n % F).double()   # one ridge a token comes back
        faded = 1 - a * (1 - faded)
        H = a * H + eta * torch.outer(k, k) + torch.diag(back * ridge * faded)
        faded = faded * (1 - back)
        W = torch.linalg.solve(H, G)
        out.append(t["query"][n, h] @ W)
    return out, {"W": W, "P": torch.linalg.inv(H), "faded": faded}


def answer(W, t, h, x):
    """x + gain (.) norm(x W1 or gelu(x W1 + b1) W2 + b2) + bias"""
    z = x @ W["W1"] + W.get("b1", 0)
    if "W2" in W:
        z = torch.nn.functional.gelu(z, approximate="tanh") @ W["W2"] + W.get("b2", 0)
    return x + torch.nn.functional.layer_norm(z, z.shape, t["gain"][h], t["bias"][h], 1e-5)


def l2(r, delta):
    return r


def l3(r, delta):
    return 3 * torch.sign(r) * r ** 2


def mixture(r, delta):
    return torch.where(r.square().sum().sqrt() <= delta, r, delta * torch.tanh(2 * r))


def same(A):
    return dict(A)


def lq(A):
    return {name: a / a.abs().pow(Q).sum().pow((Q - 2) / Q) for name, a in A.items()}


def signed_kl(A):
    """Slices are rows of a first layer, columns of a last one."""
    return {name: C * a.sinh() / a.cosh().sum(int(name == "W1"), keepdim=True)
            for name, a in A.items()}


def newton_schulz(X):
    X = X / (X.square().sum().sqrt() + 1e-7)
    for _ in range(5):
        A = X @ X.T if X.shape[0] <= X.shape[1] else X.T @ X
        B = -4.7750 * A + 2.0315 * A @ A
        X = 3.4445 * X + (B @ X if X.shape[0] <= X.shape[1] else X @ B)
    return X


def perceptron(error=l2, link=same, reads="moving", omega=1, muon=False):
    """reads: what an open chunk is read by, the moving weights or those of its start."""
    def of(t, h):
        home = {name[5:].replace("A", "W"): x[h] for name, x in t.items() if name[:5] == "init."}
        A, out = dict(home), []
        S = {name: torch.zeros_like(x) for name, x in A.items()}
        for n in range(len(t["key"])):
            row = n % CHUNK
            if row == 0:
                anchor, base = link(A), dict(A)
                own = {name: torch.zeros_like(x) for name, x in A.items()}
                length = torch.zeros(())
            g = dict.fromkeys(A, 0)
            for i in range(max(0, n - omega + 1), n + 1):
                k, v = t["key"][i, h], t["value"][i, h]
                y = answer(anchor, t, h, k)
                e = error(y - v, t["threshold"][i, h] if "threshold" in t else None)
                for name, x in zip(A, torch.autograd.grad(y, list(anchor.values()), e,
                                                          create_graph=True)):
                    g[name] = g[name] + x
            alpha, eta = t["keep"][n, h], t["learning_rate"][n, h]
            theta = t["momentum"][n, h] if "momentum" in t else 0
            length = alpha.mean() * length + eta.mean()
            for name in A:
                rows = name == "W1" and alpha.dim() == 1
                a, b = (alpha[:, None], eta[:, None]) if rows else (alpha, eta)
                S[name] = theta * S[name] - b * g[name]
                if "rates" in t:   # the chunk's own steps do not fade within it
                    own[name] = own[name] - eta * g[name]
                    base[name] = home[name] + alpha * (base[name] - home[name])
                    rate = (1 + (16 * t["rates"][row]).exp() *
                            torch.expm1(torch.tensor(16 / (row + 1)))).log() / 16
                    A[name] = base[name] + rate * own[name]
                elif muon:
                    base[name] = home[name] + a * (base[name] - home[name])
                    if row == CHUNK - 1:
                        A[name] = base[name] + length * newton_schulz(S[name])
                else:
                    A[name] = home[name] + a * (A[name] - home[name]) + S[name]
            if row == CHUNK - 1:
                read = link(A)
            elif reads == "start":
                read = anchor
            elif link is lq:   # the norms of the chunk's start
                read = {name: A[name] * (anchor[name] / base[name]).reshape(-1)[0] for name in A}
            else:
                read = A
            out.append(answer(read, t, h, t["query"][n, h]))
        state = dict(read)
        if link is not same:
            state.update({name.replace("W", "A"): x for name, x in A.items()})
        if "momentum" in t:
            state.update({"momentum." + name: x for name, x in S.items()})
        return out, state
    return of


def heads(run):
    def of(t):
        parts = [run(t, h) for h in range(t["query"].shape[1])]
        said = {"output": torch.stack([torch.stack(out) for out, _ in parts], 1)}
        for name in parts[0][1]:
            said["final." + name] = torch.stack([state[name] for _, state in parts])
        return said
    return of


if __name__ == "__main__":
    for row, run in (("dfw", dfw), ("mamba-memory", mamba), ("rls", rls),
                     ("lru-memory", diagonal(root, True)),
                     ("s5-memory", diagonal(lambda w, n: 1, True)),
                     ("rg-lru", diagonal(lambda w, n: root(w, n) if n else 1)),
                     ("hgrn-memory", diagonal(lambda w, n: 1 - w)), ("eda", eda), ("mdn", mdn),
                     ("pgdn", preconditioned), ("pkda-memory", preconditioned),
                     ("log-linear-mamba2", tree(0)), ("log-linear-gdn", tree(1)),
                     ("ttt-linear-memory", perceptron()), ("ttt-mlp-memory", perceptron()),
                     ("titans", perceptron()), ("moneta", perceptron(l3, lq)),
                     ("yaad", perceptron(mixture)), ("memora", perceptron(l2, signed_kl, "start")),
                     ("atlas", perceptron(l2, same, "start", 4, True))):
        check(row, peer(heads(run)))
