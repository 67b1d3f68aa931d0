# SPDX-License-Identifier: Apache-2.0
"""The requests a client sends, one coroutine per request code: with typed arguments and results; failure codes raise errors (Java:
MQClientAPIImpl).

Nothing is retried here, and no route is looked up. Answers other than the ones that a method names become RemoteError (or the subclass for
the code), with the address that answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Any, Final

from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.client.reach import Reach
from sprocketmq.client.remoting.concurrent_work import all_ended
from sprocketmq.client.remoting.name_servers import NameServers
from sprocketmq.client.remoting.outages import Outages
from sprocketmq.client.remoting.server_kind import ServerKinds
from sprocketmq.client.results import SEND_STATUS_BY_CODE, PullResult, SendStatus
from sprocketmq.core.consume.pull_cursor import PullStatus, pull_status
from sprocketmq.core.group.subscription import SQL92
from sprocketmq.core.produce.route_table import checked_route
from sprocketmq.core.produce.topic_types import type_refusal
from sprocketmq.errors import RemoteError, RequestNotServed, remote_error
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.command import Buffer, Command
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageQueue
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.records.sys_flag import PULL_SUSPEND, pull_sys_flag
from sprocketmq.wire.requests.declaration import A, B, H, Request

# MixAll.TOOLS_CONSUMER_GROUP: brokers have it from the start.
TOOLS_GROUP: Final = "TOOLS_CONSUMER"

log = logging.getLogger("sprocketmq.client")

_SWITCH_ON: Final = (
    "set enablePropertyFilter=true at the brokers (`sprocketmq broker config set`), or subscribe with tags"
)
_TRIED_QUEUES: Final = 8
_MOST_SQL92: Final = 1_000  # expressions and brokers that are remembered
_LAST_TRIED: Final = 1_023  # whatever a broker answers
_LOOKING: Final = pull_sys_flag(commit_offset=False, suspend=False, subscription=True)


def refused_expression(error: RemoteError, asked: bodies.SubscriptionData) -> RemoteError:
    """The error for a filter that a broker refuses, with topic and expression. Apache's parser goes on with all that it expected."""
    why = error.remark.partition("\n")[0].strip().rstrip(".")
    said, is_switched_off, _ = why.partition(" (enablePropertyFilter)")  # ours; Apache's: PullMessageProcessor
    advice = _SWITCH_ON if is_switched_off or "does not support" in why else "correct the expression"
    sentence = f"the filter {asked.sub_string!r} of topic {asked.topic!r} is refused: {said}; {advice}"
    return remote_error(error.code, sentence, error.address)


