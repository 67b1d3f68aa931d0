"""Breaks each mechanism on purpose and expects its test to fail: `make mutants`, or `make mutants MUTANTS="S5 S8"`.
With REASONS=1 in the environment it adds how each test failed: a mutant should die of what it breaks, not of something else.

    list --> do all the tests pass on the sound code? --> for each mutant: change one copy of the tree, run its test, change it back
                                                             killed      a test failed: as it should be
                                                             SURVIVED    no test noticed: a test is missing
                                                             STALE       its text is not in the code any more: the list has to follow
                                                             NOT RUN     nothing was proved: pytest could not run the test, or it
                                                                         fails on the sound code too

Works on copies of the tree in a temporary folder, one for each processor (at most four). Exit 0 only if every mutant was killed.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parent))

from mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
Run = subprocess.CompletedProcess[str]
Work = Callable[[Path], Run]
_MOST_AT_ONCE = 4
_REASON_CHARACTERS = 120
_TEST_LIMIT_S = 120
# The summary's own lines (-ra): an exit code of 1 alone may as well be a plug-in that could not be imported.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::\S.*?)(?: - (.*))?$", re.MULTILINE)


def main(wanted: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not wanted or mutant.mechanism in wanted]
    if not chosen:
        print(f"no mutant for {' '.join(wanted)}; there are {' '.join(dict.fromkeys(m.mechanism for m in MUTANTS))}")
        return 2
    started_s = time.monotonic()
    at_once = min(_MOST_AT_ONCE, os.cpu_count() or 1, len(chosen))
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="sprocketmq-mutants-") as folder, ThreadPoolExecutor(at_once) as pool:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(at_once):
            copies.put(copy_tree(Path(folder) / str(number)))

        def on_a_copy(work: Callable[[Path], T]) -> T:
            copy = copies.get()
            try:
                return work(copy)
            finally:
                copies.put(copy)

        unsound = failing_unchanged(chosen, lambda work: list(pool.map(on_a_copy, work)))
        verdicts = pool.map(lambda mutant: on_a_copy(lambda copy: judge(mutant, copy, unsound)), chosen)
        for mutant, verdict in zip(chosen, verdicts, strict=True):
            survivors += not verdict.startswith("killed")
            file = mutant.file.removeprefix("src/sprocketmq/")
            print(f"{mutant.mechanism:7} {verdict}: {mutant.what} ({file})", flush=True)
    print(f"{len(chosen)} mutants, {survivors} not killed, {time.monotonic() - started_s:.0f} s")
    return 1 if survivors else 0


def copy_tree(to: Path) -> Path:
    for name in ("src", "tests", "examples"):
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", to)
    return to


def failing_unchanged(chosen: Iterable[Mutant], run_all: Callable[[list[Work]], list[Run]]) -> list[str]:
    """The tests that fail without any mutant: such a test kills every mutant and proves nothing."""
    tests = dict.fromkeys(test for mutant in chosen for test in mutant.test.split())
    folders: dict[str, list[str]] = {}
    for test in tests:
        folders.setdefault(test.partition("::")[0].rpartition("/")[0], []).append(test)
    print(f"{len(tests)} tests on the sound code", flush=True)
    runs = run_all([partial(run_tests, part, stop_at_first=False) for part in folders.values()])
    failing: list[str] = []
    for part, run in zip(folders.values(), runs, strict=True):
        if run.returncode:
            print(run.stdout[-4000:] + run.stderr[-2000:], flush=True)
            failing += [test for test, _ in _FAILED.findall(run.stdout)] or part
    return failing


def judge(mutant: Mutant, copy: Path, unsound: Iterable[str]) -> str:
    if any(f"{failed}[".startswith((f"{test}[", f"{test}::")) for failed in unsound for test in mutant.test.split()):
        return "NOT RUN, its test fails on the sound code"
    path = copy / mutant.file
    original = path.read_text()
    if original.count(mutant.old) != 1:
        return f"STALE, found {original.count(mutant.old)} times"
    path.write_text(original.replace(mutant.old, mutant.new))
    try:
        run = run_tests(mutant.test.split(), copy)
    except subprocess.TimeoutExpired:
        return f"NOT RUN, no end after {10 * _TEST_LIMIT_S} s"
    finally:
        path.write_text(original)
    if run.returncode == 0:
        return "SURVIVED"
    failed = _FAILED.search(run.stdout)
    if run.returncode != 1 or failed is None:
        return f"NOT RUN, pytest exit {run.returncode}\n{run.stdout[-1000:]}{run.stderr[-1000:]}\n"
    test, reason = failed.group(1).partition("::")[2], (failed.group(2) or "")[:_REASON_CHARACTERS]
    return f"killed by {test}: {reason}" if os.environ.get("REASONS") else f"killed by {test}"


def run_tests(tests: Iterable[str], copy: Path, *, stop_at_first: bool = True) -> Run:
    options = ["-q", "-p", "no:cacheprovider", "--timeout", str(_TEST_LIMIT_S), *(["-x"] if stop_at_first else [])]
    # Each run draws the same examples; no example that an earlier mutant left behind decides about a later one.
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "400",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "hypothesis"),
    }
    shutil.rmtree(copy / "hypothesis", ignore_errors=True)
    command = [sys.executable, "-m", "pytest", *options, "--hypothesis-seed", "0", *tests]
    return subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=10 * _TEST_LIMIT_S, check=False
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
