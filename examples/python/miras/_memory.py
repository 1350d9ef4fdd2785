"""One memory: write, read, forward, backward, state."""
from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, NamedTuple, NoReturn, Optional, Tuple, Type

import numpy as np
import numpy.typing as npt

from ._core import (Buffer, Bytes, Error, Floats, Held, Path, Refused, Running, Shape, Value, about,
                    check, field_names, field_text, field_value, fit, needed, numbers, path_of,
                    pointer, pool_of, preset_of, sentence, set_fields, text, whole, window,
                    without, words)
from ._miras import ffi, lib


class Tape:
    """What `Memory.backward` needs of a call of `Memory.record`: the tokens, which must stay as
    they are until then, and what the memory went through."""

    def __init__(self, memory: Memory, tokens: Dict[str, Floats], x: Any, held: Any, y: Floats,
                 floats: Floats) -> None:
        self.memory, self.tokens, self.shape = memory, tokens, y.shape
        self._x, self._held, self._floats = x, held, floats

    def __reduce__(self) -> NoReturn:
        raise TypeError("a tape is of one memory and its tokens; it cannot be copied or pickled")


class Memory(Running):
    """A memory of a preset, on its own: `Memory("titans", heads=4, key_dim=64, bias="huber")`.

    Keywords are fields of miras_memory_desc. A choice that is changed puts fields of the old one to
    rest, and a warning says which. What has no meaning is refused in the library's words.

    seed: of the initial memory. limit: most bytes that it may take, 0: any. threads: that share out
    sequences and heads; they change no bit.

    Calls of one pair take whatever numpy makes numbers of. Arrays of many tokens are float32 in C
    order and are not copied; others are refused. Axes of batch and heads may be left out where they
    are 1, and are then missing from what is returned. One call at a time works on a memory: a
    second thread waits."""

    _kind = "memory"

    def __init__(self, preset: str, *, seed: int = 0, limit: int = 0, threads: int = 1,
                 **fields: Value) -> None:
        d = ffi.new("miras_memory_desc *")
        check(lib.miras_memory_preset(d, preset_of(preset)))
        set_fields("memory", d, fields, "seed", "limit", "threads")
        self._name = preset
        with needed({**fields, "threads": threads}):
            self._open(d, seed, limit, threads)

    def _shape(self) -> str:
        return (f"batch {self.batch}, heads {self.heads}, key_dim {self.key_dim}, "
                f"value_dim {self.value_dim}")

    def _open(self, d: Any, seed: int, limit: int, threads: int) -> None:
        why = sentence()
        d.seed, d.limit = whole("seed", seed, "uint64_t"), whole("limit", limit, "size_t")
        self._pool = d.parallel = pool_of(threads)
        self._begin(lib.miras_memory_open(d, ffi.NULL, why, len(why)), why, threads)

    def _begin(self, c: Any, why: Any, threads: int) -> None:
        self._hold(c, why)
        self._threads = threads
        self._d = d = lib.miras_memory_desc_of(self._c)
        self.batch, self.heads = int(d.batch), int(d.heads)
        self.key_dim, self.value_dim = int(d.key_dim), int(d.value_dim)
        self._steps: Shape = (d.inner_steps,) if d.inner_steps > 1 else ()
        self._asks = self._ask()
        lib.miras_memory_can_write(self._c, why, len(why))
        self._no_write = text(why)

    def _ask(self) -> Dict[str, Shape]:
        """What tokens bring, with its shape behind [batch, T, heads]."""
        d, steps, value = self._d, self._steps, (self.value_dim,)
        asks = {"key": steps + (self.key_dim,), "value": steps + value, "query": (self.key_dim,)}
        features = next(shape for kind, shape in self.parts().values() if kind == "state")[:1]
        matrix = d.architecture == lib.MIRAS_ARCH_MATRIX and d.decay_gate != lib.MIRAS_GATE_ENTRY
        channels = {"keep": features if matrix else value}
        for name in ("keep", "learning_rate", "momentum", "threshold"):
            gate = d.decay_gate if name == "keep" else getattr(d, name + "_gate")
            if gate != lib.MIRAS_GATE_CONSTANT:
                asks[name] = steps if name == "learning_rate" else ()
                asks[name] += () if gate == lib.MIRAS_GATE_HEAD else channels.get(name, value)
        if d.value_decay_gate != lib.MIRAS_GATE_CONSTANT:
            asks["value_keep"] = value
        if d.separate_erase:
            asks["erase"] = asks["replace"] = (self.key_dim,)
        return asks

    @property
    def fields(self) -> Dict[str, Value]:
        """Every field of the descriptor, defaults filled in."""
        return {name: field_value(field_text("memory", self._d, name) or "")
                for name in field_names("memory")}

    # ---- one pair at a time ----

    def _row(self, name: str, given: Any, last: Shape) -> Tuple[Any, Shape, Floats]:
        """Numbers [batch, heads, last ...] as C takes them, the axes that they leave out, and their
        array."""
        array = numbers(name, given)
        left, _ = fit(name, array, (self.batch, self.heads) + last, self._ones(1))
        return ffi.from_buffer("float[]", array), left, array

    def _ones(self, heads: int) -> Shape:
        """Of the axes 0 (batch) and `heads` those that may be left out."""
        return (0,) * (self.batch == 1) + (heads,) * (self.heads == 1)

    def _answered(self, verb: str, name: str, given: Any, wide: Shape,
                  last: Shape, out: Optional[Floats] = None,
                  wants: Optional[Tuple[str, str]] = None) -> Floats:
        """What a call says of numbers [batch, heads, wide], [batch, heads, last]. wants: a field,
        and what it must be."""
        a, left, array = self._row(name, given, wide)
        out, o = _room(out, without((self.batch, self.heads) + last, left))
        _apart(out, array)
        try:
            self._call(verb, a, o)
        except Refused as error:
            if wants:
                error.args = (f"{wants[0]} is {self.fields[wants[0]]}; {wants[1]}",)
            raise
        return out

    def _can_write(self) -> None:
        if self._no_write:
            raise Refused(self._no_write, "MIRAS_ERR_DESC")

    def write(self, key: npt.ArrayLike, value: npt.ArrayLike) -> float:
        """Learn a pair, key [batch, heads, key_dim] and value [batch, heads, value_dim], and return
        the surprise: the loss of the pair before the write. With inner_steps > 1 a token's pairs,
        [batch, heads, inner_steps, ..]."""
        k = self._row("key", key, self._asks["key"])[0]
        v = self._row("value", value, self._asks["value"])[0]
        surprise = ffi.new("float *")
        self._can_write()
        self._call("write", k, v, surprise)
        return float(surprise[0])

    def read(self, query: npt.ArrayLike, out: Optional[Floats] = None) -> Floats:
        """The answer [batch, heads, value_dim] to a query [batch, heads, key_dim]; the memory does
        not change. It is written to out, if given."""
        return self._answered("read", "query", query, (self.key_dim,), (self.value_dim,), out)

    def learn(self, key: npt.ArrayLike, value: npt.ArrayLike, *,
              elapsed: float = 1) -> Tuple[Floats, float]:
        """Answer a key, then learn its value: the answer and the surprise. The state decays by
        alpha to the power elapsed, from 0 on, for samples that come unevenly."""
        if not float(elapsed) >= 0:
            raise Refused(f"elapsed is {elapsed}; it must not be negative")
        e, surprise = ffi.new("miras_memory_event *"), ffi.new("float *")
        passed = ffi.new("float *", elapsed)
        k, left, _ = self._row("key", key, (self.key_dim,))
        v = self._row("value", value, (self.value_dim,))[0]
        out, o = _room(None, without((self.batch, self.heads, self.value_dim), left))
        e.key, e.value, e.answer, e.surprise, e.elapsed = k, v, o, surprise, passed
        self._can_write()
        if self._steps:
            raise Refused(f"inner_steps is {self._d.inner_steps}; learn takes one pair at a "
                          "time, and write takes all of a token", "MIRAS_ERR_DESC")
        try:
            self._call("learn", e)
        except Refused as error:
            error.args = (f"elapsed is {elapsed}; it must be finite, and 1 where nothing decays: "
                          f"retention is {self.fields['retention']}",)
            raise
        return out, float(surprise[0])

    def probabilities(self, answer: npt.ArrayLike) -> Floats:
        """Of an answer in logits (bias cross-entropy): every group sums to 1."""
        return self._answered("probabilities", "answer", answer, (self.value_dim,),
                              (self.value_dim,), wants=("bias", "probabilities are of bias "
                                                        "cross-entropy (preset categories)"))

    def variance(self, query: npt.ArrayLike) -> Floats:
        """How unsure the answer to a query is, [batch, heads], of memories by least squares."""
        return self._answered("variance", "query", query, (self.key_dim,), (), wants=(
            "algorithm", "a variance is known to recursive-least-squares (presets signals, rls) "
            "and least-squares (mesa)"))

    # ---- many tokens, with gradients ----

    def _tokens(self, given: Dict[str, Any]) -> Tuple[Any, Any, Dict[str, Floats],
                                                      Shape]:
        """Arrays as miras_memory_input, what they hold, those that are there, and y's shape."""
        x, held, length = ffi.new("miras_memory_input *"), [], -1
        shape: Shape = ()
        given = {name: array for name, array in given.items() if array is not None}
        if set(given) != set(self._asks):
            odd = sorted(set(given) ^ set(self._asks))[0]
            raise Refused(f"{odd} is {'given' if odd in given else 'missing'}; tokens of this "
                          f"memory bring {', '.join(self._asks)}, as its fields say")
        for name, last in self._asks.items():
            held.append(pointer(name, given[name]))
            left, full = fit(name, given[name], (self.batch, length, self.heads) + last,
                             self._ones(2))
            length = full[1]
            setattr(x, name, held[-1])
            if name == "query":
                shape = without(full[:3] + (self.value_dim,), left)
        x.length = length
        return x, held, given, shape

    def forward(self, key: Floats, value: Floats, query: Floats, *, out: Optional[Floats] = None,
                **gates: Optional[Floats]) -> Floats:
        """Run T tokens, each written, then read: key and query [batch, T, heads, key_dim], value
        and what is returned [batch, T, heads, value_dim]. Gates are keep, learning_rate, momentum,
        threshold, value_keep, erase and replace, those that the fields ask for, as in
        miras_memory_input; they are not checked per token. The state is carried on. out: where to
        write."""
        x, held, given, shape = self._tokens({"key": key, "value": value, "query": query, **gates})
        out, y = _room(out, shape)
        _apart(out, *given.values())
        self._call("forward", x, y, ffi.NULL)
        return out

    def record(self, key: Floats, value: Floats, query: Floats,
               **gates: Optional[Floats]) -> Tuple[Floats, Tape]:
        """forward, and a tape of it for backward. The position must be a multiple of chunk."""
        x, held, given, shape = self._tokens({"key": key, "value": value, "query": query, **gates})
        out, y = _room(None, shape)
        size = lib.miras_memory_tape_size(self._c, x.length)
        if not size:
            raise Error(f"{x.length} tokens need more memory than there are addresses",
                        "MIRAS_ERR_SIZE")
        tape = Tape(self, given, x, held, out, np.empty(size, np.float32))
        self._call("forward", x, y, pointer("tape", tape._floats))
        return out, tape

    def backward(self, tape: Tape, dy: Floats, *,
                 state: Optional[Floats] = None) -> Dict[str, Floats]:
        """The exact gradient of what record computed, from dy, that of its answers: by name those
        of key, value, query and gates, and "params", that of `params`. state: [grad_state_size],
        overwritten: in, the gradient by the state after the last token; out, by that before the
        first."""
        if tape.memory is not self:
            raise Refused("the tape is of another memory")
        fit("dy", dy, tape.shape)
        d = pointer("dy", dy)
        s = ffi.NULL
        if state is not None:
            s = pointer("state", state, write=True)
            fit("state", state, (self.grad_state_size,))
        grads = {name: np.empty_like(array) for name, array in tape.tokens.items()}
        grads["params"] = np.zeros(self.params.shape, np.float32)
        dx, held = ffi.new("miras_memory_input_grad *"), []
        for name, array in grads.items():
            held.append(pointer(name, array))
            if name != "params":
                setattr(dx, name, held[-1])
        self._call("backward", tape._x, pointer("tape", tape._floats), d, dx, held[-1], s)
        return grads

    @property
    def grad_state_size(self) -> int:
        """Numbers of a gradient by the state."""
        return int(lib.miras_memory_grad_state_size(self._c))

    # ---- what it holds ----

    @property
    def params(self) -> Floats:
        """The outer parameters in one block, an array onto the library's memory. A change of the
        initial memory holds from the next reset on."""
        block: Floats = self._block("params")
        return block

    def parts(self) -> Dict[str, Tuple[str, Shape]]:
        """By name the parts of one head: "parameter", "state" or "derived", and the shape."""
        kinds = {lib.MIRAS_PART_PARAMETER: "parameter", lib.MIRAS_PART_STATE: "state",
                 lib.MIRAS_PART_DERIVED: "derived"}
        view = ffi.new("miras_view *")
        found: Dict[str, Tuple[str, Shape]] = {}
        while True:
            kind = lib.miras_memory_part(self._c, len(found), view)
            if kind == lib.MIRAS_PART_NONE:
                return found
            found[text(view.name)] = kinds[kind], tuple(view.shape[0:view.rank])

    def _part(self, name: str) -> Shape:
        parts = self.parts()
        if name not in parts:
            raise Refused(f"there is no part {name}; there are {', '.join(parts)}")
        return parts[name][1]

    def get(self, name: str, sequence: int = 0, head: int = 0) -> Floats:
        """A copy of the part of that name of one sequence and head."""
        out, o = _room(None, self._part(name))
        self._ask_why("get", whole("sequence", sequence), whole("head", head),
                      words("a part", name), o)
        return out

    def set(self, name: str, array: npt.ArrayLike, sequence: int = 0, head: int = 0) -> None:
        """Set a part; the next token sees it."""
        part = numbers(name, array)
        fit(name, part, self._part(name))
        self._ask_why("set", whole("sequence", sequence), whole("head", head),
                      words("a part", name), pointer(name, part))

    # ---- states as sums ----

    def _snapshot(self, name: str, state: Bytes) -> Any:
        pointer(name, state, "unsigned char")
        fit(name, state, self.state.shape)
        return ffi.from_buffer("unsigned char[]", state.copy())

    def merge(self, start: Bytes, other: Bytes) -> None:
        """Hold what a memory does that went on from start, took all that this one has learned
        since, then all that the one with the state other has. Both are copies of `state`. Of
        memories whose state is a sum of what was written; others are refused, and
        `Ledger.append` writes their pairs again."""
        self._ask_why("merge", self._snapshot("start", start), self._snapshot("other", other))

    def difference(self, start: Bytes) -> None:
        """Hold what a memory does that began anew and took what this one has learned since start, a
        copy of `state`; of the same memories as merge."""
        self._ask_why("difference", self._snapshot("start", start))

    # ---- files and copies ----

    @classmethod
    def open(cls, path: Path, *, limit: int = 0, threads: int = 1) -> Memory:
        """The memory that a file holds."""
        name = path_of(path)
        os.stat(name)   # an OSError, if there is none
        self, why, result = cls.__new__(cls), sentence(), ffi.new("miras_result *")
        given = ffi.new("miras_memory_desc *", {"limit": whole("limit", limit, "size_t")})
        self._name = os.path.basename(os.path.abspath(name))
        self._pool = given.parallel = pool_of(threads)
        c = lib.miras_memory_open_file(os.fsencode(name), given, ffi.NULL, result, why, len(why))
        with about(name):
            check(result[0], why)
            self._begin(c, why, threads)
        return self

    @classmethod
    def from_bytes(cls, data: Buffer, *, seed: int = 0, limit: int = 0, threads: int = 1) -> Memory:
        """The memory that to_bytes has written."""
        d, self, block = ffi.new("miras_memory_desc *"), cls.__new__(cls), ffi.from_buffer(data)
        self._name = "of bytes"
        check(lib.miras_memory_desc_from(d, block, len(block)))
        self._open(d, seed, limit, threads)
        self._load_from(data)
        return self

    def fork(self) -> Memory:
        """A memory of its own that goes on from here."""
        again, made = self.__reduce__()
        return again(*made)

    def __reduce__(self) -> Tuple[Callable[..., Memory], Tuple[Any, ...]]:
        return _again, (type(self), self.to_bytes(), self._name,
                        dict(seed=self._d.seed, limit=self._d.limit, threads=self._threads))


