# SPDX-License-Identifier: Apache-2.0
"""Masks, sessions, names, the audit log: what keeps a console to those who may look."""

from __future__ import annotations

import json
import re
import stat
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.console.pages.broker import shown_settings
from sprocketmq.console.safety.audit import Audit
from sprocketmq.console.safety.hosts import Hosts
from sprocketmq.console.safety.mask import MASKED, Mask
from sprocketmq.console.safety.sessions import MOST_SESSIONS, Sessions
from sprocketmq.console.settings import compiled_masks
from sprocketmq.errors import ConfigurationError, StoreNotWritable

TOKEN = "0123456789abcdef0123456789abcdef"


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


# -- masks -------------------------------------------------------------------------------------------------------------------------


def test_matching_text_is_masked_and_nothing_else():
    mask = Mask(compiled_masks(["[0-9]{16}", "secret=[^ ]+"]))
    assert mask.text("card 4111111111111111, secret=abc ok") == f"card {MASKED}, {MASKED} ok"
    assert mask.body(b"\xff\x004111111111111111\xfe") == b"\xff\x00" + MASKED.encode() + b"\xfe"
    assert mask.properties({"4111111111111111": "4111111111111111"}) == {"4111111111111111": MASKED}


def test_words_are_hidden_alone_and_beside_each_other():
    mask = Mask(compiled_masks(["^[0-9]{4}$", "abc def"]))
    assert mask.words(["1234", "x", "12345"]) == [MASKED, "x", "12345"]
    assert " ".join(mask.words(["x", "abc", "def"])) == f"x {MASKED}"
    assert mask.words([]) == []


@given(st.binary(max_size=200))
def test_without_a_rule_and_without_a_match_bytes_stay(body):
    assert Mask().body(body) == body
    assert Mask([re.compile("no such text as this")]).body(body) == body


@pytest.mark.parametrize("wrong", ["(", ".*", "a?"])
def test_an_invalid_mask_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="mask"):
        compiled_masks([wrong])


# -- sessions ------------------------------------------------------------------------------------------------------------------------


def test_the_token_opens_a_session_and_nothing_else_does():
    sessions = Sessions(TOKEN, Clock())
    for wrong in ("", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "é" * 32):
        assert sessions.open(wrong) is None
    session = sessions.open(TOKEN)
    assert session is not None
    assert sessions.find(session.key) is session
    assert sessions.find(session.key + "x") is None
    assert sessions.find("") is None
    sessions.close(session)
    assert sessions.find(session.key) is None


def test_a_form_is_of_the_session_whose_key_it_carries():
    sessions = Sessions(None, Clock())
    one, other = sessions.open(sessions.token), sessions.open(sessions.token)
    assert one is not None
    assert other is not None
    assert sessions.form_is_of(one, one.form_key)
    assert not sessions.form_is_of(one, other.form_key)
    assert not sessions.form_is_of(one, one.key)


def test_a_session_ends_after_half_a_day_without_use():
    clock = Clock()
    sessions = Sessions(TOKEN, clock)
    session = sessions.open(TOKEN)
    assert session is not None
    for _ in range(3):
        clock.now_s += 11 * 3600
        assert sessions.find(session.key) is session
    clock.now_s += 12 * 3600 + 1
    assert sessions.find(session.key) is None


def test_sessions_are_bounded_and_the_one_used_least_recently_ends_first():
    clock = Clock()
    sessions = Sessions(TOKEN, clock)
    opened = []
    for _ in range(MOST_SESSIONS):
        clock.now_s += 1
        session = sessions.open(TOKEN)
        assert session is not None
        opened.append(session)
    clock.now_s += 1
    assert sessions.find(opened[0].key) is not None
    clock.now_s += 1
    sessions.open(TOKEN)
    assert sessions.find(opened[1].key) is None
    assert sessions.find(opened[0].key) is not None


def test_a_token_that_can_be_guessed_is_refused():
    with pytest.raises(ConfigurationError, match="16 or more"):
        Sessions("short", Clock())
    assert len(Sessions(None, Clock()).token) > 40


def test_checking_a_session_does_not_count_as_use():
    clock = Clock()
    sessions = Sessions(TOKEN, clock)
    session = sessions.open(TOKEN)
    assert session is not None
    clock.now_s += 12 * 3600
    assert sessions.is_open(session)
    clock.now_s += 1
    assert not sessions.is_open(session)
    session = sessions.open(TOKEN)
    assert session is not None
    sessions.close(session)
    assert not sessions.is_open(session)


