# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus, under Apache 5.x's names where it has the same number (Java: BrokerMetricsManager).

A scrape reads the counters, offsets and positions that the broker keeps anyway, so nothing slows down storing and pulling. Labels are
Apache's; ``message_type`` of rocketmq_messages_in_total is missing, because it would have to be computed for each message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.broker.chunked_work import in_chunks
from sprocketmq.broker.observe.group_positions import position, topics_not_begun
from sprocketmq.core.resource_names import DLQ_PREFIX, RETRY_PREFIX
from sprocketmq.core.transactions.transaction_check import Outcome
from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import needs_extra
from sprocketmq.wire.codes import Version

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.core import Metric

    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

_SCRAPE_TIMEOUT_S: Final = 30.0
_SAMPLES_PER_STEP: Final = 200  # a sample takes up to 50 us if a group reads many queues
_MOST_SCRAPES: Final = 8
_SILENT_SCRAPE_S: Final = 10.0
_SYSTEM_GROUP_PREFIX: Final = "cid_rmq_sys_"

# Name, labels, value. The documentation and kind of each name are in _FAMILIES.
Sample = tuple[str, dict[str, str], float]

_FAMILIES: Final = {
    "rocketmq_broker_permission": ("gauge", "Broker permission: 2 write, 4 read, 6 both"),
    "rocketmq_topic_number": ("gauge", "Topics that the broker has"),
    "rocketmq_consumer_group_number": ("gauge", "Subscription groups that the broker has"),
    "rocketmq_messages_in_total": ("counter", "Messages stored since the start"),
    "rocketmq_messages_out_total": ("counter", "Messages pulled since the start"),
    "rocketmq_throughput_in_total": ("counter", "Bytes of records stored since the start"),
    "rocketmq_throughput_out_total": ("counter", "Bytes of records pulled since the start"),
    "rocketmq_producer_connections": ("gauge", "Producers that sent a heartbeat"),
    "rocketmq_consumer_connections": ("gauge", "Consumers that sent a heartbeat"),
    "rocketmq_consumer_lag_messages": ("gauge", "Messages that a group has not committed yet"),
    "rocketmq_consumer_lag_latency": ("gauge", "Age in ms of the oldest message that a group has not committed yet"),
    "rocketmq_consumer_inflight_messages": ("gauge", "Messages that a group pulled and has not committed yet"),
    "rocketmq_consumer_ready_messages": ("gauge", "Messages that a group has not pulled yet"),
    "rocketmq_consumer_queueing_latency": ("gauge", "Age in ms of the oldest message that a group has not pulled yet"),
    "rocketmq_send_to_dlq_messages_total": (
        "counter",
        "Dead letters of the group that were stored since the start",
    ),
    "rocketmq_half_messages": ("gauge", "Transactions that have not ended"),
    "rocketmq_commit_messages_total": ("counter", "Transactions committed since the start"),
    "rocketmq_rollback_messages_total": ("counter", "Transactions rolled back since the start"),
    "rocketmq_timing_messages": ("gauge", "Timer messages that wait"),
    "rocketmq_storage_size": ("gauge", "Bytes of the commit log"),
    "rocketmq_storage_flush_behind_bytes": ("gauge", "Bytes of the commit log that are not on the disk yet"),
    "rocketmq_storage_dispatch_behind_bytes": (
        "gauge",
        "Bytes of the commit log that the index by key does not cover yet",
    ),
    "rocketmq_storage_message_reserve_time": ("gauge", "Age in ms of the oldest message"),
    "sprocketmq_connections": ("gauge", "Open connections"),
    "sprocketmq_refused_connections_total": ("counter", "Connections that were refused because of a limit"),
    "sprocketmq_cut_off_connections_total": ("counter", "Connections closed because their peers did not read"),
    "sprocketmq_queued_bytes": ("gauge", "Bytes that wait for peers (out), and that came from them and wait (in)"),
    "sprocketmq_closed_for_queued_bytes_total": (
        "counter",
        "Connections closed because they, or all, held too many bytes",
    ),
    "sprocketmq_undeliverable_messages_total": (
        "counter",
        "Waiting messages that were set aside in rmq_sys_UNDELIVERABLE",
    ),
    "sprocketmq_slow_requests_total": ("counter", "Requests that held the broker's loop for slowRequestMs or longer"),
    "sprocketmq_parked_pulls": ("gauge", "Pulls that wait for a message"),
    "sprocketmq_delay_level_waiting_messages": ("gauge", "Messages that wait in a delay level"),
}


