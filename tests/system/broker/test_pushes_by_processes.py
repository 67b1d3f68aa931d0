# SPDX-License-Identifier: Apache-2.0
"""Access control at a broker process: what official clients do with no more rights than they need, and what an intruder gets."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import sprocketmq as rmq
from interop.remoting import Answer, ask
from interop.sprocket_server import SprocketServer
from sprocketmq.errors import NoPermission
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.acl_signature import signed_fields
from sprocketmq.wire.records.message_id import decode_offset_message_id

pytestmark = pytest.mark.timeout(120)

BOSS, OWNER, INTRUDER = ("Boss7777", "boss-secret"), ("Owner777", "owner-secret"), ("Intruder", "intruder-secret")
RIGHTS = {OWNER: ("orders", "billing"), INTRUDER: ("mine", "my-group")}


@pytest.fixture(params=["accounts", "users"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SprocketServer]:
    if request.param == "accounts":
        accounts: list[dict[str, Any]] = [{"accessKey": BOSS[0], "secretKey": BOSS[1], "admin": True}]
        for (name, secret), (topic, group) in RIGHTS.items():
            rights = {"topicPerms": [f"{topic}=PUB|SUB"], "groupPerms": [f"{group}=SUB"]}
            accounts.append({"accessKey": name, "secretKey": secret, **rights})
        (tmp_path / "plain_acl.yml").write_text(yaml.safe_dump({"accounts": accounts}))
        settings: dict[str, Any] = {"aclEnable": True, "aclFile": str(tmp_path / "plain_acl.yml")}
    else:
        settings = {
            "authenticationEnabled": True,
            "authorizationEnabled": True,
            "initAuthenticationUser": '{"username":"Boss7777","password":"boss-secret"}',
        }
    started = SprocketServer(messageDelayLevel="1s 1s 1s 1s", **settings).start(60)
    try:
        with rmq.Admin(**signing(started, BOSS)) as admin:
            for (name, secret), (topic, group) in RIGHTS.items():
                admin.create_topic(topic, queues=1)
                if request.param == "users":
                    admin.create_user(name, secret, broker=started.broker_addr)
                    for resource, actions in ((f"Topic:{topic}", ["Pub", "Sub"]), (f"Group:{group}", ["Sub"])):
                        admin.create_acl(f"User:{name}", [resource], actions, broker=started.broker_addr)
        yield started
    finally:
        started.stop()


def signing(server: SprocketServer, keys: tuple[str, str]) -> dict[str, Any]:
    return {"namesrv_addr": server.namesrv_addr, "access_key": keys[0], "secret_key": keys[1]}


def ask_as(
    server: SprocketServer, keys: tuple[str, str], code: int, fields: dict[str, str], body: bytes = b""
) -> Answer:
    return ask(server.broker_addr, code, signed_fields(fields, body, *keys), body)


def test_clients_with_the_rights_that_they_need_do_all_they_do(server: SprocketServer) -> None:
    got: queue.Queue[tuple[bytes, int]] = queue.Queue()
    options = signing(server, OWNER)
    consumer = rmq.PushConsumer("billing", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **options)
    consumer.subscribe("orders", "*")
    with rmq.Producer("shop", **options) as producer:

        @consumer.on_message
        def handle(message: rmq.MessageExt) -> None:
            got.put((message.body, message.reconsume_times))
            if message.body == b"again" and message.reconsume_times == 0:
                raise ValueError("the first time it fails, so it is sent back")
            if message.body == b"ask":
                producer.reply(message, b"answer")

        with consumer:
            assert producer.request(rmq.Message("orders", b"ask"), timeout_ms=20_000).body == b"answer"
            producer.send_batch([rmq.Message("orders", b"batched"), rmq.Message("orders", b"too")])
            producer.send(rmq.Message("orders", b"again"))
            with rmq.TransactionProducer(
                "payments", **options, check=lambda message: rmq.LocalTransactionState.UNKNOWN
            ) as payments:
                payments.send_in_transaction(
                    rmq.Message("orders", b"paid"), execute=lambda message: rmq.LocalTransactionState.COMMIT_MESSAGE
                )
            wanted = {(b"ask", 0), (b"batched", 0), (b"too", 0), (b"again", 0), (b"again", 1), (b"paid", 0)}
            while wanted:
                wanted.discard(got.get(timeout=60))


def test_an_account_without_rights_cannot_access_resources_of_others(server: SprocketServer) -> None:
    with rmq.Producer("shop", **signing(server, OWNER)) as producer:
        sent = producer.send(rmq.Message("orders", b"what only the owner may see", keys="k-1"))
    place = decode_offset_message_id(sent.offset_message_id)[1]
    queue_0 = {"topic": "orders", "queueId": "0"}
    before = ask_as(server, BOSS, 30, queue_0).header["extFields"]
    reply = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
    pushes: tuple[tuple[int, dict[str, str], bytes], ...] = (
        (325, {**reply, "i": "REPLY_TO_CLIENT\x01x\x02"}, b"forged"),
        (325, {**reply, "b": "made-by-a-reply"}, b"forged"),
        (310, {**reply, "a": "my-group", "b": "%RETRY%billing"}, b"forged"),
        (33, {"offset": str(place)}, b""),
        (33, {"offset": str(place), "topic": "mine"}, b""),
        (36, {"offset": str(place), "group": "my-group", "delayLevel": "0", "maxReconsumeTimes": "16"}, b""),
        (309, {"consumerGroup": "my-group", "clientId": "c", "msgId": sent.offset_message_id, "topic": "mine"}, b""),
        (222, {"topic": "orders", "group": "billing", "timestamp": "-1", "isForce": "true"}, b""),
        (353, {"topic": "orders", "group": "billing", "readable": "false"}, b""),
        (329, {}, b""),
        (43, {}, b""),
        (200, {}, b'{"":[],"groupName":"billing","consumeEnable":false}'),
        (3004, {"username": "Boss7777"}, b""),
        (30001, {"step": "start", "timeoutMs": "1000"}, b""),
    )
    for code, fields, body in pushes:
        answer = ask_as(server, INTRUDER, code, fields, body)
        assert (answer.code, answer.body) == (ResponseCode.NO_PERMISSION, b""), (code, answer.header)
    assert ask_as(server, BOSS, 30, queue_0).header["extFields"] == before
    topics = ask_as(server, BOSS, 21, {}).body
    assert b"made-by-a-reply" not in topics
    assert b"%RETRY%my-group" not in topics, "send-back made nothing"
    with rmq.Admin(**signing(server, INTRUDER)) as admin, pytest.raises(NoPermission):
        admin.view_message(sent.offset_message_id)
    with rmq.Admin(**signing(server, OWNER)) as admin:
        assert admin.view_message(sent.offset_message_id).body == b"what only the owner may see"


def test_the_replication_port_of_a_broker_with_accounts_sends_nothing(server: SprocketServer) -> None:
    with rmq.Producer("shop", **signing(server, OWNER)) as producer:
        producer.send(rmq.Message("orders", b"x"))
    address = ask_as(server, BOSS, 906, {}).header["extFields"]["masterHaAddress"]
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as slave:
        try:
            slave.sendall(bytes(8))
            assert slave.recv(1) == b""
        except ConnectionResetError:
            pass
