# SPDX-License-Identifier: Apache-2.0
"""PULL_MESSAGE, of members of a group and of other readers.

Apache's proxy drops an answer if an earlier one of the same connection is not written yet (AbstractRemotingActivity.writeResponse,
isWritable): above 64 KiB that this side has not read, a pull is never answered. So behind a proxy at most one pull that is answered at
once is under way for each broker (a proxy answers none for a broker that is down). Pulls that wait for messages have short answers, and
a short limit for those that are dropped all the same.
"""

from __future__ import annotations

import logging
import re
from typing import Final

from sprocketmq.client.remoting.cluster import Cluster, queue_header
from sprocketmq.client.results import PullResult
from sprocketmq.core.consume.pull_cursor import pull_status
from sprocketmq.core.group.subscription import SQL92
from sprocketmq.errors import RemoteError, remote_error
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.sys_flag import PULL_SUSPEND, pull_sys_flag
from sprocketmq.wire.requests.consumers import CHECK_CLIENT_CONFIG
from sprocketmq.wire.requests.messages import PULL_MESSAGE

log = logging.getLogger("sprocketmq.client")

# MixAll.TOOLS_CONSUMER_GROUP: brokers have it from the start.
TOOLS_GROUP: Final = "TOOLS_CONSUMER"

_SWITCH_ON: Final = "set enablePropertyFilter=true at the brokers (`sprocketmq broker config set`), or filter by tags"
_JAVA_CLASS: Final = re.compile(r"^[\w.$]+Exception: ")
_MOST_SQL92: Final = 1_000  # expressions and brokers that are remembered
_READING: Final = pull_sys_flag(commit_offset=False, suspend=False, subscription=True)


async def pull_message(
    cluster: Cluster, address: str, header: headers.PullMessageRequestHeader, timeout_ms: int
) -> PullResult:
    """A pull of a member. Always code 11: a 4.9 broker does not know LITE_PULL_MESSAGE."""
    command = PULL_MESSAGE.command(header)
    if cluster.behind_proxy and not header.sys_flag & PULL_SUSPEND:
        async with cluster.pulls_at_once[header.bname or ""]:
            return pull_result(await cluster.invoke(address, command, timeout_ms), address)
    return pull_result(await cluster.invoke(address, command, timeout_ms), address)


async def read_queue(
    cluster: Cluster,
    address: str,
    group: str,
    queue: MessageQueue,
    offset: int,
    count: int,
    *,
    expression: str = "*",
    expression_type: str = "TAG",
    sub_version: int = 0,
    timeout_ms: int = 30_000,
    suspend_ms: int = 0,
) -> PullResult:
    """A pull of a reader that is not a member of ``group``: it commits nothing, may wait for messages, and has its own filter. The broker
    is asked first whether it can read an SQL92 expression: with one that it cannot read it delivers everything."""
    if expression_type == SQL92 and (address, expression) not in cluster.accepted_sql92:
        filtered = bodies.SubscriptionData(topic=queue.topic, sub_string=expression, expression_type=expression_type)
        asked = bodies.CheckClientConfigRequestBody(client_id=group, group=group, subscription_data=filtered)
        await check_filter(cluster, address, asked)
        if len(cluster.accepted_sql92) >= _MOST_SQL92:
            cluster.accepted_sql92.clear()  # brokers are asked again
        cluster.accepted_sql92.add((address, expression))
    header = queue_header(
        PULL_MESSAGE,
        queue,
        consumer_group=group,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=_READING | (PULL_SUSPEND if suspend_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=suspend_ms,
        sub_version=sub_version,
        subscription=expression,
        expression_type=expression_type,
    )
    return await pull_message(cluster, address, header, timeout_ms)


def pull_result(answer: Command, address: str) -> PullResult:
    """An answer to PULL_MESSAGE; codes other than its four raise RemoteError."""
    status = pull_status(answer.code)
    if status is None:
        raise remote_error(answer.code, answer.remark, address)
    header = PULL_MESSAGE.answer_header_in(answer)
    return PullResult(
        status,
        header.next_begin_offset,
        header.min_offset,
        header.max_offset,
        header.suggest_which_broker_id,
        answer.body,
    )


async def check_filter(cluster: Cluster, address: str, body: bodies.CheckClientConfigRequestBody) -> None:
    """CHECK_CLIENT_CONFIG: raises for a filter expression that this broker does not accept. A proxy accepts any
    (ClientManagerActivity.checkClientConfig), and a broker delivers everything to a group whose expression it cannot read
    (ConsumerFilterManager.build). So behind a proxy the expression is read here, too."""
    await cluster.ask(CHECK_CLIENT_CONFIG, at=address, body=body.encode())
    asked = body.subscription_data
    if cluster.behind_proxy and asked is not None and asked.expression_type == SQL92:
        try:
            from sprocketmq.core.sql92.parser import parse  # few clients need it
        except ImportError:
            sentence = "%r is not checked, because the proxy at %s accepts any text; `pip install 'sprocketmq[broker]'` has a parser"
            log.warning(sentence, asked.sub_string, address)
        else:
            parse(asked.sub_string)


def why_refused(error: RemoteError) -> str:
    """Why a broker refuses a filter, and what to do. Apache's parser names its class first, and goes on with all that it expected."""
    why = _JAVA_CLASS.sub("", error.remark.partition("\n")[0].strip().rstrip("."))
    said, is_switched_off, _ = why.partition(" (enablePropertyFilter)")  # ours; Apache's: ClientManageProcessor
    advice = _SWITCH_ON if is_switched_off or "does not support" in why else "correct the expression"
    return f"{said}; {advice}"
