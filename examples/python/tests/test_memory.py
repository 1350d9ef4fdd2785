"""Memories: against recurrences in double, finite differences, files, lifetimes, refusals."""
import copy
import gc
import os
import pathlib
import pickle
import signal
import threading
import time
import warnings
import weakref

import miras
import numpy as np
import pytest

B, T, H, K, V = 2, 11, 3, 6, 4
PLAIN = dict(qk_norm="none", step_bound="auto")


def draw(seed, *shapes):
    r = np.random.default_rng(seed)
    return [r.standard_normal(shape).astype(np.float32) for shape in shapes]


def tokens(seed, k=K, v=V, b=B, t=T, h=H):
    return draw(seed, (b, t, h, k), (b, t, h, v), (b, t, h, k))


def recurrence(key, value, query, write):
    """y of a matrix S [key_dim, value_dim] per sequence and head, in double; write(S, k, v, at)
    returns the next S."""
    y = np.zeros(value.shape)
    for b, h in np.ndindex(value.shape[0], value.shape[2]):
        s = np.zeros((key.shape[-1], value.shape[-1]))
        for t in range(key.shape[1]):
            s = write(s, key[b, t, h].astype(float), value[b, t, h].astype(float), (b, t, h))
            y[b, t, h] = query[b, t, h].astype(float) @ s
    return y


def test_linear_attention():
    m = miras.Memory("linear-attention", batch=B, heads=H, key_dim=K, value_dim=V, normalize=0,
                     feature_map="none", **PLAIN)
    key, value, query = tokens(1)
    want = recurrence(key, value, query, lambda s, k, v, at: s + np.outer(k, v))
    np.testing.assert_allclose(m.forward(key, value, query), want, rtol=1e-5, atol=1e-5)
    assert m.position == T


def test_gated_deltanet():
    m = miras.Memory("gated-deltanet", batch=B, heads=H, key_dim=K, value_dim=V, chunk=4,
                     learning_rate=1, decay_rate=0, decay_target="zero", decay_gate="head",
                     learning_rate_gate="head", **PLAIN)
    key, value, query = tokens(2)
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    r = np.random.default_rng(3)
    decay, rate = (r.uniform(0.3, 1, (B, T, H)).astype(np.float32) for _ in range(2))

    def write(s, k, v, at):
        s = float(decay[at]) * s
        return s + float(rate[at]) * np.outer(k, v - k @ s)
    want = recurrence(key, value, query, write)
    got = m.forward(key, value, query, keep=decay, learning_rate=rate)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_gradient_of_a_perceptron():
    m = miras.Memory("titans", batch=B, heads=2, key_dim=4, expansion=2, chunk=4,
                     momentum_gate="head")
    key, value, query = tokens(4, k=4, v=4, h=2)
    given = dict(key=key, value=value, query=query,
                 momentum=np.random.default_rng(5).uniform(0, 0.9, (B, T, 2)).astype(np.float32))
    dy, = draw(6, value.shape)
    initial = m.params.copy()
    assert initial.any()

    def loss():
        m.reset()
        return float((m.forward(**given).astype(float) * dy).sum())
    _, tape = m.record(**given)
    grads = m.backward(tape, dy)
    assert set(grads) == {"key", "value", "query", "momentum", "params"}
    for name, grad in grads.items():
        array = m.params if name == "params" else given[name]
        along, = draw(7, array.shape)
        along /= np.linalg.norm(along)
        old, step, sides = array.copy(), 4e-3, []
        for side in (step, -step):
            array[...] = old + side * along
            sides.append(loss())
        array[...] = old
        want = (sides[0] - sides[1]) / (2 * step)
        np.testing.assert_allclose((grad.astype(float) * along).sum(), want, rtol=5e-3, atol=2e-3)


