"""Models: create, train, run, save; those of examples/lm.c and other people's."""
from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

import numpy as np
import numpy.typing as npt

from ._core import (Buffer, Bytes, Error, Floats, Held, Ints, Path, Refused, Running, Shape, Value,
                    about, check, field_names, field_text, field_value, fit, instead, needed,
                    numbers, path_of, pointer, pool_of, preset_of, rows_of, sentence, set_fields,
                    text, whole, window, words)
from ._miras import ffi, lib

Tokens = Union[Ints, Sequence[int], bytes]


class Vocabulary:
    """The tokens of a model of examples/lm.c: bytes, or the characters in the file MODEL.vocab."""

    def __init__(self, path: Optional[Path] = None) -> None:
        self.characters: Optional[str] = None
        if path is None:
            return
        name = path_of(path)
        with open(name, encoding="ascii", errors="replace") as file:
            said = re.match(r"miras-lm 1\ncontext \d+\n(bytes|characters (\d+)\s+"
                            r"((?:[0-9a-f]+\s+)+))", file.read())
        codes = [int(code, 16) for code in said[3].split()] if said and said[2] else []
        if not said or len(codes) != int(said[2] or 0):
            raise Error(f"{name} is no vocabulary of lm", "MIRAS_ERR_FORMAT")
        if codes:
            self.characters = "".join(map(chr, codes))

    def encode(self, said: str) -> Ints:
        """Text as tokens; KeyError of a character that the model does not know."""
        if self.characters is None:
            return np.frombuffer(said.encode(), np.uint8).astype(np.int32)
        places = {c: i for i, c in enumerate(self.characters)}
        return np.array([places[c] for c in said], np.int32)

    def decode(self, tokens: Tokens) -> str:
        """Tokens as text; bytes that are no UTF-8 become the replacement character."""
        if self.characters is None:
            return bytes(int(t) for t in tokens).decode(errors="replace")
        return "".join(self.characters[t] for t in tokens)


def _tokens(tokens: Tokens) -> Ints:
    """One row of tokens, copied to int32."""
    given = np.frombuffer(tokens, np.uint8) if isinstance(tokens, bytes) else np.asarray(tokens)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError("tokens must be one row of whole numbers, or bytes")
    row = given.astype(np.int32)
    if not np.array_equal(row, given):
        raise ValueError("a token does not fit into 32 bits")
    return row


