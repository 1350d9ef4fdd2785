"""peers.py: how fast miras.h runs and differentiates a layer of memories on one core, and how fast
PyTorch does the same with the chunked code of flash-linear-attention (its text for any device; its
kernels need a GPU) and with its own attention. peers.sh calls it, and says how:

    python peers.py LIBRARY LAYOUT COMPILER

Both sides take turns in every round, and the best round of each counts. Training is the outputs
and the gradients of all inputs. That the two compute the same is checked first.
"""
import ctypes
import importlib.metadata
import math
import os
import pathlib
import platform
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'tests'))
from peers import Library, Peers, processor   # noqa: E402
import torch                            # noqa: E402
import torch.nn.functional as F         # noqa: E402

T, H, K = (int(os.environ.get(n, d)) for n, d in (('TOKENS', 1024), ('HEADS', 4), ('DIM', 64)))
ROUNDS = int(os.environ.get('ROUNDS', 7))


class Layer:
    """One layer of miras.h at batch 1, its inputs and room for all that comes out."""

    def __init__(self, library, preset, fields, inputs, params=None):
        self.c = library.c
        desc = library.desc(preset, heads=H, key_dim=K, **fields)
        self.memory = self.c.miras_memory_open(desc, None, None, 0)
        if params is not None:
            count = ctypes.c_size_t()
            at = self.c.miras_memory_params(self.memory, ctypes.byref(count))
            assert count.value == params.numel()
            ctypes.memmove(at, params.contiguous().data_ptr(), 4 * params.numel())
            self.c.miras_memory_reset(self.memory)
        self.inputs = {n: t.detach().contiguous() for n, t in inputs.items()}
        self.grads = {n: torch.empty_like(t) for n, t in self.inputs.items()}
        self.tokens = library.struct('input', length=T,
                                     **{n: t.data_ptr() for n, t in self.inputs.items()})
        self.wanted = library.struct('input_grad',
                                     **{n: t.data_ptr() for n, t in self.grads.items()})
        self.y = torch.empty(1, T, H, K)
        self.dy = torch.ones(1, T, H, K)
        self.tape = torch.empty(self.c.miras_memory_tape_size(self.memory, T))

    def forward(self):
        self.c.miras_memory_reset(self.memory)
        self.c.miras_memory_forward(self.memory, self.tokens, self.y.data_ptr(), None)

    def training(self):
        self.c.miras_memory_reset(self.memory)
        self.c.miras_memory_forward(self.memory, self.tokens, self.y.data_ptr(),
                                    self.tape.data_ptr())
        self.c.miras_memory_backward(self.memory, self.tokens, self.tape.data_ptr(),
                                     self.dy.data_ptr(),
                              self.wanted, None, None)


class Peer:
    """The same by PyTorch: function makes the outputs of the inputs."""

    def __init__(self, function, inputs):
        self.function = function
        self.inputs = [t.detach().clone().requires_grad_() for t in inputs]

    def outputs(self):
        y = self.function(*self.inputs)
        return y[0] if isinstance(y, tuple) else y   # the others return their state, too

    def forward(self):
        with torch.no_grad():
            self.y = self.outputs()

    def training(self):
        for t in self.inputs:
            t.grad = None
        self.outputs().sum().backward()


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def first(t):
    """[B, T, H, ...] to [B, H, T, ...] or back."""
    return t.transpose(1, 2)


def perceptron(q, k, v, step, start, chunk=16):
    """TTT-MLP without norms, biases and a residual, in its dual form: the inner gradients of a
    chunk at its start; each query meets the pairs up to its own. Batched products of heads."""
    w1, w2 = start
    q, k, v, eta = first(q)[0], first(k)[0], first(v)[0], first(step)[0][..., None]
    answers = []
    for t in range(0, q.shape[1], chunk):
        x, asked, e = (a[:, t:t + chunk] for a in (k, q, eta))
        z = x @ w1
        cdf = 0.5 * (1 + torch.tanh(0.7978845608 * (z + 0.044715 * z ** 3)))
        a = z * cdf
        slope = cdf + 2 * z * cdf * (1 - cdf) * 0.7978845608 * (1 + 0.134145 * z ** 2)
        d2 = a @ w2 - v[:, t:t + chunk]
        d1 = (d2 @ w2.transpose(1, 2)) * slope
        d1, d2 = e * d1, e * d2
        seen = F.gelu(asked @ w1 - (asked @ x.transpose(1, 2)).tril() @ d1, approximate='tanh')
        answers.append(seen @ w2 - (seen @ a.transpose(1, 2)).tril() @ d2)
        w1, w2 = w1 - x.transpose(1, 2) @ d1, w2 - a.transpose(1, 2) @ d2
    return first(torch.cat(answers, 1)[None])


