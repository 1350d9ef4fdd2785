"""peers.py: miras.h against code that none of us wrote. peers.sh calls it, and says how:

    python peers.py LIBRARY LAYOUT COMPILER

The peers are the slow PyTorch references of flash-linear-attention, read from its files one by one,
so that its kernels are not loaded, and PyTorch's own attention. Gradients on both sides come from
autograd: a memory of miras.h is one function of a graph here, with miras_memory_backward as its
derivative, and what surrounds it (a gate as the logarithm of a factor, a key as 1 - alpha) is
PyTorch's on either side.

The references round to 32 bits at every step. What miras.h is compared with is their own text
with every float made a double; how far the text as shipped, in floats, is from that, is printed
too. Where a reference does not compute what it names, the few characters that have to change are
written out below, and what the table says of the shipped text is that error.
"""
import ctypes
import importlib.metadata
import importlib.util
import math
import os
import pathlib
import platform
import re
import struct
import sys
import time
import types
import warnings

warnings.filterwarnings('ignore', message='Failed to initialize NumPy')
import torch                            # noqa: E402 (the filter has to come first)
import torch.nn.functional as F         # noqa: E402

BOUND = 1e-4                            # on every largest difference / largest entry
B, T, H, K, V, CHUNK = 2, 48, 3, 16, 24, 16


# ---- miras.h ----

class Library:
    """The functions used, the constants, and where the fields of the structures lie."""

    def __init__(self, library, layout):
        self.c = ctypes.CDLL(library)
        self.sizes, self.fields, self.constants = {}, {}, {}
        for line in pathlib.Path(layout).read_text().split('\n'):
            words = line.split()
            if line.startswith('size'):
                self.sizes[words[1]] = int(words[2])
            elif line.startswith('field'):
                self.fields[words[1]] = int(words[2]), int(words[3]), words[4]
            elif line.startswith('constant'):
                self.constants[words[1]] = int(words[2])
        size, whole, any_pointer = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
        for name, result, arguments in (
                ('miras_isa', ctypes.c_char_p, []),
                ('miras_preset_find', whole, [ctypes.c_char_p]),
                ('miras_model_preset', whole, [any_pointer, whole, whole]),
                ('miras_memory_size', size, [any_pointer, ctypes.c_char_p, size]),
                ('miras_memory_open', any_pointer, [any_pointer, any_pointer, ctypes.c_char_p,
                                                    size]),
                ('miras_close', None, [any_pointer]),
                ('miras_memory_params', any_pointer, [any_pointer, any_pointer]),
                ('miras_memory_reset', None, [any_pointer]),
                ('miras_memory_tape_size', size, [any_pointer, whole]),
                ('miras_memory_grad_state_size', size, [any_pointer]),
                ('miras_memory_read', whole, [any_pointer] * 3),
                ('miras_memory_forward', whole, [any_pointer] * 4),
                ('miras_memory_backward', whole, [any_pointer] * 7)):
            function = getattr(self.c, name)
            function.restype = result
            function.argtypes = arguments

    def put(self, block, field, value):
        """Write one field of a structure that lies in block."""
        offset, size, kind = self.fields[field]
        code = {'w': {1: 'b', 2: 'h', 4: 'i'}, 'r': {4: 'f'}, 'p': {4: 'I', 8: 'Q'}}[kind][size]
        struct.pack_into('=' + code, block, offset, value)

    def struct(self, name, **fields):
        block = ctypes.create_string_buffer(self.sizes[name])
        for field, value in fields.items():
            self.put(block, name + '.' + field, value)
        return block

    def desc(self, preset, **fields):
        """A descriptor: the memory of a model's layer, with fields changed; gates that are not
        among them are none."""
        block = self.struct('desc')
        if preset:
            kind = self.c.miras_preset_find((preset + '-memory').encode())
            model = self.struct('model_desc')
            if self.c.miras_model_preset(model, kind, 0) != 0:
                raise Refused('there is no preset ' + preset)
            at, size, _ = self.fields['model_desc.memory']
            block[0:size] = model[at:at + size]
            for gate in GATES:
                self.put(block, 'desc.' + gate, 0)
        for field, value in fields.items():
            if isinstance(value, str):
                value = self.constants['MIRAS_' + value]
            self.put(block, 'desc.' + field, value)
        why = ctypes.create_string_buffer(400)
        if not self.c.miras_memory_size(block, why, len(why)):
            raise Refused(why.value.decode())
        return block


class Refused(Exception):
    pass


GATES = ('decay_gate', 'learning_rate_gate', 'momentum_gate', 'threshold_gate', 'value_decay_gate')
TOKENS = ('key', 'value', 'query', 'keep', 'learning_rate', 'momentum', 'threshold', 'value_keep',
          'erase', 'replace')


def floats(tensor):
    return tensor.detach().to(torch.float32).contiguous()


