"""Models: gradients, training, running texts, files of examples/lm.c and of others, other rows."""
import copy
import gc
import inspect
import os
import pathlib
import pickle

import miras
import numpy as np
import pytest

ROOT = pathlib.Path(os.environ.get("MIRAS_ROOT") or pathlib.Path(__file__).resolve().parents[3])
in_checkout = pytest.mark.skipif(not (ROOT / "examples" / "weights").exists(),
                                 reason="no checkout is here: MIRAS_ROOT says where one is")


def small(preset="gated-deltanet", **fields):
    return miras.Model(preset, layers=2, **{"vocab": 17, "width": 16, "heads": 2, **fields})


def batch(seed, *shape, vocab=17):
    return np.random.default_rng(seed).integers(0, vocab, shape).astype(np.int32)


def nats(logits, targets):
    logits = logits.astype(float)
    logits = logits - logits.max(-1, keepdims=True)
    said = np.take_along_axis(logits, targets[..., None].astype(int), -1)[..., 0]
    return np.log(np.exp(logits).sum(-1)) - said


def test_gradient_and_step():
    m = small()
    t = miras.Trainer(m, batch=3, context=12, threads=2)
    x, y, step = batch(1, 3, 9), batch(2, 3, 9), 2e-3
    m.views["embed.weight"][...] *= 25     # behind a norm small ones curve the loss
    logits = np.empty((3, 9, 17), np.float32)
    loss = t.loss(x, y, outputs=logits)
    assert abs(loss - nats(logits, y).mean()) < 1e-5
    t.backward()
    for name, view in m.views.items():
        along = np.random.default_rng(3).standard_normal(view.shape).astype(np.float32)
        along /= np.linalg.norm(along)
        at = (view.__array_interface__["data"][0] - m.params.__array_interface__["data"][0]) // 4
        said = float((t.grads[at:at + view.size].reshape(view.shape) * along).sum())
        old, sides = view.copy(), []
        for side in (step, -step):
            view[...] = old + side * along
            sides.append(t.loss(x, y, train=False))
        view[...] = old
        assert abs(said - (sides[0] - sides[1]) / (2 * step)) < 2e-3 * (1 + abs(said)), name
    assert any(np.abs(t.grads) > 1e-3)
    with pytest.raises(miras.Error) as error:
        t.backward()
    assert error.value.result == "MIRAS_ERR_STATE"
    norm, before = np.linalg.norm(t.grads.astype(float)), m.params.copy()
    assert abs(t.step(1e-2, clip=1) / norm - 1) < 1e-4 and t.steps == 1
    assert (m.params != before).any() and not t.grads.any() and t.loss(x, y) < loss


def test_training_goes_on_from_a_file(tmp_path):
    x, y = batch(4, 2, 8), batch(5, 2, 8)

    def run(t, steps):
        for i in range(steps):
            t.loss(x, y)
            t.backward()
            last = t.step(miras.schedule_cosine(t.steps, 1, 20, 1e-2, 0.1), weight_decay=0.1)
        return last
    m, n = small(), small()
    assert m.train_only("*q.weight") < n.train_only("*") and m.train_only(None)
    t, u = (miras.Trainer(model, batch=2, context=8) for model in (m, n))
    before = t.loss(x, y, train=False)
    run(t, 10)
    assert t.loss(x, y, train=False) < 0.8 * before
    t.save(tmp_path / "t.safetensors")
    u.load(tmp_path / "t.safetensors")
    assert u.steps == 10 and run(t, 3) == run(u, 3)
    np.testing.assert_array_equal(m.params, n.params)
    m.save(tmp_path / "m.safetensors")
    o = miras.Model.open(tmp_path / "m.safetensors")
    assert {**o.fields, "heads": 2} == m.fields and o.vocabulary is None   # layers have theirs
    np.testing.assert_array_equal(o.params, m.params)
    with pytest.raises(miras.Refused, match="no parameter|matches no"):
        m.train_only("none*")


