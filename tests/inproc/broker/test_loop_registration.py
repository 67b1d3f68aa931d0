# SPDX-License-Identifier: Apache-2.0
"""Registrations: a broker with many topics is known with all of them, and a large registration lets others come in between."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from inproc.broker.conftest import Fields
from interop.large_tables import compressed_registration, dumped
from sprocketmq.broker.chunked_work import CHUNK_SIZE
from sprocketmq.core.cluster.namesrv_table import NamesrvTable
from sprocketmq.wire.bodies import DataVersion, RegistrationTopics

MANY = 5_000


def registration(count: int) -> bytes:
    table = {f"t{number}": {"topicName": f"t{number}", "perm": 6} for number in range(count)}
    wrapper = {"topicConfigTable": table, "dataVersion": {"counter": 1}}
    return dumped({"topicConfigSerializeWrapper": wrapper, "filterServerList": []})


def fields(name: str = "b", **more: str) -> Fields:
    return Fields(
        brokerName=name, brokerAddr=f"127.0.0.1:{len(name)}", clusterName="c", brokerId="0", haServerAddr="", **more
    )


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """For each share of topics that a name server takes: how many, and how many turns its loop had made."""
    taken: list[tuple[int, int]] = []
    seen: dict[Any, list[int]] = {}
    take = NamesrvTable.add_topics

    def counted(self: NamesrvTable, registration: Any, topics: Any) -> bool:
        loop = asyncio.get_running_loop()
        count = seen.get(loop)
        if count is None:
            count = seen[loop] = [0]

            def turn() -> None:
                seen[loop][0] += 1
                if len(taken) < 100:
                    loop.call_soon(turn)

            loop.call_soon(turn)
        taken.append((len(topics), count[0]))
        return take(self, registration, topics)

    monkeypatch.setattr(NamesrvTable, "add_topics", counted)
    return taken


@pytest.mark.parametrize("compressed", [False, True])
def test_a_large_registration_is_taken_in_steps_between_which_others_are_served(cluster, turns, compressed):
    turns.clear()
    client = cluster.namesrv_client()
    if compressed:
        answer = client.ask(103, fields(compressed="true"), compressed_registration(MANY))
    else:
        answer = client.ask(103, fields(), registration(MANY))
    assert (answer.code, answer.remark) == (0, None)
    assert f"t{MANY - 1}" in cluster.on_loop(cluster.namesrv.table.topics)
    sizes, at = zip(*turns, strict=True)
    assert max(sizes) <= CHUNK_SIZE
    assert sum(sizes) == MANY
    assert len(set(at)) == len(at), "two steps in one turn of the loop"


def test_a_registration_that_is_interrupted_is_brought_by_the_next_one(cluster):
    """The connection breaks while topics are taken; the broker comes back with the same data version."""
    client = cluster.namesrv_client()
    table = cluster.namesrv.table
    take, seen = table.add_topics, []

    class Broken(NamesrvTable):
        __slots__ = ()

        def add_topics(self, registration, topics):
            seen.append(len(topics))
            if len(seen) == 2:
                list(self.connection_closed(registration.live.owner, 0))
            return super().add_topics(registration, topics)

    cluster.on_loop(lambda: setattr(table, "__class__", Broken))
    client.ask(103, fields(), registration(MANY))
    assert "t0" not in table.topics()
    cluster.on_loop(lambda: setattr(table, "__class__", NamesrvTable))
    assert take is not None
    assert client.ask(103, fields(), registration(MANY)).code == 0
    assert f"t{MANY - 1}" in table.topics()
    cluster.on_loop(table.check_invariants)


def test_a_registration_that_is_too_large_is_refused_in_one_sentence(cluster):
    server = cluster.new_name_server(max_registration_bytes=100_000)
    client = cluster.client(server.address)
    for header, body in (
        (fields(), registration(MANY)),
        (fields(compressed="true"), compressed_registration(MANY)),
    ):
        answer = client.ask(103, header, body)
        assert answer.code == 1
        assert "100000" in answer.remark
    assert server.table.topics() == []


@pytest.mark.parametrize("cluster", [{"split_registration_size": 5}], indirect=True)
def test_parts_do_not_make_a_name_server_drop_the_topics_of_the_other_parts(cluster):
    cluster.on_loop(lambda: setattr(cluster.namesrv.table, "delete_missing_topics", True))
    client = cluster.client()
    for number in range(20):
        client.send(f"t{number}")
    cluster.eventually(lambda: {f"t{number}" for number in range(20)} <= set(cluster.namesrv.table.topics()))


def test_a_registration_that_is_refused_leaves_its_text_at_once():
    """A thousand refused ones of a megabyte each would otherwise wait for the next full collection."""
    gc.disable()
    try:
        read = RegistrationTopics.of_request(compressed_registration(MANY), 1 << 20, compressed=True)
        kept = weakref.ref(read)
        del read
        assert kept() is None
    finally:
        gc.enable()


def test_the_brokers_of_a_connection_that_closes_go_one_in_a_turn_of_the_loop(cluster):
    """A flood registers ten with 20,000 topics each over one connection; one of them has come back by another one meanwhile."""
    server, table = cluster.namesrv, cluster.namesrv.table
    owner, other = object(), object()
    left: list[int] = []

    def register(number: int, by: object) -> None:
        address = f"127.0.0.1:{number + 1}"
        table.begin_registration(
            "c", f"flood-{number}", 0, address, 2, DataVersion(), cluster.clock.steady_ms(), owner=by
        )

    def flood() -> list[str]:
        return [live.broker_name for live in table._live.values() if live.broker_name.startswith("flood-")]

    async def close() -> None:
        for number in range(5):
            register(number, owner)
        server._connection_closed(owner)
        for turn in range(5):
            left.append(len(flood()))
            if turn == 1:
                register(4, other)
            await asyncio.sleep(0)

    cluster.engine.run(close())
    assert left == [4, 3, 2, 1, 1]
    assert flood() == ["flood-4"]
