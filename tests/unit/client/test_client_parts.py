# SPDX-License-Identifier: Apache-2.0
"""Small parts without a broker: offset files, retry copies, ids, name server choice."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sprocketmq as rmq
from refused_threads import refused_threads
from sprocketmq.client.consume.offset_store import LocalFileOffsetStore
from sprocketmq.client.consume.pull_loop import PullLoop, decode_pull
from sprocketmq.client.consume.send_back import SendBack, retry_copy
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.client.remoting.outages import Outages
from sprocketmq.client.remoting.pulls import pull_result
from sprocketmq.client.remoting.send import Send
from sprocketmq.client.remoting.unique_keys import UniqueKeys
from sprocketmq.client.results import PullResult, SendStatus
from sprocketmq.client.settings.namesrv_addr import is_address_server, parse_addresses
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.core.consume.consume_progress import OFFSET_NOT_FOUND
from sprocketmq.core.consume.flow_control import FlowLimits
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import PullCursor, PullDue, PullLater, PullStatus
from sprocketmq.core.group.subscription import parse_tag_expression
from sprocketmq.errors import ConnectFailed, RemoteError
from sprocketmq.wire.bodies import OffsetSerializeWrapper
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command, request, response
from sprocketmq.wire.records.properties import encode_properties
from sprocketmq.wire.records.record import encode_record

QUEUE = rmq.MessageQueue("flights", "broker-a", 1)


def _store(path: Path, offsets: dict[rmq.MessageQueue, int] | None = None) -> LocalFileOffsetStore:
    store = LocalFileOffsetStore(path, "10.0.0.1@DEFAULT", "delays")
    asyncio.run(store.load())
    for queue, offset in (offsets or {}).items():
        store.progress.update(queue, offset)
        asyncio.run(store.persist(queue))
    return store


def test_the_offset_file_is_javas_and_is_found_again(tmp_path):
    store = _store(tmp_path, {QUEUE: 5})
    assert store.path == tmp_path / "10.0.0.1@DEFAULT" / "delays" / "offsets.json"
    assert b'{{"brokerName":"broker-a","queueId":1,"topic":"flights"}:5}' in store.path.read_bytes().replace(b" ", b"")
    assert asyncio.run(_store(tmp_path).read(QUEUE)) == 5
    assert asyncio.run(_store(tmp_path).read(rmq.MessageQueue("flights", "broker-a", 0))) == OFFSET_NOT_FOUND


def test_an_offset_file_without_a_readable_copy_is_an_error_not_a_fresh_start(tmp_path):
    store = _store(tmp_path, {QUEUE: 5})
    store.path.write_bytes(b"garbage")
    with pytest.raises(rmq.ConfigurationError, match="repair it, or remove it"):
        _store(tmp_path)


def test_an_offset_file_that_was_written_without_a_thread_is_not_written_again_with_older_offsets(tmp_path):
    store = LocalFileOffsetStore(tmp_path, "10.0.0.1@DEFAULT", "delays")
    written: list[int] = []
    write = store._write

    def noted(offsets: dict[rmq.MessageQueue, int]) -> bool:
        written.append(offsets[QUEUE])
        return write(offsets)

    async def main() -> None:
        store._write = noted  # type: ignore[method-assign]
        for offset in (5, 6):
            store.progress.update(QUEUE, offset)
            if offset == 5:
                with refused_threads("asyncio_") as refused:
                    await store.persist(QUEUE)
                    assert refused
            else:
                await store.persist(QUEUE)

    asyncio.run(main())
    assert written == [5, 6]
    assert asyncio.run(_store(tmp_path).read(QUEUE)) == 6


def test_giving_up_many_queues_at_once_writes_the_offset_file_twice_at_most(tmp_path, monkeypatch):
    store = _store(tmp_path)
    queues = [rmq.MessageQueue("flights", "broker-a", number) for number in range(100)]
    for number, queue in enumerate(queues):
        store.progress.update(queue, number)
    written: list[int] = []
    write = store._write
    monkeypatch.setattr(store, "_write", lambda offsets: written.append(len(offsets)) or write(offsets))

    async def give_up() -> None:
        await asyncio.gather(*map(store.persist, queues))

    asyncio.run(give_up())
    assert written[-1] == 100
    assert len(written) <= 2
    again = _store(tmp_path)
    assert [asyncio.run(again.read(queue)) for queue in queues] == list(range(100))


def test_an_offset_file_that_cannot_be_written_is_tried_again_and_not_forgotten(tmp_path):
    store = _store(tmp_path)
    blocked = tmp_path / "10.0.0.1@DEFAULT"
    blocked.write_text("in the way of the folder")
    store.progress.update(QUEUE, 5)
    asyncio.run(store.persist(QUEUE))
    assert asyncio.run(store.read(QUEUE)) == 5  # a queue that comes back goes on there all the same
    blocked.unlink()
    asyncio.run(store.persist_all([QUEUE]))
    assert asyncio.run(_store(tmp_path).read(QUEUE)) == 5


def test_processes_that_share_an_offset_file_never_write_into_one(tmp_path, monkeypatch):
    """Another process writes its file while this one is between writing and replacing: here by a store that comes in at each sync."""
    store, other = _store(tmp_path, {QUEUE: 1}), _store(tmp_path)
    sync, entered = os.fsync, []

    def come_in_between(number: int) -> None:
        sync(number)
        if not entered:
            entered.append(number)
            other.progress.update(QUEUE, 1_000_000_000_007)  # longer: a rest of it would be seen
            asyncio.run(other.persist(QUEUE))

    monkeypatch.setattr("sprocketmq.store.config_files.os.fsync", come_in_between)
    store.progress.update(QUEUE, 2)
    asyncio.run(store.persist(QUEUE))
    assert entered
    assert asyncio.run(_store(tmp_path).read(QUEUE)) == 2
    backup = OffsetSerializeWrapper.decode(store.path.with_name("offsets.json.bak").read_bytes())
    assert backup.offset_table == {QUEUE: 1_000_000_000_007}
    assert sorted(file.name for file in store.path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]


def test_a_broken_offset_file_is_kept_aside_and_never_takes_the_backups_place(tmp_path, caplog):
    store = _store(tmp_path, {QUEUE: 5})
    store.progress.update(QUEUE, 6)
    asyncio.run(store.persist(QUEUE))
    store.path.write_bytes(b'{"offsetTable":{{"brok')
    again = _store(tmp_path)
    assert asyncio.run(again.read(QUEUE)) == 5
    assert "offsets.json.broken" in caplog.text
    again.progress.update(QUEUE, 7)
    asyncio.run(again.persist(QUEUE))
    assert store.path.with_name("offsets.json.broken").read_bytes() == b'{"offsetTable":{{"brok'
    assert asyncio.run(_store(tmp_path).read(QUEUE)) == 7
    store.path.unlink()
    assert asyncio.run(_store(tmp_path).read(QUEUE)) == 5


def _send_back(ask: Any, send: Any) -> SendBack:
    """One whose requests and copies go to these two."""
    routes = SimpleNamespace(table=SimpleNamespace(master_address=lambda name: "127.0.0.1:1"))
    instance = SimpleNamespace(
        cluster=SimpleNamespace(ask=ask, outages=Outages(), routes=routes),
        inner_sender=SimpleNamespace(send=send),
    )
    settings = PushSettings(group="delays", follow_group_retry_policy=False)
    consumer: Any = SimpleNamespace(
        name="delays", settings=settings, max_reconsume_times=16, tape=None, instance=instance
    )
    return SendBack(consumer)


@pytest.mark.parametrize("status", list(SendStatus))
def test_a_copy_that_is_not_on_the_disk_yet_is_made_by_the_broker_or_named(status, caplog):
    refused: list[str] = []

    async def ask(asked: object, header: object, *, at: str, timeout_ms: int) -> None:
        refused.append(at)
        raise RemoteError(1, status.value)  # as brokers answer a send-back then

    async def send(send: Send) -> Any:
        return SimpleNamespace(status=status)

    send_back = _send_back(ask, send)
    message = rmq.MessageExt("flights", b"body", broker_name="broker-a")
    message.properties["UNIQ_KEY"] = "id-1"
    is_ok = status is SendStatus.SEND_OK
    assert asyncio.run(send_back.send(message, -1, "no such airport"))
    assert refused == ([] if is_ok else ["127.0.0.1:1"])
    assert asyncio.run(send_back.dead_letter_orderly(message))
    named = [line for line in caplog.messages if f"id-1 is stored with {status}" in line]
    assert len(named) == (0 if is_ok else 1)  # in this minute


@pytest.mark.parametrize("status", [one for one in SendStatus if one is not SendStatus.SEND_OK])
def test_a_message_does_not_double_with_each_try_while_a_slave_is_away(status):
    copies: list[rmq.Message] = []

    async def ask(*args: object, **how: object) -> None:
        raise RemoteError(1, status.value)  # as brokers answer that have stored the copy

    async def send(send: Send) -> Any:
        copies.append(send.message)
        return SimpleNamespace(status=status)

    send_back = _send_back(ask, send)
    message = rmq.MessageExt("flights", b"body", broker_name="broker-a")
    message.properties["UNIQ_KEY"] = "id-1"
    assert asyncio.run(send_back.send(message, 0))
    assert copies == []
    message.reconsume_times = 16
    assert asyncio.run(send_back.send(message, 0))
    assert len(copies) == 1, "a dead letter does not come again"


def test_a_retry_copy_keeps_the_id_and_the_users_properties_and_counts_up():
    message = rmq.MessageExt(
        "flights", b"x", tags="UA", keys="k", properties={"year": "2013"}, reconsume_times=2, commit_log_offset=77
    )
    message.properties.update({"UNIQ_KEY": "AB" * 16, "DELAY": "3", "REAL_TOPIC": "%RETRY%delays", "REAL_QID": "0"})
    copy = retry_copy(message, "delays", 16, 5)
    assert (copy.topic, copy.tags, copy.keys) == ("%RETRY%delays", "UA", ["k"])
    expected = {
        "year": "2013",
        "UNIQ_KEY": "AB" * 16,
        "RETRY_TOPIC": "flights",
        "ORIGIN_MESSAGE_ID": message.offset_message_id,
        "RECONSUME_TIME": "3",
        "MAX_RECONSUME_TIMES": "16",
        "DELAY": "5",
    }
    assert {name: copy.properties.get(name) for name in expected} == expected
    assert not {"REAL_TOPIC", "REAL_QID"} & copy.properties.keys()
    assert "DELAY" not in retry_copy(message, "delays", 16, 0).properties


def test_unique_keys_differ_and_carry_the_time():
    keys = UniqueKeys("10.0.0.1")
    made = [keys.next(1_700_000_000_000 + n) for n in range(1000)]
    blocks = [list(keys.block(1_700_000_000_500)) for _ in range(300)]  # more than the counter's 16 bits
    assert [len(block) for block in blocks[1:]] == [256] * 299
    assert all(len(set(block)) == len(block) for block in blocks)
    assert len({key for block in blocks[1:256] for key in block}) == 255 * 256
    made += [keys.next(1_700_000_000_500), *keys.block(1_700_000_000_500), keys.next(1_700_000_000_500)]
    assert len(set(made)) == 1000 + 1 + 255 + 1
    assert len({key[:28] for key in made[1000:]}) == 1, "keys of a block carry its time"
    assert {len(key) for key in made} == {32}
    assert all(key.startswith("0A000001") for key in made)
    assert keys.next(1_700_000_000_000 + 40 * 86_400_000)[20:28] < "9A7EC800"  # a new month began meanwhile


def test_a_forked_child_makes_other_unique_keys():
    keys = UniqueKeys("10.0.0.1")
    before = keys.next(1_700_000_000_000)
    keys.after_fork_in_child()
    after = keys.next(1_700_000_000_000)
    assert (before[:8], before[:20] == after[:20]) == (after[:8], False), (
        "the machine's address stays, the rest changes"
    )


def _record(properties: dict[str, str], body: bytes = b"x", topic: bytes = b"flights", offset: int = 0) -> bytes:
    return encode_record(
        topic,
        body,
        encode_properties(properties),
        queue_id=1,
        queue_offset=offset,
        physical_offset=0,
        born_timestamp_ms=0,
        born_host=(b"\x7f\0\0\1", 1),
        store_timestamp_ms=0,
        store_host=(b"\x7f\0\0\1", 2),
    )


def test_a_pull_is_decoded_with_the_exact_tag_the_limits_and_the_original_topic():
    body = _record({"TAGS": "Aa"}) + _record({"TAGS": "BB"}, offset=1) + _record({}, offset=2)
    result = PullResult(PullStatus.FOUND, 3, 0, 9, body=body)
    (message,) = decode_pull(result, QUEUE, parse_tag_expression("flights", "Aa", 1), "delays")
    assert (message.tags, message.broker_name) == ("Aa", "broker-a")
    assert (message.properties["MIN_OFFSET"], message.properties["MAX_OFFSET"]) == ("0", "9")

    retry = rmq.MessageQueue("%RETRY%delays", "broker-a", 0)
    body = _record({"RETRY_TOPIC": "flights"}, topic=b"%RETRY%delays") + _record({}, topic=b"%RETRY%delays", offset=1)
    body += _record({"RETRY_TOPIC": "weather"}, topic=b"%RETRY%delays", offset=2)
    result = PullResult(PullStatus.FOUND, 3, 0, 3, body=body)
    messages = decode_pull(result, retry, parse_tag_expression(retry.topic, "*", 1), "delays")
    assert [message.topic for message in messages] == ["flights", "%RETRY%delays", "weather"]
    assert "MAX_OFFSET" in messages[1].properties

    dead = rmq.MessageQueue("%DLQ%delays", "broker-a", 0)
    result = PullResult(PullStatus.FOUND, 1, 0, 1, body=_record({"RETRY_TOPIC": "flights"}, topic=b"%DLQ%delays"))
    (message,) = decode_pull(result, dead, parse_tag_expression(dead.topic, "*", 1), "readers")
    assert message.topic == "%DLQ%delays"  # only a retry of this group has another topic


def test_an_answer_with_another_code_is_an_error_and_not_an_empty_pull():
    answer = response(request(RequestCode.PULL_MESSAGE), ResponseCode.SYSTEM_ERROR, "the disk is gone")
    with pytest.raises(rmq.RemoteError, match="the disk is gone"):
        pull_result(answer, "a:1")


class _Pool:
    """Stands in for the ConnectionPool: some addresses are down."""

    addresses = ()

    def __init__(self, down: set[str]) -> None:
        self.down, self.asked, self.timeouts_ms = down, [], []

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        self.asked.append(address)
        self.timeouts_ms.append(timeout_ms)
        if address in self.down:
            raise ConnectFailed(f"cannot connect to {address}", address)
        return command


@pytest.mark.parametrize("start", range(3))
def test_a_name_server_is_kept_until_it_fails_then_the_next_is_tried(monkeypatch, start):
    monkeypatch.setattr("sprocketmq.client.remoting.name_servers.random.randrange", lambda count: start)
    pool, given = _Pool(set()), ["a:1", "b:2", "c:3"]
    servers = NameServers(pool, given)  # type: ignore[arg-type]
    first, second, third = given[start:] + given[:start]
    command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
    for _ in range(3):
        asyncio.run(servers.invoke(command, 100))
    assert pool.asked == [first] * 3
    pool.down = {first}
    for _ in range(2):
        asyncio.run(servers.invoke(command, 100))
    assert pool.asked[3:] == [first, second, second]
    assert servers.chosen == second
    pool.down = set(given)
    pool.asked.clear()
    with pytest.raises(ConnectFailed):
        asyncio.run(servers.invoke(command, 100))
    assert pool.asked == [second, third, first]


def test_a_name_server_that_does_not_answer_leaves_time_for_the_others():
    pool = _Pool({"a:1", "b:2", "c:3"})
    servers = NameServers(pool, ["a:1", "b:2", "c:3"])  # type: ignore[arg-type]
    with pytest.raises(ConnectFailed):
        asyncio.run(servers.invoke(request(RequestCode.GET_BROKER_CLUSTER_INFO), 3_000))
    first_ms, second_ms, third_ms = pool.timeouts_ms
    assert 0 < first_ms <= 1_000
    assert 0 < second_ms <= 1_500
    assert 0 < third_ms <= 3_000


def test_a_url_with_a_path_is_an_address_server_and_one_without_is_an_endpoint():
    assert is_address_server("http://config:8080/rocketmq/nsaddr")
    assert is_address_server("https://config/nsaddr-unit?nofix=1")
    for endpoint in ("http://endpoint:8080", "http://endpoint:8080/", "a:1;b:2", "http://a:1;http://b:2/"):
        assert not is_address_server(endpoint)
    assert parse_addresses(" http://config:8080/rocketmq/nsaddr") == ["http://config:8080/rocketmq/nsaddr"]
    assert parse_addresses("http://endpoint:8080/") == ["endpoint:8080"]


def test_the_environment_is_read_again_when_the_list_came_from_it(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "a:1")
    options = ClientOptions()
    given = ClientOptions(namesrv_addr="a:1")
    assert (options.from_environment, given.from_environment) == (True, False)
    servers = NameServers(_Pool(set()), ["a:1"], from_environment=True)  # type: ignore[arg-type]
    fixed = NameServers(_Pool(set()), ["a:1"])  # type: ignore[arg-type]
    assert (servers.is_fixed, fixed.is_fixed) == (False, True)
    for text, expected in (("nonsense", ["a:1"]), ("b:2;c:3", ["b:2", "c:3"]), ("", ["b:2", "c:3"])):
        monkeypatch.setenv("NAMESRV_ADDR", text)
        asyncio.run(servers.reread())
        asyncio.run(fixed.reread())
        assert servers.addresses == expected
        assert servers.chosen in expected
    assert fixed.addresses == ["a:1"]


def test_requests_that_fail_together_move_to_the_next_name_server_not_past_it():
    pool = _Pool({"a:1"})
    servers = NameServers(pool, ["a:1", "b:2", "c:3"])  # type: ignore[arg-type]
    servers._chosen = 0
    waiting = asyncio.Event

    async def run() -> None:
        gate = waiting()
        invoke = pool.invoke

        async def late(address: str, command: Command, timeout_ms: int) -> Command:
            await gate.wait()
            return await invoke(address, command, timeout_ms)

        pool.invoke = late  # type: ignore[method-assign]
        asked = [
            asyncio.ensure_future(servers.invoke(request(RequestCode.GET_BROKER_CLUSTER_INFO), 100)) for _ in range(2)
        ]
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*asked)

    asyncio.run(run())
    assert servers.chosen == "b:2"


async def test_a_pull_is_asked_again_when_its_subscription_changes_and_changes_back_at_once():
    """Both changes come before the loop's next step, which finds the subscription as it was."""

    first, second = parse_tag_expression("flights", "UA", 1), parse_tag_expression("flights", "AA", 2)
    in_force, asked = [first], asyncio.Event()

    async def pull_message(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    routes = SimpleNamespace(
        table=SimpleNamespace(broker_address=lambda *_: SimpleNamespace(address="a:1", is_slave=False))
    )
    cluster = SimpleNamespace(routes=routes, behind_proxy=False, invoke=pull_message, outages=Outages())
    consumer: Any = SimpleNamespace(
        name="delays",
        settings=PushSettings(group="delays"),
        clustering=False,
        instance=SimpleNamespace(cluster=cluster),
        subscription=lambda topic: in_force[0],
        unconfirmed=(),
        suspend_ms=0,
        pull_timeout_ms=0,
    )
    loop = PullLoop(consumer, PullCursor(ProcessQueue(QUEUE), 5))
    answering = asyncio.ensure_future(loop._answer(5, first))
    loop._task = answering  # type: ignore[assignment]  # in place of that of ``start``
    await asyncio.wait_for(asked.wait(), 20)
    for now in (second, second, first):
        in_force[0] = now
        loop.subscription_announced()
    assert await answering is None
    assert answering.cancelling() == 0


@pytest.mark.parametrize(("most", "settled_until"), [(1000, 250), (10, 0)])
async def test_a_pull_loop_that_waits_for_the_count_goes_on_when_a_quarter_was_settled(most, settled_until):
    process_queue = ProcessQueue(QUEUE)
    process_queue.put([rmq.MessageExt("flights", b"x", queue_offset=offset) for offset in range(most + 1)])
    waits_ms: list[float] = []

    def call_later(delay_ms: float, wake: object) -> SimpleNamespace:
        waits_ms.append(delay_ms)
        return SimpleNamespace(cancel=lambda: None)

    cursor = PullCursor(process_queue, most + 1, limits=FlowLimits(max_count=most))
    consumer: Any = SimpleNamespace(
        name="delays",
        settings=PushSettings(group="delays"),
        clock=SimpleNamespace(call_later=call_later),
        instance=SimpleNamespace(cluster=SimpleNamespace(routes=None, outages=Outages())),
    )
    loop = PullLoop(consumer, cursor)
    (later,) = cursor.handle(PullDue(), 0)
    assert isinstance(later, PullLater)
    waiting = asyncio.ensure_future(loop._wait(later))
    await asyncio.sleep(0)
    assert waits_ms == [later.delay_ms] == [50]
    for _ in range(settled_until + 1):
        assert not waiting.done()
        process_queue.done(process_queue.take(1, 0))
        loop.messages_left()
        await asyncio.sleep(0)
    await waiting
