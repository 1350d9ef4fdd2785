"""A memory as a module of PyTorch's: forward and backward are the library's, on the CPU."""
from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np
import torch

from . import _memory
from ._core import Floats, Refused, Value


def _array(tensor: torch.Tensor) -> Floats:
    """A tensor's numbers, copied only where they do not lie in C order."""
    return tensor.detach().contiguous().numpy()


def _single(name: str, tensor: Any) -> torch.Tensor:
    """A tensor as float32, whose gradient comes back in the tensor's own type."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is of type {type(tensor).__name__}; it must be a tensor")
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_complex():
        raise TypeError(f"{name} is {tensor.dtype}, {tensor.layout} on {tensor.device}; it must be "
                        "of real numbers, torch.strided, on the CPU")
    return tensor.to(torch.float32)


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, memory: _memory.Memory, names: Tuple[str, ...], weight: torch.Tensor,
                *tensors: torch.Tensor) -> torch.Tensor:
        given = {name: _array(tensor) for name, tensor in zip(names, tensors)}
        ctx.memory, ctx.names = memory, names
        ctx.save_for_backward(weight, *tensors)   # torch then tells if they change in place
        with memory._lock:
            _begin(memory, weight)
            if any(ctx.needs_input_grad):
                y, ctx.tape = memory.record(**given)
            else:
                y = memory.forward(**given)
        return torch.from_numpy(y)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        weight = ctx.saved_tensors[0]
        with ctx.memory._lock:
            _begin(ctx.memory, weight)
            grads = ctx.memory.backward(ctx.tape, _array(dy))
        return (None, None, *(torch.from_numpy(grads[name]) for name in ("params",) + ctx.names))


def _run(memory: _memory.Memory, names: Tuple[str, ...], *tensors: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = _Run.apply(memory, names, *tensors)
    return y


# torch.compile does not look into what it is told to leave alone: its graph ends before that and
# goes on behind it. (torch.compiler.disable, but that imports the compiler only when it is called;
# versions that cannot tell whether they compile are told each time.)
_aside: Callable[..., torch.Tensor] = getattr(torch, "_disable_dynamo", lambda run: run)(_run)
_compiling: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_compiling",
                                         lambda: True)


def _begin(memory: _memory.Memory, weight: torch.Tensor) -> None:
    """The initial memory is the module's, and nothing has been written."""
    memory.params[:] = _array(weight)
    memory.reset()


class Memory(torch.nn.Module):
    """A layer of memories: `Memory("titans", heads=4, key_dim=64)(key, value, query)`.

    Arguments are those of miras.Memory but batch, which is that of the tensors: key and query
    [batch, T, heads, key_dim], value and what is returned [batch, T, heads, value_dim], gates by
    their names; on the CPU. Tensors of other types than float32 are copied: the memory computes in
    float32, answers in the type of value, if that is one of floating point, and gives gradients
    back in the types of tensors. Every call starts from the initial memory, which is the parameter
    `weight`, in the layout of miras.Memory.params. torch.compile leaves the module as it is."""

    def __init__(self, preset: str, *, seed: int = 0, limit: int = 0, threads: int = 1,
                 **fields: Value) -> None:
        super().__init__()
        if "batch" in fields:
            raise Refused("batch comes with the tensors")
        self._made = preset, dict(fields, seed=seed, limit=limit, threads=threads)
        self._memory: Optional[_memory.Memory] = self._of(1)
        self.weight = torch.nn.Parameter(torch.from_numpy(np.array(self._memory.params)))

    def _of(self, batch: int) -> _memory.Memory:
        made: Dict[str, Any] = dict(self._made[1], batch=batch)
        return _memory.Memory(self._made[0], **made)

    def __getstate__(self) -> Dict[str, Any]:
        return dict(self.__dict__, _memory=None)   # copies and pickles make one of their own

    def extra_repr(self) -> str:
        """The preset, and what was given with it; seed, limit and threads change no shape."""
        shape = (f"{name}={value}" for name, value in self._made[1].items()
                 if name not in ("seed", "limit", "threads"))
        return ", ".join((self._made[0], *shape))

    def forward(self, key: torch.Tensor, value: torch.Tensor, query: torch.Tensor,
                **gates: torch.Tensor) -> torch.Tensor:
        """Every token is written, then read: the answers [batch, T, heads, value_dim]."""
        named = {"key": key, "value": value, "query": query, **gates}
        tensors = [_single(name, tensor) for name, tensor in named.items()]
        batch = key.shape[0] if key.dim() else 0
        if not batch:
            raise ValueError(f"key has the shape {tuple(key.shape)}; it must be "
                             "(batch, T, heads, key_dim), with a batch of at least 1")
        memory = self._memory
        if memory is None or memory.batch != batch:
            memory = self._memory = self._of(batch)
        run = _aside if _compiling() else _run
        y = run(memory, tuple(named), _single("weight", self.weight), *tensors)
        return y.to(value.dtype) if value.is_floating_point() else y
