# SPDX-License-Identifier: Apache-2.0
"""The ordinary send waits once; whatever else happens to its first try, the rules of failing take it up where it stands."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from short_tries import only_this_try

import sprocketmq as rmq
from secured_broker import Secured, secured_broker
from sprocketmq.client.remoting.message_writer import MessageWriter
from sprocketmq.client.remoting.send import Send
from sprocketmq.client.remoting.sender import Sender
from sprocketmq.errors import SignatureRefused
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.testing import SENDS, EmbeddedRocketMQ
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command, decode_command, encode_command


def with_a_producer(
    rocketmq: EmbeddedRocketMQ, scenario: Callable[[rmq.AsyncProducer], Coroutine[Any, Any, None]], **options: Any
) -> None:
    """Run it on a loop of its own, behind a first send, after which route and connection are there."""
    rocketmq.create_topic("flights", queues=4)

    async def run() -> None:
        async with rmq.AsyncProducer("ops", namesrv_addr=rocketmq.namesrv_addr, **options) as producer:
            await producer.send(rmq.Message("flights", b"first"))
            await scenario(producer)

    asyncio.run(run())


def bodies(rocketmq: EmbeddedRocketMQ) -> list[bytes]:
    return sorted(bytes(message.body) for message in rocketmq.messages("flights"))


async def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0)


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of ``Sender._deliver``: "taken up" if it got a try that had begun, otherwise "from the start"."""
    seen: list[str] = []
    deliver = Sender._deliver

    async def watched(self: Sender, send: Send) -> rmq.SendResult:
        seen.append("from the start" if send.trying is None else "taken up")
        return await deliver(self, send)

    monkeypatch.setattr(Sender, "_deliver", watched)
    return seen


def test_an_ordinary_send_has_one_await_in_all_its_forms(rocketmq, tries):
    async def scenario(producer: rmq.AsyncProducer) -> None:
        tries.clear()
        queue = rmq.MessageQueue("flights", "broker-a", 2)
        results = [
            await producer.send(rmq.Message("flights", b"plain", tags="UA", keys="k", flag=3)),
            await producer.send(rmq.Message("flights", b"given"), queue=queue),
            await producer.send(rmq.Message("flights", b"chosen"), selector=lambda queues, message: queues[1]),
            await producer.send(rmq.Message("flights", b"by key"), sharding_key="N1", timeout_ms=20_000),
            await producer.send(rmq.Message("flights", b"long " * 2_000)),
            await producer.send(rmq.Message("flights", b"later"), delay_level=2),
        ]
        assert tries == []
        assert [result.status for result in results] == [rmq.SendStatus.SEND_OK] * 6
        assert [results[1].message_queue, results[2].message_queue.queue_id] == [queue, 1]

    with_a_producer(rocketmq, scenario)
    stored = {message.message_id: message for message in rocketmq.messages("flights")}
    plain = next(message for message in stored.values() if message.body == b"plain")
    assert (plain.tags, plain.keys, plain.flag) == ("UA", ["k"], 3)
    assert bodies(rocketmq) == [b"by key", b"chosen", b"first", b"given", b"long " * 2_000, b"plain"]


def test_a_turn_that_was_taken_is_used_when_the_frame_cannot_be_written_at_once(rocketmq, monkeypatch):
    async def scenario(producer: rmq.AsyncProducer) -> None:
        ids = [(await producer.send(rmq.Message("flights", b"x"))).message_queue.queue_id for _ in range(3)]
        assert len(set(ids)) == 3
        monkeypatch.setattr(ConnectionPool, "open_connection", lambda self, address: None)
        ids += [(await producer.send(rmq.Message("flights", b"x"))).message_queue.queue_id for _ in range(5)]
        assert sorted(ids) == [0, 0, 1, 1, 2, 2, 3, 3]

    with_a_producer(rocketmq, scenario)


def signed_sends(keys: dict[str, Any], secured: Secured, renew: Callable[[], None], count: int) -> list[Any]:
    """One send, ``renew``, then ``count`` sends at once; what became of them."""

    async def run() -> list[Any]:
        async with rmq.AsyncProducer("ops", namesrv_addr=secured.namesrv_addr, **keys) as producer:
            await producer.send(rmq.Message("flights", b"first"))
            await asyncio.to_thread(renew)
            sends = [producer.send(rmq.Message("flights", b"%d" % number, tags="ü")) for number in range(count)]
            return await asyncio.gather(*sends, return_exceptions=True)

    return asyncio.run(run())


