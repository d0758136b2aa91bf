"""The command `python -m benchmarks`. Everything heavy is imported when it runs, not before."""

import json as json_lines
import sys
from collections.abc import Iterable
from typing import Any

from benchmarks.options import LayerConfig, SinkhornConfig, StepConfig, figure_path
from symshare.cli import run_commands


def main(arguments: list[str] | None = None) -> None:
    """Measure what the projection, a layer and a training step cost."""
    run_commands(
        {"sinkhorn": sinkhorn_command, "layer": layer_command, "step": step_command},
        "python -m benchmarks",
        "Measure what the projection, a layer and a training step cost.",
        arguments,
    )


def sinkhorn_command(json: bool = False, **options: Any) -> None:
    """Time the projection and its gradient beside the published way, and measure their errors.

    Args:
        json: print one line of JSON for each number, the summary last.
        options: those of SinkhornConfig.
    """
    config = SinkhornConfig(**options)
    from benchmarks.sinkhorn import rows

    _show(rows(config), json)


def layer_command(json: bool = False, plot: str | None = None, **options: Any) -> None:
    """Time a lifting layer at inference, and its memory, beside a loop over the elements.

    Args:
        json: print one line of JSON for each number, the summary last.
        plot: file to draw time and memory into, .svg, .pdf or .png.
        options: those of LayerConfig.
    """
    config = LayerConfig(**options)
    picture = None if plot is None else figure_path(plot)
    from benchmarks.layer import rows

    shown = _show(rows(config), json)
    if picture is not None:
        from experiments.figures import cost, save

        save(cost(shown), picture)


def step_command(
    json: bool = False, unbaked: bool = False, gcnn: bool = False, **options: Any
) -> None:
    """Time a training step and baked inference of the paper's network beside a plain CNN.

    Args:
        json: print one line of JSON for each number, the summary last.
        unbaked: also time inference before baking.
        gcnn: also time the G-CNN with C4 known.
        options: those of StepConfig.
    """
    config = StepConfig(**options)
    from benchmarks.step import rows

    _show(rows(config, unbaked, gcnn), json)


def _show(rows: Iterable[dict[str, Any]], json: bool) -> list[dict[str, Any]]:
    """Print rows as they come, each line whole, or as tables at the end."""
    shown = []
    try:
        if not json:
            from benchmarks.printing import print_bench

            return print_bench(rows)
        for row in rows:
            sys.stdout.write(json_lines.dumps(row, allow_nan=False) + "\n")
            sys.stdout.flush()
            shown.append(row)
    except KeyboardInterrupt:
        print("\nInterrupted. What was measured so far is printed.", file=sys.stderr)
        sys.exit(130)
    return shown


if __name__ == "__main__":
    main()
