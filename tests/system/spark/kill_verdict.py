# SPDX-License-Identifier: Apache-2.0
"""What must be true of three streams (killed_pipelines) after all kills, when nothing moves any more.

Laws
1. copied: no id is missing; what is there twice says to be the same row of the same batch, so that a reader can drop it.
2. exact, good: each id that belongs there, once, visible to a consumer; no half message is open.
3. tries: of each row the user's function saw the tries 0, 1, ... to its last one, each in one batch; a batch that ran again saw the same
   rows again.
4. Each row ends once: it is good or a dead letter, never both and never neither, whatever a judge that throws dice would say next. A copy
   lies in %RETRY% for each try after the first. What lies there twice was sent by two runs of one batch.
5. A query fails only when a process of Spark was killed under it.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sprocketmq.wire.records.message import MessageExt
from system.spark.killed_pipelines import GROUP, MAX_RECONSUME, writes_good

# How long after a kill a query may fail of it: Spark notices some dead processes only when it needs them.
_BLAMED_S: Final = 120.0
# Spark gives a process of its own ten seconds to start, which a busy machine may not have; nothing of ours runs before.
_STARVED: Final = "Python worker failed to connect back"
_STAMP: Final = ("SPARK_QUERY_ID", "SPARK_BATCH_ID", "SPARK_PARTITION", "SPARK_SEQUENCE")


@dataclass
class Verdict:
    """What was found: ``broken`` laws, and numbers for people."""

    broken: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def holds(self, law: str, wrong: Iterable[object]) -> None:
        """Note ``wrong`` ones, if there are any."""
        found = sorted(map(str, wrong))
        if found:
            self.broken.append(f"{law}: {len(found)}, such as {', '.join(found[:20])}")


class Judge:
    """Compares what is stored and noted with what the seed says.

    Args:
        messages: all that is stored under a topic.
        directory: of the notes: tries, good, kills, failures.
        seed: odd ones write the good rows to a topic, others note them.
        sent: how many rows went to ``raw`` and to ``work``, numbered from 0.
    """

    def __init__(
        self, messages: Callable[[str], list[MessageExt]], directory: Path, seed: int, sent: Mapping[str, int]
    ) -> None:
        self._messages, self._directory, self._seed, self._sent = messages, directory, seed, sent

    @property
    def _expected(self) -> dict[str, set[int]]:
        """The ids that belong to each topic. The dice decided who died; the dead letters say so."""
        dead = set(self._ids(f"%DLQ%{GROUP}"))
        raw, work = set(range(self._sent["raw"])), set(range(self._sent["work"]))
        return {"copied": raw, "exact": raw, "good": work - dead, f"%DLQ%{GROUP}": dead}

    def _last_tries(self) -> dict[int, int]:
        last = dict.fromkeys(range(self._sent["work"]), 0)
        for copy in self._messages(f"%RETRY%{GROUP}"):
            number = int(copy.body)
            last[number] = max(last.get(number, 0), copy.reconsume_times)
        return last

    def all_came(self) -> bool:
        """Whether nothing is missing any more."""
        return all(ids <= set(self._ids(topic)) for topic, ids in self._expected.items())

    def came(self) -> int:
        """How much is there; grows while anything moves."""
        return sum(len(self._ids(topic)) for topic in self._expected) + len(self._messages(f"%RETRY%{GROUP}"))

    def verdict(self) -> Verdict:
        verdict = Verdict(counts={"rows": sum(self._sent.values())})
        self._copied(verdict)
        for topic in ("exact", "good"):
            self._once(verdict, topic)
        self._tries(verdict)
        self._retries(verdict)
        self._failures(verdict)
        return verdict

    def _copied(self, verdict: Verdict) -> None:
        stamps: dict[int, set[tuple[str, ...]]] = {}
        stored = self._messages("copied")
        for message in stored:
            stamps.setdefault(int(message.body), set()).add(tuple(message.properties[name] for name in _STAMP))
        verdict.holds("copied: missing", self._expected["copied"] - stamps.keys())
        verdict.holds("copied: never sent", stamps.keys() - self._expected["copied"])
        verdict.holds("copied: twice, not told as a repeat", [at for at, said in stamps.items() if len(said) > 1])
        rows = Counter(stamp for said in stamps.values() for stamp in said)
        verdict.holds("copied: two rows under one name", [stamp for stamp, count in rows.items() if count > 1])
        verdict.counts["copied, repeats"] = len(stored) - len(stamps)

    def _once(self, verdict: Verdict, topic: str) -> None:
        stored = Counter(self._ids(topic))
        verdict.holds(f"{topic}: missing", self._expected[topic] - stored.keys())
        verdict.holds(f"{topic}: does not belong there", stored.keys() - self._expected[topic])
        verdict.holds(f"{topic}: twice", [number for number, count in stored.items() if count > 1])
        verdict.counts[topic] = stored.total()
        with open(
            self._directory / f"twice-{topic}.jsonl", "w"
        ) as file:  # to look into: one half shown twice, or two of them
            for message in self._messages(topic):
                if stored[int(message.body)] > 1:
                    said = {"id": int(message.body), "stored": message.store_timestamp_ms, **message.properties}
                    file.write(json.dumps(said) + "\n")

    def _tries(self, verdict: Verdict) -> None:
        runs: dict[int, list[set[tuple[int, int]]]] = {}
        for note in self._notes("tries"):
            rows = Counter((number, tries) for number, tries in note["rows"])
            verdict.holds(f"tries: twice in batch {note['batch']}", [row for row, count in rows.items() if count > 1])
            runs.setdefault(note["batch"], []).append(set(rows))
        other = [batch for batch, seen in runs.items() if any(one != seen[-1] for one in seen)]
        verdict.holds("tries: a batch saw other rows when it ran again", other)
        counted = Counter(row for seen in runs.values() for row in seen[-1])
        wanted = {(number, tries) for number, last in self._last_tries().items() for tries in range(last + 1)}
        verdict.holds("tries: never seen", wanted - counted.keys())
        verdict.holds("tries: seen and not due", counted.keys() - wanted)
        verdict.holds("tries: seen in two batches", [row for row, count in counted.items() if count > 1])
        again = sum(len(seen) - 1 for seen in runs.values())
        verdict.counts |= {"tries": len(wanted), "batches judged": len(runs), "batches judged again": again}

    def _retries(self, verdict: Verdict) -> None:
        stored = Counter((int(copy.body), copy.reconsume_times) for copy in self._messages(f"%RETRY%{GROUP}"))
        lasts = self._last_tries()
        wanted = {(number, tries) for number, last in lasts.items() for tries in range(1, last + 1)}
        verdict.holds("retries: missing", wanted - stored.keys())
        verdict.holds("retries: more than are allowed", [at for at, last in lasts.items() if last > MAX_RECONSUME])
        letters = Counter(self._ids(f"%DLQ%{GROUP}"))
        verdict.holds("never sent", (lasts.keys() | letters.keys()) - set(range(self._sent["work"])))
        verdict.counts |= {"retries": len(wanted), "retries, repeats": stored.total() - len(stored)}
        verdict.counts |= {"dead letters": len(letters), "dead letters, repeats": letters.total() - len(letters)}

    def _failures(self, verdict: Verdict) -> None:
        kills = [kill["time"] for kill in self._notes("kills")]
        failures = [note for note in self._notes("failures") if _STARVED not in note["error"]]
        alone = [note for note in failures if not any(0 <= note["time"] - at < _BLAMED_S for at in kills)]
        verdict.holds("failed though nobody was killed", [note["error"][:300] for note in alone])
        verdict.counts["queries that failed and went on"] = len(failures)

    def _ids(self, topic: str) -> list[int]:
        if topic == "good" and not writes_good(self._seed):
            last = {
                note["batch"]: note["rows"] for note in self._notes("good")
            }  # a batch that ran again wrote the same
            return [number for rows in last.values() for number in rows]
        return [int(message.body) for message in self._messages(topic)]

    def _notes(self, name: str) -> Iterator[dict[str, Any]]:
        path = self._directory / f"{name}.jsonl"
        for line in path.read_text("ascii").splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError):  # cut short by a kill
                yield json.loads(line)
