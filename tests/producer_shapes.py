# SPDX-License-Identifier: Apache-2.0
"""Messages as different producers make them, for tests and benches of what reads many of them.

Properties of Java's producers are those that Apache 5.4.0 and 4.9.7 stored (tests/golden), with ids, keys and numbers that go on. Whatever
else varies is drawn from the dice that the caller brings.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

from golden import VERSIONS, frames, store_file
from interop.remoting import decode_header, split_frame
from sprocketmq.client.consume.queue_reader import PulledChunk
from sprocketmq.store import StoredMessage
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.batch import encode_batch, split_batch
from sprocketmq.wire.records.message import Message, MessageQueue
from sprocketmq.wire.records.record import RecordView, encode_record
from sprocketmq.wire.records.sys_flag import COMPRESSED, INNER_BATCH, NEED_UNWRAP, TRANSACTION_COMMIT_TYPE

PULL_BYTES: Final = 256 * 1024  # a pull of our broker, and of Apache's from memory at its most
QUEUES: Final = 8
UNIFORM: Final = "ours, uniform"
RETRY_GROUP: Final = "golden-group"
INNER: Final = "inner batches of 10"
FIRST_MS: Final = 1_700_000_000_000

Dice = random.Random
Fields = dict[str, Any]


class Shape(NamedTuple):
    """One line of the table: makes the parts of message ``number``, a body, properties, and other fields of its record."""

    name: str
    make: Callable[[int, Dice], tuple[bytes, bytes, Fields]]
    topic: str = "flights"


# -- bodies and properties of ours -------------------------------------------------------------------------------------------------


def body_of(number: int, size_bytes: int = 100) -> bytes:
    return (number.to_bytes(8, "big") * (size_bytes // 8 + 1))[:size_bytes]


def own_pairs(number: int) -> dict[str, str]:
    return {
        "UNIQ_KEY": f"0A0000011A2B18B4AAC2{number:012X}",
        "WAIT": "true",
        "TAGS": ("UA", "AA", "DL", "B6")[number % 4],
        "KEYS": f"N{number % 4000:05d}",
    }


def uniform(number: int, dice: Dice) -> tuple[bytes, bytes, Fields]:
    return body_of(number), props.encode_properties(own_pairs(number)), {}


def varied_bodies(number: int, dice: Dice) -> tuple[bytes, bytes, Fields]:
    pairs = own_pairs(number)
    if number % 3 == 2:
        del pairs["KEYS"]
    return body_of(number, dice.randint(1, 400)), props.encode_properties(pairs), {}


def user_properties(
    names: int, most: int, letters: str = "abcdefgh"
) -> Callable[[int, Dice], tuple[bytes, bytes, Fields]]:
    """Up to ``most`` properties out of ``names``, with values of 1 to 20 characters."""

    def make(number: int, dice: Dice) -> tuple[bytes, bytes, Fields]:
        pairs = own_pairs(number)
        for name in dice.sample(range(names), dice.randint(0, most)):
            pairs[f"property-{name}"] = "".join(dice.choices(letters, k=dice.randint(1, 20)))
        return body_of(number), props.encode_properties(pairs), {}

    return make


def without_unique_key(number: int, dice: Dice) -> tuple[bytes, bytes, Fields]:
    pairs = own_pairs(number)
    del pairs["UNIQ_KEY"]
    return body_of(number), props.encode_properties(pairs), {}


def ipv6(number: int, dice: Dice) -> tuple[bytes, bytes, Fields]:
    address = bytes.fromhex("20010db8000000000000000000000001")
    return *uniform(number, dice)[:2], {"born_host": (address, 50_000), "store_host": (address, 10_911)}


def one_in(often: int, odd: Callable[[int, Dice], tuple[bytes, bytes, Fields]]) -> Callable[[int, Dice], Any]:
    return lambda number, dice: odd(number, dice) if number % often == 0 else uniform(number, dice)


def compressed(number: int, dice: Dice) -> tuple[bytes, bytes, Fields]:
    return zlib.compress(body_of(number)), uniform(number, dice)[1], {"sys_flag": COMPRESSED}


def broken_text(number: int, dice: Dice) -> tuple[bytes, bytes, Fields]:
    return body_of(number), uniform(number, dice)[1] + b"note\x01\xff\xfe\x02", {}


def inner_batch(number: int, dice: Dice) -> tuple[bytes, bytes, Fields]:
    """Ten messages in one record, as topics with queue.type=BatchCQ have them."""
    inner = [Message("flights", body_of(number + at)) for at in range(10)]
    for at, message in enumerate(inner):
        message.properties.update(own_pairs(number * 10 + at))
    return encode_batch(inner), b"INNER_NUM\x0110\x02", {"sys_flag": NEED_UNWRAP | INNER_BATCH}


# -- properties that Java wrote ----------------------------------------------------------------------------------------------------


def stored(version: str, topic: str, with_name: str, without: str) -> list[bytes]:
    """Properties of Java's records in a topic: with one name, without another."""
    log, at = store_file(version, "commitlog-head.bin"), 0
    found = []
    while at < len(log):
        record = RecordView(log, at)
        at += record.size
        pairs = props.decode_properties(record.raw_properties)
        if record.topic == topic and with_name in pairs and without not in pairs:
            found.append(record.raw_properties)
    if not found:
        raise LookupError(f"{version} has no record in {topic} with {with_name} and without {without}")
    return found