# -- names ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9877", "localhost:9877", "LOCALHOST", "[::1]:9877", "127.0.0.2", "mq.example:80", "localhost.:80"],
)
def test_the_console_answers_to_its_own_names(host):
    assert Hosts("127.0.0.1", ["mq.example"]).allows(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:9877",
        "127.0.0.1.evil.example",
        "10.0.0.9:9877",
        "localhost.evil",
        ":9877",
        "localhost:9877@evil.example",
        "[::1",
        "[::1]x",
    ],
)
def test_the_console_answers_to_no_other_name(host):
    assert not Hosts("127.0.0.1", ["mq.example"]).allows(host)


def test_on_all_addresses_it_answers_to_addresses_and_not_to_names():
    hosts = Hosts("0.0.0.0")
    assert hosts.allows("10.0.0.9:9877")
    assert not hosts.allows("evil.example:9877")


def test_an_origin_is_the_host_itself():
    hosts = Hosts("127.0.0.1")
    assert hosts.allows_origin("http://127.0.0.1:9877", "127.0.0.1:9877")
    assert hosts.allows_origin("https://mq.example", "mq.example")
    for wrong in ("http://127.0.0.1:9878", "http://evil.example", "null", "", "file://127.0.0.1:9877", "http://["):
        assert not hosts.allows_origin(wrong, "127.0.0.1:9877")


# -- audit and settings ----------------------------------------------------------------------------------------------------------------


def test_a_change_has_a_line_before_and_after_it(tmp_path):
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, lambda: 1_795_500_000_123, "ops")
    change = audit.begins("send", 2, "127.0.0.1", topic="orders\n{}")
    audit.ended(change, "stored")
    first, second = map(json.loads, path.read_text().splitlines())
    assert first == {
        "at": "2026-11-24T06:00:00.123+00:00", "stage": "begins", "change": 1, "action": "send", "session": 2,
        "peer": "127.0.0.1", "as": "ops", "topic": "orders\n{}",
    }  # fmt: skip
    assert second == {**second, "stage": "ended", "change": 1, "outcome": "stored"}
    if sys.platform != "win32":  # which has other permissions
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_audit_file_that_cannot_be_written_is_said_at_the_start_and_stops_a_change(tmp_path):
    with pytest.raises(ConfigurationError, match="audit file"):
        Audit(tmp_path / "no" / "audit.jsonl", lambda: 0, None)
    folder = tmp_path / "gone"
    folder.mkdir()
    audit = Audit(folder / "audit.jsonl", lambda: 0, None)
    (folder / "audit.jsonl").unlink()
    folder.rmdir()
    with pytest.raises(StoreNotWritable, match="nothing is changed"):
        audit.begins("send", 1, "127.0.0.1")


@pytest.mark.skipif(sys.platform == "win32", reason="which has no limit for files")
def test_a_line_that_was_cut_by_a_full_disk_is_refused_and_the_next_one_is_whole(tmp_path):
    import resource

    path = tmp_path / "audit.jsonl"
    audit = Audit(path, lambda: 0, None)
    audit.begins("send", 1, "127.0.0.1")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A write up to a limit for files is cut short without an error, as on a disk that becomes full.
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        for _ in range(2):
            with pytest.raises(StoreNotWritable, match="nothing is changed"):
                audit.begins("send", 2, "127.0.0.1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    audit.begins("send", 3, "127.0.0.1")
    lines = path.read_text().splitlines()
    assert len(lines) == 3
    assert len(lines[1]) == 20, "what was cut stays as it is"
    assert [json.loads(lines[place])["session"] for place in (0, 2)] == [1, 3]


def test_secrets_in_settings_of_brokers_are_hidden_by_name_and_by_what_is_in_them():
    shown = {"brokerName": "broker-a", "flushDiskType": ""}
    hidden = {
        "initAuthenticationUser": '{"username":"ops","password":"s3"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"ops","secretKey":"s3"}',
        "tls.server.keyPassword": "s3",
    }
    assert shown_settings(shown | hidden) == shown | dict.fromkeys(hidden, "hidden")