class Model(Held):
    """A network of a preset: `Model("titans", layers=2, vocab=256, width=128, heads=4)`. layers may
    be 0 where `pattern` says how many there are.

    Keywords are fields of miras_model_desc; in names `__` stands for a dot: `memory__chunk=16`,
    `w__attention__window=64`. limit: most bytes that the model, or a session of it, may take; 0:
    any. `row` says how many numbers a row has: tokens, vectors; outputs; classes and values, its
    targets. `vocabulary`: of a model that was opened, if it has one."""

    _kind = "model"

    def __init__(self, preset: str, *, layers: int = 0, limit: int = 0, **fields: Value) -> None:
        d, why = ffi.new("miras_model_desc *"), sentence()
        check(lib.miras_model_preset(d, preset_of(preset), whole("layers", layers)))
        set_fields("model", d, fields, "layers", "heads", "weights", "limit")
        d.limit = whole("limit", limit, "size_t")
        self._name = preset
        with needed({**fields, "layers": layers} if layers else fields):
            self._begin(lib.miras_model_open(d, ffi.NULL, why, len(why)), why)

    def _begin(self, c: Any, why: Any) -> None:
        self._hold(c, why)
        self._d, self._only = lib.miras_model_desc_of(self._c), ffi.NULL
        self._ranges = ("tokens must be categories of inputs, and targets those of outputs or -1"
                        if self._d.inputs[0] != b"\0" or self._d.outputs[0] != b"\0" else
                        f"tokens must lie in 0..{self._d.vocab - 1}, and targets there or be -1")
        row = lib.miras_model_row(self._c)
        self.vocabulary: Optional[Vocabulary] = None
        self.width = int(self._d.width)
        self.row: Dict[str, int] = {name: getattr(row, name)
                                    for name, _ in ffi.typeof("miras_row").fields}

    def _shape(self) -> str:
        rows = [f"vocab {self._d.vocab}"] if self._d.vocab else []
        rows += [f"{name} {said}" for name, said in (("inputs", text(self._d.inputs)),
                                                     ("outputs", text(self._d.outputs))) if said]
        return ", ".join([f"layers {self._d.layers}", f"width {self.width}"] + rows)

    @classmethod
    def open(cls, path: Path, *, weights: str = "float", limit: int = 0, window: int = 0,
             ignore: str = "", **fields: Value) -> Model:
        """The model in a file of examples/lm.c or `save`, with its vocabulary; or in a folder as
        Hugging Face has them (config.json and safetensors), or one such file.

        weights: float, bf16, f16, q8 or q4, how matrices are held. limit: set one for files of
        others.
        Of models of others, window: tokens that attention sees at most, 0: what the model says;
        ignore: fields of config.json that count as not there. Fields of a file of one's own:
        adapt__learning_rate and others of adapt, and memory__reset_every."""
        path = path_of(path)
        os.stat(path)   # an OSError, if there is none
        d, self = ffi.new("miras_model_desc *"), cls.__new__(cls)
        self._name = os.path.basename(os.path.abspath(path))
        name, why, result = os.fsencode(path), sentence(), ffi.new("miras_result *")
        skip = words("ignore", ignore) if ignore else ffi.NULL
        window, limit = whole("window", window), whole("limit", limit, "size_t")
        set_fields("model", d, {"weights": weights})
        d.limit, held = limit, d.weights
        if not os.path.isdir(path):
            for field, value in fields.items():
                if not field.replace("__", ".").startswith(("adapt.", "memory.reset_every")):
                    raise Refused(f"{field} is {value}, but a file has its own; fields of adapt, "
                                  "and memory.reset_every, may be given")
            set_fields("model", d, fields)
            c = lib.miras_model_open_file(name, d, ffi.NULL, result, why, len(why))
            if result[0] != lib.MIRAS_ERR_FORMAT or not name.endswith(b".safetensors"):
                with about(path):
                    check(result[0], why)
            if c != ffi.NULL:
                self._begin(c, why)
                self._read_vocabulary(path + ".vocab")
                if window or ignore:
                    raise Refused("window and ignore are for models of others, and this is a file "
                                  "of miras.h")
                for field in (field.replace("__", ".") for field in fields):
                    asked, found = (field_text("model", of, field) for of in (d, self._d))
                    if asked != found:
                        raise Refused(f"{field} is {asked}, but the {found} of the file stays: "
                                      "adapt needs a learning_rate, and 0 is what the file says")
                return self
        d = ffi.new("miras_model_desc *", {"limit": limit, "weights": held})
        with about(path):
            check(lib.miras_checkpoint_desc(d, name, skip, ffi.NULL, why, len(why)), why)
        for layer in d.layer:
            if 0 < window < layer.attention.window:
                layer.attention.window = window
        set_fields("model", d, fields)
        with about(path):
            self._begin(lib.miras_checkpoint_open(d, name, skip, ffi.NULL, why, len(why)), why)
        return self

    @classmethod
    def from_bytes(cls, data: Buffer, *, weights: str = "float", limit: int = 0) -> Model:
        """The model that to_bytes has written; weights and limit as in `open`."""
        return cls._of_bytes(data, "of bytes", limit, {"weights": weights})

    @classmethod
    def _of_bytes(cls, data: Buffer, name: str, limit: int, beside: Mapping[str, Value]) -> Model:
        """beside: fields that are not in files."""
        d, why, self = ffi.new("miras_model_desc *"), sentence(), cls.__new__(cls)
        self._name, block = name, ffi.from_buffer(data)
        check(lib.miras_model_desc_from(d, block, len(block)))
        set_fields("model", d, beside)
        d.limit = whole("limit", limit, "size_t")
        self._begin(lib.miras_model_open_empty(d, ffi.NULL, why, len(why)), why)
        self._load_from(data)
        return self

    def __reduce__(self) -> Tuple[Callable[..., Model], Tuple[Any, ...]]:
        beside = {name: field_text("model", self._d, name) for name in ("weights", "heads")}
        only = None if self._only == ffi.NULL else self._only.decode()
        return _again, (type(self), self.to_bytes(), self._name, self._d.limit, beside,
                        self.vocabulary, only)

    def _read_vocabulary(self, path: str) -> None:
        if os.path.exists(path):
            self.vocabulary = Vocabulary(path)
        elif self._d.vocab == 256:
            self.vocabulary = Vocabulary()

    @property
    def fields(self) -> Dict[str, Value]:
        """Every field of the descriptor, defaults filled in; of several kinds of layer with their
        letters, "w.attention.window"."""
        pattern = text(self._d.pattern)
        letters = [layer.letter.decode() for layer in self._d.layer
                   if layer.letter != b"\0" and layer.letter.decode() in pattern]
        found: Dict[str, Value] = {}
        for name in field_names("model") + ("heads", "weights"):
            said = {f"{letter}.{name}": field_text("model", self._d, f"{letter}.{name}")
                    for letter in letters}
            if not any(said.values()):
                said = {name: field_text("model", self._d, name)}
            found.update((key, field_value(value)) for key, value in said.items()
                         if value is not None)
        return found

    @property
    def params(self) -> Floats:
        """All parameters in one block, an array onto the library's memory; between the views lie
        zeros that must stay so. Refused where weights are not float."""
        if self._d.weights != lib.MIRAS_WEIGHTS_FLOAT:
            raise Refused(f"weights is {self.fields['weights']}; params and views need float")
        block: Floats = self._block("params")
        return block

    @property
    def views(self) -> Dict[str, Floats]:
        """The parameters by name, each an array onto the library's memory in its shape."""
        block = self.params
        return {text(v.name): block[v.offset:v.offset + v.count].reshape(tuple(v.shape[0:v.rank]))
                for v in self._views()}

    def _views(self) -> List[Any]:
        count = ffi.new("int *")
        first = lib.miras_model_views(self._c, count)
        return [first + i for i in range(count[0])]

    def train_only(self, patterns: Optional[str]) -> int:
        """Steps of trainers change only parameters whose names match, as "*memory.init,*gates.*";
        None: all again. How many numbers those are."""
        only = ffi.NULL if patterns is None else words("patterns", patterns)
        with self._lock:
            count = lib.miras_model_train_only(self._c, only)
            if not count:
                raise Refused(f'a pattern of "{patterns}" matches no parameter')
            self._only = only
        return int(count)

    def merge(self) -> None:
        """What adapters add becomes part of the matrices that they are beside."""
        with instead("adapter.rank is 0: the model has no adapters"):
            self._call("merge")

    def standardize(self, vectors: Floats) -> None:
        """Take rows [rows, vectors] into the means and deviations of inputs "standardized"."""
        x, (rows,) = rows_of("vectors", vectors, (-1,), self.row["vectors"])
        with instead("inputs has no item standardized"):
            self._call("standardize", x, rows)

    def predict(self, outputs: Floats) -> None:
        """Turn outputs [rows, outputs] in place into what they say: probabilities, deviations."""
        x, (rows,) = rows_of("outputs", outputs, (-1,), self.row["outputs"], write=True)
        lib.miras_model_predict(self._c, x, rows)

    def generate(self, prompt: Tokens, count: int, *, temperature: float = 0.8, top_k: int = 0,
                 top_p: float = 0, seed: int = 1) -> Ints:
        """The tokens that follow the prompt; temperature, top_k, top_p and seed are those of
        `Session.generate`."""
        session = Session(self)
        session.prefill(prompt)
        return session.generate(count, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)


