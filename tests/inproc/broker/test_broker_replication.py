# SPDX-License-Identifier: Apache-2.0
"""The replication port, sends that wait for a slave, and handing over: a slave of bare sockets copies from a real broker."""

from __future__ import annotations

import concurrent.futures
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from sprocketmq.broker.replication.durability import DurableAnswers
from sprocketmq.errors import StoreNotWritable
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import HandoverStatus, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import RegisterBrokerRequestHeader

SYNC = {"broker_role": "SYNC_MASTER", "slave_timeout_ms": 10_000}
SHORT_KEY = {"UNIQ_KEY": "short"}  # otherwise made of the body
ROUND = (
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
)


class Slave:
    """Reports and copies; each read is checked to go on where the one before ended."""

    def __init__(self, port: int, report: int | None = 0, receive_buffer_bytes: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", port))
        self.start = -1
        self.log = bytearray()
        self.heartbeats = 0
        if report is not None:
            self.report(report)

    def report(self, offset: int) -> None:
        self.socket.sendall(struct.pack(">q", offset))

    def read(self) -> int:
        """One chunk; its size."""
        offset, size = struct.unpack(">qi", self._exactly(12))
        if self.start < 0:
            self.start = offset
        assert offset == self.start + len(self.log), "bytes are missing or come twice"
        self.log += self._exactly(size)
        self.heartbeats += size == 0
        return size

    def read_to(self, end: int) -> None:
        while self.start + len(self.log) < end:
            self.read()

    def follow(self) -> None:
        """Copy and acknowledge on a thread until the connection closes."""
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        try:
            while True:
                self.read()
                self.report(self.start + len(self.log))
        except (OSError, EOFError):
            pass

    def is_closed(self) -> bool:
        self.socket.settimeout(10)
        try:
            while self.socket.recv(4096):
                pass
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            got = self.socket.recv(size - len(data))
            if not got:
                raise EOFError
            data += got
        return data


@pytest.fixture
def slaves():
    made: list[Slave] = []
    yield made
    for slave in made:
        slave.close()


@pytest.fixture
def new_slave(disk_cluster, slaves):
    def connect(report: int | None = 0) -> Slave:
        slave = Slave(disk_cluster.broker.replication.port, report)
        slaves.append(slave)
        return slave

    return connect


def end_of_log(cluster) -> int:
    return cluster.on_loop(lambda: cluster.broker.store.max_physical_offset)


def log_bytes(cluster, start: int, end: int) -> bytes:
    def copy() -> bytes:
        got = bytearray()
        while start + len(got) < end:
            got += cluster.broker.store.log_data(start + len(got), end - start - len(got))
        return bytes(got)

    return cluster.on_loop(copy)


def begin_send(client) -> concurrent.futures.Future:
    pool = concurrent.futures.ThreadPoolExecutor(1)
    try:
        return pool.submit(client.send, "flights")
    finally:
        pool.shutdown(wait=False)


def wait_for_slave(cluster) -> None:
    cluster.eventually(lambda: cluster.broker.replication.held_by("127.0.0.1") >= 0)


# -- copying ---------------------------------------------------------------------------------------------------------------------


def test_a_slave_gets_the_log_byte_for_byte_also_over_the_end_of_a_file(disk_cluster, new_slave):
    client = disk_cluster.client()
    client.send("flights", b"before")
    slave = new_slave()
    for n in range(30):
        client.send("flights", bytes([n]) * 60_000, properties=SHORT_KEY)
    end = end_of_log(disk_cluster)
    assert end > 1 << 20
    slave.read_to(end)
    assert slave.start == 0
    assert bytes(slave.log) == log_bytes(disk_cluster, 0, end)


def test_a_slave_that_comes_late_gets_the_last_file_or_what_it_asks_for(disk_cluster, new_slave):
    client = disk_cluster.client()
    for _ in range(20):
        client.send("flights", b"x" * 60_000, properties=SHORT_KEY)
    end = end_of_log(disk_cluster)
    fresh, knowing = new_slave(), new_slave(100_000)
    fresh.read_to(end)
    knowing.read_to(end)
    assert (fresh.start, knowing.start) == (1 << 20, 100_000)
    assert bytes(knowing.log) == log_bytes(disk_cluster, 100_000, end)


def test_a_report_may_come_in_pieces_and_several_at_once(disk_cluster, new_slave):
    disk_cluster.client().send("flights")
    end = end_of_log(disk_cluster)
    slave = new_slave(None)
    slave.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    first = struct.pack(">q", 0)
    slave.socket.sendall(first[:3])
    disk_cluster.eventually(lambda: disk_cluster.broker.replication.table.slaves)
    slave.socket.sendall(first[3:])
    slave.read_to(end)
    slave.socket.sendall(struct.pack(">qqq", 1, 2, end) + first[:5])
    disk_cluster.eventually(lambda: disk_cluster.broker.replication.table.replicated == end)


def test_a_slave_that_does_not_read_is_not_buffered_for_ever(disk_cluster, slaves):
    client = disk_cluster.client()
    replication = disk_cluster.broker.replication
    slave = Slave(replication.port, receive_buffer_bytes=64 * 1024)
    slaves.append(slave)
    for _ in range(300):
        client.send("flights", b"x" * 60_000, properties=SHORT_KEY)
    end = end_of_log(disk_cluster)
    disk_cluster.eventually(lambda: any(not connection.writable for connection in replication._slaves))
    disk_cluster.eventually(lambda: disk_cluster.broker.queued_bytes.out_bytes > 0)
    [seen] = disk_cluster.on_loop(lambda: replication.table.slaves)
    assert seen.next_offset < end // 2
    slave.read_to(end)
    assert bytes(slave.log) == log_bytes(disk_cluster, 0, end)


def test_one_slave_too_many_is_refused(disk_cluster, new_slave):
    for _ in range(32):
        new_slave(report=None)
    disk_cluster.eventually(lambda: len(disk_cluster.broker.replication.table.slaves) == 32)
    assert new_slave(report=None).is_closed()
    assert len(disk_cluster.broker.replication.table.slaves) == 32


def test_nothing_is_sent_before_the_first_report(disk_cluster, new_slave):
    disk_cluster.client().send("flights")
    slave = new_slave(None)
    disk_cluster.eventually(lambda: disk_cluster.broker.replication.table.slaves)
    disk_cluster.clock.advance(6_000)
    slave.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        slave.read()


def test_a_quiet_slave_gets_a_heartbeat_and_a_silent_one_is_closed(disk_cluster, new_slave):
    slave = new_slave()
    wait_for_slave(disk_cluster)
    disk_cluster.clock.advance(6_000)
    assert slave.read() == 0
    assert slave.heartbeats == 1
    disk_cluster.clock.advance(21_000)
    assert slave.is_closed()
    disk_cluster.eventually(lambda: not disk_cluster.broker.replication.table.slaves)


@pytest.mark.parametrize("offset", [-1, 10**9, -(2**63), 2**63 - 1])
def test_a_slave_of_another_log_is_closed(disk_cluster, new_slave, offset):
    assert new_slave(offset).is_closed()
    assert disk_cluster.broker.replication.table.replicated == 0


def test_a_broker_in_memory_has_no_replication_port_unless_it_is_given_one(cluster):
    assert cluster.broker.replication.port == 0
    assert cluster.broker.ha_address == ""
    answer = cluster.client().do(requests.brokers.HANDOVER, step="start", timeout_ms=1_000)
    assert answer.code == ResponseCode.ILLEGAL_OPERATION


def test_the_name_server_tells_a_slave_where_to_copy_from(disk_cluster):
    table = {name: TopicConfig(topic_name=name) for name in ("t", "u")}
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigSerializeWrapper(topic_config_table=table))
    header = RegisterBrokerRequestHeader("broker-a", "10.0.0.9:1", "DefaultCluster", "", 1)
    answer = disk_cluster.namesrv_client().ask(RequestCode.REGISTER_BROKER, header, body.encode())
    assert answer.ext_fields["haServerAddr"] == f"127.0.0.1:{disk_cluster.broker.replication.port}"
    assert answer.ext_fields["masterAddr"] == disk_cluster.broker.address


