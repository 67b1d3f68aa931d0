# SPDX-License-Identifier: Apache-2.0
"""Topics and groups on the disk: one write for all changes that came meanwhile, and nobody is told before his write has ended."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sprocketmq.broker import Broker
from sprocketmq.broker.chunked_work import CHUNK_SIZE, encode_in_chunks
from sprocketmq.broker.settings.config_store import ConfigStore
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.store import config_files
from sprocketmq.wire import bodies
from sprocketmq.wire.text import fastjson

NOW_MS = 1_795_276_800_000


class Disk:
    """Writes of configuration files: each waits for :attr:`open`; ``names`` are those that have begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.names: list[str] = []
        save = config_files.save_config

        def slow(path: str, raw: bytes, *, private: bool = False) -> None:
            self.names.append(Path(path).name)
            assert self.open.wait(30)
            save(path, raw, private=private)

        monkeypatch.setattr(config_files, "save_config", slow)


def in_a_loop(root: Path | None, play: Callable[[ConfigStore, Broker], object]) -> None:
    async def main() -> None:
        broker = Broker(clock=ManualClock(NOW_MS))
        broker.root = root
        store = ConfigStore(broker)
        broker.topics_changed, broker.groups_changed = store.topics_changed, store.groups_changed  # type: ignore[method-assign]
        result = play(store, broker)
        if asyncio.iscoroutine(result):
            await result
        store.close()

    asyncio.run(main())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30) if hasattr(asyncio, "timeout") else asyncio.Lock():
        while not condition():
            await asyncio.sleep(0.001)


def topics_on_disk(root: Path) -> set[str]:
    return set(json.loads((root / "config/topics.json").read_text())["topicConfigTable"])


def test_a_hundred_changes_during_a_write_need_one_more_and_each_is_acknowledged_after_its_own(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)

    async def play(store: ConfigStore, broker: Broker) -> None:
        told: dict[str, set[str]] = {}

        def create(name: str) -> None:
            broker.topics.create_if_absent(name, 1, NOW_MS)
            store.when_saved(lambda _: told.setdefault(name, topics_on_disk(tmp_path)))

        create("first")
        assert not told
        await until(lambda: disk.names)
        for number in range(100):
            create(f"later-{number}")
        broker.groups.find("readers", NOW_MS)
        await asyncio.sleep(0.01)
        assert not told, "the disk has nothing yet"
        disk.open.set()
        await until(lambda: len(told) == 101)
        assert all(name in found for name, found in told.items()), "told before it was there"
        assert sorted(disk.names) == ["subscriptionGroup.json", "topics.json", "topics.json"]

    in_a_loop(tmp_path, play)


def test_a_caller_that_waits_for_topics_and_groups_is_called_when_both_are_written(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)

    async def play(store: ConfigStore, broker: Broker) -> None:
        told: list[bool] = []
        broker.topics.create_if_absent("one", 1, NOW_MS)
        broker.groups.find("readers", NOW_MS)
        store.when_saved(lambda _: told.append((tmp_path / "config/subscriptionGroup.json").exists()))
        disk.open.set()
        await until(lambda: told)
        assert told == [True]
        assert "one" in topics_on_disk(tmp_path)
        store.when_saved(lambda _: told.append(True))
        assert len(told) == 2, "nothing waits to be written"

    in_a_loop(tmp_path, play)


def test_a_stop_writes_tables_whose_write_has_not_begun(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)

    async def play(store: ConfigStore, broker: Broker) -> None:
        broker.topics.create_if_absent("one", 1, NOW_MS)
        await until(lambda: disk.names)
        broker.topics.create_if_absent("two", 1, NOW_MS)
        disk.open.set()
        store.close()
        assert {"one", "two"} <= topics_on_disk(tmp_path)

    in_a_loop(tmp_path, play)