class BrokerMetrics:
    """Does nothing unless ``metricsExporterType`` is PROM. Raises ConfigurationError (at the start: the port is taken)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._server: WSGIServer | None = None
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def port(self) -> int:
        """The port of the page; 0 while it is not served."""
        return 0 if self._server is None else int(self._server.server_port)

    async def start(self) -> None:
        config = self._broker.config
        if config.metrics_exporter_type != "PROM":
            return
        # Imported here, so that a broker without metrics does not import the library.
        needs_extra("metricsExporterType=PROM", "metrics", "prometheus_client")
        from prometheus_client import CollectorRegistry, start_http_server

        self._loop = asyncio.get_running_loop()
        registry = CollectorRegistry()
        registry.register(_OnLoop(self))
        host, port = config.metrics_prom_exporter_host or self._broker.host, config.metrics_prom_exporter_port
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise ConfigurationError(
                f"cannot serve metrics on {host}:{port}: {error.strerror or error}; "
                "choose another metricsPromExporterPort, or 0 for any free one"
            ) from error
        _limit_scrapes(self._server)
        log.info("metrics are on http://%s:%d/metrics", host, self.port)

    async def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            # In a thread, because a scrape that is under way waits for this loop.
            await asyncio.to_thread(self._server.shutdown)
            self._server.server_close()
            await asyncio.to_thread(self._thread.join)
        self._server = self._thread = None

    def samples(self) -> list[Sample]:
        """The samples of the broker, computed on its loop; called by the HTTP server's thread."""
        if self._loop is None:
            return []

        async def read_samples() -> list[Sample]:
            found: list[Sample] = []
            async for share in in_chunks(collect_samples(self._broker), _SAMPLES_PER_STEP):
                found += share
            return found

        with contextlib.suppress(RuntimeError):  # the loop is closed: the broker has stopped
            return asyncio.run_coroutine_threadsafe(read_samples(), self._loop).result(_SCRAPE_TIMEOUT_S)
        return []

    @property
    def labels(self) -> dict[str, str]:
        config = self._broker.config
        return fixed_labels(config.metrics_label, config.broker_cluster_name, config.broker_name)


class _OnLoop:  # has the methods of a prometheus_client Collector, which is not imported at the start
    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return []  # else register() would collect before the broker serves

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        fixed = self._metrics.labels
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, labels, value in self._metrics.samples():
            family = families.get(name)
            if family is None:
                kind, text = _FAMILIES[name]
                make = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
                family = families[name] = make(name, text, labels=[*fixed, *labels])
            family.add_metric([*fixed.values(), *labels.values()], value)
        yield from families.values()


def _limit_scrapes(server: WSGIServer) -> None:
    """Limit parallel scrapes, each of which has a thread and a descriptor. A connection without a request is closed after a while."""
    places, serve = threading.BoundedSemaphore(_MOST_SCRAPES), server.process_request_thread  # type: ignore[attr-defined]

    def serve_one(request: Any, address: Any) -> None:
        try:
            serve(request, address)
        finally:
            places.release()

    server.process_request_thread = serve_one  # type: ignore[attr-defined]
    server.verify_request = lambda request, client_address: places.acquire(blocking=False)  # type: ignore[method-assign]
    quiet: Any = server.RequestHandlerClass
    server.RequestHandlerClass = type("_Scrape", (quiet,), {"timeout": _SILENT_SCRAPE_S})