def test_tools_see_the_slaves(disk_cluster, new_slave):
    client = disk_cluster.client()
    client.send("flights")
    end = end_of_log(disk_cluster)
    slave = new_slave()
    slave.read_to(end)
    slave.report(end)
    disk_cluster.eventually(lambda: disk_cluster.broker.replication.table.replicated == end)
    info = client.get(requests.brokers.GET_BROKER_HA_STATUS)
    assert (info.master, info.master_commit_log_max_offset, info.in_sync_slave_nums) == (True, end, 1)
    [seen] = info.ha_connection_info
    assert (seen.slave_ack_offset, seen.diff, seen.in_sync, seen.transfer_from_where) == (end, 0, True, end)
    exchanged = client.ask(RequestCode.EXCHANGE_BROKER_HA_INFO).ext_fields
    assert exchanged["masterHaAddress"] == disk_cluster.broker.ha_address
    assert exchanged["masterAddress"] == disk_cluster.broker.address
    assert client.do(requests.brokers.EXCHANGE_BROKER_HA_INFO, master_ha_address="10.0.0.1:1").ext_fields == {}


# -- sends that wait -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disk_cluster", [SYNC, {**SYNC, "flush_disk_type": "SYNC_FLUSH"}], indirect=True)
def test_a_send_waits_until_a_slave_has_it(disk_cluster, new_slave):
    client = disk_cluster.client()
    slave = new_slave()
    wait_for_slave(disk_cluster)
    waiting = begin_send(client)
    disk_cluster.eventually(lambda: len(disk_cluster.broker.replication) == 1)
    end = end_of_log(disk_cluster)
    slave.read_to(end)
    slave.report(end - 1)
    client.ask(RequestCode.GET_BROKER_HA_STATUS)
    assert not waiting.done()
    slave.report(end)
    assert waiting.result(10).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("disk_cluster", [SYNC], indirect=True)
