"""Neural memories that learn at run time: miras.h for Python. Memories, models, trainers, running
texts; miras.torch has a module for PyTorch.

In signatures Floats, Ints and Bytes are numpy arrays of float32, int32 and uint8, in C order;
Tokens is such Ints, or a sequence of whole numbers, or bytes; Value is a field's: a word or a
number; Shape is a tuple of lengths; Path is a string or an os.PathLike."""
from ._core import Error, Refused, presets
from ._memory import Entry, Ledger, Memory, Tape
from ._miras import ffi as _ffi
from ._miras import lib as _lib
from ._model import Model, Session, Trainer, Vocabulary, schedule_cosine

__version__ = "{}.{}.{}".format(_lib.MIRAS_VERSION // 10000, _lib.MIRAS_VERSION // 100 % 100,
                                _lib.MIRAS_VERSION % 100)

isa: str = _ffi.string(_lib.miras_isa()).decode()
"""The instruction set in use: "portable", "avx2", "avx512" or "neon"."""

__all__ = ["Entry", "Error", "Ledger", "Memory", "Model", "Refused", "Session", "Tape", "Trainer",
           "Vocabulary", "isa", "presets", "schedule_cosine"]
