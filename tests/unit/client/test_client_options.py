# SPDX-License-Identifier: Apache-2.0
"""Options and names: every mistake is one sentence that says what is allowed, before anything is opened."""

from __future__ import annotations

import contextlib
import enum
import time
import typing
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, get_type_hints

import pytest

import sprocketmq as rmq
from sprocketmq.client.settings.namesrv_addr import parse_addresses
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.pull_settings import PullSettings
from sprocketmq.client.settings.push_settings import PushSettings, consume_timestamp_ms
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.client.settings.split_options import _ELSEWHERE, _PAIRS
from sprocketmq.client.settings.validators import check_batch

ADDRESS = "127.0.0.1:9876"
DAY_MS: Final = 24 * 60 * 60 * 1000
MAX_INT: Final = 2**31 - 1


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
        (lambda: rmq.Producer("g", namesrv_addr=ADDRESS, instance_name="a@b"), "without '@'"),
        (lambda: rmq.PushConsumer("a b", namesrv_addr=ADDRESS), "the consumer group 'a b' has characters"),
        (
            lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, consume_from_where="earliest"),
            r"did you mean 'CONSUME_FROM_FIRST_OFFSET'\?$",
        ),
        (
            lambda: rmq.PullConsumer("g", namesrv_addr=ADDRESS, consume_from_where="latest"),
            r"did you mean 'CONSUME_FROM_LAST_OFFSET'\?$",
        ),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, message_model="broadcast"), "did you mean 'BROADCASTING'"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, allocate_strategy="BEST"), "BEST"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS, consume_timestamp="yesterday"), "yyyyMMddHHmmss"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS).subscribe("a b"), "characters that are not allowed"),
        (lambda: rmq.PushConsumer("g", namesrv_addr=ADDRESS).subscribe("t", "||"), "names no tag"),
    ],
)
def test_a_mistake_is_one_sentence(make, sentence):
    with pytest.raises(rmq.ConfigurationError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("make", "name", "hint"),
    [
        (rmq.Producer, "bootstrap_servers", "did you mean 'namesrv_addr'"),
        (rmq.Producer, "bootstrap.servers", "did you mean 'namesrv_addr'"),
        (rmq.Producer, "namesrvAddr", "did you mean 'namesrv_addr'"),
        (rmq.PushConsumer, "bootstrap_servers", "did you mean 'namesrv_addr'"),
        (rmq.PushConsumer, "consume_threads", "did you mean 'consume_thread_count'"),
        (rmq.PushConsumer, "group_id", "the group is the first argument"),
        (rmq.PullConsumer, "enable_auto_commit", "did you mean 'auto_commit'"),
        (rmq.Producer, "retries", "did you mean 'retry_times_when_send_failed'"),
        (rmq.PushConsumer, "retries", "did you mean 'max_reconsume_times'"),
        (rmq.Producer, "acks", "the brokers decide"),
        (rmq.Producer, "nothing_alike", "allowed are access_channel"),
    ],
)
def test_an_option_of_another_client_names_ours(make, name, hint):
    with pytest.raises(rmq.ConfigurationError, match=f"has no option '{name}'; {hint}"):
        make("delays", namesrv_addr="127.0.0.1:9876", **{name: 1})


def test_what_is_said_of_other_names_exists():
    ours = {
        name
        for options in (rmq.ProducerOptions, rmq.PushConsumerOptions, rmq.PullConsumerOptions)
        for name in options.__annotations__
    }
    common = set(rmq.CommonOptions.__annotations__)
    meant = {name for names in _ELSEWHERE.values() if not isinstance(names, str) for name in names}
    assert meant - ours - common == set()
    assert _ELSEWHERE.keys() & (ours | common) == set()


