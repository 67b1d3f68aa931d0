# SPDX-License-Identifier: Apache-2.0
"""What a process logs of ten minutes of trouble: few lines, which say where and what goes on, and nothing for each queue, topic or group.

A warning in a loop, a timer or a retry breaks the budget; tell it to ``sprocketmq.troubles.Troubles``."""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
import trustme

import sprocketmq as rmq
from inproc.client.log_drill import TROUBLES, Drill, Size
from sprocketmq.broker import Broker, BrokerConfig, NameServer, NameServerConfig
from sprocketmq.net.process.clock import ManualClock

LINES: Final = 30  # of ten minutes, for each process
QUICK: Final = Size(topics=2, queues=4, groups=2, minutes=3)
QUICK_LINES: Final = 12
# What a stranger must find, by process.
SAID: Final = {
    "killed": {
        "shop": ["broker broker-a (10.0.0.2:10911) is lost, its messages wait, other brokers go on", "is back after"],
        "namesrv": ["broker broker-a at 10.0.0.2:10911 closed its connection", "is registered again after"],
    },
    "without power": {
        "shop": ["broker broker-a (10.0.0.2:10911) is lost, its messages wait, other brokers go on", "is back after"],
        "namesrv": ["was silent for 120000 ms", "is registered again after"],
    },
    "frozen": {
        "shop": ["broker broker-a (10.0.0.2:10911) is lost, its messages wait, other brokers go on", "is back after"],
        "namesrv": ["was silent for 120000 ms", "is registered again after"],
    },
    "name server away": {
        "shop": ["name server 10.0.0.1:9876 is lost, known topics go on", "is back after"],
        "broker-a": ["does not know broker broker-a now, clients that know it go on", "knows broker broker-a now after"],
    },
    "disk full": {
        "broker-a": ["sends are refused, pulls go on: the disk of", "sends are taken again after"],
    },
    "account revoked": {
        "shop": ["no account has the access key Worker77; check access_key and secret_key", "over for"],
        "broker-a": ["no account has the access key Worker77", "over for"],
    },
    "listeners raise": {
        "shop": ["the listener raised LookupError: no row 0", "more since the last line", "over for"],
    },
}  # fmt: skip


def check(trouble: str, size: Size, most: int) -> None:
    drill = Drill(size, trouble).run()
    for host, lines in drill.lines.items():
        assert len(lines) <= most, f"{host} logged {len(lines)} lines:\n" + "\n".join(map(str, lines))
    for host, sentences in SAID[trouble].items():
        text = "\n".join(map(str, drill.lines[host]))
        for sentence in sentences:
            assert sentence in text, f"{host} does not say {sentence!r}:\n{text}"


@pytest.mark.parametrize("trouble", ["killed", "name server away", "account revoked", "listeners raise"])
def test_three_minutes_of_a_trouble_are_a_few_lines(trouble: str) -> None:
    check(trouble, QUICK, QUICK_LINES)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", TROUBLES)
def test_ten_minutes_of_a_trouble_are_no_more_lines_with_more_queues_topics_and_groups(trouble: str) -> None:
    check(trouble, Size(topics=6, queues=16, groups=3), LINES)


@pytest.mark.slow
def test_ten_minutes_of_a_certificate_that_has_expired_are_a_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, now = trustme.CA(), datetime.now(UTC)
    keys = {"tls.server.keyPath": f"{tmp_path}/key.pem", "tls.server.certPath": f"{tmp_path}/cert.pem"}

    def certify(until: datetime) -> None:
        issued = authority.issue_cert("127.0.0.1", not_before=now - timedelta(days=9), not_after=until)
        issued.private_key_pem.write_to_path(tmp_path / "key.pem")
        (tmp_path / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))

    context = ssl.create_default_context()
    authority.configure_trust(context)
    clock, received = ManualClock(), set[bytes]()
    certify(now + timedelta(days=9))
    with contextlib.ExitStack() as stack:

        def serve(namesrv_port: int = 0, broker_port: int = 0) -> tuple[NameServer, Broker]:
            config = NameServerConfig.from_properties(keys)
            namesrv = stack.enter_context(NameServer(port=namesrv_port, clock=clock, config=config))
            config_of_broker = BrokerConfig.from_properties({**keys, "defaultTopicQueueNums": "2"})
            return namesrv, stack.enter_context(
                Broker(
                    namesrv.address,
                    port=broker_port,
                    clock=clock,
                    config=config_of_broker,
                    store_dir=tmp_path / "store",
                )
            )

        namesrv, broker = serve()
        shared = {"namesrv_addr": namesrv.address, "ssl_context": context, "clock": clock, "instance_name": "shop"}
        producer = stack.enter_context(rmq.Producer("shop", **shared, retry_times_when_send_failed=0))
        for number in range(2):
            consumer = rmq.PushConsumer(f"group-{number}", **shared)
            for topic in range(2):
                consumer.subscribe(f"topic-{topic}")
            consumer.on_message(lambda message: received.add(message.body))
            if not number:
                for topic in range(2):
                    producer.send(rmq.Message(f"topic-{topic}", b"first"))
            stack.enter_context(consumer)
        clock.advance(30_000)
        caplog.clear()
        certify(now - timedelta(days=1))
        broker.stop()
        namesrv.stop()
        namesrv, broker = serve(namesrv.port, broker.port)
        for number in range(120):
            with contextlib.suppress(rmq.RocketMQError):
                producer.send(rmq.Message(f"topic-{number % 2}", b"lost"))
            clock.advance(5_000)
        certify(now + timedelta(days=9))
        for _ in range(60):
            clock.advance(5_000)
        producer.send(rmq.Message("topic-0", b"last"))
        for _ in range(60):
            if b"last" in received:
                break
            clock.advance(1_000)
        assert b"last" in received
        lines = defaultdict(list)
        for record in caplog.records:
            if record.levelno >= logging.WARNING:
                lines[record.name].append(record.getMessage())
    for name, texts in lines.items():
        assert len(texts) <= LINES, f"{name} logged {len(texts)} lines:\n" + "\n".join(texts)
    client = "\n".join(lines["sprocketmq.client"])
    assert "certificate has expired" in client
    assert client.count("is back after") == 2
    servers = "\n".join(lines["sprocketmq.broker"] + lines["sprocketmq.namesrv"] + lines["sprocketmq.net"])
    assert "clients that check it refuse this server, renew it" in servers
    assert "the TLS handshake with 127.0.0.1 failed" in servers
