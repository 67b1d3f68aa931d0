# SPDX-License-Identifier: Apache-2.0
"""Access control and TLS as Java sees them: Apache's clients with keys, its tools for accounts, users and policies, its TLS.

With SPROCKETMQ_INTEROP_SERVER the users are Apache 5.4.0's and the accounts Apache 4.9.7's: what fails there is wrong in the test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import pytest
import yaml

from interop.mqadmin_session import MqadminSession
from interop.peers import APACHE_4, APACHE_5, VERSIONS, ApacheCluster, JavaProgram, Server, SprocketServer, poll_until
from interop.remoting import ask, has_route

BOSS, WORKER = ("Boss7777", "boss-secret"), ("Worker77", "worker-secret")
APACHE = bool(os.environ.get("SPROCKETMQ_INTEROP_SERVER"))
USERS = {
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": '{"username":"Boss7777","password":"boss-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"Inner777","secretKey":"inner-secret"}',
}
SEND_V2 = 310
HEADER_V2 = dict(
    zip("abcdefghijkm", ("p", "orders", "TBW102", "4", "0", "0", "1", "0", "", "0", "false", "false"), strict=True)
)


@pytest.fixture(scope="module")
def users_server(java_peers: None) -> Iterator[Server]:
    server: Server = ApacheCluster(APACHE_5, **USERS) if APACHE else SprocketServer(**USERS)
    with server as started:
        yield started


@pytest.fixture(scope="module")
def accounts_server(java_peers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    content = yaml.safe_dump({"accounts": [{"accessKey": BOSS[0], "secretKey": BOSS[1], "admin": True}]})
    server: Server
    if APACHE:
        server = ApacheCluster(APACHE_4, aclEnable=True)
        (server.home / "conf").mkdir(exist_ok=True)
        (server.home / "conf/plain_acl.yml").write_text(content)
    else:
        path = tmp_path_factory.mktemp("home") / "plain_acl.yml"
        path.write_text(content)
        server = SprocketServer(aclEnable=True, aclFile=str(path))
    with server as started:
        yield started


def send(version: str, server: Server, keys: tuple[str, str] | None, count: int = 1) -> bool:
    """Whether a Java producer could send to topic orders."""
    named = {} if keys is None else {"access_key": keys[0], "secret_key": keys[1]}
    with JavaProgram(version, "Producer", namesrv=server.namesrv_addr, topic="orders", count=count, **named) as program:
        try:
            sent = program.read_rest("sent", 60)
        except RuntimeError:  # it reported that it was refused
            return False
        return program.wait() == 0 and len(sent) == count


def consume(version: str, server: Server, keys: tuple[str, str], count: int) -> list[str]:
    program = JavaProgram(
        version, "PushConsumer", namesrv=server.namesrv_addr, topic="orders", group="billing", count=count, access_key=keys[0],
        secret_key=keys[1],
    )  # fmt: skip
    with program:
        return sorted(line["body"] for line in program.read_rest("message", 90))


CLERK = ("Clerk777", "clerk-secret")


def give_clerk_the_rights_of_a_client(kind: str, server: Server, tools: Callable[[str], MqadminSession]) -> None:
    """Topic flights may be written and read, groups clerks and rows read; nothing else."""
    to = ("-b", server.broker_addr)
    if kind == "users":
        run = tools(APACHE_5).run
        run("updateTopic", "-t", "flights", "-r", "2", "-w", "2", *to, keys=BOSS)
        run("createUser", "-u", CLERK[0], "-p", CLERK[1], *to, keys=BOSS)
        for resource, actions in (("Topic:flights", "Pub,Sub"), ("Group:clerks", "Sub"), ("Group:rows", "Sub")):
            run("createAcl", "-s", f"User:{CLERK[0]}", "-r", resource, "-a", actions, "-d", "Allow", *to, keys=BOSS)
    else:
        run = tools(APACHE_4).run
        run("updateTopic", "-t", "flights", "-r", "2", "-w", "2", *to, keys=BOSS)
        rights = ("-t", "flights=PUB|SUB", "-g", "clerks=SUB,rows=SUB")
        assert "success" in run("updateAclConfig", "-a", CLERK[0], "-s", CLERK[1], *rights, *to, keys=BOSS)
    poll_until(lambda: has_route(server.namesrv_addr, "flights"), "clients find the topic")


@pytest.mark.parametrize("java", VERSIONS)
@pytest.mark.parametrize("kind", ["users", "accounts"])
def test_java_clients_with_a_topic_and_a_group_send_consume_end_transactions_and_reply(request, tools, kind, java):
    server: Server = request.getfixturevalue(f"{kind}_server")
    give_clerk_the_rights_of_a_client(kind, server, tools)
    options: dict[str, str | int] = {
        "namesrv": server.namesrv_addr,
        "topic": "flights",
        "access_key": CLERK[0],
        "secret_key": CLERK[1],
    }
    with JavaProgram(java, "PushConsumer", **options, group="clerks", reply="answered") as consumer:
        consumer.ready()
        with JavaProgram(java, "Producer", **options, mode="request", count=1, group="askers") as asking:
            assert [line["body"] for line in asking.read_rest("answer", 60)] == ["answered"]
    with JavaProgram(java, "Producer", **options, mode="transaction", count=3, group="ending") as ending:
        assert len(ending.read_rest("sent", 60)) == 3
    with JavaProgram(java, "PushConsumer", **options, group="clerks", fail=1, delay_level=1, count=1) as consumer:
        assert [line["outcome"] for line in consumer.read_rest("message", 60)] == ["retry", "ok"], (
            "sent back, and retried"
        )
    with JavaProgram(java, "OrderlyConsumer", **options, group="rows", count=2) as orderly:
        assert len(orderly.read_rest("message", 60)) >= 2


def test_users_and_policies_are_administered_by_mqadmin_and_kept_to_by_java_clients(users_server, tools):
    address = users_server.broker_addr

    def admin(*args: str) -> str:
        return tools(APACHE_5).run(*args, "-b", address, keys=BOSS)

    def policy(command: str, *args: str) -> str:
        return admin(command, "-s", f"User:{WORKER[0]}", *args)

    refused = ask(address, SEND_V2, HEADER_V2, b"body")
    assert refused.code == 16, refused.header
    admin("updateTopic", "-t", "orders", "-r", "2", "-w", "2")
    assert "success" in admin("createUser", "-u", WORKER[0], "-p", WORKER[1])
    assert "exist" in admin("createUser", "-u", WORKER[0], "-p", "other")
    assert not send(APACHE_5, users_server, WORKER)
    assert "success" in policy("createAcl", "-r", "Topic:ord*", "-a", "Pub,Sub", "-d", "Allow", "-i", "127.0.0.0/8")
    assert "success" in policy("createAcl", "-r", "Group:*", "-a", "Sub", "-d", "Allow")
    for java in VERSIONS:
        assert send(java, users_server, WORKER, 3)
        assert not send(java, users_server, (WORKER[0], "wrong-secret"))
    assert len(consume(APACHE_4, users_server, WORKER, 6)) == 6

    assert {"Topic:ord*", "Group:*", "127.0.0.0/8"} <= set(re.findall(r"[^\s\[\]]+", admin("listAcl", "-s", WORKER[0])))
    assert "127.0.0.0/8" in policy("getAcl")
    assert WORKER[0] in admin("listUser", "-f", "Worker")
    assert "Normal" in admin("getUser", "-u", WORKER[0])
    assert "success" in policy("updateAcl", "-r", "Topic:orders", "-a", "Pub", "-d", "Deny")
    assert not send(APACHE_4, users_server, WORKER)
    assert "success" in policy("deleteAcl", "-r", "Topic:orders")
    assert "success" in admin("updateUser", "-u", WORKER[0], "-s", "disable")
    assert not send(APACHE_5, users_server, WORKER)
    assert "success" in admin("deleteUser", "-u", WORKER[0])
    assert WORKER[0] not in admin("listUser", "-f", "Worker")
    copied = tools(APACHE_5).run("copyUser", "-f", address, "-t", address, "-u", BOSS[0], keys=BOSS)
    assert "success" in copied


def test_accounts_are_administered_by_mqadmin_and_kept_to_by_java_clients(accounts_server, tools):
    address = accounts_server.broker_addr

    def admin(*args: str, keys: tuple[str, str] = BOSS) -> str:
        return tools(APACHE_4).run(*args, "-b", address, keys=keys)

    refused = ask(address, SEND_V2, HEADER_V2, b"body")
    assert refused.code == (1 if APACHE else 16), refused.header
    admin("updateTopic", "-t", "orders", "-r", "2", "-w", "2")
    made = admin("updateAclConfig", "-a", WORKER[0], "-s", WORKER[1], "-t", "orders=PUB|SUB", "-g", "billing=SUB")
    assert "success" in made
    for java in VERSIONS:
        assert send(java, accounts_server, WORKER)
        assert not send(java, accounts_server, (WORKER[0], "wrong-secret"))
    assert not send(APACHE_5, accounts_server, None)
    assert len(consume(APACHE_5, accounts_server, WORKER, 2)) == 2
    assert "success" not in admin("updateTopic", "-t", "more", "-r", "2", "-w", "2", keys=WORKER)
    assert WORKER[0] in admin("getAclConfig")
    version = admin("clusterAclConfigVersion")
    assert "broker-a" in version
    assert "1" in version
    assert "success" in admin("deleteAclConfig", "-a", WORKER[0])
    assert not send(APACHE_4, accounts_server, WORKER)
    assert "success" in admin("updateGlobalWhiteAddr", "-g", "127.0.0.1")
    poll_until(lambda: ask(address, SEND_V2, HEADER_V2, b"body").code == 0, "the white address counts")


@pytest.mark.parametrize("java", VERSIONS)
def test_java_clients_speak_tls_with_a_server_that_wants_it(java_peers, java, tmp_path):
    tls = {"tls.server.mode": "enforcing", "tls.enable": True, "tls.test.mode.enable": True}
    with SprocketServer(**tls) as server:  # type: ignore[arg-type]
        with pytest.raises(OSError, match="closed|reset"):
            ask(server.broker_addr, SEND_V2, HEADER_V2, b"body")
        flags = ("-Dtls.enable=true",)
        options = {"namesrv": server.namesrv_addr, "topic": "orders"}
        with JavaProgram(
            java, "Producer", jvm_flags=flags, count=20, body_bytes=50_000, compress_over=1_000_000, **options
        ) as producer:
            assert len(producer.read_rest("sent", 60)) == 20
        with JavaProgram(java, "PushConsumer", jvm_flags=flags, count=20, group="billing", **options) as consumer:
            bodies = [line["body"] for line in consumer.read_rest("message", 90)]
        assert len(set(bodies)) == 20
        assert all(len(body) >= 50_000 for body in bodies)