class Entry(NamedTuple):
    """A write in a ledger: its number among all writes of that, what `Ledger.write` was told, the
    pair, and the surprise."""

    number: int
    when: int
    key: Floats
    value: Floats
    surprise: float


class Ledger(Held):
    """The last `writes` writes of a memory, and the state before them: what was learned can be
    shown, explained, forgotten to the bit, and written into another memory. ledger[i] is an
    `Entry`, the oldest first. Writes that are to be in it go through it; once something else has
    changed the memory, `holds` is False and its calls are refused."""

    _kind = "ledger"

    def __init__(self, memory: Memory, writes: int) -> None:
        if not isinstance(memory, Memory):
            raise TypeError(f"memory is of type {type(memory).__name__}; it must be a "
                            "miras.Memory")
        why = sentence()
        self.memory, self._name = memory, f"of {memory._name}"
        with memory._lock:
            self._hold(lib.miras_ledger_open(memory._c, whole("writes", writes), ffi.NULL, why,
                                             len(why)), why)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger is of one memory; it cannot be copied or pickled")

    def _shape(self) -> str:
        return f"{len(self)} writes"

    def _call(self, verb: str, *arguments: Any) -> None:
        with self.memory._lock:
            super()._call(verb, *arguments)

    def _ask_why(self, verb: str, *arguments: Any) -> None:
        with self.memory._lock:
            super()._ask_why(verb, *arguments)

    def write(self, key: npt.ArrayLike, value: npt.ArrayLike, when: int = 0) -> float:
        """`Memory.write`, which is also written down; when is yours."""
        of, surprise = self.memory, ffi.new("float *")
        k = of._row("key", key, of._asks["key"])[0]
        v = of._row("value", value, of._asks["value"])[0]
        self._call("write", k, v, whole("when", when, "uint64_t"), surprise)
        return float(surprise[0])

    def __len__(self) -> int:
        return int(lib.miras_ledger_count(self._c))

    def __getitem__(self, i: int) -> Entry:
        of, e = self.memory, ffi.new("miras_ledger_entry *")
        if not 0 <= i < len(self):
            raise IndexError(f"there are {len(self)} writes, and no {i}")
        self._call("get", i, e)
        pair = [np.array(window(self, at, without((of.batch, of.heads) + of._asks[name],
                                                  of._ones(1))))
                for name, at in (("key", e.key), ("value", e.value))]
        return Entry(int(e.number), int(e.when), pair[0], pair[1], float(e.surprise))

    @property
    def holds(self) -> bool:
        """Is the memory's state, bit for bit, what these writes make of the one before them?"""
        with self.memory._lock:
            return bool(lib.miras_ledger_holds(self._c))

    def explain(self, query: npt.ArrayLike) -> Tuple[Floats, Floats]:
        """Why does the memory say this? Its answer is rest, what was known before, + the sum over
        writes of weights [len(ledger), batch, heads, inner_steps] times the values written. Of
        memories whose answer is linear in these; others are refused."""
        of = self.memory
        q, left, _ = of._row("query", query, (of.key_dim,))
        steps = int(of._d.inner_steps)
        weights, w = _room(None, (len(self), of.batch, of.heads, steps))
        rest, r = _room(None, without((of.batch, of.heads, of.value_dim), left))
        self._ask_why("explain", q, w, r)
        return weights, rest

    def _gone(self, gone: Iterable[int]) -> Any:
        marks = ffi.new("unsigned char[]", len(self) + 1)
        for i in gone:
            if not 0 <= whole("gone", i) < len(self):
                raise IndexError(f"there are {len(self)} writes, and no {i}")
            marks[i] = 1
        return marks

    def without(self, gone: Iterable[int], query: npt.ArrayLike) -> Floats:
        """The answer that the memory would give had the writes of these places never been; it stays
        as it is."""
        of = self.memory
        q, left, _ = of._row("query", query, (of.key_dim,))
        out, o = _room(None, without((of.batch, of.heads, of.value_dim), left))
        self._call("without", self._gone(gone), q, o)
        return out

    def forget(self, gone: Iterable[int]) -> None:
        """Forget the writes of these places: the memory has the state, bit for bit, that it would
        have had without them."""
        self._call("forget", self._gone(gone))

    def append(self, other: Ledger) -> None:
        """Write what another ledger holds, of a memory with the same sizes."""
        if not isinstance(other, Ledger):
            raise TypeError(f"other is of type {type(other).__name__}; it must be a miras.Ledger")
        self._call("append", other._c)


def _again(kind: Type[Memory], data: bytes, name: str, made: Dict[str, int]) -> Memory:
    """What was copied or pickled."""
    self = kind.from_bytes(data, **made)
    self._name = name
    return self


def _room(out: Optional[Floats], shape: Shape) -> Tuple[Floats, Any]:
    """out, or new room of that shape, and the same as C takes it."""
    if out is None:
        out = np.empty(shape, np.float32)
    room = pointer("out", out, write=True)
    fit("out", out, shape)
    return out, room


def _apart(out: Floats, *arrays: Floats) -> None:
    if any(np.may_share_memory(out, array) for array in arrays):
        raise ValueError("out overlaps what is read")