def main():
    library, shipped = Library(sys.argv[1], sys.argv[2]), Peers(shipped=True)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    q, v = torch.randn(1, T, H, K), torch.randn(1, T, H, K)
    k = F.normalize(torch.randn(1, T, H, K), dim=-1)
    step, keep = torch.rand(1, T, H) * 0.8 + 0.1, torch.rand(1, T, H) * 0.1 + 0.9
    keeps = torch.rand(1, T, H, K) * 0.1 + 0.9
    linear = shipped.load('linear_attn/naive').naive_chunk_linear_attn
    simple = shipped.load('simple_gla/naive').naive_chunk_simple_gla
    delta = shipped.load('delta_rule/naive').delta_rule_chunkwise
    gated = shipped.load('gated_delta_rule/naive').naive_chunk_gated_delta_rule
    kda = shipped.load('kda/naive').naive_chunk_kda
    mesa = shipped.load('mesa_net/naive').naive_mesa_net_CG
    kqv = dict(key=k, value=v, query=q)
    head, channel = dict(decay_gate='GATE_HEAD'), dict(decay_gate='GATE_CHANNEL')
    steps = dict(learning_rate_gate='GATE_HEAD')
    no_forget = dict(forget=0.0)
    ridge = torch.ones(H, K)
    raw = torch.cat([torch.zeros(H * K * K), torch.log(torch.expm1(ridge)).flatten()])
    layers = torch.randn(H, K, 4 * K) / K ** 0.5, torch.randn(H, 4 * K, K) / (4 * K) ** 0.5
    rows = [
        ('linear attention', Layer(library, 'linear-attention', {}, kqv),
         Peer(lambda q, k, v: linear(q, k, v, scale=1.0), [q, k, v])),
        ('simple GLA (Mamba-2)', Layer(library, 'retnet', dict(head, forget=0.0, decay_ratio=0.0),
                                       dict(kqv, keep=keep)),
         Peer(lambda q, k, v, g: simple(q, k, v, g.log(), scale=1.0), [q, k, v, keep])),
        ('DeltaNet', Layer(library, 'deltanet', steps, dict(kqv, learning_rate=step)),
         Peer(lambda q, k, v, b: first(delta(first(q) * K ** 0.5, first(k), first(v),
                                             first(b))[0]), [q, k, v, step])),
        ('Gated DeltaNet', Layer(library, 'gated-deltanet', dict(head, **steps, **no_forget),
                                 dict(kqv, keep=keep, learning_rate=step)),
         Peer(lambda q, k, v, g, b: gated(q, k, v, g.log(), b, scale=1.0), [q, k, v, keep, step])),
        ('Kimi delta attention', Layer(library, 'kda', dict(channel, **steps, **no_forget),
                                       dict(kqv, keep=keeps, learning_rate=step)),
         Peer(lambda q, k, v, g, b: kda(q, k, v, g.log(), b, scale=1.0),
              [q, k, v, keeps, step])),
        ('Mesa', Layer(library, 'mesa', dict(head, **steps, **no_forget, chunk=16),
                       dict(kqv, keep=keep, learning_rate=step), raw),
         Peer(lambda q, k, v, g, b: mesa(q, k, v, g.log(), ridge, b, 64), [q, k, v, keep, step])),
        ('TTT-MLP, chunk 16', Layer(
            library, 'ttt-mlp',
            dict(inner_norm=0, inner_residual=0, inner_bias=0, token_rates=0, chunk=16, forget=0.0,
                 decay_ratio=0.0, learning_rate=1.0, **steps),
            dict(kqv, learning_rate=step / 20), torch.cat([w.reshape(H, -1) for w in layers],
                                                          1).flatten()),
         Peer(lambda q, k, v, b: perceptron(q, k, v, b, layers), [q, k, v, step / 20])),
        ('softmax attention', Layer(library, 'softmax-attention', dict(window=T, chunk=16), kqv),
         Peer(lambda q, k, v: first(F.scaled_dot_product_attention(
             first(q), first(k), first(v), is_causal=True)), [q, k, v])),
    ]
    best = {}
    for name, ours, theirs in rows:
        ours.forward()
        theirs.forward()
        apart = ((ours.y - theirs.y).abs().max() / theirs.y.abs().max()).item()
        if not apart < 1e-3:
            raise SystemExit('%s: the two differ by %.1e of the largest output' % (name, apart))
        best[name] = [math.inf] * 4
    for _ in range(ROUNDS):
        for name, *sides in rows:
            for side, what in enumerate(sides):
                for at, work in enumerate((what.forward, what.training)):
                    best[name][2 * at + side] = min(best[name][2 * at + side], seconds(work))

    print('# A layer of memories, and PyTorch\n')
    print('- machine: %s, one core, %s' % (processor(), library.c.miras_isa().decode()))
    print('- compiler of miras.h: %s' % sys.argv[3])
    print('- peers: PyTorch %s, fla-core %s, Python %s' % (
        torch.__version__, importlib.metadata.version('fla-core'), platform.python_version()))
    print('- date: %s; command: `sh bench/peers.sh`' % time.strftime('%Y-%m-%d', time.gmtime()))
    print('- batch 1, %d tokens, %d heads of %d, floats; best of %d rounds in turns' % (
        T, H, K, ROUNDS))
    print('- milliseconds; ratio: PyTorch / miras.h\n')
    print('| model | forward | PyTorch | ratio | training | PyTorch | ratio |')
    print('|---|--:|--:|--:|--:|--:|--:|')
    for name, (a, b, c, d) in best.items():
        print('| %s | %.2f | %.2f | %.1f | %.2f | %.2f | %.1f |' % (
            name, 1e3 * a, 1e3 * b, b / a, 1e3 * c, 1e3 * d, d / c))


if __name__ == '__main__':
    main()
