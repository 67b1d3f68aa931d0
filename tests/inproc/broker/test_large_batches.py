# SPDX-License-Identifier: Apache-2.0
"""A batch of more messages than the broker takes is refused before anything is done, whatever its messages look like."""

from __future__ import annotations

import pytest

from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import SendMessageRequestHeaderV2
from sprocketmq.wire.records.batch import encode_batch, has_more_elements, split_batch
from sprocketmq.wire.records.message import Message

MOST = 50
pytestmark = pytest.mark.parametrize("cluster", [{"max_messages_per_batch": MOST}], indirect=True)


def message(body: bytes, **properties: str) -> Message:
    made = Message("t", body)
    made.properties.update(properties)
    return made


def alike(number: int) -> Message:
    return message(b"%08d" % number, UNIQ_KEY=f"{number:032d}")


def mixed(number: int) -> Message:
    return message(b"%d" % 10 ** (number % 9), TAGS="ab"[number % 2])


def tiny(number: int) -> Message:
    return message(b"x")


def send(client, messages, topic="t", code=RequestCode.SEND_BATCH_MESSAGE):
    header = SendMessageRequestHeaderV2("p", topic, "TBW102", 4, 0, 0, 1, 0, properties="", batch=True)
    return client.ask(code, header, encode_batch(messages))


@pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
@pytest.mark.parametrize("made", [alike, mixed, tiny])
def test_a_batch_of_too_many_messages_is_refused_and_one_of_as_many_as_are_allowed_is_stored(
    cluster, client, made, code
):
    refusal = send(client, map(made, range(MOST + 1)), "new", code)
    assert refusal.code == ResponseCode.MESSAGE_ILLEGAL
    assert refusal.remark == (
        f"the batch holds more than {MOST} messages; send several batches, or raise maxMessagesPerBatch"
    )
    assert cluster.broker.topics.get("new") is None, "it was refused before anything was done"
    assert send(client, map(made, range(MOST)), "new", code).code == 0
    # Where the topic is known, messages that look alike are split together.
    assert send(client, map(made, range(MOST + 1)), "new", code).code == ResponseCode.MESSAGE_ILLEGAL
    assert cluster.broker.store.max_offset("new", 0) == MOST


def test_the_count_of_a_batch_is_that_of_its_elements_and_ends_where_it_is_not_sound(cluster):
    whole = encode_batch(map(mixed, range(20)))
    assert len(split_batch(whole)) == 20
    assert [most for most in range(1, 40) if has_more_elements(whole, most)] == list(range(1, 20))
    for size in (b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x15"):
        has_more_elements(size + whole, 3)  # ends, and raises nothing
