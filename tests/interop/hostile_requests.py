# SPDX-License-Identifier: Apache-2.0
"""Requests of every served code as frames, well-formed and then spoilt: what hostile_frames.py and the tests of bad values send.

The well-formed ones are those of `compatibility_requests`, and a few codes that Apache's tools do not ask. Nothing here names what honest
clients use (their topics, groups and brokers), and no value would be a legal order to stop serving them.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from typing import Final

from interop.compatibility_requests import Asked, asked_in_order
from interop.java_peers import VERSIONS

STRANGE: Final = (
    "", "abc", "0", "-1", "-2147483649", "2147483648", "9223372036854775807", "-9223372036854775809", "99999999999999999999",
    "1" * 400, "1.5", "1e9", "0x10", " 7 ", "true", "null", "NaN", "\x00", "\x01\x02", "\ufeff", "🛫", "ß" * 300, "٣", "%RETRY%", "%DLQ%g",
    "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "TBW102", "../../etc/passwd", "a" * 128, "*", "A||B", "a > 1 AND (", "[]", "{}",
)  # fmt: skip
_LONG: Final = "x" * 100_000
# Codes by which a name that nobody had thought of becomes a topic, a group, an account, a key: their bytes are not flipped at random,
# since a million names that an administrator made are no leak.
CREATES: Final = frozenset(
    (17, 18, 200, 225, 15, 34, 36, 50, 53, 314, 353, 401, 3001, 3002, 3006, 3007, 100, 103, 217, 318, 25, 30001)
)
# Codes whose answers are long or which write a file: asked a tenth as often, so that they do not take all the time.
_HEAVY: Final = frozenset(
    (12, 21, 25, 26, 28, 100, 102, 201, 222, 306, 316, 318, 319, 329, 3001, 3002, 3003, 3006, 3007, 3008, 50, 51, 53)
)
_FILLED: Final = {
    "<message_id>": "7F00000100002A9F0000000000000000",
    "<timer_handle>": "djEgY29tcGFyZWQgYnJva2VyLWEgMTcwMDAwMDAwMDAwMCBr",
    "<now_number>": "1700000000000",
}
_MORE: Final = (
    Asked(54, {}),
    Asked(30001, {"step": "status", "timeoutMs": "1000"}),
)
_MORE_NAMESRV: Final = (
    Asked(104, {"brokerName": "fake", "brokerAddr": "127.0.0.1:1", "clusterName": "fake-cluster", "brokerId": "0"}, to="namesrv"),
    Asked(216, {"topic": "of-fake", "clusterName": "fake-cluster"}, to="namesrv"),
    Asked(217, {"topic": "of-fake"}, b'{"queueDatas":[{"brokerName":"fake","readQueueNums":1,"writeQueueNums":1,"perm":6}]}', to="namesrv"),
    Asked(313, {}, to="namesrv"),
    Asked(318, {}, b"orderMessageEnable=false\n", to="namesrv"),
    Asked(319, {}, to="namesrv"),
)  # fmt: skip


def templates() -> list[Asked]:
    """Well-formed requests, at least one for each code that a broker or name server serves."""
    found: dict[str, Asked] = {}
    for version in VERSIONS:
        for asked in asked_in_order(version):
            found.setdefault(asked.key, asked)
    for asked in (*_MORE, *_MORE_NAMESRV):
        if not any((other.to, other.code) == (asked.to, asked.code) for other in found.values()):
            found[asked.key] = asked
    return [
        asked._replace(fields={name: _filled(text) for name, text in asked.fields.items()}) for asked in found.values()
    ]


def served_codes() -> set[tuple[str, int]]:
    """(broker or namesrv, code) of every request that is served."""
    from sprocketmq.wire import requests
    from sprocketmq.wire.requests.declaration import Peer

    of = {"broker": Peer.BROKER, "namesrv": Peer.NAME_SERVER}
    return {(name, int(one.code)) for name, peer in of.items() for one in requests.served_by(peer)}


def _filled(text: str) -> str:
    if text.startswith("<") and text.endswith(">"):
        return _FILLED.get(text, "0")
    return text


# -- frames ------------------------------------------------------------------------------------------------------------------------


def spoilt_frames(seed: int, count: int) -> Iterator[tuple[Asked, bytes]]:
    """``count`` frames of all codes: some as they are, most with a few values, types, or bytes of the body changed."""
    dice = random.Random(seed)
    asked = templates()
    weights = [0.1 if one.code in _HEAVY else 1.0 for one in asked]
    for one in dice.choices(asked, weights, k=count):
        yield one, _spoilt(one, dice)


def _spoilt(asked: Asked, dice: random.Random) -> bytes:
    ext: dict[str, object] = dict(asked.fields)
    body = asked.body
    code: object = asked.code
    # 1 and 3: answers that nobody waits for.
    flag: object = dice.choices((0, 2, 1, 3, -1, 1 << 30), (60, 12, 20, 5, 1, 2))[0]
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        name = (
            dice.choice(list(ext))
            if ext and dice.random() < 0.9
            else dice.choice(("nobody", "", "topic", "a", "bname", "💥"))
        )
        if dice.random() < 0.15:
            ext.pop(name, None)
        else:
            ext[name] = _LONG if dice.random() < 0.001 else dice.choice(STRANGE)
    if dice.random() < 0.3:
        body = _spoilt_body(body, dice)
    if dice.random() < 0.15:
        code = dice.choice((0, 1, 13, 99, 200000, 32767, 7777, -5, 3011, 200050, 351001))
    opaque = dice.choice((dice.randrange(1 << 31), 0, -1, (1 << 31) - 1))
    if dice.random() < 0.3 and isinstance(code, int) and -0x8000 <= code <= 0x7FFF:
        return _binary_frame(code, flag, opaque, {name: str(text) for name, text in ext.items()}, body, dice)
    header: dict[str, object] = {
        "code": code,
        "extFields": ext,
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "version": 409,
    }
    header["serializeTypeCurrentRPC"] = "JSON"
    if dice.random() < 0.02:
        _spoil_json(header, dice)
    text = json.dumps(header, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")
    if dice.random() < 0.004:
        text = dice.choice((
            b"[" * 50_000, b'{"a":' * 20_000, b'{"code":1e999}', b'{"code":10', b"null", b'"code"', b'{"code":10,"code":11}',
            b'{"code":' + b"9" * 5_000 + b"}", b'{"code":10,"remark":"\\ud800"}', b'{"code":10,"extFields":{"a":"\\udfff"}}', b"\xff\xfe{}",
        ))  # fmt: skip
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def _spoil_json(header: dict[str, object], dice: random.Random) -> None:
    field = dice.choice(list(header))
    deep: object = "x"
    for _ in range(60):
        deep = [deep]
    header[field] = dice.choice(
        (None, "", [], {}, 1.5, 1 << 70, -(1 << 70), "abc", True, deep, {"a": {"b": 1}}, {"topic": None}, [1, 2])
    )


def _spoilt_body(body: bytes, dice: random.Random) -> bytes:
    choice = dice.randrange(6)
    if choice == 0 or not body:
        return dice.choice(
            (
                b"",
                b"{",
                b"null",
                b"[]",
                b"{}",
                b'"x"',
                b"1",
                b"\xff\xfe\xfd",
                b"[" * 5_000,
                b'{"a":' * 5_000,
                dice.randbytes(60),
            )
        )
    if choice == 1:
        return body[: dice.randrange(len(body))]
    if choice == 2:
        return body + dice.randbytes(dice.randrange(1, 40))
    spoilt = bytearray(body)
    for _ in range(dice.randrange(1, 4)):
        spoilt[dice.randrange(len(spoilt))] = dice.choice((0, 0xFF, 0x7F, 0x22, 0x2C, 0x2D, dice.randrange(256)))
    return bytes(spoilt)


def _binary_frame(code: int, flag: object, opaque: int, ext: dict[str, str], body: bytes, dice: random.Random) -> bytes:
    """A header in the ROCKETMQ encoding, now and then with a length in it that lies."""

    def length(true: int, form: str) -> bytes:
        if dice.random() < 0.002:
            true = dice.choice((-1, 0, true + 1, true - 1, 0x7FFF, -0x8000))
        return struct.pack(form, max(-0x8000, min(0x7FFF, true)) if form == ">h" else true)

    run = b""
    for name, text in ext.items():
        key, value = name.encode(), text.encode("utf-8", "surrogatepass")
        run += length(len(key), ">h") + key + length(len(value), ">i") + value
    number = flag if isinstance(flag, int) else 0
    header = struct.pack(">hbhii", code, dice.choice((0, 12, -1, 127)), 409, opaque, number)
    header += length(0, ">i") + length(len(run), ">i") + run
    return struct.pack(">ii", 4 + len(header) + len(body), (1 << 24) | len(header)) + header + body
