"""The module of PyTorch's: gradients by differences, copies, what it refuses."""
import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here: pip install torch")
import miras.torch  # noqa: E402

B, T, H, K = 3, 9, 2, 6


def draw(*shape):
    return torch.randn(*shape).requires_grad_()


@pytest.mark.parametrize("preset, fields", [
    ("linear-attention", dict(normalize=0)),
    ("gated-deltanet", dict(decay_gate="head", learning_rate_gate="head")),
    ("titans", dict(expansion=1, chunk=4)),
])
def test_gradients(preset, fields):
    torch.manual_seed(0)
    m = miras.torch.Memory(preset, heads=H, key_dim=K, **fields)
    given = dict(key=draw(B, T, H, K), value=draw(B, T, H, K), query=draw(B, T, H, K))
    for gate, token in (("decay", "keep"), ("learning_rate", "learning_rate")):
        if f"{gate}_gate" in fields:
            given[token] = (torch.rand(B, T, H) * 0.5 + 0.5).requires_grad_()
    weigh = torch.randn(B, T, H, K)

    def loss():
        return (m(**given) * weigh).double().sum()
    loss().backward()
    for name, tensor in [*given.items(), ("weight", m.weight)]:
        along = torch.randn_like(tensor)
        along, step = along / along.norm(), 5e-3
        with torch.no_grad():
            tensor += step * along
            above = loss()
            tensor -= 2 * step * along
            below = loss()
            tensor += step * along
        said, want = float((tensor.grad * along).sum()), float((above - below) / (2 * step))
        assert abs(said - want) < 5e-3 * (0.2 + abs(want)), name


def test_copies_and_batches():
    m = miras.torch.Memory("titans", heads=H, key_dim=K, seed=3)
    given = [torch.randn(B, T, H, K) for _ in range(3)]
    want, file = m(*given), io.BytesIO()
    assert torch.equal(torch.cat([m(*[t[b:b + 1] for t in given]) for b in range(B)]), want)
    assert torch.equal(m(*[t.transpose(1, 2).contiguous().transpose(1, 2) for t in given]), want)
    torch.save(m.state_dict(), file)
    file.seek(0)
    other = miras.torch.Memory("titans", heads=H, key_dim=K, seed=4)
    assert not torch.equal(other(*given), want)
    other.load_state_dict(torch.load(file))
    for n in (other, copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert torch.equal(n(*given), want)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_tensors_of_other_types(kind):
    """They are float32 within: the bits of a module that is given their numbers as such."""
    torch.manual_seed(2)
    m = miras.torch.Memory("yaad", heads=H, key_dim=K, threshold_gate="head")
    given = [torch.randn(B, T, H, K, dtype=kind, requires_grad=True) for _ in range(3)]
    gate = torch.rand(B, T, H).to(kind).requires_grad_()
    plain = [t.detach().float().requires_grad_() for t in (*given, gate)]
    y, want = m(*given, threshold=gate), m(*plain[:3], threshold=plain[3])
    assert y.dtype == kind and torch.equal(y, want.to(kind))
    (2 * y.float()).sum().backward()
    grad, m.weight.grad = m.weight.grad, None
    (2 * want).sum().backward()
    assert torch.equal(grad, m.weight.grad) and grad.abs().sum() > 0
    for t, p in zip((*given, gate), plain):
        assert t.grad.dtype == kind and torch.equal(t.grad, p.grad.to(kind))
    mixed = m(plain[0], given[1], plain[2], threshold=gate)     # what is returned is as value
    assert mixed.dtype == kind
    n = copy.deepcopy(m).to(kind)
    n(*given, threshold=gate).sum().backward()
    assert n.weight.grad.dtype == n.weight.dtype == kind
    whole = m(plain[0], torch.ones(B, T, H, K, dtype=torch.int64), plain[2], threshold=plain[3])
    assert whole.dtype == torch.float32


def test_autocast():
    torch.manual_seed(3)
    m, line = miras.torch.Memory("deltanet", heads=H, key_dim=K), torch.nn.Linear(K, K)
    x = draw(B, T, H, K)
    with torch.autocast("cpu", torch.bfloat16):
        h = line(x)
        y = line(m(h, h, x))
        assert h.dtype == y.dtype == torch.bfloat16
        assert torch.equal(m(h, h, x), m(h.float(), h.float(), x).bfloat16())
        assert m(x, x, x).dtype == torch.float32
    y.float().sum().backward()
    assert line.weight.grad.dtype == x.grad.dtype == torch.float32
    assert x.grad.abs().sum() > 0 and torch.isfinite(x.grad).all()


def compiles():
    try:
        return bool(torch.compile(torch.nn.Linear(2, 2), backend="eager")(torch.ones(2)).numel())
    except (AttributeError, RuntimeError):
        return False


def test_compiled():
    """A graph before it, a graph behind it, and the bits of the whole."""
    if not compiles():
        pytest.skip("this torch has no torch.compile for this Python")
    torch.manual_seed(4)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.line = torch.nn.Linear(K, K)
            self.memory = miras.torch.Memory("titans", heads=H, key_dim=K, chunk=4,
                                             momentum_gate="head")

        def forward(self, x, gate):
            h = self.line(x)
            return self.line(self.memory(h, h, x, momentum=gate)).relu()
    net, graphs = Net(), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph
    torch._dynamo.reset()
    compiled = torch.compile(net, backend=backend)
    for b, t in ((B, T), (2, 12)):
        x, gate = torch.randn(b, t, H, K), torch.rand(b, t, H)
        said = []
        for run in (net, compiled):
            net.zero_grad()
            y = run(x, gate)
            (y ** 2).sum().backward()
            said.append([y.detach(), *(p.grad.clone() for p in net.parameters())])
        for one, other in zip(*said):
            assert torch.equal(one, other)
        assert len(graphs) >= 2
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(compiled(x, gate), net(x, gate))
    torch._dynamo.reset()
    with pytest.raises(Exception) as error:
        torch.compile(net, backend="eager", fullgraph=True)(x, gate)
    assert type(error.value).__name__ == "Unsupported"
    torch._dynamo.reset()


def test_gradients_twice_and_once_more():
    m, given = miras.torch.Memory("titans", heads=H, key_dim=K), [draw(B, T, H, K)] * 3
    y = (m(*given) ** 2).sum()
    first = torch.autograd.grad(y, [given[0], m.weight], retain_graph=True)
    m(*[-t for t in given])       # the memory is used for something else meanwhile
    for one, other in zip(first, torch.autograd.grad(y, [given[0], m.weight])):
        assert torch.equal(one, other)
    from torch.utils.checkpoint import checkpoint
    z = (checkpoint(m, *given, use_reentrant=False) ** 2).sum()
    for one, other in zip(first, torch.autograd.grad(z, [given[0], m.weight])):
        assert torch.equal(one, other)


def test_it_learns_beside_others():
    torch.manual_seed(1)
    net = torch.nn.ModuleDict({"in": torch.nn.Linear(5, 3 * K),
                               "memory": miras.torch.Memory("deltanet", key_dim=K)})
    best, x = torch.optim.Adam(net.parameters(), 1e-2), torch.randn(4, T, 5)
    losses = []
    for _ in range(30):
        k, v, q = (t[:, :, None].contiguous() for t in net["in"](x).split(K, -1))
        loss = ((net["memory"](k, v, q)[:, 1:, 0, :5] - x[:, :-1]) ** 2).mean()
        best.zero_grad()
        loss.backward()
        best.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0] and (net["memory"].weight != 0).any()


