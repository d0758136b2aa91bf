import json
import platform
import resource
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # its threads are looked at
import torch
from PIL import Image
from threadpoolctl import threadpool_info, threadpool_limits

from benchmarks import __main__ as commands
from benchmarks import layer, sinkhorn, step, timing, truth
from benchmarks import published as published_way
from benchmarks.allocator import kept
from benchmarks.layer import LoopLift
from benchmarks.options import BenchConfig, LayerConfig, SinkhornConfig, StepConfig, figure_path
from symshare.models import Architecture, GroupCNN, plain

TINY, ONCE = BenchConfig(2, 5.0), BenchConfig(1, 5.0)
ROW = {"bench", "measures", "case", "contender", "unit", "n", "median", "iqr"}
ROW |= {"device", "torch", "threads"}


ROWS = {"sinkhorn": sinkhorn.rows, "layer": layer.rows, "step": step.rows}


def tiny_sinkhorn(config=TINY):
    return ROWS["sinkhorn"](config, [(2, 9), (3, 9)], [9], [(2, 9)], training_steps=5)


def tiny_layer(config=TINY):
    return ROWS["layer"](config, [1, 4, 8], [3, 5], (2, 3, 12, 12), out_channels=2)


def tiny_step(config=TINY, unbaked=False, gcnn=False):
    return ROWS["step"](config, unbaked, gcnn, Architecture(2, 3), 8, 2, [4, 2], [1, 2])


BENCHES = {"sinkhorn": tiny_sinkhorn, "layer": tiny_layer, "step": tiny_step}


@pytest.fixture(scope="module")
def measured():
    """Rows of each bench on a tiny budget, and its summary."""
    found = {}
    for name, rows in BENCHES.items():
        *numbers, summary = rows()
        found[name] = (numbers, summary)
    return found


def pick(rows, **entries):
    return [row for row in rows if entries.items() <= row.items()]


@pytest.mark.parametrize("kind", ["lift", "conv"])
@pytest.mark.parametrize("regime", ["init", "sharp", "extreme"])
def test_the_published_way_reproduces_the_published_tensors(published, regime, kind):
    at = published(regime, kind)
    logits = at["logits"].clone().requires_grad_()
    G, D = 4, logits.shape[-1]
    learned = published_way.project(logits)
    torch.testing.assert_close(learned, at["R"][1:], atol=2e-6, rtol=1e-5)

    entropy, norm = published_way.penalties(logits)
    torch.testing.assert_close(norm, at["norm_loss"], rtol=1e-5, atol=0)
    torch.testing.assert_close(entropy, at["entropy_loss"], rtol=1e-5, atol=1e-4)

    R = torch.cat([torch.eye(D)[None], learned])
    W = torch.einsum("gde,oie->ogid", R, at["weight"]).flatten(0, 1)
    x = at["x"] if kind == "lift" else at["x"].flatten(1, 2)
    bias = at["bias"].repeat_interleave(G)
    y = torch.nn.functional.conv2d(x, W.reshape(len(W), -1, 3, 3), bias, padding=1)
    y = y.unflatten(1, (-1, G))
    torch.testing.assert_close(y, at["y"], atol=2e-5, rtol=1e-4)
    y.backward(at["gy"])
    difference = (logits.grad - at["grad_logits"]).abs().max()
    assert difference <= 1e-3 * at["grad_logits"].abs().max()


def test_the_published_loop_stops_where_all_sums_are_one():
    logits = truth.project(torch.randn(2, 5, 5)).log().requires_grad_()
    cotangent = torch.randn(2, 5, 5, dtype=torch.float64)
    R = published_way.project(logits)
    torch.testing.assert_close(R, logits.exp())
    (R * cotangent).sum().backward()
    torch.testing.assert_close(logits.grad, R * cotangent)


