"""Verdicts on data whose truth is known: nine transformations, several seeds.

    python -m experiments.studies.verdicts digits --seeds 5 --out docs/studies/digits.json
    python -m experiments.studies.verdicts mnist --root DIR --budget quick --out FILE

Only the propose and judge steps of `symshare discover` are run. A finished row is not run again.
Exit code 1 if a verdict is wrong.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from symshare.data import load, transform
from symshare.discovery.config import BUDGETS
from symshare.discovery.judging import verdict_on
from symshare.discovery.search import judge_pool
from symshare.files import write_atomically

TURNS = {"rot90", "rot180", "rot270"}
# Right verdicts, the group, its elements; of rotations in [0, 180), one of two is partial.
TRUTHS: dict[str, tuple[set[str], str | None, set[str]]] = {
    "none": ({"none"}, None, set()),
    "flip": ({"group"}, "C2", {"flipW"}),
    "flips": ({"group"}, "C2xC2", {"flipW", "flipH", "rot180"}),
    "half": ({"group"}, "C2", {"rot180"}),
    "quarter": ({"group"}, "C4", TURNS),
    "d4": ({"group"}, "D4", {*TURNS, "flipW", "flipH", "transpose", "antitranspose"}),
    "rotate:360": ({"group"}, "C4", TURNS),
    "rotate:90": ({"none", "partial"}, None, set()),
    "rotate:180": ({"partial"}, None, set()),
}


def main(options: list[str] | None = None) -> None:
    """Run the table and print it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--root")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", default="standard")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(options)
    torch.set_num_threads(arguments.threads)
    rows = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
    done = {(row["transform"], row["seed"]) for row in rows}
    wanted = (arguments.source, arguments.budget)
    if any((row["source"], row["budget"]) != wanted for row in rows):
        parser.error(f"{arguments.out} holds rows of another source or budget")
    for name in TRUTHS:
        for seed in range(arguments.seeds):
            if (name, seed) not in done:
                rows.append(verdict_row(arguments, name, seed))
                print(markdown(rows[-1], list(rows[-1]["excess_loss"])), flush=True)
                write_atomically(arguments.out, json.dumps(rows, indent=1).encode())
    command = f"python -m experiments.studies.verdicts {arguments.source} --seeds {arguments.seeds}"
    page = table(rows, f"{command} --budget {arguments.budget}")
    write_atomically(arguments.out.with_suffix(".md"), page.encode())
    print(page.splitlines()[-1])
    sys.exit(not all(row["right"] for row in rows))


def verdict_row(arguments: argparse.Namespace, name: str, seed: int) -> dict:
    """One verdict, with the excess loss of every candidate."""
    root = None if arguments.root is None else Path(arguments.root)
    budget = BUDGETS[arguments.budget]
    pool = judge_pool(load(arguments.source, root=root, seed=seed), budget, seed)
    start = time.perf_counter()
    _, verdict = verdict_on(pool, transform(name), budget.judge_steps, seed)
    seconds = time.perf_counter() - start
    words, group, found = TRUTHS[name]
    right = verdict.word in words and verdict.group == group and set(verdict.found) == found
    if name == "rotate:180":
        right = right and bool({"rot90", "rot270"} & set(verdict.partial))
    return {
        "source": arguments.source,
        "budget": arguments.budget,
        "transform": name,
        "seed": seed,
        "verdict": verdict.word,
        "group": verdict.group,
        "found": verdict.found,
        "partial": verdict.partial,
        "right": right,
        "accuracy": round(verdict.power.accuracy, 4),
        "delta": round(verdict.delta, 4),
        "seconds": round(seconds, 1),
        "excess_loss": {j.name: round(j.excess_loss, 4) for j in verdict.judgements},
        "upper": {j.name: round(j.interval[1], 4) for j in verdict.judgements},
        "lower": {j.name: round(j.interval[0], 4) for j in verdict.judgements},
        "change": {j.name: round(j.change, 4) for j in verdict.judgements},
        "change_upper": {j.name: round(j.change_interval[1], 4) for j in verdict.judgements},
        "kept_share_min": {j.name: round(j.kept_share_min, 3) for j in verdict.judgements},
    }


def table(rows: list[dict], command: str) -> str:
    """All rows as a Markdown page."""
    names = list(rows[0]["excess_loss"])
    head = ["transform", "seed", "verdict", "found or partial", "accuracy", "delta", *names]
    head += ["seconds", "right"]
    lines = [
        f"# Verdicts on {rows[0]['source']}",
        "",
        f"`{command}`. Excess loss of every candidate in nats; accuracy of the judge's networks on "
        "images that they never saw; seconds of propose and judge together.",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    lines += [markdown(row, names) for row in rows]
    lines += ["", f"{sum(row['right'] for row in rows)} of {len(rows)} right.", ""]
    return "\n".join(lines)


def markdown(row: dict, names: list[str]) -> str:
    """One line of the table."""
    word = f"{row['verdict']} {row['group'] or ''}".strip()
    members = ", ".join(row["found"] or row["partial"]) or "-"
    cells = [row["transform"], row["seed"], word, members, f"{row['accuracy']:.1%}"]
    cells += [f"{row['delta']:.3f}", *(f"{row['excess_loss'][name]:.3f}" for name in names)]
    cells += [f"{row['seconds']:.0f}", "yes" if row["right"] else "NO"]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
