"""Classes as normal laws: what a mean or a covariance gives away at once, and a network late."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from symshare.data import LabelledImages

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

    Attributes:
        middle: of each class, [K, P]; P = channels x pixels.
        spread: of each pixel within classes.
        mean: of the features, by class.
        precision: inverse of the covariance of features within classes, shrunk towards a multiple
            of the identity as by Ledoit and Wolf (J. Multivariate Analysis 88, 2004).
    """

    middle: Float[Tensor, "K P"]
    spread: Float[Tensor, " P"]
    mean: Float[Tensor, "K F"]
    precision: Float[Tensor, "F F"]

    @classmethod
    def fit(cls, data: LabelledImages) -> "NormalLaws | None":
        """The laws of labelled images; None where images are too large or no class varies."""
        if data.images[0].numel() > LARGEST:
            return None
        x, labels = data.images.cpu().flatten(1).double(), data.labels.cpu()
        own = torch.nn.functional.one_hot(labels, len(data.classes)).double()
        quarters = torch.tensor([0.25, 0.75], dtype=x.dtype)
        middle = torch.zeros(len(data.classes), x.shape[1], dtype=x.dtype)
        for label in labels.unique().tolist():
            middle[label] = x[labels == label].quantile(quarters, dim=0).mean(0)
        apart = x - middle[labels]
        if not apart.any():
            return None
        low, high = apart.quantile(quarters, dim=0)
        # Where most images agree in a pixel its quartiles do, and say nothing of the others.
        spread = ((high - low) / _QUARTILES).maximum(apart.square().mean(0).sqrt() / CLIP)
        spread = spread.maximum(1e-3 * _usual(spread, data.images.shape[1]))
        z = _features(apart / spread)
        mean = own.T @ z / own.sum(0).clamp_min(1)[:, None]
        precision = _shrunk_covariance(z - mean[labels]).inverse()
        return cls(middle.float(), spread.float(), mean.float(), precision.float())

    def distance(
        self, images: Float[Tensor, "B C *space"], labels: Int[Tensor, " B"]
    ) -> Float[Tensor, " B"]:
        """Minus the logarithm of the density of images of these classes, up to a constant."""
        z = _features((images.flatten(1) - self.middle[labels]) / self.spread)
        z = z - self.mean[labels]
        return ((z @ self.precision) * z).sum(1) / 2

    def margins(
        self,
        images: Float[Tensor, "B C *space"],
        labels: Int[Tensor, " B"],
        sources: Int[Tensor, "L E"],
        signs: Float[Tensor, "L E"],
        label_maps: Int[Tensor, "L K"],
    ) -> tuple[Float[Tensor, "L B"], Float[Tensor, "L B"]]:
        """Logarithms of the likelihood of "moved by g" over that of "not moved".

        Moves are sources and signs of all numbers of an image, and maps of the classes.

        Returns:
            Those of images as they are, and those of images after g, with the class that g makes.
        """
        inverse, E = sources.argsort(1), sources.shape[1]
        forward = torch.cat([sources, signs.long(), label_maps], 1)
        back_again = torch.cat([inverse, signs.gather(1, inverse).long(), label_maps.argsort(1)], 1)
        # Many moves are the inverse of themselves or of another.
        every, place = torch.cat([forward, back_again]).unique(dim=0, return_inverse=True)
        flat = images.flatten(1)
        moved = torch.stack(
            [
                self.distance((flat[:, g[:E]] * g[E : 2 * E]).view_as(images), g[2 * E :][labels])
                for g in every
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
