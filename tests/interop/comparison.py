# SPDX-License-Identifier: Apache-2.0
"""Asks one server everything of `compatibility_requests`, in the same order and from the same state as every other server is asked.

One connection to the broker and one to the name server, kept as long as the server keeps them; a member (raw connection with a
heartbeat) stands by as consumer and producer, answers what the broker relays, and keeps what the broker asks by itself.
"""

from __future__ import annotations

import contextlib
import queue
import re
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from interop.answer_shape import CLOSED, SILENT, Shape, read_json, shape_of, unanswered
from interop.child import poll_until
from interop.compatibility_requests import GROUP, MEMBER, PRODUCERS, TOPIC, Asked, asked_in_order, strange_variants
from interop.java_peers import APACHE_4, APACHE_5, APACHE_55
from interop.peers import Server
from interop.raw_member import RawMember
from interop.remoting import Answer, Asking

_PATIENCE_S: Final = 12.0
# A server closes a connection on which nothing came for two minutes.
_IDLE_S: Final = 60.0
# Of MQVersion: what a Java client of the version announces.
_ORDINALS: Final = {APACHE_4: 407, APACHE_5: 493, APACHE_55: 513}
CHECK_TRANSACTION_STATE: Final = 39
_CHECK_BACK_S: Final = 30.0
_ASKED_OF_CLIENTS: Final = (CHECK_TRANSACTION_STATE, 40, 220, 221, 307, 309, 326)
# Topics, groups, progress, settings: what a refused request must leave alone.
_STATE: Final = ((21, "topicConfigTable"), (201, "subscriptionGroupTable"), (43, "offsetTable"))
_MOVES_BY_ITSELF: Final = re.compile(r"%RETRY%|%DLQ%|RMQ_SYS|rmq_sys|SCHEDULE_TOPIC|TRANS_CHECK|CID_").match


_AUTH: Final = "org.apache.rocketmq.auth"
# What both brokers are started with, so that what is off by default is compared too.
SETTINGS: Final[dict[str, Any]] = {
    "enablePropertyFilter": True,
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    "recallMessageEnable": True,
    "messageDelayLevel": "1s 1s 1s 1s",
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 3000,
}


class Seen(NamedTuple):
    """One request and what came back; `remark` and `changed` are for the judgement of ours alone."""

    asked: Asked
    shape: Shape
    remark: str
    changed: str


class Compared(NamedTuple):
    """One request at both servers."""

    asked: Asked
    theirs: Shape
    ours: Seen
    difference: str


def compared(theirs: list[Seen], ours: list[Seen]) -> list[Compared]:
    """The two runs side by side."""
    assert [seen.asked.key for seen in theirs] == [seen.asked.key for seen in ours], "the runs asked different things"
    return [
        Compared(mine.asked, other.shape, mine, other.shape.differs_in(mine.shape, bool(mine.asked.strange)))
        for other, mine in zip(theirs, ours, strict=True)
    ]


def look(server: Server, version: str, *, watch_state: bool) -> list[Seen]:
    """Everything that a client of `version` asks, and what the server answers; `watch_state` looks after each refusal what changed."""
    with Conversation(server, version) as asking:
        return list(asking.all(watch_state))


_REPLIES: Final = {
    221: b'{"messageQueueTable":{}}',
    307: b'{"properties":{},"subscriptionSet":[],"mqTable":{},"statusTable":{}}',
    309: b'{"order":false,"autoCommit":true,"consumeResult":"CR_SUCCESS","spentTimeMills":0}',
    326: b"",
}


