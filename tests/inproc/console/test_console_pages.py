# SPDX-License-Identifier: Apache-2.0
"""Each page against a real broker, and each action with its outcome and its lines in the audit log."""

from __future__ import annotations

import html
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import sprocketmq as rmq
from console_server import RunningConsole
from sprocketmq.console.pages import groups
from sprocketmq.testing import EmbeddedRocketMQ

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"{{7*7}}"
CARD = "4111111111111111"
_numbers = itertools.count()


class Names:
    """A topic and a group of a test's own."""

    def __init__(self) -> None:
        number = next(_numbers)
        self.topic, self.group = f"orders-{number}", f"billing-{number}"


@pytest.fixture
def names(server: EmbeddedRocketMQ) -> Names:
    found = Names()
    with server.admin() as admin:
        admin.create_topic(found.topic, queues=1)
        admin.create_group(found.group)
    return found


def send(server: EmbeddedRocketMQ, topic: str, *bodies: bytes, **how: Any) -> list[rmq.SendResult]:
    with server.producer() as producer:
        return [producer.send(rmq.Message(topic, body, **how)) for body in bodies]


def place(result: rmq.SendResult) -> dict[str, Any]:
    """Where the page of a message is."""
    queue = result.message_queue
    return {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id, "offset": result.queue_offset}


@contextmanager
def member(server: EmbeddedRocketMQ, names: Names, listener: Callable[[rmq.MessageExt], None]) -> Iterator[None]:
    consumer = server.push_consumer(names.group, consume_from_where=FIRST, persist_consumer_offset_interval_ms=100)
    consumer.subscribe(names.topic)
    consumer.on_message(listener)
    with consumer:
        yield


def letter_at(names: Names, letter: str) -> dict[str, str]:
    """Where the page of a letter is."""
    return {"topic": f"%DLQ%{names.group}", **dict(zip(("broker", "queue", "offset"), letter.split("/"), strict=True))}


def dead_letters(server: EmbeddedRocketMQ, console: RunningConsole, names: Names, *bodies: bytes) -> list[str]:
    """Let the group give these messages up; returns the places of the letters."""
    send(server, names.topic, *bodies, keys="k-1")

    def give_up(message: rmq.MessageExt) -> None:
        raise rmq.DeadLetter(f"no account for {message.body[:1]!r}")

    with member(server, names, give_up):
        console.until(f"<strong>{len(bodies)}</strong>", "/dead-letters", group=names.group)
    text = console.page("/dead-letters", group=names.group)
    return sorted(re.findall(r'name="letter" value="([^"]+)"', text), key=lambda one: int(one.rpartition("/")[2]))


def audit_lines(audit_file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in audit_file.read_text().splitlines()]


# -- looking -------------------------------------------------------------------------------------------------------------------------


def test_the_overview_has_each_group_with_its_verdict_and_lag(console, server, names):
    send(server, names.topic, b"one", b"two")
    with server.pull_consumer(names.group) as consumer:
        (queue,) = consumer.fetch_message_queues(names.topic)
        consumer.assign([queue])
        consumer.seek(queue, 1)
        consumer.commit({queue: 1})
    text = console.until(f"no member of group {names.group} is online", "/", q=names.group)
    row = text[text.index(f'id="g-{names.group}"') :]
    assert '<td role="cell" class="n">1</td>' in row[: row.index("</tr>")].replace("\n", "")
    assert "needs attention" in text
    assert "broker-a" in text
    assert "no such group" not in text
    assert "No group has" in console.page("/", q="no such group")


def test_groups_without_members_are_folded_and_listed_on_a_page_of_their_own(console, server, names):
    with server.admin() as admin:
        admin.create_group(names.group)
    console.until(f"no member of group {names.group} is online", "/groups", q=names.group, state="offline")
    overview = console.page("/")
    assert f'id="g-{names.group}"' not in overview
    assert '<a href="/groups?state=offline">' in overview
    for sort in ("state", "group", "lag", "retries", "rate", "nonsense"):
        assert f'id="g-{names.group}"' in console.page("/groups/live", q=names.group, sort=sort, page="nonsense")
    assert "No group fits" in console.page("/groups", q=names.group, state="well")
    forwards = re.findall(r'id="g-([^"]+)"', console.page("/groups/live", sort="group", all="1"))
    backwards = re.findall(r'id="g-([^"]+)"', console.page("/groups/live", sort="group", all="1", backwards="1"))
    assert forwards == sorted(forwards)
    assert backwards == forwards[::-1]


