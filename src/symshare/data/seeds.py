"""Seeds, and streams of random numbers that do not meet."""

import hashlib

import torch

TEST_SEED = 7919
"""Held-out images are transformed once, alike for every model and seed of a run."""


def stream(purpose: str, *numbers: int) -> torch.Generator:
    """A generator of its own for every purpose and numbers, such as a seed and an epoch.

    What is resumed draws from it what an uninterrupted run would.

    Args:
        purpose: What the numbers are for.
        numbers: Seed, epoch and the like.

    Example:
        >>> streams = [stream("batches", 0, 1), stream("batches", 1, 0), stream("test", 0, 1)]
        >>> len({torch.rand(1, generator=generator).item() for generator in streams})
        3
    """
    digest = hashlib.sha256(repr((purpose, *numbers)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8]) >> 1)
