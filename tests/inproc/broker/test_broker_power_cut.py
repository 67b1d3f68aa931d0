# SPDX-License-Identifier: Apache-2.0
"""Power cuts under SYNC_FLUSH, whole brokers: whatever was acknowledged is there when the broker starts on what the disk has left.

Every file of a broker takes part (``power_disk`` says what may be lost); the laws between them are the table in
docs/internals/robustness.md. Nothing but what an answer waits for, and what the broker syncs of its own accord, ever
reaches the disk here: the background flush is too slow.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from inproc.broker.power_cuts import SETTINGS, start_after_the_cut
from sprocketmq.wire.bodies import SubscriptionGroupConfig
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.headers import (
    CheckTransactionStateRequestHeader,
)
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message_id import decode_offset_message_id
from sprocketmq.wire.records.record import decode_record

COMMIT, ROLLBACK = 8, 12
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
TOPICS = ("flights", "trains")
SEEDS = int(os.environ.get("POWER_CUTS", "4"))

pytestmark = pytest.mark.parametrize("disk_cluster", [SETTINGS], indirect=True)


class Ledger:
    """What was asked for and what was acknowledged, in the order of it; judges what another broker has."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def add(self, *event: Any) -> None:
        self.events.append(event)


class Load:
    """A client that does one thing after the other."""

    def __init__(self, cluster, client, ledger: Ledger, dice: random.Random) -> None:
        self.cluster, self.client, self.ledger, self.dice = cluster, client, ledger, dice
        self.number = 0
        self.open: list[tuple[bytes, int, int]] = []
        self.made: list[tuple[str, str]] = []
        client.heartbeat("p1", producer="producers")
        for topic in TOPICS:
            self.create(topic)

    def create(self, topic: str) -> None:
        assert self.client.create_topic(topic).code == 0
        self.ledger.add("topic", topic)

    def body(self, kind: str) -> bytes:
        self.number += 1
        return b"%s-%d" % (kind.encode(), self.number)

    def send(self) -> None:
        body = self.body("plain")
        topic, queue_id = self.dice.choice(TOPICS), self.dice.randrange(2)
        answer = self.client.send(topic, body, queue_id=queue_id)
        assert answer.code == 0, answer.remark
        self.ledger.add("send", topic, queue_id, int(answer.ext_fields["queueOffset"]), body)

    def delayed(self) -> None:
        body = self.body("delayed")
        assert self.client.send("flights", body, delay_level=self.dice.choice([1, 2, 4])).code == 0
        self.ledger.add("late", body)

    def timed(self) -> None:
        body = self.body("timed")
        asked = {"TIMER_DELAY_MS": str(self.dice.choice([1_000, 3_000, 40_000]))}
        assert self.client.send("flights", body, properties=asked).code == 0
        self.ledger.add("late", body)

    def half(self) -> None:
        body = self.body("half")
        named = {props.UNIQ_KEY: body.decode(), props.TRAN_MSG: "true", props.PGROUP: "producers"}
        born_ms = self.cluster.clock.now_ms()
        answer = self.client.send("flights", body, queue_id=2, properties=named, sys_flag=4, born_timestamp=born_ms)
        assert answer.code == 0, answer.remark
        place = int(answer.ext_fields["queueOffset"]), decode_offset_message_id(answer.ext_fields["msgId"])[1]
        self.ledger.add("half", body)
        self.open.append((body, *place))

    def end(self) -> None:
        if self.open:
            body, offset, physical_offset = self.open.pop(self.dice.randrange(len(self.open)))
            outcome = self.dice.choice([COMMIT, COMMIT, ROLLBACK])
            self.ledger.add("ending", body, outcome)
            self.client.end_transaction(offset, physical_offset, outcome)
            self.ledger.add("ended", body, outcome)

    def read(self) -> None:
        """Consume what there is, durable or not, and say so."""
        topic, queue_id = self.dice.choice(TOPICS), self.dice.randrange(2)
        self.client.pull("g", topic, queue_id)  # makes the group
        offset = self.cluster.on_loop(lambda: self.cluster.broker.store.max_offset(topic, queue_id))
        self.client.commit("g", topic, queue_id, offset)

    def administrate(self) -> None:
        """Make a topic or a group, or delete one."""
        if self.made and self.dice.random() < 0.4:
            kind, name = self.made.pop(self.dice.randrange(len(self.made)))
            delete = {"topic": self.client.delete_topic, "group": self.client.delete_group}[kind]
            self.ledger.add("deleting", name)
            assert delete(name).code == 0
            self.ledger.add("deleted", name)
            return
        self.number += 1
        name = f"made-{self.number}"
        if self.dice.random() < 0.5:
            self.create(name)
            if self.dice.random() < 0.5:
                assert self.client.send(name).code == 0
            self.made.append(("topic", name))
        else:
            raw = SubscriptionGroupConfig(group_name=name).encode()
            assert self.client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=raw).code == 0
            self.ledger.add("group", name)
            self.made.append(("group", name))

    def wait(self) -> None:
        self.cluster.clock.advance(self.dice.choice([500, 1_000, 2_000, 6_000]))

    def wait_for_a_check(self) -> None:
        self.cluster.clock.advance(31_000)

    def turn(self) -> None:
        weights = {
            self.send: 6, self.delayed: 3, self.timed: 3, self.half: 4, self.end: 2, self.read: 2, self.administrate: 2, self.wait: 3,
            self.wait_for_a_check: 1,
        }  # fmt: skip
        self.dice.choices([*weights], [*weights.values()])[0]()


