# SPDX-License-Identifier: Apache-2.0
"""What a client meets seldom, or only after long, by the public API alone."""

from __future__ import annotations

import http.server
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recorder import Recorder, send_all

import sprocketmq as rmq
from sprocketmq.core.produce.route_table import RouteTable
from sprocketmq.net.process.engine import Engine
from sprocketmq.testing import PULLS, EmbeddedRocketMQ
from sprocketmq.wire.bodies import RegisterBrokerBody
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command, request
from sprocketmq.wire.headers import RegisterBrokerRequestHeader
from sprocketmq.wire.records.sys_flag import PULL_COMMIT_OFFSET

Consumers = Callable[..., rmq.PushConsumer]
LIMIT_S = 30
QUEUE = rmq.MessageQueue("flights", "broker-a", 0)


class Held:
    """A listener that runs until it is let go, and then ends as ``failure`` says."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.began, self.let_go = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self, message: rmq.MessageExt) -> None:
        self.calls += 1
        self.began.set()
        assert self.let_go.wait(LIMIT_S)
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure


@pytest.fixture
def held() -> Iterator[Held]:
    listener = Held()
    yield listener
    listener.let_go.set()


def _consumer(rocketmq: EmbeddedRocketMQ, listener: Callable[[rmq.MessageExt], Any]) -> rmq.PushConsumer:
    consumer = rocketmq.push_consumer("delays", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe("flights")
    consumer.on_message(listener)
    return consumer


class MostAtOnce:
    """A listener that waits, and counts how many of its calls run."""

    def __init__(self) -> None:
        self.turns = threading.Semaphore(0)
        self.running, self.most, self.seen = 0, 0, 0
        self._lock = threading.Lock()

    def __call__(self, message: rmq.MessageExt) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        assert self.turns.acquire(timeout=LIMIT_S)
        with self._lock:
            self.running -= 1
            self.seen += 1


def test_a_smaller_pool_runs_fewer_calls_at_once(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    listener = MostAtOnce()
    consumer = consumers(listener, consume_thread_count=4)
    send_all(producer, [str(number) for number in range(8)])
    rocketmq.wait_until(lambda: listener.running == 4)
    consumer.set_consume_thread_count(1)
    listener.turns.release(4)
    rocketmq.wait_until(lambda: listener.seen == 4 and listener.running == 1)
    listener.most = 0
    listener.turns.release(4)
    rocketmq.wait_until(lambda: listener.seen == 8)
    assert listener.most <= 1


def test_a_pool_grows_while_much_waits_at_the_brokers(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=4)
    send_all(producer, [str(number) for number in range(40)])
    listener = MostAtOnce()
    consumers(
        listener, consume_thread_count=1, consume_thread_max=3, adjust_thread_pool_nums_threshold=5,
        pull_threshold_for_queue=2, pull_batch_size=1,
    )  # fmt: skip
    rocketmq.advance_until(lambda: listener.running == 3, step_ms=10_000)
    listener.turns.release(40)
    rocketmq.advance_until(lambda: listener.seen == 40)


class _Page(http.server.BaseHTTPRequestHandler):
    text = ""

    def do_GET(self) -> None:
        body = type(self).text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_an_address_server_that_answers_nonsense_changes_nothing(
    rocketmq: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture
) -> None:
    rocketmq.create_topic("flights", queues=1)
    _Page.text = rocketmq.namesrv_addr
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/rocketmq/nsaddr"
    with rmq.Producer("ops", namesrv_addr=address, clock=rocketmq.clock) as producer:
        assert producer.send(rmq.Message("flights", b"0")).status is rmq.SendStatus.SEND_OK
        _Page.text = "no port"
        rocketmq.advance_until(lambda: "gave no list of name servers" in caplog.text, step_ms=30_000)
        rocketmq.create_topic("weather", queues=1)
        assert producer.send(rmq.Message("weather", b"1")).status is rmq.SendStatus.SEND_OK
    server.shutdown()
    server.server_close()


def test_a_pull_that_is_never_answered_does_not_keep_its_queue(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)
    recorder = Recorder()
    on_flights = rocketmq.faults.drop(
        RequestCode.PULL_MESSAGE, when=lambda command: command.ext_fields["topic"] == "flights"
    )
    consumers(recorder)
    rocketmq.wait_until(lambda: on_flights.hits == 1)
    send_all(producer, ["x"])
    took_ms = rocketmq.advance_until(lambda: recorder.bodies == ["x"], step_ms=5_000)
    assert took_ms >= 120_000


def test_the_limit_of_a_topic_is_shared_by_its_queues(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, held: Held
) -> None:
    rocketmq.create_topic("flights", queues=4)
    for queue_id in range(4):
        send_all(producer, [str(n) for n in range(20)], queue=rmq.MessageQueue("flights", "broker-a", queue_id))
    # The retry topic's and four queues share ten: two each, and the pull that was under way may bring one more.
    consumer = consumers(held, consume_thread_count=1, pull_threshold_for_topic=10, pull_batch_size=1)
    queues = [rmq.MessageQueue("flights", "broker-a", queue_id) for queue_id in range(4)]
    rocketmq.advance_until(lambda: all(consumer.process_queues[queue].count >= 2 for queue in queues))
    rocketmq.advance(5_000)
    assert max(consumer.process_queues[queue].count for queue in queues) <= 4


@pytest.mark.parametrize("route", ["known", "forgotten"])
def test_a_pull_goes_to_the_copy_that_the_last_answer_suggested(route: str) -> None:
    """The slave is another broker of this name. It suggests the master, as each broker without ``slaveReadEnable``."""
    with EmbeddedRocketMQ(slaveReadEnable=True) as rocketmq, EmbeddedRocketMQ() as slave:
        at_slave: list[dict[str, str]] = []

        def note(command: Command) -> bool:
            at_slave.append(dict(command.ext_fields))
            return False

        slave.faults.drop(PULLS, times=None, when=note)
        rocketmq.create_topic("flights", queues=1)
        slave.create_topic("flights", queues=1)
        with rocketmq.admin() as admin, rocketmq.producer("ops") as producer:
            admin.create_group("delays", broker_id=1)
            header = RegisterBrokerRequestHeader("broker-a", slave.broker_addr, "DefaultCluster", "", 1)
            command = request(RequestCode.REGISTER_BROKER, header, RegisterBrokerBody().encode())
            answer = Engine.shared().run(admin._async._cluster.invoke(rocketmq.namesrv_addr, command, 60_000))
            assert answer.code == 0, answer.remark
            recorder = Recorder()
            with _consumer(rocketmq, recorder) as consumer:
                rocketmq.wait_until(lambda: len(rocketmq.broker.parked) > 0)
                assert at_slave == []
                if route == "forgotten":  # then it is asked for, and the suggestion still counts
                    running = consumer._async._running
                    assert running is not None
                    running.instance.cluster.routes.table = RouteTable()
                send_all(producer, ["0"])
                rocketmq.wait_until(lambda: at_slave)
        assert (at_slave[0]["topic"], at_slave[0]["queueOffset"]) == ("flights", "1")
        assert int(at_slave[0]["sysFlag"]) & PULL_COMMIT_OFFSET == 0  # only a master stores progress


def test_a_copy_that_is_suggested_and_missing_is_replaced_by_another() -> None:
    with EmbeddedRocketMQ(slaveReadEnable=True) as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        with rocketmq.admin() as admin:
            admin.create_group("delays", broker_id=1)
        recorder = Recorder()
        with rocketmq.producer("ops") as producer, _consumer(rocketmq, recorder):
            for number in range(5):
                send_all(producer, [str(number)])
                rocketmq.advance_until(lambda number=number: len(recorder) == number + 1)


@pytest.mark.parametrize("expired", [False, True])
def test_offsets_that_the_queue_does_not_have_are_corrected(tmp_path: Path, expired: bool) -> None:
    with EmbeddedRocketMQ(store_dir=tmp_path, mappedFileSizeCommitLog=4096, fileReservedTime=1) as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        with rocketmq.producer("ops") as producer, rocketmq.admin() as admin:
            send_all(producer, [str(number) * 500 for number in range(10)])
            admin.create_group("delays")
            admin.set_consumer_offset("delays", QUEUE, 0 if expired else 1_000)
            if expired:
                rocketmq.advance(2 * 3_600_000)
                send_all(producer, [str(number) * 500 for number in range(10)])
                admin.delete_expired_commit_logs()
                assert admin.min_offset(QUEUE) > 0
            first = admin.min_offset(QUEUE) if expired else 10
            recorder = Recorder()
            with _consumer(rocketmq, recorder):
                rocketmq.advance_until(
                    lambda: rocketmq.consumer_offset("delays", "flights").get(0) == first or recorder.messages
                )
                send_all(producer, ["last"])
                rocketmq.advance_until(lambda: recorder.bodies[-1:] == ["last"])
            assert recorder.messages[0].queue_offset == first


def test_a_reset_is_pushed_to_members_by_a_broker_that_is_set_to() -> None:
    with EmbeddedRocketMQ(useServerSideResetOffset=False) as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        recorder = Recorder()
        with rocketmq.producer("ops") as producer, rocketmq.admin() as admin, _consumer(rocketmq, recorder):
            send_all(producer, ["0", "1", "2"])
            rocketmq.advance_until(lambda: len(recorder) == 3)
            admin.reset_offset_by_time("delays", "flights", 0)
            rocketmq.advance_until(lambda: sorted(recorder.bodies) == ["0", "0", "1", "1", "2", "2"])


def test_a_result_that_comes_during_the_send_back_makes_no_second_copy(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, held: Held
) -> None:
    rocketmq.create_topic("flights", queues=1)
    held.failure = ValueError("too late")
    consumers(held, consume_timeout_ms=60_000)
    send_all(producer, ["x"])
    assert held.began.wait(LIMIT_S)
    with rocketmq.faults.delay_answer(RequestCode.CONSUMER_SEND_MSG_BACK, 5_000) as late:
        rocketmq.advance_until(lambda: late.hits, step_ms=10_000)
        held.let_go.set()
        rocketmq.wait_until(lambda: held.failure is None)
        rocketmq.advance_until(lambda: held.calls == 2, step_ms=5_000)
    assert len(rocketmq.messages("%RETRY%delays")) == 1


def test_a_failure_of_a_group_that_was_deleted_meanwhile_is_tried_again_here() -> None:
    with EmbeddedRocketMQ(autoCreateSubscriptionGroup=False) as rocketmq:
        rocketmq.create_topic("flights", queues=1)
        held = Held(ValueError("no"))
        with rocketmq.admin() as admin:
            admin.create_group("delays")
        with rocketmq.producer("ops") as producer, rocketmq.admin() as admin, _consumer(rocketmq, held):
            send_all(producer, ["x"])
            rocketmq.advance_until(held.began.is_set)
            admin.delete_group("delays")
            held.let_go.set()
            rocketmq.advance_until(lambda: held.calls == 2)
            assert rocketmq.messages("%RETRY%delays") == []


def test_a_message_that_its_broker_has_no_more_comes_again_by_the_inner_producer(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers, held: Held
) -> None:
    rocketmq.create_topic("flights", queues=1)
    held.failure = ValueError("no")
    consumers(held)
    send_all(producer, ["x"])
    assert held.began.wait(LIMIT_S)
    rocketmq.restart_broker()  # without a folder: all that it had is gone
    rocketmq.create_topic("flights", queues=1)
    held.let_go.set()
    rocketmq.advance_until(lambda: held.calls == 2)
    assert [message.body for message in rocketmq.messages("%RETRY%delays")] == [b"x"]


def test_rates_are_those_of_the_last_minute_and_failures_those_of_the_last_hour(
    rocketmq: EmbeddedRocketMQ, producer: rmq.Producer, consumers: Consumers
) -> None:
    rocketmq.create_topic("flights", queues=1)

    def fail(message: rmq.MessageExt) -> None:
        if message.body == b"bad" and not message.reconsume_times:
            raise ValueError("no")

    consumer = consumers(Recorder(fail))

    def status() -> Any:
        with rocketmq.admin() as admin:
            return admin.running_info("delays", consumer.client_id).status_table["flights"]

    send_all(producer, ["bad", "good"])
    rocketmq.advance_until(lambda: status().consume_ok_tps > 0 and status().consume_failed_msgs == 1, step_ms=10_000)
    rocketmq.advance_until(lambda: status().consume_ok_tps == 0, step_ms=10_000, limit_ms=200_000)
    assert status().consume_failed_msgs == 1
    rocketmq.advance_until(lambda: status().consume_failed_msgs == 0, step_ms=600_000, limit_ms=3 * 3_600_000)


@pytest.mark.slow
def test_trace_records_that_come_too_fast_are_dropped_and_logged(
    rocketmq: EmbeddedRocketMQ, caplog: pytest.LogCaptureFixture
) -> None:
    rocketmq.create_topic("flights", queues=1)
    caplog.set_level(logging.INFO)
    with rocketmq.producer("ops", enable_trace=True, send_msg_timeout_ms=30_000) as producer:
        producer.send(rmq.Message("flights", b"first"))
        trace = {"when": lambda command: "RMQ_SYS_TRACE_TOPIC" in command.ext_fields.values()}
        with rocketmq.faults.drop((RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE), times=None, **trace):
            sent = [producer.send_async(rmq.Message("flights", b"x")) for _ in range(4_000)]
            producer.flush()
        assert all(future.result().status is rmq.SendStatus.SEND_OK for future in sent)
    assert "records were dropped, because they came too fast" in caplog.text