def test_what_it_says_of_itself():
    assert repr(miras.torch.Memory("titans", heads=H, key_dim=K)) == (
        f"Memory(titans, heads={H}, key_dim={K})")
    assert "answers" in miras.torch.Memory.forward.__doc__


def test_what_it_refuses():
    m = miras.torch.Memory("titans", heads=H, key_dim=K)
    key, value, query = draw(B, T, H, K), draw(B, T, H, K), draw(B, T, H, K)
    for wrong, kind, says in (
            (key.to("meta"), TypeError, "key is torch.float32, torch.strided on meta; it must"),
            (key.to(torch.complex64), TypeError, "key is torch.complex64"),
            (key.detach().to_sparse(), TypeError, "key is torch.float32, torch.sparse_coo on cpu"),
            (key.detach().numpy(), TypeError, "key is of type ndarray; it must be a tensor"),
            (key[:0], ValueError, r"key has the shape \(0, 9, 2, 6\)"),
            (key.sum(), ValueError, r"key has the shape \(\)")):
        with pytest.raises(kind, match=says):
            m(wrong, value, query)
    with pytest.raises(TypeError, match="weight is torch.float32, torch.strided on meta"):
        miras.torch.Memory("titans", heads=H, key_dim=K).to("meta")(key, value, query)
    with pytest.raises(miras.Refused, match="key_dim is needed"):
        miras.torch.Memory("titans", heads=H)
    with pytest.raises(ValueError, match="value has the shape"):
        m(key, value[:, 1:], query)
    with pytest.raises(miras.Refused, match="batch comes with the tensors"):
        miras.torch.Memory("titans", key_dim=K, batch=2)
    y = m(key, value, query)
    with torch.no_grad():
        key += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