def fixed_labels(metrics_label: str, cluster_name: str, broker_name: str) -> dict[str, str]:
    """The labels of every sample: those of ``metricsLabel`` (``key:value,key:value``), then Apache's three."""
    pairs = (pair.partition(":") for pair in metrics_label.split(","))
    labels = {key.strip(): value.strip() for key, colon, value in pairs if colon}
    return {**labels, "node_type": "broker", "cluster": cluster_name, "node_id": broker_name}


def collect_samples(broker: Broker) -> Iterator[Sample]:
    """All samples of a broker. Call it on the broker's loop; tables may change between two samples."""
    now_ms = broker.clock.now_ms()
    yield "rocketmq_broker_permission", {}, broker.config.broker_permission
    yield "rocketmq_topic_number", {}, len(broker.topics.table)
    yield "rocketmq_consumer_group_number", {}, len(broker.groups.table)
    yield "sprocketmq_connections", {}, broker.connection_count
    yield "sprocketmq_refused_connections_total", {}, broker.ports.refused_connections
    yield "sprocketmq_cut_off_connections_total", {}, broker.ports.cut_off_connections
    yield "sprocketmq_parked_pulls", {}, len(broker.parked)
    broker.queued_bytes.refresh()
    yield "sprocketmq_queued_bytes", {"direction": "in"}, broker.queued_bytes.in_bytes
    yield "sprocketmq_queued_bytes", {"direction": "out"}, broker.queued_bytes.out_bytes
    yield "sprocketmq_closed_for_queued_bytes_total", {}, broker.queued_bytes.closed_connections
    yield "sprocketmq_slow_requests_total", {}, broker.slow_requests.count
    yield from _messages(broker)
    yield from _connections(broker)
    yield from _progress(broker, now_ms)
    yield from _storage(broker, now_ms)
    yield "rocketmq_half_messages", {}, broker.transactions.open_count
    yield "rocketmq_commit_messages_total", {}, broker.transactions.ended[Outcome.COMMIT]
    yield "rocketmq_rollback_messages_total", {}, broker.transactions.ended[Outcome.ROLLBACK]
    for topic, metric in list(broker.timers.metrics.items()):
        yield "rocketmq_timing_messages", {"topic": topic}, metric.count
    for topic, count in broker.undeliverable.counts.items():
        yield "sprocketmq_undeliverable_messages_total", {"topic": topic}, count
    for level in range(1, broker.schedule.levels.max_level + 1):
        yield "sprocketmq_delay_level_waiting_messages", {"level": str(level)}, broker.schedule.waiting(level)


def _messages(broker: Broker) -> Iterator[Sample]:
    is_system = broker.topics.is_system
    for topic, tally in list(broker.counters.puts.items()):
        labels = {"topic": topic, "is_system": _flag(is_system(topic))}
        yield "rocketmq_messages_in_total", labels, tally.messages
        yield "rocketmq_throughput_in_total", labels, tally.bytes
        if topic.startswith(DLQ_PREFIX):
            group = topic[len(DLQ_PREFIX) :]
            yield "rocketmq_send_to_dlq_messages_total", _group_labels(broker, group, topic), tally.messages
    for (topic, group), tally in list(broker.counters.gets.items()):
        labels = _group_labels(broker, group, topic)
        yield "rocketmq_messages_out_total", labels, tally.messages
        yield "rocketmq_throughput_out_total", labels, tally.bytes


def _connections(broker: Broker) -> Iterator[Sample]:
    producers: Counter[tuple[str, int]] = Counter()
    for members in list(broker.producers.groups.values()):
        producers.update((member.language, member.version) for member in members.values())
    for (language, version), number in producers.items():
        yield "rocketmq_producer_connections", _client_labels(language, version), number
    for group in list(broker.consumers.groups.values()):
        members_of: Counter[tuple[str, int]] = Counter(
            (member.language, member.version) for member in group.members.values()
        )
        for (language, version), number in members_of.items():
            labels = {
                "consumer_group": group.name,
                **_client_labels(language, version),
                "consume_mode": "push" if group.consume_type == "CONSUME_PASSIVELY" else "pull",
                "is_system": _flag(_is_system_group(group.name)),
            }
            yield "rocketmq_consumer_connections", labels, number


