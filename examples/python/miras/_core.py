"""What memories and models share: errors, arrays that C may see, fields by name, lifetimes."""
from __future__ import annotations

import contextlib
import difflib
import functools
import itertools
import operator
import os
import re
import threading
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from ._miras import ffi, lib

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Value = Union[str, int, float]
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Buffer = Union[bytes, bytearray, memoryview]
Shape = Tuple[int, ...]


class Error(Exception):
    """A call of the library failed. `result` is its name, such as "MIRAS_ERR_IO"."""

    def __init__(self, sentence: str, result: str = "") -> None:
        super().__init__(sentence)
        self.result = result


class Refused(Error, ValueError):
    """What was asked for has no meaning: the sentence names the field, its value and what is
    allowed, or says which call wants something else."""


def text(pointer: Any) -> str:
    """A string of C's, "" of NULL."""
    return "" if pointer == ffi.NULL else ffi.string(pointer).decode(errors="replace")


def check(result: int, why: Any = ffi.NULL) -> None:
    """Raise what a result other than MIRAS_OK says; the sentence in why comes first."""
    if result != lib.MIRAS_OK:
        kind = Refused if result in (lib.MIRAS_ERR_DESC, lib.MIRAS_ERR_ARGUMENT) else Error
        raise kind(text(why) or text(lib.miras_result_text(result)),
                   ffi.string(ffi.cast("miras_result", result)))


@contextlib.contextmanager
def about(path: str) -> Iterator[None]:
    """Puts the path of a file before what the library says of it."""
    try:
        yield
    except Error as error:
        error.args = (f"{path}: {error}",)
        raise


@contextlib.contextmanager
def instead(says: str) -> Iterator[None]:
    """Says so where the library says no more than that an argument is wrong."""
    try:
        yield
    except Refused as error:
        error.args = (says,)
        raise


# ---- numbers and words ----

def whole(name: str, value: Any, kind: str = "int") -> int:
    """A whole number that a `kind` of C's holds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is of type {type(value).__name__}; it must be a whole number"
                        ) from None
    bits = 8 * ffi.sizeof(kind)
    low, high = (-1 << bits - 1, 1 << bits - 1) if kind == "int" else (0, 1 << bits)
    if not low <= number < high:
        raise Refused(f"{name} is {number}; it must "
                      + ("not be negative" if low > number else f"be below {high}"))
    return number


def words(name: str, said: Any) -> bytes:
    """Text as C takes it, where a NUL would end it."""
    if not isinstance(said, str):
        raise TypeError(f"{name} is of type {type(said).__name__}; it must be a string")
    if "\0" in said:
        raise ValueError(f"{name} is {said!r}: embedded null character")
    return said.encode(errors="replace")


def path_of(path: Path) -> str:
    """A path as a string; os.fsencode makes of it what C takes."""
    name = os.fsdecode(path)
    if "\0" in name:
        raise ValueError("embedded null byte")
    return name


def sentence() -> Any:
    """Room for one."""
    return ffi.new("char[256]")


def owned(pointer: Any, close: Any, why: Any) -> Any:
    """An object of C's that is closed when nothing in Python holds it; Refused where it is NULL."""
    if pointer == ffi.NULL:
        raise Refused(text(why))
    return ffi.gc(pointer, close)


# ---- arrays ----

class _Window:
    """A block of an object of C's as numpy takes it. Arrays made of it hold it, and it the
    owner."""

    def __init__(self, owner: object, interface: Dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def window(owner: object, pointer: Any, shape: Shape, dtype: Any = np.float32) -> Any:
    """An array onto C's memory, without a copy, that keeps owner alive."""
    if pointer == ffi.NULL or 0 in shape:
        return np.zeros((0,), dtype)
    return np.asarray(_Window(owner, {
        "data": (int(ffi.cast("uintptr_t", pointer)), False), "shape": shape,
        "typestr": np.dtype(dtype).str, "version": 3}))


_TYPES = {"float": np.dtype(np.float32), "int32_t": np.dtype(np.int32),
          "unsigned char": np.dtype(np.uint8)}


def numbers(name: str, given: Any) -> Floats:
    """What one pair or row brings as an array that C may read: a copy, if it is not one already."""
    if (isinstance(given, np.ndarray) and given.dtype == np.float32 and given.flags.c_contiguous
            and given.flags.aligned):
        return given
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"{name} is no array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} is of type {type(given).__name__}, of {array.dtype}; it must be "
                        "numbers that float32 can hold")
    with np.errstate(over="ignore"):
        copy = np.array(array, np.float32, order="C")
    if np.isinf(copy).sum() != np.isinf(array).sum():
        raise ValueError(f"{name} holds a number beyond those of float32")
    return copy


