"""Each request that tools make of a broker gets from ours the answer that Apache 5.4.0 gives, or differs for a written reason."""

from __future__ import annotations

import pytest

from interop.peers import ApacheCluster, SprocketServer
from interop.remoting import ask
from interop.requests_compared import CONVERSATION, comparable, hold_conversation
from sprocketmq.wire import fastjson

Server = ApacheCluster | SprocketServer


def test_every_answer_is_apaches_or_differs_for_a_reason(server: Server, apache5: ApacheCluster, topic: str) -> None:
    if server is apache5:
        pytest.skip("Apache is not compared with itself")
    apache5.create_topic(topic, 4)
    group = f"of-{topic}"
    ours = hold_conversation(server.broker_addr, topic, group)
    theirs = hold_conversation(apache5.broker_addr, topic, group)
    unexpected, no_longer = [], []
    for asked in CONVERSATION:
        name = f"{asked.code} {asked.name}"
        mine, apaches = (comparable(name, answers[name], topic, group) for answers in (ours, theirs))
        if mine != apaches and not asked.differs:
            unexpected.append(f"{name}\n  ours   {mine}\n  Apache {apaches} {theirs[name].header.get('remark')}")
        if mine == apaches and asked.differs:
            no_longer.append(name)
    assert not unexpected, "\n".join(unexpected)
    assert not no_longer, f"these answers are Apache's by now, remove the reason: {no_longer}"


def test_runtime_info_has_every_key_of_apaches(server: Server, apache5: ApacheCluster) -> None:
    tables = [fastjson.loads(ask(broker.broker_addr, 28).body)["table"] for broker in (server, apache5)]
    ours, theirs = (set(table) for table in tables)
    assert {key for key in theirs - ours if not key.startswith("commitLogDiskRatio_")} == {
        "putLatency99",
        "putLatency999",
        "putMessageDistributeTime",
    }