def test_the_truth_is_what_many_sweeps_reach():
    logits = 2 * torch.randn(3, 6, 6, dtype=torch.float64)
    log_r = logits
    for _ in range(2000):
        log_r = log_r - log_r.logsumexp(-1, keepdim=True)
        log_r = log_r - log_r.logsumexp(-2, keepdim=True)
    torch.testing.assert_close(truth.project(logits), log_r.exp())


HALF = torch.arange(6) < 3
TRUTH = {
    "start": lambda: torch.rand(6, 6),
    "normal": lambda: 2 * torch.randn(6, 6),
    "sharp": lambda: torch.rand(6, 6) + 5 * torch.eye(6)[torch.randperm(6)],
    "sharpest": lambda: torch.rand(6, 6) + 10 * torch.eye(6)[torch.randperm(6)],
    "blocks": lambda: torch.randn(6, 6) - 8 * (HALF[:, None] != HALF),
    "triangle": lambda: torch.rand(6, 6) - 6 * torch.ones(6, 6).tril(-1),
}


@pytest.mark.parametrize("name", TRUTH)
def test_the_truth_has_sums_of_one_and_differs_by_potentials(name):
    """Which only the projection does."""
    logits = TRUTH[name]().double()
    R = truth.project(logits)
    ones = torch.ones(6).double()
    torch.testing.assert_close(R.sum(-1), ones, rtol=0, atol=1e-12)
    torch.testing.assert_close(R.sum(-2), ones, rtol=0, atol=1e-12)
    moved = R.log() - logits
    potentials = moved[:, :1] + moved[:1] - moved[0, 0]
    torch.testing.assert_close(moved, potentials, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", TRUTH)
def test_the_gradient_of_the_truth_is_that_of_finite_differences(name):
    logits = TRUTH[name]().double()
    cotangent = torch.randn(6, 6, dtype=torch.float64)
    R = truth.project(logits)
    found = truth.gradient(R, cotangent)
    moves = 1e-4 * torch.eye(36, dtype=torch.float64).reshape(36, 6, 6)
    ahead, back = truth.project(logits + moves), truth.project(logits - moves)
    expected = (((ahead - back) * cotangent).sum((-2, -1)) / 2e-4).reshape(6, 6)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 * expected.abs().max().item())


@pytest.mark.parametrize("positions", [25, 100, 196, 392])
def test_near_permutations_are_as_sharp_as_said(positions):
    logits = sinkhorn.near_permutations(1, positions)
    assert 0.95 < truth.second_singular_value(truth.project(logits)).item() < 0.99


def test_the_plain_network_is_the_one_with_one_element():
    shape = Architecture(2, 3)
    ours = GroupCNN(shape, 1, 10, 4, plain(2), (8, 8))
    theirs = step.PlainCNN(shape, 4)
    convolutions = [m for m in theirs.modules() if isinstance(m, torch.nn.Conv2d)]
    with torch.no_grad():
        for layer_, convolution in zip([ours.lifting, *ours.hidden], convolutions, strict=True):
            convolution.weight.copy_(layer_.kernel())
            convolution.bias.copy_(layer_.bias)
    theirs.head.load_state_dict(ours.head.state_dict())
    x = torch.randn(3, 1, 8, 8)
    torch.testing.assert_close(theirs(x), ours(x), atol=1e-6, rtol=1e-5)


def test_the_loop_turns_its_kernel():
    loop = LoopLift(3, 2, 5, group_size=4)
    x = torch.randn(2, 3, 9, 9)
    y = loop(x)
    for g in range(4):
        turned = torch.rot90(loop.theta, g, (-2, -1))
        expected = torch.nn.functional.conv2d(x, turned, loop.bias)
        torch.testing.assert_close(y[:, :, g], expected)


