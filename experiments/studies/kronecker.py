"""Which start lets the element action A of `Kronecker` learn, and which freezes?

    python -m experiments.studies.kronecker --seeds 10 --out docs/studies/kronecker.json

The symmetry is C4 and kernels are 3 x 3. Four tasks, from easy to hard:

- `regression`: one group convolution against the output of a fixed C4 one on random inputs; B is
  held at C4, A is learned.
- `digits`: the classification of scikit-learn's digits, turned by random quarter turns, with three
  blocks of 8 channels; B is held at C4, A is learned.
- `digits, B learned`: the same, but B is learned too, from near C4's permutations.
- `digits, B blurred`: the same, but B starts with 0.2 of its mass there, and 0.8 spread evenly.

An A counts as found where each of its elements, rounded, is the one of C4's Cayley table. `frozen`
is one that is not found, but sharp: more than 0.9 of each column's mass lies on one entry.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

from experiments.resumed import resumed
from symshare import Fixed, GroupConv2d, Kronecker, Representation, groups
from symshare.data import load, transform
from symshare.models import SMALL, GroupCNN
from symshare.representations.kronecker import Learned
from symshare.representations.starts import near, random_permutations

C4 = groups.rotations(4)
TABLE, TURNS = C4.cayley, C4.lift(3)
STEPS = 400
BATCH = 64
WEIGHT_RATE = 1e-2
HOMOMORPHISM = 0.1
BLURRED_MASS = 0.2


def main(options: list[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(options)
    torch.set_num_threads(1)
    wanted = [(*case, seed) for seed in range(arguments.seeds) for case in CASES]
    rows = resumed(arguments.out, ("task", "start", "rate", "seed"), wanted, row)
    print("| task | A | rate | found | frozen | mass on the table | score |")
    print("|---|---|---|---|---|---|---|")
    for task, start, rate in CASES:
        of_case = [r for r in rows if (r["task"], r["start"], r["rate"]) == (task, start, rate)]
        found, frozen = (sum(r[key] for r in of_case) for key in ("found", "frozen"))
        mass, score = (
            torch.tensor([r[key] for r in of_case], dtype=torch.float64)
            for key in ("mass", "score")
        )
        n = len(of_case)
        print(
            f"| {task} | {start} | {rate:g} | {found}/{n} | {frozen}/{n} "
            f"| {mass.mean():.2f} | {score.mean():.3f} +- {score.std():.3f} |"
        )


def uniform() -> Tensor:
    """The library's start: near the average over elements."""
    return 0.1 * torch.randn(3, 4, 4)


def paper() -> Tensor:
    """Logits from U[0, 1)."""
    return torch.rand(3, 4, 4)


def identity() -> Tensor:
    """Near the identity, for every element."""
    return near(torch.eye(4).expand(3, 4, 4)) + uniform()


def sharp() -> Tensor:
    """Near random permutations."""
    return near(random_permutations(3, 4))


LEARNED = {
    "uniform": uniform,
    "homomorphism": uniform,
    "U[0, 1)": paper,
    "identity": identity,
    "sharp": sharp,
}
CASES = [
    *(("regression", start, rate) for start in LEARNED for rate in (1e-2, 5e-2)),
    ("digits", "known", 0.0),
    *(("digits", start, 1e-2) for start in LEARNED),
    ("digits", "uniform", 5e-2),
    ("digits", "identity", 5e-2),
    *(("digits, B learned", start, 1e-2) for start in ("transport", "uniform", "identity")),
    *(("digits, B blurred", start, 1e-2) for start in ("transport", "uniform")),
]
"""Task, what A is or starts from, and the learning rate of A and B; weights have `WEIGHT_RATE`."""


def row(task: str, start: str, rate: float, seed: int) -> dict:
    """One training run."""
    torch.manual_seed(seed)
    shared: Representation = Fixed(C4)
    if start != "known":
        elements = "learned" if start in LEARNED else "transport"
        shared = Kronecker(4, 3, space=TURNS, learn_space="digits, B" in task, elements=elements)
        if isinstance(shared.elements, Learned):
            shared.elements.projection.logits.data.copy_(LEARNED[start]())
        if task == "digits, B blurred" and isinstance(shared.space, Learned):
            blurred = BLURRED_MASS * TURNS[1:] + (1 - BLURRED_MASS) / 9
            shared.space.projection.logits.data.copy_(blurred.log())
    score = regression(shared, start, rate) if task == "regression" else digits(shared, start, rate)
    A = factors(shared)[0].detach() if isinstance(shared, Kronecker) else TABLE
    found = bool((A.argmax(1) == TABLE.argmax(1)).all())
    return {
        "task": task,
        "start": start,
        "rate": rate,
        "seed": seed,
        "found": found,
        "frozen": not found and bool(A.amax(1).min() > 0.9),
        "mass": round((A * TABLE).sum().item() / 16, 4),
        "score": round(score, 4),
    }


def regression(shared: Representation, start: str, rate: float) -> float:
    """Squared error at the end, as a share of the variance of the output."""
    teacher, student = GroupConv2d(2, 4, 3, Fixed(C4)), GroupConv2d(2, 4, 3, shared)
    optimizer = optimizer_of(student, shared, rate)
    error = torch.tensor(torch.nan)
    for _ in range(STEPS):
        f = torch.randn(16, 2, 4, 5, 5)
        y = teacher(f).detach()
        error = (student(f) - y).square().mean() / y.var()
        step(optimizer, error + penalty(shared, start))
    return error.item()


def digits(shared: Representation, start: str, rate: float) -> float:
    """Accuracy on the validation part."""
    splits = load("digits", seed=0)
    turned = transform("quarter")
    generator = torch.Generator().manual_seed(torch.initial_seed())
    network = GroupCNN(SMALL, 1, 10, 8, [shared] * 3, (8, 8))
    optimizer = optimizer_of(network, shared, rate)
    rates = [group["lr"] for group in optimizer.param_groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=STEPS)
    for _ in range(STEPS):
        batch = torch.randint(len(splits.train), (BATCH,), generator=generator)
        logits = network(turned(splits.train.images[batch], generator) - 0.3)
        loss = nn.functional.cross_entropy(logits, splits.train.labels[batch])
        step(optimizer, loss + penalty(shared, start))
        schedule.step()
    images = turned(splits.validation.images, torch.Generator().manual_seed(0)) - 0.3
    with torch.no_grad():
        return (network(images).argmax(1) == splits.validation.labels).double().mean().item()


def penalty(shared: Representation, start: str) -> Tensor | float:
    """For "homomorphism": the squared distance of B_g B_h from the sum of A_g(k, h) B_k."""
    if start != "homomorphism" or not isinstance(shared, Kronecker):
        return 0.0
    A, B = factors(shared)
    difference = torch.einsum("gpq,hqr->ghpr", B, B) - torch.einsum("gkh,kpr->ghpr", A, B)
    return HOMOMORPHISM * difference.square().sum() / B.shape[-1]


def factors(shared: Kronecker) -> tuple[Tensor, Tensor]:
    """A and B."""
    A, B = shared.on_group((3, 3)).factors()
    return A.R, B.R


def optimizer_of(network: nn.Module, shared: Representation, rate: float) -> torch.optim.Optimizer:
    """Adam with a learning rate of its own for the representation."""
    learned = list(shared.parameters())
    own = {id(p) for p in learned}
    weights = [p for p in network.parameters() if id(p) not in own]
    parts = [{"params": weights, "lr": WEIGHT_RATE}]
    return torch.optim.Adam(parts + ([{"params": learned, "lr": rate}] if learned else []))


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step down."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    main()
