"""How close a stack of doubly stochastic matrices is to permutations, and to which ones."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


def nearest_permutation(R: Float[Tensor, "*batch D D"]) -> Int[Tensor, "*batch D"]:
    """Source indices of the permutation matrix nearest to each R in the Frobenius norm.

    Maximises `sum_p R[p, perm[p]]` exactly (linear assignment on the CPU).

    Raises:
        ValueError: where R is not square or has entries that are not finite.

    Example:
        >>> nearest_permutation(torch.tensor([[0.2, 0.8], [0.8, 0.2]]))
        tensor([1, 0])
    """
    from scipy.optimize import linear_sum_assignment

    refuse_not_square("nearest_permutation", R)
    if not torch.isfinite(R).all():
        raise ValueError("nearest_permutation: R has entries that are not finite; check training")
    stack = R.detach().double().cpu().numpy().reshape(-1, *R.shape[-2:])
    columns = [torch.from_numpy(linear_sum_assignment(r, maximize=True)[1]) for r in stack]
    return torch.stack(columns).view(R.shape[:-1]).to(R.device)


def normalized_entropy(R: Float[Tensor, "*batch D D"]) -> Float[Tensor, "*batch"]:
    """Mean entropy of the rows over the entropy of a uniform row: 0 permutation, 1 uniform.

    Args:
        R: matrices with rows that sum to one; row sums off by rounding are clipped to [0, 1].

    Raises:
        ValueError: where R is not square or has negative entries, which have no entropy.

    Example:
        >>> normalized_entropy(torch.stack([torch.eye(4), torch.full((4, 4), 0.25)]))
        tensor([0., 1.])
    """
    refuse_not_square("normalized_entropy", R)
    if (R < 0).any():
        raise ValueError(
            f"normalized_entropy: R must be non-negative, got {float(R.min()):.3g}; "
            f"a free matrix has no entropy"
        )
    if R.shape[-1] == 1:
        return R.new_zeros(R.shape[:-2])
    rows = torch.special.entr(R).sum(-1).mean(-1)
    return (rows / math.log(R.shape[-1])).clamp(0, 1)


def vertex_gap(R: Float[Tensor, "*batch D D"]) -> Float[Tensor, "*batch"]:
    """One minus the mean mass of R on its nearest permutation: 0 permutation, 1 - 1/D uniform.

    Example:
        >>> vertex_gap(torch.full((4, 4), 0.25))
        tensor(0.7500)
    """
    nearest = nearest_permutation(R)
    return 1 - R.gather(-1, nearest[..., None]).squeeze(-1).mean(-1)


class Match(NamedTuple):
    """Known elements assigned to learned ones.

    Args:
        index: the known element of each learned one, -1 where there are fewer known ones.
        mismatch: fraction of rows in which the rounded learned element differs from it;
            0 is exact recovery, and 1 stands where none is assigned.
    """

    index: Int[Tensor, " G"]
    mismatch: Float[Tensor, " G"]

    @property
    def exact_hits(self) -> int:
        """Number of learned elements that round to the known element assigned to them."""
        return int((self.mismatch == 0).sum())


def match(R: Float[Tensor, "G D D"], permutations: Float[Tensor, "K D D"]) -> Match:
    """Assign to each learned element its best known one, no known one twice.

    The assignment maximises the mass of R on the known permutations, so two learned
    elements that collapsed onto one known element show as a mismatch. A matrix without a single
    nearest permutation, such as the uniform one, rounds to any of them; look at `vertex_gap`.

    Args:
        R: learned stack.
        permutations: known elements as permutation matrices, such as `action.lift(k)`.

    Raises:
        ValueError: where one of them is no stack of square matrices, they act on other positions,
            or entries are not finite.

    Example:
        >>> known = torch.eye(3)[torch.tensor([[0, 1, 2], [2, 0, 1], [1, 2, 0]])]
        >>> match(known[[2, 0]] * 0.7 + 0.1, known)
        Match(index=tensor([2, 0]), mismatch=tensor([0., 0.]))
    """
    from scipy.optimize import linear_sum_assignment

    for stack in (R, permutations):
        refuse_not_square("match", stack)
    refuse_other_positions("match", R, permutations)
    known = permutations.to(R)
    mass = torch.einsum("gde,kde->gk", R.detach(), known).double().cpu().numpy()
    learned, assigned = (torch.from_numpy(i) for i in linear_sum_assignment(mass, maximize=True))
    index = torch.full((len(R),), -1).index_put((learned,), assigned)
    differs = nearest_permutation(R).cpu()[learned] != known.argmax(-1).cpu()[assigned]
    mismatch = torch.ones(len(R)).index_put((learned,), differs.float().mean(-1))
    return Match(index.to(R.device), mismatch.to(R))


def refuse_not_square(who: str, R: Tensor) -> None:
    """Raise ValueError unless R is one square matrix or more."""
    if R.ndim < 2 or R.shape[-1] != R.shape[-2] or not R.numel():
        raise ValueError(
            f"{who}: R must be square matrices [..., D, D], at least one, got {tuple(R.shape)}; "
            "pass what a representation returns, such as stack()"
        )


def refuse_other_positions(who: str, R: Tensor, known: Tensor) -> None:
    """Refuse known elements that act on another number of positions."""
    if R.shape[-1] != known.shape[-1]:
        raise ValueError(
            f"{who}: R acts on {R.shape[-1]} positions, the known elements on "
            f"{known.shape[-1]}; lift them to the kernel of the layer"
        )