def test_the_loop_interpolates_other_turns_in_the_same_direction():
    loop = LoopLift(1, 1, 5, group_size=8)
    grid = loop.grids[2][None]
    sampled = torch.nn.functional.grid_sample(loop.theta, grid, align_corners=True)
    torch.testing.assert_close(sampled, torch.rot90(loop.theta, 1, (-2, -1)), atol=1e-5, rtol=0)
    assert not loop.kernel(1).isnan().any()


def test_contenders_take_turns():
    calls = []
    contenders = {
        name: timing.Contender(
            lambda n=name: calls.append(n), lambda n=name: calls.append(f"for {n}")
        )
        for name in "AB"
    }
    times = timing.interleaved(contenders, BenchConfig(3, 1e9), torch.device("cpu"))
    assert calls == ["for A", "A", "for B", "B"] * (3 + timing.WARM_UP)
    assert [len(seconds) for seconds in times.values()] == [3, 3]


def test_time_is_up_after_a_whole_round():
    contenders = {"A": timing.Contender(lambda: None)}
    times = timing.interleaved(contenders, BenchConfig(10**6, 1e-9), torch.device("cpu"))
    assert len(times["A"]) == 1


def test_saved_bytes_counts_what_stays_and_each_storage_once():
    x = torch.zeros(10, 10, requires_grad=True)

    def forward():
        x.sin().exp()  # its graph is gone at the end
        y = x.exp()
        return (y * y.T).sum()  # y and its view share a storage

    assert timing.saved_bytes(forward, beside=(x,)) == 400


def test_peak_bytes_sees_what_is_gone_at_the_end():
    def run():
        a = torch.zeros(1000)
        b = a + 1
        del a
        return b.sum()

    assert 8000 <= timing.peak_bytes(run, torch.device("cpu")) <= 8100


def test_a_session_leaves_seed_and_threads_as_they_were():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    with timing.session(BenchConfig(1, 1.0, threads=2, seed=5)):
        assert torch.get_num_threads() == 2
        inside = torch.rand(1)
    assert torch.get_num_threads() == 1
    torch.testing.assert_close(torch.rand(1), expected)
    torch.manual_seed(5)
    torch.testing.assert_close(torch.rand(1), inside)


def test_a_session_limits_linear_algebra_outside_torch_too():
    def threads():
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        return {pool["filepath"]: pool["num_threads"] for pool in pools}

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with timing.session(BenchConfig(1, 1.0, threads=1)):
            assert set(threads().values()) == {1}
        assert threads() == before
        assert set(before.values()) == {2}


@pytest.mark.parametrize("name", BENCHES)
def test_every_row_says_what_and_where(measured, name):
    numbers, summary = measured[name]
    for row in numbers:
        assert set(row) >= ROW
        assert row["bench"] == name
        assert row["unit"] in {"s", "bytes", "1"}
        assert row["n"] >= 1
        assert row["iqr"] >= 0
        assert row["torch"] == torch.__version__
        assert row["threads"] == 1
        assert row["device"].startswith("cpu: ")
    assert summary["summary"] is True
    json.dumps([*numbers, summary], allow_nan=False)


def test_the_summary_of_sinkhorn_is_in_its_rows(measured):
    numbers, summary = measured["sinkhorn"]
    speedups = ["speedup", "speedup_with_norm", "speedup_in_module", "speedup_init"]
    assert list(summary) == ["summary", *speedups, "memory_ratio", "grad_error_max"]
    for key, ours, regime in (
        ("speedup", "ours without the norm penalty", "near permutations"),
        ("speedup_with_norm", "ours with the norm penalty", "near permutations"),
        ("speedup_in_module", sinkhorn.IN_MODULE, "near permutations"),
        ("speedup_init", "ours without the norm penalty", "initialisation"),
    ):
        rows = pick(numbers, contender=f"published way / {ours}", regime=regime, unit="1")
        assert summary[key] == {row["size"]: row["median"] for row in rows}
        assert set(summary[key]) == {"2x9", "3x9"}
    published_, ours = pick(numbers, measures="kept for the backward pass")
    assert summary["memory_ratio"] == pytest.approx(published_["median"] / ours["median"])
    gradients = pick(numbers, measures="relative error of the gradient, by matrix")
    assert len(gradients) == 5
    assert summary["grad_error_max"] == max(row["max"] for row in gradients)
    for row in [*gradients, *pick(numbers, unit="s")]:
        assert 0 < row["second_singular_value"] < 1
        assert row["marginal_error"] < 1e-1
    (training,) = pick(numbers, measures="marginal error of R during training, by step")
    assert training["n"] == 5


