"""Every number that a verdict depends on, fixed before the runs that report verdicts."""

ALPHA = 0.05
"""Family-wise error over all candidates and classes and over all looks, for each question."""

LOOKS = 4
"""Times that the evidence is looked at: after a quarter of one half of the images was questioned,
after all of it, after both halves, and after all were questioned once more by networks that learned
from three quarters. It ends where all is decided. Each look is worth a quarter of `ALPHA`, so that
together they hold it."""

DELTA = 0.05
"""Excess loss that passes for zero, as a share of what the network knows about the label."""

DELTA_APPROXIMATE = 0.2
"""The looser bound of an approximate symmetry, as a share of the same."""

DELTA_OF_CLASS = 0.4
"""The bound of a single class, of which there are fewer images, as a share of what the network
knows about it. A class that lacks the symmetry loses nearly all of it."""

CHANGE = 0.02
"""Change of the law of the images that passes for none. It is at most the distance e in total
variation, and for a calibrated witness that is as unsure of every image e^2: 0.02 is a mirror that
turned 57 % of the images where it should have turned half, or 2 % of images that no move makes."""

CHANGE_APPROXIMATE = 0.05
"""The looser bound of an approximate symmetry."""

CHANGE_OF_CLASS = 0.1
"""The bound of a single class, of which there are fewer images."""

NOTICED = 0.5
"""Change that a random permutation of all pixels has to make at least, as the witness sees it."""

NOTICED_HALF = 0.1
"""The same for a random permutation of half of the pixels, and for one of as few pixels as a
candidate moves: five times what passes for none."""

KEPT = 0.3
"""Share of every class that a partial symmetry leaves right, beyond what guessing would."""

GAIN = 0.1
"""Share of the chance loss that the network has to remove before anything is decided."""

APART = 0.01
"""Level of the rank test of whether two classes are told apart: what the network knows of neither
is no evidence that a move keeps them."""

SHOWN = 0.5
"""Share of the images whose classes have to be shown one by one: less is no claim on the data."""

OPEN = 0.1
"""Share of the images whose classes may be left open, neither shown nor broken, without another
look: a rare class may stay open for ever."""

MOVED = 0.1
"""Share of the variance of the pixels that an element of a group has to move: a witness has seen
nothing of a move of a few dim pixels."""

RANDOM_PERMUTATIONS = 2
"""Random permutations of all pixels, and as many of half of them, that a network with power has to
notice."""

FLOOR = 0.01
"""Share of the uniform distribution mixed into predictions: one wild logit cannot decide a mean.

The excess of a true symmetry stays exactly zero, since that holds for any function of (x, y). Of
numbers it is the share of the normal law of all labels.
"""

CLEAR = 3.0
"""Standard errors by which another map of the labels has to fit moved images better than their own
before a move is taken to move labels."""

LEAST_SPREAD = 0.05
"""Least spread that a network may predict numbers with, in units of theirs: of labels without noise
it could claim any certainty, and the gain had no bound."""

FAR = 4.0
"""Spreads from the mean, for each number, beyond which labels count as no further: one of an
outlier could decide a mean."""

SAME_MAP = 0.1
"""Root of the mean squared difference, in spreads of the numbers, of two maps of the labels that
count as one: they are fitted, each on images of its own."""