def test_what_moves_and_what_is_computed_again():
    r = np.random.default_rng(3)
    tokens = r.integers(0, 256, (2, 17)).astype(np.int32)
    x, y = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    grads = []
    for recompute, threads in (0, 1), (2, 1), (4, 2):
        model = miras.Model("gated-deltanet", layers=4, vocab=256, width=32, heads=2,
                            adapter__rank=2, adapters="*.q.weight")
        trainer = miras.Trainer(model, batch=2, context=16, only="*.adapter_*,*memory.init",
                                recompute=recompute, threads=threads)
        trainer.loss(x, y)
        trainer.backward()
        assert trainer.grad("embed.weight") is None
        b = trainer.grad("blocks.0.q.weight.adapter_b")
        assert b.shape == model.views["blocks.0.q.weight.adapter_b"].shape and b.any()
        assert b.base is not None and np.shares_memory(b, trainer.grads)
        again = pickle.loads(pickle.dumps(trainer))
        assert (again.grads == trainer.grads).all() and again._given == trainer._given
        grads.append(trainer.grads.copy())
        before = model.params.copy()
        trainer.step(1e-2)
        assert (model.params != before).sum() <= grads[0].size
    assert (grads[0] == grads[1]).all() and (grads[0] == grads[2]).all()
    model.merge()
    assert not model.views["blocks.0.q.weight.adapter_b"].any()
    for wrong, says in (dict(only="*.no"), "only"), (dict(recompute=5), "recompute is 5"):
        with pytest.raises(miras.Refused, match=says):
            miras.Trainer(model, context=8, **wrong)
    with pytest.raises(miras.Refused, match="no view"):
        trainer.grad("no")
    with pytest.raises(miras.Refused, match="adapter.rank is 0"):
        miras.Model("gla", layers=1, vocab=256, width=32, heads=2).merge()


def test_sessions(tmp_path):
    m = small("titans")
    x = batch(6, 1, 20)
    logits = np.empty((1, 20, 17), np.float32)
    miras.Trainer(m, context=20).loss(x, x, outputs=logits, train=False)
    s, threaded = miras.Session(m), miras.Session(m, threads=2, batch_tokens=5)
    steps = np.array([s.step(token) for token in x[0]])
    np.testing.assert_array_equal(steps, logits[0])
    np.testing.assert_array_equal(threaded.prefill(x[0]), steps[-1])
    assert s.position == 20 and s.hidden.shape == (16,)
    fork, path = s.fork(), tmp_path / "s.session"
    s.save(path)
    np.testing.assert_array_equal(fork.logits, steps[-1])
    want, snapshot = s.step(3), s.state.copy()
    np.testing.assert_array_equal(fork.step(3), want)
    loaded = miras.Session(m)
    loaded.load(path)
    np.testing.assert_array_equal(loaded.step(3), want)
    after = s.step(4)
    s.state[:] = snapshot
    np.testing.assert_array_equal(s.step(4), after)
    s.reset()
    assert abs(s.score(x[0, :-1], x[0, 1:]) - nats(logits[0, :-1], x[0, 1:]).sum()) < 1e-3
    with pytest.raises(miras.Refused, match="there are no outputs"):
        s.logits
    m.params[:] *= 0.5
    with pytest.raises(miras.Error) as error:
        loaded.load(path)
    assert error.value.result == "MIRAS_ERR_WEIGHTS"
    loaded.adopt(path)
    assert loaded.position == 20


