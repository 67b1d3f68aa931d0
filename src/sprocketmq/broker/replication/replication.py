# SPDX-License-Identifier: Apache-2.0
"""Replication: slaves copy the log over the replication port, and sends of a SYNC_MASTER wait for them (Java: DefaultHAService).
Without a slave near the end of the log such a send is answered with 11 SLAVE_NOT_AVAILABLE, after 3 s with 12 FLUSH_SLAVE_TIMEOUT; it
is stored. The log is polled every 20 ms, and at once when a send waits.

core.replication decides which progress counts. The slaves are Apache brokers (brokerRole=SLAVE). inSyncReplicas of 5.x is ignored: its
default of 1 makes a SYNC_MASTER wait for no slave, and this broker waits for one, as 4.9.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.service import Periodic
from sprocketmq.core.cluster.replication import AckQueue, LogRange, ReplicationTable, SlaveProgress
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.connection import Connection, text_bytes
from sprocketmq.net.gathered_answers import GatheredAnswers
from sprocketmq.net.ha_connection import HaConnection, HaServer
from sprocketmq.net.pool import split_address
from sprocketmq.wire.bodies import HAConnectionRuntimeInfo, HARuntimeInfo
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Command

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

_POLL_S: Final = 0.02  # Java: 100 ms; a slave's copy may be this old on an asynchronous master
_CHUNKS_AT_ONCE: Final = 16  # then other connections get their turn
_WAITING_BYTES: Final = 2048  # an answer without its texts; the request is let go
_MOST_SLAVES: Final = 32
_HOUSEKEEPING_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    connection: Connection
    answer: Command | None
    """None: the request was one-way."""
    kept_bytes: int


class Replication:
    """The replication port of a master. Its protocol has no account and no TLS, and sends the whole log."""

    def __init__(self, broker: Broker) -> None:
        self.table = ReplicationTable()
        self.port = 0
        """The replication port; 0 while there is none."""
        self._broker, self._clock, self._store = broker, broker.clock, broker.store
        self._slave_addresses = broker.config.slave_addresses()
        self._troubles = broker.troubles
        self._waiting: AckQueue[_Waiting] = AckQueue()
        self._slaves: dict[HaConnection, SlaveProgress] = {}
        self._server: HaServer | None = None
        self._housekeeping: Periodic | None = None
        self._poll: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._pump_is_due = False

    def __len__(self) -> int:
        return len(self._waiting)

    # -- life ------------------------------------------------------------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        """Whether slaves may connect. By default not to a broker in memory: after its restart the two logs would differ."""
        config = self._broker.config
        return config.ha_listen_port > 0 or (config.ha_listen_port == 0 and config.store_path_root_dir != "")

    async def start(self) -> None:
        if not self.is_wanted:
            return
        config = self._broker.config
        self._server = HaServer(self._new_connection)
        host = config.bind_address or "127.0.0.1"
        if config.ha_listen_port > 0:
            self.port = await self._server.start(host, config.ha_listen_port)
        else:
            self.port = await self._start_near(self._server, host)
        self._housekeeping = Periodic(self._clock, _HOUSEKEEPING_MS, self._run_housekeeping)

    async def _start_near(self, server: HaServer, host: str) -> int:
        with contextlib.suppress(ConfigurationError, OverflowError):
            return await server.start(host, self._broker.port + 1)
        return await server.start(host, 0)

    async def stop(self) -> None:
        """Close the port and all slaves; sends that wait, now or later, are answered that no slave has their record."""
        server, self._server = self._server, None
        for handle in (self._poll, self._deadline):
            if handle is not None:
                handle.cancel()
        self._poll = self._deadline = None
        if self._housekeeping is not None:
            self._housekeeping.cancel()
        self._answer_late(self._waiting.take_all(), ResponseCode.FLUSH_SLAVE_TIMEOUT)
        for connection in list(self._slaves):
            connection.close()
        if server is not None:
            await server.stop()

    # -- sends that wait ---------------------------------------------------------------------------------------------------------

    def is_replicated(self, end: int) -> bool:
        return self.table.replicated >= end

    def held_by(self, host: str) -> int:
        """How much of the log the slave at ``host`` has; -1 if there is none. A single slave counts whatever its host is."""
        slaves = self.table.slaves
        mine = slaves if len(slaves) == 1 else [slave for slave in slaves if split_address(slave.address)[0] == host]
        return max((slave.acked for slave in mine), default=-1)

    def wait(self, connection: Connection, answer: Command | None, end: int) -> None:
        """Send ``answer``, or nothing, when a slave holds the log up to ``end``, or with code 11 or 12."""
        config = self._broker.config
        waiting = _Waiting(connection, answer, _WAITING_BYTES + (0 if answer is None else text_bytes(answer)))
        if self.is_replicated(end):
            self._answer(waiting, None)
        elif self._server is None or not self.table.available(end, config.ha_max_gap_not_in_sync):
            self._answer(waiting, ResponseCode.SLAVE_NOT_AVAILABLE)
        else:
            loop = asyncio.get_running_loop()
            connection.hold(waiting.kept_bytes)
            self._waiting.add(waiting, end, int(loop.time() * 1000) + config.slave_timeout_ms)
            if self._deadline is None:
                self._deadline = loop.call_later(config.slave_timeout_ms / 1000, self._time_out)
            if not self._pump_is_due:
                # At the end of this turn, so that all sends of one read go to the slave together.
                self._pump_is_due = True
                loop.call_soon(self._pump_all)

    def _time_out(self) -> None:
        loop, self._deadline = asyncio.get_running_loop(), None
        now_ms = int(loop.time() * 1000) + 1
        self._answer_late(self._waiting.expired(now_ms), ResponseCode.FLUSH_SLAVE_TIMEOUT)
        following_ms = self._waiting.next_deadline_ms()
        if following_ms is not None:
            self._deadline = loop.call_later(max(1, following_ms - now_ms) / 1000, self._time_out)

    def _answer_late(self, late: Iterable[_Waiting], code: int | None) -> None:
        with GatheredAnswers() as gathered:
            for waiting in late:
                gathered.take(waiting.connection, waiting.kept_bytes)
                self._answer(waiting, code)

    @staticmethod
    def _answer(waiting: _Waiting, code: int | None) -> None:
        if waiting.answer is not None:
            if code is not None:
                waiting.answer.code = int(code)
            waiting.connection.send(waiting.answer)

    # -- slaves ------------------------------------------------------------------------------------------------------------------

    def _new_connection(self) -> HaConnection:
        return HaConnection(self._opened, self._reported, self._pump, self._closed, self._broker.queued_bytes)

    def _may_copy(self, host: str) -> bool:
        """Whether a slave may connect from this address. The setting decides; with access control it is required."""
        broker = self._broker
        if self._slave_addresses:
            return any(pattern.matches(host) for pattern in self._slave_addresses)
        if broker.plain_access is not None:  # the documented place of slaves at 4.9's accounts; they sign nothing
            return broker.plain_access.is_white(host)
        return not broker.config.authentication_enabled and not (broker.tls is not None and broker.tls.is_enforcing)

    def _opened(self, connection: HaConnection) -> None:
        if not self._may_copy(split_address(connection.remote_address)[0]):
            remark = "%s may not copy the log: this broker asks its clients who they are, and haAllowedAddresses does not name this address"
            address = connection.remote_address
            self._troubles.failed("foreign slaves", remark, address, of=split_address(address)[0])
            connection.close()
            return
        if len(self._slaves) >= _MOST_SLAVES:
            remark = "slave %s is refused: %d are connected, which is the limit"
            self._troubles.failed("too many slaves", remark, connection.remote_address, _MOST_SLAVES)
            connection.close()
            return
        log.info("slave %s connected", connection.remote_address)
        self._slaves[connection] = self.table.join(connection.remote_address, self._clock.steady_ms())
        if self._poll is None:
            self._poll = asyncio.get_running_loop().call_later(_POLL_S, self._poll_log)

    def _closed(self, connection: HaConnection) -> None:
        slave = self._slaves.pop(connection, None)
        if slave is not None:
            self.table.leave(slave)
            self._is_away(slave.address, "slave %s disconnected, it had the log up to %d", slave.address, slave.acked)

    def _is_away(self, address: str, sentence: str, *args: object) -> None:
        """A slave that comes and goes is one trouble of its host."""
        self._troubles.failed(_slave_at(address), sentence, *args, lasts=True)

    def _reported(self, connection: HaConnection, offset: int) -> None:
        slave = self._slaves.get(connection)
        if slave is None:
            return
        first = slave.next_offset < 0
        problem = self.table.report(slave, offset, self._log_range(), self._clock.steady_ms())
        if problem is not None:
            self._is_away(slave.address, "slave %s is disconnected: %s", slave.address, problem)
            connection.close()
            return
        if first:
            self._troubles.over(_slave_at(slave.address), "slave %s copies again", slave.address)
            log.info("slave %s asks for %d, it gets the log from %d on", slave.address, offset, slave.next_offset)
        self._answer_late(self._waiting.acknowledged(self.table.replicated), None)
        self._pump(connection)

    def _log_range(self) -> LogRange:
        end, size = self._store.max_physical_offset, self._store.config.mapped_file_size_commit_log
        return LogRange(self._store.min_physical_offset, end - end % size, end)

    def _poll_log(self) -> None:
        self._poll = None
        if self._slaves:
            self._poll = asyncio.get_running_loop().call_later(_POLL_S, self._poll_log)
            self._pump_all()

    def _pump_all(self) -> None:
        self._pump_is_due = False
        for connection in list(self._slaves):
            self._pump(connection)

    def _pump(self, connection: HaConnection) -> None:
        slave = self._slaves.get(connection)
        if slave is None or slave.next_offset < 0:
            return
        store, batch_bytes = self._store, self._broker.config.ha_transfer_batch_size
        for _ in range(_CHUNKS_AT_ONCE):
            if not connection.writable:
                return
            data = store.log_data(slave.next_offset, batch_bytes)
            if data is None:
                if slave.next_offset < store.min_physical_offset:
                    sentence = "slave %s was too slow: offset %d is deleted by now"
                    self._is_away(slave.address, sentence, slave.address, slave.next_offset)
                    connection.close()
                return
            connection.send(slave.next_offset, data)
            self.table.sent(slave, len(data), self._clock.steady_ms())
        asyncio.get_running_loop().call_soon(self._pump, connection)

    def _run_housekeeping(self) -> None:
        config, now_ms = self._broker.config, self._clock.steady_ms()
        silent = self.table.silent(now_ms, config.ha_housekeeping_interval_ms)
        quiet = self.table.heartbeat_due(now_ms, config.ha_send_heartbeat_interval_ms)
        for connection, slave in list(self._slaves.items()):
            if slave in silent:
                sentence = "slave %s sent nothing for %d ms"
                self._is_away(slave.address, sentence, slave.address, config.ha_housekeeping_interval_ms)
                connection.close()
            elif slave in quiet and connection.writable:
                connection.send(slave.next_offset)
                self.table.sent(slave, 0, now_ms)

    # -- what tools ask ------------------------------------------------------------------------------------------------------------

    def runtime_info(self) -> HARuntimeInfo:
        """Answer to GET_BROKER_HA_STATUS."""
        end, gap = self._store.max_physical_offset, self._broker.config.ha_max_gap_not_in_sync
        slaves = [
            HAConnectionRuntimeInfo(
                addr=slave.address,
                slave_ack_offset=slave.acked,
                diff=end - slave.acked,
                in_sync=self.table.in_sync(slave, end, gap),
                transfer_from_where=slave.next_offset,
            )
            for slave in self.table.slaves
        ]
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=sum(slave.in_sync for slave in slaves),
            ha_connection_info=slaves,
        )


def _slave_at(address: str) -> tuple[str, str]:
    return "slave", split_address(address)[0]
