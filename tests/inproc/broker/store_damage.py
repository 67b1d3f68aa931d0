# SPDX-License-Identifier: Apache-2.0
"""A store with a bit of everything, and ways in which its files get lost; what a start and ``store check`` say about each."""

from __future__ import annotations

import builtins
import io
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sprocketmq.broker import Broker, BrokerConfig
from sprocketmq.errors import RocketMQError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.net.process.engine import Engine
from sprocketmq.store import StoreConfig, StoredMessage
from sprocketmq.store.tools.check import check_directory
from sprocketmq.wire.records.record import decode_records

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 200,
    "max_hash_slot_num": 31,
    "max_index_num": 30,
    "timer_wheel_enable": False,
}
TOPICS = ("orders", "flights")
QUEUES = 2
COUNT = 80

PAGE = Path(__file__).parents[3] / "docs/internals/robustness.md"
BEGIN, END = "<!-- the table of damaged files -->", "<!-- end of the table -->"

Messages = dict[tuple[str, int], list[bytes]]


def make_store(engine: Engine, root: Path, salt: int = 0, count: int = COUNT) -> Messages:
    """Fill ``root/stopped`` and its killed twin ``root/killed``; returns what was acknowledged."""
    clock = ManualClock()
    live = root / "stopped"
    broker = Broker("", port=0, store_dir=str(live), clock=clock, config=BrokerConfig(**SIZES), engine=engine)
    broker.start()
    sent: Messages = {}

    async def fill() -> None:
        now_ms = clock.now_ms()
        for topic in TOPICS:
            broker.topics.create_if_absent(topic, QUEUES, now_ms)
        for number in range(count):
            key = TOPICS[number % 3 % 2], number // 3 % QUEUES
            body = b"%d of %d " % (number, salt) * (2 + (number + salt) % 3)
            broker.put(StoredMessage(*key, body, b"KEYS\x01k%d\x02" % number), now_ms + number)
            sent.setdefault(key, []).append(body)
        broker.groups.find("g1", now_ms)
        broker.groups.find("g2", now_ms)
        for group in ("g1", "g2"):
            for (topic, queue_id), bodies in sent.items():
                broker.offsets.commit(group, topic, queue_id, len(bodies) - 1)
        broker.config_store.save_offsets()
        broker.store.dispatch(count)
        error = await broker.config_store.saved(offsets=True)
        assert error is None
        broker.store.flush()

    engine.run(fill())
    shutil.copytree(live, root / "killed")
    broker.stop()
    return sent


def files_of(store: Path) -> list[str]:
    """Every file of a store directory, relative to it."""
    return sorted(str(path.relative_to(store)) for path in store.rglob("*") if path.is_file())


def kind_of(name: str) -> str:
    """The row of a file in the table for users."""
    folder, _, file = name.partition("/")
    if folder in ("commitlog", "consumequeue", "index", "timerlog"):
        return f"`{folder}/`"
    if folder == "config":
        return f"`config/{file.removesuffix('.bak')}`" if not file.endswith(".bak") else "`config/*.bak`"
    return f"`{folder}`"


# -- damage --------------------------------------------------------------------------------------------------------------------------


def gone(path: Path, store: Path, other: Path) -> None:
    path.unlink()


def empty(path: Path, store: Path, other: Path) -> None:
    os.truncate(path, 0)


