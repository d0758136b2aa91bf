"""A Python of its own for code under test, as a newcomer would start it."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


def fresh_python(folder, *arguments):
    """What it prints, run in a folder; it has to end well and to warn of nothing."""
    search = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout
