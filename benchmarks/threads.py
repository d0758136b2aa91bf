"""Threads of torch, and of the linear algebra of NumPy and SciPy, which has its own."""

from collections.abc import Generator
from contextlib import contextmanager

import torch

__all__ = ["limited"]


@contextmanager
def limited(threads: int | None) -> Generator[None]:
    """At most this many threads inside; None leaves everything as it is.

    >>> with limited(1):
    ...     torch.get_num_threads()
    1
    """
    if threads is None:
        yield
        return
    # SciPy's threads have to be there to be limited; benchmarks/device.py has no threadpoolctl.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)