def java(texts: Sequence[bytes], **fields: Any) -> Callable[[int, Dice], tuple[bytes, bytes, Fields]]:
    """Messages with these properties by turns; ids, keys and numbers go on."""
    own = [(text, props.decode_properties(text)) for text in texts]

    def make(number: int, dice: Dice) -> tuple[bytes, bytes, Fields]:
        text, pairs = own[number % len(own)]
        for name, value in (
            (props.UNIQ_KEY, pairs[props.UNIQ_KEY][:-8] + f"{number:08X}"),
            (props.ORIGIN_MESSAGE_ID, f"7F00000100007902{number:016X}"),
        ):
            if name in pairs:
                text = text.replace(pairs[name].encode(), value.encode())
        if "KEYS" in pairs:
            text = text.replace(b"\x01" + pairs["KEYS"].encode(), b"\x01key-%d" % number)
        return (
            body_of(number),
            text.replace(b"number\x01" + pairs["number"].encode(), b"number\x01%d" % number),
            dict(fields),
        )

    return make


def batches_at_4_9() -> list[bytes]:
    """What 4.9.7 stores of an automatic batch of a 5.x client: the properties of the request stand behind those of each message."""
    (frame,) = [one for one in frames(code=320, kind="request", serialize="JSON") if "sends-json-010" in one.file]
    kind, header, body = split_frame(frame.data)
    of_batch = decode_header(kind, header)["extFields"]["i"].encode()
    return [raw + of_batch + b"\x02CLUSTER\x01DefaultCluster" for _, _, raw in split_batch(body)]


