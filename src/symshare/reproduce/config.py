"""What one run of a study is, as plain dataclasses: importing them does not import torch."""

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from symshare.train.settings import OptimConfig

__all__ = [
    "Architecture",
    "ImageRun",
    "ImagesConfig",
    "Kind",
    "NetworkConfig",
    "PictureFormat",
    "StudyData",
    "Tier",
]

Tier = Literal["A", "B", "C"]
PictureFormat = Literal["svg", "pdf", "png"]
Architecture = Literal["mnist", "residual"]
Kind = Literal[
    "cnn",
    "gcnn",
    "sinkhorn",
    "sinkhorn-near",
    "gated",
    "birkhoff",
    "kronecker",
    "row-stochastic",
    "unconstrained",
    "frozen-random",
]

FREE = ("sinkhorn", "row-stochastic", "unconstrained")
"""Kinds of network with free stacks, which may start anywhere."""

READERS = {
    "group": ("gcnn", "gated", "birkhoff", "kronecker", "sinkhorn-near"),
    "elements": (*FREE, "frozen-random", "birkhoff"),
    "init": (*FREE, "birkhoff"),
    "anchor": (*FREE, "birkhoff"),
    "iterations": ("sinkhorn",),
    "norm": ("mnist",),
    "lifting_padding": ("residual",),
}
"""Kinds and architectures that read an option; all read the others."""


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


@dataclass(frozen=True)
class NetworkConfig:
    """Which network.

    Attributes:
        architecture: "mnist" (5 blocks, kernel 5) or "residual" (of the CIFAR-10 experiments).
        kind: what its representations are; "sinkhorn-near" are free stacks that start near known
            elements, "frozen-random" random permutations that never change.
        group: elements of "gcnn", dictionary of "gated" and "birkhoff", start of "kronecker" and
            "sinkhorn-near":
            C1, C2, C4, C8, D2, D4, a flip (flipW), or "found", what `symshare discover` finds in
            the training and validation images; what holds in part counts for "gated" only.
        elements: elements of layers that have no dictionary, slots of "birkhoff".
        width: of the plain CNN with about as many free parameters; with G elements a block has
            width / sqrt(G) channels, each with G copies.
        norm: of the "mnist" architecture, "layer" or "instance".
        init: how learned stacks start, "sharp", "paper" or "identity".
        iterations: sweeps of the unrolled projection; null projects to convergence.
        anchor: hold the first element at the identity.
        lifting_padding: of the "residual" architecture, "same" or, as the published G-CNN had it,
            "valid".
        mask: of "gcnn", "none" or, as published, "disk": taps outside it stay zero.
        weights: where base weights start: "default", U(-b, b) with b = 1/sqrt(fan in) for all, or
            "published", by the kind of network: "gcnn" N(0, 2/sqrt(fan in)), "sinkhorn" a normal
            lifting layer of the default spread, both without biases, "cnn" the default.
    """

    architecture: Architecture = "mnist"
    kind: Kind = "cnn"
    group: str = "C4"
    elements: int = 4
    width: int = 64
    norm: Literal["layer", "instance"] = "layer"
    init: Literal["sharp", "paper", "identity"] = "sharp"
    iterations: int | None = None
    anchor: bool = True
    lifting_padding: Literal["same", "valid"] = "same"
    mask: Literal["none", "disk"] = "none"
    weights: Literal["default", "published"] = "default"

    def __post_init__(self) -> None:
        """Refuse a network without channels or elements, and what was published of no such kind."""
        for name in ("width", "elements"):
            if getattr(self, name) < 1:
                raise ValueError(f"network.{name} must be at least 1, got {getattr(self, name)}")
        if self.init == "identity" and self.kind not in FREE:
            raise ValueError(
                f"network.init: {self.kind} cannot start at the identity, only {', '.join(FREE)}"
            )
        for option in fields(self):
            readers = READERS.get(option.name, (self.kind, self.architecture))
            unread = {self.kind, self.architecture}.isdisjoint(readers)
            if unread and getattr(self, option.name) != option.default:
                raise ValueError(
                    f"network.{option.name} is of {', '.join(readers)}, and means nothing for kind "
                    f"{self.kind} of architecture {self.architecture}; leave it at {option.default}"
                )
        if self.mask == "disk" and self.kind != "gcnn":
            raise ValueError(f"network.mask: only kind gcnn has a disk, got {self.kind}; use none")
        if self.weights == "published" and self.kind not in ("cnn", "gcnn", "sinkhorn"):
            raise ValueError(
                "network.weights: starts are published of the kinds cnn, gcnn and sinkhorn, got "
                f"{self.kind}; use default"
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
    network: NetworkConfig = field(default_factory=NetworkConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    seed: int = 0

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ImageRun":
        """From nested plain values.

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


@dataclass(frozen=True)
class StudyData:
    """Where the images lie.

    Attributes:
        root: folder of the files of MNIST and CIFAR-10, or one with folders mnist and cifar10;
            by default the Hugging Face Hub.
    """

    root: str | None = None
