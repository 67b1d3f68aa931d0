# SPDX-License-Identifier: Apache-2.0
"""What ``from sprocketmq import Producer, PushConsumer`` does not load: the bench measures the time, this holds the reasons for it."""

from __future__ import annotations

import json
import subprocess
import sys

# Each is loaded by the first use of what needs it.
LATER = (
    "cryptography",
    "dataclasses",
    "difflib",
    "hashlib",
    "hmac",
    "ipaddress",
    "lz4",
    "opentelemetry",
    "pathlib",
    "prometheus_client",
    "sprocketmq.broker",
    "sprocketmq.client.admin",
    "sprocketmq.client.produce.batch_accumulator",
    "sprocketmq.client.listen.concurrent_service",
    "sprocketmq.client.listen.orderly_service",
    "sprocketmq.client.consume.async_pull_consumer",
    "sprocketmq.client.consume.pull_consumer",
    "sprocketmq.client.observe.recorder",
    "sprocketmq.client.produce.request_reply",
    "sprocketmq.client.consume.running_consumer",
    "sprocketmq.client.observe.trace",
    "sprocketmq.client.produce.async_transaction_producer",
    "sprocketmq.client.produce.transaction_producer",
    "sprocketmq.core.replay.decision_record",
    "sprocketmq.core.transactions.open_transactions",
    "sprocketmq.core.statistics",
    "sprocketmq.store",
    "sprocketmq.wire.frames.acl_signature",
    "sprocketmq.wire.bodies.register_broker",
    "sprocketmq.wire.bodies.running_info",
    "sprocketmq.wire.bodies.stats",
    "sprocketmq.wire.headers.acl",
    "sprocketmq.wire.headers.namesrv",
    "sprocketmq.wire.headers.topics",
    "sprocketmq.wire.records.record",
    "tempfile",
    "urllib",
    "yaml",
    "zstandard",
)


def loaded(program: str) -> set[str]:
    """Modules that a Python has when it ran ``program``."""
    program = f"{program}; import json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


def test_the_clients_classes_load_without_what_only_a_running_one_needs():
    modules = loaded("from sprocketmq import Producer, PushConsumer")
    assert "sprocketmq.client.consume.push_consumer" in modules
    assert sorted((modules - loaded("import asyncio, msgspec")).intersection(LATER)) == []


def test_the_package_alone_loads_no_client_and_no_event_loop():
    modules = loaded("import sprocketmq")
    assert sorted(modules & {"asyncio", "msgspec", "sprocketmq.client", "sprocketmq.core", "sprocketmq.wire"}) == []
