# SPDX-License-Identifier: Apache-2.0
"""Request and reply over topics: a producer sends a message and waits for the reply of its consumer (Java: RequestFutureHolder,
DefaultMQProducerImpl.request, MessageUtil.createReplyMessage, ClientRemotingProcessor.receiveReplyMessage).

Rules
1. A request ends once: with the first reply that carries its correlation id, with a failed send, or with its timeout. Then nothing
   of it is kept, and later replies are acknowledged and dropped.
2. Before a request is sent, every broker of its topic has had a heartbeat over the open connection: a broker pushes replies only to
   connections that it knows from heartbeats. A broker that is down does not delay a request; one that does not answer delays it for
   a second at most.
3. A reply is sent to the broker that stored the request, to which rule 2 applies; to another one only if that fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Mapping
from typing import Final, cast

from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.remoting.message_writer import REPLY_TYPE
from sprocketmq.client.remoting.queue_choice import left_until
from sprocketmq.client.remoting.send import Send
from sprocketmq.client.remoting.sender import Sender
from sprocketmq.client.results import SendResult
from sprocketmq.client.settings.namespace import wrap
from sprocketmq.client.settings.validators import check_timeout_ms
from sprocketmq.core.resource_names import reply_topic
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout
from sprocketmq.net.connection import Connection
from sprocketmq.wire import requests
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.headers import ReplyMessageRequestHeader
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.compression import decompress
from sprocketmq.wire.records.message import Message, MessageExt
from sprocketmq.wire.records.sys_flag import COMPRESSED

log = logging.getLogger("sprocketmq.client")

_UNKNOWN_HOST: Final = "0.0.0.0:0"
_REGISTER_WAIT_S: Final = 1.0


def reply_message(
    request: Message, body: bytes, properties: Mapping[str, str] | None = None
) -> tuple[Message, dict[str, str]]:
    """The reply, and the properties that address it. Raises ConfigurationError (``request`` did not come from ``request``)."""
    if not isinstance(request, Message):
        raise ConfigurationError(
            f"request is {type(request).__name__}, the message of a producer's request() is allowed"
        )
    asked = request.properties
    missing = [name for name in (props.CLUSTER, props.REPLY_TO_CLIENT, props.CORRELATION_ID) if not asked.get(name)]
    if missing:
        raise ConfigurationError(
            f"the message to reply to has no property {missing[0]}; pass the message of a producer's request() as it was received"
        )
    back = {name: asked[name] for name in (props.CORRELATION_ID, props.REPLY_TO_CLIENT, props.TTL) if asked.get(name)}
    back[props.MSG_TYPE] = REPLY_TYPE
    return Message(reply_topic(asked[props.CLUSTER]), body, properties=properties), back


async def send_reply(
    sender: Sender, request: Message, body: bytes, properties: Mapping[str, str] | None, timeout_ms: int | None
) -> SendResult:
    """See rule 3."""
    message, back = reply_message(request, body, properties)
    stored_at = getattr(request, "broker_name", "")
    total_ms = sender.settings.send_msg_timeout_ms if timeout_ms is None else check_timeout_ms(timeout_ms)
    end_s = asyncio.get_running_loop().time() + total_ms / 1000
    near = [queue for queue in await sender.queue_choice.queues(message.topic, end_s) if queue.broker_name == stored_at]
    if near:
        try:
            return await sender.send(Send(message, near[0], extra=back, timeout_ms=left_until(end_s)))
        except (NetworkError, RemoteError) as error:
            if isinstance(error, RemoteError) and error.code not in sender.settings.retry_response_codes:
                asked = requests.messages.SEND_REPLY_MESSAGE_V2
                raise await sender.cluster.kinds.refusal(error.address, asked, error.code, error.remark) from error
            log.info("broker %s could not pass on the reply (%s), trying any other", stored_at, error)
    return await sender.send(Send(message, extra=back, timeout_ms=left_until(end_s)))


class RequestFutures:
    """Requests of one instance that wait for their replies. Belongs to its loop."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._waiting: dict[str, asyncio.Future[MessageExt]] = {}
        self._registered: dict[str, Connection] = {}  # rule 2: by address, the connection over which a heartbeat went
        self._registering: dict[str, tuple[asyncio.Task[None], float]] = {}  # heartbeats under way, and when they began

    async def request(self, sender: Sender, send: Send) -> MessageExt:
        timeout_ms = check_timeout_ms(cast(int, send.timeout_ms))
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_ms / 1000
        sender.check(send.message)
        await self._register_at_brokers(sender, wrap(sender.namespace, send.message.topic), end_s)
        correlation_id = str(uuid.uuid4())
        send.extra = {
            props.CORRELATION_ID: correlation_id,
            props.REPLY_TO_CLIENT: self._instance.client_id,
            props.TTL: str(timeout_ms),
        }
        reply: asyncio.Future[MessageExt] = loop.create_future()
        self._waiting[correlation_id] = reply
        try:
            send.timeout_ms = left_until(end_s)
            stored = await sender.send(send)
            done, _ = await asyncio.wait([reply], timeout=max(0.0, end_s - loop.time()))
            if not done:
                why = "does a consumer reply to it?"
                if self._instance.cluster.behind_proxy:
                    why = "Apache's proxy passes no replies on; use a topic for the answers"
                raise RequestTimeout(
                    f"the request {stored.message_id} is stored in {stored.message_queue}, but no reply came within {timeout_ms} ms; {why}",
                    timeout_ms=timeout_ms,
                )
            return reply.result()
        finally:
            del self._waiting[correlation_id]
            reply.cancel()

    def process(self, connection: Connection, command: Command) -> Command:
        """Receive a reply. It is acknowledged even if its request has ended, because the replier can do nothing about that."""
        message = _decode(command)
        correlation_id = message.properties.get(props.CORRELATION_ID, "")
        waiting = self._waiting.get(correlation_id)
        if waiting is None or waiting.done():
            log.info("a reply from %s matches no waiting request: %s", connection.remote_address, correlation_id)
        else:
            message.properties[props.ARRIVE_TIME] = str(self._instance.clock.now_ms())
            waiting.set_result(message)
        return response(command)

    async def _register_at_brokers(self, sender: Sender, topic: str, end_s: float) -> None:
        """Send heartbeats to the brokers of ``topic`` (rule 2) and to those of the reply topic, which may get the reply instead."""
        instance, now_s = self._instance, asyncio.get_running_loop().time
        if instance.cluster.routes.table.route(topic) is None:
            sender.queue_choice.turn(topic)
            await sender.queue_choice.queues(topic, end_s)
        route = instance.cluster.routes.table.route(topic)
        if route is None:
            return  # the topic does not exist yet; the send handles that
        clusters = {data.cluster for data in route.broker_datas if data.cluster}
        for name in map(reply_topic, clusters):
            if instance.cluster.routes.table.route(name) is None:
                sender.queue_choice.turn(name)
                with contextlib.suppress(NetworkError, RemoteError, RequestTimeout):
                    await instance.cluster.routes.refresh(name, int((end_s - now_s()) * 1000))
        names = {data.broker_name for data in route.broker_datas}
        for address in filter(None, (instance.cluster.routes.table.master_address(name) for name in names)):
            registering = self._register(address)
            if registering is not None:
                task, since_s = registering
                await asyncio.wait([task], timeout=max(0.0, min(end_s, since_s + _REGISTER_WAIT_S) - now_s()))

    def _register(self, address: str) -> tuple[asyncio.Task[None], float] | None:
        """Send a heartbeat to a broker, unless it had one over the open connection. Concurrent callers share it."""
        instance, known = self._instance, self._registered.get(address)
        if known is not None and not known.is_closed:
            return None
        registering = self._registering.get(address)
        if registering is None or registering[0].done():

            async def register() -> None:
                try:
                    connection = await instance.cluster.pool.connection(address)
                except NetworkError as error:
                    log.info("broker %s got no heartbeat, so it cannot push replies: %s", address, error)
                    return
                await instance.heartbeats.send_to(address)
                self._registered[address] = connection

            registering = self._registering[address] = instance.spawn(register()), asyncio.get_running_loop().time()
        return registering


def _decode(command: Command) -> MessageExt:
    header = command.header(ReplyMessageRequestHeader)
    body = bytes(command.body)
    if header.sys_flag & COMPRESSED:
        body = decompress(body, header.sys_flag)
    message = MessageExt(
        header.topic,
        body,
        flag=header.flag,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag & ~COMPRESSED,
        born_timestamp_ms=header.born_timestamp,
        store_timestamp_ms=header.store_timestamp,
        born_host=_host(header.born_host),
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )
    message.properties.update(props.decode_properties((header.properties or "").encode()))
    return message


def _host(text: str) -> str:
    """Java writes a socket address in its own way: ``/1.2.3.4:5``, or ``name/1.2.3.4:5``."""
    address = text.rpartition("/")[2]
    host, _, port = address.rpartition(":")
    return (
        address if port.isdecimal() and host.strip("[]").replace(".", "").replace(":", "").isalnum() else _UNKNOWN_HOST
    )
