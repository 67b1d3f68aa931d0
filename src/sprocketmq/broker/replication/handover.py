# SPDX-License-Identifier: Apache-2.0
"""The driver of core.handover: a broker gives its messages to its slave and stops.

A store that was handed over (config/handedOver.json) does not start again: two masters of one name would each store messages that the other
does not have.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from sprocketmq.core.cluster.handover import Handover, HandoverState, MetadataKind
from sprocketmq.errors import StoreNotWritable
from sprocketmq.net.connection import Connection
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import HandoverStatus
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.requests.declaration import Peer

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

_POLL_S: Final = 0.02
_WATCHED: Final = {
    RequestCode.GET_ALL_TOPIC_CONFIG: MetadataKind.TOPICS,
    RequestCode.GET_ALL_CONSUMER_OFFSET: MetadataKind.OFFSETS,
    RequestCode.GET_ALL_DELAY_OFFSET: MetadataKind.DELAY_OFFSETS,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: MetadataKind.GROUPS,
}


class _HandedOver(msgspec.Struct, rename="camel"):
    to: str
    at_ms: int
    log_end: int


class HandoverDriver:
    def __init__(self, broker: Broker) -> None:
        self._broker, self._clock, self._store, self._replication = (
            broker,
            broker.clock,
            broker.store,
            broker.replication,
        )
        self._file = ConfigFile(None if broker.root is None else broker.root / "config" / "handedOver.json")
        self._machine = Handover()
        self._watching = False
        self._timer: asyncio.TimerHandle | None = None

    def check_not_handed_over(self) -> None:
        """Check that the store was not handed over, before it is opened. Raises StoreNotWritable (it was handed over)."""
        given = self._file.load(lambda raw: msgspec.json.decode(raw, type=_HandedOver))
        if given is not None:
            raise StoreNotWritable(
                f"this store was handed over to the broker at {given.to}, which serves its messages now; "
                f"only if that one never became master, remove {self._file.path} and start again"
            )

    async def start(self) -> None:
        """Does nothing: no task runs before a handover begins."""

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- the steps ---------------------------------------------------------------------------------------------------------------

    def begin(self, timeout_ms: int) -> None:
        self._watch()
        self._machine.begin(self._clock.steady_ms(), timeout_ms)
        log.warning("handover: begun, it may take %d ms", timeout_ms)
        if self._timer is None:
            self._poll()

    def cancel(self) -> None:
        self._machine.cancel()
        self._settle()

    def finish(self, now_ms: int) -> bool:
        """Whether the slave has everything; if so, the broker stops soon after the answer."""
        machine = self._machine
        self._poll()
        if machine.state is not HandoverState.DRAINED:
            return machine.state is HandoverState.GIVEN
        self._file.save(msgspec.json.encode(_HandedOver(to=machine.host, at_ms=now_ms, log_end=machine.log_end)))
        machine.finish()
        log.warning(
            "handover: the slave at %s has everything up to %d, this broker stops", machine.host, machine.log_end
        )
        self._broker.stop_soon()
        return True

    def status(self) -> HandoverStatus:
        machine, replication = self._machine, self._replication
        held, end = replication.held_by(machine.host), self._store.max_physical_offset
        return HandoverStatus(
            state=machine.state.value,
            waits_for=machine.missing(len(replication.table.slaves), held, end),
            slaves=[slave.address for slave in replication.table.slaves],
            log_end=end,
            acknowledged=held,
        )

    # -- inside --------------------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Check the four requests of a slave's round, only after a handover was requested, so that they cost nothing before."""
        if not self._watching:
            self._watching = True
            for code, kind in _WATCHED.items():
                self._broker.before_request(code, partial(self._asked, kind))
            # The frozen store refuses sends; these change tables that the slave has copied.
            for one in requests.served_by(Peer.BROKER):
                if one.changes_tables:
                    self._broker.before_request(one.code, self._refuse_change)

    def _asked(self, kind: MetadataKind, connection: Connection, command: Command) -> None:
        host, version = connection.peer[0], self._broker.topics.data_version
        self._machine.asked(
            kind,
            host,
            (version.counter, version.timestamp),
            self._replication.held_by(host) >= 0,
            self._store.max_physical_offset,
            self._clock.steady_ms(),
        )
        self._settle()

    def _refuse_change(self, connection: Connection, command: Command) -> Command | None:
        return (
            response(command, ResponseCode.SERVICE_NOT_AVAILABLE, self._reason())
            if self._machine.refuses_writes
            else None
        )

    def _reason(self) -> str:
        return (
            f"broker {self._broker.config.broker_name} is handing over to its slave; "
            "try again in a few seconds, the name server will know the new address"
        )

    def _poll(self) -> None:
        self._timer = None
        machine = self._machine
        before = machine.state
        machine.poll(self._replication.held_by(machine.host), self._clock.steady_ms())
        if machine.state is not before:
            log.warning("handover: %s, was %s", machine.state.value, before.value)
        self._settle()
        if machine.state not in (HandoverState.SERVING, HandoverState.GIVEN):
            self._timer = asyncio.get_running_loop().call_later(_POLL_S, self._poll)

    def _settle(self) -> None:
        self._store.freeze(StoreNotWritable(self._reason()) if self._machine.refuses_writes else None)