def test_groups_beyond_a_page_are_on_the_next(server, names, monkeypatch):
    monkeypatch.setattr(groups, "_ON_A_PAGE", 2)
    with server.admin() as admin:
        for number in range(3):
            admin.create_group(f"{names.group}-{number}")
    with RunningConsole(server.namesrv_addr) as other:
        other.until("page 1 of 2", "/groups", q=f"{names.group}-", sort="group")
        second = other.page("/groups/live", q=f"{names.group}-", sort="group", page="2")
        assert re.findall(r'id="g-([^"]+)"', second) == [f"{names.group}-2"]


def test_a_group_is_shown_with_its_errors_queues_and_members(console, server, names):
    send(server, names.topic, b"one")

    def fail(message: rmq.MessageExt) -> None:
        raise ValueError(f"no such customer: {CARD}")

    with member(server, names, fail):
        members = console.until("no such customer", "/group/members", name=names.group)
        assert "PYTHON" in members
        assert f"{names.topic}</a>" in members
        verdict = console.until("never succeeded", "/group/verdict", name=names.group)
        assert "no such customer" in verdict
        assert CARD not in members + verdict + console.page("/")
        console.until("<dt>Lag</dt>", "/group/live", name=names.group)
        client = html.unescape(re.search(r"/group/stack\?([^\"]+)", members)[1])
        assert "sprocketmq" in console.browser.get(f"/group/stack?{client}").text
        console.until("In the last", "/group/history", name=names.group)
        history = console.browser.get("/group/history", params={"name": names.group}).json()
        assert len(history["series"][0]["values"]) == len(history["times"])
        assert names.group in console.page("/group", name=names.group)


def test_lag_of_a_group_that_does_not_exist_is_an_error_and_not_zero(console):
    text = console.page("/group/verdict", name="nobody-knows-me")
    assert "no broker knows" in text
    assert "not known" in text
    assert "No broker reports" in console.until("No broker reports", "/group/live", name="nobody-knows-me")


def test_a_lag_is_known_before_a_member_has_finished_anything(console, server, names):
    """Brokers tell of no progress then; the doctor's visit asks for it by topic."""
    send(server, names.topic, b"one", b"two", b"three")
    gate = threading.Event()
    with member(server, names, lambda message: gate.wait(60)):
        console.until(f'id="g-{names.group}"', "/", q=names.group)
        console.page("/group/verdict", name=names.group)
        console.until('<dd class="big">3</dd>', "/group/live", name=names.group)
        gate.set()


def test_topics_are_listed_and_system_topics_hidden(console, server, names):
    send(server, names.topic, b"one", b"two")
    text = console.page("/topics", q=names.topic)
    assert '<td class="n">2</td>' in text
    assert "SCHEDULE_TOPIC" not in console.page("/topics")
    assert "SCHEDULE_TOPIC_XXXX" in console.page("/topics", all="1")


def test_a_topic_has_its_queues_groups_and_rates(console, server, names):
    send(server, names.topic, b"one", b"two")
    text = console.page("/topic", name=names.topic)
    assert '<dd class="big">2</dd>' in text
    assert "read, write" in text
    assert "No group reads it" in console.page("/topic/traffic", name=names.topic)
    missing = console.page("/topic", name="no-such-topic")
    assert "does not exist" in missing
    assert "are not known" in missing