def test_the_summary_of_layer_is_in_its_rows(measured):
    numbers, summary = measured["layer"]
    for measures in ("time", "memory"):
        rows = pick(numbers, measures=f"{measures}, ratio", contender="ours / loop over elements")
        assert len(rows) == 6
        middle = statistics.median(row["median"] for row in rows)
        assert summary[f"{measures}_ratio_median"] == pytest.approx(middle)
    ratios = pick(numbers, measures="time, ratio", contender="ours / loop over elements")
    assert summary["time_ratio_max"] == max(row["median"] for row in ratios)
    plain_, loop = (
        pick(numbers, measures="memory", contender=name, case="|G| = 8, k = 3")[0]["median"]
        for name in ("plain convolution", "loop over elements")
    )
    output = 4 * 2 * 2 * 8 * 10 * 10
    assert output <= plain_ <= 3 * output
    assert output <= loop <= 3 * output


def test_the_summary_of_step_is_in_its_rows(measured):
    numbers, summary = measured["step"]
    keys = ["train_ratio", "baked_ratio", "baked_ratio_by_batch", "baked_max_abs_diff"]
    assert list(summary) == ["summary", *keys]
    rows = pick(numbers, measures="training step, ratio within rounds")
    by_batch = {str(row["batch"]): row["median"] for row in rows}
    assert summary["train_ratio"] == pytest.approx(by_batch)
    assert set(summary["train_ratio"]) == {"4", "2"}
    rows = pick(numbers, measures="inference, ratio within rounds")
    by_batch = {str(row["batch"]): row["median"] for row in rows}
    assert summary["baked_ratio_by_batch"] == pytest.approx(by_batch)
    assert set(by_batch) == {"1", "2"}
    (row,) = pick(numbers, measures="largest difference of an output, by batch")
    assert summary["baked_max_abs_diff"] == row["max"] <= 1e-5


def test_the_pooled_ratio_is_the_median_over_all_rounds(monkeypatch):
    """Of rounds that are not alike, and not as many for each batch size."""
    seconds = iter([[1.0]] * 4 + [[4.0, 9.0, 1.0], [2.0, 3.0, 1.0], [5.0], [1.0]])

    def timed(contenders, *_):
        return {name: next(seconds) for name in contenders}

    monkeypatch.setattr(step, "interleaved", timed)
    *_, summary = tiny_step()
    assert summary["train_ratio"] == {"4": 1.0, "2": 1.0}
    assert summary["baked_ratio_by_batch"] == {"1": 2.0, "2": 5.0}
    assert summary["baked_ratio"] == 2.5  # of 2, 3, 1 and 5


@pytest.mark.parametrize("name", BENCHES)
def test_a_ratio_is_that_of_the_numbers_beside_it(name):
    """After one round, where a median is the number itself."""
    numbers = [row for row in BENCHES[name](ONCE) if "summary" not in row]
    quotients = [row for row in numbers if " / " in row["contender"]]
    for row in quotients:
        what, _, _ = row["measures"].partition(", ratio")
        over, under = (
            next(
                r["median"]
                for r in pick(numbers, case=row["case"], contender=contender)
                if r["measures"].startswith(what)
            )
            for contender in row["contender"].split(" / ")
        )
        assert row["median"] == pytest.approx(over / under)
    assert len(quotients) == {"sinkhorn": 13, "layer": 36, "step": 4}[name]


