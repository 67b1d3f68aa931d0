# SPDX-License-Identifier: Apache-2.0
"""The cost of each form of a send at a broker, relative to a plain one: `python bench/send_forms.py [--rounds 200]`.

Without a socket: frames are passed to a connection of the broker, as after a read. The forms take turns in one process, and the output is
processor time in proportion to a plain send: one-way, first version, delayed, binary header, access control of both generations, SYNC_FLUSH
with a store on the disk, and batches of several kinds. Accounts and users sign; the signature is checked each time. Administrators may do
everything, others what their permissions or policies allow.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from counting_peer import Peer  # noqa: E402
from golden.pipeline.scenes import PROPERTIES, element, pull, request, send, send_fields  # noqa: E402
from producer_shapes import shapes  # noqa: E402
from sprocketmq.broker import Broker, BrokerConfig  # noqa: E402
from sprocketmq.net.connection import Connection  # noqa: E402
from sprocketmq.wire.bodies import PolicyEntryInfo, PolicyInfo, UserInfo  # noqa: E402
from sprocketmq.wire.frames.acl_signature import signed_fields  # noqa: E402

ADMIN: Final = ("producer", "12345678-secret")
OTHER: Final = ("other-producer", "87654321-secret")
IN_ONE_READ: Final = 32
_FIRST_VERSION: Final = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "m": "batch",
}


class Form(NamedTuple):
    """The frames of one read, the number of requests and answers, and the broker's settings."""

    frames: bytes
    requests: int = IN_ONE_READ
    answers: int = IN_ONE_READ
    settings: Mapping[str, Any] = MappingProxyType({})


def sends(more: str = "", **changed: Any) -> bytes:
    """Sends of 1 KB, each with its own key."""
    return b"".join(
        send(b"x" * 1024, i=f"{PROPERTIES.replace('0001', f'{number:04}')}{more}", **changed)
        for number in range(IN_ONE_READ)
    )


def signed(keys: tuple[str, str]) -> bytes:
    """The same, signed."""
    body = b"x" * 1024
    found = []
    for number in range(IN_ONE_READ):
        fields = send_fields(i=PROPERTIES.replace("0001", f"{number:04}"))
        found.append(request(310, signed_fields(fields, body, *keys), body))
    return b"".join(found)


def any_sends(seed: int, keys: tuple[str, str] | None = None) -> bytes:
    """Sends in which what a client chooses is random: group, queue, times, keys, properties, sizes. Signed with ``keys``."""
    dice = random.Random(seed)
    found = []
    for _ in range(IN_ONE_READ):
        properties = {"UNIQ_KEY": f"{dice.getrandbits(128):032X}", "WAIT": "true"}
        for name in dice.sample(("KEYS", "TAGS", "trace", "user", "größe"), dice.randrange(5)):
            properties[name] = "".join(dice.choices("abcXYZ-_09 ßé", k=dice.randint(1, 40)))
        fields = send_fields(
            a=f"group-{dice.randrange(8)}",
            e=str(dice.randrange(4)),
            g=str(dice.randrange(10**12, 2 * 10**12)),
            h=str(dice.randrange(-5, 1 << dice.randrange(1, 31))),
            i="".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
        )
        body = dice.randbytes(dice.choice((10, 100, 1_000, 4_000)) + dice.randrange(100))
        found.append(request(310, fields if keys is None else signed_fields(fields, body, *keys), body))
    return b"".join(found)


def any_pulls(seed: int) -> bytes:
    """Pulls of random groups, offsets and sizes."""
    dice = random.Random(seed)
    return b"".join(
        pull(
            consumerGroup=f"g{dice.randrange(4)}",
            queueId="1",
            queueOffset=str(dice.randrange(24)),
            maxMsgNums=str(dice.choice((1, 8, 32))),
            commitOffset=str(dice.randrange(24)),
            sysFlag=str(dice.choice((4, 5, 6, 7))),
        )
        for _ in range(IN_ONE_READ)
    )