def test_a_topic_is_followed(console, server, names):
    send(server, names.topic, f"before {CARD}".encode())
    found: list[dict[str, Any]] = []
    with console.browser.stream("GET", "/topic/tail", params={"name": names.topic}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("data: {"):
                found.append(json.loads(line.removeprefix("data: ")))
                if len(found) == 1:
                    send(server, names.topic, b"after", tags="new", keys="k-9")
                if len(found) == 2:
                    break
    assert [one["body"] for one in found] == ["before •••", "after"]
    assert found[1]["marks"][1:3] == ["tag new", "keys k-9"]
    assert console.browser.get(found[1]["href"]).status_code == 200


@pytest.mark.parametrize("path", ["/events", "/topic/tail"])
def test_a_stream_ends_with_its_session(console, server, names, path):
    with httpx.Client(base_url=console.base, timeout=30) as browser:
        browser.get(console.server.link)
        key = re.search(r'name="form_key" value="([^"]+)"', browser.get("/").text)
        assert key is not None
        with browser.stream("GET", path, params={"name": names.topic}) as stream:
            lines = stream.iter_lines()
            next(lines)
            assert browser.post("/sign-out", data={"form_key": key[1]}).status_code == 303
            for _ in lines:
                pass


def test_ticks_arrive_as_events(console):
    with console.browser.stream("GET", "/events") as stream:
        ticks = (line for line in stream.iter_lines() if line == "event: tick")
        assert [next(ticks), next(ticks)] == ["event: tick"] * 2


def test_a_message_is_found_by_id_key_and_copy(console, server, names):
    (result,) = send(server, names.topic, b'{"a": 1}', keys="order-7")
    where = html.escape(f"queue=0&offset={result.queue_offset}")
    for wanted in (
        {"topic": names.topic, "q": result.message_id, "by": "id"},
        {"topic": names.topic, "q": "order-7", "by": "key"},
        {"q": result.offset_message_id, "by": "id"},
    ):
        assert where in console.until("1 found", "/messages", **wanted)
    assert "Nothing was found" in console.page("/messages", topic=names.topic, q="order-8", by="key")
    assert "topic is missing" in console.page("/messages", q="order-8", by="key")
    assert "does not exist" in console.page("/messages", topic="no-such-topic", q="x", by="key")


def test_a_message_says_where_it_is_and_what_became_of_it(console, server, names):
    dead_letters(server, console, names, b"7")
    text = console.page("/message", topic=names.topic, broker="broker-a", queue=0, offset=0)
    assert f"{names.topic}, broker-a/0 at 0" in text
    fate = console.page("/message/fate", topic=names.topic, broker="broker-a", queue=0, offset=0)
    assert names.group in fate
    assert "dead letter</a> after 1 try" in fate
    assert "no account for" in fate


@pytest.mark.parametrize("form", [None, "hex"])
def test_masked_text_is_in_no_response(console, server, names, form):
    body = json.dumps({"card": CARD, "n": 1}).encode()
    (result,) = send(server, names.topic, body, keys=CARD, properties={"card": CARD})
    where = place(result)
    text = console.page("/message", **where, **({"form": form} if form else {}))
    assert CARD not in text
    assert CARD not in bytes.fromhex(
        "".join(re.findall(r"[0-9a-f]{8}  ((?:[0-9a-f]{2} ?)+)", text)).replace(" ", "")
    ).decode("latin-1")
    assert CARD.encode() not in console.browser.get("/message/body", params=where).content
    assert CARD not in console.page("/message/fate", **where)
    found = console.until("1 found", "/messages", topic=names.topic, q=CARD, by="key")
    assert found.count(CARD) == 1, "what was typed into the form stays there"


def test_a_body_of_4_mb_is_shown_cut_and_downloaded_whole(console, server, names):
    body = b"0123456789abcdef" * ((4 << 16) - 8)
    with server.producer(max_message_bytes=5 << 20, compress_msg_body_over_bytes=10 << 20) as producer:
        result = producer.send(rmq.Message(names.topic, body))
    text = console.page("/message", **place(result))
    assert len(text) < 200_000
    assert f"The download has all {len(body):,} bytes" in text
    answer = console.browser.get("/message/body", params=place(result))
    assert answer.content == body
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "where",
    [
        {"topic": "t"},
        {"topic": "t", "broker": "b", "queue": "x", "offset": "0"},
        {"topic": "t", "broker": "b", "queue": "٣", "offset": "0"},
        {"topic": "t", "broker": "broker-a", "queue": "0", "offset": "-1"},
        {"topic": "no-such-topic", "broker": "broker-a", "queue": "0", "offset": "0"},
        {"topic": "TBW102", "broker": "broker-a", "queue": "0", "offset": "99"},
        {"topic": "TBW102", "broker": "no-broker", "queue": "0", "offset": "0"},
        {"topic": "t" * 5_000, "broker": "broker-a", "queue": "0", "offset": "9" * 30},
    ],
)
@pytest.mark.parametrize("path", ["/message", "/message/fate", "/message/body", "/dead-letter"])
def test_an_offset_without_a_message_is_an_error(console, path, where):
    answer = console.browser.get(path, params=where)
    assert answer.status_code in (404, 504)
    assert 'role="alert"' in answer.text