def half(path: Path, store: Path, other: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zeroed(path: Path, store: Path, other: Path) -> None:
    length = path.stat().st_size
    os.truncate(path, 0)
    os.truncate(path, length)


def exchanged(path: Path, store: Path, other: Path) -> None:
    """With the next file of its folder, or of its topic."""
    beside = sorted(file for file in path.parent.iterdir() if file.is_file())
    if len(beside) == 1:
        beside = sorted(file for file in path.parent.parent.rglob("*") if file.is_file())
    twin = beside[(beside.index(path) + 1) % len(beside)]
    kept = path.read_bytes()
    path.write_bytes(twin.read_bytes())
    twin.write_bytes(kept)


def foreign(path: Path, store: Path, other: Path) -> None:
    source = other / path.relative_to(store)
    if not source.exists():  # an index file has the name of its moment: the one at the same place of its folder
        place, twins = sorted(path.parent.iterdir()).index(path), sorted(source.parent.glob("*"))
        source = (
            twins[min(place, len(twins) - 1)]
            if path.parent != store and twins
            else min(filter(Path.is_file, other.rglob("*")))
        )
    path.write_bytes(source.read_bytes())


def unreadable(path: Path, store: Path, other: Path) -> None:
    """Made so by ``refusing`` while the case runs: the superuser, who may run the tests, may read everything."""


def folder(path: Path, store: Path, other: Path) -> None:
    path.unlink()
    path.mkdir()


def dead_link(path: Path, store: Path, other: Path) -> None:
    path.unlink()
    path.symlink_to(store / "nothing" / "here")


DAMAGES: dict[str, Callable[[Path, Path, Path], None]] = {
    "gone": gone,
    "empty": empty,
    "cut in half": half,
    "zeroed": zeroed,
    "exchanged": exchanged,
    "of another store": foreign,
    "unreadable": unreadable,
    "a folder": folder,
    "a dead link": dead_link,
}


def refusing(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Nobody may open ``path``."""
    wanted, real_os_open, real_open = os.path.realpath(path), os.open, builtins.open

    def refuse(name: Any) -> None:
        if isinstance(name, str | os.PathLike) and os.path.realpath(name) == wanted:
            raise PermissionError(13, "Permission denied", str(name))

    def os_open(name: Any, *args: Any, **options: Any) -> int:
        refuse(name)
        return real_os_open(name, *args, **options)

    def plain_open(name: Any, *args: Any, **options: Any) -> Any:
        refuse(name)
        return real_open(name, *args, **options)

    monkeypatch.setattr(os, "open", os_open)
    monkeypatch.setattr(builtins, "open", plain_open)
    monkeypatch.setattr(io, "open", plain_open)  # pathlib's


# -- what is said ----------------------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What a start made of a damaged store.

    Attributes:
        refusal: the sentence with which it was refused; empty if it started.
        facts: what was found in it; None if it was refused.
        said, checked: log lines, and what ``store check`` says.
    """

    refusal: str
    facts: Any
    said: list[str]
    checked: list[str]


def checked_of(store: Path) -> list[str]:
    """What ``store check`` says."""
    try:
        return [str(problem) for problem in check_directory(store, StoreConfig()) if not problem.note]
    except RocketMQError as error:
        return [str(error)]


def start_on(
    engine: Engine,
    store: Path,
    lines: list[str],
    look: Callable[[Broker], Any],
    clock: ManualClock | None = None,
    **settings: Any,
) -> Found:
    """Check a store, start a broker on it, and look at that."""
    checked = checked_of(store)
    lines.clear()
    config = BrokerConfig(**settings)
    broker = Broker("", port=0, store_dir=str(store), clock=clock or ManualClock(), config=config, engine=engine)
    try:
        broker.start()
    except RocketMQError as error:
        return Found(str(error), None, list(lines), checked)
    try:
        facts = look(broker)
        return Found("", facts, list(lines), checked)
    finally:
        broker.stop()


def outcome_of(engine: Engine, store: Path, sent: Messages, lines: list[str]) -> Found:
    """``facts``: how many acknowledged messages are not delivered, by queue; topics, groups or offsets that are not as they were."""
    return start_on(engine, store, lines, lambda broker: engine.run(_lost_in(broker, sent)), **SIZES)


async def _lost_in(broker: Broker, sent: Messages) -> tuple[dict[tuple[str, int], int], list[str]]:
    lost, tables = {}, []
    for (topic, queue_id), bodies in sent.items():
        found = dict(messages_of(broker, topic, queue_id))
        missing = sum(found.get(offset) != body for offset, body in enumerate(bodies))
        if missing:
            lost[topic, queue_id] = missing
        tables += [
            f"offset of {group} in {topic}/{queue_id}"
            for group in ("g1", "g2")
            if broker.offsets.query(group, topic, queue_id) != len(bodies) - 1
        ]
    tables += [topic for topic in TOPICS if broker.topics.get(topic) is None]
    tables += [group for group in ("g1", "g2") if group not in broker.groups.table]
    return lost, tables


def messages_of(broker: Broker, topic: str, queue_id: int) -> Iterator[tuple[int, bytes]]:
    store = broker.store
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.read(topic, queue_id, offset)
        for chunk in result.chunks:
            for message in decode_records(bytes(chunk)):
                yield message.queue_offset, message.body
        assert result.next_offset > offset
        offset = result.next_offset


class Lines(logging.Handler):
    """Warnings and errors of the package."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        assert record.exc_info is None, record.getMessage()


class DamageCases:
    """Damages copies of stores, one file at a time, and notes what came of it.

    Attributes:
        table: the results by (row, damage).
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # Removing the folders of a copy takes longer than all else, if they are on a disk.
        memory = Path("/dev/shm")
        self._copy = (memory if memory.is_dir() else folder) / f"damaged-{os.getpid()}"
        self._monkeypatch = monkeypatch
        self.table: dict[tuple[str, str], set[str]] = {}
        self._failures: list[str] = []

    def run(
        self,
        make: Callable[[Path], object],
        other: Path,
        name: str,
        damage: str,
        row: str,
        result_of: Callable[[Path], str],
    ) -> None:
        """``make`` makes a copy. ``other``: another store. ``result_of``: a few words; raises if something was lost in silence."""
        copy, spoil = self._copy, DAMAGES[damage]
        make(copy)
        try:
            if (copy / name).exists():
                spoil(copy / name, copy, other)
                with self._monkeypatch.context() as patch:
                    if spoil is unreadable:
                        refusing(patch, copy / name)
                    self.table.setdefault((row, damage), set()).add(result_of(copy))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure of this case
            self._failures.append(f"{other.name} {name} {damage}: {type(error).__name__} {error}"[:600])
        finally:
            shutil.rmtree(copy)

    def compare_with_page(self, *, may_write: bool) -> None:
        """Each result has to stand in the table of docs/internals/robustness.md, which WRITE_DOCS=1 writes anew if all cases were run."""
        assert not self._failures, f"{len(self._failures)} failures\n" + "\n".join(self._failures)
        if may_write and os.environ.get("WRITE_DOCS"):
            write_page(self.table)
        for (kind, damage), results in self.table.items():
            assert results <= written_results(kind, damage), f"{kind}, {damage}: {sorted(results)}"


# -- the table for users --------------------------------------------------------------------------------------------------------


def write_page(table: dict[tuple[str, str], set[str]]) -> None:
    """Write the rows of these files into the table of the page; other rows stay."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    present, _, rest = rest.partition(END)
    kinds = sorted({kind for kind, _ in table})
    kept = [line for line in present.splitlines() if line.startswith("| `") and line.split(" | ")[0][2:] not in kinds]
    rows = ["| file | " + " | ".join(DAMAGES) + " |", "|---|" + "---|" * len(DAMAGES)]
    made = [
        f"| {kind} | " + " | ".join(", ".join(sorted(table.get((kind, damage), set()))) for damage in DAMAGES) + " |"
        for kind in kinds
    ]
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join([*rows, *sorted(kept + made)]) + f"\n\n{END}{rest}", "utf-8")


def written_results(kind: str, damage: str) -> set[str]:
    for line in PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == kind:
            return set(cells[1 + list(DAMAGES).index(damage)].split(", "))
    return set()
