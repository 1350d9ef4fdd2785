#!/usr/bin/env python3
"""adapter_peers.py PROGRAM: adapters beside peft and transformers, or for RWKV-7 tests/rwkv7.py,
with the random weights of tests/data/checkpoints; PROGRAM is tests/adapter_peer.c. Logits with an
adapter that peft has written, gradients of its A and B over bases in float, bf16 and q8 (which
torch holds as floats of the same numbers), peft's own logits with what is written back, and those
of transformers with the folder into which it was merged. Of RWKV-7 also gradients of what memories
begin with.
    pip install torch transformers peft safetensors numpy
    cc -O2 tests/adapter_peer.c -o adapter_peer -lm && python3 tests/adapter_peers.py ./adapter_peer
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model
from safetensors import safe_open
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

import rwkv7

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [   # folder, modules
    ("llama", ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    ("mamba2", ["in_proj"]),      # peft refuses out_proj of Mamba's
    ("mamba", ["in_proj", "x_proj"]),
    ("falcon_h1", ["q_proj", "v_proj", "o_proj", "down_proj"]),
    ("falcon_h1", ["in_proj"]),
    ("qwen3_5", ["q_proj", "v_proj", "in_proj_qkv", "in_proj_z", "out_proj", "up_proj"]),
    ("rwkv7", ["r_proj", "k_proj", "v_proj", "o_proj", "ffn.key", "ffn.value"]),
]


def narrowed(w, form):
    """A matrix as it is held: rounded to bf16, or in blocks of 32 along the sum."""
    if form == 1:
        return w.to(torch.bfloat16).float()
    out, n = w.shape
    x = torch.nn.functional.pad(w, (0, -n % 32)).reshape(out, -1, 32)
    scale = (x.abs().amax(2, keepdim=True) / 127).half().float()
    q = torch.where(scale > 0, torch.round(x / scale), x * 0).clamp(-127, 127)
    return (q * scale).reshape(out, -1)[:, :n].contiguous()


def open_model(name, folder):
    """The model, and whether transformers does not know all of its tensors."""
    if name == "rwkv7":
        return rwkv7.load(folder), False
    model, said = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                       output_loading_info=True)
    return model, bool(said["missing_keys"])


def logits_of(name, model, tokens):
    ids = torch.tensor(tokens)
    return model(ids) if name == "rwkv7" else model(ids[None]).logits[0]


def off(a, b):
    return float(np.linalg.norm(a - b) / (np.linalg.norm(b) + 1e-30))


def main(program):
    worst = 0.0
    for name, modules in CASES:
        folder = os.path.join(HERE, "data", "checkpoints", name)
        tokens = [int(x) for x in open(os.path.join(folder, "tokens.txt")).read().split()]
        with tempfile.TemporaryDirectory() as room:
            torch.manual_seed(1)
            model = open_model(name, folder)[0]
            peft = get_peft_model(model, LoraConfig(r=3, lora_alpha=7, target_modules=modules))
            for key, x in peft.named_parameters():
                if "lora_B" in key:
                    torch.nn.init.normal_(x, std=0.1)
            peft.save_pretrained(os.path.join(room, "adapter"))
            base = {k: x.detach().clone() for k, x in peft.named_parameters() if "lora_" not in k}
            for form in (0, 1, 3):
                for key, x in peft.named_parameters():
                    if "lora_" in key:
                        x.grad = None
                    elif form and x.dim() == 2 and key.endswith("weight"):
                        x.data = narrowed(base[key], form)
                    else:
                        x.data = base[key].clone()
                out = os.path.join(room, f"out{form}")
                for end in (".peft", ".grads", ".merged"):
                    os.makedirs(out + end)
                subprocess.run([program, folder, os.path.join(room, "adapter"), str(form), out] +
                               [str(t) for t in tokens], check=True)
                states = [x.requires_grad_() for key, x in peft.named_parameters()
                          if key.endswith(".state")]
                for x in states:
                    x.grad = None
                logits = logits_of(name, peft, tokens)
                loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(tokens[1:]))
                loss.backward()
                ours = np.fromfile(out + ".f32", np.float32)
                far = off(ours[:-1].reshape(len(tokens), -1), logits.detach().numpy())
                grads = load_file(os.path.join(out + ".grads", "adapter_model.safetensors"))
                most, where = 0.0, ""
                for key, x in peft.named_parameters():
                    if x.grad is None or "lora_" not in key:
                        continue
                    short = key.replace(".default", "")
                    g, want = grads[short], x.grad.numpy()
                    if g.shape != want.shape and "lora_A" in key:     # parts, each with its own A
                        g = g.reshape(-1, *want.shape).sum(0)
                    elif g.shape != want.shape:
                        g = g.reshape(want.shape[0], -1, want.shape[1]).sum(1)
                    if off(g, want) > most:
                        most, where = off(g, want), short
                if states:
                    g = np.fromfile(out + ".states", np.float32).reshape(len(states), -1)
                    for i, x in enumerate(states):
                        if off(g[i], x.grad.numpy().ravel()) > most:
                            most, where = off(g[i], x.grad.numpy().ravel()), f"state {i}"
                print(f"{name}, weights {form}: logits {far:.1e}, gradients {most:.1e} ({where})")
                worst = max(worst, far if form < 3 else far / 30, most if form < 3 else most / 30)
            again = open_model(name, folder)[0]
            config = PeftConfig.from_pretrained(os.path.join(room, "out0.peft"))
            if name == "rwkv7":
                config.task_type = None      # what peft wraps so must be transformers'
            again = PeftModel.from_pretrained(again, os.path.join(room, "out0.peft"), config=config)
            far = off(logits_of(name, again, tokens).detach().numpy(),
                      np.fromfile(os.path.join(room, "out0.f32"), np.float32)[:-1]
                      .reshape(len(tokens), -1))
            print(f"{name}, written and loaded by peft: logits {far:.1e}")
            worst = max(worst, far)
            merged, lacks = open_model(name, os.path.join(room, "out0.merged"))
            far = off(logits_of(name, merged, tokens).detach().numpy(),
                      np.fromfile(os.path.join(room, "out0.f32"), np.float32)[:-1]
                      .reshape(len(tokens), -1))
            with safe_open(os.path.join(folder, "model.safetensors"), "pt") as f:
                short = any(f.get_slice(k).get_dtype() == "BF16" for k in f.keys())
            print(f"{name}, merged and loaded by transformers: logits {far:.1e}"
                  f"{' (the folder is bf16)' if short else ''}")
            worst = max(worst, far / 300 if short else far, float(lacks))
    return worst > 1e-4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
