"""The pure functions, under the transformations of torch.func and other number formats."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

import oracles
from symshare import groups, layers
from symshare.layers import (
    GroupBatchNorm,
    GroupConv2d,
    GroupLayerNorm,
    GroupLinear,
    GroupPool,
    LiftConv2d,
    functional,
)
from symshare.representations import Fixed, Gated, Sinkhorn

C4 = groups.rotations(4)
SPACE = {1: (9,), 2: (7, 9), 3: (5, 5, 7)}
KINDS = [f"{kind}Conv{twin}" for kind in ("Lift", "Group") for twin in ("", "Transpose")]


def pure(kind):
    name = "lift_conv" if "Lift" in kind else "group_conv"
    return getattr(functional, name + ("_transpose" if "Transpose" in kind else ""))


def tensors(kind, dims, dtype=torch.float32):
    """f, theta, R, bias of a layer with 2 elements out and 3 in, and its kernel size."""
    K, P = 3, 2**dims
    D = P if "Lift" in kind else K * P
    f = torch.randn(2, 2, *(() if "Lift" in kind else (K,)), *SPACE[dims], dtype=dtype)
    theta, R = torch.randn(4, 1, D, dtype=dtype), torch.randn(2, D, D, dtype=dtype)
    return f, theta, R, torch.randn(4, dtype=dtype), (2,) * dims


def layer(kind, dims):
    D = 2**dims if "Lift" in kind else 4 * 2**dims
    return getattr(layers, f"{kind}{dims}d")(2, 2, 2, Sinkhorn(4, D), stride=2)


def image(kind, dims):
    return torch.randn(2, 2, *(() if "Lift" in kind else (4,)), *SPACE[dims])


def network():
    """Every kind of layer, for images of odd sizes."""
    fixed, gated = Fixed(C4), Gated(C4)
    return nn.Sequential(
        LiftConv2d(2, 4, 3, fixed, padding="same", padding_mode="circular"),
        GroupBatchNorm(4),
        GroupConv2d(4, 4, 3, gated, padding=1, groups=2, padding_mode="reflect"),
        GroupBatchNorm(4, gate=gated.gate),
        nn.ReLU(),
        GroupConv2d(4, 4, 3, Sinkhorn(4, 36), stride=2, padding=1),
        GroupLayerNorm(gated.gate),
        layers.GroupConvTranspose2d(4, 2, 3, fixed, stride=2, padding=1),
        GroupPool(),
    )


def test_expand_is_a_matrix_on_the_last_axis():
    R, theta = torch.randn(3, 4, 4), torch.randn(2, 2, 4)
    torch.testing.assert_close(functional.expand(R, theta), oracles.expand(R, theta))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_expand_computes_in_float32(dtype):
    # In this dtype the entries of R would be rounded to 1.
    R = torch.full((3, 64, 64), 1 + 0.4 * torch.finfo(dtype).eps)
    theta = torch.rand(5, 20, 64).to(dtype)
    exact = functional.expand(R.double(), theta.double())
    assert exact.dtype == torch.float64
    with torch.autocast("cpu", dtype=torch.bfloat16):
        W = functional.expand(R, theta)
        assert functional.expand(R, theta.float()).dtype == torch.float32
    assert W.dtype == dtype
    assert (exact.to(dtype) == W).double().mean() > 0.95


def test_a_module_is_its_function():
    gated = Gated(groups.dihedral(4))
    conv = GroupConv2d(2, 4, 3, gated, padding=2, dilation=2)
    f = torch.randn(2, 2, 8, 6, 7)
    y = functional.group_conv(
        f,
        conv.theta,
        conv.stack(),
        conv.bias,
        kernel_size=(3, 3),
        measure=gated.measure,
        padding=2,
        dilation=2,
    )
    assert torch.equal(conv(f), y)
    linear = GroupLinear(2, 3, Fixed(groups.cyclic_shifts(5)))
    x = torch.randn(4, 2, 5)
    expected = functional.group_linear(x, linear.theta, linear.stack(), linear.bias)
    assert torch.equal(linear(x), expected)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_one_number_stands_for_all_axes(kind, dims):
    *arguments, size = tensors(kind, dims)
    numbers = {"stride": 2, "padding": 1, "dilation": 1} | (
        {"output_padding": 1} if "Transpose" in kind else {}
    )
    each = {name: (n,) * dims for name, n in numbers.items()}
    expected = pure(kind)(*arguments, kernel_size=size, groups=2, **each)
    found = pure(kind)(*arguments, kernel_size=size[0], groups=2, **numbers)
    assert torch.equal(found, expected)
    batches = torch.stack([arguments[0]] * 3)

    def call(f):
        return pure(kind)(f, *arguments[1:], kernel_size=size[0], groups=2, **numbers)

    torch.testing.assert_close(vmap(call)(batches)[1], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("over", [0, 1, 2, 3], ids=["f", "theta", "R", "bias"])
def test_vmap(kind, dims, over):
    *arguments, size = tensors(kind, dims)
    modes = [{}] if "Transpose" in kind else [{}, {"padding": 1, "padding_mode": "circular"}]
    arguments[over] = torch.randn(3, *arguments[over].shape)
    in_dims = tuple(0 if i == over else None for i in range(4))
    for options in modes:

        def call(*tensors, options=options):
            return pure(kind)(*tensors, kernel_size=size, groups=2, **options)

        together = vmap(call, in_dims)(*arguments)
        for i in range(3):
            alone = [a[i] if j == over else a for j, a in enumerate(arguments)]
            torch.testing.assert_close(together[i], call(*alone), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives(kind, dims):
    *arguments, size = tensors(kind, dims, torch.float64)
    arguments[0] = arguments[0][:1, ..., :3]
    measure = [] if "Lift" in kind else [torch.rand(3, dtype=torch.float64)]
    arguments = [a.requires_grad_() for a in arguments + measure]

    def call(f, theta, R, bias, *measure):
        options = {"measure": measure[0]} if measure else {}
        return pure(kind)(f, theta, R, bias, kernel_size=size, groups=2, **options)

    assert torch.autograd.gradcheck(call, arguments, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, arguments, fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
def test_func_grad_and_jacobian(kind):
    f, theta, R, bias, size = tensors(kind, 2)

    def call(theta, R):
        return pure(kind)(f, theta, R, bias, kernel_size=size, groups=2)

    theta.requires_grad_()
    (expected,) = torch.autograd.grad(call(theta, R).square().sum(), theta)
    theta = theta.detach()
    torch.testing.assert_close(grad(lambda t: call(t, R).square().sum())(theta), expected)
    jacobian = jacrev(call)(theta, R)
    direction = torch.randn_like(theta)
    # The function is linear in theta, up to the bias.
    zero = call(torch.zeros_like(theta), R)
    torch.testing.assert_close(
        torch.tensordot(jacobian, direction, theta.ndim), call(direction, R) - zero
    )


def test_functional_call_and_ensembles():
    models = [nn.Sequential(LiftConv2d(1, 2, 3, Sinkhorn(4, 9)), GroupPool()) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    x = torch.randn(2, 1, 6, 6)
    together = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    for y, model in zip(together, models, strict=True):
        torch.testing.assert_close(y, model(x))

    conv = GroupConv2d(2, 2, 3, Gated(C4), padding=1)
    f = torch.randn(3, 2, 4, 5, 5)
    state = dict(conv.named_parameters())

    def loss(state, f):
        return functional_call(conv, state, (f[None],)).square().mean()

    each = vmap(grad(loss), (None, 0))(state, f)
    for i in range(3):
        alone = grad(loss)(state, f[i])
        for name in state:
            torch.testing.assert_close(each[name][i], alone[name])


def test_the_layers_run_under_vmap():
    conv = GroupConv2d(2, 2, 3, Gated(C4), padding=1)
    f = torch.randn(3, 2, 2, 4, 5, 5)
    torch.testing.assert_close(vmap(conv)(f), torch.stack([conv(part) for part in f]))


@pytest.mark.filterwarnings("ignore:.*are not exact")
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
class TestNumbers:
    def test_other_dtypes(self, kind, dims):
        module, x = layer(kind, dims).double(), image(kind, dims).double()
        exact = module(x)
        for dtype, tolerance in [(torch.float32, 1e-5), (torch.bfloat16, 0.1)]:
            y = module.to(dtype)(x.to(dtype))
            assert y.dtype == dtype
            torch.testing.assert_close(y.double(), exact, atol=tolerance, rtol=tolerance)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_autocast(self, kind, dims, dtype):
        module, x = layer(kind, dims), image(kind, dims)
        exact, kernel = module(x), module.kernel()
        with torch.autocast("cpu", dtype=dtype):
            assert torch.equal(module.kernel(), kernel)
            y = module(x)
        assert y.dtype == dtype
        torch.testing.assert_close(y.float(), exact, atol=0.05, rtol=0.05)

    def test_tensors_without_data(self, kind, dims):
        f, theta, R, bias, size = tensors(kind, dims)
        y = pure(kind)(f, theta, R, bias, kernel_size=size, groups=2)
        empty = [t.to("meta") for t in (f, theta, R, bias)]
        assert pure(kind)(*empty, kernel_size=size, groups=2).shape == y.shape
        D = theta.shape[-1]
        module = getattr(layers, f"{kind}{dims}d")(2, 4, 2, Fixed(torch.randn(3, D, D)))
        assert module.to("meta")(empty[0]).shape == module.to_empty(device="cpu")(f).shape


def test_half_precision_modules():
    x = torch.randn(2, 2, 7, 7)
    module = LiftConv2d(2, 2, 3, Fixed(C4))
    exact = module(x)
    y = module.half()(x.half())
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.float(), exact, atol=1e-2, rtol=1e-2)


def test_channels_last_inputs_give_the_same():
    module, x = network().eval(), torch.randn(2, 2, 9, 7)
    torch.testing.assert_close(module(x.to(memory_format=torch.channels_last)), module(x))


def test_training_moves_every_parameter():
    torch.manual_seed(1)
    model = network()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 2, 9, 7)).square().sum().backward()
        optimizer.step()
    for name, p in model.named_parameters():
        assert not torch.equal(p, before[name]), name
