# SPDX-License-Identifier: Apache-2.0
"""Spans of OpenTelemetry for sends and listener calls, by its semantic conventions for messaging (Java has OpenTracing's instead).

A hook like any other: ``producer.add_hook(OpenTelemetryHook())``, the same for consumers. ``opentelemetry-api`` is imported when
one is made.

Rules
1. A span of a send begins and ends with one try; a retry has a span of its own, and its message carries that one's context.
2. A listener call for one message is a child of the span that sent it; for several messages it is linked to each, with no parent.
3. While the listener runs, its span is the current one in its thread or task.
4. The caller's messages are not changed: the context (traceparent) is added to the properties of the send.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.hooks import ConsumeMessageContext, SendMessageContext
from sprocketmq.extras import missing_extra
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import Message
from sprocketmq.wire.trace import MessageType

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

_NOTE: Final = "sprocketmq.opentelemetry"
# The conventions' values of messaging.rocketmq.message.type.
_TYPES: Final = {
    MessageType.NORMAL: "normal",
    MessageType.DELAY: "delay",
    MessageType.ORDER: "fifo",
    MessageType.TRANSACTION_HALF: "transaction",
    MessageType.TRANSACTION_COMMIT: "transaction",
}


class OpenTelemetryHook:
    """Makes spans; for ``add_hook`` of producers and push consumers. One may serve several clients.

    Args:
        tracer_provider: default the global one.
        link_only: link a listener call to what sent its message, even if it is one message, instead of making it a child.

    Raises ConfigurationError: ``opentelemetry-api`` is not installed.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None, *, link_only: bool = False) -> None:
        try:
            from opentelemetry import context, propagate, trace
        except ImportError as error:
            raise missing_extra("OpenTelemetryHook", "opentelemetry", error) from error
        from sprocketmq.version import __version__

        self._context, self._propagate, self._trace = context, propagate, trace
        self._tracer = trace.get_tracer("sprocketmq", __version__, tracer_provider)
        self._link_only = link_only

    # -- sends -----------------------------------------------------------------------------------------------------------------

    def before_send(self, context: SendMessageContext) -> None:
        """Begin the span of this try and write its context into the properties that travel."""
        topic, message = context.message_queue.topic, context.message
        attributes = _attributes("send", topic, context.client_id, context.messages, context.properties[0])
        attributes["messaging.destination.partition.id"] = str(context.message_queue.queue_id)
        attributes["messaging.rocketmq.message.type"] = _TYPES[context.message_type]
        if len(context.messages) == 1:
            attributes["messaging.message.body.size"] = len(message.body)
        host, _, port = context.broker_address.rpartition(":")
        attributes["server.address"] = host.strip("[]")
        attributes["server.port"] = int(port)
        span = self._tracer.start_span(f"send {topic}", kind=self._trace.SpanKind.PRODUCER, attributes=attributes)
        context.notes[_NOTE] = span
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier, self._trace.set_span_in_context(span))
        for properties in context.properties:
            properties.update(carrier)

    def after_send(self, context: SendMessageContext) -> None:
        """End the span of this try."""
        span: Span = context.notes[_NOTE]
        if context.result is not None and len(context.messages) == 1:
            span.set_attribute("messaging.message.id", context.result.message_id)
        self._end(span, context.failure, None if context.failure is None else type(context.failure).__qualname__)

    # -- listener calls --------------------------------------------------------------------------------------------------------

    def before_consume(self, context: ConsumeMessageContext) -> None:
        """Begin the span of this call and make it the current one."""
        topic = context.messages[0].topic
        attributes = _attributes("process", topic, context.client_id, context.messages, context.messages[0].properties)
        attributes["messaging.consumer.group.name"] = context.group
        attributes["messaging.destination.partition.id"] = str(context.message_queue.queue_id)
        parent = None
        links = []
        for message in context.messages:
            sent = self._propagate.extract(message.properties)
            span_context = self._trace.get_current_span(sent).get_span_context()
            if not span_context.is_valid:
                continue
            if len(context.messages) == 1 and not self._link_only:
                parent = sent
            else:
                links.append(self._trace.Link(span_context))
        span = self._tracer.start_span(
            f"process {topic}",
            parent if parent is not None else self._context.Context(),
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
        )
        token = self._context.attach(self._trace.set_span_in_context(span, parent))
        context.notes[_NOTE] = span, token

    def after_consume(self, context: ConsumeMessageContext) -> None:
        """End the span of this call; what was current before is current again."""
        span, token = context.notes[_NOTE]
        self._context.detach(token)
        if context.failure is not None:
            self._end(span, context.failure, type(context.failure).__qualname__)
        else:
            self._end(span, None, None if context.success else context.return_type.name)

    def _end(self, span: Span, failure: BaseException | None, error_type: str | None) -> None:
        if failure is not None:
            span.record_exception(failure)
        if error_type is not None:
            span.set_attribute("error.type", error_type)
            description = error_type if failure is None else str(failure)
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, description))
        span.end()


def _attributes(
    operation: str, topic: str, client_id: str, messages: Any, properties: Mapping[str, str]
) -> dict[str, Any]:
    first: Message = messages[0]
    attributes: dict[str, Any] = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
        "messaging.client.id": client_id,
    }
    if len(messages) > 1:
        attributes["messaging.batch.message_count"] = len(messages)
    else:
        message_id = getattr(first, "message_id", None) or properties.get(props.UNIQ_KEY)
        maybe = {
            "messaging.message.id": message_id,
            "messaging.rocketmq.message.tag": properties.get(props.TAGS),
            "messaging.rocketmq.message.group": properties.get(props.SHARDING_KEY),
            "messaging.rocketmq.namespace": properties.get(props.INSTANCE_ID),
        }
        attributes.update({name: value for name, value in maybe.items() if value})
        if keys := properties.get(props.KEYS, "").split():
            attributes["messaging.rocketmq.message.keys"] = keys
        if level := properties.get(props.DELAY):
            attributes["messaging.rocketmq.message.delay_time_level"] = int(level)
        if due := properties.get(props.TIMER_DELIVER_MS):
            attributes["messaging.rocketmq.message.delivery_timestamp"] = int(due)
    return attributes
