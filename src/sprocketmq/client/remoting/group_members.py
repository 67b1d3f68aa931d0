# SPDX-License-Identifier: Apache-2.0
"""What a broker knows of a consumer group: its members, their subscriptions, its retry topic."""

from __future__ import annotations

from sprocketmq.client.remoting.cluster import Cluster
from sprocketmq.errors import RemoteError
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode


async def consumer_ids(cluster: Cluster, address: str, group: str) -> list[str]:
    """The client ids of the members; empty when the broker has none (it answers code 1 then)."""
    header = headers.GetConsumerListByGroupRequestHeader(consumer_group=group)
    try:
        answer = await cluster.ask_body(requests.consumers.GET_CONSUMER_LIST_BY_GROUP, header, at=address)
    except RemoteError as error:
        if error.code == ResponseCode.SYSTEM_ERROR:
            return []
        raise
    return list(answer.consumer_id_list)


async def consumer_connection(cluster: Cluster, address: str, group: str) -> bodies.ConsumerConnection | None:
    """None when no member of the group is online at this broker."""
    header = headers.GetConsumerConnectionListRequestHeader(consumer_group=group)
    try:
        return await cluster.ask_body(requests.consumers.GET_CONSUMER_CONNECTION_LIST, header, at=address)
    except RemoteError as error:
        if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        raise


async def group_subscription(cluster: Cluster, address: str, group: str, topic: str) -> bodies.SubscriptionData | None:
    """The subscription by which the broker filters (5.x; before that the connection tells it); None: there is none."""
    header = headers.QuerySubscriptionByConsumerRequestHeader(group=group, topic=topic)
    try:
        answer = await cluster.ask_body(requests.topics.QUERY_SUBSCRIPTION_BY_CONSUMER, header, at=address)
    except RemoteError as error:
        if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        connection = await consumer_connection(cluster, address, group)
        return None if connection is None else connection.subscription_table.get(topic)
    return answer.subscription_data


async def make_retry_topic(cluster: Cluster, address: str, broker_name: str, group: str) -> bool:
    """Have a broker behind a proxy make the retry topic of ``group``, which others make with a heartbeat: proxies keep heartbeats.

    It makes it for any send-back, also of a message that does not exist (AbstractSendMessageProcessor.consumerSendMsgBack). Call this
    before anybody asks for the route of the retry topic: a proxy remembers for 20 s, and longer if it is asked again, that a topic does
    not exist (TopicRouteService). False: the broker does not know the group.
    """
    header = headers.ConsumerSendMsgBackRequestHeader(offset=-1, group=group, delay_level=0, bname=broker_name)
    command = requests.messages.CONSUMER_SEND_MSG_BACK.command(header)
    answer = await cluster.invoke(address, command, cluster.timeout_ms)
    return answer.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