class Miras(torch.autograd.Function):
    """y [B, T, H, dv] and what the memory answers afterwards to every unit query [B, H, dk, dv],
    which for a linear memory is its state. With linear set, gradients for that come in, too."""

    @staticmethod
    def forward(ctx, library, desc, linear, value_dim, names, *tensors):
        c, held = library.c, dict(zip(names, map(floats, tensors)))
        memory = c.miras_memory_open(desc, None, None, 0)
        if 'memory' in held:
            count = ctypes.c_size_t()
            at = c.miras_memory_params(memory, ctypes.byref(count))
            if count.value != held['memory'].numel():
                raise Refused('the memory has %d outer parameters' % count.value)
            ctypes.memmove(at, held['memory'].data_ptr(), 4 * count.value)
        tokens = library.struct('input', length=held['query'].shape[1],
                                **{n: held[n].data_ptr() for n in names if n in TOKENS})
        batch, length, heads, width = held['query'].shape
        y = torch.full((batch, length, heads, value_dim), math.nan, dtype=torch.float32)
        tape = torch.empty(c.miras_memory_tape_size(memory, length), dtype=torch.float32)
        if c.miras_memory_forward(memory, tokens, y.data_ptr(), tape.data_ptr()) != 0:
            raise ValueError('miras_memory_forward failed')
        reads = torch.empty(batch, heads, width, value_dim, dtype=torch.float32)
        out = torch.empty(batch, heads, value_dim, dtype=torch.float32)
        for i in range(width):
            unit = torch.zeros(batch, heads, width, dtype=torch.float32)
            unit[..., i] = 1
            c.miras_memory_read(memory, unit.data_ptr(), out.data_ptr())
            reads[:, :, i] = out
        ctx.kept = library, memory, names, held, tokens, tape, tensors, linear
        if not linear:
            ctx.mark_non_differentiable(reads)
        return y.double(), reads.double()

    @staticmethod
    def backward(ctx, dy, dreads):
        library, memory, names, held, tokens, tape, tensors, linear = ctx.kept
        c = library.c
        grads = {n: torch.full_like(held[n], math.nan) for n in names}
        dstate = None
        if linear:
            dstate = floats(dreads)
            if c.miras_memory_grad_state_size(memory) != dstate.numel():
                raise ValueError('the state is not a matrix')
        dparams = None
        if 'memory' in grads:
            dparams = grads['memory'].zero_()
        wanted = library.struct('input_grad',
                                **{n: grads[n].data_ptr() for n in names if n in TOKENS})
        dy = floats(dy)
        if c.miras_memory_backward(memory, tokens, tape.data_ptr(), dy.data_ptr(), wanted,
                            dparams.data_ptr() if dparams is not None else None,
                            dstate.data_ptr() if dstate is not None else None) != 0:
            raise ValueError('miras_memory_backward failed')
        c.miras_close(memory)
        return (None,) * 5 + tuple(grads[n].to(t.dtype) for n, t in zip(names, tensors))


# ---- the peers ----

class Peers:
    """Modules of flash-linear-attention, loaded one file at a time. With shipped set their text is
    as it is; otherwise corrected, and in doubles."""

    def __init__(self, shipped):
        package = importlib.util.find_spec('fla')   # finds it; does not import it
        self.root = pathlib.Path(package.origin).parent / 'ops'
        self.shipped = shipped

    def load(self, module, *corrections):
        text = (self.root / (module + '.py')).read_text()
        # the one reference that imports a part of its package, for a function not called here
        text = re.sub(r'^from fla\..*$', '', text, flags=re.MULTILINE)
        if not self.shipped:
            for old, new in corrections:
                if old not in text:
                    raise ValueError('%s no longer says: %s' % (module, old))
                text = text.replace(old, new)
            text = re.sub(r'torch\.float(32)?\b', 'torch.float64', text)
            text = text.replace('.float()', '.double()')
        space = types.ModuleType(module.replace('/', '_'))
        exec(compile(text, module, 'exec'), space.__dict__)   # noqa: S102
        return space


def heads_first(*tensors):
    """[B, T, H, ...] to [B, H, T, ...] or back."""
    return [t.transpose(1, 2) for t in tensors]


def per_batch(memory):
    return memory.expand(B, *memory.shape).clone()


def rescaled(query):
    """For references that multiply the query by K^-1/2 and cannot be told not to."""
    return query * query.shape[-1] ** 0.5


# ---- random inputs, all of them exact in 32 bits ----

def normal(*shape, size=1.0):
    return lambda: torch.randn(*shape, dtype=torch.float32) * size


def unit(*shape):
    return lambda: F.normalize(torch.randn(*shape, dtype=torch.float32), dim=-1)


def uniform(low, high, *shape):
    return lambda: torch.rand(*shape, dtype=torch.float32) * (high - low) + low


Q, KEY, VALUE = normal(B, T, H, K), unit(B, T, H, K), normal(B, T, H, V)
MEMORY = normal(H, K, V, size=0.3)
STEP = uniform(0.1, 0.9, B, T, H)
KEEP = uniform(0.8, 1.0, B, T, H)
KEEPS = uniform(0.7, 1.0, B, T, H, K)
SQUARE = normal(B, T, H, K)             # values of memories whose widths must be equal


# ---- the rows ----

class Row:
    """One model. inputs: what autograd starts from, {name: draw}; the names q, k, v and those that
    begin with "memory" have columns of their own, all others are gates. tokens: the inputs as
    miras.h takes them. peer: y and, or None, the closing state, from inputs and Peers. linear: the
    state is a matrix that miras_memory_read can tell and that gradients can come in for."""

    def __init__(self, name, preset, fields, inputs, tokens, peer, remark='', linear=True,
                 chunks=(1, CHUNK)):
        self.name, self.preset, self.fields, self.inputs = name, preset, fields, inputs
        self.tokens, self.peer, self.remark = tokens, peer, remark
        self.linear, self.chunks = linear, chunks


rows = []


def row(*arguments, **options):
    rows.append(Row(*arguments, **options))


def linear_attention(x, peers):
    return peers.load('linear_attn/naive').naive_recurrent_linear_attn(
        x.q, x.k, x.v, scale=1.0, initial_state=per_batch(x.memory), output_final_state=True)


