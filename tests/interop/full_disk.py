# SPDX-License-Identifier: Apache-2.0
"""A broker on a small disk that another process fills under load, and the audit of what it acknowledged.

fill       the disk runs full in the middle of sends of all sizes; sends are refused with code 14, pulls are answered
then       free | stop | kill: space comes back at once, or after a clean stop or a SIGKILL and a start on the full disk
audit      every acknowledged message is in its queue, at its offset, with its body; nothing is there twice
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import subprocess
import time
from collections import Counter
from typing import Any, Final

import sprocketmq as rmq
from interop.child import poll_until
from interop.send_ledger import read_topic
from interop.small_disk import SmallDisk
from interop.sprocket_server import SprocketServer
from sprocketmq.errors import RemoteError
from sprocketmq.store.tools.check import check_directory

# Small files, so that files of all kinds are made and extended all the time; the store's own limit of 90 % must not come first.
FULL_DISK_CONF: Final[dict[str, Any]] = {
    "mappedFileSizeCommitLog": 3 << 20,
    "mappedFileSizeConsumeQueue": 3000 * 20,
    "mappedFileSizeTimerLog": 1 << 20,
    "maxHashSlotNum": 20_000,
    "maxIndexNum": 10_000,
    "messageDelayLevel": "1s 2s 3s",
    "diskSpaceWarningLevelRatio": 100,
    "diskSpaceCleanForciblyRatio": 100,
    "diskMaxUsedSpaceRatio": 95,
    "flushDelayOffsetInterval": 500,
    "timerWheelEnable": True,
}
THENS: Final = ("free", "stop", "kill")
_TOPICS: Final = {"full": 4, "full-many": 32, "full-later": 2}
_WORKERS: Final = 8
_DIGITS: Final = 8
_TIMEOUT_MS: Final = 30_000


class FullDisk:
    """One disk, one store, one ledger. Use as a context manager.

    Args:
        seed: of sizes, kinds and moments; ``settings``: broker.conf keys beside `FULL_DISK_CONF`.
    """

    def __init__(self, disk: SmallDisk, ports: tuple[int, int], seed: int, **settings: Any) -> None:
        self.disk, self.store_dir = disk, disk.path / "store"
        self.refused: Counter[int] = Counter()
        self.remarks: Counter[str] = Counter()
        self.receipts: dict[int, tuple[str, int, int]] = {}
        self.server = SprocketServer(self.store_dir, ports=ports, **{**FULL_DISK_CONF, **settings})
        self._random = random.Random(seed)
        self._numbers = itertools.count(1)
        self._sending = False

    def __enter__(self) -> FullDisk:
        self.server.start(60)
        for topic, queues in _TOPICS.items():
            self.server.create_topic(topic, queues)
        return self

    def __exit__(self, *args: object) -> None:
        self.server.stop()

    # -- the course of things --------------------------------------------------------------------------------------------------

    def run_full(self, then: str, refusals: int = 40) -> None:
        """Load, a full disk, ``refusals`` refused sends; then what ``then`` says, and space again."""
        asyncio.run(self._fill_under_load(refusals))
        self._expect_alive("the disk ran full")
        self.audit("while the disk is full")
        if then != "free":
            if then == "stop":
                code = self.server.stop_process()
                assert code in (0, None), f"a stop on the full disk ended with {code}; {self.server.log_text()[-2000:]}"
            else:
                self._kill()
            self.disk.fill()
            checked = self.store_check()
            assert checked.returncode in (0, 1), f"store check on the full disk: {checked}"
            if then == "stop":
                assert checked.returncode == 0, checked.stdout
            self.server.start(60)
            self.disk.fill()
            self.audit(f"after {then} and a start on the full disk")
            asyncio.run(self._send_until_refused())
            self._expect_alive("sends came after a start on the full disk")
            self.audit("after sends to a restarted broker")
        self.disk.free()
        poll_until(lambda: asyncio.run(self._sends()), "sends are taken when there is space", pause_s=0.2)
        self.audit("when there was space again")

    def settle(self) -> None:
        """A clean stop leaves a sound store."""
        assert self.server.stop_process() == 0
        assert [str(problem) for problem in check_directory(self.store_dir) if not problem.note] == []

    def store_check(self) -> subprocess.CompletedProcess[str]:
        """``sprocketmq store check`` in a process of its own: a signal would be its exit code."""
        command = self.server.command()
        assert command is not None
        return subprocess.run(
            [command, "store", "check", str(self.store_dir)], capture_output=True, text=True, check=False, timeout=120
        )

    def audit(self, when: str) -> None:
        """Read everything; what was acknowledged must be there."""
        found = {topic: read_topic(self.server.namesrv_addr, topic) for topic in _TOPICS}
        there: Counter[int] = Counter()
        for topic, queues in found.items():
            for queue_id, messages in queues.items():
                offsets = [message.queue_offset for message in messages]
                assert offsets == list(range(len(offsets))), f"{when}: offsets of {topic}/{queue_id} have holes"
                for message in messages:
                    assert message.body == message.body[:_DIGITS] * (len(message.body) // _DIGITS), when
                there.update(_number(message) for message in messages)
        for number, (topic, queue_id, offset) in self.receipts.items():
            queue = found[topic].get(queue_id, [])
            assert offset < len(queue), f"{when}: message {number} is lost, {topic}/{queue_id} ends at {len(queue)}"
            assert _number(queue[offset]) == number, f"{when}: message {number} is not at {topic}/{queue_id}/{offset}"
        assert {number for number, count in there.items() if count > 1} == set(), f"{when}: doubled"

    def _kill(self) -> None:
        self.server.kill()

    def _expect_alive(self, when: str) -> None:
        code = self.server.exit_code
        assert code is None, f"when {when} the broker ended with {code}; {self.server.log_text()[-2000:]}"

    # -- load ------------------------------------------------------------------------------------------------------------------

    async def _fill_under_load(self, refusals: int) -> None:
        self._sending = True
        before = self.refused.total()
        workers = [asyncio.ensure_future(self._send_on()) for _ in range(_WORKERS)]
        try:
            await asyncio.sleep(self._random.uniform(0, 0.5))
            deadline_s = time.monotonic() + 30
            while self.refused.total() < before + refusals and self.server.exit_code is None:
                assert time.monotonic() < deadline_s, "the disk is full, and no send was refused"
                # At times some space is left, so that what makes room finds room for a part of it.
                leave = self._random.choice((0, 0, self._random.randrange(1 << 12, 1 << 20)))
                await asyncio.to_thread(self.disk.fill, leave)
                await asyncio.sleep(0.02)
        finally:
            self._sending = False
            await asyncio.gather(*workers)

    async def _send_until_refused(self, refusals: int = 10) -> None:
        self._sending = True
        before = self.refused.total()
        workers = [asyncio.ensure_future(self._send_on()) for _ in range(_WORKERS)]
        while self.refused.total() < before + refusals and self.server.exit_code is None:
            await asyncio.to_thread(self.disk.fill)
            await asyncio.sleep(0.02)
        self._sending = False
        await asyncio.gather(*workers)

    async def _sends(self) -> bool:
        """Whether each queue takes messages of all sizes now."""
        self._sending = True
        refused = self.refused.total()
        async with self._producer() as producer:
            for _ in range(40):
                await self._send_one(producer)
        return self.refused.total() == refused

    async def _send_on(self) -> None:
        async with self._producer() as producer:
            while self._sending and self.server.exit_code is None:
                with contextlib.suppress(
                    rmq.NetworkError
                ):  # of a broker that is gone: the loop ends, and `run_full` sees it
                    await self._send_one(producer)

    def _producer(self) -> rmq.AsyncProducer:
        return rmq.AsyncProducer(
            "full",
            namesrv_addr=self.server.namesrv_addr,
            retry_times_when_send_failed=0,
            send_msg_timeout_ms=_TIMEOUT_MS,
        )

    async def _send_one(self, producer: rmq.AsyncProducer) -> None:
        topic = self._random.choice(("full", "full", "full-many"))
        number = next(self._numbers)
        size = self._random.choice((1, 20, 200, 200, 4_000, 30_000))
        message = rmq.Message(topic, b"%0*d" % (_DIGITS, number) * size, keys=[f"k{number}"])
        kind = self._random.choice(("single",) * 8 + ("delayed", "timed"))
        try:
            if kind == "single":
                result = await producer.send(message)
                self.receipts[number] = (topic, result.message_queue.queue_id, result.queue_offset)
            elif kind == "delayed":
                message = rmq.Message("full-later", message.body)
                await producer.send(message, delay_level=self._random.randrange(1, 4))
            else:
                message = rmq.Message("full-later", message.body)
                await producer.send(message, deliver_time_ms=int(time.time() * 1000) + 1_500)
        except RemoteError as error:
            self.refused[error.code] += 1
            self.remarks[str(error)] += 1
            await asyncio.sleep(0.001)


def _number(message: rmq.MessageExt) -> int:
    return int(message.body[:_DIGITS])
