"""One layer with a free stack, trained until its kernels are the data."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.toys.problem import Problem, labels, sample
from experiments.toys.setup import ToyConfig
from symshare.data import stream
from symshare.layers import GroupLinear
from symshare.representations import Sinkhorn, shared
from symshare.sinkhorn import entropies

__all__ = ["kernels", "predict", "train"]

# Of the noise: how far the loss blurs samples at the end where it does not know the element.
FINAL_BLUR = 3.0
# Of its start: where the learning rate ends.
FINAL_RATE = 0.01


def train(config: ToyConfig, problem: Problem) -> GroupLinear:
    r"""Fit base weights theta_c and a free stack R, one kernel R_g theta_c for each c and g.

    The loss is the squared distance of a sample from its kernel, which is the log-likelihood of
    the data's law up to constants:

    .. math:: |x - R_g \theta_c|^2 \quad\text{or}\quad
              -2 s^2 \log \sum_g \exp\left(-|x - R_g \theta_c|^2 / 2 s^2\right)

    the first where the label tells (c, g), the second where it tells c alone. The entropy of the
    elements is added late, each in proportion to the samples that it answers for, so an element
    that no sample needs stays as it started.

    A classification loss is a weaker guide: it is at peace with every stack that tells the
    classes apart, the group or not.

    Args:
        config: how to train.
        problem: what to draw samples from.

    Returns:
        The trained layer, in evaluation mode.
    """
    layer = _start(config, problem)
    optimiser = torch.optim.Adam(
        [
            {"params": [layer.theta], "lr": config.lr},
            {"params": list(layer.representation.parameters()), "lr": config.representation_lr},
        ]
    )
    samples = stream("training", config.seed)
    for step in range(config.steps):
        done = step / config.steps
        _schedule(optimiser, config, done)
        x, c, g = sample(problem, config.batch_size, samples)
        with shared(layer):
            W = kernels(layer)
            if problem.turns:
                fit, shares = _distance(x, W[c, g], g, len(problem.truth))
            else:
                fit, shares = _soft_minimum(x, W[c], _blur(config, done))
            entropy = (shares * entropies(layer.stack())).sum()
            loss = fit + _entropy_weight(config, done) * entropy
            optimiser.zero_grad()
            loss.backward()
        optimiser.step()
    return layer.eval()


def kernels(layer: GroupLinear) -> Float[Tensor, "C G D"]:
    """The kernel R_g theta_c for every canonical vector and element."""
    return layer.kernel().squeeze(2)


@torch.no_grad()
def predict(layer: GroupLinear, problem: Problem, x: Float[Tensor, "N D"]) -> Int[Tensor, " N"]:
    """Labels of the nearest kernels, as `labels` counts them.

    The layer's answer <x, W> less half of |W|^2 is largest where |x - W| is smallest.
    """
    scores = layer(x[:, None]) - kernels(layer).square().sum(-1) / 2
    best = scores.flatten(1).argmax(1)
    elements = scores.shape[-1]
    return labels(problem, best // elements, best % elements)


def _start(config: ToyConfig, problem: Problem) -> GroupLinear:
    """A layer with an element for each of the problem's, and no bias."""
    C, D = problem.canonical.shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        stack = Sinkhorn(len(problem.truth), D, init=config.init)
        return GroupLinear(1, C, stack, bias=False)


def _schedule(optimiser: torch.optim.Optimizer, config: ToyConfig, done: float) -> None:
    """Learning rates along a cosine; zero for logits in the warm-up."""
    fall = FINAL_RATE + (1 - FINAL_RATE) * (1 + math.cos(math.pi * done)) / 2
    weights, logits = optimiser.param_groups
    weights["lr"] = config.lr * fall
    logits["lr"] = config.representation_lr * fall if done >= config.warmup else 0.0


def _entropy_weight(config: ToyConfig, done: float) -> float:
    """Zero until sharpening begins, then a straight line to the final weight."""
    return config.entropy * max(0.0, done - config.sharpening) / max(1 - config.sharpening, 1e-9)


def _blur(config: ToyConfig, done: float) -> float:
    """The deviation s: wide at first, so that every element has a part in every sample."""
    end = FINAL_BLUR * config.noise
    part = min(1.0, done / config.sharpening) if config.sharpening else 1.0
    return config.blur * (end / config.blur) ** part


def _distance(
    x: Float[Tensor, "N D"], kernel: Float[Tensor, "N D"], g: Int[Tensor, " N"], elements: int
) -> tuple[Float[Tensor, ""], Float[Tensor, " G"]]:
    """Mean squared distance from the kernel of a known element, and how often each occurs."""
    shares = torch.bincount(g, minlength=elements) / len(g)
    return (x - kernel).square().sum(-1).mean(), shares


def _soft_minimum(
    x: Float[Tensor, "N D"], kernel: Float[Tensor, "N G D"], blur: float
) -> tuple[Float[Tensor, ""], Float[Tensor, " G"]]:
    """Mean soft minimum of the distances, and the share of samples that each element explains."""
    scaled = (x[:, None] - kernel).square().sum(-1) / (-2 * blur**2)
    shares = scaled.detach().softmax(1).mean(0)
    return -2 * blur**2 * scaled.logsumexp(1).mean(), shares
