"""One toy run: train, measure against the truth, write."""

import json
import time
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import save
from torch import Tensor

from experiments.scores import simplex_fit, support_scores
from experiments.toys.problem import Problem, labels, problem, sample
from experiments.toys.setup import ToyConfig
from experiments.toys.training import predict, train
from symshare.analysis import match, nearest_permutation, vertex_gap
from symshare.data import stream
from symshare.files import write_atomically
from symshare.layers import GroupLinear

__all__ = ["run_toy"]

TEST_SAMPLES = 4096
SHOWN = 16


def run_toy(config: ToyConfig, folder: Path) -> dict[str, Any]:
    """Train one layer on a toy problem and compare its stack with the truth.

    What can be recovered depends on the label. Where it turns with the data, sample and label
    tell which element acted, and R_g should be truth[g]. In "toy-shift-invariant" it does not:
    the stack is defined up to the order of its elements only, and the base weights of a class
    are defined up to a shift. So learned elements are first assigned to shifts, no shift twice
    (`symshare.analysis.match`), and recovery means that the *set* is right. Nothing forces it
    to be: the loss needs the kernels R_g theta_c to be the data, no more.

    Elements that do not occur in the data have no part in any number but `support`. Where the label
    turns, their matrices stay where they started.

    Args:
        config: what to run.
        folder: where `stack.safetensors` goes: `R` [G, D, D], `theta` [C, D], `truth` [K, D, D],
            `mu` [K], `canonical` [C, D], `samples` [16, D] and their `sample_labels` [16, 2],
            which are c and g; `task`, `size` and `names` are its metadata, the last two as JSON.

    Returns:
        By name:

        - `task`, `seed`, `steps`, `seconds`;
        - `test_accuracy` on 4096 fresh samples, by the nearest kernel; the class is (c, g)
          where the label turns with the data, otherwise c;
        - `elements`: number of elements that occur and are permutations, with the identity, which
          is anchored; `exact_hits`: those that are hit exactly once R is rounded to the nearest
          permutation; `exact`: their share;
        - `sharpness`: mass of R on the nearest permutation, mean over the elements that occur;
        - `explained`: mean of E_g = 1 - |R_g - truth_g|^2 / |R_g - J/D|^2, with J/D the average
          over positions: over the interpolated elements that occur or, where none does, over all
          that occur. 1 is perfect, and below 0 the average is nearer than the truth;
        - `support`: `symshare.analysis.support_scores` of the whole stack, which say whether it
          tells the elements that occur from the others; None where all occur;
        - `parameters` of the base weights and `representation_parameters`, the logits.

    Raises:
        ValueError: if the configuration's measure does not fit the task.
        OSError: if the folder cannot be written.
    """
    start = time.perf_counter()
    law = problem(config)
    layer = train(config, law)
    x, c, g = sample(law, TEST_SAMPLES, stream("test", config.seed))
    with torch.no_grad():
        R = layer.stack()
    accuracy = (predict(layer, law, x) == labels(law, c, g)).double().mean().item()
    shown = torch.stack([c, g], 1)[:SHOWN]
    write_atomically(folder / "stack.safetensors", _content(config, law, layer, R, x, shown))
    return {
        "task": config.task,
        "seed": config.seed,
        "steps": config.steps,
        "test_accuracy": accuracy,
        **_recovery(law, R),
        "parameters": layer.theta.numel(),
        "representation_parameters": sum(p.numel() for p in layer.representation.parameters()),
        "seconds": round(time.perf_counter() - start, 2),
    }


def _recovery(law: Problem, R: Float[Tensor, "G D D"]) -> dict[str, Any]:
    """How much of the truth that occurs is in the stack."""
    truth, exact = law.truth[law.occurs], law.exact[law.occurs]
    learned = R[law.occurs] if law.turns else R[_assigned(R, truth)]
    right = (nearest_permutation(learned) == truth.argmax(-1)).all(-1)
    explained = _explained(learned, truth)
    return {
        "elements": int(exact.sum()),
        "exact_hits": int(right[exact].sum()),
        "exact": right[exact].double().mean().item(),
        "sharpness": 1 - vertex_gap(learned).double().mean().item(),
        "explained": explained[exact if exact.all() else ~exact].double().mean().item(),
        "support": None if law.occurs.all() else _support(law, R),
    }


def _support(law: Problem, R: Float[Tensor, "G D D"]) -> dict[str, float]:
    return support_scores(simplex_fit(R, law.truth).coefficients, law.mu)._asdict()


def _assigned(R: Float[Tensor, "G D D"], truth: Float[Tensor, "K D D"]) -> Int[Tensor, " K"]:
    """The learned element that is assigned to each known one; those without one come first."""
    return match(R, truth).index.argsort()[len(R) - len(truth) :]


def _explained(
    learned: Float[Tensor, "K D D"], truth: Float[Tensor, "K D D"]
) -> Float[Tensor, " K"]:
    """E_g: how much nearer a learned element is to the truth than to the average J/D."""
    error = (learned - truth).square().sum((-2, -1))
    contrast = (learned - 1 / learned.shape[-1]).square().sum((-2, -1))
    return 1 - error / contrast.clamp_min(torch.finfo(contrast.dtype).eps)


def _content(
    config: ToyConfig,
    law: Problem,
    layer: GroupLinear,
    R: Float[Tensor, "G D D"],
    x: Float[Tensor, "N D"],
    shown: Int[Tensor, "S 2"],
) -> bytes:
    tensors = {
        "R": R,
        "theta": layer.theta.detach().squeeze(1),
        "truth": law.truth,
        "mu": law.mu,
        "canonical": law.canonical,
        "samples": x[: len(shown)],
        "sample_labels": shown,
    }
    metadata = {
        "task": config.task,
        "size": json.dumps(law.size),
        "names": json.dumps(law.names),
    }
    return save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata)