def test_gradient_of_the_state():
    """A sequence in two calls: what the second says of its beginning goes into the first."""
    names = dict(batch=B, heads=H, key_dim=K, value_dim=V)
    m, whole = (miras.Memory("deltanet", **names) for _ in range(2))
    given, (dy,) = tokens(8, t=8), draw(9, (B, 8, H, V))
    y, tape = whole.record(*given)
    want = whole.backward(tape, dy)
    halves = [[np.ascontiguousarray(a[:, part]) for a in given + [dy]]
              for part in (slice(0, 4), slice(4, 8))]
    tapes = [m.record(*half[:3]) for half in halves]
    np.testing.assert_array_equal(np.concatenate([tapes[0][0], tapes[1][0]], axis=1), y)
    state = np.zeros(m.grad_state_size, np.float32)
    second = m.backward(tapes[1][1], halves[1][3], state=state)
    first = m.backward(tapes[0][1], halves[0][3], state=state)
    for name in ("key", "value", "query"):
        np.testing.assert_allclose(np.concatenate([first[name], second[name]], axis=1), want[name],
                                   rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="state has the shape"):
        m.backward(tapes[0][1], halves[0][3], state=np.zeros(3, np.float32))
    with pytest.raises(miras.Refused, match="another memory"):
        whole.backward(tapes[0][1], halves[0][3])


def test_pairs_and_axes():
    m = miras.Memory("yaad", key_dim=K, value_dim=V)
    (key, value), surprises = draw(10, (K,), (V,)), []
    for _ in range(40):
        surprises.append(m.write(key, value))
    assert surprises[-1] < 1e-3 * surprises[0]
    np.testing.assert_allclose(m.read(key), value, atol=0.05)
    assert m.read(key[None, None]).shape == (1, 1, V)
    out = np.empty(V, np.float32)
    assert m.read(key, out) is out
    np.testing.assert_array_equal(out, m.read(key))
    assert m.forward(*[a[0, :, 0].copy() for a in tokens(11, b=1, h=1)]).shape == (T, V)
    before = m.read(key)
    np.testing.assert_array_equal(m.learn(key, value)[0], before)
    r = miras.Memory("signals", key_dim=K, value_dim=V)
    unsure = r.variance(key)
    r.write(key, value)
    assert r.variance(key) < 0.7 * unsure and unsure.shape == ()
    c = miras.Memory("categories", key_dim=K, value_dim=5, groups="2,3")
    said = c.probabilities(c.read(key))
    np.testing.assert_allclose([said[:2].sum(), said[2:].sum()], 1, rtol=1e-6)


@pytest.mark.parametrize("change", [
    np.ndarray.tolist, lambda a: a.astype(float), lambda a: a.astype(np.float16), lambda a: a > 0,
    lambda a: (8 * a).astype(np.int64), lambda a: (8 * a).astype(np.int8), lambda a: memoryview(a),
    lambda a: a.astype(">f4"), lambda a: a[::-1], lambda a: np.repeat(a, 2)[::2],
    lambda a: np.frombuffer(b"!" + a.tobytes(), np.float32, offset=1),
    lambda a: np.frombuffer(a.tobytes(), np.float32)])
def test_a_pair_may_be_of_any_numbers(change):
    given = [change(a) for a in draw(30, (K,), (V,))]
    plain = [np.array(a, np.float32) for a in given]
    m, n, s = (miras.Memory(name, key_dim=K, value_dim=V) for name in ("yaad", "yaad", "signals"))
    for _ in range(3):
        assert m.write(*given) == n.write(*plain)
        np.testing.assert_array_equal(m.read(given[0]), n.read(plain[0]))
        (said, surprise), (wants, as_much) = m.learn(*given), n.learn(*plain)
        assert surprise == as_much and (said == wants).all()
    out = np.empty(V, np.float32)
    assert (m.read(given[0], out) == n.read(plain[0])).all() and (out == n.read(plain[0])).all()
    assert s.variance(given[0]) == s.variance(plain[0])
    c = miras.Memory("categories", key_dim=K, value_dim=V)
    np.testing.assert_array_equal(c.probabilities(given[1]), c.probabilities(plain[1]))
    m.set("W1", np.full((K, m.parts()["W1"][1][1]), 2).tolist())
    assert (m.get("W1") == 2).all()


