#!/usr/bin/env python3
"""to_safetensors.py IN OUT: the tensors of a PyTorch file (.pth, .pt, .bin) as safetensors.

  python3 examples/to_safetensors.py rwkv7-g1.pth folder/model.safetensors
  python3 examples/to_safetensors.py pytorch_model.bin folder/model.safetensors

It needs torch, 1.13 or newer, and runs nothing that the pickle may hold. What is not float32,
float16 or bfloat16 becomes float32. Copy config.json beside OUT (RWKV's files have none).
"""
import json
import struct
import sys

import torch

KINDS = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}

if len(sys.argv) != 3:
    sys.exit(__doc__)
tensors = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
for inner in ("model_state_dict", "state_dict", "model"):
    tensors = tensors[inner] if isinstance(tensors.get(inner), dict) else tensors
header, place, kept = {"__metadata__": {"format": "pt"}}, 0, []
for name, tensor in sorted(tensors.items()):
    tensor = tensor.detach().to(tensor.dtype if tensor.dtype in KINDS else torch.float32)
    kept.append(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
    header[name] = {"dtype": KINDS[tensor.dtype], "shape": list(tensor.shape),
                    "data_offsets": [place, place + kept[-1].nbytes]}
    place += kept[-1].nbytes
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[2], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    file.writelines(kept)
