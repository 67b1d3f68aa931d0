# SPDX-License-Identifier: Apache-2.0
"""Send messages back to the broker that stores them, to be consumed again (Java: CONSUMER_SEND_MSG_BACK, 36). A request names one
stored record by its offset in the broker's commit log, and the broker makes the copy."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sprocketmq.client.remoting.retrying import is_transient
from sprocketmq.client.results import NOT_SAFE_YET
from sprocketmq.client.settings.namesrv_addr import resolve_namesrv_addr
from sprocketmq.client.settings.validators import check_group
from sprocketmq.errors import RemoteError
from sprocketmq.plain_values import plain_int, plain_value
from sprocketmq.spark.cluster.cluster import Cluster
from sprocketmq.spark.options.access import ANONYMOUS, Access
from sprocketmq.wire import headers
from sprocketmq.wire.requests.messages import CONSUMER_SEND_MSG_BACK

log = logging.getLogger("sprocketmq.spark")

_CHUNK: Final = 4096


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
        for name in self.__slots__:  # for each bad row
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


async def _sent_back(
    cluster: Cluster, group: RetryGroup, messages: list[SendBackRequest]
) -> list[tuple[SendBackRequest, RemoteError]]:
    for topic in sorted({message.topic for message in messages if message.topic}):
        # The route has the addresses of brokers: one request for a topic instead of one for each message.
        await cluster.retrying(lambda topic=topic: cluster.routes.recent(topic))  # type: ignore[misc]
    refused = await cluster.gather(_refusal(cluster, group, message) for message in messages)
    return [(message, error) for message, error in zip(messages, refused, strict=True) if error is not None]


async def _refusal(cluster: Cluster, group: RetryGroup, message: SendBackRequest) -> RemoteError | None:
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
        address = await cluster.master(message.broker_name, message.topic or None)
        await cluster.ask(CONSUMER_SEND_MSG_BACK, header, at=address, timeout_ms=5_000)

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
    log.warning(
        "group %s: the copy of %s is stored with %s, and lost if that machine fails now",
        *(group, message.message_id, status),
    )
