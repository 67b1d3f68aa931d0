# SPDX-License-Identifier: Apache-2.0
"""Ten minutes of one trouble in a simulated cluster, and the lines that each process logs of it."""

from __future__ import annotations

import contextlib
import json
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import trustme

import sprocketmq as rmq
from sprocketmq.broker import Broker, BrokerConfig, NameServer, NameServerConfig
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.store.services.retention import Retention
from sprocketmq.testing.simulation import Here, World, simulate
from sprocketmq.testing.simulation.loop import current_process

KEYS = ("Worker77", "worker-secret")
ACCOUNT = {"accessKey": KEYS[0], "secretKey": KEYS[1], "defaultTopicPerm": "PUB|SUB", "defaultGroupPerm": "SUB"}
OTHER = {"accessKey": "Boss7777", "secretKey": "boss-secret", "admin": True}


@dataclass(frozen=True)
class Line:
    at_s: float
    level: int
    text: str
    has_stack: bool

    def __str__(self) -> str:
        return f"{self.at_s:7.1f} s {logging.getLevelName(self.level):7} {self.text}"


@dataclass
class Size:
    """``queues``: of the first topic, at each broker; the others have one."""

    topics: int = 50
    queues: int = 256
    groups: int = 5
    minutes: float = 10
    brokers: int = 2
    before_ms: int = 60_000
    after_ms: int = 200_000


@dataclass
class Drill(logging.Handler):
    """A handler of the root logger during the run. ``lines``: by process, WARNING and above, from the beginning of the trouble on."""

    size: Size
    trouble: str
    lines: dict[str, list[Line]] = field(default_factory=dict)
    consumed: int = 0
    fails: bool = False

    def __post_init__(self) -> None:
        super().__init__(logging.WARNING)
        self._world: World | None = None
        self._began_s = float("inf")
        self._folder = Path()

    def __hash__(self) -> int:
        return id(self)

    def emit(self, record: logging.LogRecord) -> None:
        if self._world is None or (now_s := self._world.loop.time()) < self._began_s:
            return
        process = current_process.get()
        host = "" if process is None else process.host.name
        line = Line(
            now_s - self._began_s, record.levelno, f"{record.name}: {record.getMessage()}", bool(record.exc_info)
        )
        self.lines.setdefault(host, []).append(line)

    @property
    def topics(self) -> list[str]:
        return [f"topic-{number}" for number in range(self.size.topics)]

    def run(self) -> Drill:
        root = logging.getLogger()
        root.addHandler(self)
        try:
            with tempfile.TemporaryDirectory(prefix="log-drill-") as folder:
                self._folder = Path(folder)
                self._write_accounts(ACCOUNT, OTHER)
                config: dict[str, Any] = {}
                if self.trouble == "account revoked":
                    config = {"aclEnable": "true", "aclFile": str(self._accounts)}
                simulate(self._main, seed=7, brokers=self.size.brokers, **config)
        finally:
            root.removeHandler(self)
        return self

    async def _main(self, world: World) -> None:
        self._world = world
        for number, topic in enumerate(self.topics):
            await world.topic(topic, 1 if number else self.size.queues)
        world.start("shop", self._shop)
        await world.sleep(self.size.before_ms)
        assert self.consumed, "the drill consumes nothing before the trouble"
        self._began_s = world.loop.time()
        async with TROUBLES[self.trouble](self, world):
            await world.sleep(self.size.minutes * 60_000)
        consumed = self.consumed
        await world.sleep(self.size.after_ms)
        assert self.consumed > consumed, "the drill consumes nothing after the trouble"
        self._began_s = float("inf")

    async def _shop(self, here: Here) -> None:
        """A producer, and a consumer of each group: concurrent ones, then an orderly one and a pull consumer."""
        options: Any = {"instance_name": "shop", "access_key": KEYS[0], "secret_key": KEYS[1]}
        async with AsyncExitStack() as stack:
            for number in range(self.size.groups):
                consumer = here.push_consumer(f"group-{number}", **options)
                for topic in self.topics:
                    consumer.subscribe(topic)
                if number == 1:
                    consumer.orderly_listener(self._orderly)
                else:
                    consumer.on_message(self._listen)
                await stack.enter_async_context(consumer)
            producer = await stack.enter_async_context(here.producer("producer", **options))
            for number in range(1_000_000):
                for topic in self.topics[number % 10 :: 10]:
                    with contextlib.suppress(rmq.RocketMQError):
                        await producer.send(rmq.Message(topic, b"%d" % number))
                await here.world.sleep(1_000)

    async def _listen(self, message: rmq.MessageExt) -> None:
        self.consumed += 1
        self._look_up(message.queue_offset)
        if self.consumed % 10 == 0:
            raise rmq.RetryLater("every tenth")

    async def _orderly(self, messages: list[rmq.MessageExt], context: object) -> rmq.ConsumeOrderlyStatus:
        self.consumed += 1
        self._look_up(messages[0].queue_offset)
        return rmq.ConsumeOrderlyStatus.SUCCESS

    def _look_up(self, row: int) -> None:
        if self.fails:
            raise LookupError(f"no row {row}")

    # -- troubles ----------------------------------------------------------------------------------------------------------------

    @property
    def _accounts(self) -> Path:
        return self._folder / "plain_acl.yml"

    def _write_accounts(self, *accounts: dict[str, Any]) -> None:
        self._accounts.write_text(json.dumps({"accounts": accounts}))

    @asynccontextmanager
    async def killed(self, world: World) -> AsyncIterator[None]:
        world.kill(world.brokers[0])
        yield
        world.restart(world.brokers[0])

    @asynccontextmanager
    async def without_power(self, world: World) -> AsyncIterator[None]:
        world.kill(world.brokers[0], power=True)
        yield
        world.restart(world.brokers[0])

    @asynccontextmanager
    async def frozen(self, world: World) -> AsyncIterator[None]:
        world.brokers[0].process.freeze()
        yield
        world.brokers[0].process.thaw()

    @asynccontextmanager
    async def without_name_server(self, world: World) -> AsyncIterator[None]:
        world.kill(world.namesrv)
        yield
        world.restart(world.namesrv)

    @asynccontextmanager
    async def disk_full(self, world: World) -> AsyncIterator[None]:
        """Of one broker."""
        broker = world.running(world.brokers[0])
        assert isinstance(broker, Broker)
        used = Retention.disk_used_percent
        Retention.disk_used_percent = lambda self: 93.0 if self._store is broker.store else used(self)  # type: ignore[method-assign]
        try:
            yield
        finally:
            Retention.disk_used_percent = used  # type: ignore[method-assign]

    @asynccontextmanager
    async def account_revoked(self, world: World) -> AsyncIterator[None]:
        self._write_accounts(OTHER)
        yield
        self._write_accounts(ACCOUNT, OTHER)

    @asynccontextmanager
    async def listeners_raise(self, world: World) -> AsyncIterator[None]:
        self.fails = True
        yield
        self.fails = False