def test_texts_from_messages_are_escaped(console, server, names):
    (result,) = send(server, names.topic, HOSTILE.encode(), tags=HOSTILE, keys="k", properties={HOSTILE: HOSTILE})
    pages = [
        console.page("/message", **place(result)),
        console.page("/message/fate", **place(result)),
        console.until("1 found", "/messages", topic=names.topic, q="k", by="key"),
        console.page("/messages", topic=HOSTILE, q=HOSTILE, by="key"),
        console.page("/topic", name=HOSTILE),
        console.page("/group", name=HOSTILE),
        console.page("/group/verdict", name=HOSTILE),
        console.page("/topics", q=HOSTILE),
        console.page("/", q=HOSTILE),
        console.page("/dead-letters", group=HOSTILE),
    ]
    for text in pages:
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "49" not in re.sub(r"[0-9A-F]{20,}|\d\d:\d\d:\d\d|\d{3,}|[^49]", "", text) or "{{7*7}}" in html.unescape(
            text
        )


# -- changing ------------------------------------------------------------------------------------------------------------------------


def test_a_message_is_sent_as_the_form_says(console, server, names, audit_file):
    before = len(audit_lines(audit_file)) if audit_file.exists() else 0
    fields = {
        "body": "line 1\r\nline 2", "tags": "new", "keys": "a b", "sharding_key": "s-1", "properties": "region=eu\r\nx=1=2",
    }  # fmt: skip
    text = console.post("/topic/send", topic=names.topic, **fields).text
    assert f"stored in {names.topic}/broker-a/0 at offset 0 (SEND_OK)" in text
    (message,) = server.messages(names.topic)
    assert (message.body, message.tags, message.keys) == (b"line 1\nline 2", "new", ["a", "b"])
    assert message.properties["region"] == "eu"
    assert message.properties["x"] == "1=2"
    begins, ended = audit_lines(audit_file)[before:]
    assert (begins["action"], begins["topic"], begins["body_bytes"]) == ("send", names.topic, 13)
    assert ended["outcome"].startswith("stored in")
    assert "line 1" not in audit_file.read_text()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"topic": "", "body": "x"}, "topic"),
        ({"topic": "TBW102", "body": ""}, "body"),
        ({"topic": "TBW102", "body": "x", "properties": "KEYS=1"}, "KEYS"),
    ],
)
def test_a_message_that_cannot_be_sent_says_why(console, fields, why):
    text = html.unescape(console.post("/topic/send", **fields).text)
    assert why in text
    assert 'class="error"' in text
    assert 'class="done"' not in text


def test_groups_and_topics_are_created_once(console, server, names):
    topic, group = f"{names.topic}-new", f"{names.group}-new"
    assert "created with 3 queues on each broker" in console.post("/topic/create", topic=topic, queues="3").text
    assert "exists already" in html.unescape(console.post("/topic/create", topic=topic, queues="4").text)
    assert "1 to 1,024 are allowed" in console.post("/topic/create", topic="other", queues="0").text
    assert "created on all brokers" in console.post("/group/create", group=group).text
    assert "exists already" in html.unescape(console.post("/group/create", group=group).text)
    with server.admin() as admin:
        assert admin.topic_config(topic)["broker-a"].read_queue_nums == 3
        assert group in admin.groups()


def test_a_group_is_reset_and_switched_off(console, server, names, audit_file):
    sent = send(server, names.topic, b"one", b"two")
    with server.admin() as admin:
        admin.create_group(names.group)
        for result in sent:
            admin.reset_offset(names.group, result.message_queue, 0)
        waiting = admin.lag(names.group)
        where = {"group": names.group, "topic": names.topic}
        told = f"0 messages consumed again, {waiting} skipped"
        assert told in console.post("/group/reset", **where, to="latest", dry_run="1").text
        assert admin.lag(names.group) == waiting
        assert told in console.post("/group/reset", **where, to="latest").text
        assert admin.lag(names.group) == 0
        assert audit_lines(audit_file)[-2]["action"] == "group reset"
        assert "consumed again, 0 skipped" in console.post("/group/reset", **where, to="2013-01-01T05:00").text
        assert admin.lag(names.group) == waiting
        assert "earliest, latest or a time" in console.post("/group/reset", **where, to="yesterday").text
        assert "at broker-a" in console.post("/group/enable", group=names.group, enable="false").text
        assert not admin.group_config(names.group)["broker-a"].consume_enable
        console.post("/group/enable", group=names.group, enable="true")
        assert admin.group_config(names.group)["broker-a"].consume_enable


