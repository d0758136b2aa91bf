"""What `verdict.json` (schema 1) and the `result.json` of each network hold."""

from dataclasses import dataclass
from typing import Literal

from symshare.records.record import Record
from symshare.settings import Kind

Word = Literal["group", "approximate", "partial", "none", "undecided"]
Status = Literal["symmetric", "approximate", "tolerated", "broken", "undecided"]
NetworkName = Literal["cnn", "found", "gated", "sinkhorn"]

NETWORKS: tuple[NetworkName, ...] = ("cnn", "found", "gated", "sinkhorn")
"""The networks that a discovery compares, in the order in which they are shown."""


@dataclass(frozen=True)
class Judgement:
    """What the held-out test says about one candidate g.

    Attributes:
        name: As in `symshare.groups`; `perm1`, `perm2`, ... where it is no lattice map.
        excess_loss: Mean of NLL(g x, y) - NLL(x, y) over held-out images, in nats; zero for a
            symmetry, whatever the network.
        interval: 95 % bounds of it, in nats, that hold for all candidates together (Bonferroni).
        p_symmetric: p value against "the excess is at least `delta`".
        p_approximate: p value against "the excess is at least `delta_approximate`".
        p_broken: p value against "the excess is at most `delta`".
        image_change: How unlike the data g makes the images: distance of their second moments, 1
            for a random permutation of the pixels.
        residual: Distance from an automorphism of the second moments in units of its tolerance,
            so at most 1 passes; null where the grid of the search cannot express g.
        status: Of the candidate. `tolerated` has the loss of a symmetry, but the moved images are
            unlike the data: the network does not mind, and nothing was shown about the data.
            Always `undecided` where the power gate failed.
        kept_share: Share of held-out images whose class is predicted right after g.
        kept_share_by_class: The same for each class; null for a class without held-out images.
        kept_share_min: The smallest of them.
        kept_share_min_lower: Lower bound, over the classes, of the share kept beyond guessing:
            (s - r) / (1 - r) for a class that keeps a share s (Wilson's lower bound) while a share
            r of all other images is called by its name (upper bound), each at level `alpha` /
            number of candidates.
    """

    name: str
    excess_loss: float
    interval: tuple[float, float]
    p_symmetric: float
    p_approximate: float
    p_broken: float
    image_change: float
    residual: float | None
    status: Status
    kept_share: float
    kept_share_by_class: tuple[float | None, ...]
    kept_share_min: float
    kept_share_min_lower: float


@dataclass(frozen=True)
class Element(Judgement):
    """One candidate: what the test says about it, and what it does to images and kernels.

    Attributes:
        permutation: Source indices over the flattened image grid, (g f)[p] = f[permutation[p]].
        shape: That grid, (H, W).
        kernel_permutation: The same on a 3 x 3 kernel, without a shift; null where g is no
            lattice map.
        kernel_shape: [3, 3]; null with `kernel_permutation`.
        source: `lattice`, `statistics` or `user`: who proposed it.
        measure: Learned measure in [0, 1], mean over the `gated` runs; null before they ran, or
            where g is not one of their elements.
    """

    permutation: tuple[int, ...]
    shape: tuple[int, int]
    kernel_permutation: tuple[int, ...] | None
    kernel_shape: tuple[int, int] | None
    source: str
    measure: float | None


@dataclass(frozen=True)
class RandomPermutation:
    """What a random permutation of the pixels costs.

    Attributes:
        excess_loss: Mean over held-out images, in nats.
        interval: Bounds of it in nats, each one-sided at `alpha`.
    """

    excess_loss: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Power:
    """The power gate: whether the networks could have noticed a broken symmetry.

    Attributes:
        passed: Whether anything may be decided.
        reasons: What failed; empty where passed.
        accuracy: Share of held-out images predicted right.
        chance_accuracy: Share of the most frequent class.
        loss: Mean held-out loss in nats.
        chance_loss: Mean loss, in nats, of predicting the class frequencies of the training half.
        gain: `chance_loss` - `loss`, in nats: what the networks know about the label; may be
            negative.
        random_permutations: Permutations of the pixels that a network with power notices.
    """

    passed: bool
    reasons: tuple[str, ...]
    accuracy: float
    chance_accuracy: float
    loss: float
    chance_loss: float
    gain: float
    random_permutations: tuple[RandomPermutation, ...]


