"""What one run on images is: importing this does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from symshare.settings import READERS, Kind, NetworkConfig
from symshare.train.settings import OptimConfig

__all__ = ["Ablation", "ImageRun", "ImagesConfig", "StudyNetwork", "source_folder"]

Ablation = Literal["row-stochastic", "unconstrained", "frozen-random"]


@dataclass(frozen=True)
class ImagesConfig:
    """Which images.

    Attributes:
        source: as in `symshare.data.load`.
        train: random transformation of training images, as in `symshare.data.transform`.
        test: transformations of test images by the name of a column; each is read once.
        limit: most images for training and validation together.
        test_limit: most images of a test.
        holdout: what is read at every evaluation: "validation", or "test" as in the published
            code, which trains on the validation part too. Of several tests it is the first.
        noise: standard deviation of Gaussian noise on the pixels of test images, drawn once.
        frozen: transform each training image once, the same way in every run, rather than anew
            in every step.
        parts: "official", or "rotated-mnist": 12 000 of all images for training and validation,
            50 000 others for the test, the same in every run.
    """

    source: str = "mnist"
    train: str = "none"
    test: dict[str, str] = field(default_factory=dict)
    limit: int | None = None
    test_limit: int | None = None
    holdout: Literal["validation", "test"] = "validation"
    noise: float = 0.0
    frozen: bool = False
    parts: Literal["official", "rotated-mnist"] = "official"

    def __post_init__(self) -> None:
        """Refuse a study that is never tested, and noise that there is not."""
        if not self.noise >= 0:
            raise ValueError(f"images.noise must be at least 0, got {self.noise}")
        if not self.test:
            raise ValueError("images.test: name at least one test, such as {rotated: rotate:360}")


def source_folder(root: Path | None, source: str) -> Path | None:
    """Folder of the images of one source: one of that name inside the root, or the root itself."""
    if root is None:
        return None
    inside = root / source
    return inside if inside.is_dir() else root


FREE = ("sinkhorn", "row-stochastic", "unconstrained")
"""Kinds of network with free stacks, which may start anywhere."""


@dataclass(frozen=True)
class StudyNetwork(NetworkConfig):
    """A network of the library, with what only studies compare.

    The group may also be "found": what `symshare discover` finds in the training and validation
    images. What holds in part counts for "gated" only.

    Attributes:
        architecture: also "residual", the paper's for CIFAR-10.
        kind: also "row-stochastic" and "unconstrained", free stacks without the projection, and
            "frozen-random", random permutations that never change.
        lifting_padding: of the "residual" architecture, "same" or, as the published G-CNN had it,
            "valid".
        mask: of "gcnn", "none" or, as published, "disk": taps outside it stay zero.
        weights: where base weights start: "default", U(-b, b) with b = 1/sqrt(fan in) for all, or
            "published", by the kind of network: "gcnn" N(0, 2/sqrt(fan in)), "sinkhorn" a normal
            lifting layer of the default spread, both without biases, "cnn" the default.
    """

    # More than the library can build: experiments.study_networks.network builds the rest.
    architecture: Literal["auto", "mnist", "small", "residual"] = "auto"  # pyrefly: ignore
    kind: Kind | Ablation = "cnn"  # pyrefly: ignore
    lifting_padding: Literal["same", "valid"] = "same"
    mask: Literal["none", "disk"] = "none"
    weights: Literal["default", "published"] = "default"
    free_kinds: ClassVar[tuple[str, ...]] = FREE
    readers: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **READERS,
        "elements": (*FREE, "frozen-random", "birkhoff"),
        "init": (*FREE, "birkhoff", "gated"),
        "anchor": (*FREE, "birkhoff"),
        "norm": ("auto", "mnist", "small"),
        "lifting_padding": ("residual",),
    }

    def __post_init__(self) -> None:
        """Refuse what was published of no such kind."""
        super().__post_init__()
        if self.mask == "disk" and self.kind != "gcnn":
            raise ValueError(f"network: only kind gcnn has a disk, got {self.kind}; use mask none")
        if self.weights == "published" and self.kind not in ("cnn", "gcnn", "sinkhorn"):
            raise ValueError(
                "network: starts of weights are published of the kinds cnn, gcnn and sinkhorn, got "
                f"{self.kind}; use weights default"
            )


@dataclass(frozen=True)
class ImageRun:
    """One network trained on images and tested.

    Attributes:
        images: which images.
        network: which network.
        optim: how it is trained.
        seed: of the split, the weights, the batches and the transformations.
    """

    images: ImagesConfig
    network: StudyNetwork = field(default_factory=StudyNetwork)
    optim: OptimConfig = field(default_factory=OptimConfig)
    seed: int = 0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ImageRun":
        """From nested values of YAML.

        Raises:
            ValueError: for settings that are unknown or have no such value.

        >>> ImageRun.from_dict({"images": {"test": {"upright": "none"}}}).network.kind
        'cnn'
        """
        from jsonargparse import ArgumentError, ArgumentParser

        parser = ArgumentParser(exit_on_error=False)
        parser.add_class_arguments(cls, "run")
        try:
            return parser.instantiate(parser.parse_object({"run": values})).run
        except ArgumentError as error:
            raise ValueError(" ".join(str(error).split())) from error
