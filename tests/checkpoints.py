#!/usr/bin/env python3
"""checkpoints.py: small models in other people's published form, and the logits they must give.

  python3 tests/checkpoints.py            makes every model and checks it
  python3 tests/checkpoints.py NAME ...   only these
  python3 tests/checkpoints.py --check    writes nothing: what is stored must come out again
  python3 tests/checkpoints.py --gguf     writes data/llama-tied.gguf by PyPI's package gguf (0.19)

It is run once, by hand; the tests read the files and need no Python. For each model of the table
MODELS it writes into tests/data/checkpoints/NAME:

  config.json          the configuration, with the field names of the model's own family, which in
                       three cases (RWKV-7, -6 and -4 as their author has them) has none
  model.safetensors    the weights, with the family's own names and layouts; some are in shards
                       (model-0000i-of-0000n.safetensors and model.safetensors.index.json)
  tokens.txt           token ids
  logits.f32           the logits after each token, little-endian float32 [tokens, vocabulary]

The logits are made here, in float64, by the formulas below, from the numbers as the file stores
them (BF16 and F16 are rounded first), and rounded to float32. Then they are compared with the
logits of the originals, which read the same files, compute in float32 and share no line with this
script: max |difference| / std(logits) must be below 5e-6. The originals are

  transformers   Hugging Face's model, its code for processors without a GPU
  fla            flash-linear-attention's model; its Triton kernels run in Triton's interpreter
  mlx            mlx-lm's model, on the CPU
  rwkv           the author's package, for the author's names
  ttt            the authors' file ttt.py (its blocks), which is in no package: it has to lie in a
                 folder of PYTHONPATH, from github.com/test-time-training/ttt-lm-pytorch at 6990c68c
                 (the figures for it came from a copy by hand without what only its caches need)
  autograd       for TTT only: the published sums over a whole mini-batch at a time, in float32, the
                 inner gradient taken by PyTorch; written here, so a weaker witness than the others

What is not installed is left out, and the table printed says so. numpy alone makes the files; for
everything (Linux, x86-64, Python 3.11; 5 GB, since PyPI's torch brings its CUDA libraries):

  pip install numpy==2.4.6 torch==2.15.0 transformers==5.23.0 einops==0.8.2
  pip install --no-deps flash-linear-attention==0.6.0 fla-core==0.6.0
  pip install --no-deps mlx==0.32.4 mlx-cpu==0.32.4 mlx-lm==0.32.2 rwkv==0.8.32

Random numbers are sums of integers, the same on every machine, and so are the weights, tokens and
configurations, bit for bit. A logit is a float64 rounded to float32: another processor or numpy may
sum in another order and so, once in ten million, round one the other way.

The models are not near their initial values, where many errors hide: weights are of order
1/sqrt(inputs), gains 1 + 0.3 noise, biases 0.3 noise, mixing coefficients from 0.1 to 0.9. Where a
constant of the original hides in a default, the model has another value: eps of 1e-3 in some
configurations, so that a reader that ignores the field fails. The column "floor" says how far
rounding alone takes the logits: each weight moved by up to half a unit of its last place.
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import types
import zlib

import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "checkpoints")
VOCABULARY = 48
TOKENS = 28
BOUND = 5e-6


# ---- random numbers, the same on every machine ----

class Draw:
    """splitmix64, seeded with a name; a normal number is a sum of twelve uniform ones."""

    def __init__(self, name):
        self.state = zlib.crc32(name.encode())

    def integers(self, count):
        """24 random bits each."""
        steps = np.arange(self.state + 1, self.state + 1 + count, dtype=np.uint64)
        self.state += count
        z = steps * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.int64)

    def uniform(self, low, high, *shape):
        count = int(np.prod(shape))
        return (low + (high - low) * self.integers(count) / 2.0**24).reshape(shape)

    def normal(self, *shape):
        count = int(np.prod(shape))
        return (self.integers(12 * count).reshape(count, 12).sum(1) / 2.0**24 - 6).reshape(shape)

    def linear(self, outputs, inputs, size=1.0):
        """[outputs, inputs], the layout of PyTorch's Linear."""
        return size * self.normal(outputs, inputs) / math.sqrt(inputs)

    def gain(self, *shape):
        return 1 + 0.3 * self.normal(*shape)

    def bias(self, *shape):
        return 0.3 * self.normal(*shape)

    def taps(self, channels, kernel):
        """[channels, 1, kernel], the layout of PyTorch's depthwise Conv1d."""
        return self.normal(channels, 1, kernel) / math.sqrt(kernel)


# ---- formulas ----

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return np.logaddexp(0, x)


def log_sigmoid(x):
    return -np.logaddexp(0, -x)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_tanh_slope(x):
    t = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 0.134145 * x * x)


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight + bias


def unit(x):
    """Rows of length one; eps inside the root of the sum of squares."""
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def heads(x, count):
    """[tokens, channels] -> [tokens, heads, channels of a head]."""
    return x.reshape(len(x), count, -1)


def rows(x):
    """The inverse of heads()."""
    return x.reshape(len(x), -1)


def convolve(x, weight, bias=0.0):
    """Depthwise and causal; the last tap meets the current token."""
    kernel = weight.shape[-1]
    padded = np.concatenate([np.zeros((kernel - 1, x.shape[1])), x])
    return sum(padded[k:k + len(x)] * weight[:, 0, k] for k in range(kernel)) + bias


def swiglu(x, tensors, prefix):
    gate = silu(x @ tensors[prefix + "gate_proj.weight"].T)
    return (gate * (x @ tensors[prefix + "up_proj.weight"].T)) @ tensors[
        prefix + "down_proj.weight"].T


def rope_of(config):
    """The fields of rotary positions, which Transformers 4 wrote beside others."""
    if "rope_parameters" in config:
        return config["rope_parameters"]
    return {"rope_theta": config.get("rope_theta"), **(config.get("rope_scaling") or {})}


def scaled(by, theta, size, scaling, positions):
    """Angles by which pairs of entries turn at each position, scaled; what multiplies both."""
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return by, 1.0
    factor = scaling["factor"]
    context = scaling.get("original_max_position_embeddings", positions)
    if kind == "linear":
        return by / factor, 1.0
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        keeps = np.clip((context * by / (2 * math.pi) - low) / (high - low), 0, 1)
        return by * keeps + by / factor * (1 - keeps), 1.0

    def pair(turns):
        return size * math.log(context / (2 * math.pi * turns)) / (2 * math.log(theta))

    first = max(math.floor(pair(scaling.get("beta_fast") or 32)), 0)
    last = min(math.ceil(pair(scaling.get("beta_slow") or 1)), size - 1)
    keeps = 1 - np.clip((np.arange(len(by)) - first) / (last - first or 0.001), 0, 1)
    more = scaling.get("attention_factor") or 0.1 * math.log(factor) + 1
    return by * keeps + by / factor * (1 - keeps), more


