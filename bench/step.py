"""step.py: training steps of a language model by miras.h (bench/step.c) and by PyTorch's
transformer of the same size, in turns; prints what belongs into bench/results/cpu.md.

    cc -O2 -shared -fPIC bench/step.c -o libstep.so -lm -lpthread
    python bench/step.py ./libstep.so [WIDTH LAYERS HEADS HIDDEN]     usually 128 4 4 288

The transformer is GPT-2's block, without biases in its matrices: learned positions, layer norms,
PyTorch's own causal attention, an MLP of four times the width with GELU; the head is the embedding.
Gradients by autograd, AdamW in its fused form, no clipping; miras.h clips. HIDDEN makes the MLP of
miras.h such that both have as many parameters; 0 is its usual one. 32 x 64 random tokens of 256
words. For every number of threads all take a step in turn; per model the medians and the least of
wall time and of processor time.
"""
import ctypes
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

SIZES = [int(n) for n in sys.argv[2:6]] or [128, 4, 4, 288]
W, LAYERS, H, HIDDEN = SIZES
B, T, V = 32, 64, 256
ROUNDS = int(os.environ.get('ROUNDS', 15))
MODELS = os.environ.get('MODELS', 'linear-attention yaad').split()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(W), nn.LayerNorm(W)
        self.qkv, self.o = nn.Linear(W, 3 * W, bias=False), nn.Linear(W, W, bias=False)
        self.up, self.down = nn.Linear(W, 4 * W, bias=False), nn.Linear(4 * W, W, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, H, W // H).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, W))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate='tanh'))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(V, W)
        self.positions = nn.Parameter(torch.zeros(T, W))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(W)

    def forward(self, tokens):
        x = self.blocks(self.embedding(tokens) + self.positions)
        return F.linear(self.norm(x), self.embedding.weight)


def peer():
    model = Transformer()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
    tokens, targets = torch.randint(V, (2, B, T))

    def step():
        adam.zero_grad(set_to_none=True)
        F.cross_entropy(model(tokens).view(-1, V), targets.view(-1)).backward()
        adam.step()

    return step, sum(p.numel() for p in model.parameters())


def ours(library, name, threads):
    at = library.step_open(name.encode(), (ctypes.c_int * 8)(W, LAYERS, H, HIDDEN, B, T, V,
                                                             threads))
    if not at:
        raise SystemExit('%s does not open' % name)
    return lambda: library.step_run(at), library.step_parameters(at)


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.step_open.restype = ctypes.c_void_p
    library.step_run.restype = ctypes.c_float
    library.step_run.argtypes = library.step_parameters.argtypes = [ctypes.c_void_p]
    library.step_parameters.restype = ctypes.c_size_t
    print('- PyTorch %s, Python %s; load %.1f' % (torch.__version__, sys.version.split()[0],
                                                  os.getloadavg()[0]))
    print('- width %d, %d layers, %d heads, MLP %d; medians and least of %d rounds\n' % (
        W, LAYERS, H, HIDDEN, ROUNDS))
    print('| threads | model | parameters | tokens/s, median | least ms | of processors | ratio |')
    print('|--:|---|--:|--:|--:|--:|--:|')
    for threads in 1, 2:
        torch.set_num_threads(threads)
        runs = [('PyTorch', *peer())] + [(name, *ours(library, name, threads)) for name in MODELS]
        wall, busy = [[] for _ in runs], [[] for _ in runs]
        for r in range(-2, ROUNDS):
            for i, (_, step, _) in enumerate(runs):
                time.sleep(0.3 if threads > 1 else 0)     # the other's threads go to sleep
                step()
                w, c = time.perf_counter(), time.process_time()
                step()
                w, c = time.perf_counter() - w, time.process_time() - c
                if r >= 0:
                    wall[i].append(w)
                    busy[i].append(c)
        for i, (name, _, count) in enumerate(runs):
            print('| %d | %s | %d | %.0f | %.1f | %.1f | %.2f |' % (
                threads, name, count, B * T / statistics.median(wall[i]), 1e3 * min(wall[i]),
                1e3 * min(busy[i]), statistics.median(wall[0]) / statistics.median(wall[i])),
                flush=True)


if __name__ == '__main__':
    main()