@pytest.mark.parametrize("key, kind, says", [
    ([1] * (K - 1), ValueError, r"key has the shape \(5,\); it must be \(1, 1, 6\), of which axes"),
    ([[1, 2], [3]], ValueError, "key is no array of numbers"),
    ([], ValueError, r"key has the shape \(0,\)"), (2, ValueError, r"key has the shape \(\)"),
    ([1e300] * K, ValueError, "key holds a number beyond those of float32"),
    (None, TypeError, "key is of type NoneType"), ("012345", TypeError, "key is of type str"),
    ([1j] * K, TypeError, "key is of type list, of complex128; it must be numbers"),
    ([1 << 70] * K, TypeError, "key is of type list, of object"),
])
def test_what_is_no_key(key, kind, says):
    m, (value,) = miras.Memory("yaad", key_dim=K, value_dim=V), draw(31, (V,))
    for call in (lambda: m.write(key, value), lambda: m.learn(key, value)):
        with pytest.raises(kind, match=says):
            call()
    with pytest.raises(kind, match=says.replace("key", "query")):
        m.read(key)
    assert m.position == 0


def test_states_and_files(tmp_path):
    given = tokens(12)
    m = miras.Memory("yaad", batch=B, heads=H, key_dim=K, value_dim=V, chunk=4, seed=5)
    threaded = miras.Memory("yaad", batch=B, heads=H, key_dim=K, value_dim=V, chunk=4, seed=5,
                            threads=2)
    first = m.forward(*given)
    np.testing.assert_array_equal(threaded.forward(*given), first)
    snapshot, (path, other) = m.state.copy(), (tmp_path / "a.memory", tmp_path / "other.memory")
    m.save(path)
    forks = [m.fork(), copy.deepcopy(m), miras.Memory.open(path), threaded.fork()]
    want = m.forward(*given)
    assert (want != first).any()
    for fork in forks:
        assert fork.fields == m.fields and fork.position == T
        np.testing.assert_array_equal(fork.forward(*given), want)
    m.state[:] = snapshot
    np.testing.assert_array_equal(m.forward(*given), want)
    m.load(path)
    np.testing.assert_array_equal(m.forward(*given), want)
    m.reset()
    np.testing.assert_array_equal(m.forward(*given), first)
    w, position = m.get("W1", 1, 2), m.position
    assert w.shape == m.parts()["W1"][1]
    m.set("W1", w + 1, 1, 2)
    np.testing.assert_array_equal(m.get("W1", 1, 2), w + 1)
    miras.Memory("yaad", key_dim=K).save(other)
    with pytest.raises(miras.Error, match="other.*: heads is 3 and not 1 as in the file") as error:
        m.load(other)
    assert error.value.result == "MIRAS_ERR_MISMATCH" and m.position == position
    path.write_bytes(path.read_bytes()[:-9])
    for call in (m.load, miras.Memory.open):
        with pytest.raises(miras.Error, match="a.memory: ") as error:
            call(path)
        assert error.value.result == "MIRAS_ERR_FORMAT"
    with pytest.raises(FileNotFoundError, match="none"):
        miras.Memory.open(tmp_path / "none")
    for call in (m.load, m.save):
        with pytest.raises(miras.Error, match="none.x: a file could not be opened") as error:
            call(tmp_path / "none" / "x")
        assert error.value.result == "MIRAS_ERR_IO"


def test_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    m = miras.Memory("yaad", key_dim=K)
    m.write(*draw(32, (K,), (K,)))
    for name in ("a.memory", b"b.memory", pathlib.Path("c.memory"), "\xe9.memory",
                 os.fsdecode(b"d\xff.memory"), b"e\xff.memory"):
        m.save(name)
        assert os.path.exists(name)
        n = miras.Memory.open(name)
        np.testing.assert_array_equal(n.state, m.state)
        assert repr(n).startswith(f"<miras.Memory {os.fsdecode(name)}")
        m.load(name)
    kept = sorted(os.listdir())
    for name in ("a.memory\0", "a.memory\0.memory", b"a.memory\0", pathlib.Path("\0")):
        for call in (m.save, m.load, miras.Memory.open, miras.Vocabulary):
            with pytest.raises(ValueError, match="^embedded null byte$"):
                call(name)
    for call in (m.save, m.load, miras.Memory.open):
        with pytest.raises(TypeError):
            call(3)
    with pytest.raises(miras.Error, match="x: a file could not be opened"):
        m.load(b"none/x")
    assert sorted(os.listdir()) == kept
    if hasattr(os, "mkfifo"):
        os.mkfifo("fifo")
        with pytest.raises(miras.Error, match="fifo: .* no regular file"):
            miras.Memory.open("fifo")