row('linear attention', 'linear-attention', {},
    dict(q=Q, k=normal(B, T, H, K), v=VALUE, memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, memory=x.memory), linear_attention)


def normalised(x, peers):
    q, k = F.elu(x.q) + 1, F.elu(x.k) + 1
    y, (s, z) = peers.load('linear_attn/naive').naive_recurrent_linear_attn(
        q, k, x.v, scale=1.0, initial_state=(per_batch(x.memory), per_batch(x.memory_z)[:, None]),
        normalize=True, output_final_state=True)
    phi = F.elu(torch.eye(K)) + 1
    reads = torch.einsum('ik,bhkv->bhiv', phi, s)
    return y, reads / (torch.einsum('ik,bhk->bhi', phi, z[:, 0]) + 1e-10)[..., None]


row('the same, elu + 1, normalised', 'linear-attention', dict(feature_map='FN_ELU',
                                                              normalize=1),
    dict(q=Q, k=normal(B, T, H, K), v=VALUE, memory=MEMORY, memory_z=uniform(1, 2, H, K)),
    lambda x: dict(key=x.k, value=x.v, query=x.q,
                   memory=torch.cat([x.memory.reshape(H, -1), x.memory_z], 1)),
    normalised, linear=False)


def based(x, peers):
    y = peers.load('based/naive').naive_parallel_based(*heads_first(x.q, x.k, x.v), scale=1.0,
                                                       use_norm=False)
    return heads_first(y)[0], None


row('the same, second-order features (Based)', 'linear-attention',
    dict(feature_map='FN_POLY2'),
    dict(q=unit(B, T, H, K), k=KEY, v=VALUE), lambda x: dict(key=x.k, value=x.v, query=x.q), based,
    linear=False)


def dfw(x, peers):
    """A value channel of a memory under diag(a) S diag(b) is a GLA memory that keeps a b_j."""
    q, k = (t.repeat_interleave(V, 2) for t in (rescaled(x.q), x.k))
    gate = (x.keep.log()[..., None, :] + x.value_keep.log()[..., None]).reshape(B, T, H * V, K)
    start = per_batch(x.memory).transpose(-1, -2).reshape(B, H * V, K, 1)
    y, s = peers.load('gla/naive').naive_recurrent_gla(
        q, k, x.v.reshape(B, T, H * V, 1), gate, initial_state=start, output_final_state=True)
    return y.reshape(B, T, H, V), s.reshape(B, H, V, K).transpose(-1, -2)


row('DFW', 'dfw', dict(decay_gate='GATE_CHANNEL', value_decay_gate='GATE_CHANNEL', decay_rate=0.0),
    dict(q=Q, k=KEY, v=VALUE, keep=KEEPS, value_keep=uniform(0.7, 1.0, B, T, H, V), memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, value_keep=x.value_keep,
                   memory=x.memory), dfw, 'each value channel as a GLA memory of its own')


def retnet(x, peers):
    y = peers.load('retention/naive').naive_retention(*heads_first(rescaled(x.q), x.k, x.v))
    return heads_first(y)[0], None


row('RetNet', 'retnet', {}, dict(q=Q, k=KEY, v=VALUE),
    lambda x: dict(key=x.k, value=x.v, query=x.q), retnet)


def simple_gla(x, peers, value, gate):
    return peers.load('simple_gla/naive').naive_recurrent_simple_gla(
        x.q, x.k, value, gate, scale=1.0, initial_state=per_batch(x.memory))


def lightning(x, peers):
    gate = -(8 / H * (1 - 1 / 4)) * torch.arange(H)   # ops/lightning_attn, layer 1 of 4
    return simple_gla(x, peers, x.v, gate.to(x.v).expand(B, T, H))


row('Lightning attention', 'lightning', dict(layer=1, layers=4),
    dict(q=Q, k=KEY, v=VALUE, memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, memory=x.memory), lightning)
row('simple GLA', 'mamba2', dict(decay_gate='GATE_HEAD', decay_rate=0.0),
    dict(q=Q, k=KEY, v=VALUE, keep=KEEP, memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, memory=x.memory),
    lambda x, peers: simple_gla(x, peers, x.v, x.keep.log()))
row('Mamba-2', 'mamba2', dict(decay_gate='GATE_HEAD', learning_rate_gate='GATE_HEAD',
                              decay_rate=0.0),
    dict(q=Q, k=KEY, v=VALUE, dt=uniform(0.01, 0.5, B, T, H), a=uniform(0.2, 2.0, H),
         memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, keep=torch.exp(-x.a * x.dt), learning_rate=x.dt,
                   memory=x.memory),
    lambda x, peers: simple_gla(x, peers, x.v * x.dt[..., None], -x.a * x.dt),
    'simple GLA with values times dt; gates are dt and A')


def gla(x, peers, key):
    return peers.load('gla/naive').naive_recurrent_gla(
        rescaled(x.q), key, x.v, x.keep.log(), initial_state=per_batch(x.memory),
        output_final_state=True)


row('GLA', 'gla', dict(decay_gate='GATE_CHANNEL', decay_rate=0.0),
    dict(q=Q, k=KEY, v=VALUE, keep=KEEPS, memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, memory=x.memory),
    lambda x, peers: gla(x, peers, x.k))
row('HGRN2', 'hgrn2', dict(decay_gate='GATE_CHANNEL', decay_rate=0.0),
    dict(q=Q, v=VALUE, keep=KEEPS, memory=MEMORY),
    lambda x: dict(key=1 - x.keep, value=x.v, query=x.q, keep=x.keep, memory=x.memory),
    lambda x, peers: gla(x, peers, 1 - x.keep), 'GLA with k = 1 - alpha')


