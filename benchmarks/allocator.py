"""What the C library does with memory that was given back to it."""

import ctypes
import platform
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["kept"]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4
"""From glibc's malloc.h."""

FINAL_MMAP_THRESHOLD = 2**25
"""Where glibc's own rule ends in a process that has given back large blocks [bytes]."""


@contextmanager
def kept() -> Generator[None]:
    """Memory that was given back stays with the process, as it does with PyTorch on accelerators.

    Otherwise glibc returns large blocks to the system, sometimes, and the system has to map and
    clear every page of the next one. That takes up to four fifths of the time of a convolution,
    and which of several contenders pays for it depends on their order and on the process. Other C
    libraries are left as they are.

    On leaving, glibc's thresholds become those that its own rule ends with.

    >>> with kept():
    ...     large = bytearray(2**28)
    """
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(M_TRIM_THRESHOLD, -1)
    mallopt(M_MMAP_MAX, 0)
    try:
        yield
    finally:
        mallopt(M_MMAP_MAX, 65536)
        mallopt(M_MMAP_THRESHOLD, FINAL_MMAP_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 2 * FINAL_MMAP_THRESHOLD)
