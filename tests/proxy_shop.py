# SPDX-License-Identifier: Apache-2.0
"""What administration, command line and console do at a proxy: tables of all requests, commands and pages. Tests run them at embedded
servers and at Apache's."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import sprocketmq as rmq
from cli_run import CommandLine
from console_server import RunningConsole
from sprocketmq.wire import bodies
from sprocketmq.wire.records.message_id import offset_message_id

DEADLINE_S = 120
TOPIC, IDLE, ONLINE = "orders", "idle", "billing"
QUEUE = rmq.MessageQueue(TOPIC, "broker-b", 1)


@dataclass
class Shop:
    """Two brokers behind one proxy: messages in all queues of a topic, a group that is online and has a dead letter, two that are not.

    Args:
        names: what the commands mention.
    """

    proxy_addr: str
    at_brokers: rmq.Admin
    at_proxy: rmq.Admin
    member: rmq.PushConsumer
    line: CommandLine
    names: dict[str, str]

    @property
    def message(self) -> rmq.MessageExt:
        found = self.at_brokers.message_at(QUEUE, 0)
        assert found is not None
        return found

    def stored(self) -> Any:
        """What a request could have changed."""
        admin = self.at_brokers
        return (
            [topic for topic in admin.topics() if not topic.startswith("%")],  # members make retry topics
            admin.topic_config(TOPIC),
            admin.groups(),
            admin.group_config(IDLE),
            [at.consumer_offset for at in admin.consumer_progress(IDLE, TOPIC).values()],
            admin.broker_config("broker-a"),
            admin.kv_configs("space"),
        )

    def check_same(self, name: str) -> None:
        """A request has the same result as at the brokers."""
        found = []
        for admin in (self.at_proxy, self.at_brokers):
            for queue in self.at_brokers.queues(TOPIC):
                self.at_brokers.set_consumer_offset(IDLE, queue, 2)
            found.append(SAME[name](admin, self))
        assert found[0] == found[1]
        assert found[0] is not None

    def check_not_served(self, name: str) -> None:
        """A request raises its sentence."""
        with pytest.raises(rmq.RequestNotServed) as raised:
            NOT_SERVED[name](self.at_proxy, self)
        assert re.match(rf"the proxy at {self.proxy_addr} does not serve [A-Z0-9_]+; \S", str(raised.value))
        assert raised.value.address == self.proxy_addr

    def check_works(self, command: str) -> None:
        """A command prints what it should, and notes at most."""
        ended = self.line.ok(command.format(**self.names))
        assert re.search(WORKS[command], ended.out, re.MULTILINE), ended
        assert all(note.startswith("sprocketmq: ") for note in ended.err.splitlines()), ended.err

    def check_fails(self, command: str) -> None:
        """A command says in one sentence why it does not work."""
        ended = self.line.run(command.format(**self.names))
        assert ended.code == 1, ended
        assert FAILS[command] in ended.err, ended
        assert len(ended.err.splitlines()) == 1, ended.err
        assert self.proxy_addr in ended.err or "Apache's proxy" in ended.err

    def check_page(
        self, console: RunningConsole, path: str, parameters: dict[str, str], shown: tuple[str, ...]
    ) -> None:
        """A page shows what is known, and says why the rest is not."""
        held = sum(one.max_offset - one.min_offset for one in self.at_brokers.topic_stats(TOPIC).values())
        text = console.page(path, **{name: value.format(proxy=self.proxy_addr) for name, value in parameters.items()})
        for part in shown:
            assert part.format(proxy=self.proxy_addr, held=held) in text, text
        for false in ("came with RocketMQ 5", "does not answer", "The console failed"):
            assert false not in text


@contextmanager
def open_shop(namesrv_addr: str, proxy_addr: str, folder: Path) -> Iterator[Shop]:
    """Fill the brokers at ``namesrv_addr``; both topics are there already."""
    (folder / "messages.jsonl").write_text('{"body": "a"}\n{"body": "b"}\n')
    sent: list[rmq.SendResult] = []
    with (
        rmq.Admin(namesrv_addr=namesrv_addr) as at_brokers,
        rmq.Admin(namesrv_addr=proxy_addr) as at_proxy,
        rmq.DeadLetters(ONLINE, namesrv_addr=proxy_addr) as letters,
    ):
        for group in (ONLINE, IDLE, "copy"):
            at_brokers.create_group(group)
        with rmq.Producer("shop", namesrv_addr=proxy_addr) as producer:
            for queue in at_brokers.queues(TOPIC):
                for number in range(3):
                    message = rmq.Message(TOPIC, b"first %d" % number, tags="odd" if number % 2 else "even")
                    sent.append(producer.send(message, queue=queue))
                at_brokers.set_consumer_offset(IDLE, queue, 2)
            producer.send(rmq.Message(TOPIC, b"bad", tags="bad"), queue=rmq.MessageQueue(TOPIC, "broker-a", 0))
        member = rmq.PushConsumer(
            ONLINE,
            namesrv_addr=proxy_addr,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            persist_consumer_offset_interval_ms=100,
        )
        member.subscribe(TOPIC)

        @member.on_message
        def take(message: rmq.MessageExt) -> None:
            if message.tags == "bad":
                raise rmq.DeadLetter("no such account")

        names = {"id": sent[0].message_id, "stored": sent[0].offset_message_id, "file": str(folder / "messages.jsonl")}
        with member:
            deadline = time.monotonic() + DEADLINE_S
            while letters.count() != 1 or at_brokers.lag(ONLINE, TOPIC):
                assert time.monotonic() < deadline, "the messages are not consumed"
                time.sleep(0.05)
            names["letter"] = next(letters.read()).message_id
            line = CommandLine(proxy_addr, {"SPROCKETMQ_CONTEXTS": str(folder / "contexts.json")})
            yield Shop(proxy_addr, at_brokers, at_proxy, member, line, names)


# -- requests of Admin ------------------------------------------------------------------------------------------------------------

# A stored message at a broker that only the proxy reaches.
AWAY = offset_message_id((b"\x7f\0\0\1", 1), 0)

Call = Callable[[rmq.Admin, Shop], Any]


def _reset_offset(admin: rmq.Admin, at: Shop) -> int | None:
    admin.reset_offset(IDLE, QUEUE, 1)
    return at.at_brokers.consumer_offset(IDLE, QUEUE)


def _set_consumer_offset(admin: rmq.Admin, at: Shop) -> int | None:
    admin.set_consumer_offset(IDLE, QUEUE, 2)
    return at.at_brokers.consumer_offset(IDLE, QUEUE)


SAME: dict[str, Call] = {
    "allocate": lambda admin, at: admin.allocate(TOPIC, ["a", "b"]),
    "clone_offsets": lambda admin, at: admin.clone_offsets(IDLE, "copy", TOPIC),
    "consume_time_span": lambda admin, at: [
        (span.message_queue, span.min_time_stamp, span.max_time_stamp, span.consume_time_stamp, span.delay_time > 0)
        for span in admin.consume_time_span(TOPIC, IDLE)
    ],
    "consumer_connection": lambda admin, at: admin.consumer_connection(ONLINE),
    "consumer_ids": lambda admin, at: admin.consumer_ids(ONLINE),
    "consumer_offset": lambda admin, at: admin.consumer_offset(IDLE, QUEUE),
    "consumer_progress": lambda admin, at: admin.consumer_progress(IDLE, TOPIC),
    "decode_message_id": lambda admin, at: admin.decode_message_id(AWAY),
    "earliest_store_time_ms": lambda admin, at: admin.earliest_store_time_ms(QUEUE),
    "lag": lambda admin, at: admin.lag(IDLE, TOPIC),
    "max_offset": lambda admin, at: admin.max_offset(QUEUE),
    "message_at": lambda admin, at: (found := admin.message_at(QUEUE, 1)) and found.offset_message_id,
    "min_offset": lambda admin, at: admin.min_offset(QUEUE),
    "offset_by_time": lambda admin, at: admin.offset_by_time(QUEUE, at.message.store_timestamp_ms + 1),
    "queues": lambda admin, at: admin.queues(TOPIC),
    "read_messages": lambda admin, at: [one.offset_message_id for one in admin.read_messages(QUEUE, expression="even")],
    "read_onward": lambda admin, at: admin.read_onward(dict.fromkeys(admin.queues(TOPIC), 0))[1],
    "reset_offset": _reset_offset,
    "reset_offset_by_time": lambda admin, at: admin.reset_offset_by_time(
        IDLE, TOPIC, at.message.store_timestamp_ms + 1
    ),
    "set_consumer_offset": _set_consumer_offset,
    "skip_accumulated": lambda admin, at: admin.skip_accumulated(IDLE, TOPIC),
    "speaks_5x": lambda admin, at: admin.speaks_5x("broker-a"),
    "subscription": lambda admin, at: (subscription := admin.subscription(ONLINE, TOPIC)) and subscription.sub_string,
    "topic_clusters": lambda admin, at: admin.topic_clusters(TOPIC),
    "topic_stats": lambda admin, at: (admin.topic_stats(TOPIC), admin.topic_stats(TOPIC, broker="broker-b")),
}
# What is known there is less, or is about the proxy.
LESS: dict[str, Call] = {
    "diagnose_group": lambda admin, at: admin.diagnose_group(ONLINE, watch_ms=0),
    "name_servers": lambda admin, at: admin.name_servers,
    "proxy": lambda admin, at: admin.proxy(),
    "route": lambda admin, at: admin.route(TOPIC),
}
NOT_SERVED: dict[str, Call] = {
    "account_versions": lambda admin, at: admin.account_versions("broker-a"),
    "acl": lambda admin, at: admin.acl("broker-a", "User:ann"),
    "acls": lambda admin, at: admin.acls("broker-a"),
    "add_write_perm": lambda admin, at: admin.add_write_perm("broker-a"),
    "alter_group": lambda admin, at: admin.alter_group(IDLE, retry_max_times=1),
    "alter_topic": lambda admin, at: admin.alter_topic(TOPIC, perm=4),
    "broker_config": lambda admin, at: admin.broker_config("broker-a"),
    "broker_consume_stats": lambda admin, at: admin.broker_consume_stats("broker-a"),
    "broker_runtime_info": lambda admin, at: admin.broker_runtime_info("broker-a"),
    "broker_stats": lambda admin, at: admin.broker_stats("broker-a", "TOPIC_PUT_NUMS", TOPIC),
    "brokers": lambda admin, at: admin.brokers(),
    "clean_expired_consume_queues": lambda admin, at: admin.clean_expired_consume_queues(),
    "clean_unused_topics": lambda admin, at: admin.clean_unused_topics(),
    "cluster_info": lambda admin, at: admin.cluster_info(),
    "consume_directly": lambda admin, at: admin.consume_directly(ONLINE, "x", AWAY),
    "consume_queue": lambda admin, at: admin.consume_queue(QUEUE),
    "consume_status": lambda admin, at: admin.consume_status(TOPIC, ONLINE),
    "consumers_of": lambda admin, at: admin.consumers_of(TOPIC),
    "copy_acls": lambda admin, at: admin.copy_acls("broker-a", "broker-b"),
    "copy_users": lambda admin, at: admin.copy_users("broker-a", "broker-b"),
    "create_acl": lambda admin, at: admin.create_acl("User:ann", ["Topic:*"], ["Pub"]),
    "create_group": lambda admin, at: admin.create_group("new"),
    "create_groups": lambda admin, at: admin.create_groups([bodies.SubscriptionGroupConfig("new")]),
    "create_topic": lambda admin, at: admin.create_topic("new"),
    "create_topics": lambda admin, at: admin.create_topics([bodies.TopicConfig("new")]),
    "create_user": lambda admin, at: admin.create_user("ann", "secret"),
    "delete_account": lambda admin, at: admin.delete_account("ann"),
    "delete_acl": lambda admin, at: admin.delete_acl("User:ann"),
    "delete_expired_commit_logs": lambda admin, at: admin.delete_expired_commit_logs(),
    "delete_group": lambda admin, at: admin.delete_group(IDLE, remove_offsets=True),
    "delete_kv_config": lambda admin, at: admin.delete_kv_config("space", "key"),
    "delete_order_conf": lambda admin, at: admin.delete_order_conf(TOPIC),
    "delete_topic": lambda admin, at: admin.delete_topic(TOPIC),
    "delete_user": lambda admin, at: admin.delete_user("ann"),
    "export_metadata": lambda admin, at: admin.export_metadata("broker-a"),
    "group_config": lambda admin, at: admin.group_config(IDLE),
    "gone_brokers": lambda admin, at: admin.gone_brokers(),
    "group_configs": lambda admin, at: admin.group_configs("broker-a"),
    "group_readable": lambda admin, at: admin.group_readable(IDLE, TOPIC, False),
    "group_summaries": lambda admin, at: admin.group_summaries(),
    "groups": lambda admin, at: admin.groups(),
    "ha_status": lambda admin, at: admin.ha_status("broker-a"),
    "kv_config": lambda admin, at: admin.kv_config("space", "key"),
    "kv_configs": lambda admin, at: admin.kv_configs("space"),
    "message_trace": lambda admin, at: admin.message_trace("id", trace_topic=TOPIC),
    "message_track": lambda admin, at: admin.message_track(at.message),
    "messages_by_key": lambda admin, at: admin.messages_by_key(TOPIC, "key"),
    "messages_by_unique_key": lambda admin, at: admin.messages_by_unique_key(TOPIC, "id"),
    "namesrv_config": lambda admin, at: admin.namesrv_config(),
    "order_conf": lambda admin, at: admin.order_conf(TOPIC),
    "producer_connection": lambda admin, at: admin.producer_connection("shop", TOPIC),
    "producers": lambda admin, at: admin.producers("broker-a"),
    "put_kv_config": lambda admin, at: admin.put_kv_config("space", "key", "value"),
    "resume_half_message": lambda admin, at: admin.resume_half_message(TOPIC, AWAY),
    "running_info": lambda admin, at: admin.running_info(ONLINE, at.member.client_id),
    "running_infos": lambda admin, at: admin.running_infos(ONLINE),
    "set_consume_mode": lambda admin, at: admin.set_consume_mode(TOPIC, IDLE, "POP"),
    "set_order_conf": lambda admin, at: admin.set_order_conf(TOPIC, {"broker-a": 1}),
    "set_topic_perm": lambda admin, at: admin.set_topic_perm(TOPIC, 4),
    "system_topics": lambda admin, at: admin.system_topics(),
    "topic_config": lambda admin, at: admin.topic_config(TOPIC),
    "topic_configs": lambda admin, at: admin.topic_configs("broker-a"),
    "topic_summaries": lambda admin, at: admin.topic_summaries(),
    "topic_traffic": lambda admin, at: admin.topic_traffic(TOPIC),
    "topics": lambda admin, at: admin.topics(),
    "topics_of_group": lambda admin, at: admin.topics_of_group(ONLINE),
    "update_account": lambda admin, at: admin.update_account("ann", "secret12"),
    "update_acl": lambda admin, at: admin.update_acl("User:ann", ["Topic:*"], ["Pub"]),
    "update_broker_config": lambda admin, at: admin.update_broker_config({"maxMessageSize": 1024}, broker="broker-a"),
    "update_global_white_addresses": lambda admin, at: admin.update_global_white_addresses(["10.0.0.1"]),
    "update_namesrv_config": lambda admin, at: admin.update_namesrv_config({"x": "y"}),
    "update_user": lambda admin, at: admin.update_user("ann", user_status="disable"),
    "user": lambda admin, at: admin.user("broker-a", "ann"),
    "users": lambda admin, at: admin.users("broker-a"),
    "view_message": lambda admin, at: admin.view_message(AWAY),
    "wipe_write_perm": lambda admin, at: admin.wipe_write_perm("broker-a"),
    "waiting_retries": lambda admin, at: admin.waiting_retries(),
}
# Apache's proxy keeps heartbeats, so its brokers do not know the members.
OF_MEMBERS = {"consumer_connection", "consumer_ids", "subscription"}


# -- commands ----------------------------------------------------------------------------------------------------------------------

# What works there, with a part of what is printed. {id} is a stored message, {letter} a dead letter, {file} holds messages.
WORKS = {
    "send orders again --key k --tag even": r"^sent \w+ to orders/broker-[ab]/\d offset \d$",
    "send later x --delay 7s": r"^sent \w+ to later, at its time$",
    "send orders --file {file} --batch 2": r"^2 sent to orders$",
    "tail orders --last 2": r"\A(.+\n){2}\Z",
    "tail orders --from-beginning --tag even": r"\[even\] .*first",
    "message find orders --queue broker-b/1 --offset 0 --json": r'"body": "first 0"',
    "message find orders --since 1h": r"first 0",
    "dead-letters list billing": r"group billing has \d dead letters?$",
    "dead-letters show billing {letter}": r"^from topic +orders$",
    "dead-letters replay billing --all": r"^\d replayed; ",
    "topic show orders": r"(?s)^messages +\d+$.*^broker-b +2 +2 +rw +unknown +unknown$.*^broker-b +1 +0 +\d",
    "group show billing": r"(?s)^lag +\d+$.*^orders +4 +\d+ +\*$",
    "group members billing": r"PYTHON",
    "group reset idle --topic orders --to earliest --yes": r"^group idle continues in orders at earliest: ",
    "group reset idle --topic orders --queue broker-b/1 --offset 1 --yes": r"^group idle continues in queue orders/broker-b/1 at ",
    "group clone idle copy --topic orders --yes": r"^copied the offsets of group idle to group copy, in 4 queues$",
    "lag billing": r"^lag of billing: \d+",
    "lag idle --topic orders": r"^lag of idle: [1-9]\d*, the oldest for ",
    "bench orders --messages 20 --group copy": r"^consume +20 ",
    "bench orders --messages 20 --no-consume": r"^send +20 ",
}
# What does not, with a part of the sentence.
FAILS = {
    "request orders x --wait 1s": "passes no replies on; use a topic for the answers",
    "message find orders --key k": "does not serve QUERY_MESSAGE; read its queue from an offset or a time on",
    "message find orders --id {id}": "does not serve QUERY_MESSAGE; ",
    "message show {id} --topic orders": "finds no message by its id; sprocketmq message find TOPIC --queue",
    "message show {stored}": "finds no message by its id; ",
    "message track {id} --topic orders": "finds no message by its id; ",
    "message redeliver {id} --topic orders --group billing": "finds no message by its id; ",
    "message trace {id} --trace-topic orders": "does not serve QUERY_MESSAGE; ",
    "dead-letters list": "does not serve GET_ALL_TOPIC_LIST_FROM_NAMESERVER; name each topic",
    "dead-letters purge billing --yes": "does not serve DELETE_TOPIC_IN_BROKER; ",
    "topic list": "does not serve GET_ALL_TOPIC_LIST_FROM_NAMESERVER; ",
    "topic create new": "does not serve ",
    "topic alter orders --queues 4": "does not serve ",
    "topic alter orders --type FIFO": "does not serve ",
    "topic perm orders r": "does not serve ",
    "topic delete orders --yes": "does not serve ",
    "group list": "does not serve ",
    "group create new": "does not serve ",
    "group alter billing --disable": "does not serve ",
    "group delete billing --yes": "does not serve ",
    "group stack billing": "does not serve GET_CONSUMER_RUNNING_INFO; ",
    "group reset billing --topic orders --to earliest --yes": "members of group 'billing' are online (",
    "lag idle": "so name the topic",
    "bench": "give a TOPIC, and --group or --no-consume",
    "bench orders": "give a TOPIC, and --group or --no-consume",
    "broker list": "does not serve ",
    "broker show broker-a": "does not serve ",
    "broker config get broker-a": "does not serve ",
    "broker config set broker-a maxMessageSize=1024": "does not serve ",
    "broker drain broker-a --yes": "does not serve ",
    "user list": "does not serve ",
    "user show ann": "does not serve ",
    "user create ann --password-file {file}": "does not serve ",
    "user alter ann --disable": "does not serve ",
    "user delete ann --yes": "does not serve ",
    "acl list": "does not serve ",
    "acl show ann": "does not serve ",
    "acl set ann allow Pub Topic:orders": "does not serve ",
    "acl delete ann --yes": "does not serve ",
}


# -- pages of the console -------------------------------------------------------------------------------------------------------------

PLACE = {"topic": "orders", "broker": "broker-b", "queue": "1", "offset": "0"}
# Path, parameters, what the page shows. {proxy} is the address of the proxy.
PAGES: tuple[tuple[str, dict[str, str], tuple[str, ...]], ...] = (
    ("/", {}, ("It lists no groups, topics and brokers", 'placeholder="Name of a group"')),
    ("/overview/live", {}, ("It lists no groups",)),
    ("/groups", {}, ('placeholder="Name of a group"',)),
    ("/topics", {}, ("the proxy at {proxy} lists no topics; open one by its name", 'placeholder="Name of a topic"')),
    (
        "/topic",
        {"name": "orders"},
        ('<dd class="big">{held}</dd>', "broker-a", "broker-b", "does not serve GET_TOPIC_CONFIG"),
    ),
    ("/topic/traffic", {"name": "orders"}, ("does not serve VIEW_BROKER_STATS_DATA",)),
    ("/group", {"name": "billing"}, ("Its dead letters",)),
    ("/group/verdict", {"name": "billing"}, ("whether the group may consume, and how many retries wait",)),
    ("/group/verdict", {"name": "idle"}, ("no member of group idle is connected to the proxy at {proxy}",)),
    ("/group/members", {"name": "billing"}, ("Members (1)", "PYTHON", "does not serve GET_CONSUMER_RUNNING_INFO")),
    ("/group/members", {"name": "idle"}, ("No member is connected to the proxy at {proxy}",)),
    ("/group/stack", {"name": "billing", "client": "x", "broker": "{proxy}"}, ("GET_CONSUMER_RUNNING_INFO",)),
    ("/messages", {}, ("Find a message",)),
    ("/messages", {"topic": "orders", "q": "k", "by": "key"}, ("does not serve QUERY_MESSAGE; read its queue",)),
    ("/messages", {"topic": "orders", "q": "X", "by": "id"}, ("does not serve QUERY_MESSAGE; read its queue",)),
    ("/messages", {"topic": "orders", "q": "2020-01-01", "by": "time"}, ("broker-a/0 at 0", "broker-b/1 at 0")),
    ("/messages", {"topic": "orders", "q": "noon", "by": "time"}, ("milliseconds since 1970 are allowed",)),
    ("/message", PLACE, ("first 0",)),
    ("/message/fate", PLACE, ("does not serve QUERY_MESSAGE", "does not serve QUERY_TOPIC_CONSUME_BY_WHO")),
    ("/dead-letters", {}, ("does not tell which groups have dead letters", 'placeholder="Name of a group"')),
    ("/dead-letters", {"group": "billing"}, ("no such account",)),
    ("/brokers", {}, ("does not serve GET_BROKER_CLUSTER_INFO",)),
    ("/access", {}, ("does not serve AUTH_LIST_USER", "does not serve AUTH_LIST_ACL")),
)
