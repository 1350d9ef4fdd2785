"""rwkv7.py: RWKV-7 in plain PyTorch, with the tensors of its folders at Hugging Face (fla's names),
for tests and measurements: transformers has no class for it, and fla's kernels want a GPU. Memories
go in chunks of 16 tokens; `state` are what they begin with, [heads, key, value] of each layer, 0.
"""
import json
import math
import os

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

CHUNK = 16


def memory(r, decay, k, v, kk, a, start):
    """Answers of [heads, T, size] rows. With the memory S [key, value], d = decay and b = kk a:

        u_t = -kk_t S_(t-1),  S_t = diag(d_t) S_(t-1) + b_t^T u_t + k_t^T v_t,  y_t = r_t S_t

    In a chunk D_t is the product of its decays up to t; rows of kk times D_(t-1) and of r times
    D_t, of b and k over D_t make all products of a chunk at once, and the u_t of a chunk solve a
    triangular system."""
    heads, T, n = r.shape
    C = -(-T // CHUNK)
    pad = C * CHUNK - T
    r, k, v, kk, a, decay = (F.pad(x, (0, 0, 0, pad)) for x in (r, k, v, kk, a, decay))
    logs = decay.reshape(heads, C, CHUNK, n)     # logarithms
    r, k, v, kk, a = (x.reshape(heads, C, CHUNK, n) for x in (r, k, v, kk, a))
    D = logs.cumsum(2)
    over = torch.exp(-D)
    b, k = kk * a * over, k * over
    z, r = -kk * torch.exp(D - logs), r * torch.exp(D)
    eye = torch.eye(CHUNK)
    below = eye - torch.tril(z @ b.mT, -1)
    of_start = torch.linalg.solve_triangular(below, z, upper=False)
    own = torch.linalg.solve_triangular(below, torch.tril(z @ k.mT, -1) @ v, upper=False)
    rb, rk = torch.tril(r @ b.mT), torch.tril(r @ k.mT) @ v
    end = torch.exp(D[:, :, -1]).unsqueeze(-1)
    S, y = start, []
    for c in range(C):
        u = of_start[:, c] @ S + own[:, c]
        y.append(r[:, c] @ S + rb[:, c] @ u + rk[:, c])
        S = end[:, c] * (S + b[:, c].mT @ u + k[:, c].mT @ v[:, c])
    return torch.cat(y, 1)[:, :T]


class Lora(nn.Module):
    def __init__(self, width, rank, bias):
        super().__init__()
        self.lora = nn.Sequential(nn.Linear(width, rank, bias=False), nn.Identity(),
                                  nn.Linear(rank, width, bias=bias))

    def forward(self, x, between=lambda u: u):
        return self.lora[2](between(self.lora[0](x)))


def before(h):
    return F.pad(h, (0, 0, 1, 0))[:-1] - h


class Attention(nn.Module):
    def __init__(self, c, i):
        super().__init__()
        W = c["hidden_size"]
        self.size, self.heads = c["head_dim"], W // c["head_dim"]
        for letter in "rwkvag":
            setattr(self, "x_" + letter, nn.Parameter(torch.zeros(1, 1, W)))
        for letter in "rkvo":
            setattr(self, letter + "_proj", nn.Linear(W, W, bias=False))
        for letter, rank in (("w", "decay"), ("a", "a"), ("g", "gate"), ("v", "v")):
            if i or letter != "v":
                setattr(self, letter + "_lora",
                        Lora(W, c[rank + "_low_rank_dim"], letter != "g"))
        self.k_k, self.k_a = nn.Parameter(torch.ones(W)), nn.Parameter(torch.ones(W))
        self.r_k = nn.Parameter(torch.zeros(self.heads, self.size))
        self.g_norm = nn.GroupNorm(self.heads, W, eps=self.size * c["norm_eps"])
        self.state = nn.Parameter(torch.zeros(self.heads, self.size, self.size))

    def rows(self, x):
        return x.reshape(-1, self.heads, self.size).transpose(0, 1)

    def forward(self, h, first):
        d = before(h)
        r, w, k, v, a, g = (h + d * getattr(self, "x_" + letter)[0, 0] for letter in "rwkvag")
        w = -math.exp(-0.5) * torch.sigmoid(self.w_lora(w, torch.tanh))
        a = torch.sigmoid(self.a_lora(a))
        g = self.g_lora(g, torch.sigmoid)
        r, k, mixed, v = self.r_proj(r), self.k_proj(k), v, self.v_proj(v)
        if first is None:
            first = v
        else:
            v = v + (first - v) * torch.sigmoid(self.v_lora(mixed))
        kk = F.normalize(self.rows(k * self.k_k), dim=-1)
        k = k * (1 + (a - 1) * self.k_a)
        r, w, k, v, a = (self.rows(x) for x in (r, w, k, v, a))
        y = memory(r, w, k, v, kk, a, self.state)
        y = self.g_norm(y.transpose(0, 1).reshape(len(h), -1))
        y = y + ((r * k * self.r_k[:, None]).sum(-1, keepdim=True) * v).transpose(0, 1).reshape(
            len(h), -1)
        return self.o_proj(y * g), first


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.x_k = nn.Parameter(torch.zeros(c["hidden_size"]))
        self.key = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.value = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, h):
        return self.value(torch.relu(self.key(h + before(h) * self.x_k))**2)


class Layer(nn.Module):
    def __init__(self, c, i):
        super().__init__()
        if not i:
            self.pre_norm = nn.LayerNorm(c["hidden_size"], c["norm_eps"])
        self.attn_norm = nn.LayerNorm(c["hidden_size"], c["norm_eps"])
        self.ffn_norm = nn.LayerNorm(c["hidden_size"], c["norm_eps"])
        self.attn, self.ffn = Attention(c, i), Mlp(c)


class RWKV7(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.sizes = c
        self.model = nn.Module()
        self.model.embeddings = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.model.layers = nn.ModuleList(Layer(c, i) for i in range(c["num_hidden_layers"]))
        self.model.norm = nn.LayerNorm(c["hidden_size"], c["norm_eps"])
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)

    def forward(self, tokens):
        """Logits of a text's tokens [T]."""
        x, first = self.model.layers[0].pre_norm(self.model.embeddings(tokens)), None
        for layer in self.model.layers:
            y, first = layer.attn(layer.attn_norm(x), first)
            x = x + y
            x = x + layer.ffn(layer.ffn_norm(x))
        return self.lm_head(self.model.norm(x))


def load(folder):
    with open(os.path.join(folder, "config.json")) as f:
        model = RWKV7(json.load(f))
    tensors = load_file(os.path.join(folder, "model.safetensors"))
    missing, more = model.load_state_dict({k: x.float() for k, x in tensors.items()}, strict=False)
    assert not more and all(name.endswith(".state") for name in missing), (missing, more)
    return model
