"""A volume of a NIfTI file, or the signal of a WFDB record, as an array."""

from __future__ import annotations

import numpy as np

from symshare.data.pictures import DamagedPictureError
from symshare.extras import needs

VOLUMES = (".nii", ".nii.gz")
RECORD = ".hea"
"""Endings of the files: a record is named by its header."""


def volume(path: str) -> np.ndarray:
    """Read a NIfTI file.

    Returns:
        [D, H, W] in float32, values scaled as the file says: from the feet to the head, from the
        back to the front and from left to right, as far as its axes are near these.

    Raises:
        DamagedPictureError: If the file cannot be read.
        ValueError: If it holds anything else than one volume.
        ModuleNotFoundError: If nibabel is not installed.
    """
    nibabel = needs("nibabel", "scans", "read NIfTI files")
    try:
        values = nibabel.as_closest_canonical(nibabel.load(path)).get_fdata(dtype=np.float32)
    except Exception as error:  # nibabel does not name what its readers raise
        raise DamagedPictureError(str(error).partition("\n")[0] or type(error).__name__) from error
    if values.ndim != 3:
        raise ValueError(
            f"expected one volume of 3 axes, got {list(values.shape)}; save a file for each volume"
        )
    return values.transpose()


def signal(path: str) -> np.ndarray:
    """Read a WFDB record.

    Args:
        path: Of its header.

    Returns:
        [C, L] in float32, in the units of the record.

    Raises:
        DamagedPictureError: If the record cannot be read.
        ModuleNotFoundError: If wfdb is not installed.
    """
    wfdb = needs("wfdb", "scans", "read WFDB records")
    try:
        values = wfdb.rdrecord(path.removesuffix(RECORD)).p_signal
        return np.asarray(values, np.float32).transpose()
    except Exception as error:  # wfdb does not name what its readers raise
        raise DamagedPictureError(str(error).partition("\n")[0] or type(error).__name__) from error


def companions(path: str) -> list[str]:
    """Other files that the content of a file depends on: the samples beside a header."""
    return [path.removesuffix(RECORD) + ".dat"] if path.endswith(RECORD) else []
