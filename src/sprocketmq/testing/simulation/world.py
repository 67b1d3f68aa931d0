# SPDX-License-Identifier: Apache-2.0
"""A simulated cluster, and the hosts of a user's programs beside it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import importlib
import os
import pkgutil
import random
import tempfile
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sprocketmq as rmq
import sprocketmq.client
import sprocketmq.net
import sprocketmq.store
from sprocketmq.broker import Broker, BrokerConfig, NameServer
from sprocketmq.broker.tables import broker_identity
from sprocketmq.client import async_client
from sprocketmq.client.dead_letters import dead_letter_message
from sprocketmq.client.produce import request_reply
from sprocketmq.client.remoting import unique_keys
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.errors import StoreError, StoreNotWritable
from sprocketmq.store.disk_message_store import DiskMessageStore
from sprocketmq.testing.simulation.clock import replace_time
from sprocketmq.testing.simulation.disk import HostDisk, replace_disks
from sprocketmq.testing.simulation.draws import Draws
from sprocketmq.testing.simulation.loop import SimulatedLoop, SimulationError, current_process, replace_gather
from sprocketmq.testing.simulation.losses import Losses, entries_on_disk, progress_on_disk, warnings_of_store
from sprocketmq.testing.simulation.network import Host, Network, Process
from sprocketmq.testing.simulation.replacements import Replacements, copied
from sprocketmq.testing.simulation.threads import Threads, replace_threads
from sprocketmq.testing.simulation.weather import CALM, Sky, Weather
from sprocketmq.wire.bodies import TopicConfig

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import (
        CommonOptions,
        ProducerOptions,
        PullConsumerOptions,
        PushConsumerOptions,
    )
    from sprocketmq.client.produce.transaction_checks import CheckCallback

_STORY_LINES: Final = 60
_NAMESRV_PORT: Final = 9876
_BROKER_PORT: Final = 10911
_MEMORY: Final = Path("/dev/shm")  # Linux: files that no disk has to write
# Quick retries, so that a run needs no hours; the broker's own are 10 s to 2 h.
_DELAY_LEVELS: Final = "1s 1s 1s 2s 2s 2s 3s 3s 3s 5s 5s 5s 8s 8s 8s 10s 10s 10s"

# How a broker flushes, how large its files are (small ones often follow each other), how much it keeps for a peer; the simplest first.
_DRAWN_CONFIG: Final[dict[str, list[Any]]] = {
    "flushDiskType": ["SYNC_FLUSH", "ASYNC_FLUSH"],
    "flushIntervalCommitLog": [500, 10_000],
    "flushIntervalConsumeQueue": [1_000, 10_000],  # in these rounds the log is synced, too
    "mappedFileSizeCommitLog": [1 << 20, 1 << 16, 1 << 14, 1 << 13],
    "mappedFileSizeConsumeQueue": [20_000, 2_000, 100],
    "mappedFileSizeTimerLog": [1 << 16, 1_040],
    "maxHashSlotNum": [5_000, 101],
    "maxIndexNum": [20_000, 60],
    "timerFlushIntervalMs": [1_000, 10_000],
    "writeBufferHighWaterMark": [0, 65_536],
}


class Here:
    """A process of a user's program, as its code sees it. Its clients run there, and end with it."""

    def __init__(self, world: World, host: Host) -> None:
        self.world, self.host = world, host
        self.rng = world.draws.stream(f"{host.name}, life {world.lives[host]}")

    @property
    def name(self) -> str:
        return self.host.name

    def producer(self, group: str = "producer", **options: Unpack[ProducerOptions]) -> rmq.AsyncProducer:
        return rmq.AsyncProducer(group, **self._options(options))

    def transaction_producer(
        self, group: str = "producer", *, check: CheckCallback, **options: Unpack[ProducerOptions]
    ) -> rmq.AsyncTransactionProducer:
        return rmq.AsyncTransactionProducer(group, check=check, **self._options(options))

    def push_consumer(self, group: str = "consumer", **options: Unpack[PushConsumerOptions]) -> rmq.AsyncPushConsumer:
        return rmq.AsyncPushConsumer(group, **self._options(options))

    def pull_consumer(self, group: str = "consumer", **options: Unpack[PullConsumerOptions]) -> rmq.AsyncPullConsumer:
        return rmq.AsyncPullConsumer(group, **self._options(options))

    def admin(self, **options: Unpack[CommonOptions]) -> rmq.AsyncAdmin:
        return rmq.AsyncAdmin(**self._options(options))

    @property
    def options(self) -> dict[str, Any]:
        """What makes a client one of this process: ``rmq.Producer("shop", **here.options)``. Blocking clients work in threads, as of
        ``asyncio.to_thread`` or of a listener that is not ``async def``."""
        return {
            "namesrv_addr": self.world.namesrv_addr,
            "clock": self.host.clock,
            "client_ip": self.host.address,
            "instance_name": f"{self.name}-{self.world.lives[self.host]}",
        }

    def _options(self, options: Any) -> Any:
        return {**self.options, **options}


