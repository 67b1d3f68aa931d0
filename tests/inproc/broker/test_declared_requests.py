# SPDX-License-Identifier: Apache-2.0
"""What a request and its answer carry is declared once: well-formed requests, and what the servers answer, are held to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interop.hostile_requests import templates
from sprocketmq.wire import requests
from sprocketmq.wire.frames.command import FLAG_RESPONSE, Command
from sprocketmq.wire.requests.declaration import AnyRequest, BinaryBody, JsonList, JsonObject, Peer, Records
from sprocketmq.wire.requests.declaration import PropertiesText as Properties
from sprocketmq.wire.requests.messages import QUERY_MESSAGE

# Beside the header of each answer to a send or pull; a client may leave them alone.
MARKS = {"MSG_REGION", "TRACE_ON", "topicSysFlag", "groupSysFlag", "recallHandle"}
NO_STRUCT = (BinaryBody, JsonList, JsonObject, Properties, Records)
# They need accounts, filters, timers, a half message or a member that answers; each has tests of its own.
ELSEWHERE = {
    "CHECK_CLIENT_CONFIG", "CONSUME_MESSAGE_DIRECTLY", "DELETE_ACL_CONFIG", "END_TRANSACTION", "GET_BROKER_CLUSTER_ACL_CONFIG",
    "GET_BROKER_CLUSTER_ACL_INFO", "GET_CONSUMER_RUNNING_INFO", "RECALL_MESSAGE", "RESUME_CHECK_HALF_MESSAGE", "SEND_REPLY_MESSAGE",
    "SEND_REPLY_MESSAGE_V2", "UPDATE_AND_CREATE_ACL_CONFIG", "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG",
}  # fmt: skip


def wrong_in(one: AnyRequest, asked: Any, answer: Command) -> Iterator[str]:
    """What is not as declared, in a request and its successful answer."""
    if one.header is None and asked.fields:
        yield f"fields {sorted(asked.fields)} and no header"
    if one.header is not None:
        Command(asked.code, ext_fields=asked.fields).header(one.header)
    if one.body is None and asked.body:
        yield f"a body {asked.body[:60]!r} and none is declared"
    header = set() if one.answer_header is None else set(one.answer_header.__struct_encode_fields__)
    if not answer.ext_fields.keys() <= header | MARKS:
        yield f"the answer has {sorted(answer.ext_fields.keys() - header)}"
    if one.answer_header is not None:
        one.answer_header_in(answer)
    if one.answer_body is None and answer.body:
        yield f"the answer has a body {bytes(answer.body[:60])!r} and none is declared"
    elif one.answer_body is not None and answer.body and one.answer_body not in NO_STRUCT:
        one.answer_body_in(answer)


def prepare(client: Any) -> None:
    """A message with a key at the begin of queue 0 of compared, and a member of readers and writers."""
    heartbeat = next(asked for asked in templates() if asked.code == 34)
    body = heartbeat.body.replace(b"second-readers", b"readers").replace(b"others", b"writers")
    assert client.ask(34, body=body, ext_fields={}).code == 0
    send = next(asked for asked in templates() if asked.code == 310)
    assert client.ask(310, body=b"one", ext_fields={**send.fields, "e": "0", "i": "KEYS\x01key-1\x02"}).code == 0


@pytest.fixture
def headers_read(monkeypatch: pytest.MonkeyPatch) -> set[tuple[int, type]]:
    """Request codes, and the types that handlers and access control read their headers as."""
    found: set[tuple[int, type]] = set()
    read = Command.header

    def noted(command: Command, kind: type[Any]) -> Any:
        if not command.flag & FLAG_RESPONSE:
            found.add((command.code, kind))
        return read(command, kind)

    monkeypatch.setattr(Command, "header", noted)
    return found


def test_requests_and_their_answers_carry_what_is_declared(disk_cluster, headers_read):
    clients = {"broker": disk_cluster.client(), "namesrv": disk_cluster.namesrv_client()}
    served = {"broker": requests.served_by(Peer.BROKER), "namesrv": requests.served_by(Peer.NAME_SERVER)}
    of = {(to, int(one.code)): one for to, all_of in served.items() for one in all_of}
    wrong: list[str] = []
    answered: set[str] = set()
    prepare(clients["broker"])
    # Twice: what the first round looks for, its end has made.
    for asked in [*templates(), *templates()]:
        one = of.get((asked.to, asked.code))
        if one is None:
            continue
        if asked.code == QUERY_MESSAGE.code:
            disk_cluster.engine.run(disk_cluster.broker.index_building.catch_up())
        answer = clients[asked.to].ask(asked.code, body=asked.body, ext_fields=asked.fields)
        if answer.code == 0:
            answered.add(one.name)
            wrong += [f"{one.name}: {what}" for what in wrong_in(one, asked, answer)]
    assert wrong == []
    declared = {(int(one.code), one.header) for one in requests.declared()}
    assert sorted((code, kind.__name__) for code, kind in headers_read if (code, kind) not in declared) == []
    assert {one.name for one in of.values()} - answered == ELSEWHERE
