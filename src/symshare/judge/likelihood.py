"""Labels as normal laws: what a mean or a covariance gives away at once, and a network late."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from symshare.data import LabelledImages
from symshare.judge.classes import Classes
from symshare.judge.numbers import Numbers

LARGEST = 1024
"""Most features of an image whose covariance is inverted; the cost grows with their square."""

CLIP = 5.0
"""Spreads from the middle at which a pixel is clipped, so that a hot one does not hide the rest."""

_QUARTILES = 1.349
"""Distance of the quartiles of a normal law, in spreads."""


@dataclass(frozen=True, eq=False)
class NormalLaws:
    """One normal law for each of K classes, with a covariance that they share.

    The F features are pixels, relative to the middle of the class and their spread within classes
    (the mean and the distance of the quartiles), and clipped; and beside them, where they are few
    enough, their sizes without the sign, whose covariance knows the shape of the law of a pixel.

    Where labels are numbers, the middle and the mean are linear in them.

    Attributes:
        target: what the labels are.
        middle: of each class, [K, P]; P = channels x pixels. Of numbers K coefficients.
        spread: of each pixel within classes.
        mean: of the features, by class.
        precision: inverse of the covariance of features within classes, shrunk towards a multiple
            of the identity as by Ledoit and Wolf (J. Multivariate Analysis 88, 2004).
    """

    target: Classes | Numbers
    middle: Float[Tensor, "K P"]
    spread: Float[Tensor, " P"]
    mean: Float[Tensor, "K F"]
    precision: Float[Tensor, "F F"]

    @classmethod
    def fit(cls, data: LabelledImages, target: Classes | Numbers) -> "NormalLaws | None":
        """The laws of labelled images; None where images are too large or no class varies."""
        if data.images[0].numel() > LARGEST:
            return None
        x, labels = data.images.cpu().flatten(1).double(), data.labels.cpu()
        middle = target.middles(x, labels)
        apart = x - target.at(middle, labels)
        if not apart.any():
            return None
        low, high = apart.quantile(torch.tensor([0.25, 0.75], dtype=x.dtype), dim=0)
        # Where most images agree in a pixel its quartiles do, and say nothing of the others.
        spread = ((high - low) / _QUARTILES).maximum(apart.square().mean(0).sqrt() / CLIP)
        spread = spread.maximum(1e-3 * _usual(spread, data.images.shape[1]))
        z = _features(apart / spread)
        mean = target.means(z, labels)
        precision = _shrunk_covariance(z - target.at(mean, labels)).inverse()
        return cls(target, middle.float(), spread.float(), mean.float(), precision.float())

    def distance(self, images: Float[Tensor, "B C *space"], labels: Tensor) -> Float[Tensor, " B"]:
        """Minus the logarithm of the density of images of these labels, up to a constant."""
        at = self.target.at
        z = _features((images.flatten(1) - at(self.middle, labels)) / self.spread)
        z = z - at(self.mean, labels)
        return ((z @ self.precision) * z).sum(1) / 2

    def margins(
        self,
        images: Float[Tensor, "B C *space"],
        labels: Tensor,
        sources: Int[Tensor, "L E"],
        signs: Float[Tensor, "L E"],
        label_maps: Tensor,
    ) -> tuple[Float[Tensor, "L B"], Float[Tensor, "L B"]]:
        """Logarithms of the likelihood of "moved by g" over that of "not moved".

        Moves are sources and signs of all numbers of an image, and maps of the classes.

        Returns:
            Those of images as they are, and those of images after g, with the label that g makes.
        """
        maps = torch.cat([label_maps, self.target.inverse(label_maps)])
        inverse = sources.argsort(1)
        both = torch.cat([sources, inverse])
        changed = torch.cat([signs, signs.gather(1, inverse)])
        rows = torch.cat([both.to(maps.dtype), changed.to(maps.dtype), maps.flatten(1)], 1)
        # Many moves are the inverse of themselves or of another.
        place = rows.unique(dim=0, return_inverse=True)[1]
        first = place.new_zeros(int(place.max()) + 1).scatter_(0, place, torch.arange(len(rows)))
        flat, becomes = images.flatten(1), self.target.moved(maps, labels)
        moved = torch.stack(
            [
                self.distance((flat[:, both[g]] * changed[g]).view_as(images), becomes[g])
                for g in first.tolist()
            ]
        )
        forth, back = moved[place].chunk(2)
        still = self.distance(images, labels)
        # An image that g made has the density of what it was made from.
        return still - back, forth - still


def _usual(spread: Float[Tensor, " P"], channels: int) -> Float[Tensor, " P"]:
    """The usual spread of a pixel that varies, channel by channel: they may differ in unit."""
    usual = []
    for own in spread.unflatten(0, (channels, -1)):
        varying = own[own > 0]
        usual.append((varying.median() if len(varying) else own.new_ones(())).expand_as(own))
    return torch.cat(usual)


def _features(z: Float[Tensor, "N P"]) -> Float[Tensor, "N F"]:
    z = z.clamp(-CLIP, CLIP)
    return torch.cat([z, z.abs()], dim=1) if 2 * z.shape[1] <= LARGEST else z


def _shrunk_covariance(z: Float[Tensor, "N F"]) -> Float[Tensor, "F F"]:
    N, F = z.shape
    S = z.T @ z / N
    size = S.trace() / F
    apart = (S - size * torch.eye(F, dtype=z.dtype)).square().sum()
    noise = (z.square().sum(1).square().sum() / N - S.square().sum()) / N
    share = (noise / apart.clamp_min(1e-300)).clamp(1e-4, 1.0)
    return (1 - share) * S + share * size * torch.eye(F, dtype=z.dtype)
