# SPDX-License-Identifier: Apache-2.0
"""A library that a request needs is loaded beside the loop, and the request waits for it alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sprocketmq.broker import lazy_imports
from sprocketmq.broker.lazy_imports import Library
from sprocketmq.wire.bodies import CheckClientConfigRequestBody, SubscriptionData
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import PullMessageRequestHeader, QueryMessageRequestHeader

FILTERING = pytest.mark.parametrize("cluster", [{"enable_property_filter": True}], indirect=True)


class Loading:
    """Loading of libraries that ends when the test says so, never on the loop."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.threads: list[str] = []

    def load(self) -> None:
        self.threads.append(threading.current_thread().name)
        assert self.may_end.wait(30)


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loading]:
    loading = Loading()
    monkeypatch.setattr(lazy_imports, "_loaded", set())
    monkeypatch.setattr(lazy_imports, "_LOADERS", dict.fromkeys(Library, loading.load))
    yield loading
    loading.may_end.set()


def check_of(expression: str) -> bytes:
    subscription = SubscriptionData(topic="flights", sub_string=expression, expression_type="SQL92")
    return CheckClientConfigRequestBody(client_id="c", group="g", subscription_data=subscription).encode()


@FILTERING
def test_filters_wait_for_their_parser_while_others_are_served(cluster, client, loading):
    good = client.begin(RequestCode.CHECK_CLIENT_CONFIG, None, body=check_of("a > 1"))
    bad = client.begin(RequestCode.CHECK_CLIENT_CONFIG, None, body=check_of("a >"))
    pull = PullMessageRequestHeader(
        consumer_group="g", topic="flights", queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=4, commit_offset=0,
        suspend_timeout_millis=0, sub_version=0, subscription="a >", expression_type="SQL92",
    )  # fmt: skip
    pulled = client.begin(RequestCode.PULL_MESSAGE, pull)
    assert client.send("flights", b"meanwhile").code == 0
    assert client.heartbeat("p1").code == 0
    assert not any(waiting.done() for waiting in (good, bad, pulled))
    loading.may_end.set()
    assert good.result(30).code == 0
    assert bad.result(30).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert pulled.result(30).code != 0
    assert len(loading.threads) == 1
    assert "MainThread" not in loading.threads[0]


def test_a_query_waits_for_the_index_while_others_are_served(cluster, client, loading):
    header = QueryMessageRequestHeader(topic="flights", key="k", max_num=1, begin_timestamp=0, end_timestamp=1 << 60)
    asked = client.begin(RequestCode.QUERY_MESSAGE, header)
    assert client.send("flights", b"meanwhile").code == 0
    assert not asked.done()
    loading.may_end.set()
    assert asked.result(30).code == ResponseCode.QUERY_NOT_FOUND


def test_a_limited_number_of_requests_wait_and_others_are_answered_try_again(cluster, client, loading, monkeypatch):
    monkeypatch.setattr(lazy_imports, "MOST_WAITING", 2)
    waiting = [client.begin(RequestCode.CHECK_CLIENT_CONFIG, None, body=check_of("a > 1")) for _ in range(2)]
    answer = client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body=check_of("a > 1"))
    assert answer.code == ResponseCode.SYSTEM_BUSY
    loading.may_end.set()
    assert all(one.result(30) for one in waiting)


@FILTERING
def test_a_library_that_cannot_be_loaded_now_is_tried_again_by_a_later_request(cluster, client, loading, monkeypatch):
    def fail() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setitem(lazy_imports._LOADERS, Library.SQL92, fail)
    answer = client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body=check_of("a > 1"))
    assert (answer.code, "Too many open files; try again in a second" in answer.remark) == (
        ResponseCode.SYSTEM_BUSY,
        True,
    )
    monkeypatch.setitem(lazy_imports._LOADERS, Library.SQL92, loading.load)
    loading.may_end.set()
    assert client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body=check_of("a > 1")).code == 0