def test_tables_are_written_as_the_dialect_writes_anything():
    odd = ("a", "B", "_", "%RETRY%g", "ü", "🛫", '"quoted"', "a\\b", "z" * 255)
    topics = {
        name: bodies.TopicConfig(topic_name=name, perm=number, order=number % 2 > 0) for number, name in enumerate(odd)
    }
    topics["a"].attributes = {"message.type": "FIFO", "a": "ü"}
    table = bodies.TopicConfigSerializeWrapper(topic_config_table=topics)
    groups = {name: bodies.SubscriptionGroupConfig(group_name=name) for name in odd}
    usual = bodies.SubscriptionGroupWrapper(subscription_group_table=groups, forbidden_table={"g": {"t": 4, "a": 1}})
    body = bodies.RegisterBrokerBody(topic_config_serialize_wrapper=table, filter_server_list=["x"])
    for struct in (table, usual, body, bodies.TopicConfigSerializeWrapper(), bodies.RegisterBrokerBody()):
        assert struct.encode() == fastjson.dumps(struct)
    groups["a"].group_retry_policy = {"type": None, "b": {"z": None, "a": [1, None]}}
    assert usual.encode() == fastjson.dumps(usual)


def test_offsets_are_written_as_the_dialect_writes_anything():
    table = {"%RETRY%g@g": {1: 5, 0: 2**62}, 'a"\\ü🛫@g': {}, "A@b": {10: 1, 9: 0}}
    for version in (None, bodies.DataVersion(1, 2, 3)):
        body = bodies.ConsumerOffsetSerializeWrapper(offset_table=table, data_version=version)
        assert body.encode() == fastjson.dumps(body)
        snapshot = bodies.ConsumerOffsetSnapshot(
            offset_table=table, data_version=version, group_topic_map={"g": ["b", "a"]}
        )
        assert snapshot.encode() == fastjson.dumps(snapshot)


def test_a_large_table_is_made_in_steps_and_is_the_same_text():
    def play(store: ConfigStore, broker: Broker) -> object:
        for number in range(1_700):
            broker.topics.create_if_absent(f"t{number}", 1, NOW_MS)
            broker.groups.find(f"g{number}", NOW_MS)
            broker.offsets.commit(f"g{number}", f"t{number}", number % 3, number)
        broker.groups.set_readable("g1", "t1", False, NOW_MS)

        async def made() -> None:
            for long in (
                broker.topics.long_content(),
                broker.groups.long_content(),
                broker.offsets.long_content(NOW_MS),
            ):
                turns: list[int] = []
                done = asyncio.ensure_future(encode_in_chunks(long))
                while not done.done():
                    turns.append(1)
                    await asyncio.sleep(0)
                assert done.result() == long.encode()
                assert len(turns) >= len(long.names) // CHUNK_SIZE

        return made()

    in_a_loop(None, play)


def test_what_changes_while_a_large_table_is_made_is_written_after_it(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)
    disk.open.set()

    async def play(store: ConfigStore, broker: Broker) -> None:
        for number in range(2_000):
            broker.topics.create_if_absent(f"t{number}", 1, NOW_MS)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        broker.topics.create_if_absent("A", 1, NOW_MS)  # its place in the text is passed already
        broker.topics.delete("t999", NOW_MS)
        told: list[set[str]] = []
        store.when_saved(lambda error: told.append(topics_on_disk(tmp_path)))
        await until(lambda: told)
        assert "A" in told[0]
        assert "t999" not in told[0]
        assert "t1999" in told[0]

    in_a_loop(tmp_path, play)


def test_a_stop_while_a_large_table_is_made_writes_it(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)
    disk.open.set()

    async def play(store: ConfigStore, broker: Broker) -> None:
        for number in range(2_000):
            broker.topics.create_if_absent(f"t{number}", 1, NOW_MS)
            broker.offsets.commit("g", f"t{number}", 0, 1)
        store.save_offsets()
        await asyncio.sleep(0)
        store.close()
        assert "t1999" in topics_on_disk(tmp_path)
        assert (
            len(
                json.loads((tmp_path / "config/consumerOffset.json").read_text().replace("{0:", '{"0":'))["offsetTable"]
            )
            == 2_000
        )

    in_a_loop(tmp_path, play)