class Conversation:
    """What is asked of one server, and the member that stands by. Use with ``with``; `words` are what `<word>` stands for."""

    def __init__(self, server: Server, version: str) -> None:
        self.server, self.version = server, version
        self.words = {"now_number": str(int(time.time() * 1000))}
        self._lines: dict[str, Asking] = {}
        self._asked_s: dict[str, float] = {}
        self._member = RawMember(server.broker_addr, _REPLIES)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *raised: object) -> None:
        for line in self._lines.values():
            line.close()
        with contextlib.suppress(OSError):  # a server that ended closed it
            self._member.close()

    def all(self, watch_state: bool) -> Iterator[Seen]:
        self.prepare()
        asked = asked_in_order(self.version)
        for request in asked:
            yield self._seen(request, False)
        yield from self._asked_of_clients()
        for request in asked:
            for variant in strange_variants(request):
                yield self._seen(variant, watch_state)

    def prepare(self) -> None:
        """Two topics, a group with progress, five messages, a consumer and a producer that are there."""
        server = self.server
        server.create_topic(TOPIC, 4)
        server.create_topic("compared-read-only", 2, perm="4")
        for number in range(5):
            properties = (
                f"KEYS\x01key-{number}\x02TAGS\x01{'AB'[number % 2]}\x02UNIQ_KEY\x017F0000010001{number:020d}\x02"
            )
            ext = {
                "a": PRODUCERS,
                "b": TOPIC,
                "c": "TBW102",
                "d": "4",
                "e": str(number % 2),
                "f": "0",
                "g": "1700000000000",
            }
            ext.update(h="0", i=properties, j="0", k="false", m="false")
            sent = self._ask("broker", 310, ext, b"body-%d" % number)
            assert sent.code == 0, sent
            if number == 0:
                self._keep("message", sent)
        poll_until(lambda: self._max_offset(0) == 3 and self._max_offset(1) == 2, "the messages are in their queues")
        for number in range(5):
            poll_until(partial(self._has_key, f"key-{number}"), "the messages are in the index")
        self.stay()
        for queue_id in "01":
            fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id, "commitOffset": "1"}
            assert self._ask("broker", 15, fields).code == 0

    def stay(self) -> None:
        """A heartbeat of the member that stands by: brokers forget who was silent for 120 s."""
        self._member.heartbeat(MEMBER, group=GROUP, topics=(TOPIC,), producer=PRODUCERS)

    def _max_offset(self, queue_id: int) -> int:
        answer = self._ask("broker", 30, {"topic": TOPIC, "queueId": str(queue_id)})
        return int(answer.header["extFields"]["offset"])

    def _has_key(self, key: str) -> bool:
        fields = {"topic": TOPIC, "key": key, "maxNum": "1", "beginTimestamp": "0", "endTimestamp": str(2**62)}
        return self._ask("broker", 12, fields).code == 0

    def _seen(self, request: Asked, watch_state: bool) -> Seen:
        before = self._state() if watch_state and request.to == "broker" else {}
        fields = {name: self.filled(value) for name, value in request.fields.items()}
        body = request.body
        if b"<" in body:
            body = self.filled(body.decode()).encode()
        try:
            answer = self._ask(request.to, request.code, fields, body)
        except TimeoutError:
            return Seen(request, unanswered(SILENT), "", "")
        except OSError:
            self._drop(request.to)
            return Seen(request, unanswered(CLOSED), "", "")
        if request.keeps:
            self._keep(request.keeps, answer)
        changed = ""
        if before and answer.code:
            after = self._state()
            apart = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
            changed = "; ".join(f"{name}: {before.get(name)} became {after.get(name)}" for name in sorted(apart))
        return Seen(request, shape_of(answer, request.moves), answer.header.get("remark") or "", changed)

    def _asked_of_clients(self) -> Iterator[Seen]:
        """The first request of each kind that the member was asked until now; the question for the open transaction is waited for."""
        first: dict[int, Answer] = {}
        deadline = time.monotonic() + _CHECK_BACK_S
        while CHECK_TRANSACTION_STATE not in first and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                while True:
                    frame = self._member.asked.get(timeout=0.5)
                    first.setdefault(frame.code, frame)
        for code in _ASKED_OF_CLIENTS:
            asked = Asked(code, {}, to="client")
            yield Seen(asked, shape_of(first[code]) if code in first else unanswered(SILENT), "", "")

    def _state(self) -> dict[str, Any]:
        """Topics, groups and progress, but for those that move by themselves: a retry falls due, a transaction is asked for."""
        found: dict[str, Any] = {}
        for code, table in _STATE:
            entries = read_json(self._ask("broker", code, {}).body.decode())[table]
            found.update({f"{code} {name}": value for name, value in entries.items() if not _MOVES_BY_ITSELF(name)})
        return found

    def _ask(self, to: str, code: int, ext: dict[str, str], body: bytes = b"") -> Answer:
        if time.monotonic() - self._asked_s.get(to, 0.0) > _IDLE_S:
            self._drop(to)
        self._asked_s[to] = time.monotonic()
        line = self._lines.get(to)
        if line is None:
            address = self.server.broker_addr if to == "broker" else self.server.namesrv_addr
            line = self._lines[to] = Asking(address, _PATIENCE_S, version=_ORDINALS[self.version])
        return line.ask(code, ext, body)

    def _keep(self, word: str, answer: Answer) -> None:
        """The answer to a send: where the message is."""
        found = answer.header.get("extFields") or {}
        message_id = found.get("msgId", "0" * 32)
        words = {
            "id": message_id,
            "log_number": str(int(message_id[16:], 16)),
            "at_number": found.get("queueOffset", "0"),
        }
        words["handle"] = found.get("recallHandle", "none")
        self.words.update({f"{word}_{name}": value for name, value in words.items()})

    def _drop(self, to: str) -> None:
        with contextlib.suppress(OSError, KeyError):
            self._lines.pop(to).close()

    def filled(self, text: str) -> str:
        return re.sub(r"<(\w+)>", lambda found: self.words.get(found[1], found[0]), text)
