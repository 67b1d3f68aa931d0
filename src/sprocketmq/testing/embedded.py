# SPDX-License-Identifier: Apache-2.0
"""A whole RocketMQ inside the test's process: name server and broker on free ports of 127.0.0.1, up in milliseconds. Sockets, frames
and broker are the real ones; the servers run on one loop in a thread of their own, clients on the process's shared client engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, cast, overload

import sprocketmq as rmq
from sprocketmq.broker import Broker, BrokerConfig, NameServer
from sprocketmq.broker.settings.key_names import nearest_key
from sprocketmq.core.resource_names import topic_name_problem
from sprocketmq.errors import ClosedError, ConfigurationError
from sprocketmq.net.process.clock import Clock, ManualClock, SystemClock
from sprocketmq.net.process.engine import Engine
from sprocketmq.plain_values import plain_value
from sprocketmq.testing.faults import FaultInjector
from sprocketmq.wire.bodies import TopicConfig
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.records.message import MessageExt
from sprocketmq.wire.records.record import decode_records

if TYPE_CHECKING:
    from typing import Self, Unpack

    import typing_extensions

    from sprocketmq.client.keyword_options import (
        CommonOptions,
        ProducerOptions,
        PullConsumerOptions,
        PushConsumerOptions,
    )
    from sprocketmq.net.connection import Connection, RequestHandler
    from sprocketmq.wire.frames.command import Command

    # The default is for type checkers only: ``EmbeddedRocketMQ`` alone means one with a clock that the test moves. With clock="system"
    # the clock has the type Any, so that fixtures and helpers that name EmbeddedRocketMQ accept that one, too.
    C = typing_extensions.TypeVar("C", bound=Clock, default=ManualClock)
else:
    C = TypeVar("C")

# The limit of a wait for sockets and worker threads, in real time.
_PATIENCE_MS: Final = 30_000
_POLL_S: Final = 0.002
_LAST_MS: Final = 1_000  # for what the clock does not know of, after the last step
# At least so many checks for rest between two steps: a request and its answer take two.
_CHECKS: Final = 8
_HANGS: Final = 20  # steps for which a listener's call runs until it is taken for one that hangs
T = TypeVar("T")
Options = TypeVar("Options", bound=Mapping[str, object])


class EmbeddedRocketMQ(Generic[C]):
    """Name server and broker for a test; use as a context manager, or ``start`` and ``stop``. With the manual clock nothing that
    waits (retry delays, long polling, heartbeats, rebalance) happens until the test calls ``advance``, and then it happens at once
    and in order.

    Args:
        clock: ``"manual"`` (default, a new :class:`ManualClock`), ``"system"``, or a clock of yours.
        store_dir: a directory makes the broker durable (see :meth:`restart_broker`); None keeps messages in memory.
        broker_name, cluster_name: as clients see them.
        config: any of Apache's broker keys, as in ``messageDelayLevel="1s 5s"`` or ``autoCreateTopicEnable=False``. Defaults are
            Apache's, but for ``enablePropertyFilter``, which is on here: SQL92 subscriptions work.

    After ``start``: ``namesrv_addr``, ``broker_addr`` (``host:port``), ``broker``, ``namesrv``, ``clock``, ``faults``. Raises
    ConfigurationError (an option is unknown or out of range).

    Every method that makes a client (``producer``, ``push_consumer``, ...) takes its options: ``help(sprocketmq.ProducerOptions)``,
    ``PushConsumerOptions``, ``PullConsumerOptions``, ``CommonOptions``. Name server and clock are those of here.
    """

    @overload
    def __init__(
        self: EmbeddedRocketMQ[ManualClock],
        *,
        clock: Literal["manual"] = "manual",
        store_dir: str | Path | None = None,
        broker_name: str = "broker-a",
        cluster_name: str = "DefaultCluster",
        **config: str | int | bool,
    ) -> None: ...

    @overload
    def __init__(
        self: EmbeddedRocketMQ[Any],
        *,
        clock: Literal["system"],
        store_dir: str | Path | None = None,
        broker_name: str = "broker-a",
        cluster_name: str = "DefaultCluster",
        **config: str | int | bool,
    ) -> None: ...

    @overload
    def __init__(
        self,
        *,
        clock: C,
        store_dir: str | Path | None = None,
        broker_name: str = "broker-a",
        cluster_name: str = "DefaultCluster",
        **config: str | int | bool,
    ) -> None: ...

    def __init__(
        self,
        *,
        clock: Clock | Literal["manual", "system"] = "manual",
        store_dir: str | Path | None = None,
        broker_name: str = "broker-a",
        cluster_name: str = "DefaultCluster",
        **config: str | int | bool,
    ) -> None:
        self.clock = cast("C", _clock(clock))
        self.faults = FaultInjector(self.clock)
        self._store_dir = None if store_dir is None else Path(store_dir)
        self._broker_name, self._cluster_name = broker_name, cluster_name
        known = BrokerConfig.keys()
        unknown = sorted(config.keys() - known)
        if unknown:
            near = nearest_key(unknown[0], known)
            hint = f"; did you mean {near}?" if near else ""
            raise ConfigurationError(
                f"{unknown[0]!r} is given, Apache's broker keys are allowed, as in messageDelayLevel or autoCreateTopicEnable{hint}"
            )
        self._config = BrokerConfig.from_properties(
            {
                key: str(value).lower() if isinstance(value, bool) else str(plain_value(value))
                for key, value in {"enablePropertyFilter": True, **config}.items()
            }
        )
        self._asked: set[str] = set()  # topics that clients and the test asked for, whether they exist or not
        self._engine: Engine | None = None
        self._namesrv: NameServer | None = None
        self._broker: Broker | None = None

    # -- life ------------------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start name server, then broker; returns when the broker is registered. Raises ClosedError (it was started before)."""
        if self._engine is not None:
            raise ClosedError("this EmbeddedRocketMQ was started before; make a new one")
        self._engine = Engine("sprocketmq-embedded")
        try:
            self._namesrv = NameServer(host="127.0.0.1", port=0, clock=self.clock, engine=self._engine)
            self._namesrv.intercept = self._at_name_server
            self._namesrv.start()
            self._start_broker(0)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop both; harmless when stopped already. Clients made here should be shut down before."""
        engine = self._engine
        if engine is None or engine.loop.is_closed():
            return
        try:
            if self._broker is not None:
                self._broker.stop()
            if self._namesrv is not None:
                self._namesrv.stop()
        finally:
            engine.close()

    def restart_broker(self) -> None:
        """Stop the broker and start a new one at the same address: what was in ``store_dir`` is there again, memory is gone."""
        port = self.broker.port
        self.broker.stop()
        self._start_broker(port)

    def _at_name_server(self, connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            self._asked.add(command.fields.get("topic", ""))
        return self.faults.intercept(connection, command, handler)

    def _start_broker(self, port: int) -> None:
        self._broker = Broker(
            namesrv_addr=self.namesrv_addr,
            host="127.0.0.1",
            port=port,
            store_dir=self._store_dir,
            broker_name=self._broker_name,
            cluster_name=self._cluster_name,
            clock=self.clock,
            config=self._config,
            engine=self._engine,
        )
        self._broker.intercept = self.faults.intercept
        self._broker.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.stop()

    # -- servers and messages --------------------------------------------------------------------------------------------------

    @property
    def broker(self) -> Broker:
        """The running broker; a new object after :meth:`restart_broker`."""
        return _started(self._broker)

    @property
    def namesrv(self) -> NameServer:
        """The running name server."""
        return _started(self._namesrv)

    @property
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server."""
        return self.namesrv.address

    @property
    def broker_addr(self) -> str:
        """``host:port`` of the broker; the same after :meth:`restart_broker`."""
        return self.broker.address

    def create_topic(self, topic: str, queues: int = 8) -> None:
        """Create ``topic``, known to the name server on return. Raises ConfigurationError (the name is wrong)."""
        if problem := topic_name_problem(topic):
            raise ConfigurationError(problem)
        _started(self._engine).run(self._create(TopicConfig(topic, queues, queues)))

    def messages(self, topic: str) -> list[MessageExt]:
        """Every message stored under ``topic``, queue by queue, oldest first, as it is stored; empty for an unknown topic. Works
        for ``%RETRY%group``, ``%DLQ%group`` and ``SCHEDULE_TOPIC_XXXX`` too, which is where a message waits for its retry."""
        self._asked.add(topic)
        return self._on_loop(lambda: self._read_all(topic))

    def consumer_offset(self, group: str, topic: str) -> dict[int, int]:
        """Committed progress of ``group`` on ``topic``: queue id to the offset it will read next; queues without any are left out."""
        self._asked.add(topic)
        return self._on_loop(lambda: self._read_offsets(group, topic))

    # -- time --------------------------------------------------------------------------------------------------------------------

    def advance(self, delay_ms: float) -> None:
        """Move the manual clock forward, ``delay_ms`` in milliseconds; see :meth:`ManualClock.advance`."""
        if not isinstance(self.clock, ManualClock):
            raise ConfigurationError('advance needs the manual clock; make it with EmbeddedRocketMQ(clock="manual")')
        self.clock.advance(delay_ms)

    def advance_until(
        self,
        condition: Callable[[], object],
        *,
        step_ms: float = 1_000,
        limit_ms: float = 600_000,
        patience_ms: float = 25,
    ) -> float:
        """Advance the manual clock step by step until ``condition()`` is true, at most by ``limit_ms`` milliseconds. Returns how
        many that took. Raises AssertionError (it is still false).

        A step is ``step_ms`` milliseconds long, or goes to the next timer of the clock if that is later. The next step begins when
        clients and servers are at rest (:meth:`ManualClock.is_at_rest`). They do not come to rest while a listener waits for
        something, an answer is lost, or a client is connected that does not use this clock, as that of another process: then the
        next step begins after ``patience_ms`` milliseconds of real time, and is ``step_ms`` long. A call of a listener that runs
        for 20 such steps is no longer waited for, nor are threads of the test; :meth:`wait_until` does that.
        """
        advanced_ms = 0.0
        began_s, most_real_ms = time.monotonic(), 0.0
        steps_of = dict[object, int]()  # for calls of listeners: how many steps they have run for
        while True:
            hanging = {call for call, steps in steps_of.items() if steps >= _HANGS}
            is_at_rest = self._is_at_rest_within(condition, patience_ms, hanging)
            if not is_at_rest:
                most_real_ms += patience_ms
                if isinstance(self.clock, ManualClock):
                    steps_of = {call: steps_of.get(call, 0) + 1 for call in self.clock.running_calls()}
            if condition():
                return advanced_ms
            if advanced_ms >= limit_ms:
                break
            next_ms = self.clock.next_timer_ms() if is_at_rest and isinstance(self.clock, ManualClock) else None
            this_step_ms = min(max(step_ms, next_ms or 0), limit_ms - advanced_ms)
            self.advance(this_step_ms)
            advanced_ms += this_step_ms
        # What the clock does not know of, such as a thread of the test, still has the real time that no step needed.
        if self._holds_within(condition, max(_LAST_MS, most_real_ms) - (time.monotonic() - began_s) * 1000):
            return advanced_ms
        raise AssertionError(
            f"the condition does not hold after {advanced_ms:.0f} ms of the manual clock; {self._state()}"
        )

    def wait_until(self, condition: Callable[[], object], timeout_ms: float = _PATIENCE_MS) -> None:
        """Wait in real time, without moving the clock, until ``condition()`` is true. Raises AssertionError (it is still false after
        ``timeout_ms``, milliseconds of real time)."""
        if not self._holds_within(condition, timeout_ms):
            raise AssertionError(f"the condition does not hold after {timeout_ms:.0f} ms of real time; {self._state()}")

    def _state(self) -> str:
        from sprocketmq.testing.state import broker_state  # imported only for a test that fails

        if self._broker is None or self._engine is None:
            return "the broker is not started"
        lines = self._on_loop(lambda: broker_state(self.broker, self.clock.now_ms(), self._asked))
        if isinstance(self.clock, ManualClock):
            next_ms = self.clock.next_timer_ms()
            lines.append(
                "no timer of the clock" if next_ms is None else f"the next timer of the clock in {next_ms:,.0f} ms"
            )
            lines.append(
                "clients and servers are at rest" if self.clock.is_at_rest() else "a client or server is not at rest"
            )
        return "the broker holds:\n  " + "\n  ".join(lines)

    def _is_at_rest_within(self, condition: Callable[[], object], patience_ms: float, hanging: Set[object]) -> bool:
        end_s = time.monotonic() + patience_ms / 1000
        checks = 0
        while not condition() and isinstance(self.clock, ManualClock):
            if self.clock.is_at_rest(hanging):
                return True
            checks += 1
            if checks >= _CHECKS and time.monotonic() > end_s:
                return False
            if checks > _CHECKS:
                time.sleep(_POLL_S)
        return False

    @staticmethod
    def _holds_within(condition: Callable[[], object], timeout_ms: float) -> bool:
        deadline_s = time.monotonic() + timeout_ms / 1000
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_POLL_S)
        return True

    # -- clients on the same clock -------------------------------------------------------------------------------------------------

    def _here(self, options: Options) -> Options:
        return cast(Options, {"namesrv_addr": self.namesrv_addr, "clock": self.clock, **options})

    def producer(self, group: str = "test-producer", **options: Unpack[ProducerOptions]) -> rmq.Producer:
        """A :class:`sprocketmq.Producer`, not yet started."""
        return rmq.Producer(group, **self._here(options))

    def push_consumer(self, group: str = "test-consumer", **options: Unpack[PushConsumerOptions]) -> rmq.PushConsumer:
        """A :class:`sprocketmq.PushConsumer`, not yet started."""
        return rmq.PushConsumer(group, **self._here(options))

    def pull_consumer(self, group: str = "test-consumer", **options: Unpack[PullConsumerOptions]) -> rmq.PullConsumer:
        """A :class:`sprocketmq.PullConsumer`, not yet started."""
        return rmq.PullConsumer(group, **self._here(options))

    def admin(self, **options: Unpack[CommonOptions]) -> rmq.Admin:
        """A :class:`sprocketmq.Admin`."""
        return rmq.Admin(**self._here(options))

    def async_producer(self, group: str = "test-producer", **options: Unpack[ProducerOptions]) -> rmq.AsyncProducer:
        """A :class:`sprocketmq.AsyncProducer`, not yet started, for a test that is a coroutine."""
        return rmq.AsyncProducer(group, **self._here(options))

    def async_push_consumer(
        self, group: str = "test-consumer", **options: Unpack[PushConsumerOptions]
    ) -> rmq.AsyncPushConsumer:
        """A :class:`sprocketmq.AsyncPushConsumer`, not yet started, for a test that is a coroutine."""
        return rmq.AsyncPushConsumer(group, **self._here(options))

    def async_pull_consumer(
        self, group: str = "test-consumer", **options: Unpack[PullConsumerOptions]
    ) -> rmq.AsyncPullConsumer:
        """A :class:`sprocketmq.AsyncPullConsumer`, not yet started, for a test that is a coroutine."""
        return rmq.AsyncPullConsumer(group, **self._here(options))

    def async_admin(self, **options: Unpack[CommonOptions]) -> rmq.AsyncAdmin:
        """A :class:`sprocketmq.AsyncAdmin`, for a test that is a coroutine."""
        return rmq.AsyncAdmin(**self._here(options))

    def __repr__(self) -> str:
        if self._namesrv is None or self._broker is None:
            return "EmbeddedRocketMQ(not started)"
        return f"EmbeddedRocketMQ(namesrv={self._namesrv.address}, broker={self._broker.address}, clock={self.clock!r})"

    # -- inside ------------------------------------------------------------------------------------------------------------------

    def _on_loop(self, call: Callable[[], T]) -> T:
        async def run() -> T:
            return call()

        return _started(self._engine).run(run())

    async def _create(self, topic: TopicConfig) -> None:
        self.broker.topics.update(topic, now_ms=self.clock.now_ms())
        await self.broker.registered()

    def _read_all(self, topic: str) -> list[MessageExt]:
        store, found = self.broker.store, []
        for queue_id in (number for name, number in store.queues() if name == topic):
            offset = store.min_offset(topic, queue_id)
            while offset < store.max_offset(topic, queue_id):
                result = store.read(topic, queue_id, offset, 1024, 4 * 1024 * 1024)
                for chunk in result.chunks:
                    found += decode_records(chunk, broker_name=self._broker_name)
                if result.next_offset <= offset:
                    break
                offset = result.next_offset
        return found

    def _read_offsets(self, group: str, topic: str) -> dict[int, int]:
        queue_ids = (queue_id for name, queue_id in self.broker.store.queues() if name == topic)
        offsets = {queue_id: self.broker.offsets.query(group, topic, queue_id) for queue_id in queue_ids}
        return {queue_id: offset for queue_id, offset in offsets.items() if offset >= 0}


def _clock(clock: Clock | Literal["manual", "system"]) -> Clock:
    if clock == "manual":
        return ManualClock()
    if clock == "system":
        return SystemClock()
    if not callable(getattr(clock, "call_later", None)):
        raise ConfigurationError(f'clock is {clock!r}, "manual", "system" or a Clock is allowed')
    return clock


def _started(part: T | None) -> T:
    if part is None:
        raise ClosedError("this EmbeddedRocketMQ is not started; use it in a with statement, or call start()")
    return part