def test_messages_are_found_by_queue_offset_and_time(console, server, names):
    first, *_ = send(server, names.topic, b"number zero")
    queue = first.message_queue
    with server.producer() as producer:
        for number in (1, 2):
            producer.send(rmq.Message(names.topic, b"number %d" % number), queue=queue)
    where = {"topic": names.topic, "queue": f"{queue.broker_name}/{queue.queue_id}"}
    found = console.page("/messages", **where, by="offset", q="1")
    assert "2 found" in found
    assert "number 0" not in found
    assert "3 found" in console.page("/messages", **where, by="time", q="2013-01-01T05:00")
    assert "needs the queue" in console.page("/messages", topic=names.topic, by="offset", q="1")
    assert "BROKER/NUMBER" in console.page("/messages", topic=names.topic, by="offset", q="1", queue="three")
    assert "data-copy=" in console.page("/message", **place(first))


def test_letters_are_counted_by_reason_and_sent_again_each_with_its_outcome(console, server, names, audit_file):
    letters = dead_letters(server, console, names, b"1", b"2", b"2")
    text = html.unescape(console.page("/dead-letters", group=names.group))
    assert "no account for b'2'" in text
    assert names.group in console.page("/dead-letters")
    one_reason = console.page("/dead-letters", group=names.group, reason="no account for b'1'")
    assert one_reason.count('name="letter"') == 1
    assert "No letter fits" in console.page("/dead-letters", group=names.group, key="other")

    chosen = [letters[0], letters[2], "broker-a/0/99", "nonsense"]
    dry = console.post("/dead-letters/replay", group=names.group, letter=chosen, dry_run="1").text
    assert dry.count(f"would be sent to {names.topic}, 1 bytes") == 2
    assert len(server.messages(names.topic)) == 3, "a dry run sends nothing"

    done = console.post("/dead-letters/replay", group=names.group, letter=chosen).text
    assert done.count(f"sent to {names.topic}/broker-a/0 at offset") == 2
    assert "it may be older" in done
    assert "is no place of a letter" in done
    assert [one.body for one in server.messages(names.topic)] == [b"1", b"2", b"2", b"1", b"2"]
    replayed = [line for line in audit_lines(audit_file) if line.get("action") == "replay"][-2:]
    assert [line["letter"] for line in replayed] == [letters[0], letters[2]]


def test_a_letter_is_sent_once_however_often_it_is_in_the_form_and_the_button_is_pressed(console, server, names):
    (letter,) = dead_letters(server, console, names, b"1")
    (once,) = re.findall(r'name="once" value="([^"]+)"', console.page("/dead-letters", group=names.group))
    form = {"group": names.group, "letter": [letter, letter], "once": once}
    assert console.post("/dead-letters/replay", **form, dry_run="1").text.count("would be sent to") == 1
    assert console.post("/dead-letters/replay", **form).text.count(f"sent to {names.topic}/") == 1
    again = console.post("/dead-letters/replay", **form)
    assert (again.status_code, "was sent before" in again.text) == (409, True)
    assert len(server.messages(names.topic)) == 2


def test_a_letter_is_edited_and_sent_to_another_topic(console, server, names):
    (letter,) = dead_letters(server, console, names, b"1\n2")
    text = console.page("/dead-letter", **letter_at(names, letter))
    assert re.search(r"<textarea[^>]*>\n1\n2</textarea>", text)
    other = f"{names.topic}-edited"
    with server.admin() as admin:
        admin.create_topic(other, queues=1)
    form = {"group": names.group, "letter": letter, "to_topic": other}
    assert "with the edited body" in console.post("/dead-letters/replay", **form, body="1\r\n3", dry_run="1").text
    assert "with the edited body" not in console.post("/dead-letters/replay", **form, body="1\r\n2", dry_run="1").text
    assert f"sent to {other}" in console.post("/dead-letters/replay", **form, body="1\r\n3").text
    assert f"sent to {other}" in console.post("/dead-letters/replay", **form, body="1\r\n2").text
    assert [one.body for one in server.messages(other)] == [b"1\n3", b"1\n2"]
    refused = console.post("/dead-letters/replay", **{**form, "to_topic": "no-such-topic"}, body="1").text
    assert "does not exist" in refused


