# SPDX-License-Identifier: Apache-2.0
"""`kill -9` while delayed messages and timer messages wait and are being delivered: all arrive, none early, none again and again."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from interop.child import poll_until
from interop.remoting import ask
from interop.send_ledger import read_topic
from interop.sprocket_server import SprocketServer
from sprocketmq.store.tools.check import check_directory
from sprocketmq.wire.records.message import MessageExt
from system.broker.floods import send_fields

pytestmark = pytest.mark.timeout(300)

TOPIC = "waiting"
SEND_MESSAGE = 310
KILLS = 5


def send(server: SprocketServer, body: str, name: str, value: int) -> None:
    fields = send_fields(TOPIC, {"UNIQ_KEY": body, name: str(value)})
    assert ask(server.broker_addr, SEND_MESSAGE, fields, body.encode()).code == 0


def delivered(server: SprocketServer) -> list[MessageExt]:
    return [message for queue in read_topic(server.namesrv_addr, TOPIC).values() for message in queue]


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_waits_survives_kills_at_random_moments(tmp_path, flush_disk_type):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    server = SprocketServer(
        tmp_path / "store", flushDiskType=flush_disk_type, messageDelayLevel="1s 2s 3s", mappedFileSizeTimerLog=4096
    )
    due: dict[str, int] = {}
    try:
        for kill in range(KILLS):
            server.start(60)
            if not kill:
                server.create_topic(TOPIC, 1)
            for n in range(60):
                level, wait_ms = dice.randint(1, 3), dice.randint(1, 4_000)
                due[f"level-{kill}-{n}"] = int(time.time() * 1000) + level * 1000
                send(server, f"level-{kill}-{n}", "DELAY", level)
                due[f"timer-{kill}-{n}"] = int(time.time() * 1000) + wait_ms
                send(server, f"timer-{kill}-{n}", "TIMER_DELIVER_MS", due[f"timer-{kill}-{n}"])
            some = dice.randint(1, len(due))
            poll_until(lambda: len(delivered(server)) >= some or dice.random() < 0.05, "some are delivered", 30, 0.05)  # noqa: B023
            server.kill()
        server.start(60)
        poll_until(lambda: set(due) <= {m.body.decode() for m in delivered(server)}, "all are delivered", pause_s=0.2)
        found = delivered(server)
        assert server.stop_process() == 0
    finally:
        server.stop()
    counted = Counter(message.body.decode() for message in found)
    assert set(counted) == set(due)
    # Per kill at most the step under way is done again: one message of each level and of the timer.
    assert sum(counted.values()) - len(due) <= KILLS * 4, f"again: {[n for n, times in counted.items() if times > 1]}"
    early = [m.body for m in found if m.store_timestamp_ms < due[m.body.decode()]]
    assert early == []
    assert [str(problem) for problem in check_directory(tmp_path / "store")] == []
