"""Learn the stacks of networks under every law, and compare them with what made the images."""

import json
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from experiments.discovery.truths import LAWS
from experiments.each import each
from experiments.finding import closed
from experiments.image_settings import StudyNetwork, source_folder
from experiments.moments.page import page
from experiments.runner import cores
from experiments.study_networks import network
from symshare import __version__, groups, learn_stacks
from symshare.data import LabelledImages, load, transform
from symshare.files import alone, read_json, write_atomically
from symshare.models import GroupNetwork
from symshare.moments.network import move_in_space
from symshare.train.learning import shown

RESULTS, PAGE = "moments-results.json", "moments.md"

SQUARE = ("none", "flip", "half", "flips", "quarter", "d4")
"""Laws that are uniform over a group of the square."""

TURNED = {"rotate:360": "quarter", "rotate:180": "none", "rotate:90": "none", "scale:0.3-1": "none"}
"""Other laws, each with the law of the square whose group it has, as far as kernels can show it."""

REFLECTED = {"rotate:180": "flipH", "rotate:90": "transpose"}
"""With a mirror m, turns R_t by t in [0, A] have the reflection R_A m: R_A m R_t = R_(A-t) m."""


@dataclass(frozen=True)
class Case:
    """One law of the images of one source, and what is learned.

    Attributes:
        source: of the images.
        law: their random transformation.
        layers: "lifting" for that layer alone, with a slot for each symmetry of the square;
            "all" for the network of the paper's table, with as many slots as there are elements.
    """

    source: str
    law: str
    layers: str

    @property
    def name(self) -> str:
        """As on the command line."""
        return f"{self.source}/{self.law}/{self.layers}"

    @property
    def truth(self) -> tuple[str, ...]:
        """The elements that the law has, by the names of the symmetries of the square."""
        return LAWS[TURNED.get(self.law, self.law)]

    @property
    def open(self) -> tuple[str, ...]:
        """Elements of which nothing is known: those that a mirror of photographs would add."""
        if self.source == "cifar10" and self.law in REFLECTED:
            return (REFLECTED[self.law],)
        if self.source != "cifar10":
            return ()
        return tuple(n for n in closed([*self.truth, "flipW"]).names if n not in self.truth)


CASES = (
    *(Case(s, law, "lifting") for s in ("mnist", "cifar10") for law in (*SQUARE, *TURNED)),
    *(Case("mnist", law, "all") for law in ("flip", "rotate:360")),
    Case("cifar10", "flip", "all"),
)


def chosen(names: str | None) -> list[Case]:
    """The cases that begin with one of these names; all for None.

    Raises:
        ValueError: where no case does.
    """
    if names is None:
        return list(CASES)
    starts = tuple(name.strip() for name in names.split(","))
    found = [case for case in CASES if case.name.startswith(starts)]
    if not found:
        raise ValueError(f"cases: no case begins with {names}; --list names all of them")
    return found


def run_all(
    cases: list[Case], seeds: int, root: str | None, out: str, processes: int | None
) -> int:
    """Run what has no row yet, and keep the file of rows and its page whole.

    Args:
        cases: in their order.
        seeds: of each, from 0.
        root: folder of the data sets, or of one of them; None for the Hugging Face Hub.
        out: folder of the results and the page.
        processes: runs at a time, each with one thread; None for one for each core.

    Returns:
        Number of runs that failed; the same call tries them again.

    Raises:
        ValueError: for a number below 1, or a damaged file of results.
        OSError: for a folder that is in use, or cannot be written.
    """
    processes = cores() if processes is None else processes
    for what, number in (("processes", processes), ("seeds", seeds)):
        if number < 1:
            raise ValueError(f"moments: {what} must be at least 1, got {number}")
    folder, failures = Path(out), 0
    places = {case.name: place for place, case in enumerate(CASES)}
    with alone(folder):
        path = folder / RESULTS
        kept = read_json(path, "rows")["rows"] if path.exists() else []
        rows = {(row["case"], row["seed"]): row for row in kept}
        wanted = [(case, seed) for seed in range(seeds) for case in cases]
        waiting = [run for run in wanted if (run[0].name, run[1]) not in rows]
        print(f"{len(wanted)} runs, {len(wanted) - len(waiting)} of them done", flush=True)
        for (case, seed), row, error in each(partial(learn, root=root), waiting, processes):
            if row is None:
                failures += 1
                print(f"failed  {case.name}, seed {seed}: {error}", flush=True)
                continue
            rows[case.name, seed] = row
            ordered = sorted(rows.values(), key=lambda row: (places[row["case"]], row["seed"]))
            content = {"version": __version__, "rows": ordered}
            write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
            write_atomically(folder / PAGE, page(ordered).encode())
            found = "; ".join(", ".join(layer["found"]) or "-" for layer in row["layers"])
            print(f"{case.name}, seed {seed}: {found}  {row['seconds']:.0f} s", flush=True)
    return failures


def learn(run: tuple[Case, int], root: str | None) -> dict[str, Any]:
    """Learn the stacks of one case with one seed."""
    case, seed = run
    data = images_of(case, seed, root)
    torch.manual_seed(seed)
    net = network_of(case, data)
    start = time.perf_counter()
    model = net if case.layers == "all" else net.lifting
    records = learn_stacks(model, data.images, data.labels, seed=seed)
    seconds = time.perf_counter() - start
    side = net.lifting.geometry.kernel_size[0]
    layers = []
    for record, stack in zip(records, net.stacks(), strict=False):
        with torch.no_grad():
            sources = stack().argmax(-1)[: record.elements]
        found = [named(row, side) for row in sources][1:]
        layers.append({**asdict(record), "found": sorted(found)})
    return {
        "case": case.name,
        "seed": seed,
        "truth": list(case.truth[1:]),
        "open": list(case.open),
        "images": len(data),
        "layers": layers,
        "seconds": round(seconds, 2),
    }


def network_of(case: Case, data: LabelledImages) -> GroupNetwork:
    """The network of the paper's table, with free stacks."""
    residual = case.source == "cifar10"
    slots = len(case.truth) if case.layers == "all" else 8
    config = StudyNetwork(
        architecture="residual" if residual else "auto", kind="sinkhorn", elements=slots, width=16
    )
    return network(config, groups.rotations(1), data)


def images_of(case: Case, seed: int, root: str | None) -> LabelledImages:
    """Training images as a network sees them."""
    folder = source_folder(None if root is None else Path(root), case.source)
    return shown(load(case.source, root=folder, seed=seed).train, transform(case.law), seed)


def named(sources: Int[Tensor, " D"], side: int) -> str:
    """The symmetry of the square that a permutation is in space, whatever it does to elements."""
    square, move = groups.dihedral(4), move_in_space(sources, side**2)
    known = square.permutation((side, side)).tolist()
    return square.names[known.index(move)] if move in known else "other"