def test_states_of_fewer_bits():
    """Rounded behind every call, the less the more bits; copies go on as they were."""
    m, x = small(), batch(7, 1, 24)[0]
    said = {}
    for states in ("float", "bf16", "f16", "int8", "int8_pair"):
        s = miras.Session(m, states=states)
        s.prefill(x[:16])
        said[states] = s.prefill(x[16:])
        for other in both(s) + (s.fork(),):
            np.testing.assert_array_equal(other.step(3), s.fork().step(3))
        text = miras.Session(m, states=states, threads=2)
        text.prefill(x[:16])
        np.testing.assert_array_equal(text.prefill(x[16:]), said[states])
    off = {name: np.abs(logits - said["float"]).max() for name, logits in said.items()}
    assert 0 < off["int8_pair"] < off["int8"] and 0 < off["f16"] < off["bf16"] < 0.1
    drawn = miras.Session(m, states="bf16", rounding="stochastic")
    drawn.prefill(x[:16])
    assert (drawn.prefill(x[16:]) != said["bf16"]).any()
    np.testing.assert_array_equal(miras.Session(m, states="float").prefill(x),
                                  miras.Session(m).prefill(x))
    with pytest.raises(miras.Refused, match="^states is int4; it must be one of float, bf16, f16, "
                                            "int8, int8_pair$"):
        miras.Session(m, states="int4")
    with pytest.raises(miras.Refused, match="^rounding is up; it must be one of nearest, "
                                            "stochastic$"):
        miras.Session(m, states="int8", rounding="up")
    with pytest.raises(miras.Refused, match="^rounding is stochastic, and states are float"):
        miras.Session(m, rounding="stochastic")


def test_products_of_bytes():
    """Rows in whole numbers: near the floats' answers, by any split; of short weights alone."""
    plain, x = small(width=64, vocab=97), batch(7, 1, 24)[0]
    m = miras.Model.from_bytes(plain.to_bytes(), weights="q8")
    s = miras.Session(m, products="int8")
    said = s.prefill(x)
    near = miras.Session(m).prefill(x)
    assert 0 < np.abs(said - near).max() < 0.1 * np.abs(near).max()
    again = miras.Session(m, products="int8", threads=2)
    for token in x:
        last = again.step(int(token))
    np.testing.assert_array_equal(said, last)
    np.testing.assert_array_equal(copy.deepcopy(s).step(3), s.step(3))
    with pytest.raises(miras.Refused, match="^products is int8; weights of the model must be q8"):
        miras.Session(plain, products="int8")


def both(thing):
    return copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))


def test_copies_and_pickles(tmp_path):
    m, x = small("titans", limit=1 << 30), batch(11, 2, 8)
    chosen = m.train_only("*memory.init*")
    t, s = miras.Trainer(m, batch=2, context=8, threads=2, carried=1), miras.Session(m)
    for _ in range(3):
        t.loss(x, x)
        t.backward()
        t.step(1e-2)
    logits = s.prefill(x[0])
    for n in both(m):
        assert type(n) is miras.Model and n.fields == m.fields and repr(n) == repr(m)
        np.testing.assert_array_equal(n.params, m.params)
        n.params[0] += 1
        assert n.params[0] != m.params[0]
        count = int((n.params != m.params).sum())
        u, before = miras.Trainer(n, batch=2, context=8), n.params.copy()
        u.loss(x, x)
        u.backward()
        u.step(1e-2)
        assert count == 1 and 0 < (n.params != before).sum() <= chosen < n.train_only(None)
    for model, r, u in both([m, s, t]) + both((m, s, t)):
        assert r.model is model and u.model is model is not m      # one of their own for both
        np.testing.assert_array_equal(r.logits, logits)
        np.testing.assert_array_equal(r.step(3), s.fork().step(3))
        assert u.steps == 3 and repr(u) == repr(t)
        u.loss(x, x)
        u.backward()
    t.loss(x, x)
    t.backward()
    for u in both(t):      # between a gradient and its step
        np.testing.assert_array_equal(u.grads, t.grads)
        np.testing.assert_array_equal(u.model.params, m.params)
        u.step(1e-2)
    r = copy.copy(s)
    assert r.model is m and r.position == s.position
    r.step(1)
    assert r.position == s.position + 1
    t.step(1e-2)
    np.testing.assert_array_equal(u.model.params, m.params)
    m.save(tmp_path / "m")
    assert m.to_bytes() == (tmp_path / "m").read_bytes()
    n = miras.Model.from_bytes(memoryview(m.to_bytes()), weights="bf16")
    assert n.fields["weights"] == "bf16" and both(n)[1].to_bytes() == n.to_bytes()
    with pytest.raises(miras.Error, match="limit"):
        miras.Model.from_bytes(m.to_bytes(), limit=1000)
    rows = small(vocab=0, inputs="category 3, vector 2", outputs="squared 2",
                 adapt__learning_rate=0.5, adapt__hidden=1)
    for n in both(rows):
        assert n.fields == rows.fields and n.row == rows.row


