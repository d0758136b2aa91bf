"""Means over seeds, and which of them cannot be told apart."""

import statistics
from dataclasses import dataclass

__all__ = ["Sample", "indistinct"]

LEVEL = 0.95


@dataclass(frozen=True)
class Sample:
    """A number by seed.

    Attributes:
        values: by seed.

    >>> print(Sample({0: 97.0, 1: 98.0}))
    97.50 ± 0.71
    """

    values: dict[int, float]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return statistics.fmean(self.values.values())

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds; None for a single one."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.spread is None else f" ± {self.spread:.2f}")


def indistinct(one: Sample, other: Sample) -> bool:
    """Whether the paired difference over common seeds has zero in its interval (Student's t).

    >>> indistinct(Sample({0: 1.0, 1: 2.0}), Sample({0: 1.1, 1: 1.9}))
    True
    >>> indistinct(Sample({0: 1.0, 1: 2.0}), Sample({0: 2.0, 1: 3.0}))
    False
    """
    from scipy.stats import t

    seeds = one.values.keys() & other.values.keys()
    if len(seeds) < 2:
        return False
    differences = [one.values[seed] - other.values[seed] for seed in seeds]
    mean, spread = statistics.fmean(differences), statistics.stdev(differences)
    reach = t.ppf((1 + LEVEL) / 2, len(seeds) - 1) * spread / len(seeds) ** 0.5
    return bool(abs(mean) <= reach)