TROUBLES: dict[str, Callable[[Drill, World], Any]] = {
    "killed": Drill.killed,
    "without power": Drill.without_power,
    "frozen": Drill.frozen,
    "name server away": Drill.without_name_server,
    "disk full": Drill.disk_full,
    "account revoked": Drill.account_revoked,
    "listeners raise": Drill.listeners_raise,
}


class _Collected(logging.Handler):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__(logging.WARNING)
        self._clock, self._began_ms = clock, clock.now_ms()
        self.lines: dict[str, list[Line]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        at_s = (self._clock.now_ms() - self._began_ms) / 1000
        text = f"{record.name}: {record.getMessage()}"
        where = "client" if record.name == "sprocketmq.client" else "servers"
        self.lines.setdefault(where, []).append(Line(at_s, record.levelno, text, bool(record.exc_info)))


def expired_certificate(size: Size) -> dict[str, list[Line]]:
    """The servers' certificate expires, with a restart, and is renewed: lines of the client and of the servers. In one process with a clock
    that is set and one broker, because the simulated network has no TLS."""
    authority, now = trustme.CA(), datetime.now(UTC)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    clock, received = ManualClock(), set[bytes]()
    topics = [f"topic-{number}" for number in range(size.topics)]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="log-drill-")))
        keys = {"tls.server.keyPath": f"{folder}/key.pem", "tls.server.certPath": f"{folder}/cert.pem"}

        def certify(until: datetime) -> None:
            issued = authority.issue_cert("127.0.0.1", not_before=now - timedelta(days=9), not_after=until)
            issued.private_key_pem.write_to_path(folder / "key.pem")
            (folder / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))

        def serve(namesrv_port: int = 0, broker_port: int = 0) -> tuple[NameServer, Broker]:
            config = NameServerConfig.from_properties(keys)
            namesrv = stack.enter_context(NameServer(port=namesrv_port, clock=clock, config=config))
            of_broker = BrokerConfig.from_properties(keys)
            broker = Broker(
                namesrv.address, port=broker_port, clock=clock, config=of_broker, store_dir=folder / "store"
            )
            return namesrv, stack.enter_context(broker)

        certify(now + timedelta(days=9))
        namesrv, broker = serve()
        shared: Any = {"namesrv_addr": namesrv.address, "ssl_context": context, "clock": clock, "instance_name": "shop"}
        with rmq.Admin(namesrv_addr=namesrv.address, ssl_context=context) as admin:
            for number, topic in enumerate(topics):
                admin.create_topic(topic, queues=1 if number else size.queues)
        producer = stack.enter_context(rmq.Producer("shop", **shared, retry_times_when_send_failed=0))
        for number in range(size.groups):
            consumer = rmq.PushConsumer(f"group-{number}", **shared)
            for topic in topics:
                consumer.subscribe(topic)
            consumer.on_message(lambda message: received.add(message.body))
            stack.enter_context(consumer)
        clock.advance(30_000)
        collected = _Collected(clock)
        logging.getLogger("sprocketmq").addHandler(collected)
        stack.callback(logging.getLogger("sprocketmq").removeHandler, collected)
        certify(now - timedelta(days=1))
        broker.stop()
        namesrv.stop()
        namesrv, broker = serve(namesrv.port, broker.port)
        for number in range(int(size.minutes * 12)):
            with contextlib.suppress(rmq.RocketMQError):
                producer.send(rmq.Message(topics[number % len(topics)], b"lost"))
            clock.advance(5_000)
        certify(now + timedelta(days=9))
        for _ in range(60):
            clock.advance(5_000)
        producer.send(rmq.Message(topics[0], b"last"))
        for _ in range(60):
            if b"last" in received:
                break
            clock.advance(1_000)
        assert b"last" in received, "nothing is consumed after the certificate was renewed"
    return collected.lines