def test_without_a_slave_a_send_is_stored_and_says_so(disk_cluster):
    client = disk_cluster.client()
    answer = client.send("flights", b"alone")
    assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert "msgId" in answer.ext_fields
    assert client.bodies() == [b"alone"]


@pytest.mark.parametrize("disk_cluster", [SYNC, {**SYNC, "flush_disk_type": "SYNC_FLUSH"}], indirect=True)
def test_without_a_slave_a_message_is_sent_back(disk_cluster):
    """Another code would make consumers send a copy of their own."""
    client = disk_cluster.client()
    client.send("flights", b"fails")
    (message,) = client.messages("flights")
    assert client.send_back(message, "g").code == ResponseCode.SUCCESS


@pytest.mark.parametrize("disk_cluster", [{**SYNC, "ha_max_gap_not_in_sync": 1_000}], indirect=True)
def test_a_slave_that_is_too_far_behind_does_not_count(disk_cluster, new_slave):
    client = disk_cluster.client()
    client.send("flights", b"x" * 2_000)
    new_slave()
    wait_for_slave(disk_cluster)
    assert client.send("flights").code == ResponseCode.SLAVE_NOT_AVAILABLE


@pytest.mark.parametrize("disk_cluster", [{**SYNC, "slave_timeout_ms": 50}], indirect=True)
def test_a_slave_that_does_not_acknowledge_is_a_timeout_and_the_message_is_stored(disk_cluster, new_slave):
    client = disk_cluster.client()
    new_slave()
    wait_for_slave(disk_cluster)
    assert client.send("flights", b"late").code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    assert client.bodies() == [b"late"]


@pytest.mark.parametrize("disk_cluster", [SYNC], indirect=True)
def test_a_stop_answers_sends_that_wait_for_a_slave(disk_cluster, new_slave):
    client = disk_cluster.client()
    new_slave()
    wait_for_slave(disk_cluster)
    waiting = begin_send(client)
    disk_cluster.eventually(lambda: len(disk_cluster.broker.replication) == 1)
    disk_cluster.broker.stop()
    assert waiting.result(10).code == ResponseCode.FLUSH_SLAVE_TIMEOUT


@pytest.mark.parametrize("disk_cluster", [{**SYNC, "flush_disk_type": "SYNC_FLUSH"}], indirect=True)
def test_a_stop_answers_sends_that_wait_for_the_disk_before_a_slave(disk_cluster, new_slave, monkeypatch):
    monkeypatch.setattr(DurableAnswers, "_flush", lambda waiting: None)  # a slow disk
    client = disk_cluster.client()
    new_slave()
    wait_for_slave(disk_cluster)
    waiting = begin_send(client)
    disk_cluster.eventually(lambda: len(disk_cluster.broker.durable_answers) == 1)
    disk_cluster.broker.stop()
    assert waiting.result(10).code == ResponseCode.SLAVE_NOT_AVAILABLE


# -- handing over ----------------------------------------------------------------------------------------------------------------


# Topics, groups, progress and settings: what changes them.
COPIED_BY_SLAVES = (17, 18, 25, 200, 207, 215, 222, 225, 314)


def step(client, name: str, timeout_ms: int | None = None) -> HandoverStatus:
    answer = client.do(requests.brokers.HANDOVER, step=name, timeout_ms=timeout_ms)
    assert answer.code == 0, answer.remark
    return HandoverStatus.decode(answer.body)


def drained(client) -> HandoverStatus:
    deadline = time.monotonic() + 60
    while (status := step(client, "status")).state != "drained":
        assert time.monotonic() < deadline, status
        time.sleep(0.01)
    return status