def rotate(x, theta, positions, share=1.0, interleaved=False, config=None):
    """Rotary positions on the first share of a head of [tokens, heads, channels]."""
    size = int(x.shape[-1] * share)
    half = size // 2
    by, more = theta ** (-np.arange(half) * 2.0 / size), 1.0
    if config:
        by, more = scaled(by, theta, size, rope_of(config), config["max_position_embeddings"])
    angle = positions[:, None] * by
    cos, sin = more * np.cos(angle)[:, None], more * np.sin(angle)[:, None]
    first, second = (slice(0, size, 2), slice(1, size, 2)) if interleaved else (
        slice(0, half), slice(half, size))
    y = x.copy()
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def attend(q, k, v, scale=None, window=math.inf):
    """Softmax attention; [tokens, heads, channels], where several queries may share a key."""
    places = np.arange(len(q))
    k, v = (np.repeat(stored, q.shape[1] // stored.shape[1], 1) for stored in (k, v))
    scores = np.einsum("thd,shd->hts", q, k) * (q.shape[2]**-0.5 if scale is None else scale)
    apart = places[:, None] - places
    scores = np.where((apart >= 0) & (apart < window), scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hts,shd->thd", scores / scores.sum(-1, keepdims=True), v)


def decay_and_add(q, k, v, log_decay):
    """S = exp(log_decay) S + k v^T, o = S^T q; all [tokens, heads, .], S [heads, key, value]."""
    memory = np.zeros((k.shape[1], k.shape[2], v.shape[2]))
    out = []
    for t in range(len(q)):
        memory = np.exp(log_decay[t])[:, :, None] * memory + k[t][:, :, None] * v[t][:, None, :]
        out.append(np.einsum("hkv,hk->hv", memory, q[t]))
    return np.array(out)


def delta_rule(q, k, v, beta, log_decay, written=None):
    """S = exp(log_decay) S, S += w (beta (v - S^T k))^T, o = S^T q; log_decay 3D; w is k, or what
    is written instead."""
    written = k if written is None else written
    memory = np.zeros((k.shape[1], k.shape[2], v.shape[2]))
    out = []
    for t in range(len(q)):
        memory = np.exp(log_decay[t])[:, :, None] * memory
        error = v[t] - np.einsum("hkv,hk->hv", memory, k[t])
        memory = memory + written[t][:, :, None] * (beta[t][:, None] * error)[:, None, :]
        out.append(np.einsum("hkv,hk->hv", memory, q[t]))
    return np.array(out)


# ---- the frame of flash-linear-attention's models ----

def fla_config(kind, model_class, **fields):
    common = {
        "architectures": [model_class], "model_type": kind, "attn": None, "attn_mode": "chunk",
        "bos_token_id": 1, "eos_token_id": 2, "fuse_cross_entropy": True, "fuse_norm": True,
        "fuse_swiglu": True, "hidden_act": "swish", "hidden_ratio": 4, "hidden_size": 32,
        "initializer_range": 0.02, "intermediate_size": 64, "max_position_embeddings": 2048,
        "norm_eps": 1e-6, "num_heads": 2, "num_hidden_layers": 2, "tie_word_embeddings": False,
        "use_cache": True, "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def fla_inner(config):
    """The width of the MLP, which published files leave out."""
    if config["intermediate_size"] is not None:
        return config["intermediate_size"]
    return 256 * math.ceil(int(config["hidden_size"] * config["hidden_ratio"] * 2 / 3) / 256)


def attended(config):
    """Attention in some layers: its configuration as a transformer's, and which layers."""
    if not config["attn"]:
        return {}, []
    return {"hidden_size": config["hidden_size"], **config["attn"]}, config["attn"]["layers"]


def fla_weights(draw, config, layer):
    width, inner = config["hidden_size"], fla_inner(config)
    tensors = {"model.embeddings.weight": draw.normal(VOCABULARY, width)}
    for i in range(config["num_hidden_layers"]):
        prefix = "model.layers.%d." % i
        tensors[prefix + "attn_norm.weight"] = draw.gain(width)
        tensors[prefix + "mlp_norm.weight"] = draw.gain(width)
        tensors[prefix + "mlp.gate_proj.weight"] = draw.linear(inner, width)
        tensors[prefix + "mlp.up_proj.weight"] = draw.linear(inner, width)
        tensors[prefix + "mlp.down_proj.weight"] = draw.linear(width, inner)
        fields, where = attended(config)
        made = transformer_weights(draw, fields) if i in where else layer(draw, config)
        for name, value in made.items():
            tensors[prefix + "attn." + name] = value
    tensors["model.norm.weight"] = draw.gain(width)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def fla_forward(config, tensors, tokens, layer):
    x = tensors["model.embeddings.weight"][tokens]
    eps = config["norm_eps"]
    for i in range(config["num_hidden_layers"]):
        prefix = "model.layers.%d." % i
        mine = {name[len(prefix + "attn."):]: value for name, value in tensors.items()
                if name.startswith(prefix + "attn.")}
        if "model.lower_bounds" in tensors:
            share = np.exp(tensors["model.lower_bounds"])
            share = share / share.sum(0)
            mine["lower_bound"] = (share.cumsum(0) - share[0])[i]
        h = rms(x, tensors[prefix + "attn_norm.weight"], eps)
        fields, where = attended(config)
        x = x + (transformer_layer(fields, mine, h) if i in where else layer(config, mine, h))
        h = rms(x, tensors[prefix + "mlp_norm.weight"], eps)
        x = x + swiglu(h, tensors, prefix + "mlp.")
    head = "model.embeddings.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return rms(x, tensors["model.norm.weight"], eps) @ tensors[head].T


def short(x, tensors, letter):
    """Projection, convolution, SiLU."""
    return silu(convolve(x @ tensors[letter + "_proj.weight"].T,
                         tensors[letter + "_conv1d.weight"]))


# ---- gated_deltanet ----

def gated_deltanet_sizes(config):
    value_heads = config["num_v_heads"] or config["num_heads"]
    key, value = config["head_dim"], int(config["head_dim"] * config["expand_v"])
    return config["num_heads"], value_heads, key, value


def gated_deltanet_weights(draw, config):
    width = config["hidden_size"]
    count, value_heads, key, value = gated_deltanet_sizes(config)
    tensors = {
        "q_proj.weight": draw.linear(count * key, width),
        "k_proj.weight": draw.linear(count * key, width),
        "v_proj.weight": draw.linear(value_heads * value, width),
        "a_proj.weight": draw.linear(value_heads, width),
        "b_proj.weight": draw.linear(value_heads, width),
        "q_conv1d.weight": draw.taps(count * key, config["conv_size"]),
        "k_conv1d.weight": draw.taps(count * key, config["conv_size"]),
        "v_conv1d.weight": draw.taps(value_heads * value, config["conv_size"]),
        "A_log": draw.uniform(-1.5, 0.5, value_heads),
        "dt_bias": draw.bias(value_heads) - 0.5,
        "o_norm.weight": draw.gain(value),
        "o_proj.weight": draw.linear(width, value_heads * value),
    }
    if config["use_gate"]:
        tensors["g_proj.weight"] = draw.linear(value_heads * value, width)
    return tensors


def gated_deltanet_decay(tensors, x):
    return (-np.exp(tensors["A_log"]) * softplus(
        x @ tensors["a_proj.weight"].T + tensors["dt_bias"]))[:, :, None]


def gated_deltanet_out(config, tensors, x, y):
    y = rows(rms(y, tensors["o_norm.weight"], config["norm_eps"]))
    if config["use_gate"]:
        gate = x @ tensors["g_proj.weight"].T
        y = y * (sigmoid if config["output_gate_activation"] == "sigmoid" else silu)(gate)
    return y @ tensors["o_proj.weight"].T


def gated_deltanet_layer(config, tensors, x):
    count, value_heads, key, _ = gated_deltanet_sizes(config)
    q, k = (unit(heads(short(x, tensors, letter), count)) for letter in "qk")
    q, k = (np.repeat(rows_of_heads, value_heads // count, 1) for rows_of_heads in (q, k))
    v = heads(short(x, tensors, "v"), value_heads)
    beta = sigmoid(x @ tensors["b_proj.weight"].T) * (2 if config["allow_neg_eigval"] else 1)
    y = delta_rule(q * key**-0.5, k, v, beta, gated_deltanet_decay(tensors, x))
    return gated_deltanet_out(config, tensors, x, y)


# ---- gated_deltaproduct ----

def gated_deltaproduct_weights(draw, config):
    width, count, pairs = config["hidden_size"], config["num_heads"], config["num_householder"]
    key, value = config["head_dim"], int(config["head_dim"] * config["expand_v"])
    tensors = {
        "q_proj.weight": draw.linear(count * key, width),
        "k_proj.weight": draw.linear(pairs * count * key, width),
        "v_proj.weight": draw.linear(pairs * count * value, width),
        "b_proj.weight": draw.linear(pairs * count, width, 2.0),
        "q_conv1d.weight": draw.taps(count * key, config["conv_size"]),
        "k_conv1d.weight": draw.taps(pairs * count * key, config["conv_size"]),
        "v_conv1d.weight": draw.taps(pairs * count * value, config["conv_size"]),
        "o_norm.weight": draw.gain(value),
        "o_proj.weight": draw.linear(width, count * value),
    }
    if config["use_forget_gate"]:
        tensors["a_proj.weight"] = draw.linear(count, width)
        tensors["A_log"] = draw.uniform(-1.5, 0.5, count)
        tensors["dt_bias"] = draw.bias(count) - 0.5
    if config["use_output_gate"]:
        tensors["g_proj.weight"] = draw.linear(count * value, width)
    return without(tensors, config, ())


def gated_deltaproduct_layer(config, tensors, x):
    """A token is num_householder steps of the delta rule: the first one forgets, and the answer is
    read behind the last."""
    count, pairs = config["num_heads"], config["num_householder"]

    def made(letter):
        if config["use_short_conv"]:
            return short(x, tensors, letter)
        return silu(x @ tensors[letter + "_proj.weight"].T)

    def steps(numbers):   # [tokens, pairs, heads, ...] as rows of pairs
        return numbers.reshape(len(x) * pairs, count, -1)

    k, v = unit(steps(made("k"))), steps(made("v"))
    q = np.repeat(unit(heads(made("q"), count)) * config["head_dim"]**-0.5, pairs, 0)
    beta = steps(sigmoid(x @ tensors["b_proj.weight"].T))[:, :, 0]
    beta = beta * (2 if config["allow_neg_eigval"] else 1)
    decay = np.zeros((len(x), pairs, count, 1))
    if config["use_forget_gate"]:
        decay[:, 0, :, 0] = -np.exp(tensors["A_log"]) * softplus(
            x @ tensors["a_proj.weight"].T + tensors["dt_bias"])
    y = delta_rule(q, k, v, beta, decay.reshape(-1, count, 1))[pairs - 1::pairs]
    y = rows(rms(y, tensors["o_norm.weight"], config["norm_eps"]))
    if config["use_output_gate"]:
        y = y * silu(x @ tensors["g_proj.weight"].T)
    return y @ tensors["o_proj.weight"].T


# ---- delta_net ----

def delta_net_weights(draw, config):
    width, conv, count = config["hidden_size"], config["conv_size"], config["num_heads"]
    key, value = round(width * config["expand_k"]), round(width * config["expand_v"])
    tensors = {
        "q_proj.weight": draw.linear(key, width),
        "k_proj.weight": draw.linear(key, width),
        "v_proj.weight": draw.linear(value, width),
        "b_proj.weight": draw.linear(count, width, 2.0),
        "q_conv1d.weight": draw.taps(key, conv),
        "k_conv1d.weight": draw.taps(key, conv),
        "v_conv1d.weight": draw.taps(value, conv),
        "o_norm.weight": draw.gain(value // count),
        "o_proj.weight": draw.linear(width, value),
    }
    if config["use_gate"]:
        tensors["g_proj.weight"] = draw.linear(value, width)
    unused = () if config["use_beta"] else ("b_proj.weight",)
    return without(tensors, config, unused)


def without(tensors, config, names):
    """The tensors but for these, and for convolutions where there are none."""
    return {name: value for name, value in tensors.items()
            if name not in names and (config["use_short_conv"] or "conv1d" not in name)}


def delta_net_layer(config, tensors, x):
    count = config["num_heads"]
    q, k, v = (x @ tensors[letter + "_proj.weight"].T for letter in "qkv")
    if config["use_short_conv"]:
        q, k, v = (convolve(part, tensors[letter + "_conv1d.weight"])
                   for part, letter in ((q, "q"), (k, "k"), (v, "v")))
    form = {"silu": silu, "identity": lambda x: x, "relu": lambda x: np.maximum(x, 0),
            "elu": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))}
    q, k = (heads(form[config["qk_activation"]](part), count) for part in (q, k))
    v = heads(silu(v), count)
    if config["qk_norm"] == "sum":
        q, k = (part / np.maximum(np.abs(part).sum(-1, keepdims=True), 1e-6)
                for part in (q, k))
    else:
        q, k = unit(q), unit(k)
    beta = np.ones((len(x), count))
    if config["use_beta"]:
        beta = sigmoid(x @ tensors["b_proj.weight"].T)
    beta = beta * (2 if config["allow_neg_eigval"] else 1)
    y = delta_rule(q * q.shape[-1]**-0.5, k, v, beta, np.zeros(beta.shape + (1,)))
    y = rows(rms(y, tensors["o_norm.weight"], config["norm_eps"]))
    if config["use_gate"]:
        y = y * silu(x @ tensors["g_proj.weight"].T)
    return y @ tensors["o_proj.weight"].T


# ---- gla ----

def shared_heads(config):
    """How many heads of queries read with the same keys and values."""
    return config["num_heads"] // (config["num_kv_heads"] or config["num_heads"])


def gla_weights(draw, config):
    width = config["hidden_size"]
    key, value = round(width * config["expand_k"]), round(width * config["expand_v"])
    rank, share = 16, shared_heads(config)
    tensors = {
        "q_proj.weight": draw.linear(key, width),
        "k_proj.weight": draw.linear(key // share, width),
        "v_proj.weight": draw.linear(value // share, width),
        "g_proj.weight": draw.linear(value, width),
        "gk_proj.0.weight": draw.linear(rank, width),
        "gk_proj.1.weight": draw.linear(key // share, rank, 4.0),
        "gk_proj.1.bias": draw.bias(key // share) - 1.5,
        "g_norm_swish_gate.weight": draw.gain(value // config["num_heads"]),
        "o_proj.weight": draw.linear(width, value),
    }
    if config["use_short_conv"]:
        tensors["q_conv1d.weight"] = draw.taps(key, config["conv_size"])
        tensors["k_conv1d.weight"] = draw.taps(key // share, config["conv_size"])
        tensors["v_conv1d.weight"] = draw.taps(value // share, config["conv_size"])
    if not config["use_output_gate"]:
        tensors["g_norm.weight"] = tensors.pop("g_norm_swish_gate.weight")
        tensors.pop("g_proj.weight")
    return tensors


def gla_layer(config, tensors, x):
    count, share = config["num_heads"], shared_heads(config)
    q, k, v = (heads(short(x, tensors, letter) if config["use_short_conv"]
                     else x @ tensors[letter + "_proj.weight"].T,
                     count if letter == "q" else count // share) for letter in "qkv")
    k, v = np.repeat(k, share, 1), np.repeat(v, share, 1)
    gate = (x @ tensors["gk_proj.0.weight"].T) @ tensors["gk_proj.1.weight"].T
    gate = log_sigmoid(gate + tensors["gk_proj.1.bias"]) / 16
    if config["clamp_min"] is not None:
        gate = np.maximum(gate, config["clamp_min"])
    gate = np.repeat(heads(gate, count // share), share, 1)
    y = decay_and_add(q * q.shape[-1]**-0.5, k, v, gate)
    if not config["use_output_gate"]:
        return rows(rms(y, tensors["g_norm.weight"], config["norm_eps"])) @ tensors[
            "o_proj.weight"].T
    y = rows(rms(y, tensors["g_norm_swish_gate.weight"], config["norm_eps"]))
    return (y * silu(x @ tensors["g_proj.weight"].T)) @ tensors["o_proj.weight"].T


# ---- retnet ----

def retnet_weights(draw, config):
    width, share = config["hidden_size"], shared_heads(config)
    key, value = round(width * config["expand_k"]), round(width * config["expand_v"])
    return {
        "q_proj.weight": draw.linear(key, width),
        "k_proj.weight": draw.linear(key // share, width),
        "v_proj.weight": draw.linear(value // share, width),
        "g_proj.weight": draw.linear(value, width),
        "g_norm_swish_gate.weight": draw.gain(value // config["num_heads"]),
        "o_proj.weight": draw.linear(width, value),
    }


def retnet_layer(config, tensors, x):
    count, share = config["num_heads"], shared_heads(config)
    q, k, v = (heads(x @ tensors[letter + "_proj.weight"].T,
                     count if letter == "q" else count // share) for letter in "qkv")
    k, v = np.repeat(k, share, 1), np.repeat(v, share, 1)
    places = np.arange(len(x))
    q, k = rotate(q, 10000.0, places), rotate(k, 10000.0, places)
    decay = np.log(1 - 2.0 ** (-5 - np.arange(count)))
    y = decay_and_add(q * q.shape[-1]**-0.5, k, v,
                      np.broadcast_to(decay[:, None], (len(x), count, 1)))
    y = rows(rms(y, tensors["g_norm_swish_gate.weight"], config["norm_eps"]))
    return (y * silu(x @ tensors["g_proj.weight"].T)) @ tensors["o_proj.weight"].T


# ---- linear_attn ----

def linear_attn_weights(draw, config):
    width, share = config["hidden_size"], shared_heads(config)
    key, value = round(width * config["expand_k"]), round(width * config["expand_v"])
    return {
        "q_proj.weight": draw.linear(key, width),
        "k_proj.weight": draw.linear(key // share, width),
        "v_proj.weight": draw.linear(value // share, width),
        "norm.weight": draw.gain(value // config["num_heads"]),
        "o_proj.weight": draw.linear(width, value),
    }


def linear_attn_layer(config, tensors, x):
    count, share = config["num_heads"], shared_heads(config)
    q, k, v = (heads(x @ tensors[letter + "_proj.weight"].T,
                     count if letter == "q" else count // share) for letter in "qkv")
    k, v = np.repeat(k, share, 1), np.repeat(v, share, 1)
    form = {"identity": lambda x: x, "relu": lambda x: np.maximum(x, 0),
            "elu": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))}
    q, k = form[config["feature_map"]](q), form[config["feature_map"]](k)
    y = decay_and_add(q * q.shape[-1]**-0.5, k, v, np.zeros((len(x), count, 1)))
    return rows(rms(y, tensors["norm.weight"], config["norm_eps"])) @ tensors["o_proj.weight"].T


# ---- hgrn2 ----

def hgrn2_weights(draw, config):
    width = config["hidden_size"]
    return {
        "q_proj.weight": draw.linear(width, width),
        "f_proj.weight": draw.linear(width, width),
        "i_proj.weight": draw.linear(width, width),
        "g_norm.weight": draw.gain(width),
        "o_proj.weight": draw.linear(width, width),
    }


def hgrn2_all(draw, config, layer):
    tensors = fla_weights(draw, config, layer)
    tensors["model.lower_bounds"] = draw.normal(config["num_hidden_layers"], config["hidden_size"])
    return tensors


def hgrn2_layer(config, tensors, x):
    count = config["num_heads"]
    q, f, v = (x @ tensors[letter + "_proj.weight"].T for letter in "qfi")
    # the first layer's bound is zero
    keep = tensors["lower_bound"] + (1 - tensors["lower_bound"]) * sigmoid(f)
    q = heads(silu(q), count)
    y = decay_and_add(q * q.shape[-1]**-0.5, heads(1 - keep, count), heads(v, count),
                      np.log(heads(keep, count)))
    # over the whole row, and with an eps of its own
    return rms(rows(y), tensors["g_norm.weight"], 1e-5) @ tensors["o_proj.weight"].T


# ---- kda ----

def kda_weights(draw, config):
    width = config["hidden_size"]
    count, value_heads, key, value = gated_deltanet_sizes(config)
    return {
        "q_proj.weight": draw.linear(count * key, width),
        "k_proj.weight": draw.linear(count * key, width),
        "v_proj.weight": draw.linear(value_heads * value, width),
        "q_conv1d.weight": draw.taps(count * key, config["conv_size"]),
        "k_conv1d.weight": draw.taps(count * key, config["conv_size"]),
        "v_conv1d.weight": draw.taps(value_heads * value, config["conv_size"]),
        "f_proj.0.weight": draw.linear(value, width),
        "f_proj.1.weight": draw.linear(value_heads * key, value),
        "b_proj.weight": draw.linear(value_heads, width),
        "A_log": draw.uniform(-1.5, 0.5, value_heads),
        "dt_bias": draw.bias(value_heads * key) - 0.5,
        "g_proj.0.weight": draw.linear(value, width),
        "g_proj.1.weight": draw.linear(value_heads * value, value),
        "g_proj.1.bias": draw.bias(value_heads * value),
        "o_norm.weight": draw.gain(value),
        "o_proj.weight": draw.linear(width, value_heads * value),
    }


def kda_decay(config, tensors, x):
    f = (x @ tensors["f_proj.0.weight"].T) @ tensors["f_proj.1.weight"].T + tensors["dt_bias"]
    f, rate = heads(f, len(tensors["A_log"])), np.exp(tensors["A_log"])[:, None]
    if config["lower_bound"] is None:
        return -rate * softplus(f)
    return config["lower_bound"] * sigmoid(rate * f)


def kda_out(config, tensors, x, y):
    y = rows(rms(y, tensors["o_norm.weight"], config["norm_eps"]))
    gate = (x @ tensors["g_proj.0.weight"].T) @ tensors["g_proj.1.weight"].T
    return (y * sigmoid(gate + tensors["g_proj.1.bias"])) @ tensors["o_proj.weight"].T


def kda_layer(config, tensors, x):
    count, value_heads, key, _ = gated_deltanet_sizes(config)
    q, k = (unit(heads(short(x, tensors, letter), count)) for letter in "qk")
    q, k = (np.repeat(rows_of_heads, value_heads // count, 1) for rows_of_heads in (q, k))
    v = heads(short(x, tensors, "v"), value_heads)
    beta = sigmoid(x @ tensors["b_proj.weight"].T) * (2 if config["allow_neg_eigval"] else 1)
    y = delta_rule(q * key**-0.5, k, v, beta, kda_decay(config, tensors, x))
    return kda_out(config, tensors, x, y)


# ---- precond_kda and precond_gated_deltanet ----

def preconditioned_weights(draw, config, tensors, decay):
    """What both have beside the layer without; decay: the name of a precondition's own."""
    width, count = config["hidden_size"], config["num_heads"]
    return {
        **tensors,
        "b_atk_proj.weight": draw.linear(count, width),
        decay + "_proj.weight": draw.linear(count, width),
        "A_log_atk": draw.uniform(-1.5, 0.5, count),
        "dt_bias_atk": draw.bias(count) - 0.5,
        "log_atk_scale": draw.bias(count) - 0.2,
    }


def preconditioned(k, beta, log_decay, centre):
    """Keys times what each of their channels steps by."""
    told, out = np.zeros(k.shape[1:]), np.empty_like(k)
    for t in range(len(k)):
        told = np.exp(log_decay[t])[:, None] * told + beta[t][:, None] * k[t]**2
        r = np.log(told + 1e-6) - centre[:, None]
        out[t] = k[t] * 1.5 ** (-r / (1 + np.abs(r)))
    return out


def preconditioned_step(config, tensors, x, log_decay, decay):
    """What memories answer; a key is erased as it is, and written as it is preconditioned."""
    count = config["num_heads"]

    def made(letter):
        if config["use_short_conv"]:
            return heads(short(x, tensors, letter), count)
        return heads(silu(x @ tensors[letter + "_proj.weight"].T), count)

    q, k, v = unit(made("q")), unit(made("k")), made("v")
    beta = sigmoid(x @ tensors["b_proj.weight"].T) * (2 if config["allow_neg_eigval"] else 1)
    told = -np.exp(tensors["A_log_atk"]) * softplus(
        x @ tensors[decay + "_proj.weight"].T + tensors["dt_bias_atk"])
    written = preconditioned(k, sigmoid(x @ tensors["b_atk_proj.weight"].T), told,
                             tensors["log_atk_scale"])
    return delta_rule(q * config["head_dim"]**-0.5, k, v, beta, log_decay, written)


def precond_kda_weights(draw, config):
    tensors = preconditioned_weights(draw, config, kda_weights(draw, config), "a")
    return without(tensors, config, ())


def precond_kda_layer(config, tensors, x):
    y = preconditioned_step(config, tensors, x, kda_decay(config, tensors, x), "a")
    return kda_out(config, tensors, x, y)


def precond_gated_deltanet_weights(draw, config):
    tensors = preconditioned_weights(draw, config, gated_deltanet_weights(draw, config), "a_atk")
    return without(tensors, config, ())


def precond_gated_deltanet_layer(config, tensors, x):
    decay = gated_deltanet_decay(tensors, x)
    y = preconditioned_step(config, tensors, x, decay, "a_atk")
    return gated_deltanet_out({**config, "output_gate_activation": "swish"}, tensors, x, y)


# ---- hgrn ----

def hgrn_weights(draw, config):
    width = config["hidden_size"]
    inner = int(width * config["expand_ratio"])
    return {
        "i_proj.weight": draw.linear(inner, width),
        "f_proj.weight": draw.linear(inner, width, 2.0),
        "g_proj.weight": draw.linear(inner, width),
        "g_norm.weight": draw.gain(inner),
        "o_proj.weight": draw.linear(width, inner),
    }


def hgrn_all(draw, config, layer):
    tensors = fla_weights(draw, config, layer)
    if config["use_lower_bound"]:
        inner = int(config["hidden_size"] * config["expand_ratio"])
        tensors["model.lower_bounds"] = draw.normal(config["num_hidden_layers"], inner)
    return tensors


def hgrn_layer(config, tensors, x):
    """A number for each channel; the first layer's bound is zero."""
    bound = tensors.get("lower_bound", 0)
    keep = bound + (1 - bound) * sigmoid(x @ tensors["f_proj.weight"].T)
    new = silu(x @ tensors["i_proj.weight"].T) * (1 - keep)
    y, state = np.empty_like(new), 0
    for t in range(len(x)):
        state = y[t] = keep[t] * state + new[t]
    y = rms(y, tensors["g_norm.weight"], config["norm_eps"])
    return (y * silu(x @ tensors["g_proj.weight"].T)) @ tensors["o_proj.weight"].T


# ---- gsa ----

def gsa_slots(config):
    key = round(config["hidden_size"] * config["expand_k"]) // config["num_heads"]
    return config["num_slots"] or key


def gsa_weights(draw, config):
    width, share = config["hidden_size"], shared_heads(config)
    key = round(width * config["expand_k"])
    return {
        "q_proj.weight": draw.linear(key, width, 3.0),
        "k_proj.weight": draw.linear(key // share, width, 3.0),
        "v_proj.weight": draw.linear(width // share, width),
        "f_proj.weight": draw.linear(
            config["num_heads"] // share * gsa_slots(config), width, 3.0),
        "g_norm.weight": draw.gain(width),
        "o_proj.weight": draw.linear(width, width),
    }


def gsa_layer(config, tensors, x):
    """Slots of keys, read without a scale; what is read of them reads slots of values."""
    count, share = config["num_heads"], shared_heads(config)
    q, k, v, f = (heads(x @ tensors[letter + "_proj.weight"].T,
                        count if letter == "q" else count // share) for letter in "qkvf")
    form = {"swish": silu, "relu": lambda x: np.maximum(x, 0)}[config["feature_map"]]
    k, v, f = (np.repeat(part, share, 1) for part in (form(k), silu(v), f))
    f = log_sigmoid(f) / config["gate_logit_normalizer"]
    keys, values, y = 0, 0, []
    for t in range(len(x)):
        keep = np.exp(f[t])
        keys = keep[:, :, None] * keys + (1 - keep)[:, :, None] * k[t][:, None]
        values = keep[:, :, None] * values + (1 - keep)[:, :, None] * v[t][:, None]
        scores = np.einsum("hmk,hk->hm", keys, form(q[t]))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores = scores / scores.sum(-1, keepdims=True)
        y.append(np.einsum("hmv,hm->hv", values, scores))
    # over the whole row, and with an eps of its own
    return rms(silu(rows(np.array(y))), tensors["g_norm.weight"], 1e-5) @ tensors[
        "o_proj.weight"].T


# ---- transformer, flash-linear-attention's ----

def transformer_weights(draw, config):
    width, share = config["hidden_size"], shared_heads(config)
    tensors = {
        "q_proj.weight": draw.linear(width, width, 2.0),
        "k_proj.weight": draw.linear(width // share, width, 2.0),
        "v_proj.weight": draw.linear(width // share, width),
        "o_proj.weight": draw.linear(width, width),
    }
    if config["qkv_bias"]:
        for letter in "qkv":
            name = letter + "_proj."
            tensors[name + "bias"] = draw.bias(len(tensors[name + "weight"]))
    return tensors


def transformer_layer(config, tensors, x):
    count, share = config["num_heads"], shared_heads(config)
    q, k, v = (heads(x @ tensors[letter + "_proj.weight"].T
                     + tensors.get(letter + "_proj.bias", 0),
                     count if letter == "q" else count // share) for letter in "qkv")
    q, k = (rotate(part, config["rope_theta"], np.arange(len(x))) for part in (q, k))
    y = attend(q, k, v, window=config["window_size"] or math.inf)
    return rows(y) @ tensors["o_proj.weight"].T


# ---- rwkv7 ----

def rwkv7_config(**fields):
    common = {
        "architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "a_low_rank_dim": 6,
        "attn": None, "attn_mode": "chunk", "bos_token_id": 1, "decay_low_rank_dim": 8,
        "eos_token_id": 2, "fuse_cross_entropy": True, "fuse_norm": False, "gate_low_rank_dim": 10,
        "head_dim": 16, "hidden_act": "sqrelu", "hidden_ratio": 2.0, "hidden_size": 32,
        "initializer_range": 0.02, "intermediate_size": 64, "max_position_embeddings": 2048,
        "norm_bias": True, "norm_eps": 1e-5, "norm_first": True, "num_heads": 2,
        "num_hidden_layers": 3, "tie_word_embeddings": False, "use_cache": True,
        "v_low_rank_dim": 5, "value_dim": [32, 32, 32], "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def rwkv7_weights(draw, config):
    width, inner = config["hidden_size"], config["intermediate_size"]
    shape = width // config["head_dim"], config["head_dim"]
    tensors = {"model.embeddings.weight": draw.normal(VOCABULARY, width)}
    norms = ["model.layers.0.pre_norm", "model.norm"]
    for i in range(config["num_hidden_layers"]):
        prefix = "model.layers.%d." % i
        norms += [prefix + "attn_norm", prefix + "ffn_norm", prefix + "attn.g_norm"]
        for letter in "rwkvag":
            tensors[prefix + "attn.x_" + letter] = draw.uniform(0.1, 0.9, 1, 1, width)
        tensors[prefix + "attn.k_k"] = draw.gain(width)
        tensors[prefix + "attn.k_a"] = draw.uniform(0.1, 0.9, width)
        tensors[prefix + "attn.r_k"] = draw.bias(*shape)
        for letter in "rkvo":
            tensors[prefix + "attn.%s_proj.weight" % letter] = draw.linear(width, width)
        ranks = {"w": "decay_low_rank_dim", "a": "a_low_rank_dim", "g": "gate_low_rank_dim"}
        if i > 0:
            ranks["v"] = "v_low_rank_dim"
        for letter, field in ranks.items():
            lora = prefix + "attn.%s_lora.lora." % letter
            tensors[lora + "0.weight"] = draw.linear(config[field], width)
            tensors[lora + "2.weight"] = draw.linear(width, config[field], 2.0)
            if letter != "g":
                tensors[lora + "2.bias"] = draw.bias(width)
        tensors[prefix + "ffn.x_k"] = draw.uniform(0.1, 0.9, width)
        tensors[prefix + "ffn.key.weight"] = draw.linear(inner, width)
        tensors[prefix + "ffn.value.weight"] = draw.linear(width, inner)
    for name in norms:
        tensors[name + ".weight"] = draw.gain(width)
        tensors[name + ".bias"] = draw.bias(width)
    tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def rwkv7_forward(config, tensors, tokens, head_eps=None):
    eps, count = config["norm_eps"], config["hidden_size"] // config["head_dim"]
    head_eps = head_eps or config["head_dim"] * eps

    def norm(x, name):
        return layer_norm(x, tensors[name + ".weight"], tensors[name + ".bias"], eps)

    def before(x):
        return np.concatenate([np.zeros((1, x.shape[1])), x[:-1]])

    first_values = None
    x = norm(tensors["model.embeddings.weight"][tokens], "model.layers.0.pre_norm")
    for i in range(config["num_hidden_layers"]):
        prefix = "model.layers.%d." % i
        mine = {name[len(prefix + "attn."):]: value for name, value in tensors.items()
                if name.startswith(prefix + "attn.")}
        h = norm(x, prefix + "attn_norm")
        r, w, k, v, a, g = (h + (before(h) - h) * mine["x_" + letter][0, 0] for letter in "rwkvag")
        low = {letter: u @ mine[letter + "_lora.lora.0.weight"].T
               for letter, u in zip("wag", (w, a, g))}
        w = np.tanh(low["w"]) @ mine["w_lora.lora.2.weight"].T + mine["w_lora.lora.2.bias"]
        a = sigmoid(low["a"] @ mine["a_lora.lora.2.weight"].T + mine["a_lora.lora.2.bias"])
        g = sigmoid(low["g"]) @ mine["g_lora.lora.2.weight"].T
        decay = np.exp(-math.exp(-0.5) * sigmoid(w))
        r, k = r @ mine["r_proj.weight"].T, k @ mine["k_proj.weight"].T
        mixed, v = v, v @ mine["v_proj.weight"].T
        if i == 0:
            first_values = v
        else:
            share = (mixed @ mine["v_lora.lora.0.weight"].T) @ mine["v_lora.lora.2.weight"].T
            v = v + (first_values - v) * sigmoid(share + mine["v_lora.lora.2.bias"])
        kk = heads(k * mine["k_k"], count)
        kk = kk / np.maximum(np.sqrt((kk * kk).sum(-1, keepdims=True)), 1e-12)
        k = k * (1 + (a - 1) * mine["k_a"])
        r, k, v, a, decay = (heads(u, count) for u in (r, k, v, a, decay))
        memory = np.zeros((count, v.shape[2], k.shape[2]))   # [head][value][key]
        y = np.empty_like(v)
        for t in range(len(tokens)):
            read = np.einsum("hvk,hk->hv", memory, kk[t])
            memory = memory * decay[t][:, None, :] + v[t][:, :, None] * k[t][:, None, :]
            memory -= read[:, :, None] * (kk[t] * a[t])[:, None, :]
            y[t] = np.einsum("hvk,hk->hv", memory, r[t])
        y = layer_norm(y, heads(mine["g_norm.weight"][None], count),
                       heads(mine["g_norm.bias"][None], count), head_eps)
        y = y + (r * k * mine["r_k"]).sum(-1, keepdims=True) * v
        x = x + (rows(y) * g) @ mine["o_proj.weight"].T
        h = norm(x, prefix + "ffn_norm")
        z = (h + (before(h) - h) * tensors[prefix + "ffn.x_k"]) @ tensors[
            prefix + "ffn.key.weight"].T
        x = x + np.maximum(z, 0)**2 @ tensors[prefix + "ffn.value.weight"].T
    return norm(x, "model.norm") @ tensors["lm_head.weight"].T


# ---- rwkv7, as its author names it ----

RWKV7_NAMES = (
    ("model.embeddings.", "emb."), ("lm_head.", "head."), ("model.norm.", "ln_out."),
    ("model.layers.", "blocks."), (".pre_norm.", ".ln0."), (".attn_norm.", ".ln1."),
    (".ffn_norm.", ".ln2."), (".attn.g_norm.", ".att.ln_x."), (".attn.r_proj.", ".att.receptance."),
    (".attn.k_proj.", ".att.key."), (".attn.v_proj.", ".att.value."),
    (".attn.o_proj.", ".att.output."), ("_lora.lora.0.weight", "1"), ("_lora.lora.2.weight", "2"),
    ("_lora.lora.2.bias", "0"), (".attn.", ".att."))


def authors_name(name, pairs):
    for hugging_face, author in pairs:
        name = name.replace(hugging_face, author)
    return name


def rwkv7_authors_weights(draw, config):
    """The low ranks are [in, out], vectors of channels [1, 1, channels], and the first layer holds
    the three tensors of a value residual that it does not use."""
    tensors = {}
    for name, value in rwkv7_weights(draw, rwkv7_config()).items():
        if "_lora" in name and value.ndim == 2:
            value = value.T
        elif name.endswith((".k_k", ".k_a", ".x_k", "lora.2.bias")):
            value = value.reshape(1, 1, -1)
        tensors[authors_name(name, RWKV7_NAMES)] = value
    for unused in "012":
        tensors["blocks.0.att.v" + unused] = draw.normal(*tensors["blocks.1.att.v" + unused].shape)
    return tensors


def rwkv7_authors_forward(config, tensors, tokens):
    """It has no configuration: sizes are those of the tensors, and the eps of a head is 64e-5,
    whatever the size of a head."""
    again = {}
    for name in rwkv7_weights(Draw(""), rwkv7_config()):
        value = tensors[authors_name(name, RWKV7_NAMES)]
        if "_lora" in name and value.ndim == 2:
            value = value.T
        elif value.ndim == 3 and ".attn.x_" not in name:
            value = value[0, 0]
        again[name] = value
    return rwkv7_forward(rwkv7_config(), again, tokens, 64e-5)


# ---- rwkv6, as its author names it ----

def rwkv6_weights(draw, config):
    width, inner, count, rank, moves = 32, 56, 2, 6, 4
    tensors = {"emb.weight": draw.normal(VOCABULARY, width)}
    norms = ["blocks.0.ln0", "ln_out"]
    for i in range(3):
        att, ffn = "blocks.%d.att." % i, "blocks.%d.ffn." % i
        norms += ["blocks.%d.ln1" % i, "blocks.%d.ln2" % i, att + "ln_x"]
        for letter in "xwkvrg":
            tensors[att + "time_maa_" + letter] = draw.uniform(0.1, 0.9, 1, 1, width)
        tensors[att + "time_maa_w1"] = draw.linear(5 * moves, width).T
        tensors[att + "time_maa_w2"] = np.stack(
            [draw.linear(width, moves, 0.5).T for _ in range(5)])
        tensors[att + "time_decay"] = draw.bias(1, 1, width) - 1
        tensors[att + "time_decay_w1"] = draw.linear(rank, width).T
        tensors[att + "time_decay_w2"] = draw.linear(width, rank).T
        tensors[att + "time_faaaa"] = draw.bias(count, width // count)
        for name in ("receptance", "key", "value", "output", "gate"):
            tensors[att + name + ".weight"] = draw.linear(width, width)
        for letter in "kr":
            tensors[ffn + "time_maa_" + letter] = draw.uniform(0.1, 0.9, 1, 1, width)
        tensors[ffn + "key.weight"] = draw.linear(inner, width)
        tensors[ffn + "receptance.weight"] = draw.linear(width, width)
        tensors[ffn + "value.weight"] = draw.linear(width, inner)
    for name in norms:
        tensors[name + ".weight"] = draw.gain(width)
        tensors[name + ".bias"] = draw.bias(width)
    tensors["head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def rwkv6_forward(config, tensors, tokens, eps=1e-5, head_eps=64e-5):
    """Nothing but tensors says sizes; the eps of a head is 64e-5, whatever its size."""
    def norm(x, name):
        return layer_norm(x, tensors[name + ".weight"], tensors[name + ".bias"], eps)

    def before(x):
        return np.concatenate([np.zeros((1, x.shape[1])), x[:-1]]) - x

    x = tensors["emb.weight"][tokens]
    if "blocks.0.ln0.weight" in tensors:
        x = norm(x, "blocks.0.ln0")
    for i in range(config.get("num_hidden_layers", 3)):
        def mine(name, part="att"):
            return tensors["blocks.%d.%s.%s" % (i, part, name)]

        count = mine("time_faaaa").shape[0]
        h = norm(x, "blocks.%d.ln1" % i)
        back = before(h)
        low = np.tanh((h + back * mine("time_maa_x")[0, 0]) @ mine("time_maa_w1"))
        parts = np.split(low, 5, axis=1)
        w, k, v, r, g = (
            h + back * (mine("time_maa_" + letter)[0, 0] + parts[j] @ mine("time_maa_w2")[j])
            for j, letter in enumerate("wkvrg"))
        w = np.tanh(w @ mine("time_decay_w1")) @ mine("time_decay_w2") + mine("time_decay")[0, 0]
        r, k, v, g = (u @ mine(name + ".weight").T for u, name in
                      ((r, "receptance"), (k, "key"), (v, "value"), (g, "gate")))
        r, k, v, decay = (heads(u, count) for u in (r, k, v, np.exp(-np.exp(w))))
        memory = np.zeros((count, k.shape[2], v.shape[2]))   # [head][key][value]
        y = np.empty_like(v)
        for t in range(len(tokens)):
            pair = k[t][:, :, None] * v[t][:, None, :]
            y[t] = np.einsum("hk,hkv->hv", r[t], memory + mine("time_faaaa")[:, :, None] * pair)
            memory = decay[t][:, :, None] * memory + pair
        y = layer_norm(y, heads(mine("ln_x.weight")[None], count),
                       heads(mine("ln_x.bias")[None], count), head_eps)
        x = x + (rows(y) * g * sigmoid(g)) @ mine("output.weight").T
        h = norm(x, "blocks.%d.ln2" % i)
        k, r = (h + before(h) * mine("time_maa_" + letter, "ffn")[0, 0] for letter in "kr")
        k = np.maximum(k @ mine("key.weight", "ffn").T, 0)**2 @ mine("value.weight", "ffn").T
        x = x + sigmoid(r @ mine("receptance.weight", "ffn").T) * k
    return norm(x, "ln_out") @ tensors["head.weight"].T


# ---- rwkv4, as Hugging Face and its author name it ----

def rwkv4_config(**fields):
    return {"architectures": ["RwkvForCausalLM"], "model_type": "rwkv", "vocab_size": VOCABULARY,
            "context_length": 1024, "hidden_size": 32, "num_hidden_layers": 3,
            "attention_hidden_size": 32, "intermediate_size": 112, "layer_norm_epsilon": 1e-5,
            "rescale_every": 6, "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0,
            "use_cache": True, "transformers_version": "5.23.0", **fields}


def rwkv4_weights(draw, config):
    width, inner = config["hidden_size"], config["intermediate_size"] or 4 * config["hidden_size"]
    tensors = {"rwkv.embeddings.weight": draw.normal(VOCABULARY, width)}
    norms = ["rwkv.blocks.0.pre_ln", "rwkv.ln_out"]
    for i in range(config["num_hidden_layers"]):
        block = "rwkv.blocks.%d." % i
        norms += [block + "ln1", block + "ln2"]
        for part, mixes in (("attention", ("key", "value", "receptance")),
                            ("feed_forward", ("key", "receptance"))):
            for name in mixes:
                tensors[block + part + ".time_mix_" + name] = draw.uniform(0.1, 0.9, 1, 1, width)
        for name in ("key", "value", "receptance", "output"):
            tensors[block + "attention.%s.weight" % name] = draw.linear(width, width, 2.0)
        tensors[block + "attention.time_decay"] = draw.uniform(-5, 1, width)
        tensors[block + "attention.time_first"] = draw.uniform(-2, 2, width)
        tensors[block + "feed_forward.key.weight"] = draw.linear(inner, width)
        tensors[block + "feed_forward.receptance.weight"] = draw.linear(width, width)
        tensors[block + "feed_forward.value.weight"] = draw.linear(width, inner)
    for name in norms:
        tensors[name + ".weight"] = draw.gain(width)
        tensors[name + ".bias"] = draw.bias(width)
    if not config["tie_word_embeddings"]:
        tensors["head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def rwkv4_forward(config, tensors, tokens):
    """Sums over all tokens before, without a recurrence; nothing is rescaled."""
    def norm(x, name):
        return layer_norm(x, tensors[name + ".weight"], tensors[name + ".bias"], 1e-5)

    def mixed(x, part, name):
        mix = tensors["%s.time_mix_%s" % (part, name)][0, 0]
        shifted = np.concatenate([np.zeros((1, x.shape[1])), x[:-1]])
        return (x * mix + shifted * (1 - mix)) @ tensors["%s.%s.weight" % (part, name)].T

    x = norm(tensors["rwkv.embeddings.weight"][tokens], "rwkv.blocks.0.pre_ln")
    for i in range(config["num_hidden_layers"]):
        block = "rwkv.blocks.%d." % i
        part = block + "attention"
        h = norm(x, block + "ln1")
        k, v, r = (mixed(h, part, name) for name in ("key", "value", "receptance"))
        y = np.empty_like(v)
        for t in range(len(tokens)):
            age = np.arange(t - 1, -1, -1)[:, None] * -np.exp(tensors[part + ".time_decay"])
            weight = np.exp(k[:t + 1] + np.concatenate([age, tensors[part + ".time_first"][None]]))
            y[t] = (weight * v[:t + 1]).sum(0) / weight.sum(0)
        x = x + (sigmoid(r) * y) @ tensors[part + ".output.weight"].T
        part = block + "feed_forward"
        h = norm(x, block + "ln2")
        k, r = (mixed(h, part, name) for name in ("key", "receptance"))
        x = x + sigmoid(r) * (np.maximum(k, 0)**2 @ tensors[part + ".value.weight"].T)
    head = tensors.get("head.weight", tensors["rwkv.embeddings.weight"])
    return norm(x, "rwkv.ln_out") @ head.T


RWKV4_NAMES = (("rwkv.", ""), ("embeddings.", "emb."), (".pre_ln.", ".ln0."),
               (".attention.", ".att."), (".feed_forward.", ".ffn."), ("_mix_key", "_mix_k"),
               ("_mix_value", "_mix_v"), ("_mix_receptance", "_mix_r"))


def rwkv4_authors_weights(draw, config):
    return {authors_name(name, RWKV4_NAMES): value
            for name, value in rwkv4_weights(draw, rwkv4_config()).items()}


def rwkv4_authors_forward(config, tensors, tokens):
    return rwkv4_forward(rwkv4_config(), {
        name: tensors[authors_name(name, RWKV4_NAMES)]
        for name in rwkv4_weights(Draw(""), rwkv4_config())
    }, tokens)


# ---- rwkv6, as flash-linear-attention names it ----

def rwkv6_fla_config(**fields):
    common = {
        "architectures": ["RWKV6ForCausalLM"], "model_type": "rwkv6", "attn": None,
        "attn_mode": "chunk", "bos_token_id": 1, "eos_token_id": 2, "expand_k": 1.0,
        "expand_v": 1.0, "fuse_cross_entropy": True, "fuse_norm": True, "gate_low_rank_dim": 6,
        "hidden_act": "sqrelu", "hidden_ratio": 3.5, "hidden_size": 32, "initializer_range": 0.02,
        "intermediate_size": 48, "max_position_embeddings": 2048, "norm_bias": True,
        "norm_eps": 1e-5, "norm_first": True, "num_heads": 2, "num_hidden_layers": 2,
        "proj_low_rank_dim": 4, "tie_word_embeddings": False, "use_cache": True,
        "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def rwkv6_fla_weights(draw, config):
    width, count = config["hidden_size"], config["num_heads"]
    inner = config["intermediate_size"] or 32 * math.ceil(int(width * config["hidden_ratio"]) / 32)
    keys, values = (int(width * config["expand_" + letter]) for letter in "kv")
    moves, rank = 5 * config["proj_low_rank_dim"], config["gate_low_rank_dim"]
    tensors = {"model.embeddings.weight": draw.normal(VOCABULARY, width)}
    norms = ["model.norm"] + ["model.layers.0.pre_norm"] * config["norm_first"]
    for i in range(config["num_hidden_layers"]):
        prefix = "model.layers.%d." % i
        attn, ffn = prefix + "attn.", prefix + "ffn."
        norms += [prefix + "attn_norm", prefix + "ffn_norm"]
        tensors[attn + "x_proj.0.mu"] = draw.uniform(0.1, 0.9, width)
        tensors[attn + "x_proj.0.linear.weight"] = draw.linear(moves, width)
        tensors[attn + "x_proj.2.weight"] = draw.linear(width, moves, math.sqrt(5) / 2)
        tensors[attn + "x_bias"] = draw.uniform(0.1, 0.9, 5, width)
        for letter, size in zip("rkvg", (keys, keys, values, values)):
            tensors[attn + letter + "_proj.linear.weight"] = draw.linear(size, width)
        tensors[attn + "w_proj.linear.lora.0.weight"] = draw.linear(rank, width)
        tensors[attn + "w_proj.linear.lora.2.weight"] = draw.linear(keys, rank)
        tensors[attn + "w_proj.linear.lora.2.bias"] = draw.bias(keys) - 1
        tensors[attn + "bonus"] = draw.bias(count, keys // count)
        tensors[attn + "g_norm.weight"] = draw.gain(values)
        tensors[attn + "g_norm.bias"] = draw.bias(values)
        tensors[attn + "o_proj.weight"] = draw.linear(width, values)
        for name, size in (("key", inner), ("receptance", width)):
            tensors[ffn + name + ".mu"] = draw.uniform(0.1, 0.9, width)
            tensors[ffn + name + ".linear.weight"] = draw.linear(size, width)
        tensors[ffn + "value.weight"] = draw.linear(width, inner)
    for name in norms:
        tensors[name + ".weight"] = draw.gain(width)
        if config["norm_bias"]:
            tensors[name + ".bias"] = draw.bias(width)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def rwkv6_fla_forward(config, tensors, tokens):
    """The same with the author's names: mixes in his order, vectors of channels [1, 1, channels],
    keys and values of other widths, norms that may have no biases."""
    width, ranks = config["hidden_size"], config["proj_low_rank_dim"]
    order = ["rwkvg".index(letter) for letter in "wkvrg"]
    again, none = {}, np.zeros(width)
    for theirs, ours in (("model.norm", "ln_out"), ("model.layers.0.pre_norm", "blocks.0.ln0")):
        if theirs + ".weight" in tensors:
            again[ours + ".weight"] = tensors[theirs + ".weight"]
            again[ours + ".bias"] = tensors.get(theirs + ".bias", none)
    for i in range(config["num_hidden_layers"]):
        prefix, block = "model.layers.%d." % i, "blocks.%d." % i
        attn, ffn = prefix + "attn.", prefix + "ffn."
        att, mix = block + "att.", block + "ffn."
        for theirs, ours in (("attn_norm", "ln1"), ("ffn_norm", "ln2")):
            again[block + ours + ".weight"] = tensors[prefix + theirs + ".weight"]
            again[block + ours + ".bias"] = tensors.get(prefix + theirs + ".bias", none)
        again[att + "time_maa_x"] = tensors[attn + "x_proj.0.mu"][None, None]
        for j, letter in enumerate("rwkvg"):
            again[att + "time_maa_" + letter] = tensors[attn + "x_bias"][j][None, None]
        down = tensors[attn + "x_proj.0.linear.weight"].reshape(5, ranks, width)
        up = tensors[attn + "x_proj.2.weight"].reshape(width, 5, ranks)
        again[att + "time_maa_w1"] = down[order].reshape(5 * ranks, width).T
        again[att + "time_maa_w2"] = up[:, order].transpose(1, 2, 0)
        again[att + "time_decay_w1"] = tensors[attn + "w_proj.linear.lora.0.weight"].T
        again[att + "time_decay_w2"] = tensors[attn + "w_proj.linear.lora.2.weight"].T
        again[att + "time_decay"] = tensors[attn + "w_proj.linear.lora.2.bias"][None, None]
        again[att + "time_faaaa"] = tensors[attn + "bonus"]
        for letter, name in zip("rkvg", ("receptance", "key", "value", "gate")):
            again[att + name + ".weight"] = tensors[attn + letter + "_proj.linear.weight"]
        again[att + "output.weight"] = tensors[attn + "o_proj.weight"]
        for part in ("weight", "bias"):
            again[att + "ln_x." + part] = tensors[attn + "g_norm." + part]
        for letter, name in (("k", "key"), ("r", "receptance")):
            again[mix + "time_maa_" + letter] = tensors[ffn + name + ".mu"][None, None]
            again[mix + name + ".weight"] = tensors[ffn + name + ".linear.weight"]
        again[mix + "value.weight"] = tensors[ffn + "value.weight"]
    again["emb.weight"] = tensors["model.embeddings.weight"]
    again["head.weight"] = tensors[
        "model.embeddings.weight" if config["tie_word_embeddings"] else "lm_head.weight"]
    return rwkv6_forward(config, again, tokens, config["norm_eps"], config["norm_eps"])


# ---- mamba and falcon_mamba ----

def mamba_config(**fields):
    common = {
        "architectures": ["MambaForCausalLM"], "model_type": "mamba", "bos_token_id": 0,
        "conv_kernel": 4, "eos_token_id": 0, "expand": 2, "fused_add_norm": True,
        "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.1,
        "intermediate_size": 64, "layer_norm_epsilon": 1e-5, "n_layer": 2, "num_hidden_layers": 2,
        "pad_token_id": 0, "pad_vocab_size_multiple": 8, "rescale_prenorm_residual": False,
        "residual_in_fp32": True, "rms_norm": True, "ssm_cfg": {}, "state_size": 12,
        "tie_word_embeddings": True, "time_step_floor": 1e-4, "time_step_init_scheme": "random",
        "time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": 3, "time_step_scale": 1.0,
        "use_bias": False, "use_cache": True, "use_conv_bias": True, "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def mamba_weights(draw, config):
    width, inner = config["hidden_size"], config["intermediate_size"]
    state, rank = config["state_size"], config["time_step_rank"]
    tensors = {"backbone.embeddings.weight": draw.normal(VOCABULARY, width)}
    for i in range(config["num_hidden_layers"]):
        prefix = "backbone.layers.%d." % i
        tensors[prefix + "norm.weight"] = draw.gain(width)
        prefix += "mixer."
        tensors[prefix + "in_proj.weight"] = draw.linear(2 * inner, width)
        if config["use_bias"]:
            tensors[prefix + "in_proj.bias"] = draw.bias(2 * inner)
            tensors[prefix + "out_proj.bias"] = draw.bias(width)
        tensors[prefix + "conv1d.weight"] = draw.taps(inner, config["conv_kernel"])
        if config["use_conv_bias"]:
            tensors[prefix + "conv1d.bias"] = draw.bias(inner)
        tensors[prefix + "x_proj.weight"] = draw.linear(rank + 2 * state, inner, 2.0)
        tensors[prefix + "dt_proj.weight"] = draw.linear(inner, rank)
        tensors[prefix + "dt_proj.bias"] = draw.bias(inner) - 0.5
        tensors[prefix + "A_log"] = draw.uniform(-1.5, 1.5, inner * state).reshape(inner, state)
        tensors[prefix + "D"] = draw.gain(inner)
        tensors[prefix + "out_proj.weight"] = draw.linear(width, inner)
    tensors["backbone.norm_f.weight"] = draw.gain(width)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def mamba_mixer(config, tensors, prefix, h):
    inner, state = config["intermediate_size"], config["state_size"]
    rank = config["time_step_rank"]
    u, z = np.split(h @ tensors[prefix + "in_proj.weight"].T +
                    tensors.get(prefix + "in_proj.bias", 0.0), 2, 1)
    u = silu(convolve(u, tensors[prefix + "conv1d.weight"],
                      tensors.get(prefix + "conv1d.bias", 0.0)))
    parts = np.split(u @ tensors[prefix + "x_proj.weight"].T, [rank, rank + state], 1)
    if "mixer_rms_eps" in config:
        parts = [rms(part, 1.0, config["mixer_rms_eps"]) for part in parts]
    low, key, query = parts
    time = softplus(low @ tensors[prefix + "dt_proj.weight"].T +
                    tensors[prefix + "dt_proj.bias"])
    rate = np.exp(tensors[prefix + "A_log"])
    memory, y = np.zeros((inner, state)), np.zeros_like(u)
    for t in range(len(h)):
        memory = np.exp(-rate * time[t][:, None]) * memory
        memory = memory + (time[t] * u[t])[:, None] * key[t]
        y[t] = memory @ query[t] + tensors[prefix + "D"] * u[t]
    return (y * silu(z)) @ tensors[prefix + "out_proj.weight"].T + tensors.get(
        prefix + "out_proj.bias", 0.0)


def mamba_forward(config, tensors, tokens):
    eps = config["layer_norm_epsilon"]
    x = tensors["backbone.embeddings.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        prefix = "backbone.layers.%d." % i
        h = rms(x, tensors[prefix + "norm.weight"], eps)
        x = x + mamba_mixer(config, tensors, prefix + "mixer.", h)
    head = "backbone.embeddings.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return rms(x, tensors["backbone.norm_f.weight"], eps) @ tensors[head].T


# ---- samba: Mamba and attention of a window, each with an MLP ----

def samba_config(**fields):
    common = {
        "architectures": ["SambaForCausalLM"], "model_type": "samba", "bos_token_id": 1,
        "attn": {"layers": [1], "num_heads": 4, "num_kv_heads": 2, "qkv_bias": False,
                 "rope_theta": 10000.0, "window_size": 5},
        "conv_kernel": 4, "eos_token_id": 2, "expand": 2, "fuse_cross_entropy": True,
        "fuse_norm": True, "fuse_swiglu": True, "hidden_act": "swish", "hidden_ratio": 4,
        "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 64,
        "max_position_embeddings": 2048, "norm_eps": 1e-5, "num_hidden_layers": 2,
        "pad_token_id": 0, "rescale_prenorm_residual": False, "residual_in_fp32": False,
        "state_size": 12, "tie_word_embeddings": False, "time_step_floor": 1e-4,
        "time_step_init_scheme": "random", "time_step_max": 0.1, "time_step_min": 0.001,
        "time_step_rank": 3, "time_step_scale": 1.0, "use_bias": False, "use_cache": True,
        "use_conv_bias": True, "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def samba_weights(draw, config):
    """Mamba's in all layers; attention's instead in some."""
    width, inner = config["hidden_size"], fla_inner({**config, "intermediate_size": None})
    fields, where = attended(config)
    tensors = mamba_weights(draw, {**config, "use_conv_bias": True})
    for i in range(config["num_hidden_layers"]):
        prefix = "backbone.layers.%d." % i
        tensors[prefix + "mixer_norm.weight"] = tensors.pop(prefix + "norm.weight")
        tensors[prefix + "mlp_norm.weight"] = draw.gain(width)
        tensors[prefix + "mlp.gate_proj.weight"] = draw.linear(inner, width)
        tensors[prefix + "mlp.up_proj.weight"] = draw.linear(inner, width)
        tensors[prefix + "mlp.down_proj.weight"] = draw.linear(width, inner)
        if i not in where:
            continue
        tensors = {name: value for name, value in tensors.items()
                   if not name.startswith(prefix + "mixer.")}
        for name, value in transformer_weights(draw, fields).items():
            tensors[prefix + "mixer." + name] = value
    return tensors


def samba_forward(config, tensors, tokens):
    eps, (fields, where) = config["norm_eps"], attended(config)
    x = tensors["backbone.embeddings.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        prefix = "backbone.layers.%d." % i
        h = rms(x, tensors[prefix + "mixer_norm.weight"], eps)
        prefix += "mixer."
        if i in where:
            mine = {name[len(prefix):]: value for name, value in tensors.items()
                    if name.startswith(prefix)}
            x = x + transformer_layer(fields, mine, h)
        else:
            x = x + mamba_mixer(config, tensors, prefix, h)
        prefix = "backbone.layers.%d." % i
        h = rms(x, tensors[prefix + "mlp_norm.weight"], eps)
        x = x + swiglu(h, tensors, prefix + "mlp.")
    head = "backbone.embeddings.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return rms(x, tensors["backbone.norm_f.weight"], eps) @ tensors[head].T


# ---- jamba: Mamba with more norms, attention without positions, experts ----

def jamba_config(**fields):
    return {
        "architectures": ["JambaForCausalLM"], "attention_dropout": 0.0, "attn_layer_offset": 1,
        "attn_layer_period": 3, "bos_token_id": 1, "eos_token_id": 2, "expert_layer_offset": 1,
        "expert_layer_period": 2, "hidden_act": "silu", "hidden_size": 32,
        "initializer_range": 0.02, "intermediate_size": 24, "mamba_conv_bias": True,
        "mamba_d_conv": 4, "mamba_d_state": 12, "mamba_dt_rank": 3, "mamba_expand": 2,
        "mamba_proj_bias": False, "max_position_embeddings": 64, "model_type": "jamba",
        "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 5, "num_key_value_heads": 2, "output_router_logits": False,
        "pad_token_id": 0, "rms_norm_eps": 1e-6, "router_aux_loss_coef": 0.001,
        "tie_word_embeddings": False, "use_cache": True, "use_mamba_kernels": True,
        "vocab_size": VOCABULARY, **fields}


def jamba_inner(config):
    rank = config["mamba_dt_rank"]
    return (config["mamba_expand"] * config["hidden_size"], config["mamba_d_state"],
            -(-config["hidden_size"] // 16) if rank == "auto" else rank)


def jamba_is_full(config, i):
    return i % config["attn_layer_period"] == config["attn_layer_offset"]


def jamba_has_experts(config, i):
    return (config["num_experts"] > 1 and
            i % config["expert_layer_period"] == config["expert_layer_offset"])


def jamba_weights(draw, config):
    width, head = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    inner, state, rank = jamba_inner(config)
    tensors = {"model.embed_tokens.weight": draw.normal(VOCABULARY, width),
               "model.final_layernorm.weight": draw.gain(width)}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width)
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        tensors[layer + "input_layernorm.weight"] = draw.gain(width)
        tensors[layer + "pre_ff_layernorm.weight"] = draw.gain(width)
        if jamba_is_full(config, i):
            for letter, of in zip("qkvo", ("attention", "key_value", "key_value", "attention")):
                shape = (head * config["num_%s_heads" % of], width)
                tensors[layer + "self_attn.%s_proj.weight" % letter] = draw.linear(
                    *(shape if letter != "o" else shape[::-1]))
        else:
            mixer = layer + "mamba."
            tensors[mixer + "in_proj.weight"] = draw.linear(2 * inner, width)
            tensors[mixer + "conv1d.weight"] = draw.taps(inner, config["mamba_d_conv"])
            if config["mamba_conv_bias"]:
                tensors[mixer + "conv1d.bias"] = draw.bias(inner)
            tensors[mixer + "x_proj.weight"] = draw.linear(rank + 2 * state, inner, 2.0)
            for part, size in (("dt", rank), ("b", state), ("c", state)):
                tensors[mixer + part + "_layernorm.weight"] = draw.gain(size)
            tensors[mixer + "dt_proj.weight"] = draw.linear(inner, rank)
            tensors[mixer + "dt_proj.bias"] = draw.bias(inner) - 0.5
            tensors[mixer + "A_log"] = draw.uniform(-1.5, 1.5, inner * state).reshape(inner, state)
            tensors[mixer + "D"] = draw.gain(inner)
            tensors[mixer + "out_proj.weight"] = draw.linear(width, inner)
            if config["mamba_proj_bias"]:
                tensors[mixer + "in_proj.bias"] = draw.bias(2 * inner)
                tensors[mixer + "out_proj.bias"] = draw.bias(width)
        mlp = layer + "feed_forward."
        if not jamba_has_experts(config, i):
            tensors.update(swiglu_weights(draw, width, config["intermediate_size"], mlp))
            continue
        tensors[mlp + "router.weight"] = draw.linear(config["num_experts"], width)
        for j in range(config["num_experts"]):
            tensors.update(swiglu_weights(draw, width, config["intermediate_size"],
                                          mlp + "experts.%d." % j))
    return tensors


def jamba_memory(config, tensors, x):
    state, rank, eps = *jamba_inner(config)[1:], config["rms_norm_eps"]
    u, z = np.split(x @ tensors["in_proj.weight"].T + tensors.get("in_proj.bias", 0.0), 2, 1)
    u = silu(convolve(u, tensors["conv1d.weight"], tensors.get("conv1d.bias", 0.0)))
    low, key, query = (
        rms(part, tensors[name + "_layernorm.weight"], eps) for name, part in
        zip(("dt", "b", "c"), np.split(u @ tensors["x_proj.weight"].T, [rank, rank + state], 1)))
    time = softplus(low @ tensors["dt_proj.weight"].T + tensors["dt_proj.bias"])
    memory, y = np.zeros((u.shape[1], state)), np.zeros_like(u)
    for t, step in enumerate(time):
        memory = np.exp(-np.exp(tensors["A_log"]) * step[:, None]) * memory
        memory = memory + (step * u[t])[:, None] * key[t]
        y[t] = memory @ query[t] + tensors["D"] * u[t]
    return (y * silu(z)) @ tensors["out_proj.weight"].T + tensors.get("out_proj.bias", 0.0)


def jamba_experts(config, tensors, prefix, x):
    """The best few experts by softmax over all, by their shares as they are."""
    share = np.exp(x @ tensors[prefix + "router.weight"].T)
    share /= share.sum(1, keepdims=True)
    least = np.sort(share, 1)[:, -config["num_experts_per_tok"]]
    share = np.where(share >= least[:, None], share, 0)
    return sum(share[:, i:i + 1] * swiglu(x, tensors, prefix + "experts.%d." % i)
               for i in range(config["num_experts"]))


def jamba_forward(config, tensors, tokens):
    x, eps = tensors["model.embed_tokens.weight"][tokens], config["rms_norm_eps"]
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        h = rms(x, tensors[layer + "input_layernorm.weight"], eps)
        if jamba_is_full(config, i):
            q, k, v = (heads(h @ tensors[layer + "self_attn.%s_proj.weight" % letter].T,
                             config["num_%s_heads" % of])
                       for letter, of in zip("qkv", ("attention", "key_value", "key_value")))
            x = x + rows(attend(q, k, v)) @ tensors[layer + "self_attn.o_proj.weight"].T
        else:
            mixer = layer + "mamba."
            x = x + jamba_memory(config, {name[len(mixer):]: value
                                          for name, value in tensors.items()
                                          if name.startswith(mixer)}, h)
        h = rms(x, tensors[layer + "pre_ff_layernorm.weight"], eps)
        x = x + (jamba_experts(config, tensors, layer + "feed_forward.", h)
                 if jamba_has_experts(config, i) else
                 swiglu(h, tensors, layer + "feed_forward."))
    head = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    return rms(x, tensors["model.final_layernorm.weight"], eps) @ tensors[head + ".weight"].T


# ---- recurrent_gemma: Griffin ----

def recurrent_gemma_config(**fields):
    return {
        "architectures": ["RecurrentGemmaForCausalLM"], "attention_bias": False,
        "attention_dropout": 0.0, "attention_window_size": 4,
        "block_types": ["recurrent", "recurrent", "attention"], "bos_token_id": 2,
        "conv1d_width": 4, "eos_token_id": 1, "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 32, "intermediate_size": 48, "logits_soft_cap": 3.0, "lru_width": 40,
        "model_type": "recurrent_gemma", "num_attention_heads": 4, "num_hidden_layers": 4,
        "num_key_value_heads": 1, "pad_token_id": 0, "rms_norm_eps": 1e-6,
        "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0,
                            "rope_type": "default"},
        "tie_word_embeddings": True, "use_cache": True, "vocab_size": VOCABULARY,
        "w_init_variance_scale": 0.01, **fields}


def recurrent_gemma_is_attention(config, i):
    return config["block_types"][i % len(config["block_types"])] == "attention"


def recurrent_gemma_weights(draw, config):
    width, count = config["hidden_size"], config["num_attention_heads"]
    head, lru = width // count, config["lru_width"] or width
    block, inner = lru // count, config["intermediate_size"] // 2
    tensors = {"model.embed_tokens.weight": draw.normal(VOCABULARY, width),
               "model.final_norm.weight": draw.gain(width) - 1}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 3.0)

    def product(name, outputs, inputs, biased=True):
        tensors[name + ".weight"] = draw.linear(outputs, inputs)
        if biased:
            tensors[name + ".bias"] = draw.bias(outputs)

    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        mixer = layer + "temporal_block."
        tensors[layer + "temporal_pre_norm.weight"] = draw.gain(width) - 1
        tensors[layer + "channel_pre_norm.weight"] = draw.gain(width) - 1
        if recurrent_gemma_is_attention(config, i):
            shared = (config["num_key_value_heads"] or count) * head
            for letter, size in (("q", width), ("k", shared), ("v", shared)):
                product(mixer + letter + "_proj", size, width, config["attention_bias"])
            product(mixer + "o_proj", width, width)
        else:
            product(mixer + "linear_x", lru, width)
            product(mixer + "linear_y", lru, width)
            product(mixer + "linear_out", width, lru)
            tensors[mixer + "conv_1d.weight"] = draw.taps(lru, config["conv1d_width"])
            tensors[mixer + "conv_1d.bias"] = draw.bias(lru)
            for gate in ("recurrent", "input"):
                tensors[mixer + "rg_lru.%s_gate_weight" % gate] = (
                    draw.normal(count, block, block) / math.sqrt(block))
                tensors[mixer + "rg_lru.%s_gate_bias" % gate] = draw.bias(count, block)
            tensors[mixer + "rg_lru.recurrent_param"] = draw.uniform(-5.0, 1.0, lru)
        for name, outputs, inputs in (("gate", inner, width), ("up", inner, width),
                                      ("down", width, inner)):
            product(layer + "mlp_block.%s_proj" % name, outputs, inputs)
    return tensors


def recurrent_gemma_memory(config, tensors, h):
    def linear(name, x):
        return x @ tensors[name + ".weight"].T + tensors[name + ".bias"]

    def gate(name, x):
        return sigmoid(rows(np.einsum("thi,hij->thj", heads(x, config["num_attention_heads"]),
                                      tensors["rg_lru.%s_gate_weight" % name])
                            + tensors["rg_lru.%s_gate_bias" % name]))

    x = convolve(linear("linear_x", h), tensors["conv_1d.weight"], tensors["conv_1d.bias"])
    log_a = -8.0 * gate("recurrent", x) * softplus(tensors["rg_lru.recurrent_param"])
    write = gate("input", x) * x
    write[1:] *= np.sqrt(-np.expm1(2 * log_a[1:]))
    state, y = np.zeros(x.shape[1]), np.zeros_like(x)
    for t in range(len(x)):
        state = np.exp(log_a[t]) * state + write[t]
        y[t] = state
    return linear("linear_out", y * gelu_tanh(linear("linear_y", h)))


def recurrent_gemma_attention(config, tensors, h):
    rope, places = config["rope_parameters"], np.arange(len(h))
    q, k, v = (heads(h @ tensors[letter + "_proj.weight"].T
                     + tensors.get(letter + "_proj.bias", 0.0), count)
               for letter, count in zip("qkv", (config["num_attention_heads"],)
                                        + 2 * (config["num_key_value_heads"]
                                               or config["num_attention_heads"],)))
    y = attend(*(rotate(part, rope["rope_theta"], places, rope.get("partial_rotary_factor", 0.5))
                 for part in (q, k)), v, window=config["attention_window_size"])
    return rows(y) @ tensors["o_proj.weight"].T + tensors["o_proj.bias"]


def recurrent_gemma_forward(config, tensors, tokens):
    root = from_bits(to_bits(math.sqrt(config["hidden_size"]), "BF16"), "BF16", ())
    eps = config["rms_norm_eps"]
    x = tensors["model.embed_tokens.weight"][tokens] * root
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        mine = {name[len(layer + "temporal_block."):]: value for name, value in tensors.items()
                if name.startswith(layer + "temporal_block.")}
        h = rms(x, 1 + tensors[layer + "temporal_pre_norm.weight"], eps)
        x = x + (recurrent_gemma_attention if recurrent_gemma_is_attention(config, i) else
                 recurrent_gemma_memory)(config, mine, h)
        h = rms(x, 1 + tensors[layer + "channel_pre_norm.weight"], eps)
        gate, up = (h @ tensors[layer + "mlp_block.%s_proj.weight" % name].T
                    + tensors[layer + "mlp_block.%s_proj.bias" % name] for name in ("gate", "up"))
        x = x + ((gelu_tanh(gate) * up) @ tensors[layer + "mlp_block.down_proj.weight"].T
                 + tensors[layer + "mlp_block.down_proj.bias"])
    head = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    logits = (rms(x, 1 + tensors["model.final_norm.weight"], eps)
              @ tensors[head + ".weight"].T)
    return config["logits_soft_cap"] * np.tanh(logits / config["logits_soft_cap"])


# ---- mamba2, as Hugging Face names it ----

def mamba2_config(**fields):
    common = {
        "architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "bos_token_id": 0,
        "chunk_size": 256, "conv_kernel": 4, "eos_token_id": 0, "expand": 2, "head_dim": 16,
        "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.1,
        "layer_norm_epsilon": 1e-5, "n_groups": 1, "num_heads": 4, "num_hidden_layers": 2,
        "pad_token_id": 0, "rescale_prenorm_residual": False, "residual_in_fp32": True,
        "rms_norm": True, "state_size": 24, "tie_word_embeddings": True, "time_step_floor": 1e-4,
        "time_step_limit": [0.0, math.inf], "time_step_max": 0.1, "time_step_min": 0.001,
        "time_step_rank": 2, "use_bias": False, "use_cache": True, "use_conv_bias": True,
        "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def mamba2_mixer(draw, tensors, prefix, width, inner, both, count, taps, bias, conv_bias,
                 normed=True):
    """Draw a mixer's tensors: values of `inner` channels, keys and queries of `both`."""
    tensors[prefix + "in_proj.weight"] = draw.linear(2 * inner + both + count, width)
    if bias:
        tensors[prefix + "in_proj.bias"] = draw.bias(2 * inner + both + count)
        tensors[prefix + "out_proj.bias"] = draw.bias(width)
    tensors[prefix + "conv1d.weight"] = draw.taps(inner + both, taps)
    if conv_bias:
        tensors[prefix + "conv1d.bias"] = draw.bias(inner + both)
    tensors[prefix + "dt_bias"] = draw.bias(count) - 0.5
    tensors[prefix + "A_log"] = draw.uniform(-1.5, 0.5, count)
    tensors[prefix + "D"] = draw.gain(count)
    if normed:
        tensors[prefix + "norm.weight"] = draw.gain(inner)
    tensors[prefix + "out_proj.weight"] = draw.linear(width, inner)


def mamba2_weights(draw, config):
    width, count = config["hidden_size"], config["num_heads"]
    inner, both = count * config["head_dim"], 2 * config["n_groups"] * config["state_size"]
    tensors = {"backbone.embeddings.weight": draw.normal(VOCABULARY, width)}
    for i in range(config["num_hidden_layers"]):
        prefix = "backbone.layers.%d." % i
        tensors[prefix + "norm.weight"] = draw.gain(width)
        mamba2_mixer(draw, tensors, prefix + "mixer.", width, inner, both, count,
                     config["conv_kernel"], config["use_bias"], config["use_conv_bias"])
    tensors["backbone.norm_f.weight"] = draw.gain(width)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def mamba2_forward(config, tensors, tokens):
    count, groups, eps = config["num_heads"], config["n_groups"], config["layer_norm_epsilon"]
    inner, state = count * config["head_dim"], groups * config["state_size"]
    x = tensors["backbone.embeddings.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        prefix = "backbone.layers.%d." % i
        h = rms(x, tensors[prefix + "norm.weight"], eps)
        prefix += "mixer."
        z, u, dt = np.split(h @ tensors[prefix + "in_proj.weight"].T +
                            tensors.get(prefix + "in_proj.bias", 0.0),
                            [inner, 2 * inner + 2 * state], 1)
        u = silu(convolve(u, tensors[prefix + "conv1d.weight"],
                          tensors.get(prefix + "conv1d.bias", 0.0)))
        u, key, query = np.split(u, [inner, inner + state], 1)
        dt = np.clip(softplus(dt + tensors[prefix + "dt_bias"]), *config["time_step_limit"])
        u = heads(u, count)
        key, query = (np.repeat(heads(rows_of_heads, groups), count // groups, 1)
                      for rows_of_heads in (key, query))
        decay = -dt * np.exp(tensors[prefix + "A_log"])
        y = decay_and_add(query, key, dt[:, :, None] * u, decay[:, :, None])
        y = rows(y + tensors[prefix + "D"][:, None] * u) * silu(z)
        y = rms(heads(y, groups), 1.0, eps)
        x = x + (rows(y) * tensors[prefix + "norm.weight"]) @ tensors[prefix + "out_proj.weight"].T
        x = x + tensors.get(prefix + "out_proj.bias", 0.0)
    head = "backbone.embeddings.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return rms(x, tensors["backbone.norm_f.weight"], eps) @ tensors[head].T


# ---- mamba2, as flash-linear-attention and its authors name it ----

def mamba2_fla_config(**fields):
    """The tensors are Hugging Face's, the fields are not; infinity as Transformers 5 writes it."""
    common = {
        "architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "A_init_range": [1, 16],
        "D_has_hdim": False, "bos_token_id": 1, "chunk_size": 256, "conv_init": None,
        "conv_kernel": 4, "dt_init_floor": 1e-4, "dt_limit": [0.0, {"__float__": "Infinity"}],
        "dt_max": 0.1, "dt_min": 0.001, "eos_token_id": 2, "expand": 2,
        "fuse_cross_entropy": True, "fuse_norm": True, "head_dim": 16, "hidden_act": "silu",
        "hidden_size": 32, "initializer_range": 0.02, "n_groups": 1, "norm_before_gate": False,
        "norm_eps": 1e-5, "num_hidden_layers": 2, "pad_token_id": 0,
        "rescale_prenorm_residual": True, "residual_in_fp32": True, "rmsnorm": True,
        "state_size": 24, "tie_word_embeddings": False, "use_bias": False, "use_cache": True,
        "use_conv_bias": True, "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def mamba2_authors_config():
    """The authors leave out what their code has as a default: expand 2, d_conv 4, d_state 128,
    headdim 64, ngroups 1; here the last three differ, and the vocabulary is rounded up to 48."""
    return {
        "attn_cfg": {}, "attn_layer_idx": [], "d_intermediate": 0, "d_model": 32,
        "fused_add_norm": True, "n_layer": 3, "pad_vocab_size_multiple": 16,
        "residual_in_fp32": True, "rms_norm": True,
        "ssm_cfg": {"layer": "Mamba2", "d_state": 12, "headdim": 8, "ngroups": 1},
        "tie_embeddings": True, "vocab_size": 45,
    }


def mamba2_fields(config):
    """Any dialect's configuration as Hugging Face's."""
    if "ssm_cfg" in config:
        mixer = config["ssm_cfg"]
        return mamba2_config(
            hidden_size=config["d_model"], num_hidden_layers=config["n_layer"],
            head_dim=mixer["headdim"], num_heads=2 * config["d_model"] // mixer["headdim"],
            state_size=mixer["d_state"], n_groups=mixer["ngroups"],
            tie_word_embeddings=config["tie_embeddings"])
    if "dt_limit" in config:
        limit = [float(x["__float__"]) if isinstance(x, dict) else x for x in config["dt_limit"]]
        shared = {field: value for field, value in config.items() if field in mamba2_config()}
        return mamba2_config(**{
            **shared, "layer_norm_epsilon": config["norm_eps"], "time_step_limit": limit,
            "num_heads": config["expand"] * config["hidden_size"] // config["head_dim"]})
    return config


def mamba2_authors_weights(draw, config):
    tensors = mamba2_weights(draw, mamba2_fields(config))
    table = tensors.pop("backbone.embeddings.weight")
    return {**tensors, "backbone.embedding.weight": table, "lm_head.weight": table}


def mamba2_authors_forward(config, tensors, tokens):
    tensors = {**tensors, "backbone.embeddings.weight": tensors["backbone.embedding.weight"]}
    return mamba2_forward(mamba2_fields(config), tensors, tokens)


# ---- ttt ----

def ttt_config(kind, mamba, **fields):
    """The two backbones of the paper: the Transformer's, and Mamba's with three things more."""
    common = {
        "architectures": ["TTTForCausalLM"], "model_type": "ttt", "bos_token_id": 1,
        "conv_kernel": 4, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 32,
        "initializer_range": 0.02, "intermediate_size": 64, "max_position_embeddings": 2048,
        "mini_batch_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2,
        "pre_conv": mamba, "pretraining_tp": 1, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "scan_checkpoint_group_size": 0, "share_qk": mamba, "tie_word_embeddings": True,
        "ttt_base_lr": 1.0 if kind == "linear" else 0.1, "ttt_layer_type": kind,
        "use_cache": False, "use_gate": mamba, "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def ttt_weights(draw, config):
    width, inner = config["hidden_size"], config["intermediate_size"]
    count, kernel = config["num_attention_heads"], config["conv_kernel"]
    size = width // count
    tensors = {"model.embed_tokens.weight": draw.normal(VOCABULARY, width)}
    for i in range(config["num_hidden_layers"]):
        prefix = "model.layers.%d." % i
        tensors[prefix + "seq_norm.weight"] = draw.gain(width)
        tensors[prefix + "ffn_norm.weight"] = draw.gain(width)
        tensors[prefix + "mlp.gate_proj.weight"] = draw.linear(inner, width)
        tensors[prefix + "mlp.up_proj.weight"] = draw.linear(inner, width)
        tensors[prefix + "mlp.down_proj.weight"] = draw.linear(width, inner)
        if config["pre_conv"]:
            tensors[prefix + "conv.norm.weight"] = draw.gain(width)
            tensors[prefix + "conv.conv.weight"] = draw.taps(width, kernel)
            tensors[prefix + "conv.conv.bias"] = draw.bias(width)
        prefix += "seq_modeling_block."
        for letter in "qvo" if config["share_qk"] else "qkvo":
            tensors[prefix + letter + "_proj.weight"] = draw.linear(width, width)
        if config["share_qk"]:
            for letter in "qk":
                tensors[prefix + "conv_%s.weight" % letter] = draw.taps(width, kernel)
                tensors[prefix + "conv_%s.bias" % letter] = draw.bias(width)
        if config["use_gate"]:
            tensors[prefix + "g_proj.weight"] = draw.linear(width, width)
        tensors[prefix + "learnable_token_idx"] = 0.1 * draw.normal(config["mini_batch_size"])
        tensors[prefix + "learnable_ttt_lr_weight"] = draw.linear(count, width)[:, None]
        tensors[prefix + "learnable_ttt_lr_bias"] = draw.bias(count, 1)
        tensors[prefix + "ttt_norm_weight"] = draw.gain(count, size)
        tensors[prefix + "ttt_norm_bias"] = draw.bias(count, size)
        sizes = [size, size] if config["ttt_layer_type"] == "linear" else [size, 4 * size, size]
        for k in range(1, len(sizes)):
            tensors[prefix + "W%d" % k] = draw.normal(count, sizes[k - 1], sizes[k]) / math.sqrt(
                sizes[k - 1])
            tensors[prefix + "b%d" % k] = draw.bias(count, 1, sizes[k])
        tensors[prefix + "post_norm.weight"] = draw.gain(width)
        tensors[prefix + "post_norm.bias"] = draw.bias(width)
    tensors["model.norm.weight"] = draw.gain(width)
    return tensors


def ttt_head(q, k, v, rate, scale, gain, shift, layers):
    """One head, token after token: q k v [tokens, size], rate of each writer, scale of each reader,
    layers the pairs (W, b) of the inner model, [in, out]."""
    out = np.empty_like(q)
    deep = len(layers) == 2
    sums = now = None
    for t in range(len(q)):
        place = t % len(scale)
        if place == 0:
            layers = layers if now is None else now
            sums = [(0.0, 0.0)] * len(layers)
        (w, b), (last_w, last_b) = layers[0], layers[-1]
        # the loss 1/2 |LN(z) - (v - k)|^2 and its slope, at the weights of the mini-batch's start
        first = k[t] @ w + b
        inner = gelu_tanh(first) if deep else k[t]
        z = inner @ last_w + last_b
        deviation = math.sqrt(z.var() + 1e-6)
        hat = (z - z.mean()) / deviation
        slope = (hat * gain + shift - (v[t] - k[t])) * gain
        slope = (slope - slope.mean() - hat * (slope * hat).mean()) / deviation
        slopes = [slope * rate[t]]
        if deep:
            slopes.insert(0, (slope @ last_w.T) * gelu_tanh_slope(first) * rate[t])
        inputs = [k[t], inner][:len(layers)]
        sums = [(sum_w + np.outer(u, s), sum_b + s)
                for (sum_w, sum_b), u, s in zip(sums, inputs, slopes)]
        # the reader's own scale multiplies the whole sum so far
        now = [(start_w - scale[place] * sum_w, start_b - scale[place] * sum_b)
               for (start_w, start_b), (sum_w, sum_b) in zip(layers, sums)]
        z = q[t] @ now[0][0] + now[0][1]
        if deep:
            z = gelu_tanh(z) @ now[1][0] + now[1][1]
        out[t] = q[t] + layer_norm(z, gain, shift, 1e-6)
    return out


def ttt_layer(config, tensors, x):
    count, theta = config["num_attention_heads"], config["rope_theta"]
    if config["share_qk"]:
        shared = x @ tensors["q_proj.weight"].T
        q, k = (convolve(shared, tensors["conv_%s.weight" % letter],
                         tensors["conv_%s.bias" % letter]) for letter in "qk")
    else:
        q, k = (x @ tensors[letter + "_proj.weight"].T for letter in "qk")
    places = np.arange(len(x)) % config["mini_batch_size"]
    q, k = (rotate(heads(u, count), theta, places, interleaved=True) for u in (q, k))
    v = heads(x @ tensors["v_proj.weight"].T, count)
    size = v.shape[2]
    rate = x @ tensors["learnable_ttt_lr_weight"][:, 0].T + tensors["learnable_ttt_lr_bias"][:, 0]
    rate = config["ttt_base_lr"] * sigmoid(rate) / size
    scale = 1 / np.arange(1, config["mini_batch_size"] + 1) + tensors["learnable_token_idx"]
    depth = 1 if config["ttt_layer_type"] == "linear" else 2
    out = [ttt_head(q[:, h], k[:, h], v[:, h], rate[:, h], np.maximum(scale, 0),
                    tensors["ttt_norm_weight"][h], tensors["ttt_norm_bias"][h],
                    [(tensors["W%d" % n][h], tensors["b%d" % n][h, 0])
                     for n in range(1, depth + 1)]) for h in range(count)]
    y = layer_norm(rows(np.stack(out, 1)), tensors["post_norm.weight"],
                   tensors["post_norm.bias"], 1e-6)
    if config["use_gate"]:
        y = y * gelu_tanh(x @ tensors["g_proj.weight"].T)
    return y @ tensors["o_proj.weight"].T


def ttt_forward(config, tensors, tokens):
    eps = config["rms_norm_eps"]
    x = tensors["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        prefix = "model.layers.%d." % i
        block = prefix + "seq_modeling_block."
        mine = {name[len(block):]: value for name, value in tensors.items()
                if name.startswith(block)}
        if config["pre_conv"]:
            x = x + convolve(rms(x, tensors[prefix + "conv.norm.weight"], eps),
                             tensors[prefix + "conv.conv.weight"],
                             tensors[prefix + "conv.conv.bias"])
        x = x + ttt_layer(config, mine, rms(x, tensors[prefix + "seq_norm.weight"], eps))
        h = rms(x, tensors[prefix + "ffn_norm.weight"], eps)
        x = x + swiglu(h, tensors, prefix + "mlp.")
    return rms(x, tensors["model.norm.weight"], eps) @ tensors["model.embed_tokens.weight"].T


# ---- qwen3_next and qwen3_5 ----

def qwen_text_config(**fields):
    common = {
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
        "full_attention_interval": 2, "head_dim": 16, "hidden_act": "silu", "hidden_size": 32,
        "initializer_range": 0.02, "intermediate_size": 64, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "linear_value_head_dim": 12, "max_position_embeddings": 2048, "num_attention_heads": 4,
        "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False, "use_cache": True, "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def qwen3_next_config(**fields):
    """As Transformers 4 wrote it. Dense: every layer is in mlp_only_layers."""
    dense = {
        "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
        "decoder_sparse_step": 1, "mlp_only_layers": [0, 1, 2], "moe_intermediate_size": 16,
        "norm_topk_prob": True, "num_experts": 4, "num_experts_per_tok": 2,
        "partial_rotary_factor": 0.25, "rope_scaling": None, "rope_theta": 10000.0,
        "shared_expert_intermediate_size": 16,
    }
    config = {**qwen_text_config(), **dense, **fields}
    if "rope_parameters" in config:   # as Transformers 5 writes it
        for old in ("full_attention_interval", "partial_rotary_factor", "rope_scaling",
                    "rope_theta"):
            del config[old]
    return config


def qwen3_5_config(**fields):
    """With a vision half, whose tensors a reader of texts drops, and rotary sections for it."""
    rope = {"mrope_interleaved": True, "mrope_section": [1, 1, 0], "partial_rotary_factor": 0.25,
            "rope_theta": 100000.0, "rope_type": "default"}
    layers = ["linear_attention", "full_attention", "linear_attention"]
    text = qwen_text_config(model_type="qwen3_5_text", layer_types=layers, rope_parameters=rope,
                            rms_norm_eps=1e-3, tie_word_embeddings=True)
    text.update(fields)
    return {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
            "image_token_id": 45, "text_config": text, "tie_word_embeddings": True,
            "video_token_id": 46,
            "vision_config": {"depth": 1, "hidden_size": 8, "intermediate_size": 16,
                              "model_type": "qwen3_5", "num_heads": 1, "out_hidden_size": 32},
            "vision_end_token_id": 44, "vision_start_token_id": 43}


def qwen3_5_moe_config():
    """All layers have experts, whose shares always sum to one."""
    config = qwen3_5_config(
        model_type="qwen3_5_moe_text", moe_intermediate_size=12, num_experts=6,
        num_experts_per_tok=3, shared_expert_intermediate_size=12)
    del config["text_config"]["intermediate_size"]
    return {**config, "architectures": ["Qwen3_5MoeForConditionalGeneration"],
            "model_type": "qwen3_5_moe",
            "vision_config": {**config["vision_config"], "model_type": "qwen3_5_moe"}}


def qwen_is_full(config, i):
    if "layer_types" in config:
        return config["layer_types"][i] == "full_attention"
    return (i + 1) % config["full_attention_interval"] == 0


def qwen_has_experts(config, i):
    return config.get("num_experts", 0) > 0 and i not in config.get("mlp_only_layers", ())


def swiglu_weights(draw, width, inner, prefix):
    return {prefix + "gate_proj.weight": draw.linear(inner, width),
            prefix + "up_proj.weight": draw.linear(inner, width),
            prefix + "down_proj.weight": draw.linear(width, inner)}


def qwen_experts_weights(draw, config, prefix, stacked):
    """stacked: as qwen3_5_moe's files have them, all experts in two tensors."""
    width, count = config["hidden_size"], config["num_experts"]
    inner = config["moe_intermediate_size"]
    tensors = {prefix + "gate.weight": draw.linear(count, width),
               prefix + "shared_expert_gate.weight": draw.linear(1, width)}
    if stacked:
        tensors[prefix + "experts.gate_up_proj"] = np.stack(
            [draw.linear(2 * inner, width) for _ in range(count)])
        tensors[prefix + "experts.down_proj"] = np.stack(
            [draw.linear(width, inner) for _ in range(count)])
    for i in range(0 if stacked else count):
        tensors.update(swiglu_weights(draw, width, inner,
                                      prefix + "experts.%d." % i))
    tensors.update(swiglu_weights(draw, width, config["shared_expert_intermediate_size"],
                                  prefix + "shared_expert."))
    return tensors


def qwen_expert(tensors, prefix, x, i):
    name = prefix + "experts.%d." % i
    if prefix + "experts.down_proj" in tensors:
        gate, up = np.split(tensors[prefix + "experts.gate_up_proj"][i], 2)
        tensors = {name + "gate_proj.weight": gate, name + "up_proj.weight": up,
                   name + "down_proj.weight": tensors[prefix + "experts.down_proj"][i]}
    return swiglu(x, tensors, name)


def qwen_experts(config, tensors, prefix, x):
    """The best few experts by softmax over all, their shares made to sum to one; and one for all
    tokens, behind a sigmoid."""
    share = np.exp(x @ tensors[prefix + "gate.weight"].T)
    share /= share.sum(1, keepdims=True)
    least = np.sort(share, 1)[:, -config["num_experts_per_tok"]]
    share = np.where(share >= least[:, None], share, 0)
    if config.get("norm_topk_prob", True):
        share /= share.sum(1, keepdims=True)
    y = sigmoid(x @ tensors[prefix + "shared_expert_gate.weight"].T) * swiglu(
        x, tensors, prefix + "shared_expert.")
    for i in range(config["num_experts"]):
        y = y + share[:, i:i + 1] * qwen_expert(tensors, prefix, x, i)
    return y


def qwen_weights(draw, config, prefix, split):
    """split: qwen3_5's four input projections; otherwise qwen3_next's two, interleaved by key head.
    The gains of most norms are stored less one."""
    width, inner = config["hidden_size"], config.get("intermediate_size")
    size, queries = config["head_dim"], config["num_attention_heads"] * config["head_dim"]
    stored = config["num_key_value_heads"] * size
    values, value = config["linear_num_value_heads"], config["linear_value_head_dim"]
    key_rows = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    value_rows = values * value
    tensors = {prefix + "embed_tokens.weight": draw.normal(VOCABULARY, width)}
    for i in range(config["num_hidden_layers"]):
        layer = prefix + "layers.%d." % i
        tensors[layer + "input_layernorm.weight"] = draw.bias(width)
        tensors[layer + "post_attention_layernorm.weight"] = draw.bias(width)
        if qwen_has_experts(config, i):
            tensors.update(qwen_experts_weights(draw, config, layer + "mlp.", split))
        else:
            tensors.update(swiglu_weights(draw, width, inner, layer + "mlp."))
        if qwen_is_full(config, i):
            layer += "self_attn."
            tensors[layer + "q_proj.weight"] = draw.linear(2 * queries, width)
            tensors[layer + "k_proj.weight"] = draw.linear(stored, width)
            tensors[layer + "v_proj.weight"] = draw.linear(stored, width)
            tensors[layer + "o_proj.weight"] = draw.linear(width, queries)
            tensors[layer + "q_norm.weight"] = draw.bias(size) + 0.5
            tensors[layer + "k_norm.weight"] = draw.bias(size) + 0.5
            continue
        layer += "linear_attn."
        if split:
            tensors[layer + "in_proj_qkv.weight"] = draw.linear(2 * key_rows + value_rows, width)
            tensors[layer + "in_proj_z.weight"] = draw.linear(value_rows, width)
            tensors[layer + "in_proj_b.weight"] = draw.linear(values, width)
            tensors[layer + "in_proj_a.weight"] = draw.linear(values, width)
        else:
            tensors[layer + "in_proj_qkvz.weight"] = draw.linear(
                2 * key_rows + 2 * value_rows, width)
            tensors[layer + "in_proj_ba.weight"] = draw.linear(2 * values, width)
        tensors[layer + "conv1d.weight"] = draw.taps(
            2 * key_rows + value_rows, config["linear_conv_kernel_dim"])
        tensors[layer + "A_log"] = draw.uniform(-1.5, 0.5, values)
        tensors[layer + "dt_bias"] = draw.bias(values) - 0.5
        tensors[layer + "norm.weight"] = draw.gain(value)
        tensors[layer + "out_proj.weight"] = draw.linear(width, value_rows)
    tensors[prefix + "norm.weight"] = draw.bias(width)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def qwen3_5_weights(draw, config):
    tensors = qwen_weights(draw, config["text_config"], "model.language_model.", True)
    tensors["model.visual.pos_embed.weight"] = draw.normal(4, 8)   # to be dropped
    tensors["mtp.norm.weight"] = draw.bias(32)                     # so too
    return tensors


def qwen_linear_layer(config, tensors, x):
    keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    key, value = config["linear_key_head_dim"], config["linear_value_head_dim"]
    each = values // keys
    if "in_proj_qkvz.weight" in tensors:
        # of each key head: its q, k, then v and z of its value heads; and b before a
        q, k, v, z = np.split(heads(x @ tensors["in_proj_qkvz.weight"].T, keys),
                              [key, 2 * key, 2 * key + each * value], 2)
        b, a = np.split(heads(x @ tensors["in_proj_ba.weight"].T, keys), 2, 2)
        u = np.concatenate([rows(q), rows(k), rows(v)], 1)
        z, b, a = rows(z), rows(b), rows(a)
    else:
        u, z, b, a = (x @ tensors["in_proj_%s.weight" % part].T for part in ("qkv", "z", "b", "a"))
    u = silu(convolve(u, tensors["conv1d.weight"]))
    q, k, v = np.split(u, [keys * key, 2 * keys * key], 1)
    q, k = (np.repeat(unit(heads(rows_of_heads, keys)), each, 1) for rows_of_heads in (q, k))
    decay = -np.exp(tensors["A_log"]) * softplus(a + tensors["dt_bias"])
    y = delta_rule(q * key**-0.5, k, heads(v, values), sigmoid(b), decay[:, :, None])
    y = rows(rms(y, tensors["norm.weight"], config["rms_norm_eps"])) * silu(z)   # the plain gain
    return y @ tensors["out_proj.weight"].T


def qwen_full_layer(config, tensors, x, theta, share):
    count, stored = config["num_attention_heads"], config["num_key_value_heads"]
    eps, places = config["rms_norm_eps"], np.arange(len(x))
    q, gate = np.split(heads(x @ tensors["q_proj.weight"].T, count), 2, 2)   # of each head
    k, v = (heads(x @ tensors[letter + "_proj.weight"].T, stored) for letter in "kv")
    q = rotate(rms(q, 1 + tensors["q_norm.weight"], eps), theta, places, share)
    k = rotate(rms(k, 1 + tensors["k_norm.weight"], eps), theta, places, share)
    return rows(attend(q, k, v) * sigmoid(gate)) @ tensors["o_proj.weight"].T


def qwen_forward(config, tensors, tokens):
    prefix = "model."
    if "text_config" in config:
        config, prefix = config["text_config"], "model.language_model."
    rope = config.get("rope_parameters", config)
    eps = config["rms_norm_eps"]
    x = tensors[prefix + "embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = prefix + "layers.%d." % i
        mine = {name[len(layer):].split(".", 1)[1]: value for name, value in tensors.items()
                if name.startswith(layer) and "_attn." in name}
        h = rms(x, 1 + tensors[layer + "input_layernorm.weight"], eps)
        if qwen_is_full(config, i):
            x = x + qwen_full_layer(config, mine, h, rope["rope_theta"],
                                    rope["partial_rotary_factor"])
        else:
            x = x + qwen_linear_layer(config, mine, h)
        h = rms(x, 1 + tensors[layer + "post_attention_layernorm.weight"], eps)
        if qwen_has_experts(config, i):
            x = x + qwen_experts(config, tensors, layer + "mlp.", h)
        else:
            x = x + swiglu(h, tensors, layer + "mlp.")
    head = prefix + "embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return rms(x, 1 + tensors[prefix + "norm.weight"], eps) @ tensors[head].T


# ---- falcon_h1, granitemoehybrid and bamba: Mamba-2 and attention ----

def hybrid_config(kind, model_class, **fields):
    common = {
        "architectures": [model_class], "model_type": kind, "attention_bias": False,
        "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
        "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 48,
        "mamba_chunk_size": 256, "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_head": 8,
        "mamba_d_state": 12, "mamba_expand": 2, "mamba_n_groups": 2, "mamba_n_heads": 8,
        "mamba_proj_bias": False, "max_position_embeddings": 2048, "num_attention_heads": 4,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "pad_token_id": 0,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
        "time_step_limit": [0.0, {"__float__": "Infinity"}], "use_cache": True,
        "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def falcon_h1_config(**fields):
    return hybrid_config("falcon_h1", "FalconH1ForCausalLM", **{
        "attention_in_multiplier": 1.0, "attention_out_multiplier": 1.0,
        "embedding_multiplier": 1.0, "key_multiplier": 1.0, "lm_head_multiplier": 1.0,
        "mamba_d_ssm": 64, "mamba_norm_before_gate": True, "mamba_rms_norm": False,
        "mlp_bias": False, "mlp_multipliers": [1.0, 1.0], "num_logits_to_keep": 1,
        "projectors_bias": False, "ssm_in_multiplier": 1.0,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "ssm_multipliers": [1.0, 1.0, 1.0, 1.0, 1.0], "ssm_out_multiplier": 1.0, **fields})


def granite_config(**fields):
    return hybrid_config("granitemoehybrid", "GraniteMoeHybridForCausalLM", **{
        "attention_multiplier": 0.3, "embedding_multiplier": 12.0, "intermediate_size": 16,
        "layer_types": ["mamba", "attention", "mamba"], "logits_scaling": 6.0,
        "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_local_experts": 5,
        "output_router_logits": False, "position_embedding_type": "nope",
        "residual_multiplier": 0.22, "rope_scaling": None, "rope_theta": 10000.0,
        "router_aux_loss_coef": 0.001, "shared_intermediate_size": 32,
        "tie_word_embeddings": True, **fields})


def bamba_config(**fields):
    return hybrid_config("bamba", "BambaForCausalLM", **{
        "attn_layer_indices": [1], "mlp_bias": False, "num_hidden_layers": 3,
        "num_logits_to_keep": 1, "z_loss_coefficient": 0.0,
        "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0,
                            "rope_type": "default"}, **fields})


def hybrid_inner(config):
    return config.get("mamba_d_ssm") or config["mamba_expand"] * config["hidden_size"]


def hybrid_has(config, i, kind):
    """Has layer i a memory, or attention? Falcon-H1's have both."""
    if config["model_type"] == "falcon_h1":
        return True
    if config["model_type"] == "bamba":
        return (i in config["attn_layer_indices"]) == (kind == "attention")
    full = {"attention": True, "full_attention": True, "mamba": False, "linear_attention": False}
    return full[config["layer_types"][i]] == (kind == "attention")


def hybrid_head_dim(config):
    return config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])


def hybrid_weights(draw, config):
    width, inner, count = config["hidden_size"], hybrid_inner(config), config["mamba_n_heads"]
    both = 2 * config["mamba_n_groups"] * config["mamba_d_state"]
    granite, size = config["model_type"] == "granitemoehybrid", hybrid_head_dim(config)
    tensors = {"model.embed_tokens.weight": draw.normal(VOCABULARY, width)}
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        tensors[layer + "input_layernorm.weight"] = draw.gain(width)
        norm = "post_attention_layernorm" if granite else "pre_ff_layernorm"
        tensors[layer + norm + ".weight"] = draw.gain(width)
        if hybrid_has(config, i, "mamba"):
            mamba2_mixer(draw, tensors, layer + "mamba.", width, inner, both, count,
                         config["mamba_d_conv"], config["mamba_proj_bias"],
                         config["mamba_conv_bias"], config.get("mamba_rms_norm", True))
        if hybrid_has(config, i, "attention"):
            prefix = layer + "self_attn."
            for letter, outputs in (("q", "num_attention_heads"), ("k", "num_key_value_heads"),
                                    ("v", "num_key_value_heads")):
                tensors[prefix + letter + "_proj.weight"] = draw.linear(
                    config[outputs] * size, width)
            tensors[prefix + "o_proj.weight"] = draw.linear(
                width, config["num_attention_heads"] * size)
        if not granite:
            tensors.update(swiglu_weights(draw, width, config["intermediate_size"],
                                          layer + "feed_forward."))
            continue
        shared, each = config["shared_intermediate_size"], config["intermediate_size"]
        tensors[layer + "shared_mlp.input_linear.weight"] = draw.linear(2 * shared, width)
        tensors[layer + "shared_mlp.output_linear.weight"] = draw.linear(width, shared)
        experts = config["num_local_experts"]
        if experts:
            prefix = layer + "block_sparse_moe."
            tensors[prefix + "router.layer.weight"] = draw.linear(experts, width)
            tensors[prefix + "input_linear.weight"] = np.stack(
                [draw.linear(2 * each, width) for _ in range(experts)])
            tensors[prefix + "output_linear.weight"] = np.stack(
                [draw.linear(width, each) for _ in range(experts)])
    tensors["model.norm.weight" if granite else "model.final_layernorm.weight"] = draw.gain(width)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def hybrid_memory(config, tensors, x):
    count, groups, eps = config["mamba_n_heads"], config["mamba_n_groups"], config["rms_norm_eps"]
    inner, state = hybrid_inner(config), groups * config["mamba_d_state"]
    limit = [float(bound["__float__"]) if isinstance(bound, dict) else bound
             for bound in config["time_step_limit"]]
    parts = [inner, inner, state, state, count]
    factors = np.repeat(config.get("ssm_multipliers", [1.0] * 5), parts)
    x = (x * config.get("ssm_in_multiplier", 1.0)) @ tensors["in_proj.weight"].T
    z, u, dt = np.split((x + tensors.get("in_proj.bias", 0.0)) * factors,
                        [inner, 2 * inner + 2 * state], 1)
    u = silu(convolve(u, tensors["conv1d.weight"], tensors.get("conv1d.bias", 0.0)))
    u, key, query = np.split(u, [inner, inner + state], 1)
    dt = np.clip(softplus(dt + tensors["dt_bias"]), *limit)
    u = heads(u, count)
    key, query = (np.repeat(heads(part, groups), count // groups, 1) for part in (key, query))
    decay = -dt * np.exp(tensors["A_log"])
    y = decay_and_add(query, key, dt[:, :, None] * u, decay[:, :, None])
    y = rows(y + tensors["D"][:, None] * u)
    if "norm.weight" not in tensors:
        y = y * silu(z)
    elif config.get("mamba_norm_before_gate", False):
        y = rows(rms(heads(y, groups), 1.0, eps)) * tensors["norm.weight"] * silu(z)
    else:
        y = rows(rms(heads(y * silu(z), groups), 1.0, eps)) * tensors["norm.weight"]
    return y @ tensors["out_proj.weight"].T + tensors.get("out_proj.bias", 0.0)


def hybrid_attention(config, tensors, x):
    count, stored = config["num_attention_heads"], config["num_key_value_heads"]
    rope, places = rope_of(config), np.arange(len(x))
    share = 0.5 if config["model_type"] == "bamba" else 1.0
    q, k, v = (heads(x @ tensors[letter + "_proj.weight"].T, count if letter == "q" else stored)
               for letter in "qkv")
    if config.get("position_embedding_type", "rope") == "rope":
        q, k = (rotate(part, rope["rope_theta"], places, share, config=config)
                for part in (q, k))
    scale = config.get("attention_multiplier", hybrid_head_dim(config) ** -0.5)
    y = attend(q, k * config.get("key_multiplier", 1.0), v, scale)
    return rows(y) @ tensors["o_proj.weight"].T


def halved_swiglu(x, both, down):
    gate, up = np.split(x @ both.T, 2, 1)
    return (silu(gate) * up) @ down.T


def granite_mlp(config, tensors, x):
    """One for all tokens, and the best few experts by softmax over these alone."""
    y = halved_swiglu(x, tensors["shared_mlp.input_linear.weight"],
                      tensors["shared_mlp.output_linear.weight"])
    if not config["num_local_experts"]:
        return y
    scores = x @ tensors["block_sparse_moe.router.layer.weight"].T
    least = np.sort(scores, 1)[:, -config["num_experts_per_tok"]]
    share = np.where(scores >= least[:, None], np.exp(scores), 0)
    share /= share.sum(1, keepdims=True)
    for i in range(config["num_local_experts"]):
        y = y + share[:, i:i + 1] * halved_swiglu(
            x, tensors["block_sparse_moe.input_linear.weight"][i],
            tensors["block_sparse_moe.output_linear.weight"][i])
    return y


def falcon_h1_mlp(config, tensors, x):
    gate, down = config.get("mlp_multipliers", [1.0, 1.0])
    y = silu(x @ tensors["feed_forward.gate_proj.weight"].T * gate)
    y = y * (x @ tensors["feed_forward.up_proj.weight"].T)
    return y @ tensors["feed_forward.down_proj.weight"].T * down


def hybrid_forward(config, tensors, tokens):
    eps, by = config["rms_norm_eps"], config.get("residual_multiplier", 1.0)
    granite = config["model_type"] == "granitemoehybrid"
    x = tensors["model.embed_tokens.weight"][tokens] * config.get("embedding_multiplier", 1.0)
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        mine = {name[len(layer):]: value for name, value in tensors.items()
                if name.startswith(layer)}
        parts = {part: {name[len(part):]: value for name, value in mine.items()
                        if name.startswith(part)} for part in ("mamba.", "self_attn.")}
        h = rms(x, mine["input_layernorm.weight"], eps)
        if parts["mamba."]:
            x = x + by * config.get("ssm_out_multiplier", 1.0) * hybrid_memory(
                config, parts["mamba."], h)
        if parts["self_attn."]:
            x = x + by * config.get("attention_out_multiplier", 1.0) * hybrid_attention(
                config, parts["self_attn."], h * config.get("attention_in_multiplier", 1.0))
        norm = "post_attention_layernorm" if granite else "pre_ff_layernorm"
        x = x + by * (granite_mlp if granite else falcon_h1_mlp)(
            config, mine, rms(x, mine[norm + ".weight"], eps))
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    norm = "model.norm.weight" if granite else "model.final_layernorm.weight"
    return rms(x, tensors[norm], eps) @ tensors[head].T * config.get(
        "lm_head_multiplier", 1.0) / config.get("logits_scaling", 1.0)


# ---- lfm2 ----

def lfm2_config(**fields):
    common = {
        "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2",
        "block_auto_adjust_ff_dim": True, "block_dim": 32, "block_ff_dim": 66,
        "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 16, "bos_token_id": 1,
        "conv_L_cache": 3, "conv_bias": False, "conv_dim": 32, "eos_token_id": 7,
        "full_attn_idxs": [1], "hidden_size": 32, "initializer_range": 0.02,
        "max_position_embeddings": 2048, "norm_eps": 1e-5, "num_attention_heads": 4,
        "num_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "pad_token_id": 0,
        "use_cache": True, "vocab_size": VOCABULARY,
    }
    if "rope_parameters" not in fields:
        common["rope_theta"] = 1000000.0
    return {**common, **fields}


def lfm2_inner(config):
    inner = config.get("block_ff_dim", config.get("intermediate_size"))
    if config["block_auto_adjust_ff_dim"]:
        inner = int(2 * inner / 3)
        if config["block_ffn_dim_multiplier"] is not None:
            of, inner = config["block_multiple_of"], int(
                config["block_ffn_dim_multiplier"] * inner)
            inner = of * ((inner + of - 1) // of)
    return inner


def lfm2_is_full(config, i):
    if config.get("layer_types") is not None:
        return config["layer_types"][i] == "full_attention"
    return i in config["full_attn_idxs"]


def lfm2_weights(draw, config):
    width, inner = config["hidden_size"], lfm2_inner(config)
    size = config.get("head_dim", width // config["num_attention_heads"])
    tensors = {"model.embed_tokens.weight": draw.normal(VOCABULARY, width)}
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        tensors[layer + "operator_norm.weight"] = draw.gain(width)
        tensors[layer + "ffn_norm.weight"] = draw.gain(width)
        tensors[layer + "feed_forward.w1.weight"] = draw.linear(inner, width)
        tensors[layer + "feed_forward.w3.weight"] = draw.linear(inner, width)
        tensors[layer + "feed_forward.w2.weight"] = draw.linear(width, inner)
        if lfm2_is_full(config, i):
            layer += "self_attn."
            rows_of = {"q": config["num_attention_heads"] * size,
                       "k": config["num_key_value_heads"] * size,
                       "v": config["num_key_value_heads"] * size}
            for letter, outputs in rows_of.items():
                tensors[layer + letter + "_proj.weight"] = draw.linear(outputs, width)
            tensors[layer + "out_proj.weight"] = draw.linear(width, rows_of["q"])
            tensors[layer + "q_layernorm.weight"] = draw.gain(size)
            tensors[layer + "k_layernorm.weight"] = draw.gain(size)
            continue
        layer += "conv."
        tensors[layer + "in_proj.weight"] = draw.linear(3 * width, width)
        tensors[layer + "conv.weight"] = draw.taps(width, config["conv_L_cache"])
        tensors[layer + "out_proj.weight"] = draw.linear(width, width)
        if config["conv_bias"]:
            tensors[layer + "in_proj.bias"] = draw.bias(3 * width)
            tensors[layer + "conv.bias"] = draw.bias(width)
            tensors[layer + "out_proj.bias"] = draw.bias(width)
    tensors["model.embedding_norm.weight"] = draw.gain(width)
    if not config.get("tie_embedding", config.get("tie_word_embeddings", True)):
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def lfm2_layer(config, tensors, x):
    eps = config["norm_eps"]
    if "conv.conv.weight" in tensors:
        b, c, u = np.split(x @ tensors["conv.in_proj.weight"].T +
                           tensors.get("conv.in_proj.bias", 0.0), 3, 1)
        y = c * convolve(b * u, tensors["conv.conv.weight"], tensors.get("conv.conv.bias", 0.0))
        return y @ tensors["conv.out_proj.weight"].T + tensors.get("conv.out_proj.bias", 0.0)
    count, stored = config["num_attention_heads"], config["num_key_value_heads"]
    theta, places = config.get("rope_parameters", config)["rope_theta"], np.arange(len(x))
    q, k, v = (heads(x @ tensors["self_attn.%s_proj.weight" % letter].T,
                     count if letter == "q" else stored) for letter in "qkv")
    q = rotate(rms(q, tensors["self_attn.q_layernorm.weight"], eps), theta, places)
    k = rotate(rms(k, tensors["self_attn.k_layernorm.weight"], eps), theta, places)
    y = attend(q, k, v)
    return rows(y) @ tensors["self_attn.out_proj.weight"].T


def lfm2_forward(config, tensors, tokens):
    eps, x = config["norm_eps"], tensors["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        mine = {name[len(layer):]: value for name, value in tensors.items()
                if name.startswith(layer)}
        x = x + lfm2_layer(config, mine, rms(x, mine["operator_norm.weight"], eps))
        h = rms(x, mine["ffn_norm.weight"], eps)
        y = silu(h @ mine["feed_forward.w1.weight"].T) * (h @ mine["feed_forward.w3.weight"].T)
        x = x + y @ mine["feed_forward.w2.weight"].T
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    return rms(x, tensors["model.embedding_norm.weight"], eps) @ head.T


# ---- olmo_hybrid ----

def olmo_hybrid_config(**fields):
    common = {
        "architectures": ["OlmoHybridForCausalLM"], "model_type": "olmo_hybrid",
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": None,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.02,
        "intermediate_size": 48, "layer_types": ["linear_attention", "full_attention"],
        "linear_a_log_max": 16.0, "linear_a_log_min": 0.0, "linear_allow_neg_eigval": True,
        "linear_conv_kernel_dim": 4, "linear_dt_init_floor": 0.0001, "linear_dt_max": 0.1,
        "linear_dt_min": 0.001, "linear_key_head_dim": 8, "linear_num_key_heads": 4,
        "linear_num_value_heads": 4, "linear_value_head_dim": 12,
        "max_position_embeddings": 2048, "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 4, "pad_token_id": 0, "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": None, "rope_type": "default"},
        "tie_word_embeddings": False, "use_cache": True, "vocab_size": VOCABULARY,
    }
    return {**common, **fields}


def olmo_hybrid_is_full(config, i):
    if config["layer_types"]:
        return config["layer_types"][i] == "full_attention"
    return i % 4 == 3 or (config["num_hidden_layers"] < 4 and i == config["num_hidden_layers"] - 1)


def olmo_hybrid_weights(draw, config):
    width, size = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    key, value = config["linear_key_head_dim"], config["linear_value_head_dim"]
    keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    tensors = {"model.embed_tokens.weight": draw.normal(VOCABULARY, width)}
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        tensors.update(swiglu_weights(draw, width, config["intermediate_size"], layer + "mlp."))
        if olmo_hybrid_is_full(config, i):
            tensors[layer + "post_attention_layernorm.weight"] = draw.gain(width)
            tensors[layer + "post_feedforward_layernorm.weight"] = draw.gain(width)
            layer += "self_attn."
            queries = config["num_attention_heads"] * size
            stored = config["num_key_value_heads"] * size
            tensors[layer + "q_proj.weight"] = draw.linear(queries, width)
            tensors[layer + "k_proj.weight"] = draw.linear(stored, width)
            tensors[layer + "v_proj.weight"] = draw.linear(stored, width)
            tensors[layer + "o_proj.weight"] = draw.linear(width, queries)
            tensors[layer + "q_norm.weight"] = draw.gain(queries)
            tensors[layer + "k_norm.weight"] = draw.gain(stored)
            continue
        tensors[layer + "attention_layer_norm.weight"] = draw.gain(width)
        tensors[layer + "feedforward_layer_norm.weight"] = draw.gain(width)
        layer += "linear_attn."
        for letter, outputs in (("q", keys * key), ("k", keys * key), ("v", values * value)):
            tensors[layer + letter + "_proj.weight"] = draw.linear(outputs, width)
            tensors[layer + letter + "_conv1d.weight"] = draw.taps(
                outputs, config["linear_conv_kernel_dim"])
        tensors[layer + "a_proj.weight"] = draw.linear(values, width)
        tensors[layer + "b_proj.weight"] = draw.linear(values, width)
        tensors[layer + "g_proj.weight"] = draw.linear(values * value, width)
        tensors[layer + "A_log"] = draw.uniform(-1.5, 0.5, values)
        tensors[layer + "dt_bias"] = draw.bias(values) - 0.5
        tensors[layer + "o_norm.weight"] = draw.gain(value)
        tensors[layer + "o_proj.weight"] = draw.linear(width, values * value)
    tensors["model.norm.weight"] = draw.gain(width)
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width, 2.0)
    return tensors


def olmo_hybrid_attention(config, tensors, x):
    eps, places = config["rms_norm_eps"], np.arange(len(x))
    theta = (config["rope_parameters"] or {}).get("rope_theta")
    q, k = (rms(x @ tensors[letter + "_proj.weight"].T, tensors[letter + "_norm.weight"], eps)
            for letter in "qk")
    q = heads(q, config["num_attention_heads"])
    k, v = (heads(part, config["num_key_value_heads"])
            for part in (k, x @ tensors["v_proj.weight"].T))
    if theta is not None:
        q, k = rotate(q, theta, places), rotate(k, theta, places)
    return rows(attend(q, k, v)) @ tensors["o_proj.weight"].T


def olmo_hybrid_forward(config, tensors, tokens):
    """The memories' layers are those of gated_deltanet, but for an eps of their own."""
    eps, x = config["rms_norm_eps"], tensors["model.embed_tokens.weight"][tokens]
    memory = {"num_heads": config["linear_num_key_heads"], "use_gate": True, "norm_eps": 1e-5,
              "num_v_heads": config["linear_num_value_heads"], "output_gate_activation": "silu",
              "head_dim": config["linear_key_head_dim"], "expand_v": 1,
              "allow_neg_eigval": config["linear_allow_neg_eigval"]}
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        mine = {name[len(layer):]: value for name, value in tensors.items()
                if name.startswith(layer)}
        parts = {name.split(".", 1)[1]: value for name, value in mine.items() if "_attn." in name}
        if olmo_hybrid_is_full(config, i):
            x = x + rms(olmo_hybrid_attention(config, parts, x),
                        mine["post_attention_layernorm.weight"], eps)
            x = x + rms(swiglu(x, mine, "mlp."), mine["post_feedforward_layernorm.weight"], eps)
            continue
        h = rms(x, mine["attention_layer_norm.weight"], eps)
        x = x + gated_deltanet_layer(memory, parts, h)
        x = x + swiglu(rms(x, mine["feedforward_layer_norm.weight"], eps), mine, "mlp.")
    head = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    return rms(x, tensors["model.norm.weight"], eps) @ tensors[head].T


# ---- Llama ----

def llama_config(**fields):
    """As Transformers 5 writes it; as SmolLM2 and others have it with what 4 wrote."""
    return {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 1, "dtype": "float32", "eos_token_id": 2, "head_dim": 12,
        "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.02,
        "intermediate_size": 48, "max_position_embeddings": 64, "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 3,
        "num_key_value_heads": 2, "pad_token_id": None, "pretraining_tp": 1,
        "rms_norm_eps": 1e-3, "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"},
        "tie_word_embeddings": False, "use_cache": True, "vocab_size": VOCABULARY, **fields}


def llama_old_config():
    config = llama_config(rope_theta=10000.0, rope_scaling=None, num_key_value_heads=4,
                          rms_norm_eps=1e-6, tie_word_embeddings=True, rope_interleaved=False,
                          torch_dtype="bfloat16", is_llama_config=True)
    for new in ("dtype", "head_dim", "rope_parameters"):
        del config[new]
    return config


def llama_head(config):
    return config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])


def llama_weights(draw, config):
    width = config["hidden_size"]
    inner = [llama_head(config) * config["num_%s_heads" % of]
             for of in ("attention", "key_value", "key_value")]
    tensors = {"model.embed_tokens.weight": draw.normal(VOCABULARY, width),
               "model.norm.weight": draw.gain(width)}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = draw.linear(VOCABULARY, width)
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        for letter, size in zip("qkv", inner):
            tensors[layer + "self_attn.%s_proj.weight" % letter] = draw.linear(size, width)
        tensors[layer + "self_attn.o_proj.weight"] = draw.linear(width, inner[0])
        tensors[layer + "input_layernorm.weight"] = draw.gain(width)
        tensors[layer + "post_attention_layernorm.weight"] = draw.gain(width)
        tensors.update(swiglu_weights(draw, width, config["intermediate_size"], layer + "mlp."))
    return tensors


def llama_forward(config, tensors, tokens):
    theta = rope_of(config)["rope_theta"]
    eps, places = config["rms_norm_eps"], np.arange(len(tokens))
    x = tensors["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = "model.layers.%d." % i
        h = rms(x, tensors[layer + "input_layernorm.weight"], eps)
        q, k, v = (heads(h @ tensors[layer + "self_attn.%s_proj.weight" % letter].T,
                         config["num_%s_heads" % of])
                   for letter, of in zip("qkv", ("attention", "key_value", "key_value")))
        y = attend(*(rotate(part, theta, places, config=config) for part in (q, k)), v)
        x = x + rows(y) @ tensors[layer + "self_attn.o_proj.weight"].T
        h = rms(x, tensors[layer + "post_attention_layernorm.weight"], eps)
        x = x + swiglu(h, tensors, layer + "mlp.")
    head = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    return rms(x, tensors["model.norm.weight"], eps) @ tensors[head + ".weight"].T


# ---- the table ----

class Model:
    """draw and forward make weights and logits; kept: the number type of the file; shards: files;
    originals: who else must give the same logits."""

    def __init__(self, config, draw, forward, originals, kept="F32", shards=1):
        self.config, self.draw, self.forward = config, draw, forward
        self.originals, self.kept, self.shards = originals, kept, shards


def fla_model(config, weights, layer, kept="F32", frame=fla_weights, more=()):
    return Model(config, lambda draw, config: frame(draw, config, weights),
                 lambda config, tensors, tokens: fla_forward(config, tensors, tokens, layer),
                 ("fla",) + more, kept)


def placed(layers, count, **fields):
    """Attention in these layers, as its configuration writes it."""
    return {"layers": layers, "num_heads": count, "num_kv_heads": count, "qkv_bias": False,
            "rope_theta": 10000.0, "window_size": None, **fields}


def gated_deltanet_model(kept="F32", **fields):
    config = fla_config("gated_deltanet", "GatedDeltaNetForCausalLM", **{
        "allow_neg_eigval": False, "conv_size": 4, "expand_v": 2.0, "head_dim": 8,
        "num_v_heads": None, "output_gate_activation": "swish", "use_gate": True,
        "use_short_conv": True, **fields})
    return fla_model(config, gated_deltanet_weights, gated_deltanet_layer, kept)


def gated_deltaproduct_model(kept="F32", **fields):
    config = fla_config("gated_deltaproduct", "GatedDeltaProductForCausalLM", **{
        "allow_neg_eigval": False, "conv_size": 4, "expand_v": 2.0, "head_dim": 8,
        "num_householder": 2, "use_forget_gate": True, "use_output_gate": True,
        "use_short_conv": True, **fields})
    return fla_model(config, gated_deltaproduct_weights, gated_deltaproduct_layer, kept)


def delta_net_model(kept="F32", **fields):
    config = fla_config("delta_net", "DeltaNetForCausalLM", **{
        "allow_neg_eigval": False, "conv_size": 4, "expand_k": 1.0, "expand_v": 1.0,
        "qk_activation": "silu", "qk_norm": "l2", "use_beta": True, "use_gate": False,
        "use_output_norm": True, "use_short_conv": True, **fields})
    return fla_model(config, delta_net_weights, delta_net_layer, kept)


def gla_model(kept="F16", **fields):
    config = fla_config("gla", "GLAForCausalLM", **{
        "clamp_min": None, "conv_size": 4, "elementwise_affine": True, "expand_k": 0.5,
        "expand_v": 1.0, "feature_map": None, "num_kv_heads": None, "use_gk": True,
        "use_gv": False, "use_output_gate": True, "use_short_conv": False,
        "intermediate_size": None, **fields})
    return fla_model(config, gla_weights, gla_layer, kept)


def retnet_model(kept="F16", **fields):
    config = fla_config("retnet", "RetNetForCausalLM", **{
        "conv_size": 4, "elementwise_affine": True, "expand_k": 1.0, "expand_v": 2.0,
        "feature_map": None, "hidden_ratio": 2, "num_kv_heads": None, "use_output_gate": True,
        "use_short_conv": False, **fields})
    return fla_model(config, retnet_weights, retnet_layer, kept)


def linear_attn_model(feature_map):
    config = fla_config(
        "linear_attn", "LinearAttentionForCausalLM", elementwise_affine=True, expand_k=1.0,
        expand_v=2.0, feature_map=feature_map, norm_feature_map=False, norm_k=False, norm_q=False,
        num_heads=4, num_kv_heads=2, tie_feature_map_qk=False, norm_eps=1e-4)
    return fla_model(config, linear_attn_weights, linear_attn_layer)


def hgrn2_model():
    config = fla_config(
        "hgrn2", "HGRN2ForCausalLM", conv_size=4, elementwise_affine=True, expand_ratio=16,
        norm_eps=1e-3, num_hidden_layers=3, use_lower_bound=True, use_short_conv=False)
    return fla_model(config, hgrn2_weights, hgrn2_layer, "BF16", hgrn2_all)


def kda_model(more=(), **fields):
    config = fla_config("kda", "KDAForCausalLM", **{
        "allow_neg_eigval": False, "conv_size": 4, "expand_v": 1.0, "head_dim": 12,
        "lower_bound": None, "num_v_heads": None, "safe_gate": False, "use_short_conv": True,
        **fields})
    return fla_model(config, kda_weights, kda_layer, more=more)


def preconditioned_model(kind, model_class, weights, layer, kept="F32", **fields):
    config = fla_config(kind, model_class, **{
        "allow_neg_eigval": False, "conv_size": 4, "expand_v": 1.0, "head_dim": 12,
        "log_atk_scale_init": -0.2, "num_v_heads": None, "squash_eps": 1e-6, "squash_x": 1.5,
        "use_short_conv": True, **fields})
    return fla_model(config, weights, layer, kept)


def precond_kda_model(kept="F32", **fields):
    return preconditioned_model("precond_kda", "PrecondKDAForCausalLM", precond_kda_weights,
                                precond_kda_layer, kept,
                                **{"lower_bound": None, "safe_gate": False, **fields})


def precond_gated_deltanet_model(kept="F32", **fields):
    return preconditioned_model(
        "precond_gated_deltanet", "PrecondGatedDeltaNetForCausalLM",
        precond_gated_deltanet_weights, precond_gated_deltanet_layer, kept,
        **{"use_gate": True, **fields})


def hgrn_model(kept="F32", **fields):
    config = fla_config("hgrn", "HGRNForCausalLM", **{
        "attn_mode": "fused_recurrent", "conv_size": 4, "elementwise_affine": True,
        "expand_ratio": 1, "use_lower_bound": True, "use_short_conv": False, **fields})
    del config["num_heads"]
    return fla_model(config, hgrn_weights, hgrn_layer, kept, hgrn_all)


def gsa_model(kept="F32", **fields):
    config = fla_config("gsa", "GSAForCausalLM", **{
        "clamp_max": None, "clamp_min": None, "conv_size": 4, "elementwise_affine": True,
        "expand_k": 1.0, "expand_v": 1.0, "feature_map": "swish", "gate_logit_normalizer": 8,
        "num_kv_heads": None, "num_slots": 12, "use_norm": True, "use_output_gate": False,
        "use_short_conv": False, **fields})
    return fla_model(config, gsa_weights, gsa_layer, kept)


def transformer_model(kept="F32", **fields):
    config = fla_config("transformer", "TransformerForCausalLM", **{
        "elementwise_affine": True, "num_kv_heads": None, "qk_norm": False, "qkv_bias": False,
        "rope_theta": 10000.0, "window_size": None, **fields})
    return fla_model(config, transformer_weights, transformer_layer, kept)


def rwkv6_model(kept="F32", **fields):
    return Model(rwkv6_fla_config(**fields), rwkv6_fla_weights, rwkv6_fla_forward, ("fla",), kept)


def samba_model(kept="F32", **fields):
    return Model(samba_config(**fields), samba_weights, samba_forward, ("fla",), kept)


def mamba_model(kept="F32", **fields):
    return Model(mamba_config(**fields), mamba_weights, mamba_forward, ("transformers",), kept)


def mamba2_model(kept="F32", originals=("transformers",), **fields):
    return Model(mamba2_config(**fields), mamba2_weights, mamba2_forward, originals, kept)


def ttt_model(kind, mamba, kept="F32", **fields):
    return Model(ttt_config(kind, mamba, **fields), ttt_weights, ttt_forward, ("ttt", "autograd"),
                 kept)


def qwen3_next_model(originals, shards, **fields):
    def draw(draw, config):
        return qwen_weights(draw, config, "model.", False)
    return Model(qwen3_next_config(**fields), draw, qwen_forward, originals, "BF16", shards)


def qwen3_5_moe_model():
    return Model(qwen3_5_moe_config(), qwen3_5_weights, qwen_forward, ("mlx",), "F16")


def qwen3_5_model():
    return Model(qwen3_5_config(), qwen3_5_weights, qwen_forward, ("transformers", "mlx"), "BF16")


def hybrid_model(config, kept="F32"):
    return Model(config, hybrid_weights, hybrid_forward, ("transformers",), kept)


def lfm2_model(kept="F32", **fields):
    return Model(lfm2_config(**fields), lfm2_weights, lfm2_forward, ("transformers",), kept)


def recurrent_gemma_model(kept="F32", **fields):
    return Model(recurrent_gemma_config(**fields), recurrent_gemma_weights,
                 recurrent_gemma_forward, ("transformers",), kept)


def jamba_model(kept="F32", **fields):
    return Model(jamba_config(**fields), jamba_weights, jamba_forward, ("transformers",), kept)


def olmo_hybrid_model(kept="F32", **fields):
    return Model(olmo_hybrid_config(**fields), olmo_hybrid_weights, olmo_hybrid_forward,
                 ("transformers",), kept)


MODELS = {
    "gated_deltanet": gated_deltanet_model(),
    "gated_deltanet-grouped": gated_deltanet_model(
        "BF16", num_v_heads=4, expand_v=1.5, allow_neg_eigval=True, norm_eps=1e-3),
    "gated_deltanet-ungated": gated_deltanet_model(
        use_gate=False, norm_eps=1e-5, tie_word_embeddings=True),
    "gated_deltanet-sigmoid": gated_deltanet_model(
        "F16", output_gate_activation="sigmoid", conv_size=3),
    "gated_deltaproduct": gated_deltaproduct_model(allow_neg_eigval=True, norm_eps=1e-3),
    "gated_deltaproduct-plain": gated_deltaproduct_model(
        "BF16", num_householder=3, use_forget_gate=False, use_output_gate=False,
        use_short_conv=False, expand_v=1.5),
    "gated_deltaproduct-single": gated_deltaproduct_model("F16", num_householder=1),
    "delta_net": delta_net_model(norm_eps=1e-5),
    "delta_net-gated": delta_net_model(
        expand_k=0.5, allow_neg_eigval=True, use_gate=True, norm_eps=1e-3),
    "delta_net-sum": delta_net_model("BF16", qk_norm="sum", qk_activation="elu", conv_size=3),
    "delta_net-plain": delta_net_model(
        "F16", qk_activation="identity", use_beta=False, use_short_conv=False),
    "gla": gla_model(),
    "gla-clamped": gla_model(
        clamp_min=-0.12, use_short_conv=True, use_output_gate=False, intermediate_size=64),
    "gla-shared": gla_model("F32", num_heads=4, num_kv_heads=2, share_conv_kernel=True,
                            intermediate_size=64),
    "retnet": retnet_model(),
    "retnet-shared": retnet_model("F32", num_heads=4, num_kv_heads=2),
    "linear_attn": linear_attn_model("elu"),
    "linear_attn-plain": linear_attn_model("identity"),
    "hgrn2": hgrn2_model(),
    "kda": kda_model(("mlx",)),
    "kda-grouped": kda_model(
        num_v_heads=4, expand_v=1.5, head_dim=8, allow_neg_eigval=True, safe_gate=True,
        lower_bound=-5.0, norm_eps=1e-3),
    "precond_kda": precond_kda_model(),
    "precond_kda-safe": precond_kda_model(
        "BF16", lower_bound=-5.0, safe_gate=True, allow_neg_eigval=True, expand_v=1.5, head_dim=8,
        norm_eps=1e-3, use_short_conv=False),
    "precond_gated_deltanet": precond_gated_deltanet_model(
        "BF16", allow_neg_eigval=True, norm_eps=1e-3),
    "precond_gated_deltanet-ungated": precond_gated_deltanet_model(
        "F16", use_gate=False, expand_v=1.5, head_dim=8, use_short_conv=False),
    "hgrn": hgrn_model("BF16", norm_eps=1e-2, num_hidden_layers=3),
    "hgrn-free": hgrn_model("F16", expand_ratio=1.5, use_lower_bound=False),
    "gsa": gsa_model(norm_eps=1e-3),
    "gsa-shared": gsa_model(
        "BF16", num_heads=4, num_kv_heads=2, num_slots=None, expand_k=1.5, feature_map="relu",
        gate_logit_normalizer=16),
    "transformer": transformer_model("BF16", num_kv_heads=1, qkv_bias=True, rope_theta=500.0),
    "transformer-window": transformer_model(
        "F16", num_heads=4, window_size=5, norm_eps=1e-3, tie_word_embeddings=True),
    "gla-attended": gla_model(
        num_heads=4, num_kv_heads=2, intermediate_size=64, attn=placed([1], 2, qkv_bias=True)),
    "kda-attended": kda_model(attn=placed([0], 4, num_kv_heads=1, window_size=4)),
    "hgrn-attended": hgrn_model(
        "BF16", num_hidden_layers=3, attn=placed([0, 2], 2, rope_theta=500.0)),
    "gated_deltanet-attended": gated_deltanet_model(
        "F16", num_v_heads=4, norm_eps=1e-3, attn=placed([1], 4, window_size=3)),
    "samba": samba_model("F16"),
    "samba-biased": samba_model(
        "BF16", use_bias=True, use_conv_bias=False, norm_eps=1e-3, tie_word_embeddings=True,
        attn=placed([0], 2, qkv_bias=True)),
    "rwkv7": Model(rwkv7_config(), rwkv7_weights, rwkv7_forward, ("fla", "mlx")),
    "rwkv7-author": Model({}, rwkv7_authors_weights, rwkv7_authors_forward, ("rwkv",), "BF16"),
    "rwkv6-author": Model({}, rwkv6_weights, rwkv6_forward, ("rwkv",), "F16"),
    "rwkv6": rwkv6_model(),
    "rwkv6-narrow": rwkv6_model(
        "BF16", expand_k=0.5, expand_v=1.5, norm_eps=1e-3, intermediate_size=None, fuse_norm=False),
    "rwkv6-plain": rwkv6_model(
        "F16", norm_first=False, norm_bias=False, tie_word_embeddings=True, norm_eps=1e-4),
    "rwkv4": Model(rwkv4_config(), rwkv4_weights, rwkv4_forward, ("transformers",)),
    "rwkv4-tied": Model(
        rwkv4_config(tie_word_embeddings=True, intermediate_size=None, attention_hidden_size=None),
        rwkv4_weights, rwkv4_forward, ("transformers",), "BF16"),
    "rwkv4-author": Model({}, rwkv4_authors_weights, rwkv4_authors_forward, ("rwkv",), "F16"),
    "mamba": mamba_model(),
    "mamba-biased": mamba_model(
        "BF16", use_bias=True, use_conv_bias=False, tie_word_embeddings=False,
        hidden_size=28, intermediate_size=84, expand=3, layer_norm_epsilon=1e-3, conv_kernel=3),
    "falcon_mamba": mamba_model(
        "F16", architectures=["FalconMambaForCausalLM"], model_type="falcon_mamba",
        mixer_rms_eps=1e-3, tie_word_embeddings=False, intermediate_size=96, expand=3),
    "mamba2": mamba2_model(originals=("transformers", "mlx")),
    "mamba2-grouped": mamba2_model(
        "BF16", n_groups=2, time_step_limit=[0.2, 0.9], tie_word_embeddings=False,
        layer_norm_epsilon=1e-3),
    "mamba2-unbiased": mamba2_model(use_conv_bias=False, norm_before_gate=True),
    "mamba2-biased": mamba2_model(use_bias=True, n_groups=2),
    "mamba2-fla": Model(
        mamba2_fla_config(norm_eps=1e-3),
        lambda draw, config: mamba2_weights(draw, mamba2_fields(config)),
        lambda config, tensors, tokens: mamba2_forward(mamba2_fields(config), tensors, tokens),
        ("fla",), "F16"),
    "mamba2-author": Model(mamba2_authors_config(), mamba2_authors_weights, mamba2_authors_forward,
                           ("fla",), "F16"),
    "ttt-linear": ttt_model("linear", False),
    "ttt-linear-mamba": ttt_model("linear", True, mini_batch_size=8, rms_norm_eps=1e-3),
    "ttt-mlp": ttt_model("mlp", False, mini_batch_size=8),
    "ttt-mlp-mamba": ttt_model("mlp", True, "BF16", ttt_base_lr=1.0),
    "llama": Model(llama_config(), llama_weights, llama_forward, ("transformers",)),
    "llama-tied": Model(llama_old_config(), llama_weights, llama_forward, ("transformers",),
                        "BF16"),
    "llama-far": Model(llama_config(rope_parameters={
        "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 0.3,
        "original_max_position_embeddings": 64, "rope_theta": 500.0, "rope_type": "llama3"},
        num_hidden_layers=2), llama_weights, llama_forward, ("transformers",), "F16"),
    "llama-yarn": Model(llama_config(
        head_dim=16, num_hidden_layers=1, rope_parameters={
            "attention_factor": 0.9, "beta_fast": 2.0, "beta_slow": 0.125, "factor": 4.0,
            "rope_theta": 300.0, "rope_type": "yarn"}), llama_weights, llama_forward,
        ("transformers",), "BF16"),
    "llama-linear": Model(llama_config(
        num_hidden_layers=1, rope_parameters={
            "factor": 2.5, "rope_theta": 500.0, "rope_type": "linear"}),
        llama_weights, llama_forward, ("transformers",), "BF16"),
    "qwen3_next": qwen3_next_model(("transformers",), 2),
    "qwen3_next-experts": qwen3_next_model(
        ("transformers", "mlx"), 3, mlp_only_layers=[1], rms_norm_eps=1e-3,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        rope_parameters={"partial_rotary_factor": 0.5, "rope_theta": 500.0,
                         "rope_type": "default"}),
    "qwen3_5": qwen3_5_model(),
    "qwen3_5_moe": qwen3_5_moe_model(),
    "falcon_h1": hybrid_model(falcon_h1_config(
        attention_in_multiplier=0.8, attention_out_multiplier=0.9375, head_dim=12,
        embedding_multiplier=5.656854249492381, key_multiplier=0.390625, lm_head_multiplier=0.3,
        mamba_norm_before_gate=False, mlp_multipliers=[0.8838834764831844, 0.5859375],
        rope_parameters={"rope_theta": 1e11, "rope_type": "default"}, ssm_in_multiplier=1.25,
        ssm_multipliers=[0.7, 0.5, 0.35355339059327373, 0.6, 1.3],
        ssm_out_multiplier=0.23570226039551587)),
    "falcon_h1-normed": hybrid_model(falcon_h1_config(
        embedding_multiplier=3.0, mamba_d_ssm=48, mamba_n_heads=6, mamba_rms_norm=True,
        rms_norm_eps=1e-3, ssm_out_multiplier=0.7, tie_word_embeddings=True,
        time_step_limit=[0.2, 0.9]), "BF16"),
    "falcon_h1-biased": hybrid_model(falcon_h1_config(
        embedding_multiplier=0.3, key_multiplier=1.7, mamba_conv_bias=False, mamba_d_conv=3,
        mamba_d_ssm=None, mamba_norm_before_gate=False, mamba_proj_bias=True,
        mamba_rms_norm=True, num_key_value_heads=4, projectors_bias=True, ssm_in_multiplier=0.6,
        ssm_multipliers=[1.3, 0.9, 1.1, 0.8, 0.7], ssm_out_multiplier=1.3)),
    "granitemoehybrid": hybrid_model(granite_config()),
    "granitemoehybrid-dense": hybrid_model(granite_config(
        layer_types=["linear_attention", "full_attention"], mamba_n_groups=1,
        mamba_proj_bias=True, num_experts_per_tok=0, num_hidden_layers=2, num_local_experts=0,
        position_embedding_type="rope", rms_norm_eps=1e-3, rope_theta=500.0,
        tie_word_embeddings=False), "BF16"),
    "bamba": hybrid_model(bamba_config(), "F16"),
    "bamba-yarn": hybrid_model(bamba_config(
        head_dim=16, rope_parameters={
            "factor": 8.0, "original_max_position_embeddings": 512, "partial_rotary_factor": 0.5,
            "rope_theta": 10000.0, "rope_type": "yarn"}), "BF16"),
    "jamba": jamba_model(),
    "jamba-dense": jamba_model(
        "BF16", attn_layer_offset=0, attn_layer_period=2, mamba_conv_bias=False, mamba_d_conv=3,
        mamba_dt_rank="auto", mamba_expand=1, mamba_proj_bias=True, num_experts=1,
        num_hidden_layers=3, num_key_value_heads=4, rms_norm_eps=1e-3, tie_word_embeddings=True),
    "jamba-plain": jamba_model("F16", num_experts=1, num_hidden_layers=2),
    "recurrent_gemma": recurrent_gemma_model(),
    "recurrent_gemma-biased": recurrent_gemma_model(
        "BF16", attention_bias=True, attention_window_size=5,
        block_types=["attention", "recurrent"], conv1d_width=3, hidden_size=40,
        intermediate_size=50, logits_soft_cap=10.0, lru_width=None, num_attention_heads=5,
        num_hidden_layers=3, num_key_value_heads=None, rms_norm_eps=1e-3,
        rope_parameters={"partial_rotary_factor": 0.75, "rope_theta": 500.0,
                         "rope_type": "default"}, tie_word_embeddings=False),
    "lfm2": lfm2_model(),
    "lfm2-biased": lfm2_model(
        "BF16", block_auto_adjust_ff_dim=False, block_ff_dim=40, conv_L_cache=4, conv_bias=True,
        head_dim=12, layer_types=["full_attention", "conv", "conv"], norm_eps=1e-3,
        rope_parameters={"rope_theta": 500.0, "rope_type": "default"},
        tie_word_embeddings=False),
    "olmo_hybrid": olmo_hybrid_model(),
    "olmo_hybrid-turned": olmo_hybrid_model(
        "BF16", layer_types=None, linear_allow_neg_eigval=False, linear_conv_kernel_dim=3,
        linear_num_key_heads=2, num_hidden_layers=3, num_key_value_heads=2, rms_norm_eps=1e-3,
        rope_parameters={"rope_theta": 500.0, "rope_type": "default"}),
}

# Where the draw by the name alone gives a model that multiplies rounding (a key or a read close to
# zero, then divided by its length), the draw by another name.
SEEDS = {"gated_deltanet": 8, "gated_deltanet-ungated": 2, "delta_net-gated": 3,
         "gated_deltanet-sigmoid": 2, "falcon_mamba": 2, "mamba2-grouped": 3, "mamba2-author": 3,
         "rwkv7-author": 2, "bamba": 4, "bamba-yarn": 5, "jamba": 4, "falcon_h1-biased": 5,
         "lfm2-biased": 6, "olmo_hybrid": 10, "olmo_hybrid-turned": 2, "precond_gated_deltanet": 3,
         "transformer-window": 5, "rwkv6-narrow": 5,
         "gated_deltanet-attended": 4, "samba-biased": 2}


# ---- files ----

def to_bits(value, kept):
    """The bytes of an array as the file keeps them."""
    value = np.ascontiguousarray(value, "<f4")
    if kept == "F16":
        return value.astype("<f2").tobytes()
    if kept == "BF16":   # to the nearest, ties to even
        bits = value.view("<u4").astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
    return value.tobytes()


def from_bits(data, kept, shape):
    if kept == "BF16":
        value = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    else:
        value = np.frombuffer(data, "<f2" if kept == "F16" else "<f4")
    return value.astype(np.float64).reshape(shape)


def kept_as(name, kept):
    """The three small tensors that stay in float32 in files of half the width."""
    return "F32" if name.rsplit(".", 1)[-1] in ("A_log", "dt_bias", "D") else kept


def safetensors(tensors, kept):
    """The bytes of a file: its header's length, the header, the data in the order of the header."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name in sorted(tensors):
        mine = to_bits(tensors[name], kept_as(name, kept))
        header[name] = {"dtype": kept_as(name, kept), "shape": list(tensors[name].shape),
                        "data_offsets": [len(data), len(data) + len(mine)]}
        data += mine
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def rounding(model, tensors, tokens, logits):
    """How far the logits move when each weight moves by up to half a unit of its last place."""
    draw, worst = Draw("rounding"), 0.0
    for _ in range(3):
        moved = {key: value * (1 + draw.uniform(-1, 1, *value.shape) * 2.0**-24)
                 for key, value in tensors.items()}
        apart = np.abs(model.forward(model.config, moved, tokens) - logits).max()
        worst = max(worst, float(apart / logits.std()))
    return worst


def files_of(name, model):
    """What the folder holds, as {file: bytes}; the logits in float64; and what rounding does."""
    draw = Draw("%s.%d" % (name, SEEDS[name]) if name in SEEDS else name)
    tensors = model.draw(draw, model.config)
    tokens = draw.integers(TOKENS) % model.config.get("vocab_size", VOCABULARY)
    exact = {key: from_bits(to_bits(value, kept_as(key, model.kept)), kept_as(key, model.kept),
                            value.shape) for key, value in tensors.items()}
    logits = model.forward(model.config, exact, tokens)
    files = {"tokens.txt": " ".join(str(token) for token in tokens).encode() + b"\n",
             "logits.f32": logits.astype("<f4").tobytes()}
    if model.config:
        files["config.json"] = json.dumps(model.config, indent=2, sort_keys=True).encode() + b"\n"
    floor = rounding(model, exact, tokens, logits)
    if model.shards == 1:
        files["model.safetensors"] = safetensors(tensors, model.kept)
        return files, logits, floor
    names, where, size = sorted(tensors), {}, 0
    for i in range(model.shards):
        part = names[i * len(names) // model.shards:(i + 1) * len(names) // model.shards]
        file = "model-%05d-of-%05d.safetensors" % (i + 1, model.shards)
        files[file] = safetensors({key: tensors[key] for key in part}, model.kept)
        where.update({key: file for key in part})
        size += sum(len(to_bits(tensors[key], kept_as(key, model.kept))) for key in part)
    index = {"metadata": {"total_size": size}, "weight_map": where}
    files["model.safetensors.index.json"] = json.dumps(index, indent=2, sort_keys=True).encode()
    return files, logits, floor


# ---- the originals: each reads the folder and returns logits ----

class Absent(Exception):
    """A package is not installed."""


def prepare_torch():
    # Triton's interpreter wants to be chosen before Triton is imported
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        import torch
    except ImportError as reason:
        raise Absent("torch") from reason
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return torch


def load_transformers(model_class, folder, torch, unused=()):
    model, report = model_class.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True)
    assert not report["missing_keys"] and not report["mismatched_keys"], report
    assert all(key.startswith(unused) for key in report["unexpected_keys"]), report
    return model.eval()


def from_transformers(folder, config, tokens):
    torch = prepare_torch()
    sys.modules["fla"] = None   # it would take fla's kernels instead of its own sums
    try:
        import transformers
    except ImportError as reason:
        raise Absent("transformers") from reason
    transformers.logging.set_verbosity_error()
    model = {"mamba": "MambaForCausalLM", "falcon_mamba": "FalconMambaForCausalLM",
             "mamba2": "Mamba2ForCausalLM", "qwen3_next": "Qwen3NextForCausalLM",
             "qwen3_5": "Qwen3_5ForCausalLM", "falcon_h1": "FalconH1ForCausalLM",
             "granitemoehybrid": "GraniteMoeHybridForCausalLM", "bamba": "BambaForCausalLM",
             "lfm2": "Lfm2ForCausalLM", "olmo_hybrid": "OlmoHybridForCausalLM",
             "recurrent_gemma": "RecurrentGemmaForCausalLM",
             "rwkv": "RwkvForCausalLM", "llama": "LlamaForCausalLM",
             "jamba": "JambaForCausalLM"}[config["model_type"]]
    model = load_transformers(getattr(transformers, model), folder, torch,
                              ("model.visual.", "mtp."))
    return model(torch.tensor(tokens)[None], use_cache=False).logits[0].numpy()


def put_attention(torch, module):
    """Its softmax attention is flash_attn's, which needs a GPU; PyTorch's in its place."""
    def attention(q, k, v, causal, window_size):
        assert causal
        apart = torch.arange(q.shape[1])[:, None] - torch.arange(k.shape[1])
        seen = (apart >= 0) & ((apart <= window_size[0]) | (window_size[0] < 0))
        return torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in (q, k, v)), attn_mask=seen,
            enable_gqa=True).transpose(1, 2)

    module.flash_attn_func = attention


def from_fla(folder, config, tokens):
    torch = prepare_torch()
    try:
        from triton.runtime import autotuner
        # the interpreter has no clock to tune by: the first configuration will do
        autotuner.Autotuner._bench = lambda self, *arguments, **options: [1.0, 1.0, 1.0]
        import fla.layers.attn
        import fla.models
    except ImportError as reason:
        raise Absent("fla") from reason
    put_attention(torch, fla.layers.attn)
    if "ssm_cfg" in config:   # it reads the authors' names, but not their fields
        from safetensors.torch import load_file
        fields = mamba2_fields(config)
        fields["norm_eps"] = fields.pop("layer_norm_epsilon")
        fields["dt_limit"] = fields.pop("time_step_limit")
        model = fla.models.Mamba2ForCausalLM(fla.models.Mamba2Config(**fields)).eval()
        model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
    else:
        model = load_transformers(getattr(fla.models, config["architectures"][0]), folder, torch)
    return model(torch.tensor(tokens)[None], use_cache=False).logits[0].numpy()


def import_mlx(name):
    """A model's module of mlx-lm, without what the package's own start imports."""
    import importlib
    import importlib.util
    os.environ["MLX_DISABLE_COMPILE"] = "1"   # otherwise mlx starts a compiler
    found = importlib.util.find_spec("mlx_lm")
    if found is None or importlib.util.find_spec("mlx.core") is None:
        raise Absent("mlx")
    root = list(found.submodule_search_locations)[0]
    for package, folder in (("mlx_lm", root), ("mlx_lm.models", os.path.join(root, "models"))):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [folder]
    return importlib.import_module("mlx_lm.models." + name)


def kda_as_kimi(config, weights, mlx):
    """mlx-lm knows the layer as Kimi-Linear's, in that model's frame and with its names."""
    count, width = config["num_hidden_layers"], config["hidden_size"]
    size = config["head_dim"]
    arguments = dict(
        model_type="kimi_linear", vocab_size=config["vocab_size"], hidden_size=width,
        num_hidden_layers=count, num_attention_heads=config["num_heads"],
        num_key_value_heads=config["num_heads"], intermediate_size=config["intermediate_size"],
        head_dim=size, rope_theta=10000.0, rms_norm_eps=config["norm_eps"], num_experts=0,
        linear_attn_config={"kda_layers": list(range(1, count + 1)), "full_attn_layers": [],
                            "num_heads": config["num_heads"], "head_dim": size,
                            "short_conv_kernel_size": config["conv_size"]},
        model_max_length=2048, moe_intermediate_size=8, kv_lora_rank=8,
        tie_word_embeddings=False)
    renamed, biases = {}, {}
    for name, value in weights.items():
        for old, new in (("model.embeddings", "model.embed_tokens"), (".attn.", ".self_attn."),
                         ("attn_norm", "input_layernorm"),
                         ("mlp_norm", "post_attention_layernorm"), ("f_proj.0", "f_a_proj"),
                         ("f_proj.1", "f_b_proj"), ("g_proj.0", "g_a_proj"),
                         ("g_proj.1", "g_b_proj")):
            name = name.replace(old, new)
        if name.endswith("A_log"):
            value = value.reshape(1, 1, -1, 1)
        (biases if name.endswith("g_b_proj.bias") else renamed)[name] = value
    return arguments, renamed, biases


def from_mlx(folder, config, tokens):
    kind = {"kda": "kimi_linear"}.get(config["model_type"], config["model_type"])
    module = import_mlx(kind)
    import mlx.core as mlx
    mlx.set_default_device(mlx.cpu)
    weights = {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            weights.update(mlx.load(os.path.join(folder, file)))
    weights = {name: value.astype(mlx.float32) for name, value in weights.items()}
    biases = {}
    if kind == "kimi_linear":
        config, weights, biases = kda_as_kimi(config, weights, mlx)
    if kind == "mamba2":   # a field of its own
        config = {**config, "intermediate_size": config["expand"] * config["hidden_size"]}
    if kind == "qwen3_next":   # and the fields of Transformers 4
        config = {**config, **config["rope_parameters"], "full_attention_interval": 2}
    model = module.Model(module.ModelArgs.from_dict(config))
    if kind == "kimi_linear":
        model.model.attn_idx = 0   # it expects one softmax layer at least
    weights = model.sanitize(weights)
    model.load_weights(list(weights.items()), strict=True)
    model.eval()
    for name, value in biases.items():   # Kimi's own projection has no bias
        model.model.layers[int(name.split(".")[2])].self_attn.g_b_proj["bias"] = value
    if kind == "rwkv7":   # it has heads of 64 and the eps of these heads in its code
        for layer in model.model.layers:
            layer.attn.g_norm.eps = config["head_dim"] * config["norm_eps"]
    logits = model(mlx.array([int(token) for token in tokens])[None])
    return np.array(logits.astype(mlx.float32))[0]


def from_rwkv(folder, config, tokens):
    """The author's own package; it reads PyTorch's files only, and another module each time."""
    torch = prepare_torch()
    seven = "rwkv7" in folder
    os.environ.update(RWKV_V7_ON="1" if seven else "0", RWKV_JIT_ON="0", RWKV_CUDA_ON="0")
    sys.modules.pop("rwkv.model", None)
    try:
        import rwkv.model
        from safetensors.torch import load_file
    except ImportError as reason:
        raise Absent(reason.name) from reason
    with tempfile.TemporaryDirectory() as place:
        tensors = load_file(os.path.join(folder, "model.safetensors"))
        if not seven:   # it norms rows of the embedding as they are stored, in half precision
            tensors = {name: tensor.float() for name, tensor in tensors.items()}
        torch.save(tensors, os.path.join(place, "model.pth"))
        model = rwkv.model.RWKV(model=os.path.join(place, "model"), strategy="cpu fp32")
    return model.forward(list(tokens), None, full_output=True)[0].numpy()


def from_ttt(folder, config, tokens):
    """The authors' blocks, one after another; the frame around them is a table and a norm."""
    torch = prepare_torch()
    try:
        import ttt
        from safetensors.torch import load_file
    except ImportError as reason:
        raise Absent(reason.name) from reason
    tensors = {name: tensor.float() for name, tensor in
               load_file(os.path.join(folder, "model.safetensors")).items()}
    config = types.SimpleNamespace(**config)
    modules = [("layers.%d." % i, ttt.Block(config, i)) for i in range(config.num_hidden_layers)]
    modules.append(("norm.", ttt.RMSNorm(config.hidden_size, config.rms_norm_eps)))
    x = tensors["model.embed_tokens.weight"][torch.tensor(tokens)][None]
    for name, module in modules:
        prefix = "model." + name
        module.load_state_dict({key[len(prefix):]: tensor for key, tensor in tensors.items()
                                if key.startswith(prefix)})
        places = {} if name == "norm." else {"position_ids": torch.arange(len(tokens))[None]}
        x = module.eval()(x, **places)
    return (x[0] @ tensors["model.embed_tokens.weight"].T).numpy()


def from_autograd(folder, config, tokens):
    """TTT, a mini-batch at a time: the inner loss is differentiated by PyTorch, and the weights
    that each token reads with are formed by sums under a triangle."""
    torch = prepare_torch()
    try:
        from safetensors.torch import load_file
    except ImportError as reason:
        raise Absent("safetensors") from reason
    F = torch.nn.functional
    tensors = {name: tensor.float() for name, tensor in
               load_file(os.path.join(folder, "model.safetensors")).items()}
    count, width = config["num_attention_heads"], config["hidden_size"]
    size, batch, eps = width // count, config["mini_batch_size"], config["rms_norm_eps"]

    def conv_on(x, name):
        padded = F.pad(x.T, (config["conv_kernel"] - 1, 0))
        return F.conv1d(padded[None], tensors[name + ".weight"], tensors[name + ".bias"],
                        groups=width)[0].T

    def split(x):
        return x.view(-1, count, size).transpose(0, 1)   # [heads, tokens, size]

    def rotated(x):   # a pair of neighbours is a complex number
        angle = (torch.arange(x.shape[1]) % batch)[:, None] * config["rope_theta"] ** (
            -torch.arange(0, size, 2) / size)
        pairs = torch.view_as_complex(x.reshape(count, -1, size // 2, 2).contiguous())
        turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle))
        return turned.reshape(x.shape)

    def block(h, prefix):
        mine = {name[len(prefix):]: value for name, value in tensors.items()
                if name.startswith(prefix)}

        def norm(x):
            y = F.layer_norm(x, (size,), eps=1e-6)
            return y * mine["ttt_norm_weight"][:, None] + mine["ttt_norm_bias"][:, None]

        q = F.linear(h, mine["q_proj.weight"])
        if config["share_qk"]:
            q, k = conv_on(q, prefix + "conv_q"), conv_on(q, prefix + "conv_k")
        else:
            k = F.linear(h, mine["k_proj.weight"])
        q, k, v = rotated(split(q)), rotated(split(k)), split(F.linear(h, mine["v_proj.weight"]))
        rate = torch.einsum("tc,hc->ht", h, mine["learnable_ttt_lr_weight"][:, 0])
        rate = torch.sigmoid(rate + mine["learnable_ttt_lr_bias"]) * config["ttt_base_lr"] / size
        scale = (1 / torch.arange(1, batch + 1) + mine["learnable_token_idx"]).clamp(min=0)
        depth = 1 if config["ttt_layer_type"] == "linear" else 2
        layers = [(mine["W%d" % n], mine["b%d" % n]) for n in range(1, depth + 1)]
        out = []
        for start in range(0, len(h), batch):
            part = slice(start, min(start + batch, len(h)))
            read, seen, wanted = q[:, part], k[:, part], v[:, part] - k[:, part]
            inputs, before = [], []
            with torch.enable_grad():
                u = seen
                for n, (w, b) in enumerate(layers):
                    inputs.append(F.gelu(u, approximate="tanh") if n else u)
                    u = (inputs[-1] @ w + b).requires_grad_()
                    before.append(u)
                loss = 0.5 * (norm(u) - wanted).square().sum()
                slopes = torch.autograd.grad(loss, before)
            inputs = [u.detach() for u in inputs]
            step = torch.tril(scale[:read.shape[1], None] * rate[:, None, part])
            z = read
            for n, (w, b) in enumerate(layers):
                z = F.gelu(z, approximate="tanh") if n else z
                z = z @ w + b - (step * (z @ inputs[n].mT + 1)) @ slopes[n]
            out.append(read + norm(z))
            last = step[:, -1, :, None]
            layers = [(w - (last * u).mT @ s, b - (last * s).sum(1, keepdim=True))
                      for (w, b), u, s in zip(layers, inputs, slopes)]
        y = torch.cat(out, 1).transpose(0, 1).reshape(-1, width)
        y = F.layer_norm(y, (width,), mine["post_norm.weight"], mine["post_norm.bias"], 1e-6)
        if config["use_gate"]:
            y = y * F.gelu(F.linear(h, mine["g_proj.weight"]), approximate="tanh")
        return F.linear(y, mine["o_proj.weight"])

    def normed(x, name):
        return F.rms_norm(x, (width,), tensors[name + ".weight"], eps)

    x = tensors["model.embed_tokens.weight"][torch.tensor(tokens)]
    for i in range(config["num_hidden_layers"]):
        prefix = "model.layers.%d." % i
        if config["pre_conv"]:
            x = x + conv_on(normed(x, prefix + "conv.norm"), prefix + "conv.conv")
        x = x + block(normed(x, prefix + "seq_norm"), prefix + "seq_modeling_block.")
        h = normed(x, prefix + "ffn_norm")
        gate, up, down = (tensors[prefix + "mlp.%s_proj.weight" % word]
                          for word in ("gate", "up", "down"))
        x = x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)
    return F.linear(normed(x, "model.norm"), tensors["model.embed_tokens.weight"]).numpy()


ORIGINALS = {"transformers": from_transformers, "fla": from_fla, "mlx": from_mlx, "rwkv": from_rwkv,
             "ttt": from_ttt, "autograd": from_autograd}


# ---- the run ----

def ask(original, name):
    """The logits of an original, from a process of its own: in one process, one of them puts parts
    of itself into another."""
    with tempfile.TemporaryDirectory() as place:
        file = os.path.join(place, "answer")
        ended = subprocess.run([sys.executable, "-B", __file__, "--ask", original, name, file],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if not os.path.exists(file):
            raise RuntimeError(ended.stdout.decode())
        with open(file, "rb") as stream:
            data = stream.read()
    if data.startswith(b"absent "):
        raise Absent(data[7:].decode())
    return np.frombuffer(data, "<f4").reshape(-1, VOCABULARY)


def answer(original, name, file):
    """The other side of ask()."""
    model, folder = MODELS[name], os.path.join(FOLDER, name)
    with open(os.path.join(folder, "tokens.txt"), encoding="ascii") as stream:
        tokens = [int(token) for token in stream.read().split()]
    try:
        data = ORIGINALS[original](folder, model.config, tokens).astype("<f4").tobytes()
    except Absent as package:
        data = ("absent %s" % package).encode()
    with open(file, "wb") as stream:
        stream.write(data)


def make(name, check):
    """Writes or checks one folder; returns its line of the table and whether all is well."""
    model, folder = MODELS[name], os.path.join(FOLDER, name)
    files, logits, floor = files_of(name, model)
    well, words = True, []
    if check:
        stored = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        differ = sorted(stored ^ set(files))
        for file in sorted(stored & set(files)):
            with open(os.path.join(folder, file), "rb") as stream:
                if stream.read() != files[file]:
                    differ.append(file)
        well = not differ
        words.append("differ: " + " ".join(differ) if differ else "same")
    else:
        os.makedirs(folder, exist_ok=True)
        for file in set(os.listdir(folder)) - set(files):
            os.remove(os.path.join(folder, file))
        for file, data in files.items():
            with open(os.path.join(folder, file), "wb") as stream:
                stream.write(data)
    for original in model.originals:
        try:
            other = ask(original, name)
        except Absent as package:
            words.append("%s: %s is not installed" % (original, package))
            continue
        apart = float(np.abs(other.astype(np.float64) - logits).max() / logits.std())
        well = well and apart < BOUND
        words.append("%s %.1e%s" % (original, apart, "" if apart < BOUND else " TOO FAR"))
    size = sum(len(data) for data in files.values())
    return "%-24s %7d  %.1e  %s" % (name, size, floor, ", ".join(words)), well


def write_gguf(name):
    """A folder of Llama's as llama.cpp's converter writes it: matrices as they are kept, gains as
    F32, entries of heads that turn together side by side."""
    import gguf
    model = MODELS[name]
    config, tensors = model.config, model.draw(Draw(name), model.config)
    writer = gguf.GGUFWriter(os.path.join(FOLDER, "..", name + ".gguf"), "llama")
    writer.add_name(name)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(llama_head(config))
    writer.add_vocab_size(config["vocab_size"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for key, value in tensors.items():
        theirs = names.get_name(key, try_suffixes=(".weight",))
        for letter, of in (("q", "attention"), ("k", "key_value")):
            if key.endswith(letter + "_proj.weight"):
                pairs = value.reshape(config["num_%s_heads" % of], 2, -1, value.shape[1])
                value = pairs.swapaxes(1, 2).reshape(value.shape)
        exact = from_bits(to_bits(value, model.kept), model.kept, value.shape)
        if value.ndim == 1:
            writer.add_tensor(theirs, exact.astype(np.float32))
        else:
            bits = np.frombuffer(to_bits(exact, "BF16"), np.uint8).reshape(len(value), -1)
            writer.add_tensor(theirs, bits, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    if sys.argv[1:] == ["--gguf"]:
        write_gguf("llama-tied")
        return
    if sys.argv[1:2] == ["--ask"]:
        answer(*sys.argv[2:])
        return
    names = [word for word in sys.argv[1:] if word != "--check"]
    for name in names:
        if name not in MODELS:
            sys.exit("no model of the name %s; there are %s" % (name, " ".join(MODELS)))
    print("%-24s %7s  %-7s  %s" % ("model", "bytes", "floor", "max |difference| / std(logits)"))
    failed = []
    for name in names or MODELS:
        line, well = make(name, "--check" in sys.argv)
        print(line, flush=True)
        if not well:
            failed.append(name)
    if failed:
        sys.exit("failed: " + " ".join(failed))


if __name__ == "__main__":
    main()
