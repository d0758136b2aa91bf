"""What `verdict.json` (schema 2) and the `result.json` of each network hold."""

from dataclasses import dataclass
from typing import Literal

from symshare.names import Things, becoming, exchange, things_of
from symshare.records.ranges import Advice, Ranges
from symshare.records.record import Record
from symshare.settings import Kind

Word = Literal["group", "approximate", "partial", "none", "undecided"]
Status = Literal["symmetric", "approximate", "tolerated", "broken", "undecided"]
Metric = Literal["accuracy", "explained variance"]
NetworkName = Literal["cnn", "found", "gated", "sinkhorn"]

NETWORKS: tuple[NetworkName, ...] = ("cnn", "found", "gated", "sinkhorn")
"""The networks that a discovery compares, in the order in which they are shown."""


@dataclass(frozen=True)
class Judgement:
    """What the two held-out tests say about one candidate g, judged together with its inverse.

    Attributes:
        name: As in `symshare.groups`; `perm1`, `perm2`, ... where it is no lattice map.
        status: `symmetric`: labels and images keep to the bounds, in the classes shown.
            `approximate`: they keep to the looser bounds. `tolerated`: labels do, images do not:
            the network does not mind, and the data has no such symmetry. `broken`: one of them
            does not, over all images or in some class. `undecided`: none of these was shown;
            always so where the power gate failed.
        excess_loss: Mean of NLL(g x, y) - NLL(x, y) over held-out images, in nats; zero for a
            symmetry, whatever the network.
        interval: Bounds of it, in nats, that hold for all candidates together (Bonferroni), at
            level `alpha` over all looks.
        p_symmetric: p value against "the excess is at least `delta`".
        p_approximate: p value against "the excess is at least `delta_approximate`".
        p_broken: p value against "the excess is at most `delta`".
        change: How far the law of the moved images is from that of the images: mean of
            s_g(g x, y) - s_g(x, y), where s_g is the probability that a held-out network gives to
            "moved by g" against "not moved". Zero for a symmetry, whatever the network; at most the
            distance in total variation, between 0 and 1.
        change_interval: Bounds of it, as those of the excess.
        p_unchanged: p value against "the change is at least the bound `change` of the verdict".
        p_nearly_unchanged: p value against "it is at least `change_approximate`".
        p_changed: p value against "it is at most the bound `change`".
        label_map: The class, by index, that g makes of each class; where it is not the class
            itself, all that is said of g is said of g together with this map of the labels. Empty
            where labels are numbers.
        moved_share: Share of the variance of the pixels that g moves; below 0.1 it is in no group.
        classes_shown: Classes, by index, that were shown one by one to keep to the looser bounds;
            of numbers, the `strata` of the verdict.
        classes_broken: Classes that were shown not to.
        classes_open: Classes of which neither was shown, most often for want of images; the claim
            does not hold for them.
        kept_share: Share of held-out images whose class, as g maps it, is predicted after g; of
            labels that are numbers the share of their variance that is explained after g, at least
            0.
        kept_share_by_class: The same for each class; null for a class without held-out images.
        kept_share_min: The smallest of them.
        kept_share_min_lower: Lower bound, over the classes, of the share kept beyond guessing:
            (s - r) / (1 - r) for a class that keeps a share s (Wilson's lower bound) while a share
            r of all other images is called by its name (upper bound), each at level `alpha` /
            looks / number of candidates. Of numbers, that of the share that is explained (t test).
        target_map: What g makes of labels that are d numbers y, the d rows of [A | b]: y becomes
            A y + b. Where that is not y itself, all that is said of g is said of g together with
            this map. Empty for classes.
    """

    name: str
    status: Status
    excess_loss: float
    interval: tuple[float, float]
    p_symmetric: float
    p_approximate: float
    p_broken: float
    change: float
    change_interval: tuple[float, float]
    p_unchanged: float
    p_nearly_unchanged: float
    p_changed: float
    label_map: tuple[int, ...]
    moved_share: float
    classes_shown: tuple[int, ...]
    classes_broken: tuple[int, ...]
    classes_open: tuple[int, ...]
    kept_share: float
    kept_share_by_class: tuple[float | None, ...]
    kept_share_min: float
    kept_share_min_lower: float
    target_map: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class LabelNames:
    """What labels are called, in records and sentences.

    Attributes:
        classes: names of the classes; empty where labels are numbers.
        numbers: names of the numbers of a label; empty for classes.
        strata: names of the parts of the images that are tested one by one where labels are
            numbers.
    """

    classes: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    strata: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of what is tested one by one: the classes, or strata of the numbers."""
        return self.strata or self.classes

    @property
    def kinds(self) -> str:
        """What these parts are."""
        return "strata" if self.numbers else "classes"

    def moved(self, judgement: Judgement) -> str:
        """What a candidate does to labels, in words; empty where they stay."""
        if self.numbers:
            return becoming(judgement.target_map, self.numbers)
        return exchange(judgement.label_map, self.classes)


@dataclass(frozen=True, kw_only=True)
class Element(Judgement):
    """One candidate: what the test says about it, and what it does to images and kernels.

    Attributes:
        permutation: Source indices over the flattened image grid, (g f)[p] = f[permutation[p]];
            null for a function that was handed over.
        shape: That grid, the length of each axis of space.
        kernel_permutation: The same on a kernel of 3 positions along each axis, without a shift;
            null where g is no lattice map.
        kernel_shape: Its shape, such as [3, 3]; null with `kernel_permutation`.
        channels: The channel that each channel takes its values from; null where they stay.
        signs: With it 1, or -1 where the values change sign.
        source: `lattice`, `statistics`, `moments` (learned from second moments where the search
            over statistics ran out of steps), `user` or `function` (handed over, and in no group):
            who proposed it.
        measure: Learned measure in [0, 1], mean over the `gated` runs; null before they ran, or
            where g is not one of their elements.
    """

    permutation: tuple[int, ...] | None
    shape: tuple[int, ...]
    kernel_permutation: tuple[int, ...] | None
    kernel_shape: tuple[int, ...] | None
    channels: tuple[int, ...] | None
    signs: tuple[int, ...] | None
    source: str
    measure: float | None


@dataclass(frozen=True)
class RandomPermutation:
    """What a random permutation of the pixels costs.

    Attributes:
        excess_loss: Mean over held-out images, in nats.
        interval: Bounds of it in nats, each one-sided at `alpha` over all looks.
        change: Of the law of the images, as for a candidate.
        change_interval: Bounds of it, as those of the excess.
    """

    excess_loss: float
    interval: tuple[float, float]
    change: float
    change_interval: tuple[float, float]


@dataclass(frozen=True)
class Power:
    """The power gate: whether the networks could have noticed a broken symmetry.

    Attributes:
        passed: Whether anything may be decided.
        reasons: What failed; empty where passed.
        accuracy: Share of held-out images predicted right; of labels that are numbers the share of
            their variance that is explained, see `metric` of the verdict.
        chance_accuracy: Share of the most frequent class; 0 for numbers.
        loss: Mean held-out loss in nats; of numbers relative to their normal law.
        chance_loss: Mean loss, in nats, of predicting the class frequencies of the training half;
            0 for numbers.
        label_entropy: Entropy of the frequencies of the classes, in nats: what there is to know;
            null for numbers.
        label_noise: Share of the labels that the networks contradict with confidence; null for
            numbers.
        knowable: What can be known about the label if these are wrong, in nats: an estimate of the
            most that any network could know; null for numbers.
        gain: `chance_loss` - `loss`, in nats: what the networks know about the label; may be
            negative.
        told_apart: Classes, by index, that the networks tell from every other one; or numbers of
            which they explain some of the variance.
        random_permutations: Permutations of all pixels that a network with power notices.
        half_permutations: Change that permutations of half of the pixels make.
    """

    passed: bool
    reasons: tuple[str, ...]
    accuracy: float
    chance_accuracy: float
    loss: float
    chance_loss: float
    label_entropy: float | None
    label_noise: float | None
    knowable: float | None
    gain: float
    told_apart: tuple[int, ...]
    random_permutations: tuple[RandomPermutation, ...]
    half_permutations: tuple[float, ...]


@dataclass(frozen=True)
class Accuracy:
    """Test accuracy of one network over seeds; of numbers, see `metric` of the verdict.

    Attributes:
        mean: Mean test accuracy, a share.
        std: Standard deviation over seeds (n - 1); null for one seed.
        n: Number of seeds.
        values: Test accuracy of each.
        parameters: Free parameters: base weights, biases, head.
        representation_parameters: Parameters of the representations, shared ones counted once.
        error: Root of the mean squared error of each number on the test part, the mean over seeds,
            in the units of the labels; null for classes.
    """

    mean: float
    std: float | None
    n: int
    values: tuple[float, ...]
    parameters: int
    representation_parameters: int
    error: tuple[float, ...] | None = None


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
        sentence: The verdict in plain words, then the numbers behind it.
        caveats: What to know before relying on it; also why a network was not built.
        found: Names of the symmetric elements, the identity left out; empty unless `verdict` is
            `group`.
        approximate: Elements of an approximate group; empty unless `verdict` is `approximate`.
        partial: Elements that keep enough of every class; empty unless `verdict` is `partial`.
        possible: Name of the largest group that holds what was shown and is not excluded; null
            where that is no more than was shown.
        capped: Whether a cap ended the search for candidates, so that the group of the data may be
            larger than the one that is named.
        delta: Excess loss, in nats, that passes for zero; 0 where the networks know nothing.
        delta_approximate: The looser bound, in nats.
        change: Change of the law of the images that passes for none.
        change_approximate: The looser bound.
        alpha: Family-wise error over all candidates, classes and looks, each question by itself.
        samples: Number of held-out images.
        independent: Number of clusters of them that are independent of one another: groups that
            were given, near copies that were found, and single images.
        copies: Share of the images that have a near copy.
        looks: Looks at the evidence; the next one was not needed where all was decided.
        elements: One for each candidate, in the order of `candidates.json` without the identity,
            then one for each function that was handed over.
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
        classes: Names of the classes; labels are indices into it. Empty where labels are numbers.
        metric: What accuracies are: the share of images that are right, or, of numbers, the share
            of their variance that is explained.
        numbers: Names of the numbers of a label; empty for classes.
        strata: Names of the parts of the images that are tested one by one where labels are
            numbers, fifths of these; empty for classes.
        channels: Names of the channels; empty where they are numbered from 0.
        ranges: Moves with a size, and the sizes that the labels bear; null where they were not
            asked for, or before they were examined.
        advice: What to build in, to augment with and to keep away from, by the verdict and the
            ranges; empty where nothing could be decided.
    """

    schema: Literal[2] = 2
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
    possible: str | None
    capped: bool
    delta: float
    delta_approximate: float
    change: float
    change_approximate: float
    alpha: float
    samples: int
    independent: int
    copies: float
    looks: int
    elements: tuple[Element, ...]
    power: Power
    accuracy: dict[NetworkName, Accuracy | None]
    planned: tuple[NetworkName, ...]
    seconds: Seconds
    seeds: Seeds
    versions: dict[str, str]
    commands: tuple[str, ...]
    classes: tuple[str, ...]
    channels: tuple[str, ...]
    ranges: Ranges | None
    advice: tuple[Advice, ...]
    metric: Metric = "accuracy"
    numbers: tuple[str, ...] = ()
    strata: tuple[str, ...] = ()

    @property
    def labels(self) -> LabelNames:
        """What labels are called."""
        return LabelNames(self.classes, self.numbers, self.strata)

    @property
    def things(self) -> Things:
        """What the samples are called: signals, images or volumes."""
        return things_of(self.elements[0].shape if self.elements else (1, 1))


@dataclass(frozen=True)
class ResultRecord(Record):
    """The outcome of one training run; its file is written last, so it marks a finished run.

    Attributes:
        model: Kind of network; the folder `found` of a discovery holds a `gcnn`.
        seed: Of split, initial weights, batches and transformations.
        val_loss: On the validation part at the end, in nats.
        val_accuracy: On the validation part at the end, a share, see `metric`.
        test_loss: On the test part, read once, in nats.
        test_accuracy: On the test part, read once, a share, see `metric`.
        parameters: Free parameters: base weights, biases, head.
        representation_parameters: Parameters of the representations, shared ones counted once.
        seconds: Wall time in s; of a resumed run, since it was resumed.
        metric: What an accuracy is: the share of images that are right, or, of labels that are
            numbers, the share of the variance of the training labels that is explained (at most
            1, and below 0 where the mean would do better), the mean over the numbers.
        test_error: Root of the mean squared error of each number on the test part, in the units of
            the labels; null for classes.
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
    metric: Metric = "accuracy"
    test_error: tuple[float, ...] | None = None
