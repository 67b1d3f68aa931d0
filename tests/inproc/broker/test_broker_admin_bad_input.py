# SPDX-License-Identifier: Apache-2.0
"""Missing, non-numeric, negative and huge values in every header field, and broken bodies, of every request that tools make.

Each gets an answer: success where the value is harmless, else a failure code with one sentence; never a traceback, never a closed
connection, and no change of topics, groups, offsets or settings.
"""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.broker.handlers.admin import broker_config, cleanup, runtime_info, stats, topics
from sprocketmq.broker.handlers.group import (
    assignment,
    connections,
    consume_queue,
    groups,
    locks,
    offset_reset,
    offsets,
)
from sprocketmq.broker.handlers.messages import relay
from sprocketmq.broker.handlers.table import HANDLERS
from sprocketmq.wire.codes import ResponseCode

FAMILIES = (
    assignment,
    broker_config,
    cleanup,
    connections,
    consume_queue,
    groups,
    locks,
    offset_reset,
    offsets,
    relay,
    runtime_info,
    stats,
    topics,
)
CODES_OF = {
    family: sorted(code for code, handler in HANDLERS.items() if handler.__module__ == family.__name__)
    for family in FAMILIES
}
CODES = sorted(chain.from_iterable(CODES_OF.values()))
# The fields of each code, well-formed; codes without fields are not here.
GROUP, TOPIC, QUEUE = {"consumerGroup": "g"}, {"topic": "flights"}, {"topic": "flights", "queueId": "0"}
CREATE = {"defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "order": "false"}
WELL_FORMED = {
    14: {**GROUP, **QUEUE, "setZeroIfNotFound": "true"},
    15: {**GROUP, **QUEUE, "commitOffset": "1"},
    17: {**TOPIC, **CREATE, "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "attributes": ""},
    21: {"topicSeq": "0", "maxTopicNum": "2", "dataVersion": ""},
    29: {**QUEUE, "timestamp": "0", "boundaryType": "LOWER"},
    30: {**QUEUE, "committed": "true"},
    31: QUEUE,
    32: QUEUE,
    201: {"groupSeq": "0", "maxGroupNum": "2", "dataVersion": ""},
    202: TOPIC,
    204: {"producerGroup": "p"},
    207: {"groupName": "h", "cleanOffset": "true"},
    208: {**GROUP, **TOPIC, "topicList": ""},
    215: {"topic": "delays"},
    222: {"group": "g", **QUEUE, "timestamp": "0", "isForce": "true", "offset": "1"},
    223: {"group": "g", **TOPIC, "clientAddr": "nobody"},
    300: TOPIC,
    303: {"group": "g", **TOPIC},
    307: {**GROUP, "clientId": "nobody", "jstackEnable": "true"},
    308: {**TOPIC, "compareGroup": "g", "filterGroups": ""},
    309: {**GROUP, **TOPIC, "clientId": "nobody", "msgId": "7F00000100002A9F0000000000000000"},
    314: {**TOPIC, "srcGroup": "g", "destGroup": "h", "offline": "false"},
    315: {"statsName": "TOPIC_PUT_NUMS", "statsKey": "flights"},
    317: {"isOrder": "false"},
    321: {**QUEUE, **GROUP, "index": "0", "count": "1"},
    343: {"group": "g"},
    345: {"group": "g", **TOPIC},
    351: TOPIC,
    352: {"group": "g"},
    353: {"group": "g", **TOPIC, "readable": "true"},
}
FIELDS = sorted({field for fields in WELL_FORMED.values() for field in fields})
STRANGE = (
    "",
    "abc",
    "-1",
    "-9223372036854775809",
    "99999999999999999999",
    "2147483647",
    "1.5",
    "\x00",
    "🛫",
    "x" * 70_000,
)


def state(cluster):
    broker = cluster.broker

    def look():
        topic, group = broker.topics.get("flights"), broker.groups.table.get("g")
        return (
            topic and topic.encode(),
            group and group.encode(),
            broker.offsets.offsets_of("g", "flights"),
            dict(broker.groups.forbidden),
            broker.live_config.text(),
        )

    return cluster.on_loop(look)


@pytest.fixture
def busy(cluster, client):
    """A topic with a message and a group with an offset."""
    client.send("flights")
    client.pull("g", "flights", 0, 0, commit_offset=1)
    return cluster


def ask(client, code: int, ext: dict[str, str], body: bytes = b""):
    return client.ask(code, None, body, ext_fields=ext)


@pytest.mark.parametrize("code", WELL_FORMED)
def test_a_strange_value_in_any_field_gets_an_answer_and_a_refusal_changes_nothing(busy, client, code, caplog):
    before = state(busy)
    for field in WELL_FORMED[code]:
        for strange in (None, *STRANGE):
            ext = {name: value for name, value in WELL_FORMED[code].items() if name != field}
            if strange is not None:
                ext[field] = strange
            answer = ask(client, code, ext)
            if answer.code:
                assert answer.remark, (field, strange)
                assert state(busy) == before, (field, strange)
            else:
                before = state(busy)
    assert not [record for record in caplog.records if record.exc_info], "a traceback"
    assert client.send("flights").code == 0


BROKEN = (b"", b"{", b"null", b"[]", b"{}", b"\xff\xfe", b'{"topicConfigList":[null]}', b'{"mqSet":[{"topic":1}]}')


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.rpartition(".")[2])
def test_a_broken_body_gets_an_answer_and_changes_nothing(busy, client, family, caplog):
    before = state(busy)
    for code in CODES_OF[family]:
        for body in BROKEN:
            ask(client, int(code), {"topic": "nowhere", "group": "nobody", "consumerGroup": "nobody"}, body)
            assert state(busy) == before, (code, body)
    assert not [record for record in caplog.records if record.exc_info], "a traceback"
    assert client.send("flights").code == 0


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(CODES),
    st.dictionaries(st.sampled_from(FIELDS), st.one_of(st.sampled_from(STRANGE[:-1]), st.text(max_size=20))),
    st.binary(max_size=40),
)
def test_any_header_and_any_body_is_answered(busy, client, code, ext, body):
    answer = ask(client, code, ext, body)
    assert answer.code in {int(known) for known in ResponseCode}
    assert not answer.code or answer.remark
