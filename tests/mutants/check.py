"""Breaks each mechanism on purpose and expects its test to fail: `make mutants`, or `make mutants MUTANTS="S5 S8"`.

Works on a copy of the tree in a temporary folder. Exit 1 when a mutant survives, or when its text is no longer found in the code (then the
list in `mutants.py` has to follow the code).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]


def main(wanted: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not wanted or mutant.mechanism in wanted]
    if not chosen:
        print(f"no mutant for {' '.join(wanted)}; there are {' '.join(sorted({m.mechanism for m in MUTANTS}))}")
        return 2
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="sprocketmq-mutants-") as folder:
        copy = Path(folder)
        for name in ("src", "tests", "examples"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for mutant in chosen:
            verdict = judge(mutant, copy)
            survivors += not verdict.startswith("killed")
            print(f"{mutant.mechanism:5} {verdict:28} {mutant.what}\n      {mutant.test}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} survived")
    return 1 if survivors else 0


def judge(mutant: Mutant, copy: Path) -> str:
    path = copy / mutant.file
    original = path.read_text()
    if original.count(mutant.old) != 1:
        return f"STALE (found {original.count(mutant.old)} times)"
    path.write_text(original.replace(mutant.old, mutant.new))
    try:
        options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout", "120"]
        command = [sys.executable, "-m", "pytest", *options, *mutant.test.split()]
        environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        run = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
    finally:
        path.write_text(original)
    if run.returncode == 1:
        return "killed"
    return "SURVIVED" if run.returncode == 0 else f"NOT RUN (pytest exit {run.returncode})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