def test_copies_and_pickles():
    given = tokens(33)
    m = miras.Memory("yaad", batch=B, heads=H, key_dim=K, value_dim=V, seed=5, threads=2)
    m.params[3] = 7
    for _ in range(2):
        for n in (copy.copy(m), copy.deepcopy(m), copy.deepcopy([m, m])[1],
                  *(pickle.loads(pickle.dumps(m, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1))):
            assert type(n) is miras.Memory and repr(n) == repr(m) and n.fields == m.fields
            assert n.to_bytes() == m.to_bytes() and n.params[3] == 7 and n._threads == 2
            np.testing.assert_array_equal(n.fork().forward(*given), m.fork().forward(*given))
        m.forward(*given)
    n = copy.copy(m)
    n.reset()
    assert m.position == 2 * T and n.position == 0      # a memory of its own
    again = miras.Memory.from_bytes(bytearray(m.to_bytes()))
    np.testing.assert_array_equal(again.state, m.state)
    _, tape = m.record(*given)
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="a tape is of one memory"):
            call(tape)
    error = pickle.loads(pickle.dumps(miras.Error("says", "MIRAS_ERR_IO")))
    assert str(error) == "says" and error.result == "MIRAS_ERR_IO"


def in_a_child(work):
    """The exit status of work() in a child of fork(): 0, or of what ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # Python's own, of a fork beside threads
        child = os.fork()
    if not child:
        signal.alarm(5)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_child_goes_on_while_a_thread_is_at_work(threads):
    m = miras.Memory("titans", heads=4, key_dim=64, threads=threads)
    model = miras.Model("titans", layers=1, vocab=32, width=64, heads=2)
    t = miras.Trainer(model, batch=8, context=64, threads=threads)
    s = miras.Session(model, threads=threads)
    row, x = np.ones((4, 64), np.float32), np.ones((8, 64), np.int32)
    given, stop = tokens(34, 64, 64, 1, 50, 4), []
    busy = [threading.Thread(target=lambda call=call: [call() for _ in iter(lambda: not stop, 0)])
            for call in (lambda: m.forward(*given), lambda: t.loss(x, x),
                         lambda: s.prefill(x.ravel()))]

    def child():
        m.reset()
        m.write(row, row)
        t.loss(x, x)
        t.backward()
        s.reset()
        s.prefill([1, 2, 3])
        fresh = miras.Memory("titans", heads=4, key_dim=64, threads=2)
        fresh.forward(*given)
        assert (m.fork().read(row) == m.read(row)).all()
    for thread in busy:
        thread.start()
    try:
        assert [in_a_child(child) for _ in range(3)] == [0, 0, 0]
        held = threading.Event()

        def hold():
            with m._lock, t._lock, s._lock:
                held.set()
                while not stop:
                    time.sleep(0.01)
        busy.append(threading.Thread(target=hold))
        busy[-1].start()
        held.wait()
        assert in_a_child(child) == 0
        assert in_a_child(lambda: in_a_child(child) and os._exit(2)) == 0
    finally:
        stop.append(1)
        for thread in busy:
            thread.join()
    m.write(row, row)      # the parent's are as they were


def test_views_keep_what_they_look_at():
    m = miras.Memory("titans", key_dim=K)
    params, part, alive = m.params, m.params[3:9].reshape(2, 3), weakref.ref(m)
    params[:] = 0.25
    m.reset()
    assert (m.get("W1") == 0.25).all() and np.shares_memory(params, m.params)
    del m, params
    gc.collect()
    assert alive() is not None and (part == 0.25).all()
    part[0] = 1
    assert alive().params[3] == 1
    state = alive().state
    del part
    gc.collect()
    assert alive() is not None and not state.any()
    del state
    gc.collect()
    assert alive() is None
    _, tape = miras.Memory("titans", key_dim=K).record(*[a[0, :, 0].copy()
                                                          for a in tokens(13, v=K, b=1, h=1)])
    gc.collect()
    assert np.isfinite(tape.memory.backward(tape, np.ones((T, K), np.float32))["params"]).all()


def test_memory_is_given_back():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    try:
        resident()
    except OSError:
        pytest.skip("there is no /proc/self/statm, which says how much memory is in use")
    sizes = []
    for _ in range(5):      # the C library's heap takes a round or two to settle
        for seed in range(20):
            m = miras.Memory("titans", key_dim=256, seed=seed)     # of 7 MB
            m.itself = m
            m.params[0] = 1
        gc.collect()
        sizes.append(resident())
    assert sizes[-1] - sizes[2] < 60 << 20, sizes


@pytest.mark.parametrize("fields, says", [
    (dict(), "key_dim is needed; it must lie in 1..4096"),
    (dict(heads=2), "key_dim is needed; it must lie in 1..4096"),
    (dict(key_dim=0), "key_dim is 0; it must lie in 1..4096"),
    (dict(kye_dim=4), "no field kye_dim; is it key_dim?"),
    (dict(thread=2), "no field thread; is it threads?"),
    (dict(seed=-1), "seed is -1; it must not be negative"),
    (dict(seed=1 << 64), f"seed is {1 << 64}; it must be below {1 << 64}"),
    (dict(limit=-1), "limit is -1; it must not be negative"),
    (dict(key_dim=4, threads=1 << 40), f"threads is {1 << 40}; it must be below {1 << 31}"),
])
def test_what_is_needed(fields, says):
    with pytest.raises(miras.Refused) as error:
        miras.Memory("titans", **fields)
    assert says in str(error.value)


def test_texts_end_where_they_end():
    m = miras.Memory("titans", key_dim=K)
    for call in (lambda: miras.Memory("titans\0", key_dim=K), lambda: m.get("W1\0"),
                 lambda: miras.Memory("titans", **{"key_dim\0": K}),
                 lambda: miras.Memory("titans", key_dim=f"{K}\0"),
                 lambda: miras.Memory("titans", key_dim=K, bias="l2\0")):
        with pytest.raises(ValueError, match="null character|no part W1"):
            call()
    for call, says in ((lambda: miras.Memory(3), "preset is of type int; it must be a string"),
                       (lambda: m.get("W1", 0.5), "sequence is of type float; it must be a whole"),
                       (lambda: miras.Memory("titans", key_dim=K, seed=0.5), "seed is of type fl"),
                       (lambda: miras.Memory("titans", key_dim=K, threads="2"), "threads is of ")):
        with pytest.raises(TypeError, match=says):
            call()


@pytest.mark.parametrize("fields, says", [
    (dict(leraning_rate=1), "no field leraning_rate; is it learning_rate?"),
    (dict(bias="hubert"), 'bias cannot be "hubert"'),
    (dict(key_dim=0), "key_dim is 0; it must lie in 1..4096"),
    (dict(learning_rate=1e9), "learning_rate is 1e"),
    (dict(p=2), "p is 2, but it has a meaning only with bias lp"),
    (dict(bias="l2", threshold=0.5), "threshold is 0.5"),
    pytest.param(dict(algorithm="momentum", decay_gate="channel"), "decay_gate",
                 marks=pytest.mark.filterwarnings("ignore:.*changes as well")),
    (dict(limit=1000), "limit"),
    (dict(threads=0), "threads is 0; it must lie in 1..256"),
])
def test_refusals_in_the_library_s_words(fields, says):
    with pytest.raises(miras.Refused) as error:
        miras.Memory("titans", **{"key_dim": K, **fields})
    assert says in str(error.value)


def test_what_a_call_wants():
    (key, value), m = draw(16, (K,), (V,)), miras.Memory("deltanet", key_dim=K, value_dim=V)
    pairs = miras.Memory("deltaproduct", key_dim=K, value_dim=V)
    for call, says in (
            (lambda: m.variance(key), "algorithm is gradient-descent; .* recursive-least-squares"),
            (lambda: m.probabilities(value), "bias is l2; .* cross-entropy"),
            (lambda: m.learn(key, value, elapsed=2), "elapsed is 2; .* retention is all"),
            (lambda: pairs.learn(key, value), "inner_steps is 2; learn takes one pair")):
        with pytest.raises(miras.Refused, match=says):
            call()


def test_what_is_printed(tmp_path):
    m, path = miras.Memory("yaad", heads=H, key_dim=K, value_dim=V), tmp_path / "a.memory"
    m.save(path)
    shape = f"batch 1, heads {H}, key_dim {K}, value_dim {V}>"
    assert repr(m) == repr(m.fork()) == f"<miras.Memory yaad: {shape}"
    assert repr(miras.Memory.open(path)) == f"<miras.Memory a.memory: {shape}"
    assert repr(miras.Memory.from_bytes(m.to_bytes())) == f"<miras.Memory of bytes: {shape}"
    assert miras.__version__.count(".") == 2


def test_fields():
    with pytest.raises(miras.Refused, match="no preset titan; is it titans?"):
        miras.Memory("titan", key_dim=K)
    with pytest.raises(TypeError, match="must be a number or a word"):
        miras.Memory("titans", key_dim=[K])
    m = miras.Memory("titans", heads=4, key_dim=64, learning_rate=np.float32(0.02), bias="huber")
    assert m.fields["bias"] == "huber" and m.fields["heads"] == 4
    assert abs(m.fields["learning_rate"] - 0.02) < 1e-9 and "yaad" in miras.presets()
    with pytest.warns(UserWarning, match="changes as well: algorithm gradient-descent, mom"):
        miras.Memory("titans", key_dim=K, decay_gate="channel")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        miras.Memory("titans", key_dim=K, decay_gate="channel", momentum=0,
                     algorithm="gradient-descent")


def test_arrays_that_c_must_not_see():
    m = miras.Memory("gla", batch=B, heads=H, key_dim=K, value_dim=V, decay_gate="channel")
    key, value, query = tokens(14)
    decay = np.full((B, T, H, K), 0.9, np.float32)
    given = dict(key=key, value=value, query=query, keep=decay)
    read_only = np.empty(value.shape, np.float32)
    read_only.flags.writeable = False
    for change, kind, says in (
            (dict(key=key.astype(float)), TypeError, "key is float64; it must be float32"),
            (dict(key=key.astype(">f4")), TypeError, "key is >f4"),
            (dict(key=key.tolist()), TypeError, "key is of type list"),
            (dict(key=key[:, ::-1]), TypeError, "not in C order"),
            (dict(key=key[:, 1:].copy()), ValueError, "value has the shape"),
            (dict(value=value[..., :3].copy()), ValueError, "value has the shape"),
            (dict(query=query[:1].copy()), ValueError, r"it must be \(2, 11, 3, 6\)"),
            (dict(keep=decay[..., 0].copy()), ValueError, "keep has the shape"),
            (dict(keep=None), miras.Refused, "keep is missing; .* bring key, value, query, keep"),
            (dict(momentum=decay), miras.Refused, "momentum is given"),
            (dict(dekay=decay), miras.Refused, "dekay is given"),
            (dict(out=np.empty(3, np.float32)), ValueError, "out has the shape"),
            (dict(out=read_only), TypeError, "out is read-only"),
            (dict(out=value), ValueError, "out overlaps")):
        with pytest.raises(kind, match=says):
            m.forward(**{**given, **change})
    assert m.position == 0
    with pytest.raises(miras.Refused, match="decay_gate is 2 .channel., which comes with tokens"):
        m.write(key[:, 0].copy(), value[:, 0].copy())
    with pytest.raises(miras.Refused, match="no part W9; there are W1"):
        m.get("W9")
    with pytest.raises(ValueError, match="W1 has the shape"):
        m.set("W1", np.zeros(2, np.float32))


def test_threads_go_on_meanwhile():
    m = miras.Memory("titans", heads=4, key_dim=64)
    given = tokens(15, 64, 64, 1, 400, 4)
    span, seen = [], []

    def work():
        span.append(time.perf_counter())
        m.forward(*given)
        span.append(time.perf_counter())
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        seen.append(time.perf_counter())
    tenth = (span[1] - span[0]) / 10
    assert sum(span[0] + tenth < at < span[1] - tenth for at in seen) > 10
    for _ in range(2):
        m.forward(*given)
    want = m.state.copy()
    m.reset()
    threads = [threading.Thread(target=m.forward, args=given) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(m.state, want)     # one after the other


def test_ledgers():
    r = np.random.default_rng(5)
    memory = miras.Memory("deltanet-memory", key_dim=6, value_dim=3, heads=2)
    ledger, start = miras.Ledger(memory, 10), memory.state.copy()
    pairs = [(r.standard_normal((2, 6)), r.standard_normal((2, 3))) for _ in range(5)]
    surprises = [ledger.write(k, v, 10 * i) for i, (k, v) in enumerate(pairs)]
    assert len(ledger) == 5 and ledger.holds and "5 writes" in repr(ledger)
    for i, entry in enumerate(ledger):
        assert (entry.number, entry.when, entry.surprise) == (i, 10 * i, surprises[i])
        assert np.allclose(entry.key, pairs[i][0]) and np.allclose(entry.value, pairs[i][1])
    query = r.standard_normal((2, 6))
    weights, rest = ledger.explain(query)
    assert weights.shape == (5, 1, 2, 1) and rest.shape == (2, 3)
    said = rest + sum(w[0] * np.float32(v) for w, (_, v) in zip(weights, pairs))
    assert np.allclose(said, memory.read(query), atol=1e-5)
    other = memory.fork()
    other.state[:] = start
    for i in (0, 2, 3):
        other.write(*pairs[i])
    assert (ledger.without([1, 4], query) == other.read(query)).all()
    ledger.forget([1, 4])
    assert (memory.state == other.state).all() and len(ledger) == 3
    both = miras.Ledger(other, 10)
    both.append(ledger)
    assert len(both) == 3 and not (memory.state == other.state).all()
    memory.write(*pairs[0])
    assert not ledger.holds
    with pytest.raises(miras.Error):
        ledger.forget([0])
    with pytest.raises(IndexError, match="no 9"):
        ledger.forget([9])
    with pytest.raises(IndexError):
        ledger[3]
    with pytest.raises(TypeError, match="ledger"):
        pickle.dumps(ledger)
    with pytest.raises(TypeError, match="miras.Ledger"):
        both.append(memory)
    with pytest.raises(TypeError, match="miras.Memory"):
        miras.Ledger(start, 3)
    with pytest.raises(miras.Refused, match="writes"):
        miras.Ledger(memory, 0)


def test_states_are_sums():
    r = np.random.default_rng(6)
    a = miras.Memory("linear-attention", key_dim=5, value_dim=4)
    pairs = [(r.standard_normal(5), r.standard_normal(4)) for _ in range(4)]
    a.write(*pairs[0])
    start, b, both = a.state.copy(), a.fork(), a.fork()
    for memory, some in (a, [1]), (b, [2, 3]), (both, [1, 2, 3]):
        for i in some:
            memory.write(*pairs[i])
    query = r.standard_normal(5)
    alone = a.fork()
    a.merge(start, b.state)
    assert np.allclose(a.read(query), both.read(query), atol=1e-5)
    alone.difference(start)
    new = miras.Memory("linear-attention", key_dim=5, value_dim=4)
    new.write(*pairs[1])
    assert np.allclose(alone.read(query), new.read(query), atol=1e-5)
    with pytest.raises(ValueError, match="start"):
        a.merge(start[1:], b.state)
    with pytest.raises(TypeError):
        a.difference([0])
    with pytest.raises(miras.Refused):
        m = miras.Memory("titans", key_dim=5)
        m.difference(m.state.copy())
