# SPDX-License-Identifier: Apache-2.0
"""A transactional producer in raw frames: sends half messages, ends them, and answers the broker's checks as it was told."""

from __future__ import annotations

import queue
import time
from collections import Counter
from dataclasses import dataclass

from interop.raw_member import RawMember
from interop.remoting import Answer
from sprocketmq.wire.records.record import decode_record

SEND_MESSAGE_V2, END_TRANSACTION, CHECK_TRANSACTION_STATE = 310, 37, 39
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
PREPARED = 4


@dataclass(frozen=True)
class Half:
    """Where a half message, or the copy of it that a check names, lies."""

    name: str
    queue_offset: int
    commit_log_offset: int


class TransactionMember(RawMember):
    """The only member of a producer group; a message's name is its body and its unique key.

    Args:
        address, topic: the broker, and where the messages go (queue 0).
        decisions: how a check about a message is answered, by name; UNKNOWN (the default) is not answered.
    """

    def __init__(
        self, address: str, topic: str, decisions: dict[str, int] | None = None, group: str = "raw-producers"
    ) -> None:
        super().__init__(address)
        self.topic, self.group = topic, group
        self.decisions = decisions or {}
        self.checked: Counter[str] = Counter()
        assert self.heartbeat(f"raw-{id(self)}", producer=group).code == 0

    def half(self, name: str, **properties: str) -> Half:
        """Send a half message and return where it lies."""
        named = {"UNIQ_KEY": name, "TRAN_MSG": "true", "PGROUP": self.group, "TAGS": "A", **properties}
        ext = {"a": self.group, "b": self.topic, "c": "TBW102", "d": "4", "e": "0", "f": str(PREPARED), "h": "0"}
        ext["g"] = str(time.time_ns() // 1_000_000)
        ext["i"] = "".join(f"{key}\x01{value}\x02" for key, value in named.items())
        ext.update(j="0", k="false", m="false")
        answer = self.ask(SEND_MESSAGE_V2, ext, name.encode())
        assert answer.code == 0, answer.header
        told = answer.header["extFields"]
        return Half(name, int(told["queueOffset"]), int(told["msgId"][-16:], 16))

    def end(self, half: Half, decision: int, *, from_check: bool = False) -> Answer:
        """END_TRANSACTION as a question, so that the test hears what became of it."""
        ext = {
            "producerGroup": self.group,
            "tranStateTableOffset": str(half.queue_offset),
            "commitLogOffset": str(half.commit_log_offset),
            "commitOrRollback": str(decision),
            "fromTransactionCheck": str(from_check).lower(),
            "msgId": half.name,
            "transactionId": half.name,
        }
        return self.ask(END_TRANSACTION, ext)

    def answer_checks(self, timeout_s: float = 0.2) -> list[str]:
        """Answer the checks that came, waiting so long for the first; the names of the messages asked about."""
        names: list[str] = []
        while True:
            try:
                asked = self.asked.get(timeout=0.01 if names else timeout_s)
            except queue.Empty:
                return names
            if asked.code != CHECK_TRANSACTION_STATE:
                continue
            ext, message = asked.header["extFields"], decode_record(asked.body)
            name = message.body.decode()
            assert message.topic == self.topic
            assert ext["transactionId"] == ext["msgId"] == name
            names.append(name)
            self.checked[name] += 1
            decision = self.decisions.get(name, UNKNOWN)
            if decision != UNKNOWN:
                half = Half(name, int(ext["tranStateTableOffset"]), int(ext["commitLogOffset"]))
                assert self.end(half, decision, from_check=True).code == 0