def test_namesrv_addr_comes_from_the_environment_when_it_is_not_given(monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(rmq.ConfigurationError, match="NAMESRV_ADDR"):
        ClientOptions()
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert ClientOptions().namesrv_addr == "a:1;b:2"
    assert ClientOptions(namesrv_addr=ADDRESS).namesrv_addr == ADDRESS


def test_address_lists_are_read_as_java_reads_them():
    assert parse_addresses(" http://a:1 ; b:2,[::1]:3 ") == ["a:1", "b:2", "[::1]:3"]


def test_the_client_id_is_javas():
    options = ClientOptions(namesrv_addr=ADDRESS, client_ip="10.0.0.1", instance_name="one", unit_name="u")
    assert options.client_id() == "10.0.0.1@one@u"
    default = ClientOptions(namesrv_addr=ADDRESS, client_ip="10.0.0.1")
    assert default.client_id() != default.client_id()
    assert default.client_id(keep_default_name=True) == "10.0.0.1@DEFAULT"


def test_clients_made_within_one_tick_of_the_clock_have_different_ids(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    options = ClientOptions(namesrv_addr=ADDRESS, client_ip="10.0.0.1")
    assert len({options.client_id() for _ in range(3)}) == 3


# DefaultMQPushConsumerImpl.checkConfig, DefaultLitePullConsumerImpl.checkConfig; the others as the options' docstrings say.
RANGES: Final = {
    ClientOptions: {
        "poll_name_server_interval_ms": (10, DAY_MS),
        "heartbeat_broker_interval_ms": (10, 110_000),
        "persist_consumer_offset_interval_ms": (10, DAY_MS),
        "mq_client_api_timeout_ms": (1, DAY_MS),
        "trace_msg_batch_num": (1, 20),
        "max_delay_level": (1, 1000),
    },
    PushSettings: {
        "consume_thread_count": (1, 1000),
        "consume_thread_max": (1, 1000),
        "adjust_thread_pool_nums_threshold": (1, MAX_INT),
        "consume_message_batch_max_size": (1, 1024),
        "pull_batch_size": (1, 1024),
        "pull_batch_size_in_bytes": (1, MAX_INT),
        "pull_interval_ms": (0, 65_535),
        "pull_threshold_for_queue": (1, 65_535),
        "pull_threshold_size_for_queue": (1, 1024),
        "pull_threshold_for_topic": (1, 6_553_500),
        "pull_threshold_size_for_topic": (1, 102_400),
        "consume_concurrently_max_span": (1, 65_535),
        "max_reconsume_times": (-1, MAX_INT),
        "consume_timeout_ms": (0, MAX_INT),
        "suspend_current_queue_time_ms": (10, 30_000),
        "unlock_delay_ms": (0, 30_000),
        "await_termination_ms": (0, MAX_INT),
        "pull_time_delay_when_exception_ms": (0, MAX_INT),
        "record_max_bytes": (65_536, 2**40),
    },
    PullSettings: {
        "auto_commit_interval_ms": (1_000, DAY_MS),
        "pull_batch_size": (1, 1024),
        "pull_threshold_for_all": (1, MAX_INT),
        "pull_threshold_for_queue": (1, 65_535),
        "pull_threshold_size_for_queue": (1, 1024),
        "consume_max_span": (1, 65_535),
        "poll_timeout_ms": (0, MAX_INT),
        "topic_metadata_check_interval_ms": (10, DAY_MS),
        "broker_suspend_max_time_ms": (1_000, 300_000),
        "pull_time_delay_when_exception_ms": (0, MAX_INT),
    },
    SendSettings: {
        "send_msg_timeout_ms": (1, DAY_MS),
        "send_msg_max_timeout_per_request_ms": (1, DAY_MS),
        "retry_times_when_send_failed": (0, 1000),
        "compress_msg_body_over_bytes": (1, MAX_INT),
        "compress_level": (0, 9),
        "max_message_bytes": (1, MAX_INT),
        "batch_max_delay_ms": (1, 30_000),
        "batch_max_bytes": (1, 2 * 2**20),
        "total_batch_max_bytes": (1, 2**40),
        "back_pressure_for_async_send_num": (10, MAX_INT),
        "back_pressure_for_async_send_size_bytes": (2**20, 2**40),
        "detect_timeout_ms": (1, DAY_MS),
        "detect_interval_ms": (1, DAY_MS),
        "default_topic_queue_nums": (1, 65_535),
    },
}
# Each of them may also be -1: off.
OFF: Final = {"pull_threshold_for_topic", "pull_threshold_size_for_topic", "send_msg_max_timeout_per_request_ms"}
# A pull may not be held longer than its answer is waited for.
BESIDE: Final = {
    "broker_suspend_max_time_ms": {"consumer_timeout_when_suspend_ms": MAX_INT},
    "consume_thread_max": {"consume_thread_count": 1},
}
# The consumers' and those of all clients are in test_an_option_that_is_not_given_is_told_with_its_default.
DEFAULTS: Final = {
    "send_msg_timeout_ms": 3_000,
    "send_msg_max_timeout_per_request_ms": -1,
    "retry_times_when_send_failed": 2,
    "retry_another_broker_when_not_store_ok": False,
    "compress_msg_body_over_bytes": 4_096,
    "compress_type": "ZLIB",
    "compress_level": 5,
    "max_message_bytes": 4 * 2**20,
    "auto_batch": False,
    "batch_max_delay_ms": 10,
    "batch_max_bytes": 32 * 1024,
    "total_batch_max_bytes": 32 * 2**20,
    "enable_backpressure_for_async_mode": False,
    "send_latency_fault_enable": False,
    "start_detector_enable": False,
    "detect_timeout_ms": 200,
    "detect_interval_ms": 2_000,
    "create_topic_key": "TBW102",
    "default_topic_queue_nums": 4,
}


def made(kind: Any, **options: Any) -> Any:
    return kind(namesrv_addr=ADDRESS, **options) if kind is ClientOptions else kind(group="g", **options)


def test_a_producers_defaults_are_javas():
    settings = made(SendSettings)
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize("kind", RANGES)
def test_each_number_is_taken_up_to_its_limits_and_refused_beyond_them(kind):
    for name, (low, high) in RANGES[kind].items():
        for allowed in (low, high, *((-1,) if name in OFF else ())):
            assert getattr(made(kind, **BESIDE.get(name, {}), **{name: allowed}), name) == allowed
        for refused in (low - 1, high + 1):
            with pytest.raises(rmq.ConfigurationError, match=f"^{name} is {refused}, .* from {low} to {high} is"):
                made(kind, **{name: refused})


@pytest.mark.parametrize("kind", RANGES)
def test_every_number_has_limits(kind):
    types = get_type_hints(kind)
    numbers = [name for name, hint in types.items() if hint in (int, int | None)]
    for name in numbers:
        for value in (-(2**70), 2**70):
            with contextlib.suppress(rmq.ConfigurationError):
                made(kind, **{name: value})
                pytest.fail(f"{name} takes {value}: give it a line in the table of ranges below {kind.__name__}")


def test_an_answer_is_waited_for_at_least_as_long_as_the_broker_may_hold_the_pull():
    assert PullSettings(group="g", broker_suspend_max_time_ms=1_000, consumer_timeout_when_suspend_ms=1_000)
    with pytest.raises(rmq.ConfigurationError, match="at least broker_suspend_max_time_ms"):
        PullSettings(group="g", broker_suspend_max_time_ms=1_001, consumer_timeout_when_suspend_ms=1_000)


def test_a_batch_has_one_topic_no_delay_and_no_retry_topic():
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


@pytest.fixture
def shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Eight hours before UTC, where most machines that run tests are."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC-8")  # as POSIX writes it, without a database of zones
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("shanghai")
def test_consume_timestamp_is_local_time():
    moment = datetime(2013, 1, 1, 19, 4, 5, tzinfo=UTC)
    assert consume_timestamp_ms("20130102030405") == int(moment.timestamp() * 1000)


def test_a_consume_timestamp_at_the_end_of_time_is_refused(monkeypatch):
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        with pytest.raises(rmq.ConfigurationError, match="consume_timestamp"):
            consume_timestamp_ms("99991231235959")
    finally:
        monkeypatch.undo()
        time.tzset()


def _options_of_members() -> list[tuple[type[Any], str, type[enum.Enum]]]:
    """Class, option and enum of each public option whose type names an enum of ours."""
    found = []
    for made, options in (
        (rmq.Producer, rmq.ProducerOptions),
        (rmq.PushConsumer, rmq.PushConsumerOptions),
        (rmq.PullConsumer, rmq.PullConsumerOptions),
    ):
        for name, kind in typing.get_type_hints(options).items():
            kinds = [one for one in (kind, *typing.get_args(kind)) if isinstance(one, enum.EnumType)]
            found += [(made, name, one) for one in kinds]
            assert not kinds or str in typing.get_args(kind), (
                f"{options.__name__}.{name}: its type has to name str, too"
            )
    return found


@pytest.mark.parametrize(
    ("made", "option", "kind"), _options_of_members(), ids=lambda one: getattr(one, "__name__", one)
)
def test_an_option_that_is_a_member_takes_its_name_in_any_case_and_nothing_near_it(made, option, kind):
    for member in kind:
        for given in (member, member.name, member.name.lower(), f" {member.name.title()} "):
            client = made("g", namesrv_addr=ADDRESS, **{option: given})
            assert getattr(client._async._settings, option) is member
        with pytest.raises(rmq.ConfigurationError, match=f"did you mean '{member.name}'\\?$"):
            made("g", namesrv_addr=ADDRESS, **{option: f"{member.name}S"})
    for wrong in (7, "", "nothing like it", b"STOP", object):
        with pytest.raises(rmq.ConfigurationError, match=f"{option} is .*, (one of|did you mean)"):
            made("g", namesrv_addr=ADDRESS, **{option: wrong})


@pytest.mark.parametrize("channel", ["cloud", "Cloud", "CLOUD"])
def test_the_access_channel_may_be_written_in_any_case(channel):
    assert ClientOptions(namesrv_addr=ADDRESS, access_channel=channel).access_channel == "CLOUD"


@pytest.mark.parametrize(
    ("made", "given", "low", "high"),
    [
        (rmq.PushConsumer, {"consume_thread_max": 3}, 3, 3),
        (rmq.PushConsumer, {"consume_thread_max": 30}, 20, 30),
        (rmq.PushConsumer, {"consume_thread_count": 30}, 30, None),
        (rmq.PushConsumer, {"consume_thread_count": 3, "consume_thread_max": 7}, 3, 7),
        (rmq.PullConsumer, {"consumer_timeout_when_suspend_ms": 5_000}, 5_000, 5_000),
        (rmq.PullConsumer, {"broker_suspend_max_time_ms": 40_000}, 40_000, 40_000),
        (rmq.PullConsumer, {"broker_suspend_max_time_ms": 25_000}, 25_000, 30_000),
    ],
)
def test_of_a_pair_the_option_that_is_not_given_follows(made, given, low, high):
    names = next(pair for pair in _PAIRS if given.keys() & set(pair))
    settings = made("g", namesrv_addr=ADDRESS, **given)._async._settings
    assert (getattr(settings, names[0]), getattr(settings, names[1])) == (low, high)


def test_a_pair_in_the_wrong_order_names_both():
    with pytest.raises(rmq.ConfigurationError, match=r"consume_thread_max is 3, .* consume_thread_count \(4\) to 1000"):
        rmq.PushConsumer("g", namesrv_addr=ADDRESS, consume_thread_count=4, consume_thread_max=3)


def test_the_public_names_are_all_there():
    for name in rmq.__all__:
        assert getattr(rmq, name) is not None
    assert set(rmq.__all__) <= set(dir(rmq))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        rmq.Nonsense  # noqa: B018
