"""What the steps of a search read of second moments."""

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.moments.statistics import Moments, commutation

RANDOM_ENERGY = 1000.0
"""What moments are scaled to: the energy of a random permutation. With it one rate fits all."""

SKETCHES = 2
"""Random combinations of moments that a step reads, where there are more moments. Each step draws
new ones; more of them cost time and find no more."""

DIRECTIONS = 128
"""Random directions in which a step reads the commutators of more positions than that."""


class Readings:
    """What each step of a search reads of moments: a few random combinations, less their noise.

    Energies are in units in which a random permutation has `RANDOM_ENERGY`. With signs w of the B
    blocks, as many of each, sum_b w_b S_b / B has the noise of the mean and nothing else. So the
    energy of the mean less that of this sum is the energy of the truth, on average over signs: zero
    where a matrix commutes, however few the samples. Without that a mixture of permutations, over
    which noise averages out, would pass for better than each of them.

    Args:
        moments: of what a layer sees.
        generator: of all that is random.
    """

    def __init__(self, moments: Moments, generator: torch.Generator):
        self.generator = generator
        D = moments.positions
        random = torch.rand(8, D, generator=generator).argsort(-1)
        S = moments.units
        apart = [S[:, source][:, :, source] - S for source in random]
        energy = torch.stack(apart).square().sum() / (8 * 2 * len(S) * D**2)
        unit = (RANDOM_ENERGY / energy.clamp_min(1e-30)).sqrt()
        self.mean = (S * unit).float()
        self.blocks, self.units = moments.blocks.float(), (unit / moments.noise).float()

    def energies(self, R: Float[Tensor, "G D D"]) -> Float[Tensor, " G"]:
        """Of matrices, as one step reads them; what is below zero counts as zero."""
        B, K = self.blocks.shape[:2]
        n = min(K, SKETCHES)
        signs = torch.eye(K) if n == K else self._signs(n, K) / K**0.5
        S = torch.einsum("sk,kpq->spq", signs, self.mean)
        weights = torch.einsum("sk,sb,k->sbk", signs, self._balanced(n, B) / B, self.units)
        noise = torch.einsum("sbk,bkpq->spq", weights, self.blocks)
        return (self._commutation(R, S) - self._commutation(R, noise)).relu()

    def _commutation(self, R: Tensor, S: Float[Tensor, "K D D"]) -> Float[Tensor, " G"]:
        """What :func:`commutation` gives; of many positions, an estimate in random directions.

        The mean square length of (R S - S R) z over signs z is the sum of squares of its entries.
        """
        D = S.shape[-1]
        if D <= DIRECTIONS:
            return commutation(R, S)
        z = self._signs(D, DIRECTIONS)
        apart = R[:, None] @ (S @ z) - S @ (R @ z)[:, None]
        return apart.square().sum((1, 2, 3)) / (2 * len(S) * D**2 * DIRECTIONS)

    def _balanced(self, n: int, B: int) -> Float[Tensor, "n B"]:
        """Random signs, as many of each in a row."""
        places = torch.rand(n, B, generator=self.generator).argsort(-1)
        return (places < B / 2).float() * 2 - 1

    def _signs(self, *shape: int) -> Tensor:
        return torch.randint(2, shape, generator=self.generator).float() * 2 - 1