def pointer(name: str, array: Any, kind: str = "float", write: bool = False) -> Any:
    """An array as C takes it, without a copy; TypeError if it would not be what C sees there. The
    result holds the array."""
    wanted = _TYPES[kind]
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is of type {type(array).__name__}; it must be a numpy array: "
                        f"numpy.asarray({name}, numpy.{wanted})")
    flags = array.flags
    if array.dtype != wanted or not flags.c_contiguous or not flags.aligned:
        raise TypeError(f"{name} is {array.dtype}{'' if flags.c_contiguous else ', not in C order'}"
                        f"; it must be {wanted} in C order: "
                        f"numpy.ascontiguousarray({name}, numpy.{wanted}) copies it")
    if write and not flags.writeable:
        raise TypeError(f"{name} is read-only, and would be written to")
    return ffi.from_buffer(kind + "[]", array, require_writable=write)


@functools.lru_cache(4096)
def _fit(shape: Shape, full: Shape, free: Shape) -> Optional[Tuple[Shape, Shape]]:
    for count in range(len(free) + 1):
        for left in itertools.combinations(free, count):
            kept = [axis for axis in range(len(full)) if axis not in left]
            if len(kept) == len(shape) and all(full[axis] in (-1, n)
                                               for axis, n in zip(kept, shape)):
                lengths = dict(zip(kept, shape))
                return left, tuple(lengths.get(axis, n) for axis, n in enumerate(full))
    return None


def fit(name: str, array: Any, full: Shape, free: Shape = ()) -> Tuple[Shape, Shape]:
    """Which of the axes `free`, of length 1, are left out of an array of shape `full`, in which -1
    is any length; and full with these lengths. ValueError if no choice fits."""
    found = _fit(np.shape(array), full, free)
    if found is None:
        wants = ", ".join("any" if n == -1 else str(n) for n in full)
        may = ", of which axes of batch and heads that are 1 may be left out" if free else ""
        raise ValueError(f"{name} has the shape {np.shape(array)}; it must be ({wants}){may}")
    return found


def rows_of(name: str, array: Any, shape: Shape, count: int, kind: str = "float",
            write: bool = False) -> Tuple[Any, Shape]:
    """An array [shape ..., count] of rows of a model as C takes it, and its shape without count.
    Where count is 1 that axis may be left out; where it is 0 there are no such arrays."""
    if array is None or not count:
        raise Refused(f"{name} is {'missing' if array is None else 'given'}; rows of this model "
                      f"have {count} of them")
    free = (len(shape),) if count == 1 else ()
    return pointer(name, array, kind, write), fit(name, array, shape + (count,), free)[1][:-1]


def without(full: Shape, left: Shape) -> Shape:
    """full but for the axes `left`."""
    return tuple(n for axis, n in enumerate(full) if axis not in left)


# ---- presets and fields ----

def presets() -> List[str]:
    """The names of all presets."""
    return [text(lib.miras_preset_name(i)) for i in range(lib.MIRAS_PRESET_COUNT)]


