"""gpu_peers.py: what bench/gpu_fast.cu times, by other people's code on the same GPU: the Triton
kernels of flash-linear-attention, and plain PyTorch for perceptron memories, which have no kernels
there.

    python gpu_peers.py            exit status 77: there is no torch, or it sees no GPU

Shapes are those of gpu_fast.cu: 4 sequences of 8192 tokens, 32 heads of 128 (HEADS, D), keys and
queries of 16 heads where the kernel can share them. FLA runs in bfloat16, as it is meant to, with a
state of floats, as miras does. Times are of graphs where one can be captured, else of calls:
medians of at most 50, and at most half a second.

Adjoints of gated kernels are left out on Hopper with Triton from 3.4.0 to before 3.7.1, which
translates chunk_bwd_dqkwg wrongly (FLA issue 640): fla 0.5 refuses them, fla 0.4 is silently wrong.
"""
import os
import sys

os.environ.setdefault('FLA_TILELANG', '0')     # Triton alone
os.environ.setdefault('FLA_FLASH_QLA', '0')
try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print('skipped: there is no torch')
    sys.exit(77)

B, T = 4, int(os.environ.get('TOKENS', 8192))
H, D = int(os.environ.get('HEADS', 32)), int(os.environ.get('D', 128))


def normal(*shape, dtype=torch.float32, size=1.0):
    return (torch.randn(*shape, device='cuda') * size).to(dtype)


def milliseconds(call):
    """The median of a call, as a graph if it can be one."""
    for _ in range(3):
        call()                                 # compiles and tunes
    torch.cuda.synchronize()
    how = 'graph'
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        run = graph.replay
        run()
        torch.cuda.synchronize()
    except RuntimeError:
        torch.cuda.synchronize()
        run, how = call, 'calls'
    times = []
    while len(times) < 5 or (len(times) < 50 and sum(times) < 500):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2], how


def show(name, tokens, call):
    try:
        ms, how = milliseconds(call)
        print(f'{name:44} {tokens:6d} tokens {ms:11.3f} ms ({how}), '
              f'{1000 * ms / tokens:9.3f} us a token', flush=True)
    except Exception as error:                 # one peer that fails leaves the others
        print(f'{name:44} skipped: {type(error).__name__}: {str(error).splitlines()[:1]}',
              flush=True)
        torch.cuda.synchronize()
    torch.cuda.empty_cache()


# ---- flash-linear-attention ----

def triton_is_wrong():
    import triton
    version = tuple(int(n) for n in triton.__version__.split('+')[0].split('.')[:3])
    hopper = torch.cuda.get_device_capability()[0] == 9
    return hopper and (3, 4, 0) <= version < (3, 7, 1)


def inputs(batch, tokens, heads, gate):
    low = torch.bfloat16
    q, k = (F.normalize(normal(batch, tokens, heads, D), dim=-1).to(low) for _ in range(2))
    v = normal(batch, tokens, H, D, dtype=low)
    beta = torch.rand(batch, tokens, H, device='cuda').to(low)
    shape = (batch, tokens, H, D) if gate == 'channel' else (batch, tokens, H)
    g = F.logsigmoid(normal(*shape) + 4)
    return q, k, v, g if gate == 'head' else g.to(low), beta


def linear_attention():
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.gated_delta_rule import (chunk_gated_delta_rule,
                                          fused_recurrent_gated_delta_rule)
    from fla.ops.gla import chunk_gla
    from fla.ops.kda import chunk_kda
    from fla.ops.simple_gla import chunk_simple_gla
    rows = [
        ('gated-deltanet, q and k of H/2 heads', H // 2, 'head', True,
         lambda q, k, v, g, b: chunk_gated_delta_rule(q, k, v, g=g, beta=b)[0]),
        ('gated-deltanet', H, 'head', True,
         lambda q, k, v, g, b: chunk_gated_delta_rule(q, k, v, g=g, beta=b)[0]),
        ('deltanet', H, 'head', False,
         lambda q, k, v, g, b: chunk_delta_rule(q, k, v, beta=b)[0]),
        ('mamba2 (simple GLA)', H, 'head', True,
         lambda q, k, v, g, b: chunk_simple_gla(q, k, v, g=g)[0]),
        ('gla', H, 'channel', True, lambda q, k, v, g, b: chunk_gla(q, k, v, g=g)[0]),
        ('kda', H, 'channel', True, lambda q, k, v, g, b: chunk_kda(q, k, v, g=g, beta=b)[0]),
    ]
    wrong = triton_is_wrong()
    for name, heads, gate, gated, call in rows:
        x = inputs(B, T, heads, gate)
        with torch.no_grad():
            show(f'fla {name}, forward', T, lambda: call(*x))
        if wrong and gated:
            print(f'fla {name}, with adjoint: skipped, this Triton translates it wrongly here')
            continue
        x = [t.detach().requires_grad_() for t in x]

        def both():
            for t in x:
                t.grad = None
            call(*x).sum().backward()
        show(f'fla {name}, with adjoint', T, both)
    for batch in (1, 8, 64, 256, 512):
        q, k, v, g, beta = inputs(batch, 1, H, 'head')
        state = torch.zeros(batch, H, D, D, device='cuda')
        with torch.no_grad():
            show(f'fla gated-deltanet, decode of {batch} sequences', 1,
                 lambda: fused_recurrent_gated_delta_rule(
                     q, k, v, g=g, beta=beta, initial_state=state, output_final_state=True))


