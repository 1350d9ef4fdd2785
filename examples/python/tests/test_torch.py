"""The module of PyTorch's: gradients by differences, copies, what it refuses."""
import copy
import io

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
    for gate in ("decay", "learning_rate"):
        if f"{gate}_gate" in fields:
            given[gate] = (torch.rand(B, T, H) * 0.5 + 0.5).requires_grad_()
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
    for n in (other, copy.deepcopy(m)):
        assert torch.equal(n(*given), want)


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
    with pytest.raises(TypeError, match="key is float64"):
        m(key.double(), value, query)
    with pytest.raises(ValueError, match="value has the shape"):
        m(key, value[:, 1:], query)
    with pytest.raises(miras.Refused, match="batch comes with the tensors"):
        miras.torch.Memory("titans", key_dim=K, batch=2)
    y = m(key, value, query)
    with torch.no_grad():
        key += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
