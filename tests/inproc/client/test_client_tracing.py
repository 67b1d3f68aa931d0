# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry spans end to end: who is whose parent, what they say, and that they end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from recorder import send_all

import sprocketmq as rmq
from sprocketmq.client.observe.tracing import OpenTelemetryHook
from sprocketmq.testing import SENDS, EmbeddedRocketMQ
from sprocketmq.wire.codes import ResponseCode


class Spans:
    """A tracer provider whose ended spans are kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans() -> Iterator[Spans]:
    made = Spans()
    yield made
    made.provider.shutdown()


@pytest.fixture
def traced(rocketmq: EmbeddedRocketMQ, spans: Spans) -> Iterator[rmq.Producer]:
    producer = rocketmq.producer("ops")
    producer.add_hook(OpenTelemetryHook(spans.provider))
    with producer:
        yield producer


def context_of(span: ReadableSpan) -> trace.SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def test_a_listener_call_is_a_child_of_the_send_which_is_a_child_of_the_callers_span(
    rocketmq, consumers, traced, spans
):
    inside: list[trace.SpanContext] = []

    afterwards: list[bool] = []

    class Outer:
        def before_consume(self, context: rmq.ConsumeMessageContext) -> None: ...

        def after_consume(self, context: rmq.ConsumeMessageContext) -> None:
            afterwards.append(trace.get_current_span().get_span_context().is_valid)

    def handle(message: rmq.MessageExt) -> None:
        inside.append(trace.get_current_span().get_span_context())

    message = rmq.Message("flights", b"UA1", tags="UA", keys=["k1", "k2"])
    with spans.tracer.start_as_current_span("book") as book:
        sent = traced.send(message, sharding_key="N1")
    consumer = consumers(handle, start=False)
    consumer.add_hook(Outer())
    consumer.add_hook(OpenTelemetryHook(spans.provider))
    consumer.start()
    rocketmq.wait_until(lambda: afterwards)
    assert afterwards == [False], "no span stays behind in the worker"
    (send,), (process,) = spans.named("send flights"), spans.named("process flights")
    assert send.parent is not None
    assert send.parent.span_id == book.get_span_context().span_id, "the caller's context crosses to the engine"
    assert process.parent is not None
    assert process.parent.span_id == context_of(send).span_id
    assert context_of(process).trace_id == book.get_span_context().trace_id
    assert [one.span_id for one in inside] == [context_of(process).span_id]
    assert (send.kind, process.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    host, port = rocketmq.broker_addr.split(":")
    assert dict(send.attributes or {}) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "flights",
        "messaging.destination.partition.id": str(sent.message_queue.queue_id),
        "messaging.client.id": traced.client_id,
        "messaging.message.id": sent.message_id,
        "messaging.message.body.size": 3,
        "messaging.rocketmq.message.tag": "UA",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
        "messaging.rocketmq.message.group": "N1",
        "messaging.rocketmq.message.type": "fifo",
        "server.address": host,
        "server.port": int(port),
    }
    said = dict(process.attributes or {})
    assert (said["messaging.consumer.group.name"], said["messaging.message.id"]) == ("delays", sent.message_id)
    assert "traceparent" not in message.properties


def test_a_call_for_several_messages_is_linked_to_each(rocketmq, consumers, traced, spans):
    send_all(traced, ["1", "2"])
    traced.send_batch([rmq.Message("flights", b"3"), rmq.Message("flights", b"4")])
    consumer = consumers(
        lambda messages, context: rmq.ConsumeConcurrentlyStatus.CONSUME_SUCCESS,
        kind="concurrent",
        batch_size=4,
        start=False,
    )
    consumer.add_hook(OpenTelemetryHook(spans.provider))
    consumer.start()
    rocketmq.wait_until(lambda: spans.named("process flights"))
    (process,) = spans.named("process flights")
    first, second, batch = (context_of(span).span_id for span in spans.named("send flights"))
    assert process.parent is None
    assert [link.context.span_id for link in process.links] == [first, second, batch, batch]
    assert (process.attributes or {})["messaging.batch.message_count"] == 4


@pytest.mark.parametrize("link_only", [False, True])
def test_an_async_listener_has_its_span_as_the_current_one(rocketmq, consumers, traced, spans, link_only):
    async def handle(message: rmq.MessageExt) -> None:
        with spans.tracer.start_as_current_span("inside"):
            pass

    send_all(traced, ["1", "2", "3"])
    consumer = consumers(handle, start=False)
    consumer.add_hook(OpenTelemetryHook(spans.provider, link_only=link_only))
    consumer.start()
    rocketmq.wait_until(lambda: len(spans.named("process flights")) == 3)
    calls = {context_of(span).span_id for span in spans.named("process flights")}
    assert {span.parent.span_id for span in spans.named("inside") if span.parent} == calls
    sends = {context_of(span).span_id for span in spans.named("send flights")}
    found = {
        span.links[0].context.span_id if link_only else span.parent.span_id if span.parent else 0
        for span in spans.named("process flights")
    }
    assert found == sends


def test_failures_end_their_spans_with_what_was_raised(rocketmq, consumers, traced, spans):
    def handle(messages: Any, context: Any) -> Any:
        if messages[0].body == b"raise":
            raise ValueError("no such plane")
        return rmq.ConsumeConcurrentlyStatus.RECONSUME_LATER

    rocketmq.faults.fail(SENDS, ResponseCode.SYSTEM_BUSY, times=1)
    send_all(traced, ["raise", "later"])
    failed, *_ = spans.named("send flights")
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "SystemBusy"
    consumer = consumers(handle, kind="concurrent", start=False)
    consumer.add_hook(OpenTelemetryHook(spans.provider))
    consumer.start()
    rocketmq.wait_until(lambda: len(spans.named("process flights")) == 2)
    errors = {(span.attributes or {})["error.type"] for span in spans.named("process flights")}
    assert errors == {"ValueError", "FAILED"}
    (raised,) = [span for span in spans.named("process flights") if span.events]
    assert raised.events[0].name == "exception"


def test_without_the_library_the_hook_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(rmq.ConfigurationError):
        OpenTelemetryHook()
