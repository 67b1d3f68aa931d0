# SPDX-License-Identifier: Apache-2.0
"""Each administrative request at a proxy: the same result as at its brokers, or the sentence that says it is not served."""

from __future__ import annotations

import pytest

import sprocketmq as rmq
from proxy_shop import IDLE, LESS, NOT_SERVED, ONLINE, QUEUE, SAME, TOPIC
from sprocketmq.wire.codes import RequestCode

OF_LIFE = {"start", "shutdown", "after_fork_in_child"}


def test_each_request_is_in_a_table():
    listed = [*SAME, *LESS, *NOT_SERVED]
    assert sorted(listed) == sorted({name for name in dir(rmq.Admin) if not name.startswith("_")} - OF_LIFE)


@pytest.mark.parametrize("name", SAME)
def test_the_result_is_that_of_the_brokers(shop, name):
    shop.check_same(name)


@pytest.mark.parametrize("name", LESS)
def test_what_is_known_is_less(shop, name):
    assert LESS[name](shop.at_proxy, shop) is not None


@pytest.mark.parametrize("name", NOT_SERVED)
def test_what_is_not_served_is_said_and_changes_nothing(shop, name):
    before = shop.stored()
    shop.check_not_served(name)
    assert shop.stored() == before


def test_a_group_that_is_online_is_not_moved(shop):
    before = shop.at_brokers.consumer_progress(ONLINE)
    for move in (
        lambda: shop.at_proxy.reset_offset(ONLINE, QUEUE, 0),
        lambda: shop.at_proxy.reset_offset_by_time(ONLINE, TOPIC, 0),
        lambda: shop.at_proxy.skip_accumulated(ONLINE, TOPIC),
    ):
        with pytest.raises(rmq.RequestNotServed, match=r"members of group 'billing' are online \(.+\), .+; stop them"):
            move()
    assert shop.at_brokers.consumer_progress(ONLINE) == before


def test_one_queue_is_not_moved_beyond_its_messages(shop):
    with pytest.raises(rmq.ConfigurationError, match="offset is 4, .+ 0 to 3 is allowed"):
        shop.at_proxy.reset_offset(IDLE, QUEUE, 4)


def test_members_that_are_online_say_what_their_group_reads(shop):
    found = shop.at_proxy.consumer_progress(ONLINE)
    assert [queue for queue in found if queue.topic == TOPIC] == shop.at_brokers.queues(TOPIC)
    assert {queue.topic for queue in found} - {TOPIC} <= {f"%RETRY%{ONLINE}"}
    with pytest.raises(rmq.RequestNotServed, match=r"GET_CONSUME_STATS; no member of group 'idle' .+ name the topic$"):
        shop.at_proxy.consumer_progress(IDLE)


def test_a_stored_message_is_read_where_its_id_says_if_that_can_be_reached(shop):
    stored_id = shop.message.offset_message_id
    assert shop.at_proxy.view_message(stored_id).offset_message_id == stored_id


def test_the_doctor_says_what_it_could_not_see(shop):
    online = shop.at_proxy.diagnose_group(ONLINE, watch_ms=0)
    assert online.verdict.value == "nothing waits"
    assert online.sentence == "group billing has consumed all messages of 4 queues at broker-a, broker-b"
    may, state = online.not_learned
    assert may.startswith("whether the group may consume, and how many retries wait: the proxy at ")
    assert "did not report its state: the proxy at " in state
    idle = shop.at_proxy.diagnose_group(IDLE, watch_ms=0)
    assert idle.verdict.value == "unknown"
    assert idle.sentence == (
        f"no member of group idle is connected to the proxy at {shop.proxy_addr}, which does not see others"
    )
    assert idle.evidence == ("how many messages wait is not known: nobody says what the group reads",)


def test_nobody_asks_for_a_retry_topic_that_a_proxy_would_remember_as_missing(proxied, shop):
    asked: list[str] = []
    route = RequestCode.GET_ROUTEINFO_BY_TOPIC
    with proxied.faults.drop(route, None, when=lambda command: asked.append(command.ext_fields["topic"]) is not None):
        shop.at_proxy.diagnose_group(IDLE, watch_ms=0)
        assert shop.at_proxy.consumer_ids("nobody") == []
        assert shop.at_proxy.consumer_connection("nobody") is None
        shop.at_proxy.consumer_offset("nobody", QUEUE)
    assert not [topic for topic in asked if topic.startswith("%")]