def test_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    m = small()
    t, s = miras.Trainer(m, context=4), miras.Session(m)
    s.step(1)
    for name in ("a", b"b", pathlib.Path("c"), os.fsdecode(b"d\xff"), b"e\xff.safetensors"):
        for one in (s, t, m):
            one.save(name)
            one.load(name)
        s.save("session")
        s.adopt("session")
        np.testing.assert_array_equal(miras.Model.open(name).params, m.params)
    with open(b"b.vocab", "w") as file:
        file.write("miras-lm 1\ncontext 8\nbytes\nmodel gated-deltanet\n")
    assert miras.Model.open(b"b").vocabulary is not None
    kept = sorted(os.listdir())
    for name in ("a\0", "a\0b", b"a\0", pathlib.Path("a\0")):
        for call in (s.save, s.load, s.adopt, t.save, t.load, m.save, m.load, miras.Model.open):
            with pytest.raises(ValueError, match="^embedded null byte$"):
                call(name)
    for call in (lambda: miras.Model.open("a", ignore="x\0"), lambda: m.train_only("*\0")):
        with pytest.raises(ValueError, match="embedded null character"):
            call()
    assert sorted(os.listdir()) == kept


def test_generation():
    m = small(seed=3)
    greedy, s = m.generate([1, 2], 8, temperature=0), miras.Session(m)
    logits = s.prefill([1, 2])
    for token in greedy:
        assert token == logits.argmax()
        logits = s.step(int(token))
    drawn = [m.generate([1, 2], 30, temperature=1, seed=seed).tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    for wrong, says in (([17], "out of range"), ([], "no row")):
        with pytest.raises(miras.Refused, match=says):
            m.generate(wrong, 3)
    with pytest.raises(miras.Refused, match="no token can be drawn"):
        m.generate([1], 3, temperature=-1)
    with pytest.raises(TypeError, match="whole numbers"):
        m.generate([0.5], 3)


def test_everything_keeps_its_model():
    t, s = (lambda m: (miras.Trainer(m, context=4), miras.Session(m)))(small())
    view = small().views["norm.gain"]
    gc.collect()
    junk = [np.full(1 << 16, np.nan, np.float32) for _ in range(20)]
    assert (view == 1).all() and np.isfinite(s.step(1)).all() and len(junk) == 20
    assert np.isfinite(t.loss(batch(7, 1, 4), batch(8, 1, 4)))
    grads, t = t.grads, None
    gc.collect()
    grads[:] = 0


def test_fields():
    m = small("yaad", pattern="mw", w__attention__window=8, **{"m.memory.chunk": 4})
    assert m.fields["w.attention.window"] == 8 and m.fields["m.memory.chunk"] == 4
    assert m.fields["width"] == 16 and m.fields["pattern"] == "mw"
    for fields, says in ((dict(memory__chnk=2), "no field memory.chnk; is it memory.chunk?"),
                         (dict(learning_rate=2), "is it memory.learning_rate?"),
                         (dict(vocab=1), "vocab is 1; it must lie in 2.."),
                         (dict(vocab=0), "vocab is 0; it must lie in 2.."),
                         (dict(layrs=2), "no field layrs; is it layers?"),
                         (dict(head=2), "no field head; is it heads?"),
                         (dict(limit=1000), "limit")):
        with pytest.raises(miras.Refused) as error:
            small("yaad", **fields)
        assert says in str(error.value)


@pytest.mark.parametrize("fields, says", [
    (dict(layers=2), "vocab is needed; it must lie in 2.."),
    (dict(layers=2, vocab=9), "width is needed; it must lie in 1..65536"),
    (dict(vocab=9, width=8), "layers is needed; it must lie in 1..256"),
    (dict(layers=-1, vocab=9, width=8), "layers is -1; it must lie in 1..256"),
    (dict(layers=1 << 40), f"layers is {1 << 40}; it must be below {1 << 31}"),
    (dict(layers=2, limit=-1), "limit is -1; it must not be negative"),
])
def test_what_is_needed(fields, says):
    with pytest.raises(miras.Refused) as error:
        miras.Model("titans", **fields)
    assert says in str(error.value)


def test_what_a_call_wants():
    m = small()
    t, s, x = miras.Trainer(m, batch=2, context=8), miras.Session(m), batch(12, 2, 8)
    high, ranges = np.full((2, 8), 17, np.int32), "tokens must lie in 0..16, and targets there or"
    refused, minus = miras.Refused, np.full((2, 8), -1, np.float32)
    s.step(1)
    for call, kind, says in (
            (lambda: miras.Trainer(None, context=8), TypeError, "model is of type NoneType"),
            (lambda: miras.Session(t), TypeError, "model is of type Trainer; it must be a miras.M"),
            (lambda: miras.Trainer(m, context=-1), refused, "context is -1; it must lie in 1.."),
            (lambda: miras.Trainer(m, context=8, batch=1 << 40), refused, "batch is 1099511627776"),
            (lambda: miras.Session(m, batch_tokens=-1), refused, "batch_tokens is -1; it must lie"),
            (lambda: t.loss(high, x), refused, ranges), (lambda: t.loss(x, high), refused, ranges),
            (lambda: t.loss(x, x, weights=minus), refused, "weights must be finite and not negat"),
            (lambda: t.loss(x, x, carry=np.zeros(2, np.int32)), refused, "carry takes different"),
            (lambda: t.loss(x[:0], x[:0]), ValueError, "there are 0 sequences of 8 rows"),
            (lambda: t.loss(x[:, :0], x[:, :0]), ValueError, "there are 2 sequences of 0 rows"),
            (lambda: t.step(1e9), refused, "learning_rate must lie in -1e6..1e6"),
            (lambda: t.step(1, beta1=1), refused, "beta1 and beta2 in 0..1 and below 1"),
            (lambda: m.train_only(""), refused, 'a pattern of "" matches no parameter'),
            (lambda: m.train_only(3), TypeError, "patterns is of type int; it must be a string"),
            (lambda: s.step(17), refused, ranges), (lambda: s.score([1], [17]), refused, ranges),
            (lambda: s.learn(), refused, "classes or values must be given"),
            (lambda: s.generate(-1), refused, "count is -1; it must not be negative"),
            (lambda: s.generate(1.5), TypeError, "count is of type float; it must be a whole numb"),
            (lambda: s.generate(1, seed=-1), refused, "seed is -1; it must not be negative"),
            (lambda: miras.schedule_cosine(-1, 1, 2, 3, 4), refused, "step is -1; it must not be"),
            (lambda: miras.Model.from_bytes(b"none"), miras.Error, "not a valid file")):
        with pytest.raises(kind) as error:
            call()
        assert says in str(error.value), says
    assert s.position == 1 and t.steps == 0


def test_rows_of_a_session_may_be_of_any_numbers():
    m = small(vocab=0, inputs="vector 2", outputs="squared 1, category 3",
              adapt__learning_rate=0.5, adapt__hidden=1)
    rows, (s, r) = np.array([[1.5, -2], [0, 3]]), (miras.Session(m), miras.Session(m))
    want = s.feed(vectors=rows.astype(np.float32))
    for given in (rows, rows.tolist(), np.asfortranarray(rows), rows.astype(">f8")):
        r.reset()
        np.testing.assert_array_equal(r.feed(vectors=given), want)
    s.learn(np.int32([2]), np.float32([0.5]))
    r.learn([2], [0.5])
    np.testing.assert_array_equal(r.state, s.state)
    with pytest.raises(ValueError, match=r"vectors has the shape \(1, 3\); it must be \(any, 2\)"):
        s.feed(vectors=[[1, 2, 3]])


def test_what_is_printed(tmp_path):
    m, path = small("yaad"), tmp_path / "m.safetensors"
    t, s = miras.Trainer(m, batch=3, context=4), miras.Session(m)
    s.step(1)
    m.save(path)
    assert repr(m) == "<miras.Model yaad: layers 2, width 16, vocab 17>"
    assert repr(t) == "<miras.Trainer of yaad: batch 3, context 4, steps 0>"
    assert repr(s) == "<miras.Session of yaad: position 1>"
    assert repr(miras.Model.open(path)) == repr(m).replace("yaad", path.name)
    rows = small(vocab=0, inputs="vector 3", outputs="squared 2")
    assert repr(rows).endswith("width 16, inputs vector 3, outputs squared 2>")
    for call in (m.save, m.load, t.save, t.load, s.save, s.load, s.adopt):
        with pytest.raises(miras.Error, match="none.x: a file could not be opened"):
            call(tmp_path / "none" / "x")


def test_help_explains_what_signatures_hold():
    """Arguments whose default is 0, and the names of types; an attribute's words stand alone."""
    for kind in (miras.Memory, miras.Model, miras.Trainer, miras.Session):
        for name, call in inspect.getmembers(kind, callable):
            if name.startswith("_") and name != "__init__":
                continue
            for argument in inspect.signature(call).parameters.values():
                if argument.default is not False and argument.default == 0:
                    said = kind.__doc__ + (call.__doc__ or "")
                    assert argument.name in said, (kind, name, argument)
    for name in ("Floats", "Ints", "Bytes", "Tokens", "Value", "Shape", "Path"):
        assert name in miras.__doc__, name
    assert "outputs" in miras.Session.hidden.__doc__


def test_rows_of_numbers():
    names = dict(vocab=0, inputs="category 3, standardized 2")
    m, raw = small(outputs="squared 2", **names), small(outputs="raw 2", **names)
    assert m.row == dict(tokens=1, vectors=2, outputs=2, classes=0, values=2)
    r = np.random.default_rng(9)
    kinds = batch(10, 2, 6, vocab=3)
    vectors, values = (r.normal(3, 2, (2, 6, 2)).astype(np.float32) for _ in range(2))
    m.standardize(vectors.reshape(-1, 2))
    raw.params[:] = m.params
    raw.standardize(vectors.reshape(-1, 2))
    t, u = miras.Trainer(m, batch=2, context=6), miras.Trainer(raw, batch=2, context=6)
    out = np.empty((2, 6, 2), np.float32)
    loss = t.loss(kinds, vectors=vectors, values=values, outputs=out)
    assert abs(loss - 0.5 * ((out - values) ** 2).sum(-1).mean()) < 1e-4
    t.backward()
    u.loss(kinds, vectors=vectors)
    u.backward(outputs=(out - values) / np.float32(12))
    np.testing.assert_allclose(u.grads, t.grads, rtol=1e-3, atol=1e-5)
    last = [miras.Session(m).feed(kinds[b], vectors[b]) for b in range(2)]
    np.testing.assert_array_equal(last, out[:, -1])
    for given, kind, says in ((dict(tokens=kinds), miras.Refused, "vectors is missing"),
                              (dict(tokens=kinds, targets=kinds, vectors=vectors), miras.Refused,
                               "targets is given; rows of this model have 0"),
                              (dict(tokens=kinds, vectors=vectors[:, 1:].copy()), ValueError,
                               "vectors has the shape"),
                              (dict(tokens=batch(1, 3, 6), vectors=r.random((3, 6, 2)).astype("f4"),
                                    values=r.random((3, 6, 2)).astype("f4")), ValueError,
                               "room for 2 of 6")):
        with pytest.raises(kind, match=says):
            t.loss(**given)


def test_vocabularies(tmp_path):
    path = tmp_path / "m.safetensors"
    small(vocab=4).save(path)
    with open(f"{path}.vocab", "w") as file:
        file.write("miras-lm 1\ncontext 8\ncharacters 4\n20 61 e9 1d11e\nmodel yaad\n")
    v = miras.Model.open(path).vocabulary
    assert v.decode(v.encode("a \u00e9\U0001d11e")) == "a \u00e9\U0001d11e"
    assert v.encode("a ").tolist() == [1, 0]
    with open(f"{path}.vocab", "w") as file:
        file.write("miras-lm 1\ncontext 8\ncharacters 5\n20 61\n")
    with pytest.raises(miras.Error, match="is no vocabulary of lm"):
        miras.Model.open(path)


@in_checkout
def test_a_file_of_lm():
    path = ROOT / "examples" / "weights" / "yaad.safetensors"
    m, short = miras.Model.open(path), miras.Model.open(path, weights="bf16")
    prompt = m.vocabulary.encode("It was the best of times, it was the worst of times. ")
    bits = [miras.Session(n).score(prompt[:-1], prompt[1:]) / len(prompt) / np.log(2)
            for n in (m, short)]
    assert 1 < bits[0] < 3.5 and abs(bits[1] - bits[0]) < 0.1 and bits[1] != bits[0]
    said = m.vocabulary.decode(m.generate(prompt, 40, temperature=0.5))
    assert len(said) == 40 and " " in said
    with pytest.raises(miras.Refused, match="weights is bf16"):
        short.params
    learns = miras.Model.open(path, adapt__learning_rate=1, adapt__hidden=1)
    assert learns.fields["adapt.hidden"] == 1
    s = miras.Session(learns)
    first = [s.score(prompt[:-1], prompt[1:]) for _ in range(8)]
    assert first[-1] < 0.8 * first[0]
    with pytest.raises(miras.Refused, match="adapt.hidden is 1, but the 0 of the file stays"):
        miras.Model.open(path, adapt__hidden=1)
    with pytest.raises(miras.Refused, match="width is 3, but a file"):
        miras.Model.open(path, width=3)
    with pytest.raises(miras.Error, match="limit"):
        miras.Model.open(path, limit=1000)


@in_checkout
@pytest.mark.parametrize("name", ["gated_deltanet", "mamba2", "rwkv7", "qwen3_next"])
def test_models_of_others(name):
    folder = ROOT / "tests" / "data" / "checkpoints" / name
    m = miras.Model.open(folder)
    tokens = [int(word) for word in (folder / "tokens.txt").read_text().split()]
    want = np.fromfile(folder / "logits.f32", "<f4").reshape(len(tokens), -1)
    s = miras.Session(m)
    got = np.array([s.step(token) for token in tokens])
    assert np.abs(got - want).max() < 2e-5 * want.std()
    for other in both(s):
        assert other.model.fields == m.fields
        np.testing.assert_array_equal(other.step(tokens[0]), s.fork().step(tokens[0]))


@in_checkout
def test_what_is_no_model(tmp_path):
    with pytest.raises(FileNotFoundError):
        miras.Model.open(tmp_path / "none")
    with pytest.raises(miras.Error, match=f"{tmp_path.name}: model.safetensors: it cannot be op"):
        miras.Model.open(tmp_path)
    with pytest.raises(miras.Refused, match="no field"):
        miras.Model.open(ROOT / "tests" / "data" / "checkpoints" / "gla", colour="red")
    with pytest.raises(miras.Error) as error:
        miras.Model.open(ROOT / "tests" / "data" / "0.3-yaad.session")
    assert error.value.result == "MIRAS_ERR_FORMAT"