def test_a_signed_send_has_one_await_and_is_written_from_a_template(tmp_path, tries, monkeypatch):
    with secured_broker(tmp_path) as secured:

        def from_here_on() -> None:
            tries.clear()
            monkeypatch.setattr(Sender, "_deliver", None)
            monkeypatch.setattr(MessageWriter, "command", None)

        ends = signed_sends({"access_key": "Spark777", "secret_key": "secret-0"}, secured, from_here_on, 3)
        assert [end.status for end in ends] == [rmq.SendStatus.SEND_OK] * 3


@pytest.mark.parametrize("first", ["the file", "the broker"])
def test_signed_sends_go_on_when_the_keys_are_renewed(tmp_path, tries, first):
    """Whichever has the new secret first. A refused send is one try, whose time goes on."""
    with secured_broker(tmp_path) as secured:

        def renew() -> None:
            tries.clear()
            if first == "the file":
                secured.renew_file("secret-1")
                secured.renew_account("secret-1")
            else:
                secured.renew_account("secret-1")
                old_look = os.stat(secured.file)
                secured.file.write_text("accessKey: Spark777\nsecretKey: secret-1\n")  # the same size ...
                os.utime(
                    secured.file, ns=(old_look.st_atime_ns, old_look.st_mtime_ns)
                )  # ... and time: ``stat`` shows no change

        how = {"secret_key_file": str(secured.file), "retry_times_when_send_failed": 0}
        ends = signed_sends(how, secured, renew, 4)
        assert [getattr(end, "status", end) for end in ends] == [rmq.SendStatus.SEND_OK] * 4
        assert tries == ([] if first == "the file" else ["taken up"] * 4)


def test_signed_sends_whose_newest_keys_are_refused_fail_with_that_reason(tmp_path):
    with secured_broker(tmp_path) as secured:
        how = {"secret_key_file": str(secured.file)}
        ends = signed_sends(how, secured, lambda: secured.renew_account("of somebody else"), 2)
        assert [type(end) for end in ends] == [SignatureRefused] * 2


def test_a_refused_first_try_is_taken_up_and_counts_as_a_try(rocketmq, tries):
    async def scenario(producer: rmq.AsyncProducer) -> None:
        tries.clear()
        fault = rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, "busy", times=None)
        with fault, pytest.raises(rmq.RemoteError):
            await producer.send(rmq.Message("flights", b"x"))
        assert fault.hits == 3, "the first try and two more"
        fault = rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, "busy", times=1)
        result = await producer.send(rmq.Message("flights", b"second try"))
        assert (result.status, fault.hits) == (rmq.SendStatus.SEND_OK, 1)
        assert tries == ["taken up", "taken up"]

    with_a_producer(rocketmq, scenario)
    assert bodies(rocketmq) == [b"first", b"second try"]


@pytest.mark.parametrize("again", [False, True])
def test_a_message_that_was_stored_but_not_flushed_is_sent_again_only_with_the_option(rocketmq, again):
    async def scenario(producer: rmq.AsyncProducer) -> None:
        left = [1]

        def but(command: Command) -> bool:
            return command.ext_fields["b"] == "flights"

        with answered_with(rocketmq, ResponseCode.FLUSH_DISK_TIMEOUT, left, but):
            result = await producer.send(rmq.Message("flights", b"x"))
        expected = rmq.SendStatus.SEND_OK if again else rmq.SendStatus.FLUSH_DISK_TIMEOUT
        assert (result.status, left) == (expected, [0])

    with_a_producer(rocketmq, scenario, retry_another_broker_when_not_store_ok=again)
    assert bodies(rocketmq) == [b"first"] + [b"x"] * (2 if again else 1)