def test_only_one_way_of_ours_has_the_norm_penalty():
    logits = torch.randn(2, 5, 5)
    expected = sinkhorn._Published(logits).forward()
    for way in (sinkhorn._Ours(logits), sinkhorn._OursInModule(logits)):
        assert len(way.forward()) == 2
    *_, norm = sinkhorn._OursWithNorm(logits).forward()
    torch.testing.assert_close(norm, expected[2])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left alone")
def test_kept_memory_is_not_mapped_twice():
    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.ones(2**25)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    with kept():
        faults()
        inside = faults()
    faults()
    assert inside < 0.1 * faults()


def test_all_ways_project_the_same_logits():
    logits = torch.rand(2, 5, 5)
    R, entropy, _ = sinkhorn._Published(logits).forward()
    for kind in (sinkhorn._Ours, sinkhorn._OursWithNorm, sinkhorn._OursInModule):
        way = kind(logits)
        found = way.forward()
        torch.testing.assert_close(found[0], R, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found[1].sum(), entropy, atol=1e-4, rtol=1e-4)
        assert way.logits.data_ptr() != logits.data_ptr()


@pytest.mark.parametrize("kind", [sinkhorn._Ours, sinkhorn._OursWithNorm, sinkhorn._OursInModule])
def test_a_step_has_the_gradient_of_the_weighted_sum(kind):
    C, weights = torch.randn(2, 5, 5), torch.tensor([sinkhorn.ENTROPY, sinkhorn.NORM])
    way = kind(torch.rand(2, 5, 5))
    sinkhorn._contender(way, (C, *weights), seed=0).run()
    found = way.logits.grad
    R, entropies, *norm = way.forward()
    loss = (R * C).sum() + weights[0] * entropies.sum() + weights[1] * sum(norm)
    torch.testing.assert_close(found, torch.autograd.grad(loss, way.logits)[0])


def test_step_times_more_contenders_when_asked():
    numbers = [row for row in tiny_step(unbaked=True, gcnn=True) if "summary" not in row]
    inference = {row["contender"] for row in pick(numbers, measures="inference")}
    training = {row["contender"] for row in pick(numbers, measures="training step")}
    assert inference == {step.BAKED, step.PLAIN, step.UNBAKED, step.GCNN}
    assert training == {step.OURS, step.PLAIN, step.GCNN}


def test_a_training_step_trains():
    network = step.PlainCNN(Architecture(2, 3), 4)
    x, y = torch.randn(8, 1, 8, 8), torch.arange(8)
    loss = torch.nn.functional.cross_entropy
    before = loss(network(x), y).item()
    run = step.training_step(network, x, y)
    for _ in range(20):
        run()
    assert loss(network(x), y).item() < before


@pytest.fixture
def tiny_commands(monkeypatch):
    for module, rows in ((sinkhorn, tiny_sinkhorn), (layer, tiny_layer), (step, tiny_step)):
        monkeypatch.setattr(module, "rows", rows)


