#!/usr/bin/env python3
"""to_safetensors.py IN... OUT: the tensors of PyTorch files (.pth, .pt, .bin) as safetensors.

  python3 examples/to_safetensors.py rwkv7-g1.pth folder/model.safetensors
  python3 examples/to_safetensors.py folder/pytorch_model*.bin folder/model.safetensors

Shards become one file. OUT is written beside its place and renamed when it is whole. It needs
torch, 1.13 or newer, and runs nothing that the pickle may hold. What is not float32, float16 or
bfloat16 becomes float32. Copy config.json beside OUT (RWKV's files have none).

Exit status: 0 done, 1 a file failed, 2 wrong arguments.
"""
import json
import os
import struct
import sys


def stop(status, sentence):
    print("to_safetensors.py: " + sentence, file=sys.stderr)
    sys.exit(status)


def check_arguments(arguments):
    """The files to read and the one to write; leaves with a sentence if they cannot be."""
    if any(a in ("-h", "--help") for a in arguments):
        print(__doc__.strip())
        sys.exit(0)
    if len(arguments) < 2:
        stop(2, "IN... and OUT are needed, PyTorch files and the safetensors file to write: "
                "python3 examples/to_safetensors.py pytorch_model.bin folder/model.safetensors")
    for path in arguments:
        if path.startswith("-"):
            stop(2, f"there is no option {path}; --help says what is read")
    inputs, out = arguments[:-1], arguments[-1]
    for path in inputs:
        if not os.path.isfile(path):
            stop(1, f"{path} is {'a folder' if os.path.isdir(path) else 'not there'}; IN must be a "
                    "PyTorch file (.pth, .pt, .bin)")
        if os.path.exists(out) and os.path.samefile(path, out):
            stop(2, f"OUT is {out}, which is read from and would be replaced")
    if not out.endswith(".safetensors"):
        stop(2, f"OUT is {out}; its name must end in .safetensors (do the shards come before it?)")
    folder = os.path.dirname(out) or "."
    if os.path.isdir(out):
        stop(2, f"OUT is {out}, which is a folder and no file")
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        stop(1, f"OUT is {out}; its folder {folder} is not there or cannot be written")
    return inputs, out


def read_tensors(path):
    """Name to tensor, of what training scripts store them in too."""
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:   # pickles fail in many ways
        why = (str(error) or "it is damaged").splitlines()[0]
        stop(1, f"{path} cannot be read as a PyTorch file: {why}")
    for inner in ("model_state_dict", "state_dict", "model"):
        if isinstance(tensors, dict) and isinstance(tensors.get(inner), dict):
            tensors = tensors[inner]
    if not isinstance(tensors, dict):
        stop(1, f"{path} holds no tensors by name, but a {type(tensors).__name__}")
    found = {k: v for k, v in tensors.items() if isinstance(k, str) and torch.is_tensor(v)}
    for name in tensors:
        if name not in found:
            print(f"passed over, for it is no tensor: {name}", file=sys.stderr)
    if not found:
        stop(1, f"{path} holds no tensors")
    return found


def write_tensors(tensors, out):
    """Header and bytes into a file beside out, which then takes its place."""
    kinds = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
    header, place, kept = {"__metadata__": {"format": "pt"}}, 0, []
    for name, tensor in sorted(tensors.items()):
        tensor = tensor.detach().to(tensor.dtype if tensor.dtype in kinds else torch.float32)
        kept.append(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [place, place + kept[-1].nbytes]}
        place += kept[-1].nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    part = f"{out}.tmp-{os.getpid()}"
    try:
        with open(part, "xb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.writelines(kept)
        os.replace(part, out)
    except OSError as error:
        if os.path.exists(part):
            os.remove(part)
        stop(1, f"{out} cannot be written: {error.strerror}")
    print(f"wrote {out}, {len(kept)} tensors, {place} bytes")


if __name__ == "__main__":
    inputs, out = check_arguments(sys.argv[1:])
    try:
        import torch
    except ImportError:
        stop(1, "torch is not here; python3 -m pip install torch, any version from 1.13 on")
    tensors = {}
    for path in inputs:
        tensors.update(read_tensors(path))
    write_tensors(tensors, out)
