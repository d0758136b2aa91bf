"""What networks must survive: saving, copying, other dtypes and devices, compilers."""

import contextlib
import copy
import io
import pickle
import subprocess
import sys
import threading

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.optim.swa_utils import AveragedModel

import symshare
from symshare import shared

FREE = torch.export.Dim.DYNAMIC


def c4(library):
    return library.groups.rotations(4)


# Each is a lifting and a hidden representation of a library: the usual one, or `unwrapped`.
KINDS = {
    "sinkhorn": lambda s: (s.Sinkhorn(4, 9), s.Sinkhorn(4, 36)),
    "published": lambda s: (s.Sinkhorn(4, 9, iterations=5), s.Sinkhorn(4, 36, iterations=5)),
    "fixed": lambda s: (s.Fixed(c4(s)),) * 2,
    "interpolated": lambda s: (s.Fixed(s.groups.rotations(6)),) * 2,
    "gated": lambda s: (s.Gated(c4(s)),) * 2,
    "birkhoff": lambda s: (s.Birkhoff(c4(s)),) * 2,
    "kronecker": lambda s: (s.Kronecker(4, 3),) * 2,
    "kronecker-learned": lambda s: (s.Kronecker(4, 3, elements="learned"),) * 2,
}
PROJECTING = ("published", "kronecker", "kronecker-learned")
"""Beside "sinkhorn", the kinds that `shared` projects."""


def build(kind, library=symshare):
    lifting, hidden = KINDS[kind](library)
    gate = getattr(lifting, "gate", None)
    return nn.Sequential(
        library.LiftConv2d(2, 3, 3, lifting, padding=1),
        library.GroupBatchNorm(3, gate=gate),
        nn.ReLU(),
        library.GroupConv2d(3, 5, 3, hidden, padding=1),
        library.GroupPool(gate),
    )


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def network(kind):
    return build(kind)


@pytest.fixture
def x():
    return torch.randn(4, 2, 7, 6)


def train(network, x, steps=2):
    learned = [p for p in network.parameters() if p.requires_grad and p.numel()]
    adam = torch.optim.AdamW(learned, lr=0.05)
    for _ in range(steps):
        adam.zero_grad()
        with shared(network):
            network(x).square().mean().backward()
        adam.step()
    return network


def through_file(network):
    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_keys_do_not_depend_on_the_mode(network, x):
    keys = list(network.train().state_dict())
    network(x)
    network.eval()(x)
    assert list(network.state_dict()) == keys


def test_only_what_is_learned_or_measured_is_saved(network):
    learned = {name for name, _ in network.named_parameters(remove_duplicate=False)}
    rest = {name.rpartition(".")[2] for name in set(network.state_dict()) - learned}
    assert rest <= {"potentials", "running_mean", "running_var", "num_batches_tracked"}


@pytest.mark.parametrize("training", [True, False])
def test_a_checkpoint_restores_the_outputs(kind, network, x, training):
    train(network, x)
    state = through_file(network.train(training))
    other = build(kind)
    if kind in ("birkhoff", "gated"):
        train(other, x)
    other.load_state_dict(state)
    assert torch.equal(network.eval()(x), other.eval()(x))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_equal_and_apart(network, x, training, copied):
    train(network, x).train(training)
    twin = copied(network)
    assert torch.equal(network.eval()(x), twin.eval()(x))
    before = network(x)
    train(twin.train(), x)
    assert torch.equal(network.eval()(x), before)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_what_is_done_without_gradients_leaves_a_network_that_trains(network, x, mode):
    state = through_file(network)
    with mode():
        network.load_state_dict(state)
        network.train()(x)
        network.eval()(x)
    before = copy.deepcopy(network)(x)
    train(network.train(), x)
    assert before.equal(network.eval()(x)) == (not list(network.parameters()))


def test_saved_whole(network, x):
    file = io.BytesIO()
    torch.save(train(network, x), file)
    file.seek(0)
    other = torch.load(file, weights_only=False)
    assert torch.equal(network.eval()(x), other.eval()(x))


