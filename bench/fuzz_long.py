# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzzers of the test suite for a longer time: `make fuzz`, or `python bench/fuzz_long.py --seconds 600 [--only sql]`.

Each `test_fuzz_*.py` under tests/unit has functions that Hypothesis calls; here each runs for an equal part of the time with new seeds.
Exit code 1 after the first failure, which Hypothesis minimizes and prints.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, seed, settings
from rich.console import Console
from rich.progress import Progress

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]
_AT_ONCE: Final = 300  # examples between two checks of the time

_SETTINGS: Final = settings(
    max_examples=_AT_ONCE, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def fuzzers(only: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """(name, function) of every Hypothesis test in the fuzz modules."""
    for path in sorted((ROOT / "tests/unit").rglob("test_fuzz_*.py")):
        module = importlib.import_module(".".join(path.relative_to(ROOT / "tests").with_suffix("").parts))
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and hasattr(function, "hypothesis") and only in f"{path.stem} {name}":
                yield f"{path.stem}: {name}", function


def run_for(function: Any, seconds: float, dice: random.Random) -> int:
    """Run the function for some time; returns the number of examples and raises what the function raises."""
    until_s, examples = time.monotonic() + seconds, 0

    def counted(*args: Any, **kwargs: Any) -> None:
        nonlocal examples
        examples += 1
        inner(*args, **kwargs)

    inner = function.hypothesis.inner_test
    function.hypothesis.inner_test = counted
    counted.__signature__ = inspect.signature(inner)  # type: ignore[attr-defined]
    try:
        while time.monotonic() < until_s:
            fresh = seed(dice.randrange(1 << 60))(function)
            # Not as a decorator, because a function can have settings only once.
            fresh._hypothesis_internal_use_settings = _SETTINGS
            fresh()
    finally:
        function.hypothesis.inner_test = inner
    return examples


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the fuzzers for long.")
    parser.add_argument("--seconds", type=float, default=60, help="for each fuzzer; default 60")
    parser.add_argument("--only", default="", help="only fuzzers with this in their name")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    chosen = random.randrange(1 << 32) if options.seed is None else options.seed
    console, dice, total = Console(), random.Random(chosen), 0
    console.print(f"seed {chosen}")
    found = list(fuzzers(options.only))
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("fuzzing", total=len(found))
        for name, function in found:
            progress.update(task, description=name)
            count = run_for(function, options.seconds, dice)
            total += count
            console.print(f"{count:>10,}  {name}")
            progress.advance(task)
    console.print(f"{total:>10,}  inputs in {len(found)} fuzzers, none broke anything")


if __name__ == "__main__":
    main()
