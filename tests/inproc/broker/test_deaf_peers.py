# SPDX-License-Identifier: Apache-2.0
"""What a broker does for peers that do not read: nothing is kept for them beyond the mark, and who asked for it is told."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from sprocketmq.net.connection import Connection
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import encode_command, request
from sprocketmq.wire.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    ResetOffsetRequestHeader,
    SendMessageRequestHeaderV2,
)
from sprocketmq.wire.records import properties as props

MARK = 64 * 1024
SETTINGS = {
    "write_buffer_high_water_mark": MARK,
    "server_socket_snd_buf_size": 8 * 1024,
    "use_server_side_reset_offset": False,  # members are told, as in 4.9
}
BODY = bytes(100_000)

pytestmark = pytest.mark.parametrize("cluster", [SETTINGS], indirect=True)


@contextlib.contextmanager
def deaf_member(cluster, group: str = "deaf-group", client_id: str = "deaf") -> Iterator[Connection]:
    """The broker's side of a consumer and producer that has sent a heartbeat and reads nothing."""
    body = {
        "clientID": client_id,
        "producerDataSet": [{"groupName": group}],
        "consumerDataSet": [{"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
                             "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
                             "subscriptionDataSet": [{"topic": "flights", "subString": "*", "subVersion": 1}]}],
    }  # fmt: skip
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("127.0.0.1", cluster.broker.port))
        heartbeat = request(RequestCode.HEART_BEAT, body=json.dumps(body).encode())
        heartbeat.version = 409
        peer.sendall(encode_command(heartbeat))
        cluster.eventually(lambda: cluster.broker.producers.find(client_id) is not None)
        yield cluster.on_loop(lambda: cluster.broker.producers.find(client_id))


def fill(cluster, connection: Connection) -> int:
    """Push to it until it takes no more; how many bytes wait."""

    def push() -> int:
        while connection.push(request(RequestCode.CHECK_TRANSACTION_STATE, body=BODY, oneway=True)):
            pass
        return connection.unsent_bytes

    return cluster.on_loop(push)


def test_a_relayed_message_is_refused_when_its_member_does_not_read(cluster, client):
    sent = client.send("flights", BODY, properties={props.UNIQ_KEY: "large"})
    with deaf_member(cluster) as connection:
        unsent_bytes = fill(cluster, connection)
        header = ConsumeMessageDirectlyResultRequestHeader("deaf-group", "deaf", sent.ext_fields["msgId"])
        for _ in range(20):
            answer = client.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
            assert answer.code == ResponseCode.SYSTEM_BUSY
            assert "does not read what it is sent, so it is not asked" in answer.remark
        assert cluster.on_loop(lambda: connection.unsent_bytes) <= unsent_bytes


def test_a_relayed_messages_body_is_not_kept_while_its_answer_is_waited_for(cluster, client):
    sent = client.send("flights", BODY, properties={props.UNIQ_KEY: "large"})
    with deaf_member(cluster) as connection:
        header = ConsumeMessageDirectlyResultRequestHeader("deaf-group", "deaf", sent.ext_fields["msgId"])
        waiting = [client.begin(RequestCode.CONSUME_MESSAGE_DIRECTLY, header) for _ in range(20)]
        cluster.eventually(lambda: connection.is_congested)
        taken = [future for future in waiting if not future.done()]
        assert cluster.on_loop(lambda: connection.unsent_bytes) <= MARK + 2 * len(BODY)
        assert len(taken) < 20, "the others were refused"


def test_a_reply_to_a_requester_that_does_not_read_is_stored_and_its_sender_told(cluster, client):
    client.send("replies")
    with deaf_member(cluster) as connection:
        unsent_bytes = fill(cluster, connection)
        named = props.encode_properties({props.REPLY_TO_CLIENT: "deaf"}).decode()
        header = SendMessageRequestHeaderV2("producers", "replies", "TBW102", 4, 0, 0, 1, 0, named)
        answer = client.ask(RequestCode.SEND_REPLY_MESSAGE_V2, header, BODY)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "does not read what it is sent; the reply was not pushed" in answer.remark
        assert cluster.on_loop(lambda: connection.unsent_bytes) <= unsent_bytes
    assert len(client.messages("replies")) == 2


def test_members_that_do_not_read_are_named_in_the_answer_to_a_reset(cluster, client):
    client.send("flights")
    client.engine.run(_commit(cluster))
    with deaf_member(cluster) as connection:
        fill(cluster, connection)
        header = ResetOffsetRequestHeader(topic="flights", group="deaf-group", timestamp=-1, is_force=True)
        answer = client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert answer.remark.startswith("deaf does not read what it is sent and was not told")


async def _commit(cluster) -> None:
    for queue_id in range(cluster.broker.topics.table["flights"].write_queue_nums):
        cluster.broker.offsets.commit("deaf-group", "flights", queue_id, 0)


def test_notices_of_one_group_to_a_member_that_does_not_read_wait_once(cluster, client):
    with deaf_member(cluster) as connection:
        unsent_bytes = fill(cluster, connection)
        for number in range(30):
            other = cluster.client()
            other.heartbeat(f"other-{number}", group="deaf-group", topics={"flights": "*"})
            other.close()
            cluster.clients.remove(other)
        assert cluster.on_loop(lambda: len(connection._newest)) == 1
        assert cluster.on_loop(lambda: connection.unsent_bytes) <= unsent_bytes


def test_a_producer_that_does_not_read_is_not_asked_about_its_halves_and_one_that_does_is(cluster, client):
    def asked() -> Connection | None:
        return cluster.on_loop(lambda: cluster.broker.producers.available("deaf-group", lambda connection: True))

    with deaf_member(cluster) as connection:
        fill(cluster, connection)
        assert asked() is connection, "there is nobody else"
        reading = cluster.client()
        reading.heartbeat("reading", producer="deaf-group")
        assert {id(asked()) for _ in range(4)} == {
            id(cluster.on_loop(lambda: cluster.broker.producers.find("reading")))
        }


@pytest.mark.parametrize("limit", ["_MOST_BYTES", "_MOST_BYTES_PER_CONNECTION"])
def test_pulls_that_wait_are_counted_by_their_bytes_too(cluster, client, limit, monkeypatch):
    monkeypatch.setattr(f"sprocketmq.broker.delivery.parked.{limit}", 500_000)
    client.send("flights")
    long_expression = "||".join(f"tag-{number:05}" for number in range(1_000))
    waiting = [
        client.begin_pull("reader", "flights", 0, 1, expression=long_expression, suspend_ms=60_000) for _ in range(20)
    ]
    cluster.eventually(
        lambda: sum(future.done() for future in waiting) == 20 - 500_000 // (len(long_expression) + 999 * 128)
    )
    assert {future.result().code for future in waiting if future.done()} == {ResponseCode.POLLING_FULL}
    cluster.clock.advance(60_000)
    cluster.eventually(lambda: len(cluster.broker.parked) == 0)
    again = client.begin_pull("reader", "flights", 0, 1, expression=long_expression, suspend_ms=60_000)
    cluster.eventually(lambda: len(cluster.broker.parked) == 1)
    assert not again.done()
