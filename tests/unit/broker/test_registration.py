# SPDX-License-Identifier: Apache-2.0
"""Registration: a burst of changes costs two rounds, and who waits for his change waits for no later one."""

from __future__ import annotations

import asyncio

from sprocketmq.broker import Broker, BrokerConfig
from sprocketmq.broker.replication.registration import Registration, parts_of
from sprocketmq.errors import NetworkError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.wire.bodies import DataVersion, RegisterBrokerBody, TopicConfig
from sprocketmq.wire.frames.command import Command


class NameServer:
    """Stands in for the pool: each registration is answered when the test says so."""

    addresses: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Command]] = []

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.asked.append(asyncio.get_running_loop().create_future())
        return await self.asked[-1]

    async def answer(self, number: int) -> None:
        while len(self.asked) <= number:
            await asyncio.sleep(0)
        self.asked[number].set_result(Command(0, 0, 1))


def broker_of(pool: object, *name_servers: str, clock: ManualClock | None = None, **settings: int) -> Broker:
    config = BrokerConfig(**settings)  # type: ignore[arg-type]
    broker = Broker(";".join(name_servers), broker_name="b", clock=clock or ManualClock(0), config=config)
    broker.pool = pool  # type: ignore[assignment]
    return broker


def registration(pool: NameServer, *name_servers: str, clock: ManualClock | None = None) -> Registration:
    return broker_of(pool, *name_servers, clock=clock).registration


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_hundred_changes_during_a_round_cost_one_more_and_later_ones_are_not_waited_for():
    async def play() -> None:
        pool = NameServer()
        told = registration(pool, "127.0.0.1:9876")
        told.changed()
        await turns()
        waiters = []
        for _ in range(100):
            told.changed()
            waiters.append(asyncio.ensure_future(told.finished()))
        await pool.answer(0)
        await turns()
        assert not any(waiter.done() for waiter in waiters), "the first round knew none of these changes"
        assert len(pool.asked) == 2
        told.changed()
        await pool.answer(1)
        await turns()
        assert all(waiter.done() for waiter in waiters)
        assert len(pool.asked) == 3
        await pool.answer(2)
        await turns()
        assert len(pool.asked) == 3

    asyncio.run(asyncio.wait_for(play(), 30))


def test_waiting_for_a_registration_starts_one_and_stop_wakes_all_waiters():
    async def play() -> None:
        pool = NameServer()
        told = registration(pool, "127.0.0.1:9876")
        waiter = asyncio.ensure_future(told.finished())
        await pool.answer(0)
        await waiter
        waiter = asyncio.ensure_future(told.finished())
        await asyncio.sleep(0)
        await told.stop()
        await waiter
        await registration(pool).finished()

    asyncio.run(asyncio.wait_for(play(), 30))


class LateNameServer(NameServer):
    """Cannot be reached before the fourth try."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock, self.tries_ms = clock, list[int]()

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.tries_ms.append(self._clock.now_ms())
        if len(self.tries_ms) < 4:
            raise NetworkError(f"nobody listens at {address}")
        return Command(0, 0, 1)


def test_a_broker_that_no_name_server_knows_tries_soon_again_and_then_once_in_its_period():
    async def play() -> None:
        clock, known_ms = ManualClock(0), list[int]()
        pool = LateNameServer(clock)
        broker = broker_of(pool, "127.0.0.1:1", clock=clock)
        broker.ready.set = lambda: known_ms.append(clock.now_ms())  # type: ignore[method-assign]
        told = broker.registration
        await told.start()
        for _ in range(60):
            await turns()  # the next try is set when the one before has ended
            await asyncio.to_thread(clock.advance, 1_000)
        await turns()
        assert pool.tries_ms == [0, 1_000, 3_000, 7_000, 30_000, 60_000]
        assert known_ms == [7_000, 30_000, 60_000]
        await told.stop()

    asyncio.run(asyncio.wait_for(play(), 30))


class LostNameServer(NameServer):
    """Cannot be reached in the first 100 s, answers for 20 s, then refuses."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock, self.tries_ms = clock, list[int]()

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.tries_ms.append(self._clock.now_ms())
        if self.tries_ms[-1] < 100_000:
            raise NetworkError(f"nobody listens at {address}")
        return Command(0 if self.tries_ms[-1] < 130_000 else 16, 0, 1, remark="no")


