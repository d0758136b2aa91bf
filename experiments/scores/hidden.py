"""The order of group elements in a hidden layer, which training leaves open."""

import itertools
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.scores.inputs import stack_in_float64
from symshare.analysis.permutations import refuse_other_positions

# Number of input elements up to which all orders are tried: 8! = 40320.
MOST = 8
CHUNK = 2048


class Alignment(NamedTuple):
    """A hidden layer's stack with its group axis in the order of a target.

    Args:
        R: the stack, `(S R_g S^T)` with `S = kron(Pi, I_P)`; learned elements stay in place.
        inputs: source indices of Pi: input element h of the aligned stack is element
            `inputs[h]` of the layer.
        outputs: the target element of each learned one, -1 where there are fewer of them.
        mass: mean of R_g on the entries of its target element; 1 where both are the same
            permutations.
    """

    R: Float[Tensor, "G D D"]
    inputs: Int[Tensor, " K"]
    outputs: Int[Tensor, " G"]
    mass: float


def align(R: Float[Tensor, "G D D"], target: Float[Tensor, "N D D"], elements: int) -> Alignment:
    r"""Find the order of the input elements and of the learned elements that fits a target best.

    The layer before may have its K elements in any order Pi, and the stack its G elements in any
    order Sigma; nothing in the network depends on either. With :math:`S = \Pi \otimes I_P` this
    maximises

    .. math:: \sum_g \langle S R_g S^\top, T_{\Sigma(g)} \rangle

    exactly: all K! orders of the input are tried, each with its best assignment of elements.
    Orders that differ by a symmetry of the target fit equally well; one of them is taken. Where
    no element of the stack is held at the identity, its elements may also have a common factor
    `R_g Q` that the base kernels undo; that one is not looked for.

    Args:
        R: stack of a group layer, D = K*P with P fast.
        target: known elements, such as `action.regular(k)`.
        elements: K, at most 8.

    Raises:
        ValueError: where K is above 8 or does not divide D, entries are negative or not finite, or
            the positions differ.

    Example:
        >>> from symshare import groups
        >>> target = groups.rotations(4).regular(3)
        >>> S = torch.kron(torch.eye(4)[[0, 2, 1, 3]], torch.eye(9))
        >>> aligned = align(S @ target[[0, 3, 2, 1]] @ S.T, target, elements=4)
        >>> aligned.mass, torch.equal(aligned.R, target[aligned.outputs].double())
        (1.0, True)
    """
    learned = stack_in_float64("align", "R", R)
    known = stack_in_float64("align", "target", target)
    refuse_other_positions("align", learned, known)
    D, K = R.shape[-1], elements
    if not 1 <= K <= MOST or D % K:
        raise ValueError(
            f"align: expected 1 to {MOST} input elements that divide D={D} positions, got {K}; "
            f"pass the number of group elements of the layer before"
        )
    orders = torch.tensor(list(itertools.permutations(range(K))))
    inputs, rows, columns, mass = _best(_overlaps(learned, known, K), orders)
    source = (inputs[:, None] * (D // K) + torch.arange(D // K)).flatten()
    outputs = torch.full((len(learned),), -1).index_put((rows,), columns)
    return Alignment(learned[:, source][:, :, source], inputs, outputs, mass / (len(rows) * D))


def _overlaps(R: Tensor, target: Tensor, K: int) -> Float[Tensor, "K K K K G N"]:
    """`<R_g[block a, b], T_n[block c, d]>` at [a, b, c, d, g, n]."""
    blocks, goals = (x.unflatten(2, (K, -1)).unflatten(1, (K, -1)) for x in (R, target))
    return torch.einsum("gapbq,ncpdq->abcdgn", blocks, goals)


def _best(
    overlaps: Float[Tensor, "K K K K G N"], orders: Int[Tensor, "M K"]
) -> tuple[Tensor, Tensor, Tensor, float]:
    from scipy.optimize import linear_sum_assignment

    K, (G, N) = orders.shape[1], overlaps.shape[-2:]
    table = overlaps.reshape(K**4, G * N)
    c, d = torch.cartesian_prod(torch.arange(K), torch.arange(K)).view(-1, 2).unbind(1)
    masses = []
    for chunk in orders.split(CHUNK):
        cells = ((chunk[:, c] * K + chunk[:, d]) * K + c) * K + d
        masses.append(torch.nn.functional.embedding_bag(cells, table, mode="sum"))
    mass = torch.cat(masses).view(-1, G, N)
    # No assignment has more mass than the best of every row, or of every column.
    bounds = mass.amax(2 if G <= N else 1).sum(1)
    best, found = -1.0, None
    for m in bounds.argsort(descending=True, stable=True).tolist():
        if bounds[m] <= best + 1e-9:
            break
        rows, columns = linear_sum_assignment(mass[m].numpy(), maximize=True)
        value = float(mass[m][rows, columns].sum())
        if value > best + 1e-9:
            best, found = value, (orders[m], torch.from_numpy(rows), torch.from_numpy(columns))
    assert found is not None
    return *found, best
