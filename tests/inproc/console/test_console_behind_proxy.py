# SPDX-License-Identifier: Apache-2.0
"""Each page of the console at a proxy: it shows what can be known, and says why the rest cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import sprocketmq as rmq
from console_server import RunningConsole
from embedded_proxy import embedded_proxy, second_broker_of
from sprocketmq.console.app import make_app
from sprocketmq.testing import EmbeddedRocketMQ

PLACE = {"topic": "orders", "broker": "broker-b", "queue": "1", "offset": "0"}
# Path, parameters, what the page shows. {proxy} is the address of the proxy.
PAGES: tuple[tuple[str, dict[str, str], tuple[str, ...]], ...] = (
    ("/", {}, ("It lists no groups, topics and brokers", 'placeholder="Name of a group"')),
    ("/overview/live", {}, ("It lists no groups",)),
    ("/topics", {}, ("the proxy at {proxy} lists no topics; open one by its name", 'placeholder="Name of a topic"')),
    (
        "/topic",
        {"name": "orders"},
        ('<dd class="big">5</dd>', "broker-a", "broker-b", "does not serve GET_TOPIC_CONFIG"),
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
    ("/messages", {"topic": "orders", "q": "2020-01-01", "by": "time"}, ("broker-a/0 at 0", "broker-b/1 at 1", "bad")),
    ("/messages", {"topic": "orders", "q": "noon", "by": "time"}, ("milliseconds since 1970 are allowed",)),
    ("/message", PLACE, ("first 1",)),
    ("/message/fate", PLACE, ("does not serve QUERY_MESSAGE", "does not serve QUERY_TOPIC_CONSUME_BY_WHO")),
    ("/dead-letters", {}, ("does not tell which groups have dead letters", 'placeholder="Name of a group"')),
    ("/dead-letters", {"group": "billing"}, ("no such account",)),
    ("/brokers", {}, ("does not serve GET_BROKER_CLUSTER_INFO",)),
    ("/access", {}, ("does not serve AUTH_LIST_USER", "does not serve AUTH_LIST_ACL")),
)
# Files, streams and changes; tests below have some of them.
OTHERS = {
    "/events",
    "/group/live",
    "/group/history",
    "/topic/tail",
    "/topic/send",
    "/message/body",
    "/dead-letter",
    "/dead-letters/replay",
    "/broker",
    "/sign-in",
    "/sign-out",
    "/static",
}


@dataclass
class Shop:
    console: RunningConsole
    proxy_addr: str


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with (
        EmbeddedRocketMQ(clock="system") as rocketmq,
        second_broker_of(rocketmq) as second,
        embedded_proxy(rocketmq, [rocketmq.broker, second]) as proxy_addr,
        rmq.Admin(namesrv_addr=rocketmq.namesrv_addr) as at_brokers,
    ):
        at_brokers.create_topic("orders", queues=2)
        for group in ("billing", "idle"):
            at_brokers.create_group(group)
        with rmq.Producer("shop", namesrv_addr=proxy_addr) as producer:
            for number, queue in enumerate(at_brokers.queues("orders")):
                producer.send(rmq.Message("orders", b"first %d" % (number % 2)), queue=queue)
                at_brokers.set_consumer_offset("idle", queue, 0)
            producer.send(rmq.Message("orders", b"bad", tags="bad"), queue=queue)
        member = rmq.PushConsumer(
            "billing",
            namesrv_addr=proxy_addr,
            consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            persist_consumer_offset_interval_ms=100,
        )
        member.subscribe("orders")

        @member.on_message
        def take(message: rmq.MessageExt) -> None:
            if message.tags == "bad":
                raise rmq.DeadLetter("no such account")

        with member, RunningConsole(proxy_addr, allow_changes=True) as console:
            console.until("no such account", "/dead-letters", group="billing")
            yield Shop(console, proxy_addr)


def test_each_page_is_in_the_table(shop: Shop) -> None:
    app = make_app(shop.console.server._parts)
    assert {route.path for route in app.routes} == {path for path, _, _ in PAGES} | OTHERS


@pytest.mark.parametrize(("path", "parameters", "shown"), PAGES)
def test_a_page_shows_what_is_known_and_says_why_the_rest_is_not(
    shop: Shop, path: str, parameters: dict[str, str], shown: tuple[str, ...]
) -> None:
    text = shop.console.page(path, **{name: value.format(proxy=shop.proxy_addr) for name, value in parameters.items()})
    for part in shown:
        assert part.format(proxy=shop.proxy_addr) in text
    assert "came with RocketMQ 5" not in text
    assert "does not answer" not in text
    assert "The console failed" not in text


def test_the_lag_of_an_opened_group_is_watched(shop: Shop) -> None:
    console = shop.console
    console.page("/group", name="billing")
    console.until('<dd class="big">4</dd>', "/group/live", name="billing")  # queues, those of both brokers once
    console.page("/group", name="idle")
    console.until("so name the topic", "/group/live", name="idle")
    console.page("/group", name="idle", topic="orders")
    console.until('<dd class="big">5</dd>', "/group/live", name="idle")
    overview = console.until(f"no member of group idle is connected to the proxy at {shop.proxy_addr}", "/")
    assert "billing" in overview
    assert "In the last" in console.page("/group/history", name="idle")


def test_messages_are_sent_and_dead_letters_sent_again(shop: Shop) -> None:
    console = shop.console
    letters = console.page("/dead-letters", group="billing")
    letter = re.search(r'name="letter" value="([^"]+)"', letters)
    assert letter is not None
    assert "sent to orders" in console.post("/dead-letters/replay", group="billing", letter=letter[1]).text
    assert "stored in" in console.post("/topic/send", topic="orders", body="by hand").text


def test_the_page_of_a_broker_says_why_there_is_none(shop: Shop) -> None:
    answer = shop.console.browser.get("/broker", params={"name": "broker-a"})
    assert answer.status_code == 504
    assert "does not serve GET_BROKER_CLUSTER_INFO" in answer.text
