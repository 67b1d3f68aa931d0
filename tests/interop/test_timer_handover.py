# SPDX-License-Identifier: Apache-2.0
"""Delayed messages and timer messages wait on while their store moves between Apache and us, both ways, stopped or killed."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from interop.child import poll_until
from interop.peers import APACHE_4, APACHE_5, ApacheCluster, JavaProgram, Server, SprocketServer
from interop.remoting import Answer, ask
from interop.send_ledger import bodies_of
from sprocketmq.store.tools.check import check_directory

pytestmark = [pytest.mark.usefixtures("java_peers"), pytest.mark.timeout(300)]

TOPIC = "handed-over"
LEVELS = {"messageDelayLevel": "1s 10s 30s"}
SEND_MESSAGE, CONSUMER_SEND_MSG_BACK, GET_TIMER_CHECK_POINT, GET_TIMER_METRICS, RECALL_MESSAGE = 10, 36, 60, 61, 370


def send(server: Server, body: str, topic: str = TOPIC, **properties: object) -> Answer:
    """One message by the plainest of requests."""
    named = {"UNIQ_KEY": f"key-{body}", **{name: str(value) for name, value in properties.items()}}
    ext = {
        "producerGroup": "producers", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
        "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
        "properties": "".join(f"{name}\x01{value}\x02" for name, value in named.items()),
    }  # fmt: skip
    return ask(server.broker_addr, SEND_MESSAGE, ext, body.encode())


def delivered(server: Server) -> Counter[str]:
    return Counter(bodies_of(server.namesrv_addr, TOPIC))


def wait_for(server: Server, *names: str) -> None:
    poll_until(lambda: set(names) <= set(delivered(server)), f"{names} arrive", pause_s=0.3)


def end(server: Server, killed: bool) -> None:
    if killed:
        server.kill()
    server.stop()


def some(server: Server, label: str, *, timers: bool) -> None:
    """Of each kind one that is due soon, one a little later and one late."""
    for level, due in ((1, "soon"), (2, "later"), (3, "late")):
        assert send(server, f"level-{label}-{due}", DELAY=level).code == 0
    if timers:
        for seconds, due in ((2, "soon"), (11, "later"), (31, "late")):
            assert send(server, f"timer-{label}-{due}", TIMER_DELAY_SEC=seconds).code == 0


def names(label: str, due: str, *, timers: bool) -> list[str]:
    return [f"{kind}-{label}-{due}" for kind in (("level", "timer") if timers else ("level",))]


@pytest.mark.nightly
@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("version", [APACHE_5, APACHE_4])
def test_what_waits_at_apache_arrives_at_our_broker_and_what_waits_there_at_apache(version, killed, tmp_path):
    store, timers = tmp_path / "store", version == APACHE_5
    apache = ApacheCluster(version, store, **LEVELS, timerFlushIntervalMs=1000).start()
    apache.create_topic(TOPIC, 1)
    some(apache, "first", timers=timers)
    wait_for(apache, *names("first", "soon", timers=timers))
    time.sleep(1.5)  # Apache writes its timer's progress each second, and only then
    end(apache, killed)

    ours = SprocketServer(store, **LEVELS, flushDelayOffsetInterval=500)
    ours.start()
    some(ours, "second", timers=timers)
    wait_for(ours, *names("first", "later", timers=timers), *names("second", "soon", timers=timers))
    assert not {"level-first-late", "timer-first-late"} & set(delivered(ours)), "nothing is early"
    poll_until(lambda: progress_is_written(store), "progress is written")
    end(ours, killed)
    if not killed:
        assert [str(problem) for problem in check_directory(store) if not problem.note] == []

    apache = ApacheCluster(version, store, **LEVELS, timerFlushIntervalMs=1000).start()
    try:
        everything = [
            name for label in ("first", "second") for due in ("soon", "later", "late") for name in names(label, due, timers=timers)
        ]  # fmt: skip
        wait_for(apache, *everything)
        found = delivered(apache)
    finally:
        apache.stop()
    assert set(found) == set(everything)
    assert found == Counter(everything) or killed, "a clean handover repeats nothing"


def progress_is_written(store: Path) -> bool:
    """Our broker's progress as Apache reads it has seen the first of the second lot."""
    text = (store / "config/delayOffset.json").read_text()
    return json.loads(text.replace("1:", '"1":').replace("2:", '"2":').replace("3:", '"3":'))["offsetTable"]["1"] >= 2


# -- the same questions to both ------------------------------------------------------------------------------------------------

DAY = 24 * 3600