@pytest.mark.parametrize("name", BENCHES)
@pytest.mark.usefixtures("tiny_commands")
def test_json_lines(name, capsys):
    commands.main([name, "--json", "--rounds", "1", "--threads", "1"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(row["n"] == 1 for row in lines if row.get("unit") == "s")
    assert [("summary" in line) for line in lines] == [False] * (len(lines) - 1) + [True]


@pytest.mark.parametrize("name", BENCHES)
@pytest.mark.usefixtures("tiny_commands")
def test_tables(name, capsys):
    commands.main([name, "--rounds", "1"])
    printed = capsys.readouterr().out
    first = {"sinkhorn": "speedup", "layer": "time_ratio_median", "step": "train_ratio"}[name]
    assert first in printed
    assert "cpu: " in printed


@pytest.mark.parametrize("form", ["svg", "PNG", "pdf"])
@pytest.mark.usefixtures("tiny_commands")
def test_plots(form, tmp_path, capsys):
    path = tmp_path / f"cost.{form}"
    commands.main(["layer", "--rounds", "1", "--json", "--plot", str(path)])
    assert "time_ratio_median" in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    if form == "svg":
        ElementTree.parse(path)
    elif form == "pdf":
        assert path.read_bytes().startswith(b"%PDF")
    else:
        with Image.open(path) as picture:
            picture.verify()


@pytest.mark.parametrize("name", BENCHES)
def test_commands_take_the_options_of_their_configuration(name, monkeypatch, capsys):
    kinds = {"sinkhorn": SinkhornConfig, "layer": LayerConfig, "step": StepConfig}
    seen = []

    def rows(config, *_):
        seen.append(config)
        yield {"summary": True}

    monkeypatch.setattr({"sinkhorn": sinkhorn, "layer": layer, "step": step}[name], "rows", rows)
    options = {"rounds": 3, "seconds": 1.5, "threads": 2, "seed": 4, "device": "cuda"}
    commands.main([name])
    commands.main([name, *(f"--{key}={value}" for key, value in options.items())])
    assert seen == [kinds[name](), kinds[name](**options)]
    with pytest.raises(SystemExit):
        commands.main([name, "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    for words in (
        "most rounds of each case",
        "CPU threads of torch, NumPy",
        "of everything random",
    ):
        assert words in printed


def test_no_bench_imports_the_training_code():
    names = ["layer", "sinkhorn", "step", "printing"]
    lines = ["import sys", *(f"import benchmarks.{name}" for name in names)]
    lines += ["assert 'symshare.train' not in sys.modules, sorted(sys.modules)"]
    lines += ["assert 'lightning_fabric' not in sys.modules"]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


BAD = {
    "no rounds": (["sinkhorn", "--rounds", "0"], "rounds must be at least 1, got 0"),
    "no seconds": (["step", "--seconds", "0"], "seconds must be positive"),
    "seconds nan": (["step", "--seconds", ".nan"], "seconds must be positive"),
    "no threads": (["layer", "--threads", "0"], "threads must be at least 1"),
    "bad seed": (["layer", "--seed", "-1"], "seed must be at least 0"),
    "bad device": (["step", "--device", "gpu"], "device gpu cannot be used here"),
    "bad plot": (["layer", "--plot", "cost.gif"], "plot must end in .svg, .pdf or .png, got cost"),
    "no extension": (["layer", "--plot", "cost"], "plot must end in .svg, .pdf or .png"),
    "no folder": (["layer", "--plot", "nowhere/cost.svg"], "there is no folder nowhere"),
    "no bench": ([], "sinkhorn,layer,step"),
    "unknown bench": (["layers"], "layers"),
    "unknown option": (["step", "--round", "1"], "round"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_code_2_and_a_remedy(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments, message = BAD[case]
    with pytest.raises(SystemExit) as end:
        commands.main([*arguments])
    assert end.value.code == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_file_to_draw_into(tmp_path):
    (tmp_path / "cost.svg").mkdir()
    with pytest.raises(ValueError, match="is a folder; name a file"):
        figure_path(str(tmp_path / "cost.svg"))


@pytest.mark.parametrize("options", [["--json"], []])
def test_an_interrupt_leaves_whole_lines(options, monkeypatch, capsys):
    def interrupted(config):
        rows = tiny_sinkhorn(config)
        yield next(rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(sinkhorn, "rows", interrupted)
    with pytest.raises(SystemExit) as end:
        commands.main(["sinkhorn", "--rounds", "1", *options])
    assert end.value.code == 130
    printed = capsys.readouterr()
    assert "Interrupted" in printed.err
    if options:
        (line,) = printed.out.splitlines()
        assert json.loads(line)["contender"] == "published way"
    else:
        assert "published way" in printed.out