def test_a_lost_name_server_is_one_line_a_minute_for_each_cause(caplog):
    async def play() -> None:
        clock = ManualClock(0)
        pool = LostNameServer(clock)
        told = registration(pool, "127.0.0.1:1", clock=clock)
        await told.start()
        for _ in range(180):
            await turns()
            await asyncio.to_thread(clock.advance, 1_000)
        await turns()
        await told.stop()
        assert [at_ms for at_ms in pool.tries_ms if at_ms < 150_000] == [
            *(0, 1_000, 3_000, 7_000, 15_000, 30_000, 60_000, 90_000, 120_000)
        ]

    asyncio.run(asyncio.wait_for(play(), 30))
    gone = "name server 127.0.0.1:1 does not know broker b now, clients that know it go on: "
    assert [record.getMessage() for record in caplog.records] == [
        gone + "nobody listens at 127.0.0.1:1",
        gone + "nobody listens at 127.0.0.1:1 (for 60 s, 5 more since the last line)",
        "name server 127.0.0.1:1 knows broker b now after 120 s (8 times)",
        gone + "code 16 from 127.0.0.1:1: no",
    ]


# -- parts -------------------------------------------------------------------------------------------------------------------------


class OldNameServer:
    """What a name server of 4.9 does with a registration: nothing when its data version is that of the one before (RouteInfoManager)."""

    addresses: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.topics: dict[str, TopicConfig] = {}
        self.sizes: list[int] = []
        self.are_parts: list[str | None] = []
        self._version: DataVersion | None = None

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        wrapper = RegisterBrokerBody.decode(command.body).topic_config_serialize_wrapper
        self.sizes.append(len(command.body))
        self.are_parts.append(command.ext_fields.get("isPart"))
        assert wrapper.data_version.counter < 1 << 31  # what name servers of 5.x can read
        if self._version != wrapper.data_version:
            self.topics.update(wrapper.topic_config_table)
        self._version = wrapper.data_version
        await asyncio.sleep(0)
        return Command(0, 0, 1)

    def restart(self) -> None:
        self.topics.clear()
        self._version = None


def in_parts(pool: OldNameServer, table: dict[str, TopicConfig], version: DataVersion, size: int) -> Registration:
    broker = broker_of(pool, "127.0.0.1:9876", split_registration_size=size)
    broker.topics.table, broker.topics.data_version = table, version
    return broker.registration


def topics_named(*names: str, perm: int = 6) -> dict[str, TopicConfig]:
    return {name: TopicConfig(topic_name=name, perm=perm) for name in names}


def test_a_large_table_goes_in_parts_and_a_name_server_of_4_9_has_all_of_it_after_each_round():
    async def play() -> None:
        pool, table, version = (
            OldNameServer(),
            topics_named(*(f"t{number}" for number in range(95))),
            DataVersion(1, 0, 5),
        )
        told = in_parts(pool, table, version, 10)
        await told.finished()
        assert pool.topics == table
        assert len(pool.sizes) == 10
        assert set(pool.are_parts) == {"true"}
        pool.restart()
        await told.finished()  # nothing has changed here
        assert pool.topics == table
        table.update(topics_named("t50", perm=4))
        version.next_version(5)
        await told.finished()
        assert pool.topics == table

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_small_table_goes_whole_under_its_own_version():
    async def play() -> None:
        pool, table = OldNameServer(), topics_named("a", "b")
        await in_parts(pool, table, DataVersion(1, 0, 5), 10).finished()
        assert pool.topics == table
        assert (pool.are_parts, pool._version) == ([None], DataVersion(1, 0, 5))

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_table_of_a_hundred_thousand_topics_never_makes_a_frame_of_a_megabyte():
    table = topics_named(*(f"%RETRY%a-rather-long-name-of-a-group-{number:06}" for number in range(100_000)))
    sizes = [
        len(RegisterBrokerBody(topic_config_serialize_wrapper=part).encode())
        for part in parts_of(table, DataVersion(), 800)
    ]
    assert len(sizes) == 125
    assert sum(sizes) > 16 << 20
    assert max(sizes) < 1 << 20


def test_topics_that_come_and_go_during_a_round_are_told_as_they_are_or_not_at_all():
    table = topics_named("a", "b", "c", "d")
    parts = parts_of(table, DataVersion(), 2)
    assert list(next(parts).topic_config_table) == ["a", "b"]
    del table["c"]
    table.update(topics_named("d", perm=2))
    table.update(topics_named("e"))
    (last,) = parts
    assert {name: topic.perm for name, topic in last.topic_config_table.items()} == {"d": 2}