def hgrn(x, peers):
    start = per_batch(x.memory).reshape(B, H * K)
    y, s = peers.load('hgrn/naive').naive_recurrent_hgrn(
        ((1 - x.keep) * x.v).reshape(B, T, -1), x.keep.log().reshape(B, T, -1), start, True)
    return x.q * y.reshape(B, T, H, K), torch.diag_embed(s.reshape(B, H, K))


row('HGRN', None,
    dict(architecture='ARCH_VECTOR', bias='BIAS_DOT', retention='RETENTION_L2',
         decay_gate='GATE_CHANNEL'),
    dict(q=Q, v=SQUARE, keep=KEEPS, memory=normal(H, K)),
    lambda x: dict(key=1 - x.keep, value=x.v, query=x.q, keep=x.keep, memory=x.memory), hgrn,
    'the vector memory', linear=False, chunks=(1,))


def delta_rule(x, peers, beta):
    y, s = peers.load('delta_rule/naive').delta_rule_recurrence(
        *heads_first(rescaled(x.q), x.k, x.v, beta), initial_state=per_batch(x.memory))
    return heads_first(y)[0], s


row('DeltaNet', 'deltanet', dict(learning_rate_gate='GATE_HEAD'),
    dict(q=Q, k=KEY, v=VALUE, step=STEP, memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, learning_rate=x.step, memory=x.memory),
    lambda x, peers: delta_rule(x, peers, x.step))
row('Longhorn', 'longhorn', dict(learning_rate_gate='GATE_HEAD'),
    dict(q=Q, k=normal(B, T, H, K, size=0.5), v=VALUE, step=STEP, memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, learning_rate=x.step, memory=x.memory),
    lambda x, peers: delta_rule(x, peers, x.step / (1 + x.step * (x.k * x.k).sum(-1))),
    'DeltaNet with beta / (1 + beta k.k)')


def gated_delta_rule(x, peers):
    return peers.load('gated_delta_rule/naive').naive_recurrent_gated_delta_rule(
        x.q, x.k, x.v, x.step, x.keep.log(), scale=1.0, initial_state=per_batch(x.memory),
        output_final_state=True)


row('Gated DeltaNet', 'gated-deltanet',
    dict(decay_gate='GATE_HEAD', learning_rate_gate='GATE_HEAD', decay_rate=0.0),
    dict(q=Q, k=KEY, v=VALUE, keep=KEEP, step=STEP, memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, learning_rate=x.step,
                   memory=x.memory),
    gated_delta_rule)


def delta_product(x, peers):
    k, v, beta = (t.transpose(2, 3).flatten(1, 2) for t in (x.k, x.v, x.step))
    gate = x.keep.log() if hasattr(x, 'keep') else None
    return peers.load('gated_delta_product/naive').naive_recurrent_gated_delta_product(
        x.q, k, v, gate, beta, 1.0, None, initial_state=per_batch(x.memory),
        output_final_state=True, num_householder=2)


PRODUCT = dict(q=Q, k=unit(B, T, H, 2, K), v=normal(B, T, H, 2, V),
               step=uniform(0.1, 1.8, B, T, H, 2), memory=MEMORY)
row('DeltaProduct', 'deltaproduct', dict(learning_rate_gate='GATE_HEAD'), PRODUCT,
    lambda x: dict(key=x.k, value=x.v, query=x.q, learning_rate=x.step, memory=x.memory),
    delta_product)
row('Gated DeltaProduct', 'gated-deltaproduct',
    dict(decay_gate='GATE_HEAD', learning_rate_gate='GATE_HEAD', decay_rate=0.0), dict(PRODUCT,
                                                                                       keep=KEEP),
    lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, learning_rate=x.step,
                   memory=x.memory),
    delta_product)


def kda(x, peers):
    return peers.load('kda/naive').naive_recurrent_kda(
        x.q, x.k, x.v, x.keep.log(), x.step, scale=1.0, initial_state=per_batch(x.memory),
        output_final_state=True)


row('KDA', 'kda', dict(decay_gate='GATE_CHANNEL', learning_rate_gate='GATE_HEAD', decay_rate=0.0),
    dict(q=Q, k=KEY, v=VALUE, keep=KEEPS, step=STEP, memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, learning_rate=x.step,
                   memory=x.memory), kda)


def rwkv7(x, peers):
    erase, replace = -x.kappa, x.kappa * x.rate
    y, s = peers.load('generalized_delta_rule/dplr/naive').dplr_recurrence(
        *heads_first(rescaled(x.q), x.k, x.v, erase, replace, x.keep.log()),
        initial_state=per_batch(x.memory))
    return heads_first(y)[0], s


row('RWKV-7', 'rwkv7', dict(decay_gate='GATE_CHANNEL', decay_rate=0.0),
    dict(q=Q, k=normal(B, T, H, K, size=0.3), v=VALUE, keep=uniform(0.55, 1.0, B, T, H, K),
         kappa=KEY, rate=uniform(0.0, 1.0, B, T, H, K), memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, erase=-x.kappa,
                   replace=x.kappa * x.rate, memory=x.memory), rwkv7)


def gdn2(x, peers):
    return peers.load('gdn2/naive').naive_recurrent_gdn2(
        x.q, x.k, x.v, x.keep.log(), x.erase, x.write, scale=1.0,
        initial_state=per_batch(x.memory), output_final_state=True)


