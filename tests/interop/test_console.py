# SPDX-License-Identifier: Apache-2.0
"""The web console at Apache's brokers: each page, and both changes."""

from __future__ import annotations

import itertools
import re
import threading

import pytest

import sprocketmq as rmq
from console_server import RunningConsole
from interop.peers import APACHE_4, ApacheCluster

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
_numbers = itertools.count()


class Shop:
    """A topic with messages, a group whose listener hangs, and one that gives up."""

    def __init__(self, apache: ApacheCluster) -> None:
        number = next(_numbers)
        self.topic, self.stuck, self.failing = f"shop-{number}", f"stuck-{number}", f"failing-{number}"
        self.gate = threading.Event()
        with rmq.Admin(namesrv_addr=apache.namesrv_addr) as admin:
            admin.create_topic(self.topic, queues=1)
            for group in (self.stuck, self.failing):
                admin.create_group(group)
        with rmq.Producer("shop", namesrv_addr=apache.namesrv_addr) as producer:
            self.sent = [producer.send(rmq.Message(self.topic, b'{"n": 1}', keys="order-1")) for _ in range(3)]
        self.members = [
            rmq.PushConsumer(group, namesrv_addr=apache.namesrv_addr, consume_from_where=FIRST)
            for group in (self.stuck, self.failing)
        ]
        for member, listener in zip(self.members, (self.hang, self.give_up), strict=True):
            member.subscribe(self.topic)
            member.on_message(listener)

    def hang(self, message: rmq.MessageExt) -> None:
        self.gate.wait(120)

    def give_up(self, message: rmq.MessageExt) -> None:
        raise rmq.DeadLetter("no account")


@pytest.fixture
def shop(apache: ApacheCluster):
    shop = Shop(apache)
    with shop.members[0], shop.members[1]:
        yield shop
        shop.gate.set()


def test_each_page_and_each_change(apache, shop):
    with RunningConsole(apache.namesrv_addr, allow_changes=True) as console:
        letters = console.until('name="letter"', "/dead-letters", group=shop.failing)
        assert "no account" in letters
        console.until(shop.failing, "/dead-letters")
        console.until("listener fails", "/group/verdict", name=shop.failing)
        overview = console.until("fails more often", "/", q=shop.failing)
        assert "needs attention" in overview

        console.until('<dd class="big">3</dd>', "/group/live", name=shop.stuck)
        members = console.page("/group/members", name=shop.stuck)
        assert "PYTHON" in members
        assert f"{shop.topic}</a>" in members
        stack = re.search(r"/group/stack\?([^\"]+)", members)
        assert "hang" in console.browser.get(f"/group/stack?{stack[1].replace('&amp;', '&')}").text

        assert '<td class="n">3</td>' in console.page("/topics", q=shop.topic)
        assert '<dd class="big">3</dd>' in console.page("/topic", name=shop.topic)
        assert shop.failing in console.page("/topic/traffic", name=shop.topic)
        queue = shop.sent[0].message_queue
        place = {"topic": shop.topic, "broker": queue.broker_name, "queue": queue.queue_id, "offset": 0}
        assert shop.sent[0].message_id in console.page("/message", **place)
        assert "dead letter</a>" in console.page("/message/fate", **place)
        for wanted in (
            {"topic": shop.topic, "q": shop.sent[0].message_id, "by": "id"},
            {"q": shop.sent[0].offset_message_id, "by": "id"},
            {"topic": shop.topic, "q": "order-1", "by": "key"},
        ):
            found = console.until(" found</h2>", "/messages", **wanted)
            assert (
                console.browser.get(re.search(r'href="(/message\?[^"]+)"', found)[1].replace("&amp;", "&")).status_code
                == 200
            )
        assert queue.broker_name in console.page("/brokers")
        broker = console.page("/broker", name=queue.broker_name, id="0")
        assert "brokerName" in broker
        assert ("came with RocketMQ 5" in broker) is (apache.version == APACHE_4)
        assert ("plain_acl.yml" in console.page("/access")) is (apache.version == APACHE_4)

        letter = re.search(r'name="letter" value="([^"]+)"', letters)[1]
        again = console.post("/dead-letters/replay", group=shop.failing, letter=letter, body='{"n": 2}').text
        assert f"sent to {shop.topic}" in again
        assert "stored in" in console.post("/topic/send", topic=shop.topic, body="by hand").text
        assert '<dd class="big">5</dd>' in console.page("/topic", name=shop.topic)
