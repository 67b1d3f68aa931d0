# SPDX-License-Identifier: Apache-2.0
"""The requests of a name server (Java: DefaultRequestProcessor)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.chunked_work import CHUNK_SIZE, in_chunks
from sprocketmq.broker.handlers.limits import answer_in_a_frame
from sprocketmq.broker.handlers.table import HandlerTable
from sprocketmq.broker.security.name_checks import (
    broker_problem,
    names_problem,
    queues_problem,
    settings_length_problem,
    settings_problem,
)
from sprocketmq.broker.tables.kv_config import ORDER_TOPIC_CONFIG
from sprocketmq.broker.tables.table_file import answer_when_saved, not_saved
from sprocketmq.core.cluster.namesrv_table import BROKER_EXPIRE_MS, UNIT_FLAG, UNIT_SUB_FLAG
from sprocketmq.core.cluster.registration import RegistrationResult, TopicRegistration
from sprocketmq.errors import ConfigurationError, ProtocolError, StoreError
from sprocketmq.net.connection import Connection
from sprocketmq.wire import bodies, headers, requests
from sprocketmq.wire.codes import ResponseCode, Version
from sprocketmq.wire.frames.command import Command, response
from sprocketmq.wire.requests.access import ANY_ADDRESS
from sprocketmq.wire.requests.declaration import Peer
from sprocketmq.wire.text.java_properties import format_properties, parse_properties

if TYPE_CHECKING:
    from sprocketmq.broker.namesrv.namesrv import NameServer


HANDLERS: Final[HandlerTable[Callable[[NameServer, Connection, Command, int], Command | None]]] = HandlerTable()
serves = HANDLERS.serves

_ZONE_NAME: Final = "__ZONE_NAME"
_ZLIB: Final = 0x78  # the first byte of a zlib stream, with which no JSON begins
# A broker may choose its own timeout; a dead broker should not be in the routes for more than an hour.
_MAX_SILENCE_MS: Final = 3_600_000


# -- brokers ---------------------------------------------------------------------------------------------------------------------


@serves(requests.name_servers.REGISTER_BROKER)
def register_broker(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command | None:
    header = command.header(headers.RegisterBrokerRequestHeader)
    _given(command, brokerName=header.broker_name, brokerAddr=header.broker_addr, clusterName=header.cluster_name)
    zone = command.ext_fields.get(_ZONE_NAME, "")
    problem = broker_problem(brokerAddr=header.broker_addr, haServerAddr=header.ha_server_addr, zone=zone)
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)
    body = bytes(command.body)
    if header.body_crc32 and zlib.crc32(body) & 0x7FFFFFFF != header.body_crc32:
        return response(command, ResponseCode.SYSTEM_ERROR, "the body does not have the announced checksum bodyCrc32")
    topics = bodies.RegistrationTopics(bodies.DataVersion(), 0, iter(()))
    if body:
        # A 5.x broker with compressedRegister=true compresses but says that it does not, for which Apache's name servers refuse it.
        compressed = header.compressed or body[0] == _ZLIB
        topics = bodies.RegistrationTopics.of_request(body, server.config.max_registration_bytes, compressed=compressed)
    server.table.check_capacity(header.broker_name, header.broker_addr, topics.count)  # before the long work
    return server.answer_in_chunks(
        connection, command, _register_in_chunks(server, connection, command, header, topics, now_ms)
    )


def _problem_of(topics: Mapping[str, bodies.TopicConfig]) -> str | None:
    return names_problem("a topic of the registration", topics) or queues_problem(topics)


def _begun(
    server: NameServer,
    connection: Connection,
    command: Command,
    header: headers.RegisterBrokerRequestHeader,
    topics: bodies.RegistrationTopics,
    now_ms: int,
) -> TopicRegistration | Command:
    silence_ms = header.heartbeat_timeout_millis or BROKER_EXPIRE_MS
    begun = server.table.begin_registration(
        header.cluster_name,
        header.broker_name,
        header.broker_id,
        header.broker_addr,
        topics.count,
        topics.data_version,
        now_ms,
        ha_address=header.ha_server_addr,
        timeout_ms=min(silence_ms, _MAX_SILENCE_MS),
        owner=connection,
        acting_master=header.enable_acting_master,
        zone=command.ext_fields.get(_ZONE_NAME),
    )
    if begun is None:
        remark = (
            f"broker {header.broker_name} is not known here yet: its first registration has to bring all its topics"
        )
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    if isinstance(begun, RegistrationResult):
        return _registered(server, command, header, begun)
    if begun.rival is not None:
        server.troubles.failed(
            ("rivals", header.broker_name, header.broker_id),
            "two brokers register as %s with id %d in turn, at %s and %s: messages go to the one that registered last; give one another "
            "brokerName",
            header.broker_name,
            header.broker_id,
            header.broker_addr,
            begun.rival,
        )
    return begun


async def _register_in_chunks(
    server: NameServer,
    connection: Connection,
    command: Command,
    header: headers.RegisterBrokerRequestHeader,
    topics: bodies.RegistrationTopics,
    now_ms: int,
) -> Command:
    """Register a broker: all topics are decoded and checked before the first is registered. Other requests are served between steps."""
    shares = []
    async for (share,) in in_chunks(topics.shares(CHUNK_SIZE), 1):
        problem = _problem_of(share)
        if problem is not None:
            return response(command, ResponseCode.INVALID_PARAMETER, problem)
        shares.append(share)
    if connection.is_closed:  # no event would remove the registration again
        return response(command)
    begun = _begun(server, connection, command, header, topics, now_ms)
    if isinstance(begun, Command):
        return begun
    async for (share,) in in_chunks(shares, 1):
        if not server.table.add_topics(begun, share):
            break
    result = server.table.finish_registration(begun, is_whole=not header.is_part)
    return _registered(server, command, header, result)


def _registered(
    server: NameServer, command: Command, header: headers.RegisterBrokerRequestHeader, result: RegistrationResult
) -> Command:
    name, address = header.broker_name, header.broker_addr
    server.troubles.over(address, "broker %s at %s is registered again", name, address)
    if result.lower_id is not None:
        server.notify_min_broker_id_change(result.lower_id)
    answer = headers.RegisterBrokerResponseHeader(
        ha_server_addr=result.ha_server_address or None, master_addr=result.master_address or None
    )
    orders = server.kv_config.namespace(ORDER_TOPIC_CONFIG)
    if orders is None or not server.config.return_order_topic_config_to_broker:
        return response(command, header=answer)
    return response(command, header=answer, body=bodies.KVTable(table=orders).encode())


@serves(requests.name_servers.UNREGISTER_BROKER)
def unregister_broker(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.UnRegisterBrokerRequestHeader)
    server.table.unregister(header.cluster_name, header.broker_name, header.broker_addr, now_ms)
    server.notify_min_broker_id_changes()
    return response(command)


@serves(requests.name_servers.QUERY_DATA_VERSION)
def query_data_version(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.QueryDataVersionRequestHeader)
    asked = bodies.DataVersion.of_request(command.body)
    known = server.table.touch(header.cluster_name, header.broker_addr, now_ms)
    body = known.encode() if known is not None else b""
    return response(command, header=headers.QueryDataVersionResponseHeader(changed=known != asked), body=body)


@serves(requests.name_servers.BROKER_HEARTBEAT)
def broker_heartbeat(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.BrokerHeartbeatRequestHeader)
    _given(command, brokerAddr=header.broker_addr)
    server.table.touch(header.cluster_name, header.broker_addr, now_ms)
    return response(command)


@serves(requests.name_servers.GET_BROKER_MEMBER_GROUP)
def broker_member_group(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.GetBrokerMemberGroupRequestHeader)
    group = bodies.BrokerMemberGroup(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_addrs=server.table.members(header.broker_name),
    )
    return response(command, body=bodies.GetBrokerMemberGroupResponseBody(broker_member_group=group).encode())


# -- clients ---------------------------------------------------------------------------------------------------------------------


@serves(requests.name_servers.GET_ROUTEINFO_BY_TOPIC)
def route(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.GetRouteInfoRequestHeader)
    config = server.config
    if config.need_wait_for_service and now_ms - server.start_ms < config.wait_seconds_for_service * 1000:
        # Not all brokers have registered yet: an incomplete route would move all load to the first of them.
        return response(command, ResponseCode.SYSTEM_ERROR, "name server not ready")
    order = server.kv_config.get(ORDER_TOPIC_CONFIG, header.topic) if config.order_message_enable else None
    found = server.table.route(header.topic, order)
    if found is None:
        remark = f"no broker has topic {header.topic}; create it, or check its name"
        return response(command, ResponseCode.TOPIC_NOT_EXIST, remark)
    # Clients from 4.9.4 on, and those that request it, get JSON with quoted keys; older Java clients cannot read that.
    standard = command.version >= Version.V4_9_4 or bool(header.accept_standard_json_only)
    return response(command, body=found.encode_standard() if standard else found.encode())


# -- administrators --------------------------------------------------------------------------------------------------------------


@serves(requests.name_servers.PUT_KV_CONFIG)
def put_kv_config(server: NameServer, connection: Connection, command: Command, now_ms: int) -> None:
    header = command.header(headers.PutKVConfigRequestHeader)
    server.kv_config.put(header.namespace, header.key, header.value)
    answer_when_saved(connection, command, response(command), server.kv_config.file.when_saved)


@serves(requests.name_servers.GET_KV_CONFIG)
def get_kv_config(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.GetKVConfigRequestHeader)
    value = server.kv_config.get(header.namespace, header.key)
    if value is None:
        remark = f"namespace {header.namespace} has no key {header.key}"
        return response(command, ResponseCode.QUERY_NOT_FOUND, remark)
    return response(command, header=headers.GetKVConfigResponseHeader(value=value))


@serves(requests.name_servers.DELETE_KV_CONFIG)
def delete_kv_config(server: NameServer, connection: Connection, command: Command, now_ms: int) -> None:
    header = command.header(headers.DeleteKVConfigRequestHeader)
    server.kv_config.delete(header.namespace, header.key)
    answer_when_saved(connection, command, response(command), server.kv_config.file.when_saved)


@serves(requests.name_servers.GET_KVLIST_BY_NAMESPACE)
def kv_list(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    namespace = command.header(headers.GetKVListByNamespaceRequestHeader).namespace
    table = server.kv_config.namespace(namespace)
    if table is None:
        return response(command, ResponseCode.QUERY_NOT_FOUND, f"there is no namespace {namespace}")
    return response(command, body=bodies.KVTable(table=table).encode())


@serves(requests.name_servers.GET_BROKER_CLUSTER_INFO)
def cluster_info(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    return response(command, body=server.table.cluster_info(now_ms).encode())


@serves(requests.name_servers.WIPE_WRITE_PERM_OF_BROKER)
def wipe_write_perm(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    count = server.table.wipe_write_perm(command.header(headers.WipeWritePermOfBrokerRequestHeader).broker_name)
    return response(command, header=headers.WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))


@serves(requests.name_servers.ADD_WRITE_PERM_OF_BROKER)
def add_write_perm(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    count = server.table.add_write_perm(command.header(headers.AddWritePermOfBrokerRequestHeader).broker_name)
    return response(command, header=headers.AddWritePermOfBrokerResponseHeader(add_topic_count=count))


@serves(requests.name_servers.DELETE_TOPIC_IN_NAMESRV)
def delete_topic(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.DeleteTopicFromNamesrvRequestHeader)
    server.table.delete_topic(header.topic, header.cluster_name or None)
    return response(command)


@serves(requests.name_servers.REGISTER_TOPIC_IN_NAMESRV)
def register_topic(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    header = command.header(headers.RegisterTopicRequestHeader)
    _given(command, topic=header.topic)
    if command.body:  # queues of an unknown broker are ignored silently, as in Apache
        queue_datas = bodies.TopicRouteData.of_request(command.body).queue_datas
        problem = next(filter(None, (queues_problem({header.topic: data}) for data in queue_datas)), None)
        if problem is not None:
            return response(command, ResponseCode.INVALID_PARAMETER, problem)
        server.table.register_topic(header.topic, queue_datas)
    return response(command)


@serves(requests.name_servers.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
def all_topics(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    if not server.config.enable_all_topic_list:
        remark = "the list of topics is disabled here (enableAllTopicList)"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    return _list_in_a_frame(command, server.table.topics())


@serves(requests.name_servers.GET_TOPICS_BY_CLUSTER)
def topics_of_cluster(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    cluster = command.header(headers.GetTopicsByClusterRequestHeader).cluster
    return _topic_list(server, command, lambda: server.table.topics_of_cluster(cluster))


@serves(requests.name_servers.GET_SYSTEM_TOPIC_LIST_FROM_NS)
def system_topics(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    topics, address = server.table.system_topics()
    return response(command, body=bodies.TopicList(topic_list=topics, broker_addr=address).encode())


@serves(requests.name_servers.GET_UNIT_TOPIC_LIST)
def unit_topics(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    return _topic_list(server, command, lambda: server.table.topics_with_flag(UNIT_FLAG))


@serves(requests.name_servers.GET_HAS_UNIT_SUB_TOPIC_LIST)
def unit_sub_topics(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    return _topic_list(server, command, lambda: server.table.topics_with_flag(UNIT_SUB_FLAG))


@serves(requests.name_servers.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
def unit_sub_ununit_topics(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    return _topic_list(server, command, lambda: server.table.topics_with_flag(UNIT_SUB_FLAG, UNIT_FLAG))


@serves(requests.name_servers.UPDATE_NAMESRV_CONFIG)
def update_config(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    too_long = settings_length_problem(len(command.body))
    if too_long is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, too_long)
    try:
        changes = parse_properties(bytes(command.body).decode())
    except UnicodeDecodeError:
        return response(command, ResponseCode.SYSTEM_ERROR, "the body is not text in UTF-8; send key=value lines")
    if server.config.is_black_listed(changes):
        return response(command, ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    problem = settings_problem(changes)
    if problem is not None:
        return response(command, ResponseCode.INVALID_PARAMETER, problem)
    try:
        server.update_config(changes)
    except ConfigurationError as error:
        return response(command, ResponseCode.SYSTEM_ERROR, str(error))
    except StoreError as error:
        return not_saved(command, error)
    return response(command)


@serves(requests.name_servers.GET_NAMESRV_CONFIG)
def get_config(server: NameServer, connection: Connection, command: Command, now_ms: int) -> Command:
    return response(command, body=format_properties(server.config.without_secrets()).encode())


def _topic_list(server: NameServer, command: Command, topics: Callable[[], list[str]]) -> Command:
    if not server.config.enable_topic_list:
        remark = "lists of topics are disabled here (enableTopicList)"
        return response(command, ResponseCode.SYSTEM_ERROR, remark)
    return _list_in_a_frame(command, topics())


def _list_in_a_frame(command: Command, topics: list[str]) -> Command:
    instead = "ask for the topics of one cluster (GET_TOPICS_BY_CLUSTER) or broker (GET_ALL_TOPIC_CONFIG)"
    return answer_in_a_frame(command, None, bodies.TopicList(topic_list=topics).encode(), instead)


def _given(command: Command, **fields: str) -> None:
    for name, value in fields.items():
        if not value:
            raise ProtocolError(f"request code {command.code}: {name} is empty")


def changing_codes() -> frozenset[int]:
    """The requests of brokers and administrators; all other requests are open to any client."""
    return frozenset(int(one.code) for one in requests.served_by(Peer.NAME_SERVER) if one.access != ANY_ADDRESS)
