"""Run directories as `symshare discover` writes them, made of invented numbers."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

D4 = {
    "id": lambda x: x,
    "rot90": lambda x: torch.rot90(x, 1, (-2, -1)),
    "rot180": lambda x: torch.rot90(x, 2, (-2, -1)),
    "rot270": lambda x: torch.rot90(x, 3, (-2, -1)),
    "flipW": lambda x: x.flip(-1),
    "transpose": lambda x: x.transpose(-2, -1),
    "flipH": lambda x: x.flip(-2),
    "antitranspose": lambda x: torch.rot90(x, 2, (-2, -1)).transpose(-2, -1),
}
FLIPS = {name: D4[name] for name in ("id", "flipW", "flipH", "rot180")}
LONG_CLASSES = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]

# What each kind of run shows; `classes` and `shape` are those of the data.
CASES: dict[str, dict[str, Any]] = {
    "group": {"found": ["rot90", "rot180", "rot270"], "group": "C4"},
    "partial": {
        "partial": ["rot90"],
        "shape": (28, 28),
        "kernel": (5, 5),
        "models": ("cnn", "gated", "sinkhorn"),
    },
    "none": {"in_one_class": ["rot180"], "models": ("cnn",), "shape": (28, 28), "kernel": (5, 5)},
    "tolerated": {
        "verdict": "none",
        "tolerated": ["flipW", "flipH"],
        "models": ("cnn", "gated"),
    },
    "undecided": {"models": (), "power": False},
    "too few": {
        "verdict": "undecided",
        "undecided": ["rot90", "rot180", "rot270"],
        "possible": "C4",
        "models": ("cnn",),
        "independent": 203,
        "copies": 0.8306,
        "looks": 3,
    },
    "approximate": {
        "approximate": ["flipW"],
        "open": [3, 5],
        "mixed": [3, 5],
        "possible": "C2xC2",
        "undecided": ["flipH", "rot180"],
        "group": "C2",
        "shape": (32, 32),
        "channels": 3,
        "kernel": (5, 5),
        "classes": LONG_CLASSES,
    },
    "many": {
        "verdict": "group",
        "found": [f"shift{s}" for s in range(1, 36)],
        "group": "Z36",
        "capped": True,
        "open": list(range(20, 40)),
        "shape": (36, 36),
        "kernel": None,
        "shifts": 36,
        "classes": [f"a rather long class name {i}" for i in range(40)],
        "models": ("cnn",),
    },
    "oblong": {
        "verdict": "group",
        "found": ["flipW", "flipH", "rot180"],
        "group": "C2xC2",
        "shape": (20, 60),
        "kernel": (3, 5),
        "elements": FLIPS,
        "seeds": 1,
    },
}

SENTENCES = {
    "group": "The data are symmetric under {group}: its elements leave the held-out loss as it is.",
    "partial": "No set of candidates closes, but rot90 keeps a part of every class right.",
    "none": "No candidate is a symmetry of this data; each raises the held-out loss clearly.",
    "tolerated": "No symmetry: flipW or flipH is only tolerated.",
    "too few": "Undecided: 203 independent held-out samples are too few; C4 is not excluded.",
    "undecided": "Nothing can be said: the network is too weak to notice a broken symmetry.",
    "approximate": "Nothing holds exactly; flipW holds approximately, within the looser bound.",
}


# Of a candidate of each status, in the order of the candidates: loss [nats] and change.
MEANS = {
    "symmetric": lambda i: (0.0031 * math.sin(i), 0.0024 * math.cos(i)),
    "approximate": lambda i: (0.1612, 0.0663),
    "tolerated": lambda i: (0.0052 * math.sin(i), 0.4131 + 0.05 * math.sin(i)),
    "in_one_class": lambda i: (0.0713, 0.0188),
    "undecided": lambda i: (0.008 * i, 0.031 + 0.004 * i),
    "broken": lambda i: (0.93 + 0.61 * i, min(0.52 + 0.07 * i, 0.93)),
}
# How far their intervals reach, and the shares of the classes that stay right.
REACH = {
    "symmetric": (0.0123, 0.0141),
    "tolerated": (0.0148, 0.0312),
    "in_one_class": (0.0411, 0.0204),
    "undecided": (0.1417, 0.1032),
}
KEPT = {
    "symmetric": 0.93,
    "approximate": 0.86,
    "tolerated": 0.91,
    "undecided": 0.87,
    "in_one_class": 0.84,
}
NEARLY = ("approximate", "in_one_class")
CLAIMED = ("found", "approximate", "tolerated", "in_one_class", "undecided")


def _permutations(case: dict[str, Any], shape: tuple[int, int]) -> dict[str, Tensor]:
    grid = torch.arange(math.prod(shape)).reshape(shape)
    if "shifts" in case:
        moved = {f"shift{s}": grid.roll(s, -1) for s in range(1, case["shifts"])}
        return {"id": grid.flatten(), **{name: m.flatten() for name, m in moved.items()}}
    maps = case.get("elements", D4)
    return {name: move(grid).flatten() for name, move in maps.items()}


def _images(shape: tuple[int, int], channels: int, count: int) -> Tensor:
    """Shapes without symmetry: a bent stroke and a blob, differing by class."""
    h, w = shape
    rows = torch.linspace(-1, 1, h).reshape(-1, 1)
    columns = torch.linspace(-1, 1, w).reshape(1, -1)
    images = []
    for k in range(count):
        bend = 0.35 + 0.2 * math.sin(1.7 * k)
        stroke = torch.exp(-60 * (columns - bend * rows**2 + 0.45) ** 2) * (rows < 0.7)
        bar = torch.exp(-60 * (rows + 0.7 - 0.12 * (k % 4)) ** 2) * (columns > -0.6)
        blob = torch.exp(-18 * ((rows - 0.5) ** 2 + (columns - 0.08 * (k % 5)) ** 2))
        planes = [
            (stroke + bar + blob).clamp(0, 1),
            0.3 + 0.6 * stroke,
            0.2 + 0.6 * bar + 0.2 * blob,
        ]
        images.append(torch.stack(planes[:channels]))
    return torch.stack(images) * 16


def _elements(
    case: dict[str, Any],
    permutations: dict[str, Tensor],
    kernels: dict[str, Tensor] | None,
    shape: tuple[int, int],
    classes: list[str],
) -> list[dict[str, Any]]:
    kinds = {
        name: "symmetric" if kind == "found" else kind
        for kind in CLAIMED
        for name in case.get(kind, [])
    }
    elements = []
    for index, (name, permutation) in enumerate(permutations.items()):
        if name == "id":
            continue
        kind = kinds.get(name, "broken") if case.get("power", True) else "undecided"
        loss, change = MEANS[kind](index)
        reach, sway = REACH.get(kind, (0.021 + 0.08 * loss, 0.0187))
        base = 0.55 if name in case.get("partial", []) else KEPT.get(kind, 0.22)
        if not case.get("power", True):
            base = 0.12
        labels_keep = kind in ("symmetric", "tolerated")
        images_keep = kind in ("symmetric", "in_one_class")
        shares = [round(base + 0.06 * math.sin(3 * k + index), 4) for k in range(len(classes))]
        if kind == "in_one_class":
            shares[6] = 0.1186
        elements.append(
            {
                "name": name,
                "permutation": permutation.tolist(),
                "shape": list(shape),
                "kernel_permutation": kernels[name].tolist() if kernels else None,
                "kernel_shape": [3, 3] if kernels else None,
                "channels": None,
                "signs": None,
                "source": "statistics" if "shifts" in case else "lattice",
                "excess_loss": loss,
                "interval": [loss - reach, loss + reach],
                "p_symmetric": 0.0001 if labels_keep else 0.94,
                "p_approximate": 0.0001 if labels_keep or kind in NEARLY else 0.41,
                "p_broken": 0.0001 if kind == "broken" else 0.97,
                "change": change,
                "change_interval": [change - sway, change + sway],
                "p_unchanged": 0.0001 if images_keep else 0.92,
                "p_nearly_unchanged": 0.0001 if images_keep or kind == "approximate" else 0.38,
                "p_changed": 0.0001 if kind in ("tolerated", "broken") else 0.96,
                "label_map": list(range(len(classes))),
                "target_map": [],
                "moved_share": 0.9874 - 0.0031 * index,
                **_by_class(kind, len(classes), case.get("open", [])),
                "status": "broken" if kind == "in_one_class" else kind,
                "kept_share": sum(shares) / len(shares),
                "kept_share_by_class": shares,
                "kept_share_min": min(shares),
                "kept_share_min_lower": max(min(shares) - 0.07, 0.0),
                "measure": _measure(name, case),
            }
        )
    return elements


def _by_class(kind: str, count: int, left_open: list[int]) -> dict[str, list[int]]:
    """What was shown of each class: all break, one does, or none does and some are left open."""
    broken = list(range(count)) if kind == "broken" else []
    if kind == "in_one_class":
        broken = [6]
    if kind == "tolerated":
        broken = [k for k in range(count) if k != 1]
    if kind == "undecided":
        left_open = list(range(count))
    open_ = [k for k in left_open if k not in broken]
    return {
        "classes_shown": [k for k in range(count) if k not in (*broken, *open_)],
        "classes_broken": broken,
        "classes_open": open_,
    }


def _measure(name: str, case: dict[str, Any]) -> float | None:
    """The mean learned measure of an element, where a network has learned one."""
    if "gated" not in case.get("models", ("gated",)):
        return None
    return 0.6513 if name in _members(case) else 0.0714


def _members(case: dict[str, Any]) -> list[str]:
    """The elements that the G-CNN has built in."""
    return case.get("found") or case.get("approximate") or case.get("partial", [])[:1]


def _write_training(
    folder: Path, model: str, seed: int, kernels: dict[str, Tensor], case: dict[str, Any]
) -> float:
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(100 * seed + len(model))
    channels, names = case.get("channels", 1), list(kernels)
    if model == "cnn":
        names = ["id"]
    elif model == "found":
        names = ["id", *_members(case)]
    elif model == "sinkhorn":
        names = ["id", *(f"element {i}" for i in range(1, 4))]
    size = len(kernels["id"])
    exact = torch.stack([torch.eye(size)[kernels.get(n, kernels["id"])] for n in names])
    if model == "sinkhorn":
        guides = list(kernels)[: len(names)]
        exact = torch.stack([torch.eye(size)[kernels[guides[i]]] for i in range(len(guides))])
        noise = torch.rand(exact.shape, generator=generator) * (0.4 + 1.2 * torch.eye(size).mean())
        stack = exact * 8 + noise
        for _ in range(60):
            stack = stack / stack.sum(-1, keepdim=True)
            stack = stack / stack.sum(-2, keepdim=True)
        stack[0] = torch.eye(size)
    else:
        stack = exact
    theta = torch.randn(16, channels, size, generator=generator)
    expanded = torch.einsum("gde,oie->ogid", stack, theta)
    tensors = {
        "lift.R": stack,
        "lift.kernels": expanded.reshape(*expanded.shape[:3], *case["shape_k"]),
    }
    if model == "gated":
        wanted = {"id": 1.0, **dict.fromkeys(_members(case), 0.6)}
        spread = 0.1 * torch.rand(len(names), generator=generator)
        tensors["measure"] = torch.tensor([wanted.get(n, 0.02) for n in names]) + spread
        tensors["measure"][0] = 1.0
    save_file(
        {k: v.contiguous() for k, v in tensors.items()},
        folder / "representations.safetensors",
        metadata={"names": json.dumps(names)},
    )
    if model == "sinkhorn" and case.get("group") == "C4":
        learned = {"name": "lifting", "slots": 4, "elements": 4, "ratios": [0.0, 0.8, 1.1, 0.8]}
        learned |= {"p_values": [1.0, 0.6, 0.3, 0.6], "nearest": 2e-9, "rounds": 3, "seconds": 4.25}
        other = {"name": "hidden.0", "slots": 4, "note": "its stack was learned before"}
        layers = {"layers": [learned, other], "steps": [0, 40, 90]}
        (folder / "learned.json").write_text(json.dumps(layers), encoding="utf-8")
        ways = {f"lifting.{i}": exact[i + 1].expand(9, -1, -1).contiguous() for i in range(3)}
        save_file(ways, folder / "learned.safetensors")
    level = {"cnn": 0.842, "found": 0.931, "gated": 0.917, "sinkhorn": 0.868}[model]
    accuracy = level + 0.006 * math.sin(5.0 * seed + len(model))
    with (folder / "metrics.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["epoch", "step", "train_loss", "train_accuracy", "val_loss", "val_accuracy", "lr"]
        )
        for epoch in range(24):
            writer.writerow([epoch, 50 * epoch + 40, 1.2, "", "", "", 0.01])
            value = accuracy * (1 - math.exp(-(epoch + 1) / 4)) - 0.01 * float(
                torch.rand((), generator=generator)
            )
            writer.writerow([epoch, 50 * epoch + 49, "", "", 0.5, value, ""])
    result = {
        "model": "gcnn" if model == "found" else model,
        "seed": seed,
        "val_loss": 0.5,
        "val_accuracy": accuracy,
        "test_accuracy": accuracy,
        "test_loss": 0.4321,
        "parameters": 410890 + 1280 * (model == "cnn"),
        "representation_parameters": 121875 if model == "sinkhorn" else 0,
        "seconds": 31.4 + seed,
        "metric": "accuracy",
        "test_error": None,
    }
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    (folder / "config.yaml").write_text(
        f"model: {model}\nseed: {seed}\nsteps: 1200\n", encoding="utf-8"
    )
    return accuracy


def write_run(folder: Path, kind: str) -> dict[str, Any]:
    """Write the run directory of one of `CASES`; return its verdict."""
    case = dict(CASES[kind])
    shape, channels = case.get("shape", (8, 8)), case.get("channels", 1)
    classes = case.get("classes", [str(k) for k in range(10)])
    kernel = case.get("kernel", (3, 3))
    case["shape_k"] = kernel
    permutations = _permutations(case, shape)
    kernels = None if kernel is None else _permutations(case, kernel)
    folder.mkdir(parents=True, exist_ok=True)
    shown = min(len(classes), 10)
    save_file(
        {"images": _images(shape, channels, shown), "labels": torch.arange(shown)},
        folder / "examples.safetensors",
    )
    small = None if kernel is None else _permutations(case, (3, 3))
    elements = _elements(case, permutations, small, shape, classes)
    accuracy: dict[str, Any] = dict.fromkeys(("cnn", "found", "gated", "sinkhorn"))
    drawn = kernels or {"id": torch.arange(9)}
    case["shape_k"] = kernel or (3, 3)
    for model in case.get("models", ("cnn", "found", "gated", "sinkhorn")):
        if model == "found" and not _members(case):
            continue
        values = [
            _write_training(folder / "runs" / f"{model}-seed{seed}", model, seed, drawn, case)
            for seed in range(case.get("seeds", 3))
        ]
        mean = sum(values) / len(values)
        spread = sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1)
        accuracy[model] = {
            "mean": mean,
            "std": math.sqrt(spread) if len(values) > 1 else None,
            "n": len(values),
            "values": values,
            "parameters": 410890 + 1280 * (model == "cnn"),
            "representation_parameters": 121875 if model == "sinkhorn" else 0,
            "error": None,
        }
    word = case.get("verdict", kind)
    passed = case.get("power", True)
    gain = 1.8898 if passed else -0.0312
    verdict = {
        "schema": 2,
        "symshare": "0.1.0",
        "source": "digits",
        "transform": {"group": "quarter", "partial": "rotate:90"}.get(kind, "none"),
        "verdict": word,
        "group": case.get("group"),
        "sentence": SENTENCES.get(kind, SENTENCES.get(word, "")).format(group=case.get("group")),
        "caveats": [
            "Only the transformations on the list of candidates were tested.",
            "Data that never leaves its upright pose says nothing about images in other poses.",
        ],
        "found": case.get("found", []),
        "approximate": case.get("approximate", []),
        "partial": case.get("partial", []),
        "possible": case.get("possible"),
        "capped": case.get("capped", False),
        "delta": 0.05 * max(gain, 0.0),
        "delta_approximate": 0.2 * max(gain, 0.0),
        "change": 0.05,
        "change_approximate": 0.1,
        "alpha": 0.05,
        "samples": 1198,
        "independent": case.get("independent", 1198),
        "copies": case.get("copies", 0.0),
        "looks": case.get("looks", 2),
        "elements": elements,
        "planned": ["cnn", *(["found"] if _members(case) else []), "gated", "sinkhorn"],
        "power": {
            "passed": passed,
            "reasons": [] if passed else ["accuracy 11.3 % is not clearly above chance (10.1 %)"],
            "accuracy": 0.8731 if passed else 0.1134,
            "chance_accuracy": 0.1012,
            "loss": 0.4123 if passed else 2.3333,
            "chance_loss": 2.3021,
            "label_entropy": 2.3024,
            "label_noise": 0.031 if passed else 0.87,
            "knowable": 2.14 if passed else 0.01,
            "gain": gain,
            "told_apart": [
                k for k in range(len(classes)) if passed and k not in case.get("mixed", [])
            ],
            "random_permutations": [
                {
                    "excess_loss": loss,
                    "interval": [loss - 0.21, loss + 0.22],
                    "change": change,
                    "change_interval": [change - 0.0142, change + 0.0142],
                }
                for loss, change in (
                    ((3.417, 0.9524), (4.022, 0.9471)) if passed else ((0.012, 0.013), (0.31, 0.04))
                )
            ],
            "half_permutations": [0.8147, 0.7912] if passed else [0.0071, -0.0024],
        },
        "accuracy": accuracy,
        "seconds": {"propose": 1.213, "judge": 41.72, "fit": 182.1, "total": 226.33},
        "seeds": {"judge": [0, 1, 2], "fit": [0, 1, 2]},
        "versions": {"python": "3.11.7", "torch": "2.13.0+cpu"},
        "commands": [
            "symshare discover digits --transform quarter --seed 0 --out runs/digits-quarter"
        ],
        "classes": classes,
        "channels": [],
        "metric": "accuracy",
        "numbers": [],
        "strata": [],
        "ranges": None,
        "advice": [],
    }
    (folder / "verdict.json").write_text(json.dumps(verdict), encoding="utf-8")
    (folder / "config.yaml").write_text(
        "source: digits\ntransform: quarter\nbudget: standard\nseed: 0\ndata:\n  root: null\n",
        encoding="utf-8",
    )
    return verdict