row('Gated DeltaNet-2', 'rwkv7', dict(decay_gate='GATE_CHANNEL', decay_rate=0.0),
    dict(q=Q, k=KEY, v=VALUE, keep=KEEPS, erase=uniform(0.0, 1.0, B, T, H, K),
         write=uniform(0.0, 1.0, B, T, H, V), memory=MEMORY),
    lambda x: dict(key=x.k, value=x.v * x.write, query=x.q, keep=x.keep,
                   erase=-x.keep * x.erase * x.k, replace=x.k, memory=x.memory), gdn2,
    'as a memory with separate erase keys')


def comba(x, peers):
    old = 'h = h.clone() * g'
    return peers.load('comba/naive', (old, 'before = h.clone(); ' + old),
                      ('(h.clone() * b_p', '(before * b_p')).naive_recurrent_comba(
        x.q, x.k, x.v, x.p, x.step, x.keep.log(), scale=1.0,
        initial_state=per_batch(x.memory), output_final_state=True)


def comba_chunk(x, peers):
    """The chunk form of the same file, which is what the kernels compute."""
    return peers.load('comba/naive').naive_chunk_comba(
        x.q, x.k, x.v, x.p, x.keep.log(), x.step, chunk_size=CHUNK, scale=1.0,
        initial_state=per_batch(x.memory), output_final_state=True)


COMBA = dict(q=Q, k=KEY, v=VALUE, p=normal(B, T, H, K, size=0.2), keep=KEEP, step=STEP,
             memory=MEMORY)
for form, function, remark in (
        ('chunk form', comba_chunk, 'as a memory with separate erase keys'),
        ('recurrent form', comba, 'shipped: error measured after the decay, unlike chunk form and '
         'kernels; corrected: before it')):
    row('Comba, ' + form, 'rwkv7',
        dict(decay_gate='GATE_HEAD', learning_rate_gate='GATE_HEAD', decay_rate=0.0), COMBA,
        lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, learning_rate=x.step, erase=x.p,
                       replace=-x.step[..., None] * x.k, memory=x.memory), function, remark)


def mesa_reads(h, g, ridge):
    unit_queries = torch.eye(K).to(h).expand(B, H, K, K)
    solved = torch.linalg.solve(h + torch.diag_embed(ridge), unit_queries)
    return solved.transpose(-1, -2) @ g


def mesa(x, peers):
    y, h, g = peers.load('mesa_net/naive').naive_mesa_net_exact(
        x.q, x.k, x.v, x.keep.log(), x.ridge, x.step, h_kv_init=per_batch(x.memory))
    return y, mesa_reads(h, g, x.ridge)


def mesa_gradients(x, peers):
    y, h, g = peers.load('mesa_net/naive', ('1e-5', '1e-30')).naive_mesa_net_CG(
        x.q, x.k, x.v, x.keep.log(), x.ridge, x.step, CHUNK, h_kv_init=per_batch(x.memory))
    return y, mesa_reads(h, g, x.ridge)


for form, function, remark in (
        ('solved', mesa, ''),
        ('conjugate gradients', mesa_gradients, 'shipped: 1e-5 added to the quotients stalls the '
         'solve; corrected: 1e-30')):
    row('Mesa, ' + form, 'mesa', dict(decay_gate='GATE_HEAD', learning_rate_gate='GATE_HEAD',
                                      decay_rate=0.0),
        dict(q=unit(B, T, H, K), k=KEY, v=SQUARE, keep=uniform(0.9, 1.0, B, T, H), step=STEP,
             memory=normal(H, K, K, size=0.3), ridge=uniform(0.5, 1.5, H, K)),
        lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, learning_rate=x.step,
                       memory=torch.cat([x.memory.flatten(), x.ridge.expm1().log().flatten()])),
        function, remark, linear=False)


def attention(x, peers):
    y = F.scaled_dot_product_attention(*heads_first(x.q, x.k, x.v), is_causal=True)
    queries = torch.eye(K).to(x.q).expand(B, H, K, K)
    return heads_first(y)[0], F.scaled_dot_product_attention(queries, *heads_first(x.k, x.v))


def window(x, peers):
    y, _ = peers.load('attn/naive').naive_parallel_attn(x.q, x.k, x.v, window_size=10)
    queries = torch.eye(K).to(x.q).expand(B, H, K, K)
    return y, F.scaled_dot_product_attention(queries, *heads_first(x.k[:, -10:], x.v[:, -10:]))


PAIRS = dict(q=normal(B, T, H, K, size=2), k=normal(B, T, H, K), v=SQUARE)
row('softmax attention', 'softmax-attention', {}, PAIRS,
    lambda x: dict(key=x.k, value=x.v, query=x.q), attention, "PyTorch's own", linear=False)
row('sliding window of 10', 'sliding-window', dict(window=10), PAIRS,
    lambda x: dict(key=x.k, value=x.v, query=x.q), window, linear=False)


def normed_reads(x, m, bias):
    queries = torch.eye(K).to(m).expand(B, H, K, K)
    z = F.layer_norm(queries @ m + bias, (K,), eps=1e-5)
    return queries + z * x.memory_gain[:, None] + x.memory_bias[:, None]


