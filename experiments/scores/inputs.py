"""What the functions of this package ask of their stacks."""

import torch
from torch import Tensor


def stack_in_float64(who: str, name: str, R: Tensor) -> Tensor:
    """The stack, detached, on the CPU, in float64; refused where it is none."""
    if R.ndim != 3 or R.shape[1] != R.shape[2] or not R.numel():
        raise ValueError(
            f"{who}: expected {name} as a stack [G, D, D] of at least one square matrix, got "
            f"shape {tuple(R.shape)}; add a leading axis to a single matrix"
        )
    refuse_not_finite(who, name, R)
    if (R < 0).any():
        raise ValueError(
            f"{who}: {name} must be non-negative, got {float(R.min()):.3g}; free matrices are no "
            f"mixtures of permutations"
        )
    return R.detach().to("cpu", torch.float64)


def refuse_no_table(who: str, table: Tensor) -> None:
    """Raise ValueError unless this is a multiplication table, with -1 where there is no product."""
    wrong = table.ndim != 2 or table.shape[0] != table.shape[1] or not table.numel()
    if wrong or table.is_floating_point():
        raise ValueError(
            f"{who}: expected a table [G, G] of indices, got {table.dtype} {tuple(table.shape)}; "
            "cayley_table and group_table make one"
        )
    if not -1 <= int(table.min()) <= int(table.max()) < len(table):
        raise ValueError(
            f"{who}: a table of {len(table)} elements holds -1 to {len(table) - 1}, got "
            f"{int(table.min())} to {int(table.max())}; number the elements from 0"
        )


def refuse_not_finite(who: str, name: str, x: Tensor) -> None:
    """Refuse entries that are infinite or not numbers."""
    wrong = int((~torch.isfinite(x)).sum())
    if wrong:
        raise ValueError(
            f"{who}: {wrong} of {x.numel()} entries of {name} are infinite or not numbers; "
            f"check training"
        )