def test_a_letter_with_masked_parts_is_sent_unchanged_and_cannot_be_edited(console, server, names):
    body = f"card {CARD}".encode()
    (letter,) = dead_letters(server, console, names, body)
    text = console.page("/dead-letter", **letter_at(names, letter))
    assert "parts of it are masked" in text
    assert "<textarea" not in text
    assert CARD not in text
    form = {"group": names.group, "letter": letter}
    assert "cannot be changed" in console.post("/dead-letters/replay", **form, body="card •••").text
    assert "sent to" in console.post("/dead-letters/replay", **form).text
    assert server.messages(names.topic)[-1].body == body


def test_too_many_letters_or_none_are_refused(console, names):
    assert "no letter is selected" in console.post("/dead-letters/replay", group=names.group).text
    many = [f"broker-a/0/{number}" for number in range(201)]
    assert "at once are allowed" in console.post("/dead-letters/replay", group=names.group, letter=many).text


def test_without_a_place_to_write_it_down_nothing_is_changed(server, names, tmp_path):
    folder = tmp_path / "audit"
    folder.mkdir()
    with RunningConsole(server.namesrv_addr, allow_changes=True, audit_file=folder / "audit.jsonl") as console:
        (folder / "audit.jsonl").unlink()
        folder.rmdir()
        text = console.post("/topic/send", topic=names.topic, body="x").text
        assert "nothing is changed" in text
    assert server.messages(names.topic) == []


def test_a_browser_does_not_choose_its_address_in_the_audit_file(console, audit_file):
    fields = {"form_key": console.form_key, "topic": "no-such-topic", "body": "x"}
    headers = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https", "Forwarded": "for=192.0.2.7"}
    assert console.browser.post("/topic/send", data=fields, headers=headers).status_code == 200
    assert audit_lines(audit_file)[-2]["peer"] == "127.0.0.1"


def test_a_change_whose_end_is_not_known_says_so_in_the_audit_file(console, audit_file, monkeypatch):
    async def fails() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(console.server._parts.cluster, "producer", fails)
    fields = {"form_key": console.form_key, "topic": "t", "body": "x"}
    # Uvicorn closes the connection after a failure.
    answer = console.browser.post("/topic/send", data=fields, headers={"Connection": "close"})
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"
    begun, ended = audit_lines(audit_file)[-2:]
    assert (begun["stage"], ended["stage"], begun["change"]) == ("begins", "ended", ended["change"])
    assert ended["outcome"] == "not known (RuntimeError); it may have been carried out"


def test_users_and_policies_are_shown_without_passwords():
    users = {"authenticationEnabled": True, "initAuthenticationUser": '{"username":"ops","password":"ops-secret-1"}'}
    keys = {"access_key": "ops", "secret_key": "ops-secret-1"}
    with EmbeddedRocketMQ(clock="system", **users) as server:
        with server.admin(**keys) as admin:
            admin.create_user("reader", "reader-secret-1")
            admin.create_acl("User:reader", ["Topic:orders"], ["Sub"], source_ips=["10.0.0.0/8"])
        with RunningConsole(server.namesrv_addr, clients=keys) as console:
            text = console.until("reader", "/access")
            config = console.page("/broker", name="broker-a", id="0")
    for wanted in ("User:reader", "Topic:orders", "Sub", "10.0.0.0/8", "Super"):
        assert wanted in text
    for page in (text, config):
        assert "reader-secret-1" not in page
        assert "ops-secret-1" not in page


def test_one_broker_of_several_is_asked(server, names):
    (result,) = send(server, names.topic, b"one", keys="k-1")
    with server.admin() as admin:
        for name, there in (("broker-a", 1), ("broker-b", 0)):
            assert len(admin.topic_stats(names.topic, broker=name)) == there
            assert len(admin.messages_by_key(names.topic, "k-1", broker=name)) == there
            assert len(admin.messages_by_unique_key(names.topic, result.message_id, broker=name)) == there
        assert admin.consumer_connection(names.group, broker="broker-a") is None
        for ask in (
            admin.consumer_connection,
            lambda group, broker: admin.running_info(group, "client", broker=broker),
        ):
            with pytest.raises(rmq.ConfigurationError, match="broker-b"):
                ask(names.group, broker="broker-b")