def ttt(x, peers, rates):
    """rates [T, H] is what the reference takes: one for each output; rates [T, H, CHUNK] belong to
    an output and a source of its chunk, as in the paper."""
    corrections = [('o[i] = o_i +', 'o[i] = q_i +')]
    eta = rates[..., None]
    if not peers.shipped and rates.dim() == 5:
        eta = rates.flatten(2, 3)
        corrections.append(('eta.reshape(B, H, NT, BT, 1)', 'eta.reshape(B, H, NT, BT, BT)'))
    q, k, v = (t.clone() for t in heads_first(x.q, x.k, x.v))   # it changes its queries
    y, m, bias = peers.load('ttt/naive', *corrections).ttt_linear(
        q, k, v, x.memory_gain, x.memory_bias, eta, 1.0, 1e-5, CHUNK, per_batch(x.memory),
        per_batch(x.memory_offset)[:, :, None], True)
    return heads_first(y)[0], normed_reads(x, m, bias)


def token_rates(x):
    return torch.relu(1 / torch.arange(1, CHUNK + 1).to(x.rho) + x.rho)


def ttt_rows(x, peers):
    return ttt(x, peers, 0.5 * token_rates(x).repeat(B, H, T // CHUNK))


def ttt_sources(x, peers):
    step = heads_first(x.step)[0].reshape(B, H, T // CHUNK, CHUNK)
    if peers.shipped:
        return ttt(x, peers, (step * token_rates(x)).flatten(2))
    return ttt(x, peers, step[..., None, :] * token_rates(x)[:, None])


NORMED = dict(q=Q, k=KEY, v=SQUARE, memory=normal(H, K, K, size=0.5),
              memory_gain=uniform(0.5, 1.5, H, K), memory_bias=normal(H, K, size=0.1))
TTT = dict(NORMED, memory_offset=normal(H, K, size=0.1), rho=uniform(-0.05, 0.2, CHUNK))


def ttt_parameters(x):
    return torch.cat([torch.cat([x.memory.reshape(H, -1), x.memory_offset], 1).flatten(),
                      x.memory_gain.flatten(), x.memory_bias.flatten(), x.rho])


# without what miras.h adds to the papers' forms: a decay of its own, and, below, that decays lead
# to the initial memory
FREE = dict(inner_norm=1, inner_residual=1, decay_rate=0.0, decay_ratio=0.0)
row('TTT-Linear, rates by output', 'ttt-linear',
    dict(FREE, token_rates=1, learning_rate=0.5), TTT,
    lambda x: dict(key=x.k, value=x.v, query=x.q, memory=ttt_parameters(x)), ttt_rows,
    'shipped: adds the normed z to z; corrected: to q', linear=False, chunks=(CHUNK,))
row('TTT-Linear, and by source', 'ttt-linear',
    dict(FREE, token_rates=1, learning_rate_gate='GATE_HEAD'),
    dict(TTT, step=uniform(0.1, 0.9, B, T, H)),
    lambda x: dict(key=x.k, value=x.v, query=x.q, learning_rate=x.step, memory=ttt_parameters(x)),
    ttt_sources, 'shipped: as above, and a step belongs to its output only', linear=False,
    chunks=(CHUNK,))


def titans(x, peers):
    wrong = 'v_new = D * grad - grad.sum(-1, keepdim=True) / (rstd * D)'
    right = 'v_new = (D * grad - grad.sum(-1, keepdim=True)) / (rstd * D)'
    q, k, v, step, forget, momentum = heads_first(
        x.q, x.k, x.v, x.step[..., None], 1 - x.keep[..., None], x.momentum[..., None])
    y, m = peers.load('titans/naive', (wrong, right), ('output_t = output_t +', 'output_t = q_t +')
                      ).titans_linear(q, k, v, x.memory_gain, x.memory_bias, step / 2, forget,
                                      momentum, 1e-5, x.chunk, per_batch(x.memory), True)
    return heads_first(y)[0], normed_reads(x, m, 0)


row('Titans, one layer', 'titans',
    dict(FREE, depth=1, decay_target=0, decay_gate='GATE_HEAD', learning_rate_gate='GATE_HEAD',
         momentum_gate='GATE_HEAD', momentum=0.0),
    dict(NORMED, keep=uniform(0.98, 1.0, B, T, H), step=uniform(0.02, 0.2, B, T, H),
         momentum=uniform(0.1, 0.9, B, T, H)),
    lambda x: dict(key=x.k, value=x.v, query=x.q, keep=x.keep, learning_rate=x.step,
                   momentum=x.momentum,
                   memory=torch.cat([x.memory.flatten(), x.memory_gain.flatten(),
                                     x.memory_bias.flatten()])), titans,
    'shipped: a parenthesis is missing in the inner gradient, and the normed z is added to z',
    linear=False)


# Perceptrons have no reference there. PyTorch gets the papers' update in a few lines and finds the
# inner gradient, and the gradient through it, by itself.

HIDDEN = 4 * K


def perceptron(x, weights, offsets, inputs):
    """inputs [B, H, n, K] + norm(gelu(inputs W_1 + b_1) W_2 + b_2)"""
    z = F.gelu(inputs @ weights[0] + offsets[0], approximate='tanh') @ weights[1] + offsets[1]
    return inputs + (F.layer_norm(z, (K,), eps=1e-5) * x.memory_gain[:, None] +
                     x.memory_bias[:, None])


def descend(x, peers, loss, link=lambda a, anchor: a):
    """link(a, anchor): the weights of a layer; anchor is its state at the chunk's start, None when
    the chunk closes and at its start."""
    state = [per_batch(x.memory_1), per_batch(x.memory_2)]
    if hasattr(x, 'memory_offset_1'):
        state += [per_batch(t)[:, :, None] for t in (x.memory_offset_1, x.memory_offset_2)]
    speed = [0.0] * len(state)
    outputs = []

    def answers(weights, inputs):
        return perceptron(x, weights[:2], weights[2:] or [0.0, 0.0], inputs)

    for t in range(T):
        if t % x.chunk == 0:
            start = state
            weights = [link(a, None) for a in state]
            total = [0.0] * len(state)
        residual = answers(weights, x.k[:, t, :, None]) - x.v[:, t, :, None]
        threshold = x.threshold[:, t, :, None, None] if hasattr(x, 'threshold') else None
        slopes = torch.autograd.grad(loss(residual, threshold).sum(), weights, create_graph=True)
        steps = [x.step[:, t, :, None, None] * g for g in slopes]
        if hasattr(x, 'rho'):
            total = [a + b for a, b in zip(total, steps)]
            state = [a - token_rates(x)[t % x.chunk] * b for a, b in zip(start, total)]
        else:
            theta = x.momentum[:, t, :, None, None] if hasattr(x, 'momentum') else 0.0
            speed = [theta * a - b for a, b in zip(speed, steps)]
            state = [x.keep[:, t, :, None, None] * a + b for a, b in zip(state, speed)]
        closes = (t + 1) % x.chunk == 0
        read = [link(a, None if closes else b) for a, b in zip(state, start)]
        outputs.append(answers(read, x.q[:, t, :, None])[:, :, 0])
    return torch.stack(outputs, 1), answers(read, torch.eye(K).to(x.q).expand(B, H, K, K))


def squares(residual, threshold):
    return 0.5 * residual ** 2


def cubes(residual, threshold):
    return residual.abs() ** 3


def mixture(residual, threshold, sharpness=2):
    """Yaad: e = r, or, where |r| is above the threshold, threshold * tanh(sharpness r)."""
    inside = residual.norm(dim=-1, keepdim=True) <= threshold
    linear = threshold * torch.log(torch.cosh(sharpness * residual)) / sharpness
    return torch.where(inside, 0.5 * residual ** 2, linear)


def four_norm(a, anchor):
    """Moneta, q = 4: A / ||A||_4^2; inside a chunk with the norm of its start."""
    return a / ((a if anchor is None else anchor) ** 4).sum((-1, -2), keepdim=True) ** 0.5


def simplex(a, anchor):
    """Memora: rows of the first layer and columns of the last are c softmax(A), c = 16; inside a
    chunk those of its start."""
    a = a if anchor is None else anchor
    return 16 * F.softmax(a, -1 if a.shape[-1] == HIDDEN else -2)


def perceptron_parameters(x):
    parts = [x.memory_1, x.memory_2]
    if hasattr(x, 'memory_offset_1'):
        parts = [x.memory_1, x.memory_offset_1, x.memory_2, x.memory_offset_2]
    parts = [torch.cat([t.reshape(H, -1) for t in parts], 1), x.memory_gain, x.memory_bias]
    return torch.cat([t.flatten() for t in parts + ([x.rho] if hasattr(x, 'rho') else [])])


def perceptron_tokens(x):
    own = dict(keep='keep', step='learning_rate', momentum='momentum', threshold='threshold')
    gates = {n: getattr(x, m) for m, n in own.items() if hasattr(x, m)}
    return dict(key=x.k, value=x.v, query=x.q, memory=perceptron_parameters(x), **gates)


def perceptron_row(name, preset, size, step, *update, chunks=(1, CHUNK), fields=None, **inputs):
    """size: of the first entries of the dual state; step: the longest; update: as descend has."""
    drawn = dict(q=Q, k=KEY, v=SQUARE, memory_1=normal(H, K, HIDDEN, size=size),
                 memory_2=normal(H, HIDDEN, K, size=size),
                 memory_gain=uniform(0.5, 1.5, H, K), memory_bias=normal(H, K, size=0.1),
                 step=uniform(0.2 * step, step, B, T, H), **inputs)
    row(name, preset,
        dict(FREE, learning_rate_gate='GATE_HEAD', **(fields or {})), drawn,
        perceptron_tokens,
        lambda x, peers: descend(x, peers, *update),
        "the paper's update, inner gradient by PyTorch", linear=False, chunks=chunks)


DECAYS = dict(decay_gate='GATE_HEAD', decay_target=0)
SLOW = uniform(0.98, 1.0, B, T, H)
perceptron_row('TTT-MLP', 'ttt-mlp', 0.25, 0.2, squares, chunks=(CHUNK,),
               fields=dict(token_rates=1), rho=uniform(-0.05, 0.2, CHUNK),
               memory_offset_1=normal(H, HIDDEN, size=0.1), memory_offset_2=normal(H, K, size=0.1))
perceptron_row('Titans', 'titans', 0.25, 0.03, squares,
               fields=dict(DECAYS, momentum_gate='GATE_HEAD', momentum=0.0), keep=SLOW,
               momentum=uniform(0.1, 0.9, B, T, H))
perceptron_row('Moneta', 'moneta', 0.1, 0.002, cubes, four_norm, fields=dict(DECAYS, q=4.0),
               keep=SLOW)
perceptron_row('Yaad', 'yaad', 0.25, 0.03, mixture,
               fields=dict(DECAYS, threshold_gate='GATE_HEAD', threshold=0.0, sharpness=2.0),
               keep=SLOW, threshold=uniform(3.0, 7.0, B, T, H))
perceptron_row('Memora, linear in the logits', 'memora', 2.0, 0.02, squares, simplex,
               fields=dict(DECAYS, simplex=16.0, simplex_signed=0, simplex_logits=1), keep=SLOW)


# ---- running them ----

def difference(a, b):
    """Largest difference over largest entry."""
    return ((a - b).abs().max() / b.abs().max()).item() if a is not None else 0.0


def results(y, state, inputs, dy, dstate):
    loss = (y * dy).sum()
    if state is not None and dstate is not None:
        loss = loss + (state * dstate).sum()
    names = list(inputs)
    grads = torch.autograd.grad(loss, [inputs[n] for n in names])
    return dict(zip(names, grads), y=y.detach(), state=None if state is None else state.detach())


def run_peer(r, drawn, chunk, dy, dstate, shipped):
    kind = torch.float32 if shipped else torch.float64
    torch.set_default_dtype(kind)
    inputs = {n: t.to(kind).requires_grad_() for n, t in drawn.items()}
    x = types.SimpleNamespace(chunk=chunk, **inputs)
    y, state = r.peer(x, Peers(shipped))
    found = results(y, state, inputs, dy.to(kind), None if dstate is None else dstate.to(kind))
    torch.set_default_dtype(torch.float64)
    return {n: None if t is None else t.double() for n, t in found.items()}


def run_miras(library, r, drawn, chunk, dy, dstate):
    widths = dict(batch=B, heads=H, key_dim=K, value_dim=drawn['v'].shape[-1], chunk=chunk)
    desc = library.desc(r.preset, **dict(r.fields, **widths))
    inputs = {n: t.double().requires_grad_() for n, t in drawn.items()}
    tokens = r.tokens(types.SimpleNamespace(**inputs))
    y, state = Miras.apply(library, desc, r.linear, widths['value_dim'], tuple(tokens),
                           *tokens.values())
    return results(y, state, inputs, dy, dstate)


def column(name):
    if name in ('y', 'state', 'q', 'k', 'v'):
        return name
    return 'memory' if name.startswith('memory') else 'gates'


def compare(found, right):
    """The largest difference of each column; NaN, which no maximum keeps, counts as infinite."""
    worst = {}
    for name, value in right.items():
        if value is not None:
            one = difference(found[name], value)
            one = math.inf if math.isnan(one) else one
            worst[column(name)] = max(worst.get(column(name), 0.0), one)
    return worst


def run(library, r):
    """The row's largest differences by column, and that of the reference as shipped."""
    worst, shipped = {}, 0.0
    for chunk in r.chunks:
        torch.manual_seed(len(r.name))
        drawn = {n: draw() for n, draw in r.inputs.items()}
        size = drawn['v'].shape[-1]
        dy = torch.randn(B, T, H, size, dtype=torch.float32).double()
        dstate = None
        if r.linear and 'memory' in drawn:
            dstate = torch.randn(B, H, K, size, dtype=torch.float32).double()
        right = run_peer(r, drawn, chunk, dy, dstate, False)
        ours = run_miras(library, r, drawn, chunk, dy, dstate)
        for name, value in compare(ours, right).items():
            worst[name] = max(worst.get(name, 0.0), value)
        as_is = compare(run_peer(r, drawn, chunk, dy, dstate, True), right)
        shipped = max(shipped, *as_is.values())
    return worst, shipped


def processor():
    try:
        for line in pathlib.Path('/proc/cpuinfo').read_text().split('\n'):
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


COLUMNS = (('y', 'outputs'), ('state', 'state'), ('q', 'd query'), ('k', 'd key'),
           ('v', 'd value'), ('gates', 'd gates'), ('memory', 'd memory'))


def main():
    library = Library(sys.argv[1], sys.argv[2])
    torch.set_num_threads(1)
    version = importlib.metadata.version
    print('# miras.h against code that none of us wrote\n')
    print('- machine: %s, %s' % (processor(), library.c.miras_isa().decode()))
    print('- compiler: %s' % sys.argv[3])
    print('- peers: PyTorch %s, fla-core %s (flash-linear-attention), Python %s'
          % (torch.__version__, version('fla-core'), platform.python_version()))
    print('- date: %s; command: `sh tests/peers.sh`' % time.strftime('%Y-%m-%d'))
    print('- batch %d, %d tokens, %d heads, keys of %d, values of %d (or %d where the two must be '
          'equal);\n  the worse of chunks 1 and %d; TTT %d only'
          % (B, T, H, K, V, K, CHUNK, CHUNK))
    print('- largest difference / largest entry of 32-bit miras.h from the reference in doubles, '
          'corrected\n  where the remark says so, bound %.0e; "as shipped": of the reference in '
          'floats and uncorrected,\n  over all columns\n' % BOUND)
    wide = max(len(r.name) for r in rows)
    head = ['%-*s' % (wide, 'model')] + ['%8s' % title for _, title in COLUMNS]
    print('| ' + ' | '.join(head + ['as shipped', 'remark |']))
    print('|' + '---|' + '--:|' * (len(COLUMNS) + 1) + '---|')
    passed = failed = 0
    for r in rows:
        if os.environ.get('ONLY', '') not in r.name:
            continue
        try:
            worst, shipped = run(library, r)
        except Refused as why:
            failed += 1
            print('| %-*s | refused: %s |' % (wide, r.name, why), flush=True)
            continue
        good = max(worst.values()) <= BOUND
        passed, failed = passed + good, failed + (not good)
        cells = ['%8.1e' % worst[name] if name in worst else '%8s' % '' for name, _ in COLUMNS]
        remark = ('' if good else 'FAILED ') + r.remark
        print('| %-*s | %s | %10.1e | %s |' % (wide, r.name, ' | '.join(cells), shipped, remark),
              flush=True)
    print()
    print('%d passed, %d failed' % (passed, failed))
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
