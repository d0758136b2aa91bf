"""Every number that a verdict depends on, fixed before the runs that report verdicts."""

ALPHA = 0.05
"""Family-wise error over all candidates, for each of the three questions by itself."""

DELTA = 0.05
"""Excess loss that passes for zero, as a share of what the network knows about the label."""

DELTA_APPROXIMATE = 0.2
"""The looser bound of an approximate symmetry, as a share of the same."""

MOMENTS = 1.1
"""Residual of the second moments, in units of the bootstrap tolerance of `symshare.propose`, up
to which a change of the images may be chance."""

CHANGE = 0.1
"""Change of the second moments, 1 for a random permutation of the pixels, up to which moved
images count as images like those of the data."""

KEPT = 0.3
"""Share of every class that a partial symmetry leaves right, beyond what guessing would."""

GAIN = 0.1
"""Share of the chance loss that the network has to remove before anything is decided."""

RANDOM_PERMUTATIONS = 3
"""Random permutations of the pixels that a network with power has to notice."""

FLOOR = 0.01
"""Share of the uniform distribution mixed into predictions: one wild logit cannot decide a mean.

The excess of a true symmetry stays exactly zero, since that holds for any function of (x, y).
"""
