"""The rows of the studies: what their files say, and what networks they make."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import torch
import yaml

from experiments import catalogue
from experiments.catalogue import STUDIES, read_row, select
from experiments.image_settings import ImageRun, StudyNetwork
from experiments.jobs import BUDGETS, jobs, settings
from experiments.study_networks import network
from symshare import groups
from symshare.data import LabelledImages
from symshare.settings import READERS, Kind, NetworkConfig

NAMES = [
    *(f"table{i}" for i in range(1, 5)),
    *(f"toy-{name}" for name in ("shift", "shift-invariant", "shift-half", "arrows", "cube")),
    *("toy-cube-partial", "cost", "figures", "ablations"),
]
GROUPS = {"C4": groups.rotations(4), "D4": groups.dihedral(4), "found": groups.rotations(4)}
GROUPS |= {"D2": groups.dihedral(2)}


def test_the_studies_are_those_of_the_paper():
    assert list(STUDIES) == NAMES


@cache
def of_budget(budget):
    """The settings of every row, by its name."""
    return {job.row.name: job.config for job in jobs(select("all"), budget, seeds=1)}


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_row_has_sound_settings(budget):
    assert None not in of_budget(budget).values()


def test_every_file_belongs_to_a_study_and_says_nothing_twice():
    """YAML would take the last of two rows of one name in silence."""
    files = sorted(Path(catalogue.__file__).parent.glob("rows/*"))
    assert {file.name for file in files} == {"shared.yaml", *(f"{name}.yaml" for name in NAMES)}
    waiting = [yaml.compose(file.read_text()) for file in files]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), f"{node.start_mark}: {keys}"
            waiting += [value for _, value in node.value]


def test_every_preset_is_used():
    used = [name for row in catalogue._WRITTEN.values() for name in (row or {}).get("like", [])]
    assert set(catalogue._PRESETS) <= set(used)


def built(row, budget="paper"):
    config = settings(row, budget, seed=0)
    assert isinstance(config, ImageRun)
    mnist = config.images.source == "mnist"
    shape = (1, 28, 28) if mnist else (3, 32, 32)
    data = LabelledImages(
        torch.zeros(1, *shape), torch.zeros(1, dtype=torch.int64), tuple("0123456789")
    )
    chosen = config.network
    if chosen.init == "moments":  # with as many elements as it may have, which no images decide
        chosen = replace(chosen, init="sharp")
    dictionary = groups.rotations(1)
    if chosen.kind in READERS["group"]:
        dictionary = GROUPS[chosen.group]
    return network(chosen, dictionary, data)


@pytest.mark.parametrize(
    ("row", "free", "representations"),
    [
        ("table1/rotated-cnn", 412_170, 0),
        ("table1/rotated-gcnn-16", 103_050, 0),
        ("table1/rotated-gcnn-32", 410_890, 0),
        ("table1/rotated-wscnn-norm", 410_890, 121_875),
        ("table1/scaled-wscnn-norm-ent", 410_890, 121_875),
        ("table2/cnn-32", 428_170, 0),
        ("table2/cnn-64", 1_660_170, 0),
        ("table2/cnn-128", 6_544_906, 0),
        ("table2/gcnn", 1_632_394, 0),
        ("table2/wscnn-norm", 1_632_394, 468_195),
        ("table4/wscnn-norm", 1_632_394, 468_195),
        ("table1/published-rotated-cnn", 412_170, 0),
        ("table1/published-rotated-gcnn-16", 103_050, 0),
        ("table1/published-scaled-gcnn-32", 410_890, 0),
        ("table1/published-rotated-wscnn-norm-ent", 410_890, 121_875),
        ("table2/published-cnn-64", 1_660_170, 0),
        ("table2/published-gcnn", 1_632_394, 0),
        ("table2/published-gcnn-same", 1_632_394, 0),
        ("table2/published-wscnn-norm", 1_632_394, 468_195),
        ("table4/published-cnn-128", 6_544_906, 0),
    ],
)
@pytest.mark.filterwarnings("ignore:GroupResNet. the poolings leave out pixels")
def test_networks_have_the_parameters_of_the_paper(row, free, representations):
    net = built(*select(row))
    assert (net.free_parameters(), net.representation_parameters()) == (free, representations)


@pytest.mark.parametrize("row", select("table1"), ids=lambda row: row.name)
def test_rows_of_a_table_are_about_as_large(row):
    reference = built(*select("table1/rotated-gcnn-32"), budget="cpu").free_parameters()
    size = built(row, budget="cpu").free_parameters()
    expected = 0.25 if row.name.endswith("gcnn-16") else 1
    assert 0.85 < size / (expected * reference) < 1.2


def test_the_cpu_budget_is_a_quarter_of_the_width():
    (row,) = select("table1/rotated-wscnn-norm")
    config = settings(row, "cpu", seed=1)
    assert (config.network.width, config.seed, config.optim.steps) == (16, 1, 1500)
    assert built(row, "cpu").lifting.out_channels == 8


PINNED = {
    "table1/rotated-cnn": "07bf47328b637a48",
    "table1/rotated-wscnn-norm": "b7001e792ffb216f",
    "table2/gcnn": "95c31d4421f4abc4",
    "ablations/norm": "2f1b8b870520dba7",
}


@pytest.mark.parametrize(("row", "digest"), PINNED.items())
def test_runs_that_were_made_stay_the_same_runs(row, digest):
    """Settings that came later are at their defaults there, and do not enter the digest."""
    (job,) = jobs(select(row), "cpu", seeds=1)
    assert job.digest == digest


PUBLISHED = select("all", ["B"])


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row.name)
def test_published_rows_have_every_item_of_the_published_protocol(row):
    config = of_budget("paper")[row.name]
    assert isinstance(config, ImageRun)
    images, network, optim = config.images, config.network, config.optim
    mnist = images.source == "mnist"
    assert (optim.schedule, optim.weight_decay, optim.representation_decay) == (
        "constant",
        *[1e-4] * 2,
    )
    assert (images.holdout, images.limit, images.frozen) == ("test", None, False)
    # 0.01 after standardisation with 0.3081, and none on images that are made smaller.
    assert images.noise == (0.00308 if "rotate" in images.train else 0.0)
    assert images.train == next(iter(images.test.values()))
    assert optim.validation_images == 10_000
    assert (optim.lr, optim.representation_lr) == (1e-2 if mnist else 1e-4, 1e-2)
    assert network.weights == "published"
    assert network.mask == ("disk" if network.kind == "gcnn" else "none")
    assert (network.norm, network.anchor) == ("auto", True)
    assert optim.entropy == (0.01 if row.name.endswith("-ent") else 0.0)
    if network.kind == "sinkhorn":
        assert (network.init, network.iterations) == ("paper", 20)
        assert (optim.norm, optim.norm_of) == (0.1, "logits")
    # 100 epochs of 60 000 images in batches of 64, 200 of 50 000 in batches of 128.
    assert optim.steps == (100 * 938 if mnist else 200 * 391)
    assert optim.batch_size == (64 if mnist else 128)


def test_the_published_padding_and_the_corrected_one_are_rows():
    for study in ("table2", "table4"):
        (published,), (same,) = (select(f"{study}/published-gcnn{x}") for x in ("", "-same"))
        padding = [settings(row, "paper", 0).network.lifting_padding for row in (published, same)]
        assert padding == ["valid", "same"]
        with pytest.warns(UserWarning, match="maps of 26 x 26"):
            built(published)


def test_every_row_of_tier_a_has_the_sound_protocol():
    for row in select("all", ["A"]):
        if row.task == "images":
            config = of_budget("paper")[row.name]
            assert (config.images.holdout, config.images.noise) == ("validation", 0.0)
            assert config.optim.schedule == "one-cycle"
            assert config.optim.representation_decay == 0.0
            assert (config.network.mask, config.network.weights) == ("none", "default")


def test_a_disk_leaves_21_of_25_taps_in_every_layer():
    (row,) = select("table1/published-rotated-gcnn-16")
    net = built(row)
    x = torch.rand(2, 1, 28, 28)
    net(x).sum().backward()
    corner = torch.zeros(5, 5, dtype=torch.bool)
    corner[[0, 0, 4, 4], [0, 4, 0, 4]] = True
    assert not net.lifting.kernel()[..., corner].any()
    assert net.lifting.kernel()[..., ~corner].all()
    for layer in (net.lifting, *net.hidden):
        live = layer.theta.grad.unflatten(-1, (-1, 25)).abs().sum((0, 1, 2)) > 0
        assert live.sum() == 21
        assert torch.equal(live, ~corner.flatten())


def test_a_disk_keeps_a_network_invariant():
    config = StudyNetwork("mnist", "gcnn", width=8, mask="disk", weights="published")
    x = torch.rand(2, 1, 28, 28)
    data = LabelledImages(x, torch.tensor([0, 1]), ("a", "b"))
    net = network(config, groups.rotations(4), data).eval()
    torch.testing.assert_close(net(x), net(torch.rot90(x, 1, (-2, -1))), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "lifting", "hidden"),
    [("gcnn", 2.0, 2.0), ("sinkhorn", 3**-0.5, 3**-0.5), ("cnn", 3**-0.5, 3**-0.5)],
)
def test_published_weights_have_their_spread(kind, lifting, hidden):
    """In units of 1/sqrt(fan in): N(0, 2) for the G-CNN, U(-1, 1) or as wide a normal else."""
    torch.manual_seed(0)
    data = LabelledImages(torch.zeros(1, 3, 28, 28), torch.tensor([0]), ("a", "b"))
    dictionary = groups.rotations(1 if kind == "cnn" else 4)
    config = StudyNetwork("mnist", kind, width=64, weights="published")
    net = network(config, dictionary, data)
    for layer, spread in ((net.lifting, lifting), (net.hidden[0], hidden)):
        scaled = layer.theta.detach() * layer.theta[0].numel() ** 0.5
        assert scaled.std().item() == pytest.approx(spread, rel=0.05)
        assert bool(layer.bias.any()) == (kind == "cnn")
    beyond = (net.lifting.theta.abs() > 75**-0.5).any()
    assert bool(beyond) == (kind != "cnn")


def test_frozen_random_stacks_are_permutations_that_do_not_learn():
    net = built(*select("table1/rotated-frozen-random"))
    for stack in net.stacks():
        R = stack()
        assert set(R.unique().tolist()) == {0.0, 1.0}
        assert torch.equal(R.sum(-1), torch.ones(R.shape[:2]))
        assert torch.equal(R[0], torch.eye(R.shape[-1]))
        assert not list(stack.parameters())
        assert len(R.unique(dim=0)) == 4


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("architecture", ["mnist", "residual"])
def test_every_kind_of_network_runs(kind, architecture):
    config = StudyNetwork(architecture, kind, width=4)
    side = 28 if architecture == "mnist" else 32
    images = torch.rand(2, 1, side, side)
    data = LabelledImages(images, torch.tensor([0, 1]), ("a", "b"))
    dictionary = groups.rotations(1 if kind == "cnn" else 4)
    net = network(config, dictionary, data)
    assert net(images).shape == (2, 2)
    assert net.lifting.out_channels == (4 if kind == "cnn" else 2)


def test_seeds_come_before_rows_and_tiers_before_seeds():
    rows = [replace(select("table1/rotated-cnn")[0], name=f"x/{i}") for i in range(2)]
    rows.insert(0, replace(rows[0], name="x/late", tier="C"))
    order = [(job.row.name, job.seed) for job in jobs(rows, "cpu", seeds=2)]
    assert order == [("x/0", 0), ("x/1", 0), ("x/0", 1), ("x/1", 1), ("x/late", 0), ("x/late", 1)]


def test_tiers_choose_rows_of_studies_but_not_named_ones():
    assert {row.study for row in select("ablations", ["A"])} == {"table1"}
    assert select("ablations/wrong-group", ["A"])
    assert {row.tier for row in select("all", ["A"])} == {"A"}


def test_changes_replace_settings():
    (row,) = select("table1/rotated-cnn")
    config = settings(row, "cpu", 0, ("optim.lr=0.5", "network.width=3", "images.limit=99"))
    assert (config.optim.lr, config.network.width, config.images.limit) == (0.5, 3, 99)


def test_a_setting_at_its_default_is_no_part_of_a_run():
    (job,) = jobs(select("table1/rotated-cnn"), "cpu", seeds=1)
    (same,) = jobs(select("table1/rotated-cnn"), "cpu", 1, ("optim.norm=0.0",))
    (other,) = jobs(select("table1/rotated-cnn"), "cpu", 1, ("optim.norm=0.1",))
    assert job.digest == same.digest != other.digest
    assert "norm" not in job.settings["optim"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("optim.lr",), r"expected setting=value, got 'optim.lr'"),
        (("optim.lr={]",), r"the value in 'optim.lr=\{\]' is no YAML; quote it"),
        (("network.chanels=3",), r"table1/rotated-cnn.*: .*chanels"),
        (("network.kind=cmm",), r"table1/rotated-cnn.*: .*cmm"),
        (("network.width=0",), r"table1/rotated-cnn.*: .*network: width must be at least 1, got 0"),
        (("images.test={}",), r"name at least one test"),
        (("images.noise=-1",), r"images.noise must be at least 0, got -1"),
        (("images.holdout=train",), r"table1/rotated-cnn.*: .*holdout"),
        (("network.mask=disk",), r"network: only kind gcnn has a disk, got cnn"),
        *(
            (
                (option,),
                r"network: \w+ is of .*, and means nothing for kind cnn of .*; leave it",
            )
            for option in (
                "network.group=D4",
                "network.elements=8",
                "network.init=paper",
                "network.anchor=false",
                "network.iterations=20",
                "network.lifting_padding=valid",
            )
        ),
        (
            ("network.kind=gated", "network.weights=published"),
            r"network: starts of weights are published of the kinds cnn, gcnn and s.*, got gated",
        ),
    ],
)
def test_wrong_changes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        jobs(select("table1/rotated-cnn"), "cpu", 1, changes)


@pytest.mark.parametrize("what", ["tabel1", "table1/rotated", "", "TABLE1"])
def test_unknown_names_are_refused_with_a_hint(what):
    with pytest.raises(ValueError, match=r"expected all, table1, .*got '.*'; "):
        select(what)


def test_a_row_of_ones_own(tmp_path):
    path = tmp_path / "mine.yaml"
    (row,) = select("table1/rotated-cnn")
    path.write_text(yaml.safe_dump({"title": "mine", "config": row.config}))
    (mine,) = select(str(path))
    assert (mine.name, mine.title) == (f"{tmp_path.name}/mine", "mine")
    assert settings(mine, "cpu", 0) == settings(row, "cpu", 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("title: [", "no YAML"),
        ("- a\n- b", "expected a mapping"),
        ("", "expected a mapping"),
        ("titel: x", "expected the settings title, task"),
        ("config: {}", "expected the settings title, task"),
        ("title: x\ntask: foo", "own/mine: task must be one of images, toy, cost, got 'foo'"),
        ("title: x\ntier: 5", "own/mine: tier must be one of A, B, C, got 5"),
        ("title: x\nconfig: [1]", r"own/mine: config must be a mapping, got \[1\]"),
        ("title: x\ncpu:", "own/mine: cpu must be a mapping, got None"),
        ("title: x\nlike: rotated", r"mine.yaml: like must be a list of names, got 'rotated'"),
        ("title: x\nlike: [[a]]", r"mine.yaml: like must be a list of names, got \[\['a'\]\]"),
        ("title: x\nlike: [rotate]", r"mine.yaml: like .* got 'rotate'; did you mean rotated"),
        ("title: x\nlike: [table1/cnn]", r"like expects presets .* rows such as .*'table1/cnn'"),
        ("title: x\nlike: [zzz]", r"got 'zzz'; presets: rotated, scaled, "),
        ("like: [rotated]", "expected the settings title, task"),
    ],
)
def test_a_file_that_is_no_row_is_refused(tmp_path, content, message, unchecked):
    path = tmp_path / "own" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_row(path)


def test_a_row_is_like_presets_and_rows_from_left_to_right(tmp_path):
    path = tmp_path / "mine.yaml"
    own = {"config": {"optim": {"norm": 0.5}, "images": {"test": {"upright": "none"}}}}
    path.write_text(yaml.safe_dump({"like": ["table1/rotated-wscnn-norm", "published"], **own}))
    (mine,), (published,) = select(str(path)), select("table1/published-rotated-wscnn-norm")
    assert (mine.title, mine.tier, mine.paper) == (published.title, "B", published.paper)
    images = published.config["images"] | {"test": {"upright": "none"}}
    del images["noise"]
    optim = published.config["optim"] | {"norm": 0.5}
    assert mine.config == published.config | {"images": images, "optim": optim}


def test_likeness_in_a_circle_is_refused(tmp_path, monkeypatch):
    presets = {"a": {"like": ["rotated", "b"]}, "b": {"like": ["a"]}}
    monkeypatch.setattr(catalogue, "_WRITTEN", catalogue._WRITTEN | presets)
    (tmp_path / "mine.yaml").write_text("title: x\nlike: [a]")
    with pytest.raises(ValueError, match=r"mine.yaml: like goes in a circle, .* -> a -> b -> a"):
        read_row(tmp_path / "mine.yaml")


def test_a_row_in_the_current_folder_stays_in_the_folder_of_the_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("config: {images: {test: {upright: none}}}\ntitle: mine")
    (mine,) = select("mine.yaml")
    assert mine.name == f"{tmp_path.name}/mine"


def test_a_row_of_ones_own_does_not_pass_for_one_of_ours(tmp_path):
    path = tmp_path / "table1" / "rotated-cnn.yaml"
    path.parent.mkdir()
    path.write_text("title: mine")
    with pytest.raises(ValueError, match=r"table1/rotated-cnn is a row of symshare; put the file"):
        select(str(path))


def test_a_changed_row_is_another_row():
    rows = select("table1/rotated-cnn")
    (job,) = jobs(rows, "cpu", 1)
    (one,), (two,) = (jobs(rows, "cpu", 1, (change,)) for change in ("optim.lr=1", "optim.lr=2"))
    assert len({job.key, one.key, two.key}) == 3
    assert one.row.name.startswith("table1/rotated-cnn-changed-")


def test_numbers_that_yaml_takes_for_text():
    (job,) = jobs(select("toy-shift"), "cpu", 1, ("noise=1e-3",))
    assert job.config.noise == 1e-3


def test_few_images_stay_few_at_the_smallest_budget():
    (row,) = select("ablations/images100-cnn")
    config = settings(row, "smoke", 0)
    assert (config.images.limit, config.images.test_limit) == (100, 200)


@pytest.mark.parametrize("kind", ["gcnn", "gated", "birkhoff", "kronecker", "sinkhorn-near"])
def test_what_has_a_dictionary_does_not_start_at_the_identity(kind):
    with pytest.raises(ValueError, match=f"{kind} cannot start at the identity, only sinkhorn"):
        NetworkConfig(kind=kind, init="identity")


def test_defaults_that_digests_leave_out_are_those_of_recorded_runs():
    config = ImageRun.from_dict({"images": {"test": {"upright": "none"}}})
    optim = config.optim
    assert (optim.lr, optim.representation_lr, optim.weight_decay) == (0.01, 0.01, 0.0001)
    assert (optim.schedule, optim.entropy, optim.norm, optim.measure) == ("one-cycle", 0, 0, 0.02)
    assert (optim.evaluations, optim.validation_images) == (10, 2000)
    network = config.network
    assert (network.kind, network.group, network.elements) == ("cnn", "C4", 4)
    assert (network.norm, network.init, network.anchor) == ("auto", "sharp", True)
    assert network.architecture == "auto"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(OSError, match="none.yaml"):
        select(str(tmp_path / "none.yaml"))
