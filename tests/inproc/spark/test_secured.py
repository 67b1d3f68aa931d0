# SPDX-License-Identifier: Apache-2.0
"""Source, sink, retry and replay at a broker that wants TLS and access keys, without a JVM: as Spark calls them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import trustme
import yaml
from click.testing import CliRunner
from pyspark.sql.types import BinaryType, StructField, StructType

import sprocketmq as rmq
from inproc.spark.as_spark import batch_rows
from interop.child import poll_until
from spark_task import Died, Task, dies, leave_group
from sprocketmq.broker import Broker, BrokerConfig, NameServer, NameServerConfig
from sprocketmq.cli.main import app
from sprocketmq.errors import ConfigurationError, RocketMQError
from sprocketmq.spark.options.read_options import read_options
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.retry.bad_row_sender import BadRowSender
from sprocketmq.spark.retry.bad_rows import bad_row
from sprocketmq.spark.retry.send_back import RetryGroup
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.spark.transactions.transactional_write import TransactionalWrite
from sprocketmq.spark.write.message_sender import MessageSender

CA = trustme.CA()
ACCOUNT = {"accessKey": "Spark777", "secretKey": "spark-secret", "admin": True}


@pytest.fixture
def options(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a user writes to reach a name server and a broker that both insist on TLS, the broker on keys as well."""
    issued = CA.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    CA.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "acl.yml").write_text(yaml.safe_dump({"accounts": [ACCOUNT]}))
    (tmp_path / "keys.yml").write_text("accessKey: Spark777\nsecretKey: spark-secret\n")
    network = {
        "tls.server.mode": "enforcing",
        "tls.server.keyPath": f"{tmp_path}/key.pem",
        "tls.server.certPath": f"{tmp_path}/cert.pem",
        "tls.enable": "true",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": f"{tmp_path}/ca.pem",
    }
    acl = {"aclEnable": "true", "aclFile": f"{tmp_path}/acl.yml"}
    asks_soon = {"transactionTimeOut": "2000", "transactionCheckInterval": "300"}
    with (
        NameServer(port=0, config=NameServerConfig.from_properties(network)) as namesrv,
        Broker(namesrv.address, port=0, config=BrokerConfig.from_properties({**network, **acl, **asks_soon})),
    ):
        yield {
            "namesrvAddr": namesrv.address,
            "secretKeyFile": f"{tmp_path}/keys.yml",
            "tls": "true",
            "tlsTrustCertPath": f"{tmp_path}/ca.pem",
        }


def test_rows_are_written_read_and_given_back_with_keys_over_tls(options: dict[str, str]) -> None:
    context = ssl.create_default_context()
    CA.configure_trust(context)
    keys = {"access_key": "Spark777", "secret_key": "spark-secret", "ssl_context": context}
    with rmq.Admin(namesrv_addr=options["namesrvAddr"], **keys) as admin:
        admin.create_topic("flights", queues=1)
    MessageSender(sink_options({**options, "topic": "flights"})).send(pa.record_batch({"body": [b"late", b"early"]}))
    rows = batch_rows(**options, topic="flights")
    assert [row["body"] for row in rows] == [b"late", b"early"]
    access = read_options({**options, "topic": "flights"}, streaming=False).access
    hand = BadRowSender(RetryGroup("delays", options["namesrvAddr"], access))
    bad = [bad_row(row, "dlq", delay_level=0, max_reconsume=16) for row in rows]
    why = bad_row({**rows[0], "reason": "no time"}, "dlq", delay_level=0, max_reconsume=16)
    assert hand.send_back([bad[1], why]) == []
    with rmq.DeadLetters("delays", namesrv_addr=options["namesrvAddr"], **keys) as letters:
        poll_until(lambda: letters.count() == 2, "the name server has heard of the dead letters' topic")
        assert sorted((letter.message.body, letter.reason) for letter in letters.read()) == [
            (b"early", None),
            (b"late", "no time"),
        ]


@pytest.mark.parametrize("left_out", ["secretKeyFile", "tlsTrustCertPath"])
def test_without_keys_or_trust_nothing_is_read(options: dict[str, str], left_out: str) -> None:
    given = {name: value for name, value in options.items() if name != left_out}
    with pytest.raises(RocketMQError):
        batch_rows(**given, topic="flights", retryTimeoutMs="1s")


def test_a_transactional_write_is_ended_and_settled_with_keys_over_tls(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Task.begin(monkeypatch)
    context = ssl.create_default_context()
    CA.configure_trust(context)
    keys = {"access_key": "Spark777", "secret_key": "spark-secret", "ssl_context": context}
    with rmq.Admin(namesrv_addr=options["namesrvAddr"], **keys) as admin:
        admin.create_topic("flights", queues=1)
    given = {**options, "topic": "flights", "group": "exact", "delivery": "transactional"}
    schema = StructType([StructField("body", BinaryType())])

    def batch(number: int, *bodies: bytes) -> None:
        Task.batch = number
        writer = RocketMQDataSource(given).streamWriter(schema, overwrite=False)
        writer.commit([writer.write(iter([pa.record_batch({"body": list(bodies)})]))], number)

    batch(0, b"one", b"two")
    with monkeypatch.context() as patched:
        patched.setattr(TransactionalWrite, "_end", dies)
        with pytest.raises(Died):
            batch(1, b"three")
    leave_group()
    words = ["settle", "--group", "exact", "--topic", "flights", "-n", options["namesrvAddr"], "--timeout", "60"]
    flags = ["--secret-key-file", options["secretKeyFile"], "--tls-ca", options["tlsTrustCertPath"]]
    settled = CliRunner().invoke(app, [*words, *flags])
    assert (settled.exit_code, settled.output) == (0, "group exact: 1 COMMIT_MESSAGE\n")
    named = [f"{name}={value}" for name, value in options.items() if name != "namesrvAddr"]
    again = CliRunner().invoke(app, [*words, *(word for option in named for word in ("--option", option))])
    assert (again.exit_code, again.output) == (0, "group exact: no check-back came\n")
    assert [row["body"] for row in batch_rows(**options, topic="flights")] == [b"one", b"two", b"three"]


def test_an_option_of_settle_is_one_sentence_when_it_is_wrong() -> None:
    for option, sentence in (("tls", "NAME=VALUE is allowed"), ("tsl=true", "tls")):
        words = ["settle", "--group", "g", "--topic", "t", "-n", "127.0.0.1:1", "--option", option]
        failure = CliRunner().invoke(app, words).exception
        assert isinstance(failure, ConfigurationError)
        assert sentence in str(failure)
