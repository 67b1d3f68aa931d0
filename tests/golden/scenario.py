# SPDX-License-Identifier: Apache-2.0
"""What the Java clients and admin tools do while capture.py records: each thing a client can ask, at least once."""

from __future__ import annotations

from collections.abc import Callable

from interop.apache_cluster import mqadmin
from interop.java_program import JavaProgram

TOPIC = "golden"
GROUP = "golden-group"
Options = dict[str, str | int | bool]


def play(version: str, namesrv_addr: str, broker_addr: str, flags: tuple[str, ...], *, everything: bool) -> None:
    """Run the programs one after the other. `everything`: the long tail of admin commands too, whose bodies do not depend on headers."""

    def run(name: str, **options: str | int | bool) -> JavaProgram:
        return JavaProgram(version, name, jvm_flags=flags, namesrv=namesrv_addr, **options)

    def admin(*args: str) -> None:
        mqadmin(version, *args, jvm_flags=flags)

    for topic in (TOPIC, "golden-questions"):
        admin("updateTopic", "-n", namesrv_addr, "-b", broker_addr, "-t", topic, "-r", "4", "-w", "4")
    sends: tuple[Options, ...] = (
        {"count": 6, "tags": "A,B"},
        {"count": 4, "mode": "batch", "batch_size": 4, "tags": "A"},
        {"count": 2, "mode": "oneway", "tags": "B"},
        {"count": 1, "body_bytes": 3000, "compress_over": 100, "tags": "A"},
        {"count": 1, "delay_level": 1, "tags": "A"},
        {"count": 2, "mode": "ordered", "tags": "A"},
        {"count": 1, "topic": "made-by-sending"},
    )
    for options in sends:
        with run("Producer", **{"topic": TOPIC, **options}) as producer:
            producer.read_events("done", 1)
    with run("Producer", topic=TOPIC, mode="transaction", count=3, stay=True, group="golden-transactions") as producer:
        producer.read_events("checked", 1, timeout_s=120)
    _consume(run, everything, admin, namesrv_addr)
    with run("Probe", topic=TOPIC) as probe:
        probe.read_events("done", 1)
    admin("clusterList", "-n", namesrv_addr)
    admin("topicStatus", "-n", namesrv_addr, "-t", TOPIC)
    admin("consumerProgress", "-n", namesrv_addr, "-g", GROUP)
    if everything:
        _administer(admin, namesrv_addr, broker_addr)


def play_sends(version: str, namesrv_addr: str, flags: tuple[str, ...]) -> None:
    """The rarer forms of a send: signed, timed, each compression, batches that the client makes by itself, the codes of before 4.0."""

    def send(*more_flags: str, **options: str | int | bool) -> None:
        options = {"topic": TOPIC, "tags": "A,B", **options}
        with JavaProgram(
            version, "Producer", jvm_flags=(*flags, *more_flags), namesrv=namesrv_addr, **options
        ) as producer:
            producer.read_events("done", 1)

    send(count=2, wait=False)
    send(count=4, mode="batch", batch_size=4, wait=False)
    send(count=1, access_key="someone", secret_key="12345678")
    send(count=4, mode="batch", batch_size=4, access_key="someone", secret_key="12345678")
    send(count=1, deliver_after_ms=1000)
    old = "-Dorg.apache.rocketmq.client.sendSmartMsg=false"
    send(old, count=1)
    send(old, count=1, mode="oneway")
    send(old, count=1, body_bytes=3000, compress_over=100)
    if version.startswith("5"):
        send(count=1, body_bytes=3000, compress_over=100, compress_type="LZ4")
        send(count=1, body_bytes=3000, compress_over=100, compress_type="ZSTD")
        send(count=8, mode="async", auto_batch=True)


def _consume(run: Callable[..., JavaProgram], everything: bool, admin: Callable[..., None], namesrv_addr: str) -> None:
    with run(
        "PushConsumer", topic=TOPIC, group=GROUP, tags="A || B", fail=1, delay_level=1, heartbeat_ms=1000
    ) as first:
        first.ready()
        # A second member: the broker tells the first one, both share the queues.
        with run("PushConsumer", topic=TOPIC, group=GROUP, tags="A || B", instance="second") as second:
            second.ready()
            while first.read(120)["outcome"] != "ok":
                pass
            if everything:
                admin("consumerConnection", "-n", namesrv_addr, "-g", GROUP)
                admin("consumerStatus", "-n", namesrv_addr, "-g", GROUP)
                admin("resetOffsetByTime", "-n", namesrv_addr, "-g", GROUP, "-t", TOPIC, "-s", "now", "-f", "true")
    with run("PushConsumer", topic=TOPIC, group="golden-sql", sql="number > 1") as by_property:
        by_property.ready().read_events("message", 1)
    with run("OrderlyConsumer", topic=TOPIC, group="golden-order", count=4) as orderly:
        orderly.read_events("done", 1)
    with run("PushConsumer", topic="golden-questions", group="golden-answers", reply="yes") as answering:
        answering.ready()
        with run("Producer", topic="golden-questions", mode="request", count=1, stay=True) as asking:
            asking.read_events("answer", 1)
            if everything:
                admin("producerConnection", "-n", namesrv_addr, "-g", "interop-producers", "-t", "golden-questions")


def _administer(admin: Callable[..., None], namesrv_addr: str, broker_addr: str) -> None:
    for command in (
        ("topicList", "-n", namesrv_addr),
        ("topicList", "-n", namesrv_addr, "-c"),
        ("topicRoute", "-n", namesrv_addr, "-t", TOPIC),
        ("topicRoute", "-n", namesrv_addr, "-t", "no-such-topic"),
        ("statsAll", "-n", namesrv_addr, "-t", TOPIC),
        ("brokerStatus", "-n", namesrv_addr, "-b", broker_addr),
        ("brokerConsumeStats", "-n", namesrv_addr, "-b", broker_addr),
        ("consumerProgress", "-n", namesrv_addr),
        ("updateSubGroup", "-n", namesrv_addr, "-b", broker_addr, "-g", "golden-new", "-r", "3"),
        ("resetOffsetByTime", "-n", namesrv_addr, "-g", GROUP, "-t", TOPIC, "-s", "-1"),
        ("queryMsgByKey", "-n", namesrv_addr, "-t", TOPIC, "-k", "key-1"),
        ("deleteSubGroup", "-n", namesrv_addr, "-b", broker_addr, "-g", "golden-new"),
        ("deleteTopic", "-n", namesrv_addr, "-c", "DefaultCluster", "-t", "made-by-sending"),
    ):
        try:
            admin(*command)
        except RuntimeError as refused:
            # What a command answers with is recorded either way; a tool that dislikes its answer must not end the capture.
            print(f"{command[0]}: {str(refused)[:300]}")