def _again(kind: Type[Model], data: bytes, name: str, limit: int, beside: Mapping[str, Value],
           vocabulary: Optional[Vocabulary], only: Optional[str]) -> Model:
    """What was copied or pickled."""
    self = kind._of_bytes(data, name, limit, beside)
    self.vocabulary = vocabulary
    if only is not None:
        self.train_only(only)
    return self


def _model_of(model: Any) -> Any:
    if not isinstance(model, Model):
        raise TypeError(f"model is of type {type(model).__name__}; it must be a miras.Model")
    return model._c


class Trainer(Held):
    """What trains a model: Trainer(model, batch=32, context=64). batch and context: the most
    sequences, and rows of each, of a step; carried: running texts whose states go on from step to
    step, 0: none; limit: most bytes that it may take, 0: any; only: patterns of what it moves, as
    "*.adapter_*" or "*memory.init", for which alone there are gradients; recompute: so many layers
    are computed again by backward, to take less memory. threads and recompute change no bit."""

    _kind = "trainer"

    def __init__(self, model: Model, *, batch: int = 1, context: int, carried: int = 0,
                 limit: int = 0, threads: int = 1, only: Optional[str] = None,
                 recompute: int = 0) -> None:
        d, why = ffi.new("miras_trainer_desc *"), sentence()
        patterns = ffi.NULL if only is None else ffi.new("char[]", words("only", only))
        d.only, d.recompute = patterns, whole("recompute", recompute)
        d.batch, d.context = whole("batch", batch), whole("context", context)
        d.carried, d.limit = whole("carried", carried), whole("limit", limit, "size_t")
        self._pool = d.parallel = pool_of(threads)
        self._hold(lib.miras_trainer_open(_model_of(model), d, ffi.NULL, why, len(why)), why)
        self.model, self._name = model, f"of {model._name}"
        self._last: Shape = (0, 0)
        self.batch, self.context = max(d.batch, 1), int(d.context)
        self._given = {"batch": self.batch, "context": self.context, "carried": int(d.carried),
                       "limit": int(d.limit), "threads": threads, "only": only,
                       "recompute": int(d.recompute)}

    def __reduce__(self) -> Tuple[Callable[..., Trainer], Tuple[Any, ...]]:
        grads = self.grads.copy() if self.grads.any() else None
        return _trainer_again, (type(self), self.model, self.to_bytes(), grads, self._given)

    def _shape(self) -> str:
        return f"batch {self.batch}, context {self.context}, steps {self.steps}"

    def loss(self, tokens: Optional[Ints] = None, targets: Optional[Ints] = None, *,
             vectors: Optional[Floats] = None, values: Optional[Floats] = None,
             weights: Optional[Floats] = None, carry: Optional[Ints] = None,
             restart: Optional[Bytes] = None, outputs: Optional[Floats] = None,
             hidden: Optional[Floats] = None, train: bool = True) -> float:
        """The mean loss in nats of targets [batch, T] given tokens [batch, T], int32; a target of
        -1 is left out. With train it keeps what backward needs. Of models of other rows: tokens,
        vectors, targets and values [batch, T, how many], and NaN of values is left out. weights
        [batch, T] say how much a row counts in the mean (all alike are as none); carry and restart
        [batch] as in miras_batch; outputs (the logits) and hidden [batch, T, ..] are
        written to."""
        row = self.model.row
        shape: Shape = (-1, -1)
        x, held, loss = ffi.new("miras_batch *"), [], ffi.new("float *")
        for field, name, array, kind in (
                ("tokens", "tokens", tokens, "int32_t"), ("vectors", "vectors", vectors, "float"),
                ("classes", "targets", targets, "int32_t"), ("values", "values", values, "float"),
                ("outputs", "outputs", outputs, "float"), ("hidden", "hidden", hidden, "float"),
                ("weights", "weights", weights, "float"), ("carry", "carry", carry, "int32_t"),
                ("restart", "restart", restart, "unsigned char")):
            asked = field in row and field != "outputs"
            if array is not None or (asked and row[field]):
                each = {"hidden": self.model.width, **row}.get(field, 1)
                wants = shape[:1] if field in ("carry", "restart") else shape
                block, found = rows_of(name, array, wants, each, kind, field in
                                       ("outputs", "hidden"))
                shape = (found + shape[1:])[:2]
                held.append(block)
                setattr(x, field, block)
        if not (0 < shape[0] <= self.batch and 0 < shape[1] <= self.context):
            raise ValueError(f"there are {shape[0]} sequences of {shape[1]} rows; the trainer has "
                             f"room for {self.batch} of {self.context}, and needs one")
        if restart is not None and carry is None:
            raise Refused("restart is given, and nothing is carried")
        x.batch, x.length = shape
        odd = "; weights must be finite and not negative" if weights is not None else ""
        if carry is not None:
            odd += ("; carry takes different places of carried states, or -1, and rows as a "
                    "multiple of the chunk, with train")
        with instead(self.model._ranges + odd):
            self._call("loss", x, bool(train), loss)
        self._last = shape
        return float(loss[0])

    def backward(self, *, outputs: Optional[Floats] = None,
                 hidden: Optional[Floats] = None) -> None:
        """Add the gradient of the last loss to grads. outputs, hidden: the gradient of a loss of
        one's own by these, in their shapes, to be added."""
        g, held = ffi.new("miras_batch_grad *"), []
        for name, array, count in (("outputs", outputs, self.model.row["outputs"]),
                                   ("hidden", hidden, self.model.width)):
            if array is not None:
                held.append(rows_of(name, array, self._last, count)[0])
                setattr(g, name, held[-1])
        self._call("backward", g)

    def step(self, learning_rate: float, *, weight_decay: float = 0, clip: float = 0,
             beta1: float = 0.9, beta2: float = 0.95, epsilon: float = 1e-8) -> float:
        """Clip the gradients to the norm clip (0: do not), one step of AdamW (weight_decay 0: of
        Adam), and set them to zero. Their norm before clipping; if that is not finite no step was
        made."""
        o = ffi.new("miras_adamw_options *", [beta1, beta2, epsilon, weight_decay, clip])
        norm = ffi.new("float *")
        with instead("learning_rate must lie in -1e6..1e6, beta1 and beta2 in 0..1 and below 1, "
                     "weight_decay in 0..1e6, epsilon and clip must not be negative"):
            self._call("step", o, learning_rate, norm)
        return float(norm[0])

    @property
    def grads(self) -> Floats:
        """The gradients, onto the library's memory: in the layout of the model's params or, of a
        trainer that does not move all, of what it moves, view by view (`grad`)."""
        first, found = lib.miras_trainer_grads(self._c), []
        views = self.model._views()
        for view in views:
            at = lib.miras_trainer_grad(self._c, view)
            if at != ffi.NULL:
                found.append(at - first + view.count)
        shape = self.model.params.shape if len(found) == len(views) else (max(found),)
        block: Floats = window(self, first, shape)
        return block

    def grad(self, name: str) -> Optional[Floats]:
        """The gradient of the view of that name, onto the library's memory; None if this trainer
        does not move it."""
        view = lib.miras_model_view(self.model._c, words("a view", name))
        if view == ffi.NULL:
            raise Refused(f"there is no view {name}")
        at = lib.miras_trainer_grad(self._c, view)
        shape = tuple(view.shape[0:view.rank])
        return None if at == ffi.NULL else window(self, at, shape)

    @property
    def steps(self) -> int:
        """Steps taken so far, those before a save too."""
        return int(lib.miras_trainer_steps(self._c))


