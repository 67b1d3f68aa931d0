# SPDX-License-Identifier: Apache-2.0
"""Breaks each mechanism on purpose and expects its test to fail: `make mutants`, or `make mutants MUTANTS="S5 remoting/sender.py 110-"`:
a word is a mechanism, the end of a path (with a slash in it), or a number and a dash: the list from there on.
With REASONS=1 in the environment it adds how each test failed: a mutant should die of what it breaks, not of something else.

    list --> do all the tests pass on the sound code? --> for each mutant: change one copy of the tree, run its test, change it back
                                                             killed      a test failed: as it should be
                                                             SURVIVED    no test noticed: a test is missing
                                                             STALE       its text is not in the code any more: the list has to follow
                                                             NOT RUN     nothing was proved: pytest could not run the test, or it
                                                                         fails on the sound code too

Works on copies of the tree in a temporary folder, one for each processor (at most four), compiled once; each run is a process of its own,
forked from one that has pytest loaded (warm_pytest.py). Exit 0 only if every mutant was killed.
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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.all_mutants import MUTANTS, Mutant
from mutants.warm_pytest import WarmPytest

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
_MOST_AT_ONCE = 4
_REASON_CHARACTERS = 120
_TEST_LIMIT_S = 120
_SOUND_LIMIT_S = 600  # a test that is slow on a slow machine is sound
_RUN_LIMIT_S = 3600
_TIMED_OUT = "Failed: Timeout"
# The summary's own lines (-ra): an exit code of 1 alone may as well be a plug-in that could not be imported.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::\S.*?)(?: - (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class Copy:
    """A tree to break, and who runs its tests."""

    folder: Path
    pytest: WarmPytest


@dataclass(frozen=True)
class Run:
    """``code`` is None when it did not end."""

    code: int | None
    output: str


Work = Callable[[Copy], Run]


def main(wanted: list[str]) -> int:
    chosen = [mutant for number, mutant in enumerate(MUTANTS, 1) if not wanted or is_wanted(mutant, number, wanted)]
    if not chosen:
        print(f"no mutant for {' '.join(wanted)}; there are {' '.join(dict.fromkeys(m.mechanism for m in MUTANTS))}")
        return 2
    started_s = time.monotonic()
    at_once = min(_MOST_AT_ONCE, os.cpu_count() or 1, len(chosen))
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="sprocketmq-mutants-") as folder, ThreadPoolExecutor(at_once) as pool:
        all_copies = copy_tree(Path(folder), at_once, chosen)
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in all_copies:
            copies.put(copy)

        def on_a_copy(work: Callable[[Copy], T]) -> T:
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
        for copy in all_copies:
            copy.pytest.close()
    print(f"{len(chosen)} mutants, {survivors} not killed, {time.monotonic() - started_s:.0f} s")
    return 1 if survivors else 0


def is_wanted(mutant: Mutant, number: int, wanted: Iterable[str]) -> bool:
    return any(
        mutant.mechanism == word
        or ("/" in word and mutant.file.endswith(word))
        or (word.endswith("-") and word[:-1].isdigit() and number >= int(word[:-1]))
        for word in wanted
    )


def copy_tree(to: Path, count: int, chosen: Iterable[Mutant]) -> list[Copy]:
    """Copies with all bytecode in place. By the source's content, not its time: a mutant as long as what it replaces is compiled, too."""
    first = to / "0"
    for name in ("src", "tests", "examples", "scripts", ".ci"):
        shutil.copytree(ROOT / name, first / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", first)
    compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src", "tests"]
    subprocess.run(compiling, cwd=first, check=True)
    # pytest has bytecode of its own for tests, which it writes when it meets them.
    files = dict.fromkeys(test.partition("::")[0] for mutant in chosen for test in mutant.test.split())
    collecting = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", *files]
    subprocess.run(collecting, cwd=first, env=_environment(first), check=False, capture_output=True)
    for number in range(1, count):
        shutil.copytree(first, to / str(number))
    folders = [to / str(number) for number in range(count)]
    return [Copy(folder, WarmPytest(folder, _environment(folder), _RUN_LIMIT_S)) for folder in folders]


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "PYTHONDONTWRITEBYTECODE": "",  # WarmPytest decides about it
        "COLUMNS": "400",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
    }


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
        if run.code != 0:
            print(run.output[-6000:], flush=True)
            failing += [test for test, _ in _FAILED.findall(run.output)] or part
    return failing


def judge(mutant: Mutant, copy: Copy, unsound: Iterable[str]) -> str:
    if any(f"{failed}[".startswith((f"{test}[", f"{test}::")) for failed in unsound for test in mutant.test.split()):
        return "NOT RUN, its test fails on the sound code"
    path = copy.folder / mutant.file
    original = path.read_text()
    if original.count(mutant.old) != 1:
        return f"STALE, found {original.count(mutant.old)} times"
    path.write_text(original.replace(mutant.old, mutant.new))
    try:
        run = run_tests(mutant.test.split(), copy)
    finally:
        path.write_text(original)
    if run.code is None:
        return f"NOT RUN, no end after {_RUN_LIMIT_S} s"
    if run.code == 0:
        return "SURVIVED"
    failed = _FAILED.search(run.output)
    if run.code != 1 or failed is None:
        return f"NOT RUN, pytest exit {run.code}\n{run.output[-2000:]}\n"
    test, reason = failed.group(1).partition("::")[2], (failed.group(2) or "")[:_REASON_CHARACTERS]
    if os.environ.get("REASONS"):
        return f"killed by {test}: {reason}"
    # No end is a failure, too, but on a slow machine perhaps not of the mutant.
    return f"killed by {test}" + (f", no end after {_TEST_LIMIT_S} s" if reason.startswith(_TIMED_OUT) else "")


def run_tests(tests: Iterable[str], copy: Copy, *, stop_at_first: bool = True) -> Run:
    limits = ["-x", f"--timeout={_TEST_LIMIT_S}"] if stop_at_first else [f"--timeout={_SOUND_LIMIT_S}"]
    options = ["-q", "-p", "no:cacheprovider", *limits]
    # Each run draws the same examples; no example that an earlier mutant left behind decides about a later one.
    shutil.rmtree(copy.folder / "hypothesis", ignore_errors=True)
    return Run(*copy.pytest.run([*options, "--hypothesis-seed", "0", *tests]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
