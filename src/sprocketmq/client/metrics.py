# SPDX-License-Identifier: Apache-2.0
"""Metrics of producers and consumers for Prometheus, under the names of Apache's 5.x clients where they have the same number.

A client that is not watched is not measured, and ``prometheus_client`` is imported when a ClientMetrics is made. A scrape reads
tables that the client's loop changes: it takes no lock, and reads again if a table changed meanwhile.

docs/guides/watching.md lists them. Those of a consumer carry ``consumer_group`` and ``topic``. A ``client_id`` is new at each
start, which makes new series, so it is a label only on request; without it numbers of clients with equal labels are added.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sprocketmq.client.hooks import ConsumeMessageContext, FilterMessageContext, SendMessageContext
from sprocketmq.core.statistics import Measure
from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import needs_extra

if TYPE_CHECKING:
    from threading import Thread
    from typing import TypeAlias
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import Histogram
    from prometheus_client.core import Metric

    from sprocketmq.client.consume.async_pull_consumer import AsyncPullConsumer
    from sprocketmq.client.consume.async_push_consumer import AsyncPushConsumer
    from sprocketmq.client.consume.pull_consumer import PullConsumer
    from sprocketmq.client.consume.push_consumer import PushConsumer
    from sprocketmq.client.consume.running_consumer import RunningConsumer
    from sprocketmq.client.produce.async_producer import AsyncProducer
    from sprocketmq.client.produce.producer import Producer

    Watched: TypeAlias = AsyncProducer | Producer | AsyncPushConsumer | PushConsumer | AsyncPullConsumer | PullConsumer

T = TypeVar("T")

# The bucket bounds of Apache's 5.x clients, in ms.
_HISTOGRAMS: Final = {
    "send": ("rocketmq_send_cost_time", "Tries of sends in ms", ("topic", "invocation_status"),
             (1, 5, 10, 20, 50, 200, 500)),
    "latency": ("rocketmq_delivery_latency", "From the store to this client in ms", ("topic", "consumer_group"),
                (1, 5, 10, 20, 50, 200, 500)),
    "process": ("rocketmq_process_time", "Listener calls in ms",
                ("topic", "consumer_group", "invocation_status"), (1, 5, 10, 100, 1_000, 10_000, 60_000)),
}  # fmt: skip
_FAMILIES: Final = {
    "rocketmq_consumer_cached_messages": ("gauge", "Messages pulled and not finished"),
    "rocketmq_consumer_cached_bytes": ("gauge", "Bytes of messages pulled and not finished"),
    "sprocketmq_consumer_queues": ("gauge", "Queues that this member has now"),
    "sprocketmq_consumer_backlog_messages": ("gauge", "Messages not pulled yet, as the last pulls saw them"),
    "sprocketmq_consumer_pulled_messages_total": ("counter", "Messages received by pulls"),
    "sprocketmq_consumer_consumed_messages_total": ("counter", "Messages that the listener was called for, by result"),
    "sprocketmq_consumer_retried_messages_total": ("counter", "Messages sent back for a later try"),
    "sprocketmq_consumer_dead_letters_total": ("counter", "Messages that became dead letters"),
    "sprocketmq_consumer_timeouts_total": ("counter", "Messages over the consume timeout"),
    "sprocketmq_trace_dropped_total": (
        "counter",
        "Records of message trace that were dropped because they came too fast",
    ),
}
_LOOKS: Final = 5
_NOTE: Final = "sprocketmq.metrics"

_Sample = tuple[str, dict[str, str], float]


class ClientMetrics:
    """Watches clients. Is a collector of ``prometheus_client``: register it where yours are, or ``serve`` it.

    ::

        metrics = rmq.ClientMetrics(producer, consumer)          # before they start
        prometheus_client.REGISTRY.register(metrics)             # or: metrics.serve(9464)

    Args:
        clients: producers, push consumers and pull consumers, blocking or async; more with ``watch``.
        labels: fixed labels for every number, as in ``{"service": "billing"}``; default none.
        with_client_id: whether each number has the label ``client_id``; default False. Set ``instance_name`` of the clients then.

    Raises ConfigurationError (a client is none, or is running already).
    """

    def __init__(
        self, *clients: Watched, labels: Mapping[str, str] | None = None, with_client_id: bool = False
    ) -> None:
        needs_extra("ClientMetrics", "metrics", "prometheus_client")
        from prometheus_client import Histogram  # imported only if clients are watched

        self._labels = dict(labels or {})
        self._own_labels = ("client_id",) if with_client_id else ()
        self._histograms: dict[str, Histogram] = {
            key: Histogram(name, text, [*self._labels, *self._own_labels, *names], buckets=bounds, registry=None)
            for key, (name, text, names, bounds) in _HISTOGRAMS.items()
        }
        self._children: dict[tuple[str, ...], Histogram] = {}
        self._clients: list[Any] = []
        self._server: tuple[WSGIServer, Thread] | None = None
        for client in clients:
            self.watch(client)

    def watch(self, client: Watched) -> None:
        """Watch one more client, before it starts. Raises ConfigurationError (it is none, or is running already)."""
        found = getattr(client, "_async", client)
        if not hasattr(found, "start") or not (hasattr(found, "_running") or hasattr(found, "_sender")):
            raise ConfigurationError(f"{client!r} cannot be watched; producers and consumers can")
        add_hook = getattr(found, "add_hook", None)
        if add_hook is not None:
            add_hook(_SendTimes(self) if hasattr(found, "_sender") else _ConsumeTimes(self))
        self._clients.append(found)

    # -- a page of its own -----------------------------------------------------------------------------------------------------

    def serve(self, port: int, host: str = "127.0.0.1") -> int:
        """Serve ``/metrics`` from a thread until ``close``, at ``port`` (0 for any free one), which is returned. ``host``: other
        machines reach ``"0.0.0.0"``. Raises ConfigurationError (the port is taken, or a page is served already)."""
        from prometheus_client import CollectorRegistry, start_http_server

        if self._server is not None:
            raise ConfigurationError("the metrics are served already; call close() first")
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server = start_http_server(port, host, registry)
        except OSError as error:
            raise ConfigurationError(
                f"cannot serve metrics on {host}:{port}: {error.strerror or error}; choose another port, or 0 for any free one"
            ) from error
        return int(self._server[0].server_port)

    def close(self) -> None:
        """Stop serving; harmless when nothing is served."""
        if self._server is not None:
            server, thread = self._server
            self._server = None
            if not sys.is_finalizing():  # else the thread does not run any more
                server.shutdown()
                thread.join()
            server.server_close()

    # -- a prometheus_client Collector, by its shape ----------------------------------------------------------------------------

    def describe(self) -> Iterable[Metric]:
        """What ``prometheus_client`` asks at registration: the names appear as there is something to say."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What a scrape asks for; any thread may. Yields each metric, with the numbers of all clients."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for histogram in self._histograms.values():
            yield from histogram.collect()
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for (name, labels), value in self._samples().items():
            family = families.get(name)
            if family is None:
                kind, text = _FAMILIES[name]
                make = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
                family = families[name] = make(name, text, labels=[*self._labels, *(label for label, _ in labels)])
            family.add_metric([*self._labels.values(), *(value for _, value in labels)], value)
        yield from families.values()

    def _samples(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for client in self._clients:
            running = getattr(client, "_running", None)
            samples: list[_Sample] = []
            if running is not None:
                samples += _steady(partial(_of_consumer, running))
                trace, client_id = running.trace, running.client_id
            else:
                trace, client_id = getattr(client, "_trace", None), client.client_id
            if trace is not None:
                samples.append(("sprocketmq_trace_dropped_total", {}, trace.discarded))
            own = {"client_id": client_id} if self._own_labels else {}
            for name, labels, value in samples:
                key = name, tuple({**own, **labels}.items())
                sums[key] = sums.get(key, 0) + value
        return sums

    # -- from the hooks --------------------------------------------------------------------------------------------------------

    def observe(self, key: str, value: float, client_id: str, *labels: str) -> None:
        """One value in milliseconds for the histogram ``key`` ("send", "latency" or "process"); ``labels`` in its order."""
        if self._own_labels:
            labels = (client_id, *labels)
        name = (key, *labels)
        child = self._children.get(name)
        if child is None:
            child = self._children[name] = self._histograms[key].labels(*self._labels.values(), *labels)
        child.observe(value)


class _SendTimes:
    def __init__(self, metrics: ClientMetrics) -> None:
        self._metrics = metrics

    def before_send(self, context: SendMessageContext) -> None:
        context.notes[_NOTE] = perf_counter()

    def after_send(self, context: SendMessageContext) -> None:
        status = "success" if context.failure is None else "failure"
        spent_ms = (perf_counter() - context.notes[_NOTE]) * 1000
        self._metrics.observe("send", spent_ms, context.client_id, context.message_queue.topic, status)


class _ConsumeTimes:
    def __init__(self, metrics: ClientMetrics) -> None:
        self._metrics = metrics

    def before_consume(self, context: ConsumeMessageContext) -> None:
        """Nothing to do: the call is timed anyway."""

    def after_consume(self, context: ConsumeMessageContext) -> None:
        status, topic = "success" if context.success else "failure", context.messages[0].topic
        self._metrics.observe("process", context.spent_ms, context.client_id, topic, context.group, status)

    def filter_messages(self, context: FilterMessageContext) -> None:
        for message in context.messages:
            latency_ms = max(0, context.received_ms - message.store_timestamp_ms)
            self._metrics.observe("latency", latency_ms, context.client_id, message.topic, context.group)


def _of_consumer(running: RunningConsumer) -> Iterator[_Sample]:
    own = {"consumer_group": running.name}
    queues: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    size: Counter[str] = Counter()
    backlog: Counter[str] = Counter()
    for queue, process_queue in running.rebalancer.table.active().items():
        queues[queue.topic] += 1
        messages[queue.topic] += process_queue.count
        size[queue.topic] += process_queue.size_bytes
        backlog[queue.topic] += max(0, process_queue.broker_backlog)
    for name, found in (
        ("sprocketmq_consumer_queues", queues),
        ("rocketmq_consumer_cached_messages", messages),
        ("rocketmq_consumer_cached_bytes", size),
        ("sprocketmq_consumer_backlog_messages", backlog),
    ):
        for topic, value in found.items():
            yield name, {**own, "topic": topic}, value
    statistics = running.statistics
    for topic in statistics.topics():
        labels = {**own, "topic": topic}
        yield "sprocketmq_consumer_pulled_messages_total", labels, statistics.since_start(topic, Measure.PULL_TPS)[1]
        for result, measure in (("ok", Measure.CONSUME_OK_TPS), ("failed", Measure.CONSUME_FAILED_TPS)):
            number = statistics.since_start(topic, measure)[1]
            yield "sprocketmq_consumer_consumed_messages_total", {**labels, "result": result}, number
        yield "sprocketmq_consumer_timeouts_total", labels, statistics.timed_out_msgs(topic)
        yield "sprocketmq_consumer_retried_messages_total", labels, running.send_back.retried[topic]
        yield "sprocketmq_consumer_dead_letters_total", labels, running.send_back.dead_letters[topic]


def _steady(look: Callable[[], Iterable[T]]) -> list[T]:
    """Read tables that another thread changes; again if the size of one changed meanwhile."""
    for _ in range(_LOOKS):
        with suppress(RuntimeError):
            return list(look())
    return list(look())