class answered_with:  # noqa: N801 - reads as a verb
    """The first answers of sends get another code."""

    def __init__(self, rocketmq: EmbeddedRocketMQ, code: int, left: list[int], when: Callable[[Command], bool]) -> None:
        def change(connection: Any, frame: bytes) -> None:
            answer = decode_command(memoryview(frame)[4:])
            left[0] -= 1
            answer.code = int(code)
            connection.send_raw([encode_command(answer)])

        self._fault = rocketmq.faults._add_on_answer("another code", SENDS, change, 1, when)

    def __enter__(self) -> None:
        self._fault.__enter__()

    def __exit__(self, *args: Any) -> None:
        self._fault.__exit__(*args)


def test_a_try_without_an_answer_ends_with_its_own_limit_and_the_next_one_stores(rocketmq, tries):
    async def scenario(producer: rmq.AsyncProducer) -> None:
        tries.clear()
        lost = rocketmq.faults.drop(SENDS, times=1, when=only_this_try(producer, 50))
        result = await producer.send(rmq.Message("flights", b"x"), timeout_ms=30_000)
        assert (result.status, lost.hits, tries) == (rmq.SendStatus.SEND_OK, 1, ["taken up"])
        lost = rocketmq.faults.drop(SENDS, times=None)
        with lost, pytest.raises(rmq.RequestTimeout):
            await producer.send(rmq.Message("flights", b"y"), timeout_ms=60)
        with pytest.raises(rmq.ConfigurationError):
            await producer.send(rmq.Message("flights", b"z"), timeout_ms=0)

    with_a_producer(rocketmq, scenario)
    assert bodies(rocketmq) == [b"first", b"x"]


@pytest.mark.parametrize(("limit_ms", "is_given_up"), [(150, True), (30, False)])
def test_a_host_that_is_silent_for_a_whole_send_gets_a_new_connection_if_it_had_time_to_answer(
    rocketmq, limit_ms, is_given_up
):
    async def scenario(producer: rmq.AsyncProducer) -> None:
        pool = producer._instance.cluster.pool  # type: ignore[union-attr]
        (address,) = (name for name in pool.addresses if name != rocketmq.namesrv_addr)
        silent = pool._open[address]
        silent.last_read_s -= 1
        with rocketmq.faults.drop(SENDS, times=1), pytest.raises(rmq.RequestTimeout):
            await producer.send(rmq.Message("flights", b"x"), timeout_ms=limit_ms)
        assert silent.is_closed == is_given_up
        await producer.send(rmq.Message("flights", b"y"))
        assert (pool._open[address] is silent) != is_given_up

    with_a_producer(rocketmq, scenario, retry_times_when_send_failed=0)


def test_a_connection_that_breaks_under_a_send_costs_a_try(rocketmq, tries):
    async def scenario(producer: rmq.AsyncProducer) -> None:
        tries.clear()
        cut = rocketmq.faults.close_connection(SENDS, times=1)
        result = await producer.send(rmq.Message("flights", b"x"))
        assert (result.status, cut.hits, tries) == (rmq.SendStatus.SEND_OK, 1, ["taken up"])

    with_a_producer(rocketmq, scenario)
    assert bodies(rocketmq) == [b"first", b"x"]


def test_a_send_that_is_cancelled_is_forgotten(rocketmq):
    async def scenario(producer: rmq.AsyncProducer) -> None:
        pool = producer._instance.cluster.pool  # type: ignore[union-attr]
        with rocketmq.faults.drop(SENDS, times=1) as lost:
            sending = asyncio.ensure_future(producer.send(rmq.Message("flights", b"x"), timeout_ms=600_000))
            await until(lambda: bool(lost.hits))
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        # Heartbeats and routes may be under way; they end, and only the send would wait for ten minutes.
        await until(lambda: not any(connection.in_flight for connection in pool._open.values()))

    with_a_producer(rocketmq, scenario)


def test_a_retry_sends_the_same_content_as_the_first_try(rocketmq):
    async def scenario(producer: rmq.AsyncProducer) -> None:
        with rocketmq.faults.drop(SENDS, times=1, when=only_this_try(producer, 50)) as lost:
            message = rmq.Message("flights", b"x", tags="before")
            sending = asyncio.ensure_future(producer.send(message, timeout_ms=30_000))
            await until(lambda: bool(lost.hits))
            message.body, message.tags = b"changed meanwhile", "after"
            await sending

    with_a_producer(rocketmq, scenario)
    assert bodies(rocketmq) == [b"first", b"x"]
    assert {message.tags for message in rocketmq.messages("flights")} == {None, "before"}