Program = Callable[[Here], Coroutine[Any, Any, object]]
Run = Callable[[], Coroutine[Any, Any, object]]


class World:
    """A name server, brokers and users' processes on one virtual clock.

    Attributes:
        draws: what the seed decides, by name.
        rng: for what your program draws by itself.
        brokers: the hosts of the brokers.
        config: of the brokers.
        lives: how many processes each host has had before the one that runs.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        draws: Draws,
        weather: Weather,
        store_dir: Path,
        brokers: int | None,
        config: dict[str, str],
    ) -> None:
        self.draws, self.rng = draws, draws.stream("main")
        self.loop = loop
        self.threads = Threads(self.loop, draws.stream("threads"))
        self.network = Network(self.loop, draws)
        self.network.unlike = str(store_dir).encode()
        self.lives: dict[Host, int] = {}
        self._runs: dict[Host, Run] = {}
        self._running: dict[Host, Broker | NameServer] = {}
        self._store_dir = store_dir
        self.disks: dict[Host, HostDisk] = {}
        self.losses: dict[str, Losses] = {}  # by broker name
        self.deleted_topics: set[str] = set()  # and made again: members may commit what they had before
        drawn = {name: str(draws.choice(name, values)) for name, values in _DRAWN_CONFIG.items()}
        self.config = BrokerConfig.from_properties({"messageDelayLevel": _DELAY_LEVELS, **drawn, **config})
        self.story: deque[str] = deque(maxlen=_STORY_LINES)
        self._failed: asyncio.Future[object] = self.loop.create_future()
        self.namesrv = self.network.add_host("namesrv")
        self._runs[self.namesrv] = self._run_name_server
        self.brokers = []
        for number in range(draws.number("brokers", 1, 3) if brokers is None else brokers):
            host = self.network.add_host(f"broker-{chr(ord('a') + number)}")
            self._runs[host] = partial(self._run_broker, host)
            self.brokers.append(host)
            self.disks[host] = disk = HostDisk(store_dir / host.name, self.threads, draws.stream(f"disk of {host}"))
            disk.when_power_goes = partial(self._ends_at_its_disk, host, power=True)
            disk.when_killed = partial(self._ends_at_its_disk, host, power=False)
            self.losses[host.name] = Losses()
        self.sky = Sky(self, weather)

    @property
    def is_sync_flush(self) -> bool:
        return self.config.flush_disk_type == "SYNC_FLUSH"

    @property
    def namesrv_addr(self) -> str:
        return f"{self.namesrv.name}:{_NAMESRV_PORT}"

    def dir_of(self, host: Host) -> Path:
        """The host's own directory, which its processes find again."""
        path = self._store_dir / host.name
        path.mkdir(exist_ok=True)
        return path

    @property
    def digest(self) -> str:
        """Of all that was sent and noted, and when; the same for the same seed and program."""
        return self.network.digest

    def note(self, event: str) -> None:
        """Add a line to the run's story."""
        self.story.append(f"{self.loop.time():10.3f} s  {event.replace(str(self._store_dir), 'STORES')}")
        self.network.trace(event.encode())

    # -- programs --------------------------------------------------------------------------------------------------------------

    def start(self, name: str, program: Program) -> Host:
        """Run ``program`` on a host of its own; it begins anew when the host starts again after a kill. What it raises ends the run. The
        weather begins with the first program."""
        host = self.network.add_host(name)
        self._runs[host] = lambda: program(Here(self, host))
        self.sky.begin()
        self.restart(host)
        return host

    def running(self, host: Host) -> Broker | NameServer | None:
        """The server that runs on a host now."""
        return self._running.get(host)

    def restart(self, host: Host) -> None:
        self.note(f"{host} starts")
        self.lives[host] = self.lives.get(host, -1) + 1
        process = host.start_process() if self.lives[host] else host.process
        task = self.loop.create_task(self._runs[host](), context=process.context.copy())
        task.add_done_callback(lambda done: None if process.is_dead else self.fail_with(done, host))

    def kill(self, host: Host, *, power: bool = False) -> None:
        """End what runs on a host, at whatever await it is. ``power``: nobody is told."""
        self._bury(host.process, self._end(host, power=power))

    def _ends_at_its_disk(self, host: Host, *, power: bool) -> None:
        """In the middle of what its process does, which has no effect from here on."""
        self.note(f"{host} has no power, at its disk" if power else f"{host} is killed at its disk")
        process, store = host.process, self._end(host, power=power)
        if store is not None:
            store.refuse_appends(StoreNotWritable("the process is dead"))  # what it still writes by its maps

        def bury() -> None:
            self._bury(process, store)
            self.sky.process_ended(host)

        self.loop.call_soon(bury, context=contextvars.Context())

    def _end(self, host: Host, *, power: bool) -> DiskMessageStore | None:
        """Returns the store that its process had."""
        server = self._running.pop(host, None)
        store = server.store if isinstance(server, Broker) and isinstance(server.store, DiskMessageStore) else None
        if store is not None:
            self.losses[host.name].process_ends(store, power=power)
        if power and host in self.disks:
            self.disks[host].cut_power()
        host.end(power=power)
        return store

    def _bury(self, process: Process, store: DiskMessageStore | None) -> None:
        self.threads.kill(process)
        self._forget_clients(f"{process.host.address}@")
        if store is not None:
            store.abandon()

    def fail_with(self, task: asyncio.Task[Any], whose: object) -> None:
        """End the run if ``task`` has raised."""
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self.note(f"{whose} raised {error!r}")
            self._failed.set_exception(error)

    async def _run_name_server(self) -> None:
        host = self.namesrv
        self._running[host] = server = NameServer(host=host.address, port=_NAMESRV_PORT, clock=host.clock)
        await server.astart()
        await server.ended.wait()

    async def _run_broker(self, host: Host) -> None:
        disk = self.disks[host]
        while True:
            disk.start_process()
            self._running[host] = broker = Broker(
                self.namesrv_addr,
                host=host.address,
                port=_BROKER_PORT,
                store_dir=disk.path,
                broker_name=host.name,
                clock=host.clock,
                config=self.config,
            )
            store = broker.store
            assert isinstance(store, DiskMessageStore)
            self._watch_load(host, store)
            try:
                await broker.astart()
            except StoreError as error:
                if not disk.has_trouble:
                    raise
                self.note(f"{host} does not start: {error}")
                await asyncio.sleep(1)
                continue
            while broker.is_running:
                await asyncio.sleep(1)
                # A full disk ends without him.
                if store.refusal is not None and not store.retention.disk_full and not disk.has_trouble:
                    break
            self.note(f"{host} is restarted: {store.refusal}")
            self.losses[host.name].process_ends(store, power=False)
            try:
                await broker.astop()
            except StoreError as error:
                self.note(f"{host} has stopped: {error}")

    def _watch_load(self, host: Host, store: DiskMessageStore) -> None:
        """Look at what a start finds before anything is appended to it."""
        losses, load = self.losses[host.name], store.load
        losses.check_tables(self.disks[host].path)
        progress = [one for one in progress_on_disk(self.disks[host].path) if one[1] not in self.deleted_topics]

        def watched_load(*args: Any, **more: Any) -> None:
            entries = entries_on_disk(self.disks[host].path)
            with warnings_of_store() as lines:
                load(*args, **more)
            losses.check_said(entries, store, lines)
            losses.check_progress(progress, store)
            losses.store_is_loaded(store)

        store.load = watched_load  # type: ignore[method-assign]

    def disk_here(self) -> HostDisk | None:
        """Of the host whose process calls this."""
        process = current_process.get()
        return None if process is None else self.disks.get(process.host)

    def unfinished(self, host: Host) -> list[asyncio.Task[Any]]:
        """The tasks of the process that runs on a host, its program's among them."""
        return self.loop.unfinished(host.process)

    # -- for the program that watches --------------------------------------------------------------------------------------------

    async def sleep(self, ms: float) -> None:
        await asyncio.sleep(ms / 1000)

    async def until(self, condition: Callable[[], object], limit_ms: float, what: str = "the condition") -> None:
        """Wait until ``condition()`` is true. Raises SimulationError after ``limit_ms``."""
        began_s = self.loop.time()
        while not condition():
            waited_s = self.loop.time() - began_s
            if waited_s > limit_ms / 1000:
                raise SimulationError(f"{what} does not hold within {limit_ms:.0f} ms")
            await asyncio.sleep(min(0.1 + waited_s / 50, 5))

    async def topic(self, name: str, queues: int = 4) -> None:
        """Create a topic at all brokers."""
        await self.all_up()
        for host in self.brokers:
            broker = self._running[host]
            assert isinstance(broker, Broker)
            await self.loop.create_task(self._make_topic(broker, name, queues), context=host.process.context.copy())

    @staticmethod
    async def _make_topic(broker: Broker, name: str, queues: int) -> None:
        broker.topics.update(TopicConfig(name, queues, queues), now_ms=broker.clock.now_ms())
        await broker.config_store.saved()
        await broker.registered()

    async def all_up(self) -> None:
        """Wait until the name server and all brokers run."""
        hosts = (self.namesrv, *self.brokers)
        await self.until(
            lambda: all((server := self._running.get(host)) is not None and server.is_running for host in hosts),
            120_000,
            "every server runs",
        )

    def run(self, main: Callable[[World], Coroutine[Any, Any, object]]) -> None:
        async def begin() -> None:
            await self.all_up()
            await main(self)

        async def program() -> None:
            for host in (self.namesrv, *self.brokers):
                self.restart(host)
            work: asyncio.Future[object] = asyncio.ensure_future(begin())
            done, _ = await asyncio.wait({work, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
            if self.loop.uncaught:
                raise SimulationError(f"a callback raised: {self.loop.uncaught[0]}")

        self.loop.run_until_complete(program())

    def close(self) -> None:
        for host in (*self.brokers, self.namesrv):
            if host in self._running:
                self.kill(host)
        self.threads.close()
        self.loop.close()
        for disk in self.disks.values():
            disk.close()
        for client in [client for client in async_client._begun if client._loop is self.loop]:
            async_client._kept.discard(client)
            # Who still has it, as the traceback of a failure, is not told that it was not shut down.
            client._parts = None
        self._forget_clients("")

    def _forget_clients(self, prefix: str) -> None:
        """What a process keeps for its clients ends with it."""
        for key, instance in list(ClientInstance._instances.items()):
            if instance._loop is self.loop and instance.client_id.startswith(prefix):
                del ClientInstance._instances[key]


def _replace_ids(replacements: Replacements) -> None:
    """Unique keys have the process id, and the pages of an index depend on them: with the real one a seed would be another run in each
    process. So would it with random ids that no seed decides."""
    system = copied(os, getpid=lambda: 1)
    ids = copied(uuid, uuid4=lambda: uuid.UUID(int=random.getrandbits(128), version=4))
    for module in (unique_keys, broker_identity):
        replacements.set(module, "os", system)
    for module in (request_reply, dead_letter_message):
        replacements.set(module, "uuid", ids)


def stores_of(process_id: int) -> list[Path]:
    """Where the files of the runs of a process are."""
    return list(_folder().glob(f"{_prefix(process_id)}*"))


def _folder() -> Path:
    return _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())


def _prefix(process_id: int) -> str:
    return f"sprocketmq-simulation-{process_id:07d}-"


@functools.cache
def load_all() -> None:
    """Import what a program imports when it first needs it: what is replaced for a run is replaced in loaded modules, and a first run
    would not be the same again."""
    for package in (sprocketmq.client, sprocketmq.broker, sprocketmq.store, sprocketmq.net):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(module.name)


def simulate(
    main: Callable[[World], Coroutine[Any, Any, object]],
    *,
    seed: int,
    weather: Weather = CALM,
    brokers: int | None = 1,
    draws: Draws | None = None,
    **config: str,
) -> World:
    """Run ``main`` in a simulated cluster, until it returns. Raises what it raises, with the seed and the last events as a note.
    ``brokers``: None draws 1 to 3. ``draws``: with values that are given."""
    load_all()
    state, collects = random.getstate(), gc.isenabled()
    random.seed(seed)  # what clients and brokers draw by themselves
    with (
        tempfile.TemporaryDirectory(prefix=_prefix(os.getpid()), dir=_folder()) as folder,
        warnings.catch_warnings(),
        contextlib.closing(SimulatedLoop()) as loop,
    ):
        # Clients of dead processes were not shut down, and what they still awaited never ends.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        # What is collected when is a part of the run: ``SimulatedLoop`` sees to it, and not to what was here before.
        gc.disable()
        gc.collect()
        gc.freeze()
        world = World(loop, draws or Draws(seed), weather, Path(folder), brokers, config)
        try:
            with Replacements() as replacements:
                replace_time(replacements, loop)
                replace_gather(replacements, loop)
                replace_threads(replacements, world.threads)
                replace_disks(replacements, world.disk_here)
                _replace_ids(replacements)
                world.run(main)
            world.draws.check_given()
        except BaseException as error:
            error.add_note(
                f"seed {seed}, weather {', '.join(world.sky.kinds) or 'calm'}, step {world.loop.steps}; the last events:\n  "
                + "\n  ".join(world.story)
            )
            raise
        finally:
            random.setstate(state)
            world.close()
            gc.unfreeze()
            gc.collect()
            if collects:
                gc.enable()
        return world
