# SPDX-License-Identifier: Apache-2.0
"""Options and names: every mistake is one sentence that says what is allowed, before anything is opened."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

import sprocketmq as rmq
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.push_settings import PushSettings, consume_timestamp_ms
from sprocketmq.client.settings.validators import check_batch, check_group, check_topic

ADDRESS = "127.0.0.1:9876"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: rmq.Producer("", namesrv_addr=ADDRESS), "producer group is ''"),
        (lambda: rmq.Producer("a b", namesrv_addr=ADDRESS), "characters that are not allowed"),
        (lambda: rmq.Producer("DEFAULT_PRODUCER", namesrv_addr=ADDRESS), "reserved"),
        (lambda: rmq.Producer("g" * 121, namesrv_addr=ADDRESS), "at most 120"),
        (lambda: rmq.Producer("g", namesrv_addr="nowhere"), "namesrv_addr is 'nowhere'"),
        (lambda: rmq.Producer("g", namesrv_addr=";"), "at least one host:port"),
        (lambda: rmq.Producer("g", namesrv_addr=ADDRESS, send_msg_timeout=1), "did you mean 'send_msg_timeout_ms'"),
        (lambda: rmq.Producer("g", namesrv_addr=ADDRESS, send_msg_timeout_ms=0), "send_msg_timeout_ms is 0"),
        (lambda: rmq.Producer("g", namesrv_addr=ADDRESS, compress_type="RAR"), "RAR"),
        (lambda: rmq.Producer("g", namesrv_addr=ADDRESS, instance_name="a@b"), "without '@'"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, message_model="ALL"), "one of BROADCASTING, CLUSTERING"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, consume_from_where="START"), "CONSUME_FROM_FIRST_OFFSET"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, pull_batch_size=0), "from 1 to 1024"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, pull_threshold_for_queue=70_000), "from 1 to 65535"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, consume_thread_count=True), "whole number"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, allocate_strategy="BEST"), "BEST"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, consume_timestamp="yesterday"), "yyyyMMddHHmmss"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS).subscribe("a b"), "characters that are not allowed"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS).subscribe("t", "||"), "names no tag"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS).concurrent_listener(batch_size=0), "from 1 to 1024"),
    ],
)
def test_a_mistake_is_one_sentence(make: Any, sentence: str) -> None:
    def build() -> None:
        made = make()
        if callable(made) and not isinstance(made, type):
            made(print)

    with pytest.raises(rmq.ConfigurationError, match=sentence):
        build()


def test_namesrv_addr_comes_from_the_environment_when_it_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(rmq.ConfigurationError, match="NAMESRV_ADDR"):
        ClientOptions()
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert ClientOptions().namesrv_addr == "a:1;b:2"
    assert ClientOptions(namesrv_addr=ADDRESS).namesrv_addr == ADDRESS


def test_address_lists_are_read_as_java_reads_them() -> None:
    assert parse_addresses(" http://a:1 ; b:2,[::1]:3 ") == ["a:1", "b:2", "[::1]:3"]


def test_the_client_id_is_javas() -> None:
    options = ClientOptions(namesrv_addr=ADDRESS, client_ip="10.0.0.1", instance_name="one", unit_name="u")
    assert options.client_id() == "10.0.0.1@one@u"
    default = ClientOptions(namesrv_addr=ADDRESS, client_ip="10.0.0.1")
    assert default.client_id() != default.client_id()
    assert default.client_id(keep_default_name=True) == "10.0.0.1@DEFAULT"


def test_names_have_javas_characters_and_lengths() -> None:
    assert check_topic("%RETRY%" + "g" * 120)
    assert check_topic("a-Z_0|%")
    assert check_topic("t" * 127)
    for bad in ("", "a.b", "ü", "a\n", None, "t" * 128, "%RETRY%" + "g" * 249):
        with pytest.raises(rmq.ConfigurationError):
            check_topic(bad)  # type: ignore[arg-type]
    assert check_group("g" * 120)
    for bad in ("", "a.b", "ü", "a\n", None, "g" * 121):
        with pytest.raises(rmq.ConfigurationError):
            check_group(bad)  # type: ignore[arg-type]


def test_a_batch_has_one_topic_no_delay_and_no_retry_topic() -> None:
    message = rmq.Message("t", b"x")
    assert check_batch([message, message])
    for bad in (
        [],
        [message, rmq.Message("u", b"x")],
        [message, rmq.Message("t", b"x", delay_level=1)],
        [message, rmq.Message("t", b"x", wait_store_msg_ok=False)],
        [rmq.Message("%RETRY%g", b"x")],
        [message, rmq.Message("t", b"")],
    ):
        with pytest.raises(rmq.ConfigurationError):
            check_batch(bad)


def test_consume_timestamp_is_local_time() -> None:
    moment = datetime(2013, 1, 2, 3, 4, 5).astimezone()
    assert consume_timestamp_ms("20130102030405") == int(moment.timestamp() * 1000)


def test_settings_accept_names_and_members() -> None:
    settings = PushSettings(group="g", message_model="BROADCASTING", consume_from_where="CONSUME_FROM_TIMESTAMP")  # type: ignore[arg-type]
    assert settings.message_model is rmq.MessageModel.BROADCASTING
    assert settings.consume_from_where is rmq.ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


def test_the_public_names_are_all_there() -> None:
    for name in rmq.__all__:
        assert getattr(rmq, name) is not None
    assert set(rmq.__all__) <= set(dir(rmq))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        rmq.Nonsense  # noqa: B018
