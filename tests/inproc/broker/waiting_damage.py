# SPDX-License-Identifier: Apache-2.0
"""A store with messages that wait, users, filters and modes; what a start on it still has of them."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from inproc.broker.store_damage import SIZES, Found, messages_of, start_on
from sprocketmq.broker import Broker, BrokerConfig
from sprocketmq.core.transactions.transaction_check import Outcome
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.net.process.engine import Engine
from sprocketmq.store import StoredMessage
from sprocketmq.wire.bodies import SetMessageRequestModeRequestBody, SubscriptionData, UserInfo
from sprocketmq.wire.records import properties as props

SETTINGS: dict[str, Any] = {
    **SIZES,
    "timer_wheel_enable": True,
    "mapped_file_size_timer_log": 20 * 52 + 16,  # the blank at its end
    "acl_enable": True,
}
BEGIN_MS = 1_700_000_000_000
TOPIC = "flights"
ACCOUNTS = "accounts:\n- accessKey: readers\n  secretKey: '12345678'\n  admin: true\n"
# The files that the store without waiting messages does not have.
ROWS = ("delayOffset", "timer", "sprocketUsers", "plain_acl", "consumerFilter", "messageRequestMode", "deletedTopics")


def _broker(engine: Engine, store: Path, clock: ManualClock) -> Broker:
    return Broker("", port=0, store_dir=str(store), clock=clock, config=BrokerConfig(**SETTINGS), engine=engine)


def make_waiting_store(engine: Engine, root: Path, salt: int = 0) -> tuple[set[str], Counter[bytes]]:
    """Fill ``root/stopped`` and its killed twin ``root/killed``; returns their facts, and all that has to be delivered."""
    clock, live = ManualClock(BEGIN_MS), root / "stopped"
    (live / "config").mkdir(parents=True)
    (live / "config/plain_acl.yml").write_text(ACCOUNTS, "utf-8")
    broker = _broker(engine, live, clock)
    broker.start()
    bodies = [b"%d-%d" % (salt, number) for number in range(40)]

    async def fill() -> None:
        now_ms = clock.now_ms()
        broker.topics.create_if_absent(TOPIC, 1, now_ms)
        broker.topics.create_if_absent(f"deleted{salt}", 1, now_ms)
        broker.put(StoredMessage(f"deleted{salt}", 0, b"of a topic that is deleted"), now_ms)
        broker.store.delete_topic(f"deleted{salt}")
        broker.topics.delete(f"deleted{salt}", now_ms, broker.store.max_physical_offset)
        for number, body in enumerate(bodies):
            message = StoredMessage(TOPIC, 0, body, b"UNIQ_KEY\x01k%d\x02" % number, born_timestamp_ms=now_ms)
            match number % 4:
                case 0:  # a part is delivered in the first two seconds
                    broker.schedule.let_wait(message, 1 if number < 20 else 5, now_ms)
                case 1 | 2:
                    delay_ms = 1_000 if number < 20 else 60_000
                    message.properties = props.set_property(message.properties, props.TIMER_DELAY_MS, str(delay_ms))
                    assert broker.timers.let_wait(message, now_ms) is None
                case 3:
                    broker.transactions.prepare(message)
            place = broker.put(message, now_ms)
            if number % 4 == 3 and number < 20:
                half = broker.transactions.half_at(place.physical_offset)
                assert half is not None
                broker.transactions.end(half, Outcome.COMMIT, now_ms)
        broker.users.change(lambda: broker.users.table.create_user(UserInfo(f"alice{salt}", "secret", "Normal")))
        subscription = SubscriptionData(TOPIC, "a > 1", sub_version=now_ms, expression_type="SQL92")
        broker.filters.register("g1", [subscription], now_ms)
        broker.filters.save()
        broker.request_modes.set(SetMessageRequestModeRequestBody(TOPIC, "g1", "POP"))

    async def save() -> None:
        error = await broker.config_store.saved(offsets=True)
        assert error is None
        broker.store.flush()

    engine.run(fill())
    clock.advance(1_500)
    _wait_for(live / "config/timermetrics")
    clock.advance(38_500)  # delivers, and has a round of checks
    _wait_for(live / "config/timermetrics.bak")
    engine.run(save())
    shutil.copytree(live, root / "killed")
    facts = engine.run(_facts(broker))
    broker.stop()
    open_ones = {body for number, body in enumerate(bodies) if number % 4 == 3 and number >= 20}
    return facts, Counter(body for body in bodies if body not in open_ones)


def _wait_for(path: Path) -> None:
    """The timer's files are written on a thread."""
    while not path.exists():
        time.sleep(0.005)


async def _facts(broker: Broker) -> set[str]:
    assert broker.plain_access is not None
    modes = broker.request_modes.content().message_request_mode_map
    return {
        *(f"user {user.username}" for user in broker.users.table.users()),
        *(f"filter of {group}" for group in ("g1",) if broker.filters.get(group, TOPIC)),
        *(f"request mode of {group} for {topic}" for topic, groups in modes.items() for group in groups),
        *(f"deletion of {topic}" for topic in broker.topics.deleted),
        *(f"account {account['accessKey']}" for account in broker.plain_access.accounts()),
        f"{broker.transactions.open_count} open transactions",
    }


def waiting_on(engine: Engine, store: Path, lines: list[str]) -> Found:
    """Check a store, start a broker on it, and let it deliver everything. ``facts``: users, filters, modes, open transactions; and the
    bodies that were delivered."""
    clock = ManualClock(BEGIN_MS + 41_000)

    def look(broker: Broker) -> tuple[set[str], Counter[bytes]]:
        facts = engine.run(_facts(broker))
        clock.advance(25_000)
        return facts, engine.run(_bodies(broker))

    return start_on(engine, store, lines, look, clock, **SETTINGS)


async def _bodies(broker: Broker) -> Counter[bytes]:
    return Counter(body for _, body in messages_of(broker, TOPIC, 0))