def conversation(server: Server) -> dict[str, tuple[Any, ...]]:
    """Requests about timers and retry with the code of each answer, and which header fields came with it."""
    server.create_topic(TOPIC, 4)
    heard: dict[str, tuple[Any, ...]] = {}

    def note(what: str, answer: Answer, *more: object) -> Answer:
        # A refused send lacks the marks of region and trace at ours, as every refused send does.
        fields = sorted(answer.header.get("extFields") or {}) if answer.code == 0 or what.startswith("recall") else []
        heard[what] = (answer.code, fields, *more)
        return answer

    now = int(time.time() * 1000)
    for what, asked in {
        "seconds": {"TIMER_DELAY_SEC": 3600},
        "milliseconds": {"TIMER_DELAY_MS": 3_600_000},
        "a moment": {"TIMER_DELIVER_MS": now + 3_600_000},
        "the past": {"TIMER_DELIVER_MS": now - 5},
        "negative": {"TIMER_DELAY_SEC": -1},
        "no number": {"TIMER_DELAY_SEC": "soon"},
        "blanks": {"TIMER_DELAY_MS": " 5"},
        "beyond long": {"TIMER_DELIVER_MS": "9" * 20},
        "too far": {"TIMER_DELAY_SEC": 3 * DAY + 5},
        "the first that counts is no number": {"TIMER_DELAY_SEC": "x", "TIMER_DELAY_MS": "1000"},
        "a level too": {"DELAY": 3, "TIMER_DELAY_SEC": 3600},
        "a level above the highest": {"DELAY": 99},
        "deleting the past": {"TIMER_DELIVER_MS": 5, "TIMER_DEL_UNIQKEY": "key"},
    }.items():
        note(f"send: {what}", send(server, what, **asked))
    note("send: to the timer's own topic", send(server, "x", "rmq_sys_wheel_timer"))
    answer = send(server, "recalled", TIMER_DELAY_SEC=3600)
    handle = answer.header["extFields"]["recallHandle"]

    def recall(what: str, handle: str | None, topic: str | None = TOPIC) -> Answer:
        ext = {"producerGroup": "producers", "topic": topic, "recallHandle": handle}
        return note(
            f"recall: {what}", ask(server.broker_addr, RECALL_MESSAGE, {k: v for k, v in ext.items() if v is not None})
        )

    assert recall("as it should be", handle).header["extFields"]["msgId"] == "key-recalled"
    recall("twice", handle)
    recall("unpadded", handle.rstrip("="))
    recall("empty", "")
    recall("no handle", "hello")
    recall("not base64", "???")
    recall("missing", None)
    recall("another topic", handle, "SELF_TEST_TOPIC")
    recall("no topic", handle, "nowhere")
    # Apache writes it each second and says 0 before the first time; on a busy machine its timer is behind for a while.
    poll_until(lambda: now - 60_000 < read_ms(server) < now + 600_000, "the check point says how far the timer is")
    heard["check point"] = (len(ask(server.broker_addr, GET_TIMER_CHECK_POINT, {}).body),)
    heard["metrics"] = (sorted(json.loads(ask(server.broker_addr, GET_TIMER_METRICS, {}).body)),)
    return heard


def read_ms(server: Server) -> int:
    """Up to when the timer's slots are delivered, as its check point says."""
    return int.from_bytes(ask(server.broker_addr, GET_TIMER_CHECK_POINT, {}).body[:8], "big")


def test_timer_messages_and_recalls_are_answered_as_apache_answers_them():
    with ApacheCluster(APACHE_5, recallMessageEnable=True, timerFlushIntervalMs=1000) as apache:
        theirs = conversation(apache)
    with SprocketServer(recallMessageEnable=True) as ours:
        assert conversation(ours) == theirs


def test_apaches_client_sends_timer_messages_to_us_and_takes_one_back():
    with SprocketServer(recallMessageEnable=True) as ours:
        ours.create_topic(TOPIC, 1)
        options = {"namesrv": ours.namesrv_addr, "topic": TOPIC, "count": 5, "deliver_after_ms": 8_000, "recall": 2}
        with JavaProgram(APACHE_5, "Producer", **options) as producer:
            sent = producer.read_events("sent", 5, 60.0)
            (recalled,) = producer.read_rest("recalled")
        assert recalled["msgId"] == sent[2]["msgId"]
        assert delivered(ours) == Counter()
        left = ["number 0", "number 1", "number 3", "number 4"]
        wait_for(ours, *left)
        assert delivered(ours) == Counter(left)
