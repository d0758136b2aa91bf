"""The rule of before: labels by a held-out loss, images by their second moments.

That code left the library; it is taken from the history of this repository and run in a process of
its own.
"""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

from experiments.discovery.answers import Answer, Question

COMMIT = "134b7f7b47a99a21f34bf5320ed17762a9ee2b4f"
"""The last commit with that rule."""

_SCRIPT = """
import json, sys
import numpy as np, torch
from symshare.data import LabelledImages, split, transform
from symshare.discovery.config import BUDGETS
from symshare.discovery.search import candidates_of, judge_pool
from symshare.discovery.steps import evidence_on
from symshare.judge import decide

torch.set_num_threads(1)
told = json.loads(sys.argv[2])
arrays, seed, budget = np.load(sys.argv[1]), told["seed"], BUDGETS["standard"]
data = LabelledImages.from_arrays(arrays["images"], arrays["labels"], layout="NCHW")
pool = judge_pool(split(data, name="discovery", seed=seed), budget, seed)
law, periodic = transform("none"), tuple(told["periodic"])
candidates = candidates_of(pool, law, seed, periodic=periodic)
action = candidates.action()
evidence = evidence_on(action, pool, law, budget.judge_steps, seed)
verdict = decide(evidence, action, candidates.residuals)
print(json.dumps({
    "word": verdict.word,
    "group": verdict.group,
    "found": verdict.found or verdict.approximate,
    "capped": candidates.capped,
    "moves": {e.name: e.permutation for e in candidates.elements[1:]},
    "statuses": {j.name: j.status for j in verdict.judgements},
    "excess": {j.name: [j.excess_loss, *j.interval] for j in verdict.judgements},
    "power": verdict.power.passed,
    "samples": verdict.samples,
}))
"""


def ask_former(question: Question) -> Answer:
    """The verdict of `symshare discover` at its budget `standard`, as it was at `COMMIT`.

    It knows neither groups nor copies.

    Raises:
        FileNotFoundError: where the repository with its history is not at hand.
        RuntimeError: where that code fails.
    """
    start, data = time.perf_counter(), question.data
    told = {"seed": question.seed, "periodic": list(question.periodic)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, images=data.images.numpy(), labels=data.labels.numpy())
        ran = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(path), json.dumps(told)],
            env={**os.environ, "PYTHONPATH": _library(), "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        raise RuntimeError(ran.stderr.strip().splitlines()[-1])
    said = json.loads(ran.stdout.splitlines()[-1])
    return Answer(
        word=said["word"],
        group=said["group"],
        found=tuple(said["found"]),
        capped=said["capped"],
        possible=None,
        moves={name: tuple(move) for name, move in said["moves"].items()},
        statuses=said["statuses"],
        numbers={
            name: {"excess": [round(value, 4) for value in values]}
            for name, values in said["excess"].items()
        },
        facts={"power": said["power"], "samples": said["samples"], "commit": COMMIT},
        seconds=round(time.perf_counter() - start, 1),
    )


@cache
def _library() -> str:
    """A folder with the library of that commit, which goes when this process ends."""
    root = Path(__file__).parents[2]
    command = ["git", "-C", str(root), "archive", COMMIT, "src/symshare"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        raise FileNotFoundError(
            f"the rule of before needs commit {COMMIT} of the repository; clone it with its history"
        )
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return f"{folder}/src"
