# SPDX-License-Identifier: Apache-2.0
"""`kill -9` on the broker between any two steps of a transaction: what its producer decided happens, once, and nothing else does."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from interop.apache_cluster import free_ports
from interop.child import poll_until
from interop.send_ledger import read_topic
from interop.sprocket_server import SprocketServer
from sprocketmq.errors import RequestTimeout, RocketMQError
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.store.tools.check import check_directory
from sprocketmq.wire.bodies import HeartbeatData, ProducerData
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command, request
from sprocketmq.wire.headers import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    SendMessageRequestHeaderV2,
)
from sprocketmq.wire.records.properties import encode_properties
from sprocketmq.wire.records.record import decode_record

pytestmark = pytest.mark.timeout(600)

TOPIC, GROUP = "transfers", "tellers"
COMMIT, ROLLBACK = 8, 12
CONF: dict[str, Any] = {
    "transactionCheckInterval": 300,
    "transactionTimeOut": 500,
    "transactionCheckMax": 1_000,  # rounds count while nobody is connected, and on a busy machine that takes a while
    "flushConsumerOffsetInterval": 250,
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 300 * 20,
}
WORKERS, KILLS, TIMEOUT_MS = 8, 10, 60_000


class Tellers:
    """Transactional producers that decide about each message when they make it, and stand by it: ``decided`` (name -> 8 or 12)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.decided: dict[str, int] = {}
        self.stored: set[str] = set()  # halves that the broker acknowledged
        self.checked: Counter[str] = Counter()
        self.killed = False

    async def work(self, server: SprocketServer, until: Callable[[], bool], *, kill: bool = False) -> None:
        """Transactions under way all the time, checks answered, until ``until()`` says so; then the broker may be killed under them."""
        pool = ConnectionPool(self._asked)
        try:
            connection = await pool.connection(server.broker_addr)
            heartbeat = HeartbeatData(client_id="teller", producer_data_set=[ProducerData(group_name=GROUP)])
            await connection.invoke(request(RequestCode.HEART_BEAT, body=heartbeat.encode()), TIMEOUT_MS)
            workers = [asyncio.ensure_future(self._transfers(connection)) for _ in range(WORKERS)]
            while not until() and not any(worker.done() for worker in workers):
                await asyncio.sleep(0.001)
            self.killed = True
            if kill:
                os.kill(server.broker_pid, signal.SIGKILL)
            await asyncio.gather(*workers)
        finally:
            self.killed = False
            await pool.aclose()

    def new_one_is_asked_for(self) -> Callable[[], bool]:
        """True once a half was asked for that is made from now on: a round came to every older one."""
        first = len(self.decided)
        return lambda: any(int(name) >= first for name in self.checked)

    async def _transfers(self, connection: Connection) -> None:
        try:
            while not self.killed:
                await self._transfer(connection)
        except RocketMQError:
            if not self.killed:
                raise

    async def _transfer(self, connection: Connection) -> None:
        name = f"{len(self.decided)}"
        decision = self.decided[name] = self.random.choice((COMMIT, ROLLBACK))
        properties = {"UNIQ_KEY": name, "TRAN_MSG": "true", "PGROUP": GROUP}
        header = SendMessageRequestHeaderV2(
            GROUP, TOPIC, "TBW102", 4, 0, 4, time.time_ns() // 1_000_000, 0, encode_properties(properties).decode()
        )
        answer = await connection.invoke(request(RequestCode.SEND_MESSAGE_V2, header, name.encode()), TIMEOUT_MS)
        assert answer.code == 0, answer.remark
        self.stored.add(name)
        if self.random.random() < 0.3:
            return  # its broker has to ask
        ext = answer.ext_fields
        end = EndTransactionRequestHeader(
            GROUP, int(ext["queueOffset"]), int(ext["msgId"][-16:], 16), decision, False, name, name
        )
        for _ in range(self.random.choice((1, 1, 2))):
            answer = await connection.invoke(request(RequestCode.END_TRANSACTION, end), TIMEOUT_MS)
            assert answer.code == 0, answer.remark

    def _asked(self, connection: Connection, command: Command) -> None:
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        header = command.header(CheckTransactionStateRequestHeader)
        name = bytes(decode_record(bytes(command.body)).body).decode()
        self.checked[name] += 1
        if self.checked[name] > 1 or self.random.random() < 0.7:  # a first check may go unanswered
            end = EndTransactionRequestHeader(
                GROUP, header.tran_state_table_offset, header.commit_log_offset, self.decided[name], True, name, name
            )
            connection.send(request(RequestCode.END_TRANSACTION, end, oneway=True))


def delivered_by(server: SprocketServer) -> Counter[str] | None:
    """How often each message is in the topic; None when a busy machine did not answer in time."""
    try:
        return Counter(m.body.decode() for queue in read_topic(server.namesrv_addr, TOPIC).values() for m in queue)
    except RequestTimeout:
        return None


def test_ten_kills_in_the_middle_of_transactions_lose_none_and_double_none(tmp_path):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    tellers = Tellers(seed)
    first_port = free_ports(1)
    server = SprocketServer(tmp_path / "store", ports=(first_port, first_port + 1), **CONF)
    try:
        for turn in range(KILLS):
            server.start(60)
            if turn == 0:
                server.create_topic(TOPIC, 1)
            wanted = len(tellers.stored) + tellers.random.randrange(1, 400)
            asyncio.run(tellers.work(server, lambda wanted=wanted: len(tellers.stored) >= wanted, kill=True))
            server.kill()
        server.start(60)
        cut_off = len(tellers.decided)
        for _ in range(3):  # a check may go unanswered once, and the last answers must have arrived
            asyncio.run(tellers.work(server, tellers.new_one_is_asked_for()))
        delivered = poll_until(lambda: delivered_by(server), "the topic is read")
        assert server.stop_process() == 0
    finally:
        server.stop()
    assert [str(problem) for problem in check_directory(tmp_path / "store")] == []
    committed = {name for name, decision in tellers.decided.items() if decision == COMMIT}
    assert [name for name, times in delivered.items() if times > 1] == [], "committed twice"
    assert set(delivered) - committed == set(), "rolled back, and yet delivered"
    long_ago = {name for name in tellers.stored if int(name) < cut_off}
    assert (committed & long_ago) - set(delivered) == set(), "committed, and not delivered"
    assert len(long_ago) < cut_off, "no kill cut off a send"
