"""`python -m benchmarks sinkhorn`: the projection and its gradient, beside the published way."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from benchmarks import published, truth
from benchmarks.options import BenchConfig
from benchmarks.recording import Recorder, Row, ratios
from benchmarks.timing import Contender, interleaved, saved_bytes, session
from symshare.representations import Sinkhorn, shared
from symshare.sinkhorn import marginal_error, norm_penalty, project
from symshare.sinkhorn.scaling import TRAINING

__all__ = ["near_permutations", "rows"]

SIZES = ((4, 25), (4, 100), (4, 196), (8, 392))
"""(G, D) of the timed steps; the last is also asked for its memory."""

POSITIONS = (25, 100, 196)
"""D of the gradients that are compared with the converged one."""

TRAINING_SIZES = ((4, 25), (4, 100))

TRAINING_STEPS = 600
"""Enough for Adam to move a logit by 6, which takes R from one permutation to another."""

LR = 1e-2
ENTROPY = 1e-2
NORM = 1e-2
SETTLING_STEPS, SETTLING_LR = 20, 1e-4
PUBLISHED, OURS = "published way", "ours"
WITHOUT_NORM, WITH_NORM = "ours without the norm penalty", "ours with the norm penalty"
IN_MODULE = "ours without the norm penalty, in a module"


def rows(
    config: BenchConfig,
    sizes: Sequence[tuple[int, int]] = SIZES,
    positions: Sequence[int] = POSITIONS,
    training_sizes: Sequence[tuple[int, int]] = TRAINING_SIZES,
    training_steps: int = TRAINING_STEPS,
) -> Iterator[Row]:
    """Every number as it is taken, the summary last.

    A step is a forward pass to R and the penalties, and the backward pass from their given
    derivatives. The published way has the entropy and the norm penalty. Ours is timed without the
    norm penalty, which it does not need, and with it; both ways are functions. It is also timed in
    a module that keeps the start and shares R, which costs that once a step for a whole network.
    Between steps the logits move by 0.01 each, as Adam moves them. Before each step of ours comes
    one of the published way, so that caches are as cold as a network leaves them.

    In the summary, `speedup` is the published way with the norm penalty over ours without it, by
    size: what a user saves. `speedup_with_norm` is the published way over ours, both with the
    norm penalty: the same work. `speedup_in_module` is `speedup` for ours in a module. All are
    near permutations; `speedup_init` is `speedup` at the published initialisation.

    Args:
        config: how long and on what.
        sizes: (G, D) of the timed steps.
        positions: D of the gradients.
        training_sizes: (G, D) of the training runs.
        training_steps: length of each.
    """
    with session(config) as device:
        recorder = Recorder("sinkhorn", device)
        speedup: dict[tuple[str, str], dict[str, float]] = {}
        for size in sizes:
            for regime, draw in _REGIMES.items():
                for row in _steps(recorder, config, device, regime, draw(*size)):
                    if row["unit"] == "1":
                        found = speedup.setdefault((row["contender"], regime), {})
                        found[row["size"]] = row["median"]
                    yield row
        *memory, memory_ratio = _memory(recorder, device, near_permutations(*sizes[-1]))
        yield from memory
        yield memory_ratio
        gradient_errors = []
        for D in positions:
            for name, draw in _GRADIENT_REGIMES.items():
                row = _gradient(recorder, device, f"4x{D} {name}", draw(D))
                gradient_errors.append(row["max"])
                yield row
        for size in training_sizes:
            yield _training(recorder, device, near_permutations(*size), training_steps)
        yield {
            "summary": True,
            "speedup": speedup[f"{PUBLISHED} / {WITHOUT_NORM}", "near permutations"],
            "speedup_with_norm": speedup[f"{PUBLISHED} / {WITH_NORM}", "near permutations"],
            "speedup_in_module": speedup[f"{PUBLISHED} / {IN_MODULE}", "near permutations"],
            "speedup_init": speedup[f"{PUBLISHED} / {WITHOUT_NORM}", "initialisation"],
            "memory_ratio": memory_ratio["median"],
            "grad_error_max": max(gradient_errors),
        }


def near_permutations(group_size: int, positions: int) -> Tensor:
    """Logits [G, D, D] of stacks with a second singular value of about .97.

    >>> 0.95 < truth.second_singular_value(truth.project(near_permutations(1, 25))).item() < 0.99
    True
    """
    return _sharpened(group_size, positions, math.log(positions * 0.965 / 0.035))


def _sharpened(group_size: int, positions: int, sharpness: float) -> Tensor:
    """Uniform noise with `sharpness` added on a random permutation."""
    eye = torch.eye(positions)
    permutations = torch.stack([eye[torch.randperm(positions)] for _ in range(group_size)])
    return torch.rand(group_size, positions, positions) + sharpness * permutations


_REGIMES: dict[str, Callable[[int, int], Tensor]] = {
    "near permutations": near_permutations,
    "initialisation": lambda G, D: torch.rand(G, D, D),
}
_GRADIENT_REGIMES: dict[str, Callable[[int], Tensor]] = {
    "rand01": lambda D: torch.rand(4, D, D),
    "randn*2": lambda D: 2 * torch.randn(4, D, D),
    "perm5": lambda D: _sharpened(4, D, 5.0),
    "perm8": lambda D: _sharpened(4, D, 8.0),
    "perm10": lambda D: _sharpened(4, D, 10.0),
}


def _representation(logits: Tensor) -> Sinkhorn:
    """Our module in training mode, with these logits."""
    group_size, positions, _ = logits.shape
    representation = Sinkhorn(group_size, positions, anchor=False).to(logits.device)
    with torch.no_grad():
        representation.logits.copy_(logits)
    return representation.train()


def _move(logits: Tensor, generator: torch.Generator, length: float = LR) -> None:
    """A step of this length for every logit in a random direction; the old gradient goes."""
    signs = torch.rand(logits.shape, generator=generator, device=logits.device) < 0.5
    with torch.no_grad():
        logits.add_(torch.where(signs, length, -length))
    logits.grad = None


class _Published:
    """One step of the published way."""

    name = PUBLISHED

    def __init__(self, logits: Tensor):
        self.logits = nn.Parameter(logits.clone())

    def forward(self) -> tuple[Tensor, ...]:
        """R, its entropy and the norm penalty."""
        return published.project(self.logits), *published.penalties(self.logits)


class _Ours:
    """One step of ours: the warm start holds the gauge, so there is no norm penalty by default."""

    name = WITHOUT_NORM

    def __init__(self, logits: Tensor):
        self.logits = nn.Parameter(logits.clone())
        self.start = logits.new_zeros(logits.shape[:-1])

    def forward(self) -> tuple[Tensor, ...]:
        """R and the entropy of each matrix."""
        R, entropies, self.start = project(self.logits, self.start, TRAINING)
        return R, entropies


class _OursWithNorm(_Ours):
    """The same with the norm penalty, for those who want it all the same."""

    name = WITH_NORM

    def forward(self) -> tuple[Tensor, ...]:
        """R, the entropy of each matrix and the norm penalty."""
        return *super().forward(), norm_penalty(self.logits)


class _OursInModule:
    """The first with what a module adds: it keeps the start, and shares R within a step."""

    name = IN_MODULE

    def __init__(self, logits: Tensor):
        self.representation = _representation(logits)
        self.logits = self.representation.logits

    def forward(self) -> tuple[Tensor, ...]:
        """R and its entropy."""
        with shared(self.representation):
            return self.representation(), self.representation.entropy()


_Way = _Published | _Ours | _OursInModule


def _steps(
    recorder: Recorder, config: BenchConfig, device: torch.device, regime: str, logits: Tensor
) -> Iterator[Row]:
    """Rows of one size and regime: seconds, then ratios."""
    case = f"{len(logits)}x{logits.shape[-1]}"
    derivatives = torch.randn(logits.shape).to(device), *torch.tensor([ENTROPY, NORM]).to(device)
    kinds = _Published, _Ours, _OursWithNorm, _OursInModule
    ways: list[_Way] = [kind(logits.to(device)) for kind in kinds]
    first, *others = (_contender(way, derivatives, config.seed) for way in ways)
    turns = [first, *(_after(first, contender) for contender in others)]
    contenders = {way.name: turn for way, turn in zip(ways, turns, strict=True)}
    times = interleaved(contenders, config, device)
    more = {"size": case, "regime": regime}
    for way in ways:
        R, *_ = way.forward()
        second = truth.second_singular_value(truth.project(way.logits.cpu()))
        yield recorder.row(
            "step: forward, penalties, backward",
            f"{case} {regime}",
            way.name,
            "s",
            times[way.name],
            second_singular_value=second.median().item(),
            marginal_error=marginal_error(R).item(),
            **more,
        )
    for ours in (WITHOUT_NORM, WITH_NORM, IN_MODULE):
        yield recorder.row(
            "step, ratio within rounds",
            f"{case} {regime}",
            f"{PUBLISHED} / {ours}",
            "1",
            ratios(times[PUBLISHED], times[ours]),
            **more,
        )


def _contender(way: _Way, derivatives: tuple[Tensor, ...], seed: int) -> Contender:
    """A step from derivatives with respect to R, the entropy and the norm penalty."""
    generator = torch.Generator(way.logits.device).manual_seed(seed)
    cotangents = [
        derivative.expand_as(output)
        for derivative, output in zip(derivatives, way.forward(), strict=False)
    ]

    def step() -> None:
        torch.autograd.backward(way.forward(), cotangents)

    return Contender(step, lambda: _move(way.logits, generator))


def _after(first: Contender, then: Contender) -> Contender:
    """`then`, right after a run of `first` that is not timed."""

    def prepare() -> None:
        first.run()
        then.prepare()

    return Contender(then.run, prepare)


def _memory(recorder: Recorder, device: torch.device, logits: Tensor) -> Iterator[Row]:
    """Rows of what each way keeps for the backward pass, the ratio last."""
    case = f"{len(logits)}x{logits.shape[-1]} near permutations"
    generator = torch.Generator(device).manual_seed(0)
    saved = []
    ways: list[_Way] = [kind(logits.to(device)) for kind in (_Published, _OursInModule)]
    for way in ways:
        for _ in range(2):  # the second step is like all later ones
            _move(way.logits, generator)
            kept = saved_bytes(way.forward, beside=(way.logits,))
        saved.append(kept)
        yield recorder.row("kept for the backward pass", case, way.name, "bytes", [kept])
    yield recorder.row(
        "kept for the backward pass, ratio",
        case,
        f"{PUBLISHED} / {IN_MODULE}",
        "1",
        ratios(saved[:1], saved[1:]),
    )


def _gradient(recorder: Recorder, device: torch.device, case: str, logits: Tensor) -> Row:
    """Relative error of our gradient, matrix by matrix, a step of Adam away from settled logits.

    Short steps let the potentials settle first, as a training run does.
    """
    representation = _representation(logits.to(device))
    generator = torch.Generator(device).manual_seed(0)
    for _ in range(SETTLING_STEPS):
        representation()
        _move(representation.logits, generator, SETTLING_LR)
    _move(representation.logits, generator)
    cotangent = torch.randn(logits.shape).to(device)
    R = representation()
    (R * cotangent).sum().backward()
    assert representation.logits.grad is not None
    exact = truth.project(representation.logits.cpu())
    expected = truth.gradient(exact, cotangent.cpu())
    difference = representation.logits.grad.cpu().double() - expected
    errors = (difference.norm(dim=(-2, -1)) / expected.norm(dim=(-2, -1))).tolist()
    return recorder.row(
        "relative error of the gradient, by matrix",
        case,
        OURS,
        "1",
        errors,
        max=max(errors),
        second_singular_value=truth.second_singular_value(exact).median().item(),
        marginal_error=marginal_error(R).item(),
    )


def _training(recorder: Recorder, device: torch.device, logits: Tensor, steps: int) -> Row:
    """Marginal error of R in every step of a run from near permutations to other ones."""
    group_size, positions, _ = logits.shape
    representation = _representation(logits.to(device))
    x = torch.randn(positions, 64)
    targets = torch.stack([x[torch.randperm(positions)] for _ in range(group_size)]).to(device)
    x = x.to(device)
    optimizer = torch.optim.Adam(representation.parameters(), lr=LR)
    errors, losses = [], []
    for _ in range(steps):
        R = representation()
        loss = (R @ x - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(marginal_error(R.detach()))
        losses.append(loss.detach())
    values = torch.stack(errors).tolist()
    return recorder.row(
        "marginal error of R during training, by step",
        f"{group_size}x{positions}",
        OURS,
        "1",
        values,
        max=max(values),
        loss_first=losses[0].item(),
        loss_last=statistics.fmean(loss.item() for loss in losses[-10:]),
    )