def test_a_running_average_follows(network, x):
    average = AveragedModel(network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    before = average.eval()(x)
    for _ in range(3):
        average.update_parameters(train(network, x))
    assert not torch.equal(average.eval()(x), before)
    mean = copy.deepcopy(network)
    mean.load_state_dict(average.module.state_dict())
    torch.testing.assert_close(average.eval()(x), mean.eval()(x))


def test_a_parameter_changed_in_evaluation_changes_the_output(network, x):
    network.eval()
    for parameter in network.parameters():
        if not parameter.requires_grad or not parameter.numel():
            continue
        before = network(x)
        with torch.no_grad():
            parameter += torch.randn_like(parameter)
        assert not torch.equal(network(x), before)


def test_double_precision(network, x):
    network.eval()
    single = network(x)
    double = network.double()(x.double())
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(network, x, dtype):
    network.eval()
    single = network(x)
    half = network.to(dtype)(x.to(dtype))
    assert half.dtype == dtype
    torch.testing.assert_close(half.float(), single, atol=0.05, rtol=0.05)


def test_autocast_trains(network, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = network(x)
    assert y.dtype == torch.bfloat16
    y.float().square().mean().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.dtype == parameter.dtype == torch.float32


def test_autocast_keeps_vectors_in_its_dtype():
    linear = symshare.GroupLinear(2, 3, symshare.Sinkhorn(4, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(torch.randn(2, 2, 5)).dtype == torch.bfloat16


@pytest.mark.parametrize("module", ["projection", "gate", "coefficients"])
def test_every_learned_part_has_a_version(module):
    parts = {
        "projection": symshare.Sinkhorn(4, 9),
        "gate": symshare.Gated(c4(symshare)),
        "coefficients": symshare.Birkhoff(c4(symshare)),
    }
    state = parts[module].state_dict()
    state._metadata[module]["version"] = 1000
    with pytest.raises(ValueError, match=f"version 1000 of {module}"):
        parts[module].load_state_dict(state)


def test_a_given_stack_is_copied():
    learned = symshare.Sinkhorn(4, 9)
    R = learned()
    frozen = symshare.Fixed(R)
    stack = frozen.on_domain()
    assert not stack().requires_grad
    before = copy.deepcopy(stack)()
    with torch.no_grad():
        R.zero_()
    for made in (stack, frozen.on_domain()):
        assert torch.equal(made(), before)
    assert dict(symshare.Fixed(torch.nn.Parameter(torch.rand(4, 9, 9))).named_parameters()) == {}


def test_a_compiled_part_is_pickled():
    stack = symshare.Sinkhorn(4, 9).eval()
    R = stack()
    stack.projection.compile()
    assert torch.equal(pickle.loads(pickle.dumps(stack))(), R)


def test_from_the_meta_device(kind, network, x):
    with torch.device("meta"):
        other = build(kind)
    assert other(x.to("meta")).shape == network(x).shape
    other.to_empty(device="cpu").load_state_dict(network.state_dict())
    assert torch.equal(other.eval()(x), network.eval()(x))


def test_to_the_meta_device(network, x):
    expected = network.eval()(x)
    state = copy.deepcopy(network.state_dict())
    network.to("meta")
    assert network(x.to("meta")).shape == expected.shape
    network.load_state_dict(state, assign=True)
    network.to_empty(device="cpu").load_state_dict(state)
    assert torch.equal(network(x), expected)


def test_assigned_from_the_meta_device(kind, network, x):
    with torch.device("meta"):
        other = build(kind)
    other.load_state_dict(network.state_dict(), assign=True)
    for module in (network, other):
        module.train()(x)
    torch.testing.assert_close(other.eval()(x), network.eval()(x))


def test_an_average_of_equal_networks_is_the_same_network(network, x):
    network.eval()
    average = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    mean = AveragedModel(network, multi_avg_fn=average, use_buffers=True)
    for _ in range(3):
        mean.update_parameters(network)
    torch.testing.assert_close(mean.eval()(x), network(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("training", [True, False])
def test_batches_of_one_and_of_none(network, batch, training):
    x = torch.randn(batch, 2, 7, 6)
    if training and not batch:
        network[1] = nn.Identity()  # moments of nothing
    y = network.train(training)(x)
    y.sum().backward()
    assert y.shape == (batch, 5, 7, 6)


def test_a_newer_checkpoint_is_refused(network):
    state = network.state_dict()
    for metadata in state._metadata.values():
        metadata["version"] = 1000
    with pytest.raises(ValueError, match="version 1000 of .* knows 1; upgrade symshare"):
        network.load_state_dict(state)


@pytest.fixture
def sharing(kind):
    """A network in which two layers hold one representation, and all one measure."""
    lifting, hidden = KINDS[kind](symshare)
    return nn.Sequential(
        symshare.LiftConv2d(2, 3, 3, lifting),
        symshare.GroupConv2d(3, 3, 3, hidden),
        symshare.GroupLayerNorm(lifting.gate),
        symshare.GroupConv2d(3, 5, 3, hidden, padding=1),
        symshare.GroupPool(lifting.gate),
    )


def test_what_is_shared_has_one_name(sharing):
    tensors = [*sharing.named_parameters(remove_duplicate=False)]
    tensors += sharing.named_buffers(remove_duplicate=False)
    assert len({id(x) for _, x in tensors}) == len(tensors)
    state = sharing.state_dict(keep_vars=True)
    assert set(state) <= {name for name, _ in tensors}
    assert {id(p) for p in sharing.parameters()} <= {id(x) for x in state.values()}
    assert list(sharing.state_dict()) == list(state)


def test_functional_call_gives_back_what_it_borrows(sharing, x):
    expected, before = sharing.eval()(x), dict(sharing.named_parameters())
    other = {name: p + 0.5 * torch.rand_like(p) for name, p in before.items()}
    y = torch.func.functional_call(sharing, other, (x,))
    assert not torch.allclose(y, expected)
    assert torch.equal(sharing(x), expected)
    after = dict(sharing.named_parameters())
    assert all(after[name] is before[name] for name in before)
    with torch.no_grad():
        for name, p in before.items():
            p.copy_(other[name])
    torch.testing.assert_close(sharing(x), y)


def test_gradients_per_sample_are_those_of_a_loop(sharing, x):
    sharing.eval()
    parameters = {n: p.detach() for n, p in sharing.named_parameters()}

    def loss(parameters, sample):
        return torch.func.functional_call(sharing, parameters, sample[None]).square().mean()

    gradients = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for i in range(len(x)):
        sharing.zero_grad()
        sharing(x[i : i + 1]).square().mean().backward()
        for name, parameter in sharing.named_parameters():
            if parameter.numel():
                found = gradients[name][i]
                torch.testing.assert_close(found, parameter.grad, atol=1e-4, rtol=1e-3)


def test_safetensors_takes_the_state(sharing, x, tmp_path):
    twin = copy.deepcopy(sharing)
    save_file(train(sharing, x).state_dict(), tmp_path / "state.safetensors")
    twin.load_state_dict(load_file(tmp_path / "state.safetensors"), strict=True)
    assert torch.equal(twin.eval()(x), sharing.eval()(x))


# What version 0.1 saved of representations and measures, under every name.
OLD = {
    "sinkhorn": [f"{i}.representation.projection" for i in (0, 3)],
    "gated": ["0.representation.gate", "1.gate", "3.representation.gate", "4.gate"],
    "birkhoff": [f"{i}.representation.coefficients" for i in (0, 3)],
    "kronecker": [f"{i}.representation.space.projection" for i in (0, 3)],
    "kronecker-learned": [
        "0.representation.space.projection",
        "3.representation.elements.projection",
        "3.representation.space.projection",
    ],
}


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("kind", OLD)
def test_the_states_of_version_0_1_are_read(kind, network, x, assign):
    train(network, x)
    mine = {k: v for k, v in network.state_dict().items() if "represent" not in k}
    old = {k: v for k, v in mine.items() if "gate" not in k}
    for name in OLD[kind]:
        part = network.get_submodule(name).state_dict()
        old |= {f"{name}.{key}": value.clone() for key, value in part.items()}
    other = build(kind)
    assert str(other.load_state_dict(old, assign=assign)) == "<All keys matched successfully>"
    torch.testing.assert_close(other.eval()(x), network.eval()(x))


@pytest.mark.parametrize(
    ("kind", "shared_key"), [(k, f"{names[0]}.logits") for k, names in OLD.items()]
)
def test_strict_loading_names_what_is_missing_once_and_what_is_unexpected(kind, shared_key):
    network = build(kind)
    state = network.state_dict()
    state["3.representation.other"] = state.pop(shared_key)
    found = network.load_state_dict(state, strict=False)
    assert found.missing_keys == [shared_key]
    assert found.unexpected_keys == ["3.representation.other"]
    with pytest.raises(RuntimeError, match=f'Missing key.*"{shared_key}"'):
        network.load_state_dict(state)
    assert network.load_state_dict(network.state_dict()).missing_keys == []


def test_a_state_may_be_collected_for_several_networks(network):
    other, state = copy.deepcopy(network), network.state_dict(prefix="a.")
    other.state_dict(destination=state, prefix="b.")
    assert len(state) == 2 * len(network.state_dict())
    again = network.state_dict(destination=network.state_dict())
    assert list(again) == list(network.state_dict())


class Computed(symshare.Stack):
    """A stack of a user's own, whose parameters are in modules that know nothing of sharing."""

    membership = "free"
    positions = 36

    def __init__(self):
        super().__init__(4)
        self.linear = torch.nn.Linear(1, 4 * 36 * 36)
        self.scales = torch.nn.ParameterList([torch.ones(1), torch.ones(1)])

    def forward(self):
        return self.linear(self.scales[0] * self.scales[1]).view(4, 36, 36)


def parametrized():
    stack = symshare.Sinkhorn(4, 36)
    torch.nn.utils.parametrize.register_parametrization(
        stack.projection, "logits", torch.nn.Identity()
    )
    return stack


@pytest.mark.parametrize("make", [Computed, parametrized])
def test_modules_below_what_is_shared_are_saved_and_loaded_once_too(make):
    def network():
        stack = make()
        return torch.nn.Sequential(*(symshare.GroupConv2d(2, 2, 3, stack) for _ in range(2)))

    model, other = network(), network()
    state = model.state_dict()
    assert len({value.data_ptr() for value in state.values()}) == len(state)
    other.load_state_dict(state)
    for name, value in other.state_dict().items():
        assert torch.equal(value, state[name])
    below = next(name for name in state if name.startswith("0.representation."))
    del state[below]
    assert other.load_state_dict(state, strict=False).missing_keys == [below]


def test_threads_save_and_load_what_they_share_apart():
    shared_by_both = symshare.Gated(symshare.groups.rotations(4))
    wrong = []

    def work():
        model = torch.nn.Sequential(
            symshare.LiftConv2d(1, 2, 3, shared_by_both),
            symshare.GroupConv2d(2, 2, 3, shared_by_both),
        )
        state = model.state_dict()
        for _ in range(300):
            try:
                model.load_state_dict(state)
            except RuntimeError as error:
                wrong.append(error)
            wrong.extend(set(model.state_dict()) ^ set(state))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_layer_prints_what_it_holds_once():
    shown = repr(symshare.GroupConv2d(2, 2, 3, symshare.Kronecker(4, 3)))
    assert shown.count("Projection") == shown.count("Transport") == 1
    assert "KroneckerProduct(group_size=4, positions=36)" in shown
    assert repr(symshare.LiftConv2d(1, 2, 3, symshare.Sinkhorn(4, 9))).count("Sinkhorn") == 1


PROCESSES = """
import sys, torch, torch.distributed as dist
from torch import nn
sys.path[:0] = sys.argv[3:]
from symshare import GroupConv2d, GroupPool, LiftConv2d, Sinkhorn, shared

torch.set_num_threads(1)
rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(0)
network = nn.Sequential(
    LiftConv2d(1, 2, 3, Sinkhorn(4, 9)), GroupConv2d(2, 2, 3, Sinkhorn(4, 36)), GroupPool()
)
parallel = nn.parallel.DistributedDataParallel(network)
adam = torch.optim.Adam(parallel.parameters(), lr=0.05)
torch.manual_seed(rank)
for _ in range(3):
    adam.zero_grad()
    with shared(network):
        parallel(torch.randn(4, 1, 8, 8)).square().mean().backward()
    adam.step()
mine = torch.cat([x.flatten() for x in network.state_dict().values()])
theirs = [torch.empty_like(mine) for _ in range(2)]
dist.all_gather(theirs, mine)
assert torch.equal(*theirs), (theirs[0] - theirs[1]).abs().max()
"""


@pytest.mark.slow
def test_processes_in_parallel_keep_one_state(tmp_path):
    command = [sys.executable, "-c", PROCESSES]
    arguments = [str(tmp_path / "store"), "src"]
    ranks = [subprocess.Popen([*command, str(rank), *arguments]) for rank in range(2)]
    assert [process.wait(600) for process in ranks] == [0, 0]


# The tests below need the library without the shape checks. From the first of them to the end of
# this file an import finds that one, so others, which copy by pickle, come before.


@pytest.fixture
def plain(kind, unwrapped):
    """The network without shape checks."""
    torch._dynamo.reset()
    return build(kind, unwrapped)


def outcome(forward, network, x, around=contextlib.nullcontext):
    """Output, gradients and buffers after two steps, the second of which starts warm."""
    network.train()
    learned = [p for p in network.parameters() if p.requires_grad and p.numel()]
    sgd = torch.optim.SGD(learned, lr=0.1)
    for _ in range(2):
        sgd.zero_grad()
        with around(network):
            y = forward(x)
        y.square().mean().backward()
        sgd.step()
    gradients = {name: p.grad for name, p in network.named_parameters() if p.numel()}
    assert all(gradient is not None for gradient in gradients.values())
    return y.detach(), gradients, dict(network.named_buffers())


def compare(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3, equal_nan=True)


SLOW = pytest.mark.slow  # to trace hundreds of operators once more


def traced(*left_out):
    """All kinds, of which these are slow."""
    return [pytest.param(kind, marks=[SLOW] * (kind in left_out)) for kind in KINDS]


def trains_alike(network, x, backend):
    twin = copy.deepcopy(network)
    compiled = torch.compile(network, fullgraph=True, backend=backend)
    compare(outcome(compiled, network, x), outcome(twin, twin, x))


# What is traced of "kronecker" and "sinkhorn" is traced of "kronecker-learned" as well.
@pytest.mark.parametrize("kind", traced("kronecker", "sinkhorn"))
def test_compiled_it_trains_alike(plain, x):
    trains_alike(plain, x, "aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sinkhorn"])
def test_compiled_to_machine_code_it_trains_alike(plain, x):
    trains_alike(plain, x, "inductor")


@pytest.mark.parametrize("kind", ["sinkhorn", *(pytest.param(k, marks=SLOW) for k in PROJECTING)])
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo
def test_compiled_it_trains_alike_with_one_projection(plain, x, unwrapped, inside):
    """With `shared` in the compiled function, and around it."""
    twin = copy.deepcopy(plain)

    def forward(x):
        with unwrapped.shared(plain) if inside else contextlib.nullcontext():
            return plain(x)

    compiled = torch.compile(forward, fullgraph=True, backend="aot_eager")
    around = contextlib.nullcontext if inside else unwrapped.shared
    expected = outcome(twin, twin, x, unwrapped.shared)
    compare(outcome(compiled, plain, x, around), expected)


@pytest.mark.slow
def test_compiled_it_computes_alike(plain, x):
    compiled = torch.compile(plain.eval(), fullgraph=True, backend="aot_eager")
    compare(compiled(x), plain(x))


# The products of "kronecker" know nothing of batch and space, and are traced in training above.
@pytest.mark.parametrize("kind", traced("kronecker", "kronecker-learned"))
@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=SLOW)])
def test_exported_it_takes_any_batch_and_space(plain, x, strict):
    plain.eval()
    shapes = ({0: FREE, 2: FREE, 3: FREE},)
    program = torch.export.export(plain, (x,), dynamic_shapes=shapes, strict=strict)
    for shape in [(4, 2, 7, 6), (1, 2, 5, 9), (6, 2, 12, 4)]:
        x = torch.randn(shape)
        compare(program.module()(x), plain(x))
