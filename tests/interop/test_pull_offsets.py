# SPDX-License-Identifier: Apache-2.0
"""Where a pull goes on: each offset outside of a queue is answered as Apache's GetMessageStatus and response codes have it."""

from __future__ import annotations

import os

import pytest

from interop.peers import SprocketServer, poll_until
from interop.remoting import create_topic
from interop.test_filter_requests import Conversation, send

MESSAGES = 3
COMPARED = ("nextBeginOffset", "minOffset", "maxOffset")


def corrections(address: str, topic: str) -> list[tuple[int, int, int, str, dict[str, str]]]:
    """Queue 0 has messages, queue 1 never had one: queue, offset asked for, code, remark and where to go on."""
    create_topic(address, topic, 2)
    send(address, topic, MESSAGES)
    talk = Conversation(address, topic, f"of-{topic}")
    found = []

    def is_dispatched() -> bool:
        """Java's broker answers before its queue has the entries."""
        talk.pull("*", "TAG", queueOffset=MESSAGES - 1)
        return talk.last.code == 0

    poll_until(is_dispatched, "the entries of the messages")
    for queue_id, offset in (
        (0, 0),
        (0, -1),
        (0, MESSAGES),
        (0, MESSAGES + 1),
        (0, 2**40),
        (1, 0),
        (1, 1),
        (1, -1),
        (1, 2**40),
    ):
        talk.pull("*", "TAG", queueId=queue_id, queueOffset=offset)
        answer = talk.last
        fields = {name: answer.header["extFields"][name] for name in COMPARED}
        found.append((queue_id, offset, answer.code, answer.header["remark"], fields))
    talk.pull("U", "TAG")  # nothing has that tag
    found.append((0, 0, talk.last.code, talk.last.header["remark"], {}))
    talk.close()
    return found


@pytest.mark.peer
def test_each_offset_outside_of_a_queue_is_corrected_as_apache_does(apache, servers):
    topic = f"corrected-{os.getpid()}"
    theirs = corrections(apache.broker_addr, topic)
    with SprocketServer() as server:
        ours = corrections(server.broker_addr, topic)
    assert ours == theirs
    assert {remark for _, _, _, remark, _ in theirs} == {
        "FOUND", "OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_ONE", "OFFSET_OVERFLOW_BADLY", "NO_MESSAGE_IN_QUEUE", "NO_MATCHED_MESSAGE",
    }  # fmt: skip