# ---- perceptrons: the papers' update of a chunk, in its dual form ----

class Perceptron:
    """x + norm(gelu(x W + b) V + c), learnt by descent on |answer - value|^2 / 2 with the gradients
    at the chunk's start. keep and momentum are numbers: weights after token t of a chunk are
    keep^(t+1) W + mine[t] S - step sum_i weigh[t, i] gradient_i, where S is the momentum."""

    def __init__(self, keep, momentum, chunk, dtype):
        self.chunk, self.step = chunk, 0.1 / D
        weigh = torch.zeros(chunk, chunk)
        speed = torch.zeros(chunk, chunk)
        kept, mine, now = torch.zeros(chunk), torch.zeros(chunk), torch.eye(chunk)
        for t in range(chunk):
            speed[t] = momentum * (speed[t - 1] if t else 0) + now[t]
            weigh[t] = keep * (weigh[t - 1] if t else 0) + speed[t]
            kept[t] = keep ** (t + 1)
            mine[t] = keep * (mine[t - 1] if t else 0) + momentum ** (t + 1)
        self.weigh, self.kept, self.mine = (x.to('cuda', dtype) for x in (weigh, kept, mine))
        self.speed = speed[-1].to('cuda', dtype)
        self.slow = momentum ** chunk

    def changed(self, w, s, x, slope, read):
        """read (after W has learnt x' slope), and W and S after the chunk"""
        y = self.kept[:, None] * (read @ w)
        if self.slow:
            y = y + self.mine[:, None] * (read @ s)
        y = y - self.step * ((read @ x.transpose(-1, -2)) * self.weigh) @ slope
        xt = x.transpose(-1, -2)
        new = self.kept[-1] * w + self.mine[-1] * s - self.step * (xt * self.weigh[-1]) @ slope
        return y, new, self.slow * s - self.step * (xt * self.speed) @ slope

    def token_chunk(self, w, s, key, value, query):
        one = torch.ones_like(key[..., :1])    # offsets are the weights of one input more
        key1, query1 = torch.cat([key, one], -1), torch.cat([query, one], -1)
        z = key1 @ w[0]
        a = torch.cat([F.gelu(z, approximate='tanh'), one], -1)
        o = a @ w[1]
        mean, deviation = o.mean(-1, keepdim=True), (o.var(-1, keepdim=True, correction=0) + 1e-5)
        hat = (o - mean) * deviation.rsqrt()
        error = key + hat - value
        slope = (error - error.mean(-1, keepdim=True) -
                 hat * (error * hat).mean(-1, keepdim=True)) * deviation.rsqrt()
        th = torch.tanh(0.7978845608 * z * (1 + 0.044715 * z * z))
        by = 0.5 * (1 + th) + 0.5 * z * (1 - th * th) * 0.7978845608 * (1 + 0.134145 * z * z)
        under = (slope @ w[1][..., :-1, :].transpose(-1, -2)) * by
        z, w0, s0 = self.changed(w[0], s[0], key1, under, query1)
        hidden = torch.cat([F.gelu(z, approximate='tanh'), one], -1)
        o, w1, s1 = self.changed(w[1], s[1], a, slope, hidden)
        return query + F.layer_norm(o, (o.shape[-1],)), [w0, w1], [s0, s1]

    def run(self, w, keys, values, queries):
        s = [torch.zeros_like(x) for x in w]
        outputs = []
        for t in range(0, keys.shape[2], self.chunk):
            part = slice(t, t + self.chunk)
            y, w, s = self.token_chunk(w, s, keys[:, :, part], values[:, :, part],
                                       queries[:, :, part])
            outputs.append(y)
        return torch.cat(outputs, 2)


def perceptrons():
    tokens = min(T, 1024)
    for dtype in (torch.float32, torch.bfloat16):
        for name, keep, momentum in (('ttt-mlp', 1.0, 0.0), ('titans', 0.99, 0.9)):
            for chunk in (1, 16, 64):
                some = tokens // 8 if chunk == 1 else tokens
                memory = Perceptron(keep, momentum, chunk, dtype)
                w = [normal(B, H, D + 1, 4 * D, dtype=dtype, size=0.02),
                     normal(B, H, 4 * D + 1, D, dtype=dtype, size=0.02)]
                k, v, q = (F.normalize(normal(B, H, some, D), dim=-1).to(dtype) for _ in range(3))
                label = f'torch {name}, chunk {chunk}, {str(dtype)[6:]}'
                with torch.no_grad():
                    show(f'{label}, forward', some, lambda: memory.run(w, k, v, q))
                x = [t.requires_grad_() for t in [*w, k, v, q]]
                show(f'{label}, with adjoint', some,
                     lambda: torch.autograd.grad(memory.run(w, k, v, q).sum(), x))


if __name__ == '__main__':
    if not torch.cuda.is_available():
        print('skipped: torch sees no GPU')
        sys.exit(77)
    print(f'{torch.cuda.get_device_name()}, torch {torch.__version__}, {B} sequences, '
          f'{H} heads of {D}')
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        import fla
        print(f'fla {fla.__version__}')
        linear_attention()
    except ImportError as missing:
        print(f'flash-linear-attention is skipped: {missing}')
    perceptrons()
