"""From how many images on a verdict has to be exact; fixed before the test half was run."""

from experiments.discovery.cases import Upright
from experiments.discovery.truths import LAWS

IMAGES = 1200
"""Independent images that are judged. The bound of an excess loss is a twentieth of what is known
of the label, and the excess of a symmetry scatters by about a third of it: at a level of 5 % over
three looks and five pairs of moves, nearly 800 images show it with a power of 90 % (over four, 5 %
more), and half as many again are allowed for a scatter that is larger."""

OF_CLASS = 100
"""Images of a class, of all classes that together make nine tenths of the images. The bound of a
change is a fifth there and its scatter up to a third, at the level of some fifty questions: about
sixty images, and half as many again."""

IN_POSE = 20
"""Images of a class in each pose that the law gives it: from fewer a small network learns images by
heart, not what they have in common."""

NOISE_POWER = 4
"""Redrawn labels: where a share s was left as it is, what is known of the label falls about as s
squared, the bounds are shares of it, and images go with the inverse square of a bound."""

SPLIT = 0.8
"""Share of the images that is judged; the rest is the test part."""

MOST = 8000
"""Most images that are judged at the budget `standard`."""


def is_enough(upright: Upright, law: str) -> bool:
    """Whether a verdict on this data under this law has to be exact.

    A label that no small network learns is never enough: then an honest answer is "undecided".
    """
    copies = len(upright.labels) / (upright.independent or len(upright.labels))
    judged = min(SPLIT * len(upright.labels), MOST) / copies
    classes = set(upright.labels.tolist())
    sizes = sorted(float((upright.labels == label).mean()) for label in classes)
    while sum(sizes[1:]) >= 0.9:
        sizes.pop(0)
    poses = len(LAWS[law] if upright.truth is None else upright.truth.true)
    least = sizes[0] * judged
    return (
        upright.learnable
        and judged >= IMAGES / upright.clean**NOISE_POWER
        and least >= OF_CLASS
        and (upright.truth is not None or least >= IN_POSE * poses)
    )
