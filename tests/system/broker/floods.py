# SPDX-License-Identifier: Apache-2.0
"""Floods of bytes, each of which once filled a server's memory: raw sockets that ask for much and read nothing, or little.

Every flood is at least ten times as large as the limits that the server of ``test_queued_bytes`` is given.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from interop.child import poll_until
from interop.remoting import ask, request_frame
from interop.sprocket_server import SprocketServer

KIB: Final = 1024
BODY: Final = b"\x00" * (256 * KIB)
MANY: Final = 640  # times 256 KiB: 160 MiB
GROUP: Final = "g" * 200
READER, REQUESTER, HALVES = "a-reader", "a-requester", "halves"


class Peer:
    """A connection with a small window. ``reads``: nothing, a little now and then, or all."""

    def __init__(self, address: str, reads: str = "nothing", *, tls: bool = False) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if reads != "all":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * KIB)
        self.socket.connect((host, int(port)))
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self.socket.settimeout(0.5)
        self.is_cut = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        if reads != "nothing":
            size, pause_s = (1 << 18, 0.0) if reads == "all" else (2 * KIB, 0.02)
            self._thread = threading.Thread(target=self._read, args=(size, pause_s), daemon=True)
            self._thread.start()

    def write(self, data: bytes) -> bool:
        """False when the server takes no more, or has closed the connection."""
        view = memoryview(data)
        try:
            while view:
                view = view[self.socket.send(view) :]
        except TimeoutError:
            return False
        except OSError:
            self.is_cut = True
            return False
        return True

    def close(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(60)
        self.socket.close()

    def _read(self, size: int, pause_s: float) -> None:
        with contextlib.suppress(OSError):
            while not self._over.wait(pause_s):
                if select.select([self.socket], [], [], 0.5)[0] and not self.socket.recv(size):
                    return


class Stage:
    """The server, and the connections of one flood; ``reads`` is what the peer does that is flooded."""

    def __init__(self, server: SprocketServer, reads: str) -> None:
        self.server, self.reads = server, reads
        self.peers: list[Peer] = []

    def victim(self, address: str = "", *, tls: bool = False) -> Peer:
        return self._open(address, self.reads, tls=tls)

    def helper(self) -> Peer:
        """Reads all of its answers."""
        return self._open("", "all")

    def _open(self, address: str, reads: str, *, tls: bool = False) -> Peer:
        self.peers.append(Peer(address or self.server.broker_addr, reads, tls=tls))
        return self.peers[-1]

    def close(self) -> None:
        for peer in self.peers:
            peer.close()


def heartbeat(client_id: str, consumer: str = "", producer: str = "") -> bytes:
    consumers = {
        "groupName": consumer,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [{"topic": "bulk", "subString": "*", "expressionType": "TAG", "subVersion": 1}],
        "unitMode": False,
    }
    body: dict[str, Any] = {"clientID": client_id, "consumerDataSet": [], "producerDataSet": []}
    if consumer:
        body["consumerDataSet"] = [consumers]
    if producer:
        body["producerDataSet"] = [{"groupName": producer}]
    return request_frame(34, {}, json.dumps(body).encode())


def send_fields(topic: str, properties: dict[str, str] | None = None) -> dict[str, str]:
    text = "".join(f"{name}\x01{value}\x02" for name, value in (properties or {}).items())
    fields = {"a": HALVES, "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "h": "0", "i": text}
    return {**fields, "g": str(time.time_ns() // 1_000_000), "j": "0", "k": "false"}


def create_topics(broker: str, names: list[str]) -> None:
    """Topics of one queue, by one request."""
    entry = {
        "readQueueNums": 1,
        "writeQueueNums": 1,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    made = [{**entry, "topicName": name} for name in names]
    assert ask(broker, 18, {}, json.dumps({"topicConfigList": made}).encode(), 60).code == 0


def max_offset(broker: str, topic: str) -> int:
    return int(ask(broker, 30, {"topic": topic, "queueId": "0"}).header["extFields"]["offset"])


def prepare(server: SprocketServer) -> None:
    """The topics, messages and brokers that the floods ask for."""
    broker, names = server.broker_addr, server.namesrv_addr
    for topic in ("bulk", "small", "replies"):
        server.create_topic(topic, 4)
    for _ in range(8):
        assert ask(broker, 310, send_fields("bulk"), BODY).code == 0
    with contextlib.closing(Peer(broker, "all")) as sender:
        assert sender.write(request_frame(310, send_fields("small"), b"m") * 2_000)
        poll_until(lambda: max_offset(broker, "small") == 2_000, "the small messages are stored")
    config = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    topics = {f"topic-{number:04}-{'t' * 50}": {**config} for number in range(1_000)}
    table = {name: {**entry, "topicName": name} for name, entry in topics.items()}
    body = {"topicConfigSerializeWrapper": {"topicConfigTable": table}, "filterServerList": []}
    create_topics(broker, list(table))
    for number in range(100):
        header = {"brokerName": f"wide-{number}", "brokerAddr": f"10.0.0.{number}:1", "clusterName": "wide"}
        header.update(haServerAddr="", brokerId="0", compressed="false", bodyCrc32="0", heartbeatTimeoutMillis="600000")
        wanted = body
        if number:
            table = {"wide": {**config, "topicName": "wide"}}
            wanted = {"topicConfigSerializeWrapper": {"topicConfigTable": table}, "filterServerList": []}
        keeper = Peer(names, "all")
        _kept.append(keeper)  # a broker whose connection closes is forgotten
        assert keeper.write(request_frame(103, header, json.dumps(wanted).encode()))


_kept: list[Peer] = []


def repeated(peer: Peer, frame: bytes, count: int) -> None:
    """The frame so many times, all in a few writes."""
    some = frame * max(1, (64 * KIB) // len(frame))
    for _ in range(-(-count * len(frame) // len(some))):
        if not peer.write(some):
            return


def consume_queue_answers(stage: Stage) -> Iterator[None]:
    fields = {"topic": "small", "queueId": "0", "index": "0", "count": "2000"}
    repeated(stage.victim(), request_frame(321, fields), 1_500)
    yield


def topic_tables(stage: Stage) -> Iterator[None]:
    repeated(stage.victim(), request_frame(21, {}), 2_000)
    yield


def route_answers(stage: Stage) -> Iterator[None]:
    repeated(stage.victim(stage.server.namesrv_addr), request_frame(105, {"topic": "wide"}), 10_000)
    yield


def topic_lists_of_the_name_server(stage: Stage) -> Iterator[None]:
    repeated(stage.victim(stage.server.namesrv_addr), request_frame(206, {}), 4_000)
    yield


PULL: Final = {
    "consumerGroup": READER, "topic": "bulk", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
    "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
}  # fmt: skip


def large_pulls(stage: Stage) -> Iterator[None]:
    repeated(stage.victim(), request_frame(11, PULL), MANY)
    yield


def relayed_messages(stage: Stage) -> Iterator[None]:
    stage.victim().write(heartbeat("deaf", consumer=READER))
    message_id = ask(stage.server.broker_addr, 310, send_fields("bulk"), BODY).header["extFields"]["msgId"]
    yield
    fields = {"consumerGroup": READER, "clientId": "deaf", "msgId": message_id}
    repeated(stage.helper(), request_frame(309, fields), MANY)
    yield


def pushed_replies(stage: Stage) -> Iterator[None]:
    stage.victim().write(heartbeat(REQUESTER, producer="asking"))
    yield
    fields = send_fields("replies", {"REPLY_TO_CLIENT": REQUESTER, "CORRELATION_ID": "1"})
    repeated(stage.helper(), request_frame(325, fields, BODY), MANY)
    yield


def notifications(stage: Stage) -> Iterator[None]:
    for number in range(60):
        stage.victim().write(heartbeat(f"deaf-{number}", consumer=GROUP))
    yield
    leave = request_frame(35, {"clientID": "restless", "consumerGroup": GROUP})
    repeated(stage.helper(), heartbeat("restless", consumer=GROUP) + leave, 3_000)
    yield


def transaction_checks(stage: Stage) -> Iterator[None]:
    stage.victim().write(heartbeat("hung", producer=HALVES))
    yield
    sender = stage.helper()
    for number in range(80):
        marks = {
            "TRAN_MSG": "true",
            "PGROUP": HALVES,
            "UNIQ_KEY": f"half-{number}",
            "CHECK_IMMUNITY_TIME_IN_SECONDS": "0",
        }
        sender.write(request_frame(310, {**send_fields("bulk", marks), "f": "4"}, BODY))
    for _ in range(10):
        time.sleep(0.3)  # the rounds of checks go by the broker's clock
        yield


def unfinished_frames(stage: Stage) -> Iterator[None]:
    begun = (16_000_000).to_bytes(4, "big") + bytes(4 * KIB * KIB)
    for _ in range(40):
        stage.victim().write(begun)
        yield


def unfinished_frames_over_tls(stage: Stage) -> Iterator[None]:
    begun = (16_000_000).to_bytes(4, "big") + bytes(4 * KIB * KIB)
    for _ in range(40):
        with contextlib.suppress(OSError):  # the server closes some before they have shaken hands
            stage.victim(tls=True).write(begun)
        yield


def trickled_frames(stage: Stage) -> Iterator[None]:
    peers = [stage.victim() for _ in range(80)]
    for peer in peers:
        peer.write((16_000_000).to_bytes(4, "big"))
    for _ in range(100):
        for peer in peers:
            if not peer.is_cut:
                peer.write(bytes(20_000))
        yield


FLOODS: Final[dict[str, Callable[[Stage], Iterator[None]]]] = {
    flood.__name__: flood
    for flood in (
        consume_queue_answers,
        topic_tables,
        route_answers,
        topic_lists_of_the_name_server,
        large_pulls,
        relayed_messages,
        pushed_replies,
        notifications,
        unfinished_frames,
        unfinished_frames_over_tls,
        trickled_frames,
        transaction_checks,
    )
}
