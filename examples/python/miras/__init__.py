"""Neural memories that learn at run time: miras.h for Python. Memories, models, trainers, running
texts; miras.torch has a module for PyTorch."""
from ._core import Error, Refused, presets
from ._memory import Memory, Tape
from ._miras import ffi as _ffi
from ._miras import lib as _lib
from ._model import Model, Session, Trainer, Vocabulary, schedule_cosine

isa: str = _ffi.string(_lib.miras_isa()).decode()
"""The instruction set in use: "portable", "avx2", "avx512" or "neon"."""

__all__ = ["Error", "Memory", "Model", "Refused", "Session", "Tape", "Trainer", "Vocabulary", "isa",
           "presets", "schedule_cosine"]
