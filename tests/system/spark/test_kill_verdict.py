# SPDX-License-Identifier: Apache-2.0
"""The judge of the kill storm sees what was lost, doubled, or not due: each law is broken once, on purpose. No Spark runs here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sprocketmq.wire.records.message import MessageExt
from system.spark.kill_verdict import Judge
from system.spark.killed_pipelines import GROUP, MAX_RECONSUME

SEED, ROWS = 8, 40
# The last try of each row, and whether it is a dead letter then.
FATES = {number: (number % (MAX_RECONSUME + 1), number % 7 == 6) for number in range(ROWS)}
TRIED = next(number for number, (last, _) in FATES.items() if last >= 2)
DEAD = next(number for number, (_, dead) in FATES.items() if dead)
GOOD = next(number for number, (last, dead) in FATES.items() if not dead and not last)


class World:
    """What is stored and noted when everything went well: two batches, the second one ran twice."""

    def __init__(self) -> None:
        self.topics: dict[str, list[MessageExt]] = {
            "copied": [_copied(number, number) for number in range(ROWS)],
            "exact": [_message(number) for number in range(ROWS)],
            f"%RETRY%{GROUP}": [
                _message(number, tries) for number, (last, _) in FATES.items() for tries in range(1, last + 1)
            ],
            f"%DLQ%{GROUP}": [_message(number) for number, (_, dead) in FATES.items() if dead],
        }
        first = [(number, 0) for number in FATES]
        later = [(number, tries) for number, (last, _) in FATES.items() for tries in range(1, last + 1)]
        good = [number for number, (_, dead) in FATES.items() if not dead]
        self.notes: dict[str, list[dict[str, Any]]] = {
            "tries": [{"batch": 0, "rows": first}, {"batch": 1, "rows": later}, {"batch": 1, "rows": list(later)}],
            "good": [{"batch": 1, "rows": [*good]}, {"batch": 1, "rows": good}],
            "kills": [{"time": 100.0}],
            "failures": [{"time": 101.0, "error": "Python worker exited unexpectedly (crashed)"}],
        }

    def judged(self, directory: Path) -> list[str]:
        for name, notes in self.notes.items():
            lines = [json.dumps(note) for note in notes]
            (directory / f"{name}.jsonl").write_text("\n".join(['{"cut sho', *lines]))
        judge = Judge(lambda topic: self.topics.get(topic, []), directory, SEED, {"raw": ROWS, "work": ROWS})
        return judge.verdict().broken


def _message(number: int, tries: int = 0) -> MessageExt:
    return MessageExt("any", b"%d" % number, reconsume_times=tries)


def _copied(number: int, sequence: int) -> MessageExt:
    message = _message(number)
    names = ("SPARK_QUERY_ID", "SPARK_BATCH_ID", "SPARK_PARTITION", "SPARK_SEQUENCE")
    message.properties.update(zip(names, ("query", "0", "0", str(sequence)), strict=True))
    return message


def test_a_run_without_violations_passes(tmp_path: Path) -> None:
    world = World()
    world.topics["copied"].append(_copied(3, 3))  # sent again, and says so
    world.topics[f"%RETRY%{GROUP}"] *= 2
    world.topics[f"%DLQ%{GROUP}"] *= 2
    assert world.judged(tmp_path) == []


BREAKS: dict[str, Callable[[World], object]] = {
    "copied: missing: 1, such as 5": lambda world: world.topics["copied"].pop(5),
    "copied: never sent: 1": lambda world: world.topics["copied"].append(_copied(ROWS, ROWS)),
    "copied: twice, not told as a repeat: 1, such as 5": lambda world: world.topics["copied"].append(_copied(5, 777)),
    "copied: two rows under one name: 1": lambda world: world.topics["copied"].append(_copied(5, 6)),
    "exact: missing: 1, such as 5": lambda world: world.topics["exact"].pop(5),
    "exact: twice: 1, such as 5": lambda world: world.topics["exact"].append(_message(5)),
    f"good: missing: 1, such as {GOOD}": lambda world: world.notes["good"][1]["rows"].remove(GOOD),
    f"good: does not belong there: 1, such as {DEAD}": lambda world: world.notes["good"][1]["rows"].append(DEAD),
    "tries: twice in batch 0": lambda world: world.notes["tries"][0]["rows"].append((5, 0)),
    "tries: a batch saw other rows when it ran again: 1, such as 1": lambda world: world.notes["tries"][1][
        "rows"
    ].pop(),
    f"tries: never seen: 1, such as ({GOOD}, 0)": lambda world: world.notes["tries"][0]["rows"].remove((GOOD, 0)),
    "tries: seen and not due: 1": lambda world: world.notes["tries"][0]["rows"].append((GOOD, 1)),
    f"tries: seen in two batches: 1, such as ({GOOD}, 0)": lambda world: world.notes["tries"].append(
        {"batch": 2, "rows": [(GOOD, 0)]}
    ),
    f"retries: missing: 1, such as ({TRIED}, 1)": lambda world: world.topics[f"%RETRY%{GROUP}"].remove(
        next(copy for copy in world.topics[f"%RETRY%{GROUP}"] if (int(copy.body), copy.reconsume_times) == (TRIED, 1))
    ),
    f"tries: never seen: 1, such as ({GOOD}, 1)": lambda world: world.topics[f"%RETRY%{GROUP}"].append(
        _message(GOOD, 1)
    ),
    f"retries: more than are allowed: 1, such as {GOOD}": lambda world: world.topics[f"%RETRY%{GROUP}"].append(
        _message(GOOD, MAX_RECONSUME + 1)
    ),
    f"never sent: 1, such as {ROWS}": lambda world: world.topics[f"%DLQ%{GROUP}"].append(_message(ROWS)),
    f"good: missing: 1, such as {DEAD}": lambda world: world.topics[f"%DLQ%{GROUP}"].pop(0),
    f"good: does not belong there: 1, such as {GOOD}": lambda world: world.topics[f"%DLQ%{GROUP}"].append(
        _message(GOOD)
    ),
    "failed though nobody was killed: 1, such as ConfigurationError": lambda world: world.notes["failures"].append(
        {"time": 99.0, "error": "ConfigurationError: a sentence"}
    ),
}


@pytest.mark.parametrize("said", BREAKS)
def test_a_broken_law_is_reported(said: str, tmp_path: Path) -> None:
    world = World()
    BREAKS[said](world)
    broken = world.judged(tmp_path)
    assert any(law.startswith(said) for law in broken), broken
