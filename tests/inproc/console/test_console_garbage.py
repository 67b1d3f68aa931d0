# SPDX-License-Identifier: Apache-2.0
"""A broker whose answers cannot be read, or say what cannot be: the others are shown as if it was not there, and no page fails."""

from __future__ import annotations

import json
import socketserver
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from console_server import DEADLINE_S, RunningConsole
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.codes import RequestCode

DIGITS = "9" * 400
BODIES = {
    "nothing": b"",
    "no object": b"null",
    "no text": b"\xff\x00\xfe",
    "other shapes": b'{"table":[1],"consumeStatsList":[{"g":[{"offsetTable":{"x":1}}]}],"connectionSet":[null]}',
    "huge numbers": f"""{{"table":{{"putTps":"{DIGITS}"}},"consumeStatsList":[{{"g":[{{"offsetTable":{{{{"brokerName":"bad","queueId":0,
        "topic":"t"}}:{{"brokerOffset":{DIGITS},"consumerOffset":0,"lastTimestamp":0}}}}}}]}}]}}""".encode(),
    "hostile names": b'{"consumeStatsList":[{"<script>\\n":[]}],"subscriptionGroupTable":{"<script>":{"groupName":"<script>"}}}',
}
PAGES = (
    "/", "/brokers", "/broker?name=bad", "/topics", "/topic?name=t", "/topic/traffic?name=t", "/group?name=g", "/group/members?name=g",
    "/group/verdict?name=g", "/group/stack?name=g&client=c&broker=bad", "/messages?topic=t&q=k&by=key",
    "/message?topic=t&broker=bad&queue=0&offset=1", "/message/fate?topic=t&broker=bad&queue=0&offset=1",
    "/dead-letters", "/dead-letters?group=g", "/access",
)  # fmt: skip


class Garbage(socketserver.ThreadingTCPServer):
    """The name server of a good and a bad broker, and the bad broker."""

    daemon_threads = True
    body = b""

    def __init__(self, good: str) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        both = {"broker-a": good, "bad": self.address}
        brokers = {name: {"brokerName": name, "cluster": "c", "brokerAddrs": {"0": at}} for name, at in both.items()}
        queues = {"brokerName": "bad", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}
        self.known = {
            RequestCode.GET_BROKER_CLUSTER_INFO: {
                "brokerAddrTable": brokers, "clusterAddrTable": {"c": list(both)}
            },
            RequestCode.GET_ROUTEINFO_BY_TOPIC: {"brokerDatas": [brokers["bad"]], "queueDatas": [queues]},
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {"topicList": ["t", "%DLQ%g"]},
        }  # fmt: skip


class Connection(socketserver.StreamRequestHandler):
    server: Garbage

    def handle(self) -> None:
        while len(length := self.rfile.read(4)) == 4:
            frame = self.rfile.read(struct.unpack(">i", length)[0])
            head = json.loads(frame[4 : 4 + struct.unpack(">i", b"\0" + frame[1:4])[0]])
            known = self.server.known.get(head["code"])
            body = self.server.body if known is None else json.dumps(known).encode()
            fields = {"offset": DIGITS, "nextBeginOffset": "x", "maxOffset": "-"}
            answer = {
                "code": 0,
                "language": "JAVA",
                "version": 1,
                "opaque": head["opaque"],
                "flag": 1,
                "extFields": fields,
            }
            text = json.dumps(answer).encode()
            self.wfile.write(struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body)


@pytest.fixture(scope="module")
def garbage(server: EmbeddedRocketMQ) -> Iterator[Garbage]:
    with server.admin() as admin:
        admin.create_group("of-the-good-broker")
        good = admin.brokers()[0].address
    with Garbage(good) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join(DEADLINE_S)


@pytest.mark.parametrize("kind", BODIES)
def test_invalid_answers_of_a_broker_affect_no_other_broker_and_no_page(garbage, kind):
    garbage.body = BODIES[kind]
    with RunningConsole(garbage.address, limit_ms=1_000) as console:
        deadline = time.monotonic() + DEADLINE_S
        while "of-the-good-broker" not in (text := console.page("/")):
            assert time.monotonic() < deadline, text
            time.sleep(0.05)
        assert "broker-a</a>" in text
        for path in PAGES:
            answer = console.browser.get(path)
            assert answer.status_code in (200, 404, 504), f"{path}: {answer.text}"
            assert "<script>" not in answer.text
