# SPDX-License-Identifier: Apache-2.0
"""Our client with TLS and access keys at a real Apache 5.4.0, which makes its own certificate and wants a user."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import sprocketmq as rmq
from interop.peers import APACHE_5, ApacheCluster
from interop.remoting import trusting_anybody
from interop.test_access import BOSS, USERS
from sprocketmq.errors import NetworkError, NoPermission

KEYS = {"access_key": BOSS[0], "secret_key": BOSS[1]}


@pytest.fixture(scope="module")
def options(java_peers: None) -> Iterator[dict[str, Any]]:
    with ApacheCluster(APACHE_5, **USERS) as apache:  # permissive by default
        yield {"namesrv_addr": apache.namesrv_addr, "ssl_context": trusting_anybody()}


def test_our_client_sends_and_reads_over_tls_with_keys_at_apache(options):
    with rmq.Admin(**options, **KEYS) as admin:
        admin.create_topic("orders", queues=1)
    with rmq.Producer("shop", **options, **KEYS) as producer:
        sent = {producer.send(rmq.Message("orders", b"%d" % number)).message_id for number in range(10)}
    with rmq.PullConsumer("billing", **options, **KEYS) as consumer:
        consumer.assign([rmq.MessageQueue("orders", "broker-a", 0)])
        consumer.seek(rmq.MessageQueue("orders", "broker-a", 0), 0)
        got: set[str] = set()
        for _ in range(20):
            got |= {message.message_id for message in consumer.poll(timeout_ms=3_000)}
            if got >= sent:
                break
    assert got == sent
    with (
        rmq.Producer("shop", **options, access_key=BOSS[0], secret_key="wrong-secret") as stranger,
        pytest.raises(NoPermission),
    ):
        stranger.send(rmq.Message("orders", b"never"))
    careful = rmq.Admin(namesrv_addr=options["namesrv_addr"], tls=True, **KEYS)
    with careful, pytest.raises(NetworkError):
        careful.create_topic("orders")


def test_users_and_policies_of_5_are_administered(options):
    name = f"administered-{time.time_ns()}"
    with rmq.Admin(**options, **KEYS, mq_client_api_timeout_ms=10_000) as admin:
        admin.create_user(name, "secret")
        admin.update_user(name, user_type="Super")
        user = admin.user("broker-a", name)
        assert user is not None
        assert user.user_type == "Super"
        assert [one.username for one in admin.users("broker-a", name)] == [name]
        admin.create_acl(f"User:{name}", [f"Topic:{name}"], ["Pub"])
        admin.update_acl(f"User:{name}", [f"Topic:{name}"], ["Pub", "Sub"])
        acl = admin.acl("broker-a", f"User:{name}")
        assert acl is not None
        assert acl.policies
        assert [one.subject for one in admin.acls("broker-a", name)] == [f"User:{name}"]
        (broker,) = admin.brokers()
        assert admin.copy_users("broker-a", broker.address, [name]) == [name]
        admin.delete_acl(f"User:{name}")
        admin.delete_user(name)
        assert admin.user("broker-a", name) is None