def forms(folder: Path, seed: int = 0) -> dict[str, Form]:
    """The forms by name; the first is a plain send. ``seed``: of the forms that are random."""
    accounts = folder / "accounts.yml"
    accounts.write_text(
        f"accounts:\n- accessKey: {ADMIN[0]}\n  secretKey: {ADMIN[1]}\n  admin: true\n"
        f"- accessKey: {OTHER[0]}\n  secretKey: {OTHER[1]}\n  topicPerms: [plain=PUB]\n"
    )
    with_accounts = {"acl_enable": True, "acl_file": str(accounts)}
    users = {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": f'{{"username":"{ADMIN[0]}","password":"{ADMIN[1]}"}}',
    }
    first = {_FIRST_VERSION[letter]: value for letter, value in send_fields().items()}
    on_disk = {"store_path_root_dir": str(folder / "batches")}
    return {
        "plain": Form(sends()),
        "keys of its own": Form(sends("KEYS\x01order\x02")),
        "one-way": Form(sends(flag=2), answers=0),
        "first version": Form(request(10, first, b"x" * 1024) * IN_ONE_READ),
        "delayed": Form(sends("DELAY\x013\x02")),
        "binary header": Form(sends(binary=True)),
        "accounts": Form(signed(ADMIN), settings=with_accounts),
        "accounts, permissions": Form(signed(OTHER), settings=with_accounts),
        "users": Form(signed(ADMIN), settings=users),
        "users, policies": Form(signed(OTHER), settings=users),
        "on the disk": Form(sends(), settings={"store_path_root_dir": str(folder / "async")}),
        "SYNC_FLUSH": Form(
            sends(), settings={"store_path_root_dir": str(folder / "sync"), "flush_disk_type": "SYNC_FLUSH"}
        ),
        "SYNC_FLUSH, no disk": Form(sends(), settings={"flush_disk_type": "SYNC_FLUSH"}),
        "pull of 8": Form(pull(queueId="1", maxMsgNums="8") * IN_ONE_READ),
        "pull of 8, binary": Form(pull(queueId="1", maxMsgNums="8", binary=True) * IN_ONE_READ),
        "random": Form(any_sends(seed)),
        "random, accounts": Form(any_sends(seed, OTHER), settings=with_accounts),
        "random, users": Form(any_sends(seed, ADMIN), settings=users),
        "random, SYNC_FLUSH, no disk": Form(any_sends(seed), settings={"flush_disk_type": "SYNC_FLUSH"}),
        "pull, random": Form(any_pulls(seed)),
        **{name: Form(batch * 4, 4, 4) for name, batch in batches().items()},
        "batch, 32 x 1 KB, on the disk": Form(batches()["batch, 32 x 1 KB"] * 4, 4, 4, on_disk),
    }


def batches() -> dict[str, bytes]:
    """Batches of 100 small messages, or 32 large ones, as real producers write them."""
    dice, kinds = random.Random(7), {shape.name: shape.make for shape in shapes()}

    def batch(kind: str, count: int = 100) -> list[bytes]:
        return [element(*kinds[kind](number, dice)[:2]) for number in range(count)]

    def alike(size: int, count: int) -> list[bytes]:
        texts = [b"UNIQ_KEY\x01%032X\x02TAGS\x01A\x02WAIT\x01true\x02" % number for number in range(count)]
        return [element(b"x" * size, text) for text in texts]

    same = alike(100, 100)
    made = {
        "batch, 100 x 100 B": same,
        "batch, 4 x 100 B": same[:4],
        "batch, 32 x 1 KB": alike(1024, 32),
        "batch, bodies of 1 to 400 B": batch("bodies of 1 to 400 B, keys on two of three"),
        "batch, Java's": batch("Java 5.4.0, batch"),
        "batch, one odd of 100": [*same[:50], element(b"odd", b"TAGS\x01B\x02"), *same[51:]],
    }
    return {name: send(b"".join(parts), code=320, i="", m="true") for name, parts in made.items()}


async def measure(folder: Path, rounds: int, seed: int) -> dict[str, float]:
    """The processor time per request of each form, in microseconds, the best of all rounds."""
    best: dict[str, float] = {}
    peers: dict[str, tuple[Form, Connection, Peer]] = {}
    async with AsyncExitStack() as started:
        for name, form in forms(folder, seed).items():
            broker = await started.enter_async_context(Broker(port=0, config=BrokerConfig(**form.settings)))
            broker.topics.create_if_absent("plain", 4, broker.clock.now_ms())
            if name == "users, policies":
                broker.users.table.create_user(UserInfo(*OTHER))
                entry = PolicyEntryInfo("Topic:plain", ["Pub"], None, "Allow")
                broker.users.table.update_acl(OTHER[0], [PolicyInfo("Custom", [entry])])
            peer = Peer()
            connection = broker.ports.new_server()._new_connection()
            connection.connection_made(peer)  # type: ignore[arg-type]
            if name.startswith("pull"):
                await _feed(connection, peer, sends(), IN_ONE_READ)
            peers[name], best[name] = (form, connection, peer), float("inf")
        gc.collect()
        gc.freeze()
        for _ in range(rounds):
            for name, (form, connection, peer) in peers.items():
                await _feed(
                    connection, peer, form.frames, form.answers
                )  # not counted, because the caches are those of the previous form
                began_s = time.process_time()
                await _feed(connection, peer, form.frames, form.answers)
                best[name] = min(best[name], (time.process_time() - began_s) / form.requests * 1e6)
    return best


async def _feed(connection: Connection, peer: Peer, frames: bytes, answers: int) -> None:
    peer.expect(answers)
    connection.data_received(frames)
    if answers:
        await asyncio.wait_for(peer.all_came.wait(), 60)
    else:
        await asyncio.sleep(0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the random forms")
    args = parser.parse_args()
    print(f"seed {args.seed}")
    logging.disable(logging.WARNING)  # there is no name server
    with tempfile.TemporaryDirectory() as folder:
        best = asyncio.run(measure(Path(folder), args.rounds, args.seed))
    for name, each_us in best.items():
        print(f"{name:32} {each_us:8.2f} us   {each_us / best['plain']:6.2f} of a plain send")


if __name__ == "__main__":
    main()
