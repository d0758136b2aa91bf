"""Four ways from the same second moments to the permutations that commute with them.

    python -m experiments.studies.commutants --seeds 3 --out docs/studies/commutants.json

Groups act on scrambled positions; samples are normal with a random covariance, each moved by a
random element. All ways see the same samples, and what they propose is tested and closed under
products as `symshare.moments.commutant` does it.

- `learned`: doubly stochastic matrices, one entry held (`symshare.moments.commutant`).
- `backtracking`: partial assignments with forward checking (`symshare.propose.automorphisms`).
- `null space`: the double commutator with all D x D matrices as basis (after Thornton,
  arXiv:2605.00834). Its smallest eigenvectors span what commutes; 400 random combinations of the D
  smallest are rounded to permutations.
- `signs`: symmetries U diag(+-1) U' over the eigenvectors of the covariance (after Hagemeyer,
  arXiv:2204.01213), which is all involutions where eigenvalues differ; signs at random, 400 times,
  rounded, since odd moments, by which signs are chosen there, vanish for normal samples.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from experiments.resumed import resumed
from symshare import groups
from symshare.analysis import nearest_permutation
from symshare.moments import Moments, commutant, commutant_among, of_samples
from symshare.propose import automorphisms, estimate

DRAWS = 400


def regular(action: groups.GroupAction, orbits: int) -> Int[Tensor, "G D"]:
    """A group as it acts on so many copies of itself."""
    order = len(action)
    return torch.cat([action.table + order * orbit for orbit in range(orbits)], 1)


CASES: dict[str, tuple[Int[Tensor, "G D"], int]] = {
    "nothing, 25 positions": (torch.arange(25)[None], 8000),
    "C2, 12 orbits": (regular(groups.cyclic_shifts(2), 12), 8000),
    "C4 of a 5 x 5 kernel": (groups.rotations(4).permutation((5, 5)), 8000),
    "D4 of a 5 x 5 kernel": (groups.dihedral(4).permutation((5, 5)), 8000),
    "C12, 4 orbits": (regular(groups.cyclic_shifts(12), 4), 8000),
    "C7, 7 orbits": (regular(groups.cyclic_shifts(7), 7), 8000),
    "C7, 7 orbits, few samples": (regular(groups.cyclic_shifts(7), 7), 2000),
    "S4, 2 orbits": (regular(groups.cube(), 2), 20_000),
}
"""Sources of each group on positions in their order, and the number of samples."""


def main(options: list[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(options)
    torch.set_num_threads(1)
    wanted = [
        (case, way, seed) for case in CASES for seed in range(arguments.seeds) for way in WAYS
    ]
    rows = resumed(arguments.out, ("case", "way", "seed"), wanted, run)
    print(f"| group | elements | {' | '.join(WAYS)} |")
    print(f"|---|---|{'---|' * len(WAYS)}")
    for case, (hidden, _) in CASES.items():
        cells = []
        for way in WAYS:
            of_way = [row for row in rows if (row["case"], row["way"]) == (case, way)]
            true = ", ".join(
                f"{row['true']}" + f" and {row['false']} false" * bool(row["false"])
                for row in of_way
            )
            cells.append(f"{true} ({mean(row['seconds'] for row in of_way):.1f} s)")
        print(f"| {case} | {len(hidden)} | {' | '.join(cells)} |")


def run(case: str, way: str, seed: int) -> dict[str, Any]:
    """One way on the samples that all ways see."""
    hidden, count = CASES[case]
    G, D = hidden.shape
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(D, generator=generator)
    hidden = order.argsort()[hidden[:, order]]
    x = torch.randn(count, D, generator=generator) @ torch.randn(D, D, generator=generator)
    x = x.gather(1, hidden[torch.randint(G, (count,), generator=generator)])
    moments = of_samples(x)
    start = time.perf_counter()
    found = set(map(tuple, WAYS[way](x, moments, seed).tolist()))
    seconds = time.perf_counter() - start
    truth = set(map(tuple, hidden.tolist()))
    return {
        "case": case,
        "seed": seed,
        "way": way,
        "true": len(found & truth),
        "false": len(found - truth),
        "seconds": seconds,
    }


def learned(x: Tensor, moments: Moments, seed: int) -> Tensor:
    """What the library does."""
    return commutant(moments, seed=seed).sources


def backtracking(x: Tensor, moments: Moments, seed: int) -> Tensor:
    """The search of `propose`, as it is."""
    found = automorphisms(estimate(x[:, None].numpy(), seed=seed), seed=seed)
    return commutant_among(moments, torch.from_numpy(found.permutations)).sources


def null_space(x: Tensor, moments: Moments, seed: int) -> Tensor:
    """Random elements of what the double commutator all but annihilates, rounded."""
    D, eye = moments.positions, torch.eye(moments.positions, dtype=torch.float64)
    operator = torch.zeros(D**2, D**2, dtype=torch.float64)
    for S in moments.units.double():
        commutator = torch.kron(eye, S) - torch.kron(S, eye)
        operator += commutator @ commutator
    basis = torch.linalg.eigh(operator).eigenvectors[:, :D].T.reshape(D, D, D)
    weights = torch.randn(DRAWS, D, generator=torch.Generator().manual_seed(seed))
    matrices = torch.einsum("nb,bpq->npq", weights.double(), basis)
    return commutant_among(moments, nearest_permutation(matrices)).sources


def signs(x: Tensor, moments: Moments, seed: int) -> Tensor:
    """Random signs of the eigenvectors of all moments together, rounded."""
    U = torch.linalg.eigh(moments.units.sum(0).double()).eigenvectors
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(2, (DRAWS, len(U)), generator=generator) * 2 - 1
    matrices = torch.einsum("pu,nu,qu->npq", U, chosen.double(), U)
    return commutant_among(moments, nearest_permutation(matrices)).sources


WAYS: dict[str, Callable[[Tensor, Moments, int], Tensor]] = {
    "learned": learned,
    "backtracking": backtracking,
    "null space": null_space,
    "signs": signs,
}


if __name__ == "__main__":
    main()
