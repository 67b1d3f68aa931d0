# SPDX-License-Identifier: Apache-2.0
"""``opentelemetry-instrument`` finds the clients of a program that does not know of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import sprocketmq as rmq
from sprocketmq.client.hooks import for_all
from sprocketmq.client.observe.instrumentor import SprocketMQInstrumentor

PROGRAM = """
import sprocketmq as rmq
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sprocketmq.testing import EmbeddedRocketMQ

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
with EmbeddedRocketMQ(clock="system") as mq:
    producer = rmq.Producer("shop", namesrv_addr=mq.namesrv_addr)
    consumer = rmq.PushConsumer("billing", namesrv_addr=mq.namesrv_addr, consume_from_where="consume_from_first_offset")
    consumer.subscribe("orders")
    consumer.on_message(lambda message: None)
    with producer, consumer:
        producer.send(rmq.Message("orders", b"1"))
        mq.wait_until(lambda: len(spans.get_finished_spans()) == 2)
print(*sorted(span.name for span in spans.get_finished_spans()))
"""


def test_a_program_that_knows_nothing_of_it_makes_spans(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM, "utf-8")
    done = subprocess.run(
        [Path(sys.executable).with_name("opentelemetry-instrument"), sys.executable, "shop.py"],
        cwd=tmp_path,
        env={**os.environ, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "process orders send orders\n"), done.stderr


def test_only_clients_that_are_made_in_between_have_the_hook() -> None:
    def hooks() -> list[object]:
        return [*rmq.Producer("shop", namesrv_addr="127.0.0.1:9876")._async._hooks.send]

    assert hooks() == []
    SprocketMQInstrumentor().instrument()
    try:
        assert hooks() == for_all
        assert len(for_all) == 1
    finally:
        SprocketMQInstrumentor().uninstrument()
    assert hooks() == for_all == []