def _trainer_again(kind: Type[Trainer], model: Model, data: bytes, grads: Optional[Floats],
                   given: Dict[str, Any]) -> Trainer:
    """What was copied or pickled."""
    self = kind(model, **given)
    self._load_from(data)
    if grads is not None:
        self.grads[:] = grads
    return self


def schedule_cosine(step: int, warmup: int, steps: int, peak: float, floor: float) -> float:
    """The learning rate at step: linear warm-up to peak, then a cosine down to floor * peak."""
    return float(lib.miras_schedule_cosine(
        whole("step", step, "uint64_t"), whole("warmup", warmup, "uint64_t"),
        whole("steps", steps, "uint64_t"), peak, floor))


def _choice(name: str, said: str) -> int:
    """A word for one of the enumeration miras_NAME: "int8_pair" is MIRAS_STATES_INT8_PAIR."""
    begin = f"MIRAS_{name.upper()}_"
    known = {one[len(begin):].lower(): number
             for one, number in ffi.typeof(f"miras_{name}").relements.items()}
    del known["count"]
    if said not in known:
        raise Refused(f"{name} is {said}; it must be one of "
                      + ", ".join(sorted(known, key=known.__getitem__)))
    return int(known[said])


class Session(Running):
    """One running text of a model. batch_tokens are worked on together, 0: 64; limit: most bytes
    that it may take, 0: any; threads change no bit. states: float, bf16, f16, int8 or int8_pair,
    what memories' numbers are rounded to behind every call, and rounding: nearest or stochastic,
    to which of two; the room that a state takes stays that of floats. products: float, or int8 of
    models in q8 and q4, whose rows then become whole numbers of 8 bits. Arrays that are returned
    are copies: the library uses its room again with the next token."""

    _kind = "session"

    def __init__(self, model: Model, *, batch_tokens: int = 0, limit: int = 0, threads: int = 1,
                 states: str = "float", rounding: str = "nearest",
                 products: str = "float") -> None:
        d, why = ffi.new("miras_session_desc *"), sentence()
        d.batch_tokens = whole("batch_tokens", batch_tokens)
        d.limit = whole("limit", limit, "size_t")
        d.states, d.rounding = _choice("states", states), _choice("rounding", rounding)
        d.products = _choice("products", products)
        if d.rounding and not d.states:
            raise Refused(f"rounding is {rounding}, and states are float, which nothing rounds; "
                          "they must be bf16, f16, int8 or int8_pair")
        self._pool = d.parallel = pool_of(threads)
        self._hold(lib.miras_session_open(_model_of(model), d, ffi.NULL, why, len(why)), why)
        self.model, self._name = model, f"of {model._name}"
        self._given = {"batch_tokens": d.batch_tokens, "limit": int(d.limit), "threads": threads,
                       "states": states, "rounding": rounding, "products": products}

    def _shape(self) -> str:
        return f"position {self.position}"

    def _copy(self, row: Any, name: str) -> Floats:
        if row == ffi.NULL:
            raise Refused("there are no outputs: before the first row, or after reset, score, or a "
                          "look at state")
        count = self.model.width if name == "hidden" else self.model.row["outputs"]
        return np.array(window(self, row, (count,)))

    def feed(self, tokens: Optional[Tokens] = None,
             vectors: Optional[npt.ArrayLike] = None) -> Floats:
        """Feed rows, tokens [rows, tokens] and vectors [rows, vectors]; the outputs after the last.
        Of a model of words tokens are a row of whole numbers, or bytes; they are copied."""
        row, held, count = self.model.row, [ffi.NULL, ffi.NULL], (-1,)
        given: Any = tokens
        if tokens is not None and row["tokens"] == 1 and np.ndim(given) < 2:
            given = _tokens(tokens)
        for i, (name, array) in enumerate((("tokens", given), ("vectors", vectors))):
            if array is not None or row[name]:
                if i and array is not None:
                    array = numbers(name, array)
                held[i], found = rows_of(name, array, count, row[name], ("int32_t", "float")[i])
                count = (found[0],)
        with self._lock:
            said = lib.miras_session_feed(self._c, *held, *count)
            if said == ffi.NULL:
                raise Refused("there is no row, or a token is out of range: "
                              f"{self.model._ranges}")
            return self._copy(said, "outputs")

    def prefill(self, tokens: Tokens) -> Floats:
        """Feed many tokens; the logits after the last."""
        return self.feed(tokens)

    def step(self, token: int) -> Floats:
        """Feed one token; the logits of the next."""
        return self.feed([token])

    def score(self, tokens: Tokens, targets: Tokens) -> float:
        """Feed tokens; the summed cross entropy in nats of the targets, -1 left out."""
        x, y, loss = _tokens(tokens), _tokens(targets), ffi.new("double *")
        fit("targets", y, x.shape)
        with instead(f"{self.model._ranges}; a score is of models of words"):
            self._call("score", pointer("tokens", x, "int32_t"), pointer("targets", y, "int32_t"),
                       len(x), loss)
        return float(loss[0])

    def learn(self, classes: Optional[Tokens] = None,
              values: Optional[npt.ArrayLike] = None) -> None:
        """What came of the last row, for a model whose head learns (adapt)."""
        given = (("classes", None if classes is None else _tokens(classes), "int32_t"),
                 ("values", None if values is None else numbers("values", values), "float"))
        with instead(f"classes or values must be given; {self.model._ranges}"):
            self._call("learn", *(
                ffi.NULL if array is None else
                rows_of(name, array, (), self.model.row[name], kind)[0]
                for name, array, kind in given))

    def generate(self, count: int, *, temperature: float = 0.8, top_k: int = 0, top_p: float = 0,
                 seed: int = 1) -> Ints:
        """So many tokens that follow. temperature: 0 takes the likeliest, others draw:
        top_k: from so many of the likeliest, 0: from all; top_p: from the likeliest that have
        this probability together, 0 or 1: from all. The same seed draws the same."""
        how = ffi.new("miras_sampler *", [temperature, whole("top_k", top_k), top_p,
                                          whole("seed", seed, "uint64_t")])
        found: List[int] = []
        count = whole("count", count, "size_t")
        vocab = self.model.row["outputs"]
        with self._lock:
            logits = self.logits
            while len(found) < count:
                token = lib.miras_sampler_sample(how, pointer("logits", logits), vocab)
                if token == lib.MIRAS_SAMPLER_NONE:
                    raise Refused("no token can be drawn: temperature, top_k or top_p is out of "
                                  "its range, or no logit is a number")
                found.append(token)
                logits = self.step(token)
        return np.array(found, np.int32)

    @property
    def logits(self) -> Floats:
        """The outputs of the last row."""
        with self._lock:
            return self._copy(lib.miras_session_logits(self._c), "outputs")

    @property
    def hidden(self) -> Floats:
        """What the last row's outputs were made of, [width]."""
        with self._lock:
            return self._copy(lib.miras_session_hidden(self._c), "hidden")

    def adopt(self, path: Path) -> None:
        """As load, under whatever weights of that descriptor, which load refuses."""
        with self._lock:
            lib.miras_session_adopt(self._c, 1)
            try:
                self.load(path)
            finally:
                lib.miras_session_adopt(self._c, 0)

    def fork(self) -> Session:
        """A text of its own that goes on from here, of the same model."""
        again, made = self.__reduce__()
        return again(*made)

    def __reduce__(self) -> Tuple[Callable[..., Session], Tuple[Any, ...]]:
        return _session_again, (type(self), self.model, self.to_bytes(), self._given)


def _session_again(kind: Type[Session], model: Model, data: bytes,
                   given: Dict[str, Any]) -> Session:
    """What was copied or pickled."""
    self = kind(model, **given)
    self._load_from(data)
    return self
