"""Second moments of what a layer sees, with their noise, and what commutes with them."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from scipy.special import fdtrc
from torch import Tensor

BLOCKS = 16
"""Blocks of samples, whose scatter tells the noise of a moment. An energy is a mean over D^2
entries, so that few blocks are enough."""

_AT_ONCE = 2**24
"""Entries of moments that are moved at once."""

FEWEST = 2 * BLOCKS
"""Samples, or images, of which moments can be made."""


@dataclass(frozen=True, eq=False)
class Moments:
    r"""K second moments of D numbers, each estimated on B blocks of samples.

    Where the law of the numbers stays under a permutation R, each moment S = E[p q'] commutes with
    R, since E[(R p) (R q)'] = R S R'. The *energy* of R says how far it is from that,

    .. math:: E(R) = \frac{1}{K} \sum_k \frac{|R S_k - S_k R|^2}{2 D^2 \sigma_k^2}

    in units of the noise sigma_k of an entry of the estimate. It is convex in R.

    Attributes:
        blocks: the moments of each block, in any unit.
    """

    blocks: Float[Tensor, "B K D D"]

    def __post_init__(self) -> None:
        if len(self.blocks) < 2:
            raise ValueError(f"Moments: expected at least 2 blocks, got {len(self.blocks)}")
        if not torch.isfinite(self.blocks).all():
            raise ValueError("Moments: what the layer sees has NaN or infinite entries")

    @property
    def positions(self) -> int:
        """D."""
        return self.blocks.shape[-1]

    @cached_property
    def noise(self) -> Float[Tensor, " K"]:
        """Standard error of the mean over blocks, of an entry of each moment."""
        variance = self.blocks.var(0).mean((1, 2)) / len(self.blocks)
        # A moment that never varies, such as that of a constant channel, says nothing.
        return torch.where(variance > 0, variance, torch.inf).sqrt()

    @cached_property
    def units(self) -> Float[Tensor, "K D D"]:
        """Means over all blocks, in units of their noise; zero where a moment has none."""
        return self.blocks.mean(0) / self.noise[:, None, None]

    def energy(self, R: Float[Tensor, "G D D"]) -> Float[Tensor, " G"]:
        """How far each matrix is from commuting, in units of the noise; differentiable.

        >>> pixels = torch.randn(2000, 4) * torch.tensor([1.0, 2.0, 2.0, 1.0])
        >>> moments = of_samples(pixels)
        >>> mirror = torch.eye(4).flip(0)[None]
        >>> bool(moments.energy(mirror) < 5), bool(moments.energy(mirror.roll(1, 1)) > 20)
        (True, True)
        """
        return commutation(R, self.units)

    def test(self, sources: Int[Tensor, "G D"]) -> tuple[Float[Tensor, " G"], Float[Tensor, " G"]]:
        r"""Whether permutations commute with the moments as far as noise lets one tell.

        For a true one the commutator of the mean is noise. Its squared length over what the scatter
        of the blocks lets one expect is 1 on average, and follows an F law with nu and nu (B - 1)
        degrees of freedom, nu = (tr Sigma)^2 / tr Sigma^2, where Sigma is the covariance of the
        commutator in a block (Satterthwaite). Noise of different entries hangs together, so that
        nu is far below their number.

        Args:
            sources: `(R f)[p] = f[sources[p]]`.

        Returns:
            That ratio, and the p value of the hypothesis that they commute; 0 and 1 where the
            permutation moves nothing.
        """
        B, _, D, _ = self.blocks.shape
        grams = self.blocks.new_zeros(len(sources), B, B)
        squares = self.blocks.new_zeros(len(sources))
        some = max(1, _AT_ONCE // (B * D**2))
        for blocks, noise in zip(self.blocks.split(some, 1), self.noise.split(some), strict=True):
            scaled = blocks / noise[:, None, None]
            for i, source in enumerate(sources):
                moved = (scaled[:, :, source][:, :, :, source] - scaled).flatten(1)
                mean = moved.mean(0)
                grams[i] += (moved - mean) @ (moved - mean).T
                squares[i] += mean.square().sum()
        ratios, p_values = [], []
        for gram, square in zip(grams, squares, strict=True):
            trace = gram.trace() / (B - 1)
            if not trace > 0:
                ratios.append(0.0)
                p_values.append(1.0)
                continue
            ratio = B * square / trace
            # Of products of different blocks: the square of one block's length is no tr Sigma^2.
            apart = gram - torch.diag(gram.diagonal())
            nu = max(float(trace**2 / apart.square().sum() * B * (B - 1)), 1.0)
            ratios.append(float(ratio))
            p_values.append(float(fdtrc(nu, nu * (B - 1), float(ratio))))
        return torch.tensor(ratios), torch.tensor(p_values)


def commutation(R: Float[Tensor, "G D D"], S: Float[Tensor, "K D D"]) -> Float[Tensor, " G"]:
    """Mean over k of |R_g S_k - S_k R_g|^2 / (2 D^2).

    >>> commutation(torch.eye(3)[None], torch.rand(2, 3, 3))
    tensor([0.])
    """
    apart = R[:, None] @ S - S @ R[:, None]
    return apart.square().sum((1, 2, 3)) / (2 * len(S) * S.shape[-1] ** 2)


def of_samples(
    samples: Float[Tensor, "N *C D"], labels: Int[Tensor, " N"] | None = None
) -> Moments:
    """Second moments about the mean of all entries, of all samples or of each class.

    Args:
        samples: independent of one another, in any order. Of several channels C each has moments
            of its own, about its own mean.
        labels: of the samples, from 0; None for one class.

    Raises:
        ValueError: for fewer than two samples for each block.

    >>> of_samples(torch.rand(100, 3), torch.arange(100) % 2).blocks.shape
    torch.Size([16, 2, 3, 3])
    """
    labels = torch.zeros(len(samples), dtype=torch.int64) if labels is None else labels
    classes = int(labels.max()) + 1
    channels = samples.reshape(len(samples), -1, samples.shape[-1])
    patches = (channels - channels.mean((0, 2), keepdim=True))[..., None]
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
    blocks = [by_class(patches[block], labels[block], classes) for block in blocks_of(order)]
    return Moments(torch.stack(blocks))


def by_class(
    patches: Float[Tensor, "N C D L"], labels: Int[Tensor, " N"], classes: int
) -> Float[Tensor, "K D D"]:
    """Second moments of L patches of N images, of each class and channel.

    That of a class is its sum over the number of all images, so that how often a class occurs
    scatters with the blocks, too.
    """
    made = []
    for label in range(classes):
        rows = patches[labels == label].permute(1, 2, 0, 3).flatten(2)
        made.append(rows @ rows.transpose(1, 2))
    return torch.cat(made) / (len(patches) * patches.shape[-1])


def blocks_of(positions: Int[Tensor, " N"]) -> tuple[Int[Tensor, " n"], ...]:
    """`BLOCKS` parts of one size; what is left over is left out.

    Raises:
        ValueError: for fewer than two positions for each block.
    """
    if len(positions) < FEWEST:
        raise ValueError(
            f"moments: {len(positions)} samples are too few to tell symmetry from noise; give at "
            f"least {FEWEST}, and better thousands"
        )
    return positions.split(len(positions) // BLOCKS)[:BLOCKS]