class RemotingApi:
    """Every request a client knows. Belongs to one instance and its loop; ``timeout_ms`` defaults to ``mq_client_api_timeout_ms``.

    ``behind_proxy``: whether the last route came from a proxy, so that the addresses in it are those of proxies.

    Apache's proxy drops an answer if an earlier one of the same connection is not written yet (AbstractRemotingActivity.writeResponse,
    isWritable): above 64 KiB that this side has not read, a pull is never answered. So behind a proxy at most one pull that is answered at
    once is under way for each broker (a proxy answers none for a broker that is down). Pulls that wait for messages have short answers, and
    a short limit for those that are dropped all the same.
    """

    def __init__(
        self, pool: ConnectionPool, name_servers: NameServers, timeout_ms: int = 3_000, outages: Outages | None = None
    ) -> None:
        self.pool = pool
        self.name_servers = name_servers
        self.timeout_ms = timeout_ms
        self.kinds = ServerKinds(pool, timeout_ms)
        self.behind_proxy = False
        self._pulls_at_once: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._accepted_sql92: set[tuple[str, str]] = set()  # by address: brokers of another version may not read it
        self.outages = Outages() if outages is None else outages
        self.reach: Reach | None = None
        """The limits of a client that asks all servers that are registered."""

    # -- name server -----------------------------------------------------------------------------------------------------------

    async def route(self, topic: str) -> bodies.TopicRouteData | None:
        """GET_ROUTEINFO_BY_TOPIC; None when the name server knows no such topic. Raises ProtocolError for one that no cluster can have."""
        asked = requests.name_servers.GET_ROUTEINFO_BY_TOPIC
        command = asked.command(headers.GetRouteInfoRequestHeader(topic=topic))
        answer = await self.name_servers.invoke(command, self.timeout_ms)
        # A proxy puts this field into each of its answers (AbstractRemotingActivity.writeResponse), a name server into none.
        self.behind_proxy = props.MSG_REGION in answer.ext_fields
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        await self._expect_success(answer, self.name_servers.chosen, asked)
        return checked_route(topic, await answer_body(asked, answer))

    async def cluster_info(self) -> bodies.ClusterInfo:
        """GET_BROKER_CLUSTER_INFO."""
        answer = await self.ask_name_server(requests.name_servers.GET_BROKER_CLUSTER_INFO)
        return await answer_body(requests.name_servers.GET_BROKER_CLUSTER_INFO, answer)

    async def broker_addresses(self, broker_name: str) -> dict[int, str]:
        """The addresses of a broker by the numbers of its replicas; empty if it is not registered now. A proxy does not serve
        GET_BROKER_CLUSTER_INFO. But each broker has a topic of its own name (TopicConfigManager), and a proxy tells the route of
        that."""
        try:
            known = (await self.cluster_info()).broker_addr_table.get(broker_name)
        except RequestNotServed:
            route = await self.route(broker_name)
            brokers = [] if route is None else route.broker_datas
            known = next((broker for broker in brokers if broker.broker_name == broker_name), None)
        return {} if known is None else known.broker_addrs

    async def topic_list(self) -> list[str]:
        """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
        answer = await self.ask_name_server(requests.name_servers.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return list((await answer_body(requests.name_servers.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, answer)).topic_list)

    async def delete_topic_in_namesrv(self, topic: str) -> None:
        """DELETE_TOPIC_IN_NAMESRV, at every name server, because they share no state."""
        for address in self.name_servers.addresses:
            header = headers.DeleteTopicFromNamesrvRequestHeader(topic=topic)
            await self.ask(address, requests.name_servers.DELETE_TOPIC_IN_NAMESRV, header)

    # -- sending ---------------------------------------------------------------------------------------------------------------

    async def send_message(
        self, address: str, command: Command, timeout_ms: int
    ) -> tuple[SendStatus, headers.SendMessageResponseHeader]:
        """A send request built by ``client.remoting.message_writer`` (SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE); four codes mean "stored"."""
        return self.send_answer(await self.invoke(address, command, timeout_ms), address)

    @staticmethod
    def send_answer(answer: Command, address: str) -> tuple[SendStatus, headers.SendMessageResponseHeader]:
        """An answer to a send; codes other than the four raise."""
        status = SEND_STATUS_BY_CODE.get(answer.code)
        if status is None:
            in_words = type_refusal(answer.remark or "") if answer.code == ResponseCode.MESSAGE_ILLEGAL else None
            raise remote_error(answer.code, in_words or answer.remark, address)
        return status, answer.header(headers.SendMessageResponseHeader)

    async def recall_message(self, address: str, header: headers.RecallMessageRequestHeader, timeout_ms: int) -> str:
        """RECALL_MESSAGE (5.x): the unique key of the timer message that was taken back."""
        return (await self.ask_header(address, requests.messages.RECALL_MESSAGE, header, timeout_ms=timeout_ms)).msg_id

    async def send_message_with_marks(
        self, address: str, command: Command, timeout_ms: int
    ) -> tuple[SendStatus, headers.SendMessageResponseHeader, dict[str, str]]:
        """``send_message`` that also returns all fields of the answer; MSG_REGION and TRACE_ON are not in its header type."""
        answer = await self.invoke(address, command, timeout_ms)
        return *self.send_answer(answer, address), answer.ext_fields

    async def consumer_send_message_back(
        self, address: str, header: headers.ConsumerSendMsgBackRequestHeader, timeout_ms: int = 5_000
    ) -> None:
        """CONSUMER_SEND_MSG_BACK: the broker makes the retry copy."""
        await self.ask(address, requests.messages.CONSUMER_SEND_MSG_BACK, header, timeout_ms=timeout_ms)

    async def make_retry_topic(self, address: str, broker_name: str, group: str) -> bool:
        """Have a broker behind a proxy make the retry topic of ``group``, which others make with a heartbeat: proxies keep heartbeats.

        It makes it for any send-back, also for one of a message that does not exist (AbstractSendMessageProcessor.consumerSendMsgBack looks
        the message up afterwards, and answers SYSTEM_ERROR). Call this before anybody asks for the route of the retry topic: a proxy
        remembers for 20 s, and longer if it is asked again, that a topic does not exist (TopicRouteService).

        False: the broker does not know the group. Raises NetworkError, RequestTimeout.
        """
        header = headers.ConsumerSendMsgBackRequestHeader(offset=-1, group=group, delay_level=0, bname=broker_name)
        answer = await self.invoke(address, requests.messages.CONSUMER_SEND_MSG_BACK.command(header), self.timeout_ms)
        return answer.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    # -- pulling ---------------------------------------------------------------------------------------------------------------

    async def pull_message(
        self, address: str, header: headers.PullMessageRequestHeader, timeout_ms: int = 30_000
    ) -> PullResult:
        """PULL_MESSAGE. Always code 11: a 4.9 broker does not know LITE_PULL_MESSAGE."""
        command = requests.messages.PULL_MESSAGE.command(header)
        if header.sys_flag & PULL_SUSPEND:
            return self.pull_result(await self.invoke(address, command, timeout_ms), address)
        return await self._pull_at_once(address, header.bname or "", command, timeout_ms)

    async def read_queue(
        self,
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
        """PULL_MESSAGE of a reader that is not a member of ``group``: it commits nothing, may wait for messages, and has its own
        filter. The broker is asked first whether it can read an SQL92 expression: with one that it cannot read it delivers everything."""
        if expression_type == SQL92 and (address, expression) not in self._accepted_sql92:
            filtered = bodies.SubscriptionData(
                topic=queue.topic, sub_string=expression, expression_type=expression_type
            )
            asked = bodies.CheckClientConfigRequestBody(client_id=group, group=group, subscription_data=filtered)
            await self.check_client_config(address, asked)
            if len(self._accepted_sql92) >= _MOST_SQL92:
                self._accepted_sql92.clear()  # brokers are asked again
            self._accepted_sql92.add((address, expression))
        command = about_queue(
            requests.messages.PULL_MESSAGE,
            queue,
            consumer_group=group,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=_LOOKING | (PULL_SUSPEND if suspend_ms else 0),
            commit_offset=0,
            suspend_timeout_millis=suspend_ms,
            sub_version=sub_version,
            subscription=expression,
            expression_type=expression_type,
        )
        if suspend_ms:
            return self.pull_result(await self.invoke(address, command, timeout_ms), address)
        return await self._pull_at_once(address, queue.broker_name, command, timeout_ms)

    async def _pull_at_once(self, address: str, broker_name: str, command: Command, timeout_ms: int) -> PullResult:
        """A pull that the broker answers at once, found or not; behind a proxy one after the other."""
        if self.behind_proxy:
            async with self._pulls_at_once[broker_name]:
                answer = await self.invoke(address, command, timeout_ms)
        else:
            answer = await self.invoke(address, command, timeout_ms)
        return self.pull_result(answer, address)

    @staticmethod
    def pull_result(answer: Command, address: str) -> PullResult:
        """An answer to PULL_MESSAGE as PullResult; codes other than its four raise."""
        status = pull_status(answer.code)
        if status is None:
            raise remote_error(answer.code, answer.remark, address)
        header = requests.messages.PULL_MESSAGE.answer_header_in(answer)
        return PullResult(
            status,
            header.next_begin_offset,
            header.min_offset,
            header.max_offset,
            header.suggest_which_broker_id,
            answer.body,
        )

    # -- offsets ---------------------------------------------------------------------------------------------------------------

    async def query_consumer_offset(
        self, address: str, group: str, queue: MessageQueue, *, zero_if_young: bool = True
    ) -> int | None:
        """QUERY_CONSUMER_OFFSET; None only for code 22, every other failure raises: it must not look like "no offset".
        ``zero_if_young`` False asks a 5.x broker not to answer 0 for a young topic when nothing is committed."""
        asked = requests.offsets.QUERY_CONSUMER_OFFSET
        zero = None if zero_if_young else False
        command = about_queue(asked, queue, consumer_group=group, set_zero_if_not_found=zero)
        answer = await self.invoke(address, command, self.timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        await self._expect_success(answer, address, asked)
        return asked.answer_header_in(answer).offset

    async def update_consumer_offset(
        self, address: str, group: str, queue: MessageQueue, offset: int, *, oneway: bool = False
    ) -> None:
        """UPDATE_CONSUMER_OFFSET; the periodic one is one-way, an explicit commit waits for the answer."""
        asked = requests.offsets.UPDATE_CONSUMER_OFFSET
        command = about_queue(asked, queue, oneway=oneway, consumer_group=group, commit_offset=offset)
        if oneway:
            await self.pool.invoke_oneway(address, command)
        else:
            await self._expect_success(await self.invoke(address, command, self.timeout_ms), address, asked)

    async def max_offset(self, address: str, queue: MessageQueue) -> int:
        """GET_MAX_OFFSET: one behind the last message."""
        return (await self._ask_queue(address, requests.offsets.GET_MAX_OFFSET, queue)).offset

    async def min_offset(self, address: str, queue: MessageQueue) -> int:
        """GET_MIN_OFFSET: the first message that is still there."""
        return (await self._ask_queue(address, requests.offsets.GET_MIN_OFFSET, queue)).offset

    async def search_offset(self, address: str, queue: MessageQueue, timestamp_ms: int, *, last: bool = False) -> int:
        """SEARCH_OFFSET_BY_TIMESTAMP: the first message stored at or after ``timestamp_ms``; ``last``: the last one of that time (5.x)."""
        boundary = "upper" if last else None
        asked = requests.offsets.SEARCH_OFFSET_BY_TIMESTAMP
        return (await self._ask_queue(address, asked, queue, timestamp=timestamp_ms, boundary_type=boundary)).offset

    async def earliest_store_time(self, address: str, queue: MessageQueue) -> int:
        """GET_EARLIEST_MSG_STORETIME in milliseconds, -1 when the queue is empty. Behind a proxy the first message is read."""
        try:
            return (await self._ask_queue(address, requests.offsets.GET_EARLIEST_MSG_STORETIME, queue)).timestamp
        except RequestNotServed:
            return await self.store_time(address, queue, await self.min_offset(address, queue))

    async def store_time(self, address: str, queue: MessageQueue, offset: int) -> int:
        """The store time of the message at ``offset`` in milliseconds, by reading it; -1 when it is not there, or may not be read."""
        if offset < 0:
            return -1
        try:
            result = await self.read_queue(address, TOOLS_GROUP, queue, offset, 1)
        except RemoteError:
            return -1
        found = decode_records(result.body, decompress=False) if result.status is PullStatus.FOUND else []
        return found[0].store_timestamp_ms if found and found[0].queue_offset == offset else -1

    # -- membership ------------------------------------------------------------------------------------------------------------

    async def heartbeat(self, address: str, heartbeat: bodies.HeartbeatData) -> None:
        """HEART_BEAT."""
        await self.ask(address, requests.consumers.HEART_BEAT, body=heartbeat.encode())

    async def unregister_client(
        self, address: str, client_id: str, producer_group: str | None, consumer_group: str | None
    ) -> None:
        """UNREGISTER_CLIENT."""
        header = headers.UnregisterClientRequestHeader(
            client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        await self.ask(address, requests.consumers.UNREGISTER_CLIENT, header)

    async def consumer_ids(self, address: str, group: str) -> list[str]:
        """GET_CONSUMER_LIST_BY_GROUP; empty when the broker has none (it answers code 1 then)."""
        header = headers.GetConsumerListByGroupRequestHeader(consumer_group=group)
        asked = requests.consumers.GET_CONSUMER_LIST_BY_GROUP
        answer = await self.invoke(address, asked.command(header), self.timeout_ms)
        if answer.code == ResponseCode.SYSTEM_ERROR:
            return []
        await self._expect_success(answer, address, asked)
        return list((await answer_body(asked, answer)).consumer_id_list)

    async def group_subscription(self, address: str, group: str, topic: str) -> bodies.SubscriptionData | None:
        """QUERY_SUBSCRIPTION_BY_CONSUMER (5.x; GET_CONSUMER_CONNECTION_LIST before): by which the broker filters; None: there is none."""
        header = headers.QuerySubscriptionByConsumerRequestHeader(group=group, topic=topic)
        try:
            answer = await self.ask_body(address, requests.topics.QUERY_SUBSCRIPTION_BY_CONSUMER, header)
        except RemoteError as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            connection = await self.consumer_connection(address, group)
            return None if connection is None else connection.subscription_table.get(topic)
        return answer.subscription_data

    async def query_assignment(
        self, address: str, body: bodies.QueryAssignmentRequestBody
    ) -> list[bodies.MessageQueueAssignment] | None:
        """QUERY_ASSIGNMENT (5.x): the queues that the broker gives this client; None when it cannot allocate now."""
        answer = await self.ask_body(address, requests.consumers.QUERY_ASSIGNMENT, body=body.encode())
        found = answer.message_queue_assignments
        return None if found is None else list(found)

    async def check_client_config(self, address: str, body: bodies.CheckClientConfigRequestBody) -> None:
        """CHECK_CLIENT_CONFIG: does this broker accept the filter expression? A proxy says yes to any
        (ClientManagerActivity.checkClientConfig), and a broker delivers everything to a group whose expression it cannot read
        (ConsumerFilterManager.build). So behind a proxy the expression is read here, too."""
        await self.ask(address, requests.consumers.CHECK_CLIENT_CONFIG, body=body.encode())
        asked = body.subscription_data
        if self.behind_proxy and asked is not None and asked.expression_type == SQL92:
            try:
                from sprocketmq.core.sql92.parser import parse  # few clients need it
            except ImportError:
                sentence = "%r is not checked, because the proxy at %s accepts any text; `pip install 'sprocketmq[broker]'` has a parser"
                log.warning(sentence, asked.sub_string, address)
            else:
                parse(asked.sub_string)

    async def lock_batch(
        self, address: str, group: str, client_id: str, queues: list[MessageQueue], timeout_ms: int = 1_000
    ) -> set[MessageQueue]:
        """LOCK_BATCH_MQ; the queues that are locked by this client now."""
        body = bodies.LockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        asked = requests.consumers.LOCK_BATCH_MQ
        return set((await self.ask_body(address, asked, body=body.encode(), timeout_ms=timeout_ms)).lock_ok_mq_set)

    async def unlock_batch(
        self, address: str, group: str, client_id: str, queues: list[MessageQueue], *, oneway: bool = True
    ) -> None:
        """UNLOCK_BATCH_MQ."""
        body = bodies.UnlockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=list(queues))
        asked = requests.consumers.UNLOCK_BATCH_MQ
        command = asked.command(body=body.encode(), oneway=oneway)
        if oneway:
            await self.pool.invoke_oneway(address, command)
        else:
            await self._expect_success(await self.invoke(address, command, self.timeout_ms), address, asked)

    # -- administration --------------------------------------------------------------------------------------------------------

    async def create_topic(self, address: str, header: headers.CreateTopicRequestHeader) -> None:
        """UPDATE_AND_CREATE_TOPIC."""
        await self.ask(address, requests.topics.UPDATE_AND_CREATE_TOPIC, header)

    async def delete_topic(self, address: str, topic: str) -> None:
        """DELETE_TOPIC_IN_BROKER."""
        await self.ask(address, requests.topics.DELETE_TOPIC_IN_BROKER, headers.DeleteTopicRequestHeader(topic=topic))

    async def create_group(self, address: str, config: bodies.SubscriptionGroupConfig) -> None:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
        await self.ask(address, requests.topics.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())

    async def groups(self, address: str) -> bodies.SubscriptionGroupWrapper:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
        return await self.ask_body(address, requests.topics.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)

    async def topic_configs(self, address: str) -> bodies.TopicConfigSerializeWrapper:
        """GET_ALL_TOPIC_CONFIG."""
        return await self.ask_body(address, requests.topics.GET_ALL_TOPIC_CONFIG)

    async def topic_stats(self, address: str, topic: str) -> bodies.TopicStatsTable:
        """GET_TOPIC_STATS_INFO, and the queues with messages that Apache's broker leaves out, because the topic has fewer queues now."""
        answer = await self.topic_stats_answer(address, topic)
        stats = await answer_body(requests.topics.GET_TOPIC_STATS_INFO, answer)
        if answer.language == "JAVA" and stats.offset_table:
            stats.offset_table.update(await self._hidden_queues(address, max(stats.offset_table)))
        return stats

    async def _hidden_queues(self, address: str, last: MessageQueue) -> dict[MessageQueue, bodies.TopicOffset]:
        """The queues behind ``last`` that hold messages. No request lists them. Tried are those in which a group has progress, and the next
        ones, until ``_TRIED_QUEUES`` in a row hold nothing. (GET_MIN_OFFSET would create them, GET_MAX_OFFSET does not.)"""

        async def end(queue: MessageQueue) -> int:
            try:
                return await self.max_offset(address, queue)
            except RemoteError:
                return 0

        header = headers.QueryCorrectionOffsetHeader(topic=last.topic, compare_group=TOOLS_GROUP)
        try:
            of_groups = (
                await self.ask_body(address, requests.offsets.QUERY_CORRECTION_OFFSET, header)
            ).correction_offsets
        except RemoteError:
            of_groups = {}
        found: dict[MessageQueue, bodies.TopicOffset] = {}
        tried, upto = last.queue_id, max(last.queue_id, *of_groups) if of_groups else last.queue_id
        while tried < (upto := min(upto + _TRIED_QUEUES, _LAST_TRIED)):
            queues = [MessageQueue(last.topic, last.broker_name, number) for number in range(tried + 1, upto + 1)]
            ends = await all_ended(map(end, queues))
            held = {queue: at for queue, at in zip(queues, ends, strict=True) if at > 0}
            for queue, at in held.items():
                found[queue] = bodies.TopicOffset(max(0, await self.min_offset(address, queue)), at, 0)
            tried, upto = upto, max(held).queue_id if held else 0
        return {queue: at for queue, at in found.items() if at.max_offset > at.min_offset}

    async def topic_stats_answer(self, address: str, topic: str) -> Command:
        """``topic_stats`` with the undecoded answer, from which the kind of broker can be seen."""
        header = headers.GetTopicStatsInfoRequestHeader(topic=topic)
        return await self.ask(address, requests.topics.GET_TOPIC_STATS_INFO, header)

    async def consumer_connection(self, address: str, group: str) -> bodies.ConsumerConnection | None:
        """GET_CONSUMER_CONNECTION_LIST; None when no member of the group is online at this broker."""
        header = headers.GetConsumerConnectionListRequestHeader(consumer_group=group)
        asked = requests.consumers.GET_CONSUMER_CONNECTION_LIST
        answer = await self.invoke(address, asked.command(header), self.timeout_ms)
        if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        await self._expect_success(answer, address, asked)
        return await answer_body(asked, answer)

    async def broker_runtime_info(self, address: str) -> dict[str, str]:
        """GET_BROKER_RUNTIME_INFO."""
        return dict((await self.ask_body(address, requests.brokers.GET_BROKER_RUNTIME_INFO)).table)

    # -- inside ----------------------------------------------------------------------------------------------------------------

    async def invoke(self, address: str, command: Command, timeout_ms: int) -> Command:
        """Send a request and wait; ``timeout_ms`` covers connecting and the answer."""
        if self.reach is not None:
            return await self.reach.invoke(self.pool, address, command, timeout_ms)
        return await self.pool.invoke(address, command, timeout_ms)

    async def ask(
        self,
        address: str,
        asked: Request[H, A, B],
        header: H | None = None,
        body: Buffer = b"",
        timeout_ms: int | None = None,
    ) -> Command:
        """One declared request and its answer; every code but SUCCESS raises."""
        self.kinds.refuse_if_known(address, asked)
        answer = await self.invoke(address, asked.command(header, body), timeout_ms or self.timeout_ms)
        await self._expect_success(answer, address, asked)
        return answer

    async def ask_header(
        self, address: str, asked: Request[H, A, B], header: H | None = None, timeout_ms: int | None = None
    ) -> A:
        """As ``ask``: the header of the answer."""
        return asked.answer_header_in(await self.ask(address, asked, header, timeout_ms=timeout_ms))

    async def _ask_queue(self, address: str, asked: Request[H, A, B], queue: MessageQueue, **fields: Any) -> A:
        """As ``ask_header``, about a queue."""
        self.kinds.refuse_if_known(address, asked)
        answer = await self.invoke(address, about_queue(asked, queue, **fields), self.timeout_ms)
        await self._expect_success(answer, address, asked)
        return asked.answer_header_in(answer)

    async def ask_body(
        self,
        address: str,
        asked: Request[H, A, B],
        header: H | None = None,
        body: Buffer = b"",
        timeout_ms: int | None = None,
    ) -> B:
        """As ``ask``: the body of the answer."""
        return await answer_body(asked, await self.ask(address, asked, header, body, timeout_ms))

    async def ask_name_server(self, asked: Request[H, A, B], header: H | None = None) -> Command:
        """As ``ask``, of the chosen name server, or of the next one that answers."""
        self.kinds.refuse_if_known(self.name_servers.chosen, asked)
        answer = await self.name_servers.invoke(asked.command(header), self.timeout_ms)
        await self._expect_success(answer, self.name_servers.chosen, asked)
        return answer

    async def _expect_success(self, answer: Command, address: str, asked: Request[H, A, B]) -> None:
        if answer.code != ResponseCode.SUCCESS:
            raise await self.kinds.refusal(address, asked, answer.code, answer.remark)


def about_queue(asked: Request[H, A, B], queue: MessageQueue, *, oneway: bool = False, **fields: Any) -> Command:
    """A request about a queue. All brokers behind a proxy have its address: it forwards the request to the one that ``bname`` names
    (AbstractRemotingActivity.request)."""
    assert asked.header is not None
    header = asked.header(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name, **fields)
    return asked.command(header, oneway=oneway)