def judge(cluster, client, events: list[tuple[Any, ...]]) -> None:
    """``events`` were acknowledged before the cut (those of "ending" may have happened)."""
    client.heartbeat("p1", producer="producers")
    by_kind: dict[str, list[tuple[Any, ...]]] = {}
    for kind, *what in events:
        by_kind.setdefault(kind, []).append(tuple(what))
    for topic, queue_id, offset, body in by_kind.get("send", ()):
        found = [message.body for message in client.messages(topic, queue_id)[offset : offset + 1]]
        assert found == [body], f"{topic} {queue_id} has {found} at {offset}"
    tables = cluster.broker.topics.table, cluster.broker.groups.table
    deleting = {name for (name,) in by_kind.get("deleting", ())}
    assert {name for (name,) in by_kind.get("topic", ())} - deleting <= set(tables[0])
    assert {name for (name,) in by_kind.get("group", ())} - deleting <= set(tables[1])
    assert {name for (name,) in by_kind.get("deleted", ())}.isdisjoint({*tables[0], *tables[1]})
    for topic in TOPICS:
        for queue_id in range(2):
            offset = int(client.committed("g", topic, queue_id) or 0)
            end_of_queue = cluster.on_loop(lambda t=topic, q=queue_id: cluster.broker.store.max_offset(t, q))
            assert offset <= end_of_queue, f"g has passed messages of {topic} {queue_id} that are yet to come"
    halves = {body: None for (body,) in by_kind.get("half", ())}
    begun = dict(by_kind.get("ending", ()))
    ended = dict(by_kind.get("ended", ()))
    asked: set[bytes] = set()
    for _ in range(3):  # rounds of checks; each asks for what was not asked for within 6 s
        cluster.clock.advance(31_000)
        client.heartbeat("p1", producer="producers")  # its answer comes behind what was pushed
        for command in client.pushed:
            if command.code == RequestCode.CHECK_TRANSACTION_STATE:
                header = command.header(CheckTransactionStateRequestHeader)
                asked.add(body := decode_record(bytes(command.body)).body)
                place = header.tran_state_table_offset, header.commit_log_offset
                client.end_transaction(*place, begun.get(body, COMMIT))
        client.pushed.clear()
    cluster.clock.advance(31_000)
    seen = Counter(
        message.body for topic in TOPICS for queue_id in range(3) for message in client.messages(topic, queue_id)
    )
    assert {body: seen[body] for (body,) in by_kind.get("late", ()) if seen[body] != 1} == {}
    for body in halves:
        outcome = begun.get(body, COMMIT)
        assert seen[body] == (outcome == COMMIT), (
            f"{body!r} is visible {seen[body]} times: {outcome}, {ended.get(body)}"
        )
    assert [body for body, times in seen.items() if times > 1 and body.startswith((b"plain", b"half"))] == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_power_cut_everything_acknowledged_is_there(disk, disk_cluster, tmp_path, monkeypatch, seed):
    dice, ledger = random.Random(seed), Ledger()
    images: list[tuple[Path, int]] = []

    def cut_sometimes(number: int) -> None:
        if dice_of_cuts.random() < 0.06 and len(images) < 4:
            image = tmp_path / f"cut{number}"
            images.append((image, len(ledger.events)))
            disk.cut(image, random.Random(seed * 1_000 + number))

    dice_of_cuts = random.Random(-1 - seed)
    disk.before_sync = cut_sometimes
    load = Load(disk_cluster, disk_cluster.client(), ledger, dice)
    for _ in range(60):
        load.turn()
    disk.before_sync = lambda number: None
    last = tmp_path / "cut"
    images.append((last, len(ledger.events)))
    disk.cut(last, random.Random(seed))
    for image, acknowledged in images:
        client = start_after_the_cut(disk_cluster, image, monkeypatch)
        judge(
            disk_cluster,
            client,
            ledger.events[:acknowledged] + [e for e in ledger.events[acknowledged:] if e[0] == "ending"][:1],
        )


@pytest.mark.parametrize(("delay_level", "topic"), [(0, "%RETRY%g"), (-1, "%DLQ%g")])
def test_a_message_that_was_sent_back_is_there(disk, disk_cluster, tmp_path, monkeypatch, delay_level, topic):
    client = disk_cluster.client()
    assert client.create_topic("flights").code == 0
    assert client.send("flights", b"fails").code == 0
    client.pull("g", "flights", 0)  # makes the group
    (message,) = client.messages("flights")
    assert client.send_back(message, "g", delay_level=delay_level).code == 0
    for number in range(8):
        disk.cut(tmp_path / f"cut{number}", random.Random(number))
    for number in range(8):
        client = start_after_the_cut(disk_cluster, tmp_path / f"cut{number}", monkeypatch)
        disk_cluster.clock.advance(11_000)
        assert [message.body for message in client.messages(topic)] == [b"fails"]
