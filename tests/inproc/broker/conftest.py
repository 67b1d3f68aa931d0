# SPDX-License-Identifier: Apache-2.0
"""Name server and broker on a manual clock, asked over real connections by clients that speak raw requests."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inproc.broker.store_damage import Lines
from sprocketmq.broker import Broker, BrokerConfig, NameServer, NameServerConfig
from sprocketmq.net.connection import Connection
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.net.process.engine import Engine
from sprocketmq.store.tools.check import check_directory
from sprocketmq.testing.simulation.power_disk import PowerDisk
from sprocketmq.wire import requests
from sprocketmq.wire.bodies import Body, ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from sprocketmq.wire.codes import RequestCode
from sprocketmq.wire.frames.command import Command, Header, request
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.headers import (
    ConsumerSendMsgBackRequestHeader,
    PullMessageRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SendMessageRequestHeaderV2,
)
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageExt
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.records.sys_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from sprocketmq.wire.requests.declaration import AnyRequest
from watched_disk import watched

TIMEOUT_MS = 10_000


class Fields(dict[str, Any]):
    """Ext fields as they are; None leaves one out."""

    def to_ext(self) -> dict[str, str]:
        return {name: text for name, text in self.items() if text is not None}


class RawClient:
    """One client with connections of its own; keeps what the broker pushes. ``handle``: answers it."""

    def __init__(
        self, engine: Engine, address: str, handle: Callable[[Command], Command | None] = lambda command: None
    ) -> None:
        self.engine, self.address, self.handle = engine, address, handle
        self.pushed: list[Command] = []
        self.pool: ConnectionPool = engine.run(self._make_pool())

    async def _make_pool(self) -> ConnectionPool:
        def keep(connection: Connection, command: Command) -> Command | None:
            self.pushed.append(command)
            return self.handle(command)

        return ConnectionPool(keep)

    def ask(self, code: int, header: Header | Fields | None = None, body: bytes = b"", **fields: Any) -> Command:
        return self.begin(code, header, body, **fields).result(TIMEOUT_MS / 1000)

    def begin(
        self, code: int, header: Header | Fields | None = None, body: bytes = b"", **fields: Any
    ) -> concurrent.futures.Future[Command]:
        command = request(code, header, body)
        for name, value in fields.items():
            setattr(command, name, value)
        return self.engine.submit(self.pool.invoke(self.address, command, TIMEOUT_MS))

    def do(self, asked: AnyRequest, *values: Any, body: Body | bytes = b"", **fields: Any) -> Command:
        """Ask with the header and body that are declared for the request."""
        header = asked.header(*values, **fields) if asked.header is not None and (values or fields) else None
        return self.ask(asked.code, header, body if isinstance(body, bytes) else body.encode())

    def get(self, asked: AnyRequest, *values: Any, **fields: Any) -> Any:
        """The body of the answer."""
        answer = self.do(asked, *values, **fields)
        assert answer.code == 0, answer.remark
        return asked.answer_body_in(answer)

    def tell(self, code: int, header: Header | Fields | None = None, body: bytes = b"") -> None:
        self.engine.run(self.pool.invoke_oneway(self.address, request(code, header, body, oneway=True)))

    def close(self) -> None:
        self.engine.run(self.pool.aclose())

    # -- the usual requests ------------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, queues: int = 4, **fields: Any) -> Command:
        numbers = {"read_queue_nums": queues, "write_queue_nums": queues, "perm": 6}
        return self.do(requests.topics.UPDATE_AND_CREATE_TOPIC, topic, "TBW102", **{**numbers, **fields})

    def delete_topic(self, topic: str) -> Command:
        return self.do(requests.topics.DELETE_TOPIC_IN_BROKER, topic)

    def delete_group(self, group: str, clean_offset: bool = True) -> Command:
        return self.do(requests.topics.DELETE_SUBSCRIPTIONGROUP, group, clean_offset)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> Command:
        return self.do(requests.offsets.UPDATE_CONSUMER_OFFSET, group, topic, queue_id, offset)

    def committed(self, group: str, topic: str, queue_id: int = 0) -> str | None:
        header = QueryConsumerOffsetRequestHeader(group, topic, queue_id, set_zero_if_not_found=False)
        return self.ask(RequestCode.QUERY_CONSUMER_OFFSET, header).ext_fields.get("offset")

    def send(
        self,
        topic: str,
        body: bytes = b"body",
        *,
        queue_id: int = 0,
        tags: str | None = None,
        delay_level: int = 0,
        properties: dict[str, str] | None = None,
        code: int = RequestCode.SEND_MESSAGE_V2,
        oneway: bool = False,
        **fields: Any,
    ) -> Command:
        named = {props.UNIQ_KEY: f"key-{body.decode(errors='replace')}", **(properties or {})}
        if tags is not None:
            named[props.TAGS] = tags
        if delay_level:
            named[props.DELAY] = str(delay_level)
        place = ("producers", topic, "TBW102", 4, queue_id)
        others = {"sys_flag": 0, "born_timestamp": 1, "flag": 0, **fields}
        header = SendMessageRequestHeaderV2(*place, **others, properties=props.encode_properties(named).decode())
        if oneway:
            self.tell(code, header, body)
            return Command(0)
        return self.ask(code, header, body)

    def send_batch(self, elements: bytes, topic: str = "flights", of_batch: str = "") -> Command:
        place = ("producers", topic, "TBW102", 4, 0, 0, 9, 0, of_batch)
        return self.do(requests.messages.SEND_BATCH_MESSAGE, *place, batch=True, body=elements)

    def pull_header(
        self,
        group: str,
        topic: str,
        queue_id: int = 0,
        offset: int = 0,
        *,
        expression: str | None = "*",
        suspend_ms: int = 0,
        commit_offset: int | None = None,
        max_messages: int = 32,
        sub_version: int = 0,
    ) -> PullMessageRequestHeader:
        flag = (PULL_SUSPEND if suspend_ms else 0) | (PULL_SUBSCRIPTION if expression is not None else 0)
        return PullMessageRequestHeader(
            consumer_group=group,
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=max_messages,
            sys_flag=flag | (0 if commit_offset is None else PULL_COMMIT_OFFSET),
            commit_offset=commit_offset or 0,
            suspend_timeout_millis=suspend_ms,
            sub_version=sub_version,
            subscription=expression,
            expression_type="TAG",
        )

    def pull(self, group: str, topic: str, *place: int, **options: Any) -> Command:
        return self.ask(RequestCode.PULL_MESSAGE, self.pull_header(group, topic, *place, **options))

    def begin_pull(self, group: str, topic: str, *place: int, **options: Any) -> concurrent.futures.Future[Command]:
        return self.begin(RequestCode.PULL_MESSAGE, self.pull_header(group, topic, *place, **options))

    def messages(self, topic: str, queue_id: int = 0, group: str = "reader") -> list[MessageExt]:
        """Everything in one queue, read by pulls."""
        found: list[MessageExt] = []
        offset = 0
        while True:
            answer = self.pull(group, topic, queue_id, offset)
            if answer.code:
                return found
            found += decode_records(answer.body)
            offset = int(answer.ext_fields["nextBeginOffset"])

    def bodies(self, topic: str = "flights", queue_id: int = 0) -> list[bytes]:
        return [message.body for message in self.messages(topic, queue_id)]

    def end_transaction(
        self,
        queue_offset: int,
        commit_log_offset: int,
        outcome: int,
        *,
        from_check: bool = True,
        group: str = "producers",
    ) -> Command:
        asked, ends = requests.messages.END_TRANSACTION, (queue_offset, commit_log_offset, outcome, from_check)
        return self.do(asked, group, *ends, "id", "")

    def send_back(self, message: MessageExt, group: str, *, delay_level: int = 0, **fields: Any) -> Command:
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.commit_log_offset, group=group, delay_level=delay_level, **fields
        )
        return self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)

    def heartbeat(
        self,
        client_id: str,
        *,
        group: str | None = None,
        topics: dict[str, str] | None = None,
        producer: str | None = None,
        model: str = "CLUSTERING",
        sub_version: int = 1,
        begin: str = "CONSUME_FROM_LAST_OFFSET",
    ) -> Command:
        consumers = []
        if group is not None:
            subscriptions = [subscription(topic, tags, sub_version) for topic, tags in (topics or {}).items()]
            consumers = [
                ConsumerData(
                    group_name=group,
                    message_model=model,
                    consume_from_where=begin,
                    subscription_data_set=subscriptions,
                )
            ]
        producers = [ProducerData(group_name=producer)] if producer else []
        data = HeartbeatData(client_id=client_id, producer_data_set=producers, consumer_data_set=consumers)
        return self.ask(RequestCode.HEART_BEAT, body=data.encode())


def subscription(topic: str, tags: str, sub_version: int) -> SubscriptionData:
    names = set() if tags == "*" else {tag.strip() for tag in tags.split("||")}
    return SubscriptionData(
        topic=topic,
        sub_string=tags,
        tags_set=names,
        code_set={tags_code(tag) for tag in names},
        sub_version=sub_version,
    )


class Cluster:
    """A name server and a broker; ``client()`` makes clients of the broker."""

    def __init__(self, store_dir: str | None, config: dict[str, Any]) -> None:
        self.engine = Engine("test-cluster")
        self.clock = ManualClock()
        self.store_dir, self.config, self.kills = store_dir, BrokerConfig(**config), 0
        self.clients: list[RawClient] = []
        self.name_servers: list[NameServer] = []
        self.namesrv = self.new_name_server()
        self.broker = self.new_broker()
        self.broker.start()

    def new_name_server(self, port: int = 0, **settings: Any) -> NameServer:
        """It is started, and stopped with the cluster."""
        made = NameServer(port=port, clock=self.clock, engine=self.engine, config=NameServerConfig(**settings))
        made.start()
        self.name_servers.append(made)
        return made

    def new_broker(self, port: int = 0, **options: Any) -> Broker:
        return Broker(
            self.namesrv.address,
            port=port,
            store_dir=self.store_dir,
            clock=self.clock,
            config=self.config,
            engine=self.engine,
            **options,
        )

    def copy_as_killed(self, to: Path) -> None:
        """The directory of the running broker as a ``kill -9`` at this moment would leave it.

        A thread may be replacing a configuration file meanwhile: what has gone when it is its turn was not there when the kill came.
        """

        def copy(source: str, target: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(source, target)

        assert self.store_dir is not None
        shutil.copytree(self.store_dir, to, ignore=shutil.ignore_patterns("lock"), copy_function=copy)

    def start_again(self, port: int = 0, **options: Any) -> None:
        """A new broker takes the place of the one before, which ends now if it runs."""
        if self.broker.is_running:
            self.broker.stop()
        self.broker = self.new_broker(port, **options)
        self.broker.start()

    def restart_on(self, store_dir: Path) -> None:
        """Go on with another directory: one that a kill left, or that was changed by hand."""
        self.broker.stop()
        self.store_dir = str(store_dir)
        self.start_again()

    def kill(self) -> Path:
        """Go on with the directory as a ``kill -9`` at this moment leaves it."""
        self.kills += 1
        left = Path(self.store_dir or "").with_name(f"killed-{self.kills}")
        self.copy_as_killed(left)
        self.restart_on(left)
        return left

    def restart_broker(self, **changed: Any) -> None:
        self.broker.stop()
        self.config = msgspec.structs.replace(self.config, **changed)
        self.start_again(self.broker.port)

    def client(self, address: str | None = None, **options: Any) -> RawClient:
        client = RawClient(self.engine, address or self.broker.address, **options)
        self.clients.append(client)
        return client

    def namesrv_client(self) -> RawClient:
        return self.client(self.namesrv.address)

    def on_loop(self, call: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return call()

        return self.engine.run(run())

    def eventually(self, condition: Callable[[], object], seconds: float = 60) -> None:
        """Sockets need a moment of real time; the clock stands still meanwhile."""
        deadline = time.monotonic() + seconds
        while not self.on_loop(condition):
            assert time.monotonic() < deadline, "the condition does not come true"
            time.sleep(0.002)

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.broker.stop()
        for server in self.name_servers:
            server.stop()
        self.engine.close()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """In memory; ``@pytest.mark.parametrize("cluster", [{...}], indirect=True)`` gives broker settings."""
    made = Cluster(None, getattr(request, "param", {}))
    yield made
    made.close()


@pytest.fixture
def disk_cluster(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Cluster]:
    """On disk, in small files; what is left after the stop is checked as ``sprocketmq store check`` does."""
    sizes = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 20_000}
    settings = {**sizes, "max_hash_slot_num": 1_000, "max_index_num": 4_000}
    made = Cluster(str(tmp_path / "store"), {**settings, **getattr(request, "param", {})})
    yield made
    made.close()
    assert [str(problem) for problem in check_directory(tmp_path / "store") if not problem.note] == []


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PowerDisk]:
    """Named before the broker in each test: so its first folders are not on the disk either."""
    root = tmp_path / "store"
    root.mkdir()
    disk = watched(PowerDisk(root), monkeypatch)
    yield disk
    disk.close()


@pytest.fixture
def client(cluster: Cluster) -> RawClient:
    return cluster.client()


# -- tables of damaged stores ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """A loop for brokers without clients."""
    made = Engine("damage")
    yield made
    made.close()


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Warnings and errors of the package, from here on."""
    handler = Lines()
    logger = logging.getLogger("sprocketmq")
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)
