import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from symshare.cli import main


def save(path, images, labels, groups=None, **more):
    more |= {} if groups is None else {"groups": groups}
    np.savez(path, images=images, labels=labels, **more)
    return str(path)


def _digits(n=60):
    return np.random.default_rng(0).random((n, 1, 8, 8)), np.arange(n) % 2


def nan(images):
    images[3, 0, 2, 2] = np.nan
    return images


BAD = {
    "unknown source": (["discover", "digit"], "did you mean digits"),
    "unknown transform": (["discover", "digits", "--transform", "quater"], "did you mean quarter"),
    "bad angle": (["discover", "digits", "--transform", "rotate:x"], "rotate:x"),
    "missing file": (["discover", "nowhere.npz"], "no file nowhere.npz"),
    "missing idx": (["discover", "mnist", "--data.root", "."], "train-images-idx3-ubyte"),
    "unknown budget": (["discover", "digits", "--budget", "huge"], "budget"),
    "unknown option": (["discover", "digits", "--sead", "1"], "sead"),
    "bad periodic": (["discover", "digits", "--periodic", "[X]"], "periodic"),
    "unknown source to fit": (["fit", "--data.source", "digit"], "did you mean digits"),
    "unknown transform to fit": (["fit", "--data.transform", "quater"], "did you mean quarter"),
    "bad limit": (["discover", "digits", "--data.limit", "12"], "raise the limit"),
    "groups of digits": (
        ["discover", "digits", "--groups", "patient"],
        "digits: expected no groups, got 'patient'; sources of this kind have none, leave it out",
    ),
    "bad steps": (["fit", "--optim.steps", "0"], "steps must be at least 1"),
    "steps that are no number": (
        ["fit", "--optim.steps", "x"],
        "\"optim.steps\": Expected a <class 'int'>. Got value: x; see symshare fit --help",
    ),
    "one axis": (["discover", "digits", "--periodic", "W", "--seed", "-1"], "seed must be betw"),
    "two axes": (["discover", "digits", "--periodic=H,W", "--seed", "-1"], "seed must be betw"),
    "no source": (["discover"], "source"),
    "no command": (["discuver"], "discover"),
    "bad element": (["fit", "--model.kind", "gcnn", "--model.group", "[rot45]"], "rot45"),
    "bad kind": (["fit", "--model.kind", "gccn"], "gccn"),
    "missing config": (["fit", "--config", "nowhere.yaml"], "nowhere.yaml"),
    "missing table": (["discover", "nowhere.csv"], "no file nowhere.csv; give the path of a .csv"),
    "bad size": (["discover", "digits", "--data.size", "32"], "got '32'; write for example 32x32"),
    "size of digits": (["fit", "--data.size", "8x8"], "digits: expected no size, got '8x8'; sourc"),
    "bad colour": (["discover", "digits", "--data.colour", "gray"], "gray"),
    "no Hub": (
        ["discover", "someone/animals"],
        "no file or folder of this name here, give a local form: a",
    ),
    "large kernel": (["fit", "--model.architecture", "mnist"], "at least 21 positions along each"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_code_2_and_a_remedy(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments, message = BAD[case]
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.startswith("symshare: error: ")
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


LIGHT = [
    ["discover", "digit"],
    ["discover", "nowhere.npz"],
    ["discover", "."],
    ["discover", "mine.txt"],
    ["discover", "cut.npz"],
    ["discover", "nowhere.csv"],
    ["discover", "digits", "--data.size", "32"],
    ["discover", "mnist", "--data.root", "."],
    ["discover", "cifar10", "--data.root", "."],
    ["discover", "digits", "--transform", "rotat:90"],
    ["discover", "digits", "--transform", "rotate:x"],
    ["fit", "--data.source", "digit"],
    ["fit", "--data.source", "nowhere.npz"],
    ["fit", "--data.transform", "scale:1"],
]


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_a_wrong_name_is_found_before_torch_is_imported(arguments, tmp_path):
    for name in ("mine.txt", "cut.npz"):
        (tmp_path / name).write_text("neither an archive nor a source")
    script = (
        "import sys\n"
        "from symshare.cli import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stdout == "False\n"
    assert done.stderr.startswith("symshare: error: ")
    assert done.stderr.count("\n") == 1


BAD_FILES = {
    "one class": (lambda i, y: (i, np.zeros_like(y)), "at least 2 classes"),
    "unequal numbers": (lambda i, y: (i, y[:-1]), "59"),
    "NaN": (lambda i, y: (nan(i), y), "finite"),
    "fill value": (lambda i, y: (np.where(i > 0.99, 9.96921e36, i), y), "fill value"),
    "negative label": (lambda i, y: (i, y - 1), "-1"),
    "float labels": (lambda i, y: (i, y + 0.5), "integer"),
    "too few": (lambda i, y: (i[:6], y[:6]), "at least 5 different images"),
    "no axes": (lambda i, y: (i[:, 0, 0, 0], y), "2 to 5 axes"),
    "channels last": (lambda i, y: (np.zeros((60, 8, 8, 3)), y), "`layout`"),
    "one group": (lambda i, y: (i, y, np.zeros(60, int)), "at least 5 groups, got class '0' in 1"),
    "missing group": (lambda i, y: (i, y, np.r_[np.nan, :59]), "groups: expected a group for ev"),
    "groups of others": (lambda i, y: (i, y, np.arange(59)), "groups: expected one for each of 60"),
    "objects": (lambda i, y: (np.array([np.zeros((2, 2)), np.zeros((3, 3))], object), y), "size"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_end_with_code_2_and_a_remedy(case, tmp_path, monkeypatch, capsys, unchecked):
    monkeypatch.chdir(tmp_path)
    change, message = BAD_FILES[case]
    path = save(tmp_path / "mine.npz", *change(*_digits()))
    with pytest.raises(SystemExit) as end:
        main(["discover", path])
    assert end.value.code == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["mine.npz"]


def test_groups_are_read_from_the_array_of_that_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    images, labels = _digits()
    # All of one patient: a division of these groups fails, one of the other groups would not.
    save("mine.npz", images, labels, np.arange(60), patient=np.array(["ann"] * 60))
    remedies = {
        "patient": "at least 5 groups, got class '0' in 1; use finer groups, add some",
        "film": "expected an array 'film' of groups, got images, labels, patient, groups; name",
    }
    for name, remedy in remedies.items():
        with pytest.raises(SystemExit) as end:
            main(["discover", "mine.npz", "--groups", name])
        assert end.value.code == 2
        errors = capsys.readouterr().err
        assert remedy in errors
        assert errors.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["mine.npz"]


def pictures(root, count=60):
    """A folder with a folder for each of two classes of random pictures, and a broken one."""
    pillow = pytest.importorskip("PIL.Image")
    for i, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (count, 8, 8), np.uint8)):
        path = root / ("a", "b")[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pillow.fromarray(pixels).save(path)
    (root / "a" / "broken.png").write_bytes(b"no picture")
    return str(root)


def test_broken_pictures_end_with_code_2_and_are_left_out_on_request(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = pictures(tmp_path / "data")
    with pytest.raises(SystemExit) as end:
        main(["discover", source])
    assert end.value.code == 2
    assert "1 of 61 images are broken" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["data"]
    options = ["--data.skip_broken", "--optim.steps", "2", "--model.width", "4", "--out", "run"]
    command = [sys.executable, "-m", "symshare", "fit", "--data.source", source, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == (
        f"symshare: warning: {source}: 1 of 61 images are broken and were left out\n"
    )
    assert "skip_broken: true" in (tmp_path / "run" / "config.yaml").read_text()


def test_an_oblong_image_cannot_be_turned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = save(
        tmp_path / "mine.npz", np.random.default_rng(0).random((60, 6, 9)), np.arange(60) % 2
    )
    with pytest.raises(SystemExit):
        main(["discover", path, "--transform", "quarter", "--data.layout", "NHW"])
    assert "square" in capsys.readouterr().err


def test_refuses_a_folder_that_holds_something_else(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(SystemExit) as end:
        main(["discover", "digits", "--out", str(tmp_path)])
    assert end.value.code == 2
    assert "choose another folder with --out" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_refuses_a_folder_that_cannot_be_written(tmp_path, capsys):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(SystemExit) as end:
        main(["discover", "digits", "--out", str(tmp_path / "run")])
    assert end.value.code == 2
    assert "Permission denied" in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(SystemExit) as end:
            main(["discover", "digits", "--out", str(out)])
        assert end.value.code == 2
        assert str(tmp_path / "file") in capsys.readouterr().err


def test_fit_reads_back_the_configuration_of_a_run(tmp_path, capsys):
    out = tmp_path / "run"
    options = ["--data.limit", "100", "--optim.steps", "2", "--model.width", "4"]
    main(["fit", *options, "--out", str(out)])
    first = capsys.readouterr().out
    main(["fit", "--config", str(out / "config.yaml"), "--out", str(out)])
    assert capsys.readouterr().out.splitlines()[-1] == first.splitlines()[-1]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("symshare.discovery.config.DiscoveryConfig.__post_init__", "\nInterrupted.\n"),
        (
            "symshare.discovery.run.judge_pool",
            "\nInterrupted. The same command goes on where this one stopped.\n",
        ),
    ],
    ids=["before the run", "in the run"],
)
def test_an_interrupt_says_that_a_run_goes_on_where_one_has_begun(
    tmp_path, monkeypatch, capsys, step, said
):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(step, interrupt)
    with pytest.raises(SystemExit) as end:
        main(["discover", "digits", "--out", str(tmp_path / "run")])
    assert (end.value.code, capsys.readouterr().err) == (130, said)


def test_help_loads_nothing_that_takes_long():
    command = [sys.executable, "-X", "importtime", "-m", "symshare", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "discover" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "symshare.cli" in loaded
    assert not loaded & {"torch", "numpy", "scipy", "sklearn", "matplotlib", "rich", "sympy"}
    # 280 modules, two thirds of them Python's own, take a quarter of a second.
    assert len(loaded) < 400


def test_discover_tells_the_story(tmp_path, monkeypatch, capsys):
    from symshare.discovery import config
    from symshare.discovery.config import Budget

    monkeypatch.setitem(config.BUDGETS, "quick", Budget(2000, 250, 3, 1))
    arguments = ["discover", "digits", "--transform", "flip", "--budget", "quick"]
    main([*arguments, "--out", str(tmp_path / "run")])
    printed = capsys.readouterr().out
    assert "verdict   group C2" in printed
    assert "found     flipW" in printed
    assert "plain CNN" in printed
    assert "report.html" in printed.replace("\n", "")
    assert "\n\n" not in printed.strip()  # a bar leaves nothing in a file