def shapes() -> list[Shape]:
    found = [
        Shape(UNIFORM, uniform),
        Shape("no separator behind the last property", lambda number, dice: (*cut(*uniform(number, dice)),)),
        Shape("bodies of 1 to 400 B, keys on two of three", varied_bodies),
        Shape("0 to 8 user properties of 20 names", user_properties(20, 8)),
        Shape("0 to 8 user properties of 1,000 names", user_properties(1000, 8)),
        Shape("0 to 8 user properties, Cyrillic values", user_properties(20, 8, "абвгд")),
    ]
    for version in VERSIONS:
        retried = f"%RETRY%{RETRY_GROUP}"
        java_batch = [text for text in stored(version, "golden", "WAIT", "TRAN_MSG") if b"TRACE_ON" not in text]
        java_batch = [text for text in java_batch if b"REAL_TOPIC" not in text]
        single = [text for text in stored(version, "golden", "TAGS", "DELAY") if text not in java_batch]
        found += [
            Shape(f"Java {version}, single", java(single)),
            Shape(f"Java {version}, batch", java(java_batch)),
            Shape(
                f"Java {version}, retry copies", java(stored(version, retried, "TAGS", ""), reconsume_times=1), retried
            ),
            Shape(
                f"Java {version}, transactional",
                java(stored(version, "golden", "TRAN_MSG", "DELAY"), sys_flag=TRANSACTION_COMMIT_TYPE),
            ),
            Shape(f"Java {version}, delayed", java(stored(version, "golden", "DELAY", "TRAN_MSG"))),
        ]
    found += [
        Shape("5.x automatic batch at 4.9.7, all properties twice", java(batches_at_4_9())),
        Shape("no UNIQ_KEY", without_unique_key),
        Shape("IPv6 hosts", ipv6),
        Shape("topic of 200 characters (magic V2)", uniform, "t" * 200),
        Shape(INNER, inner_batch),
        Shape("one in 100 compressed", one_in(100, compressed)),
        Shape("one in 100 broken UTF-8", one_in(100, broken_text)),
    ]
    # Retry topics are queues of their own, and so are those of queue.type=BatchCQ.
    kinds = [shape for shape in found if not shape.topic.startswith("%") and shape.name != INNER]
    found.append(Shape("all of these in one queue", lambda number, dice: dice.choice(kinds).make(number, dice)))
    return found


def cut(body: bytes, text: bytes, fields: Fields) -> tuple[bytes, bytes, Fields]:
    return body, text[:-1], fields


# -- batches ---------------------------------------------------------------------------------------------------------------------------


def pull_bodies(shape: Shape, dice: Dice, batch_bytes: int) -> list[PulledChunk]:
    """So many bytes of records, as pulls of some queues by turns."""
    pulls: list[PulledChunk] = []
    numbers = records_of(shape, dice)
    size_bytes, next_of = 0, [0] * QUEUES
    while size_bytes < batch_bytes:
        queue = MessageQueue(shape.topic, "broker-a", len(pulls) % QUEUES)
        start, records, pull_bytes = next_of[queue.queue_id], [], 0
        while pull_bytes < PULL_BYTES:
            record, rows = next(numbers)(queue.queue_id, next_of[queue.queue_id])
            next_of[queue.queue_id] += rows
            records.append(record)
            pull_bytes += len(record)
        pulls.append(PulledChunk(queue, start, next_of[queue.queue_id], memoryview(b"".join(records))))
        size_bytes += pull_bytes
    return pulls


def stored_messages(shape: Shape, dice: Dice) -> Iterator[StoredMessage]:
    """Messages without end, as a broker gives them to its store; queues take turns, a hundred messages each."""
    queues = 1 if shape.topic.startswith("%") else QUEUES  # a retry topic has one
    for number in count():
        body, text, fields = shape.make(number, dice)
        queue_id = number // 100 % queues
        hosts: Fields = {"born_host": (b"\x0a\0\0\x02", 50_000), "store_host": (b"\x0a\0\0\x01", 10_911)}
        yield StoredMessage(shape.topic, queue_id, body, text, born_timestamp_ms=FIRST_MS + number, **hosts | fields)


def records_of(shape: Shape, dice: Dice) -> Iterator[Callable[[int, int], tuple[bytes, int]]]:
    """Records without end, once their place in a queue is told, and how many messages each is."""
    for number in count():

        def record(queue_id: int, offset: int, number: int = number) -> tuple[bytes, int]:
            body, text, fields = shape.make(number, dice)
            rows = 10 if fields.get("sys_flag", 0) & NEED_UNWRAP else 1
            places: Fields = {
                "physical_offset": number * 300,
                "born_timestamp_ms": FIRST_MS + number,
                "born_host": (b"\x0a\0\0\x02", 50_000),
                "store_timestamp_ms": FIRST_MS + 1 + number,
                "store_host": (b"\x0a\0\0\x01", 10_911),
            }
            made = encode_record(
                shape.topic.encode(), body, text, queue_id=queue_id, queue_offset=offset, **places | fields
            )
            return made, rows

        yield record
