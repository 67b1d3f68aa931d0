# SPDX-License-Identifier: Apache-2.0
"""Every header field of every code that broker and name server serve, with values that cannot be.

An answer comes, with a sentence when it is a refusal; no exception is logged; and a refusal has changed nothing: topics, groups, offsets,
settings, stored messages, users, routes and the name server's keys are what they were.
"""

from __future__ import annotations

import json
import socket
from collections import defaultdict

import msgspec
import pytest

from inproc.broker.conftest import Fields
from interop.hostile_requests import served_codes, spoilt_frames, templates
from sprocketmq.broker.handlers.messages import relay
from sprocketmq.wire.codes import ResponseCode

VALUES = (
    None, "", "abc", "-1", "0", "2147483648", "9223372036854775807", "-9223372036854775809", "9" * 400, "1.5", "\x00", "🛫", "x" * 100_000,
    "../..", "/tmp/x", "C:\\x",
)  # fmt: skip
BODIES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"x"',
    b"\xff\xfe\xfd",
    b"[" * 3_000,
    b'{"a":' * 3_000,
    b'{"mqSet":[null]}',
    b"9" * 5_000,
)
KNOWN = {int(code) for code in ResponseCode}
# Refusals without a remark, because Apache's have none either: a pull's, and a lookup's that finds nothing.
SPEECHLESS = {19, 20, 21, 24, 25, 26}

REPLIES = {324, 325}

BY_CODE = defaultdict(list)
for _asked in templates():
    BY_CODE[_asked.to, _asked.code].append(_asked)


def state(cluster):
    """What a refused request must leave alone, as text."""
    broker, server = cluster.broker, cluster.namesrv

    def look():
        broker.offsets.is_dirty = False
        return {
            "topics": sorted((name, topic.encode()) for name, topic in broker.topics.table.items()),
            "groups": sorted((name, group.encode()) for name, group in broker.groups.table.items()),
            "forbidden": json.dumps(broker.groups.forbidden, sort_keys=True),
            "offsets": repr(sorted(broker.offsets._committed.items())),
            "resets": repr(sorted(broker.offsets.resets.items())),
            "settings": broker.live_config.text(),
            "log end": broker.store.max_physical_offset,
            "users": repr([user.info() for user in broker.users.table.users()]),
            "policies": msgspec.json.encode(broker.users.table.acls()),
            "names": repr(server.table.topics()) + repr(server.table.cluster_info(0)),
            "keys": repr(server.kv_config._table),
            "name server's settings": repr(server.config),
        }

    return cluster.on_loop(look)


@pytest.fixture
def busy(cluster, client, monkeypatch):
    """What the requests are about exists: a topic with messages, a group with progress, a member (who answers none of them)."""
    monkeypatch.setattr(relay, "_STATUS_TIMEOUT_MS", 100)
    client.send("compared", properties={"KEYS": "key-1"})
    client.heartbeat("somebody", group="readers", topics={"compared": "*"}, producer="writers")
    client.pull("readers", "compared", 0, 0, commit_offset=1)
    return cluster


def clients(cluster, client):
    return {"broker": client, "namesrv": cluster.namesrv_client()}


def check(cluster, asker, asked, fields, body, before, what):
    """Ask, and return the state to compare the next one with."""
    answer = asker.ask(asked.code, None, body, ext_fields=fields)
    if answer.code == 0:
        return state(cluster)
    assert answer.code in KNOWN, (asked.key, what, answer.code)
    assert answer.remark or answer.code in SPEECHLESS, (asked.key, what, answer.code)
    after = state(cluster)
    if asked.code in REPLIES:  # stored although it could not be pushed, as Apache does
        before = {**before, "log end": after["log end"], "topics": after["topics"], "names": after["names"]}
    for part, was in before.items():
        assert after[part] == was, (asked.key, what, answer.code, answer.remark, part)
    return after


@pytest.mark.parametrize("cluster", [{"enable_property_filter": True}], indirect=True)
@pytest.mark.parametrize(("to", "code"), sorted(served_codes() - {("broker", 37)}))
def test_no_value_of_any_field_is_left_unanswered_or_changes_anything_by_a_refusal(busy, client, to, code, caplog):
    asker = clients(busy, client)[to]
    asked = BY_CODE[to, code][0]
    before = state(busy)
    for field in asked.fields:
        for value in VALUES:
            fields = {name: text for name, text in asked.fields.items() if name != field}
            if value is not None:
                fields[field] = value
            before = check(busy, asker, asked, fields, asked.body, before, (field, (value or "")[:30]))
    for body in BODIES:
        before = check(busy, asker, asked, asked.fields, body, before, body[:30])
    before = check(busy, asker, asked, {}, asked.body, before, "no fields at all")
    assert not [record.getMessage() for record in caplog.records if record.exc_info], "a traceback"
    assert client.send("compared").code == 0


def test_no_value_of_an_end_of_a_transaction_which_nobody_answers_ends_another(busy, client, caplog):
    asked, before = BY_CODE["broker", 37][0], state(busy)
    for field in asked.fields:
        for value in VALUES:
            header = Fields({**asked.fields, field: value})
            client.tell(37, header)
            behind_it = client.ask(30, Fields(topic="compared", queueId="0"))
            assert behind_it.code == 0
            assert state(busy) == before, (field, value)
    assert not [record.getMessage() for record in caplog.records if record.exc_info], "a traceback"


def test_there_is_a_well_formed_request_for_each_served_code():
    assert served_codes() - set(BY_CODE) == set()


def test_frames_spoilt_in_every_way_cost_at_most_their_connection_and_never_a_traceback(busy, client, caplog):
    ports = {"broker": busy.broker.port, "namesrv": busy.namesrv.port}
    for asked, frame in spoilt_frames(7, 1_500):
        if asked.code == 25:  # it may well be a legal order to serve nobody any more
            continue
        with socket.create_connection(("127.0.0.1", ports[asked.to]), timeout=10) as connection:
            connection.sendall(frame)
    assert client.send("compared").code == 0
    assert busy.namesrv_client().ask(106).code == 0
    assert not [record.getMessage() for record in caplog.records if record.exc_info], "a traceback"


def test_a_thousand_connections_closed_for_invalid_bytes_are_logged_once(cluster, client, caplog):
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", cluster.broker.port), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert connection.recv(1) == b""
    told = [record for record in caplog.records if "closing the connection" in record.getMessage()]
    assert len(told) <= 1
