# SPDX-License-Identifier: Apache-2.0
"""Our own clients at a broker that wants TLS and access keys, on both generations of access control."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

import sprocketmq as rmq
from sprocketmq.broker import Broker, BrokerConfig, NameServer, NameServerConfig
from sprocketmq.errors import ConfigurationError, NetworkError, RocketMQError

CA = trustme.CA()
PLAIN_ACL = {
    "accounts": [
        {
            "accessKey": "Worker77",
            "secretKey": "worker-secret",
            "topicPerms": ["orders=PUB|SUB"],
            "groupPerms": ["billing=SUB"],
        },
        {"accessKey": "Boss7777", "secretKey": "boss-secret", "admin": True},
    ]
}


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    CA.configure_trust(context)
    return context


class Servers:
    """A name server and a broker with the same settings for their sockets."""

    def __init__(self, network: dict[str, Any], broker: dict[str, Any]) -> None:
        self.namesrv = NameServer(port=0, config=NameServerConfig.from_properties(network))
        self.namesrv.start()
        self.broker = Broker(self.namesrv.address, port=0, config=BrokerConfig.from_properties({**network, **broker}))
        self.broker.start()

    def options(self, **more: Any) -> dict[str, Any]:
        return {"namesrv_addr": self.namesrv.address, "ssl_context": trusting(), **more}

    def stop(self) -> None:
        self.broker.stop()
        self.namesrv.stop()


@pytest.fixture(params=["accounts", "users"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Servers]:
    issued = CA.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    CA.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "tls.properties").write_text(
        f"tls.server.keyPath={tmp_path}/key.pem\ntls.server.certPath={tmp_path}/cert.pem\n"
        f"tls.client.authServer=true\ntls.client.trustCertPath={tmp_path}/ca.pem\n"
    )
    network = {
        "tls.server.mode": "enforcing",
        "tls.enable": "true",  # the broker registers over TLS
        "tls.config.file": str(tmp_path / "tls.properties"),
    }
    if request.param == "accounts":
        (tmp_path / "plain_acl.yml").write_text(yaml.safe_dump(PLAIN_ACL))
        broker = {"aclEnable": "true", "aclFile": str(tmp_path / "plain_acl.yml")}
    else:
        broker = {
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "initAuthenticationUser": '{"username":"Boss7777","password":"boss-secret"}',
            "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
        }
    made = Servers(network, broker)
    if request.param == "users":
        from sprocketmq.wire.bodies import PolicyEntryInfo, PolicyInfo, UserInfo

        table = made.broker.users.table
        table.create_user(UserInfo("Worker77", "worker-secret"))
        entries = [PolicyEntryInfo("Topic:orders", ["Pub", "Sub"], ["127.0.0.1"], "Allow"),
                   PolicyEntryInfo("Group:billing", ["Sub"], None, "Allow")]  # fmt: skip
        table.update_acl("Worker77", [PolicyInfo("Custom", entries)])
    yield made
    made.stop()


def test_a_signed_client_sends_consumes_and_administers_over_tls(servers):
    worker = servers.options(access_key="Worker77", secret_key="worker-secret")
    got: list[bytes] = []
    enough = threading.Event()

    with rmq.Admin(**servers.options(access_key="Boss7777", secret_key="boss-secret")) as admin:
        admin.create_topic("orders", queues=2)
    consumer = rmq.PushConsumer("billing", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **worker)
    consumer.subscribe("orders", "*")

    @consumer.on_message
    def handle(message: rmq.MessageExt) -> None:
        got.append(message.body)
        if len(got) == 10:
            enough.set()

    with consumer, rmq.Producer("shop", **worker) as producer:
        for number in range(5):
            producer.send(rmq.Message("orders", f"{number}".encode()))
        producer.send_batch([rmq.Message("orders", f"{number}".encode()) for number in range(5, 10)])
        assert enough.wait(30)
    assert sorted(got) == [f"{number}".encode() for number in range(10)]


def test_a_client_that_trusts_other_authorities_cannot_connect(servers):
    options = {
        "namesrv_addr": servers.namesrv.address,
        "tls": True,
        "access_key": "Boss7777",
        "secret_key": "boss-secret",
    }
    with rmq.Admin(**options) as admin, pytest.raises(NetworkError):
        admin.create_topic("orders")


@pytest.mark.parametrize("keys", [{"access_key": "only77"}, {"secret_key": "sesame7"}])
def test_half_a_pair_of_keys_is_refused_without_showing_it(keys):
    with pytest.raises(ConfigurationError, match="both") as caught:
        rmq.Producer("shop", namesrv_addr="127.0.0.1:1", **keys)
    assert "sesame7" not in str(caught.value)


def test_the_text_of_options_shows_no_secret():
    from sprocketmq.client.settings.options import ClientOptions

    options = ClientOptions(
        namesrv_addr="127.0.0.1:1", access_key="Worker77", secret_key="sesame7", security_token="token77"
    )
    assert "sesame7" not in repr(options) + repr(options.credentials)
    assert "token77" not in repr(options) + repr(options.credentials)


def test_certificates_are_read_again_while_broker_and_name_server_run(tmp_path):
    from sprocketmq.net.process.clock import ManualClock

    def write(ca: trustme.CA) -> None:
        issued = ca.issue_cert("localhost", "127.0.0.1")
        issued.private_key_pem.write_to_path(tmp_path / "key.pem")
        (tmp_path / "cert.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))

    other = trustme.CA()
    write(other)
    clock = ManualClock()
    keys = {"tls.server.keyPath": f"{tmp_path}/key.pem", "tls.server.certPath": f"{tmp_path}/cert.pem"}
    with (
        NameServer(port=0, clock=clock, config=NameServerConfig.from_properties(keys)) as namesrv,
        Broker(namesrv.address, port=0, clock=clock, config=BrokerConfig.from_properties(keys)),
    ):
        options = {"namesrv_addr": namesrv.address, "ssl_context": trusting()}
        with rmq.Admin(**options) as admin, pytest.raises(RocketMQError):
            admin.create_topic("orders")
        write(CA)
        clock.advance(500)
        with rmq.Admin(**options) as admin:
            admin.create_topic("orders")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"tls.server.mode": "enforcing"}, "tls.server.certPath"),
        ({"tls.server.mode": "sometimes"}, "tls.server.mode"),
        ({"tls.config.file": "/nowhere/tls.properties"}, "/nowhere/tls.properties"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(settings, named):
    with pytest.raises(ConfigurationError, match=named):
        Broker(port=0, config=BrokerConfig.from_properties(settings)).start()


def test_tls_is_off_without_a_certificate():
    with Broker(port=0, config=BrokerConfig()) as broker:
        assert broker.tls is None
    with Broker(
        port=0, config=BrokerConfig.from_properties({"tls.server.mode": "disabled", "tls.server.keyPath": "x"})
    ) as broker:
        assert broker.tls is None
