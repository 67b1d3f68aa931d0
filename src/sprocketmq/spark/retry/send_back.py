# SPDX-License-Identifier: Apache-2.0
"""Send messages back to the broker that stores them, to be consumed again (Java: CONSUMER_SEND_MSG_BACK, 36). A request names one
stored record by its offset in the broker's commit log, and the broker makes the copy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

from sprocketmq.client.remoting.concurrent_work import for_each
from sprocketmq.client.remoting.retrying import is_transient
from sprocketmq.client.results import NOT_SAFE_YET
from sprocketmq.client.settings.namesrv_addr import resolve_namesrv_addr
from sprocketmq.client.settings.validators import check_group
from sprocketmq.errors import RemoteError, RocketMQError
from sprocketmq.plain_values import plain_int, plain_value
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.access import ANONYMOUS, Access
from sprocketmq.spark.troubles import troubles
from sprocketmq.wire import headers
from sprocketmq.wire.requests.messages import CONSUMER_SEND_MSG_BACK

log = logging.getLogger("sprocketmq.spark")

T = TypeVar("T")

_CHUNK: Final = 4096
_IN_FLIGHT: Final = 256
_TRY_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class SendBackRequest:
    """One message to be consumed again later, by the place of its stored record. ``delay_level`` 0 lets the broker choose (10 s, 30 s, 1
    min, ...), 1 to 18 is a fixed level, -1 sends it to the dead letters."""

    broker_name: str
    commit_log_offset: int
    topic: str = ""
    message_id: str = ""
    delay_level: int = 0

    def __post_init__(self) -> None:
        is_text = type(self.broker_name) is type(self.topic) is type(self.message_id) is str
        if is_text and type(self.commit_log_offset) is type(self.delay_level) is int:  # each bad row
            return
        for name in self.__slots__:
            value = getattr(self, name)
            if (plain := plain_value(value)) is not value:
                object.__setattr__(self, name, plain)


@dataclass(frozen=True, slots=True)
class RetryGroup:
    name: str
    namesrv_addr: str
    access: Access = ANONYMOUS
    max_reconsume: int = 16
    retry_timeout_ms: int = 60_000

    @property
    def cluster(self) -> Cluster:
        return Cluster.at(self.namesrv_addr, self.retry_timeout_ms, self.access)


def send_back(
    messages: Iterable[SendBackRequest],
    *,
    group: str,
    namesrv_addr: str | None = None,
    max_reconsume: int = 16,
    retry_timeout_ms: int = 60_000,
    access: Access = ANONYMOUS,
) -> list[tuple[SendBackRequest, RemoteError]]:
    """Send messages back for another try in ``group``: many requests in flight, each retried while its broker does not answer.

    ``namesrv_addr``: default NAMESRV_ADDR. ``max_reconsume``: after so many tries the broker makes a dead letter of a message.
    Returns the messages that a broker refused for good, with its answer (code 1: the stored record is gone). Raises NetworkError,
    RequestTimeout, SystemBusy: a broker did not answer within ``retry_timeout_ms``; some messages may be stored.
    """
    return send_back_to(
        RetryGroup(
            check_group(group),
            resolve_namesrv_addr(namesrv_addr),
            access,
            plain_int(max_reconsume),
            plain_int(retry_timeout_ms),
        ),
        messages,
    )


def send_back_to(group: RetryGroup, messages: Iterable[SendBackRequest]) -> list[tuple[SendBackRequest, RemoteError]]:
    cluster, rest, refused = group.cluster, iter(messages), []
    while chunk := list(islice(rest, _CHUNK)):
        refused += cluster.engine.run(_sent_back(cluster, group, chunk))
    return refused


class Masters:
    """The addresses of masters by broker, each requested once: no cached route names the broker of a record whose topic was not read."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._known: dict[str, str] = {}
        self._one_asks = asyncio.Lock()

    async def of(self, broker_name: str, topic: str | None) -> str:
        """Raises NetworkError (there is no master now)."""
        if broker_name not in self._known:
            async with self._one_asks:
                if broker_name not in self._known:
                    self._known[broker_name] = await self.cluster.master(broker_name, topic)
        return self._known[broker_name]

    def forget(self, broker_name: str) -> None:
        self._known.pop(broker_name, None)


async def send_each(rows: Collection[T], send: Callable[[T], Coroutine[Any, Any, None]]) -> None:
    """``send`` for each of ``rows``, many in flight. After an error no further ones begin; it is raised when none is in flight."""
    failed = False

    async def unless_failed(row: T) -> None:
        nonlocal failed
        if not failed:
            try:
                await send(row)
            except BaseException:
                failed = True
                raise

    await for_each(rows, unless_failed, _IN_FLIGHT)


async def _sent_back(
    cluster: Cluster, group: RetryGroup, messages: list[SendBackRequest]
) -> list[tuple[SendBackRequest, RemoteError]]:
    masters, refused = Masters(cluster), list[tuple[SendBackRequest, RemoteError]]()

    async def send(message: SendBackRequest) -> None:
        error = await _refusal(masters, group, message)
        if error is not None:
            refused.append((message, error))

    await send_each(messages, send)
    return refused


async def _refusal(masters: Masters, group: RetryGroup, message: SendBackRequest) -> RemoteError | None:
    cluster = masters.cluster
    header = headers.ConsumerSendMsgBackRequestHeader(
        offset=message.commit_log_offset,
        group=group.name,
        delay_level=message.delay_level,
        origin_msg_id=message.message_id or None,
        origin_topic=message.topic or None,
        bname=message.broker_name,
        max_reconsume_times=group.max_reconsume,
    )

    async def ask() -> None:
        address = await masters.of(message.broker_name, message.topic or None)
        try:
            await cluster.ask(CONSUMER_SEND_MSG_BACK, header, at=address, timeout_ms=_TRY_MS)
        except RocketMQError:
            masters.forget(message.broker_name)
            raise

    try:
        await cluster.retrying(ask)
    except RemoteError as error:
        if is_transient(error):
            raise
        if error.remark in NOT_SAFE_YET:  # of a copy that is stored
            warn_unsafe(group.name, message, error.remark)
            return None
        return error
    return None


def warn_unsafe(group: str, message: SendBackRequest, status: str) -> None:
    troubles.failed(
        "unsafe copies",
        "group %s: the copy of %s is stored with %s, and lost if that machine fails now",
        *(group, message.message_id, status),
    )