def _nearest(name: str, known: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; is it {known[near[0]]}?" if near else ""


def preset_of(name: str) -> int:
    """The preset of that name; Refused, with the nearest, if there is none."""
    found = lib.miras_preset_find(words("preset", name))
    if found == lib.MIRAS_PRESET_COUNT:
        raise Refused(f"there is no preset {name}"
                      + _nearest(name, {known: known for known in presets()}))
    return int(found)


@functools.lru_cache(None)
def field_names(kind: str) -> Tuple[str, ...]:
    """The fields of a memory's or a model's descriptor, as the library lists them."""
    of = getattr(lib, f"miras_{kind}_desc_field")
    names = (of(i) for i in itertools.count())
    return tuple(text(name) for name in itertools.takewhile(lambda name: name != ffi.NULL, names))


def field_text(kind: str, d: Any, name: str) -> Optional[str]:
    """A field's value as text, None if there is no such field."""
    room = ffi.new("char[]", lib.MIRAS_PATTERN_SIZE)
    got = getattr(lib, f"miras_{kind}_desc_get")(d, words("a field", name), room, len(room))
    return None if got == ffi.NULL else text(got)


def field_value(said: str) -> Value:
    """Numbers as numbers, words as words."""
    for number in (int, float):
        try:
            return number(said)
        except ValueError:
            pass
    return said


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    raise TypeError(f"{name} is of type {type(value).__name__}; it must be a number or a word")


def set_fields(kind: str, d: Any, fields: Mapping[str, Value], *beside: str) -> None:
    """Give fields of d these values, the library's first fields first, so that choices come before
    what depends on them. What belonged to an old choice gives way, and a warning says so; what was
    asked for does not, and is refused later if it has no meaning. In names `__` is a dot. beside:
    keywords that are no fields."""
    names, texts = field_names(kind), {name.replace("__", "."): _as_text(name, value)
                                       for name, value in fields.items()}
    for name in texts:
        if field_text(kind, d, name) is None:
            known = {last: full for full in reversed(names)
                     for last in (full.split(".")[-1], full)}
            known.update((other, other) for other in beside)
            raise Refused(f"there is no field {name}{_nearest(name, known)}")

    def place(name: str) -> int:
        bare = name[2:] if name[1:2] == "." else name
        return names.index(bare) if bare in names else len(names)

    change, put = (getattr(lib, f"miras_{kind}_desc_{verb}") for verb in ("change", "set"))
    for name in sorted(texts, key=place):
        said = ffi.new("char[512]")
        check(change(d, words("a field", name), words(name, texts[name]), said, len(said)), said)
        gave = [one for one in text(said).split(", ") if one and one.split()[0] not in texts]
        if gave:
            warnings.warn(f"{name} {texts[name]} changes as well: {', '.join(gave)}", stacklevel=3)
    for name, value in texts.items():
        check(put(d, words("a field", name), words(name, value)))


@contextlib.contextmanager
def needed(given: Mapping[str, Value]) -> Iterator[None]:
    """Says that a field is needed where the library says that it is 0, and nobody gave it."""
    try:
        yield
    except Refused as error:
        said = re.fullmatch(r"([a-z_.]+) is 0; (it must lie in .*)", str(error))
        if said and said[1] not in (name.replace("__", ".") for name in given):
            error.args = (f"{said[1]} is needed; {said[2]}",)
        raise


# ---- threads ----

def pool_of(threads: int) -> Any:
    """A pool of so many threads, the caller's among them."""
    if threads == 1:
        return ffi.NULL
    if not hasattr(lib, "miras_pool_open"):
        raise Refused(f"threads is {threads}; there are no POSIX threads here, it must be 1")
    why = sentence()
    return owned(lib.miras_pool_open(whole("threads", threads), ffi.NULL, why, len(why)),
                 lib.miras_pool_close, why)


# ---- objects of the library ----

class Held:
    """An object of C's: it is closed when nothing in Python holds it, arrays onto it hold it, and
    one call at a time works on it. Copies and pickles are of its bytes, and objects of their
    own."""

    _kind = ""
    _name = ""   # the preset that it was made of, or the file
    _all: weakref.WeakSet[Held] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"<miras.{type(self).__name__} {self._name}: {self._shape()}>"

    def _shape(self) -> str:
        raise NotImplementedError

    def _hold(self, c: Any, why: Any) -> None:
        self._c = owned(c, lib.miras_close, why)
        self._lock = threading.RLock()
        Held._all.add(self)

    def _of(self, verb: str) -> Any:
        return getattr(lib, f"miras_{self._kind}_{verb}")

    def _call(self, verb: str, *arguments: Any) -> None:
        """A call that returns a result."""
        with self._lock:
            check(self._of(verb)(self._c, *arguments))

    def _ask_why(self, verb: str, *arguments: Any) -> None:
        """One that also says why not."""
        why = sentence()
        with self._lock:
            check(self._of(verb)(self._c, *arguments, why, len(why)), why)

    def _block(self, verb: str, dtype: Any = np.float32) -> Any:
        """An array onto a block of the object."""
        count = ffi.new("size_t *")
        with self._lock:
            first = self._of(verb)(self._c, count)
        return window(self, first, (count[0],), dtype)

    def save(self, path: Path) -> None:
        """Write all of it to a file, which is the old one or the whole new one."""
        name = path_of(path)
        with about(name), self._lock:
            check(lib.miras_save(self._c, os.fsencode(name)))

    def load(self, path: Path) -> None:
        """Read what save has written, of an object of this descriptor."""
        name, why = path_of(path), sentence()
        with about(name), self._lock:
            check(lib.miras_load(self._c, os.fsencode(name), why, len(why)), why)

    def to_bytes(self) -> bytes:
        """What save would write."""
        with self._lock:
            room = bytearray(lib.miras_save_to(self._c, ffi.NULL, 0))
            if not room:
                raise Error("no load would take this state: its sequences stand at different "
                            "positions, or at one from 2^62 on", "MIRAS_ERR_STATE")
            lib.miras_save_to(self._c, ffi.from_buffer(room), len(room))
        return bytes(room)

    def _load_from(self, data: Buffer) -> None:
        block, why = ffi.from_buffer(data), sentence()
        with self._lock:
            check(lib.miras_load_from(self._c, block, len(block), why, len(why)), why)


def _new_locks() -> None:
    """In a child of fork(), where a thread that held a lock is missing and would never let go."""
    for one in Held._all:
        one._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_locks)


class Running(Held):
    """One with a state that tokens change."""

    @property
    def state(self) -> Bytes:
        """The state, an array of bytes onto the library's memory: `state.copy()` is a snapshot, and
        `state[:] = snapshot` brings it back. Zeros are the state after a reset."""
        block: Bytes = self._block("state", np.uint8)
        return block

    @property
    def position(self) -> int:
        """Tokens, or rows, seen since the reset."""
        return int(self._of("position")(self._c))

    def reset(self) -> None:
        """Forget everything: back to the beginning."""
        with self._lock:
            self._of("reset")(self._c)