def _progress(broker: Broker, now_ms: int) -> Iterator[Sample]:
    """Lag of each group in the topics in which it has committed something, and in those that its members read."""
    for topic in list(broker.topics.table):
        for group in broker.offsets.groups_of(topic):
            yield from _lag(broker, group, topic, now_ms)
    for group in list(broker.consumers.groups):
        for topic in topics_not_begun(broker, group):
            yield from _lag(broker, group, topic, now_ms)


def _lag(broker: Broker, group: str, topic: str, now_ms: int) -> Iterator[Sample]:
    """Over all queues of the topic that hold messages, also those that it does not have any more."""
    store, offsets = broker.store, broker.offsets
    lag = ready = inflight = 0
    lag_since_ms = ready_since_ms = now_ms
    for queue_id in offsets.offsets_of(group, topic).keys() | store.queue_ids(topic):
        end = store.max_offset(topic, queue_id)
        consumed = position(broker, group, topic, queue_id)
        pulled = max(consumed, min(offsets.pull_offset(group, topic, queue_id), end))
        lag += max(0, end - consumed)
        ready += end - pulled if end > pulled else 0
        inflight += max(0, pulled - consumed)
        lag_since_ms = min(lag_since_ms, _stored_ms(broker, topic, queue_id, consumed, end, now_ms))
        ready_since_ms = min(ready_since_ms, _stored_ms(broker, topic, queue_id, pulled, end, now_ms))
    labels = _group_labels(broker, group, topic)
    yield "rocketmq_consumer_lag_messages", labels, lag
    yield "rocketmq_consumer_lag_latency", labels, now_ms - lag_since_ms
    yield "rocketmq_consumer_inflight_messages", labels, inflight
    yield "rocketmq_consumer_ready_messages", labels, ready
    yield "rocketmq_consumer_queueing_latency", labels, now_ms - ready_since_ms


def _stored_ms(broker: Broker, topic: str, queue_id: int, offset: int, end: int, now_ms: int) -> int:
    if offset >= end:
        return now_ms
    stored_ms = broker.store.store_time(topic, queue_id, max(offset, broker.store.min_offset(topic, queue_id)))
    return stored_ms if stored_ms >= 0 else now_ms


def _storage(broker: Broker, now_ms: int) -> Iterator[Sample]:
    store = broker.store
    labels = {"storage_type": "local", "storage_medium": "disk" if broker.config.store_path_root_dir else "memory"}
    yield "rocketmq_storage_size", labels, store.max_physical_offset - store.min_physical_offset
    yield "rocketmq_storage_flush_behind_bytes", labels, store.max_physical_offset - store.flushed_offset
    yield "rocketmq_storage_dispatch_behind_bytes", labels, store.undispatched_bytes
    earliest_ms = broker.earliest_store_time()
    yield "rocketmq_storage_message_reserve_time", labels, now_ms - earliest_ms if earliest_ms >= 0 else 0


def _group_labels(broker: Broker, group: str, topic: str) -> dict[str, str]:
    return {
        "consumer_group": group,
        "topic": topic,
        "is_retry": _flag(topic.startswith((RETRY_PREFIX, DLQ_PREFIX))),
        "is_system": _flag(broker.topics.is_system(topic) or _is_system_group(group)),
    }


def _client_labels(language: str, version: int) -> dict[str, str]:
    try:
        name = Version(version).name.lower()
    except ValueError:
        name = str(version)
    return {"language": language.lower(), "version": name, "protocol_type": "remoting"}


def _is_system_group(group: str) -> bool:
    return group.lower().startswith(_SYSTEM_GROUP_PREFIX)


def _flag(value: bool) -> str:
    return "true" if value else "false"