def test_a_broker_hands_over_at_its_slaves_round_and_never_starts_again(disk_cluster, new_slave):
    client, of_slave = disk_cluster.client(), disk_cluster.client()
    client.send("flights", b"one")
    slave = new_slave()
    slave.follow()
    assert step(client, "start", 60_000).state == "waiting"
    assert client.send("flights", b"two").code == 0  # producers go on while the slave's round is waited for
    for code in ROUND:
        assert of_slave.ask(code).code == 0
    status = drained(client)
    refused = client.send("flights", b"three")
    assert (refused.code, "handing over" in refused.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, True)
    assert client.pull("readers", "flights").code == 0
    end = status.log_end
    assert step(client, "finish").state == "given"
    disk_cluster.eventually(lambda: disk_cluster.broker.ended.is_set())
    assert len(slave.log) == end
    assert b"two" in slave.log
    assert b"three" not in slave.log
    assert not Path(disk_cluster.store_dir, "abort").exists()
    with pytest.raises(StoreNotWritable, match=r"handed over.*handedOver\.json"):
        disk_cluster.new_broker().start()


def test_a_broker_that_hands_over_changes_nothing_that_its_slave_has_copied(disk_cluster, new_slave):
    client, of_slave = disk_cluster.client(), disk_cluster.client()
    client.send("flights", b"one")
    new_slave().follow()
    step(client, "start", 60_000)
    for code in ROUND:
        assert of_slave.ask(code).code == 0
    drained(client)
    for code in COPIED_BY_SLAVES:
        refused = client.ask(code, ext_fields={"topic": "flights", "group": "readers"})
        assert (refused.code, "handing over" in refused.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, True), code
    step(client, "cancel")
    for code in COPIED_BY_SLAVES:
        answer = client.ask(code, ext_fields={"topic": "flights", "group": "readers"})
        assert "handing over" not in (answer.remark or ""), code


def test_a_handover_that_ends_too_late_leaves_everything_as_it_was(disk_cluster, new_slave):
    client, of_slave = disk_cluster.client(), disk_cluster.client()
    new_slave().follow()
    wait_for_slave(disk_cluster)
    step(client, "start", 3_000)
    for code in ROUND:
        of_slave.ask(code)
    drained(client)
    disk_cluster.clock.advance(3_001)
    disk_cluster.eventually(lambda: disk_cluster.broker.handover.status().state == "serving")
    assert client.send("flights").code == 0
    assert step(client, "finish").state == "serving"


@pytest.mark.parametrize("later", [{"delay_level": 1}, {"properties": {"TIMER_DELAY_MS": "1000"}}])
def test_what_is_due_while_the_broker_is_frozen_is_delivered_once_when_it_thaws(disk_cluster, new_slave, later):
    client, of_slave = disk_cluster.client(), disk_cluster.client()
    assert client.send("flights", b"later", **later).code == 0
    new_slave().follow()
    wait_for_slave(disk_cluster)
    step(client, "start", 60_000)
    for code in ROUND[:3]:
        of_slave.ask(code)
    before = end_of_log(disk_cluster)
    for _ in range(4):  # due, and tried again
        disk_cluster.clock.advance(1_000)
    assert end_of_log(disk_cluster) == before
    step(client, "cancel")

    def delivered() -> bool:
        disk_cluster.clock.advance(1_000)
        return disk_cluster.broker.store.max_offset("flights", 0) > 0

    deadline = time.monotonic() + 60
    while not delivered():
        assert time.monotonic() < deadline
    for _ in range(5):
        disk_cluster.clock.advance(1_000)
    assert client.bodies() == [b"later"]


# -- reading from slaves ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster", [{"slave_read_enable": True}], indirect=True)
def test_a_group_that_reads_far_behind_is_sent_to_its_slave(cluster):
    client = cluster.client()
    for _ in range(3):
        client.send("flights")
    near = client.pull("readers", "flights", 0, 2)
    cluster.broker.memory_span_bytes = 10
    far = client.pull("readers", "flights", 0, 0, max_messages=1)
    nothing = client.pull("readers", "flights", 0, 3)
    assert [answer.ext_fields["suggestWhichBrokerId"] for answer in (near, far, nothing)] == ["0", "1", "0"]


def test_a_master_becomes_a_sync_master_while_running(disk_cluster):
    client = disk_cluster.client()
    assert client.send("flights").code == ResponseCode.SUCCESS
    assert client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerRole=SYNC_MASTER").code == 0
    assert client.send("flights").code == ResponseCode.SLAVE_NOT_AVAILABLE
    refused = client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerRole=SLAVE")
    assert refused.code != 0
    assert client.send("flights").code == ResponseCode.SLAVE_NOT_AVAILABLE
    client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerRole=ASYNC_MASTER")
    assert client.send("flights").code == ResponseCode.SUCCESS