@dataclass(frozen=True)
class Accuracy:
    """Test accuracy of one network over seeds.

    Attributes:
        mean: Mean test accuracy, a share.
        std: Standard deviation over seeds (n - 1); null for one seed.
        n: Number of seeds.
        values: Test accuracy of each.
        parameters: Free parameters: base weights, biases, head.
        representation_parameters: Parameters of the representations, shared ones counted once.
    """

    mean: float
    std: float | None
    n: int
    values: tuple[float, ...]
    parameters: int
    representation_parameters: int


@dataclass(frozen=True)
class Seconds:
    """Time spent in each step.

    Attributes:
        propose: Finding candidates, in s.
        judge: Training and questioning the two networks, in s.
        fit: Sum over the finished runs, in s.
        total: Sum of the three, in s.
    """

    propose: float
    judge: float
    fit: float
    total: float


@dataclass(frozen=True)
class Seeds:
    """Seeds used.

    Attributes:
        judge: Of the held-out test.
        fit: Of the finished runs; empty before.
    """

    judge: tuple[int, ...]
    fit: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class VerdictRecord(Record):
    """The result of a discovery: losses in nats, shares and accuracies in [0, 1].

    Attributes:
        schema: Changes when a key changes its meaning or goes.
        symshare: Version that wrote the file.
        source: `digits`, `mnist`, `cifar10`, the path of an `.npz` file, or `arrays` for a call
            from Python.
        transform: Random transformation put on every image; `none` for the data as it is.
        verdict: On all candidates together. `group`: the symmetric elements make one;
            `approximate`: they do within the looser bound; `partial`: broken, but some element
            keeps enough of every class.
        group: Name of the group of `found` or `approximate`; null for the other words.
        sentence: The verdict in one sentence.
        caveats: What to know before relying on it; also why a network was not built.
        found: Names of the symmetric elements, the identity left out; empty unless `verdict` is
            `group`.
        approximate: Elements of an approximate group; empty unless `verdict` is `approximate`.
        partial: Elements that keep enough of every class; empty unless `verdict` is `partial`.
        delta: Excess loss, in nats, that passes for zero; 0 where the networks know nothing.
        delta_approximate: The looser bound, in nats.
        alpha: Family-wise error over all candidates, each direction by itself.
        samples: Number of held-out images.
        elements: One for each candidate, in the order of `candidates.json` without the identity.
        power: The power gate.
        accuracy: Test accuracy of the compared networks: `cnn` is plain, `found` has the found set
            built in (with the verdict `partial` the identity and the clearest partial element),
            `gated` learns a measure on all candidates, `sinkhorn` learns free stacks. Null until
            a first run has ended, or where it is not run.
        planned: The networks of `accuracy` that are run sooner or later; the others cannot be
            built.
        seconds: Time spent.
        seeds: Seeds used.
        versions: Version of Python and of each package that the numbers depend on.
        commands: The command or call that does it again.
        classes: Names of the classes; labels are indices into it.
    """

    schema: Literal[1] = 1
    symshare: str
    source: str
    transform: str
    verdict: Word
    group: str | None
    sentence: str
    caveats: tuple[str, ...]
    found: tuple[str, ...]
    approximate: tuple[str, ...]
    partial: tuple[str, ...]
    delta: float
    delta_approximate: float
    alpha: float
    samples: int
    elements: tuple[Element, ...]
    power: Power
    accuracy: dict[NetworkName, Accuracy | None]
    planned: tuple[NetworkName, ...]
    seconds: Seconds
    seeds: Seeds
    versions: dict[str, str]
    commands: tuple[str, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class ResultRecord(Record):
    """The outcome of one training run; its file is written last, so it marks a finished run.

    Attributes:
        model: Kind of network; the folder `found` of a discovery holds a `gcnn`.
        seed: Of split, initial weights, batches and transformations.
        val_loss: On the validation part at the end, in nats.
        val_accuracy: On the validation part at the end, a share.
        test_loss: On the test part, read once, in nats.
        test_accuracy: On the test part, read once, a share.
        parameters: Free parameters: base weights, biases, head.
        representation_parameters: Parameters of the representations, shared ones counted once.
        seconds: Wall time in s; of a resumed run, since it was resumed.
    """

    model: Kind
    seed: int
    val_loss: float
    val_accuracy: float
    test_loss: float
    test_accuracy: float
    parameters: int
    representation_parameters: int
    seconds: float
