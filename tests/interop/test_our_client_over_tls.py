# SPDX-License-Identifier: Apache-2.0
"""Our client with TLS and access keys at a real Apache 5.4.0, which makes its own certificate and wants a user."""

from __future__ import annotations

import ssl

import pytest

import sprocketmq as rmq
from interop.peers import APACHE_5, ApacheCluster
from interop.test_access import BOSS, USERS
from sprocketmq.errors import NetworkError, NoPermission


def test_our_client_sends_and_reads_over_tls_with_keys_at_apache(java_peers):
    trusting_anybody = ssl.create_default_context()
    trusting_anybody.check_hostname, trusting_anybody.verify_mode = False, ssl.CERT_NONE
    with ApacheCluster(APACHE_5, **USERS) as apache:  # permissive by default
        options = {"namesrv_addr": apache.namesrv_addr, "ssl_context": trusting_anybody}
        keys = {"access_key": BOSS[0], "secret_key": BOSS[1]}
        with rmq.Admin(**options, **keys) as admin:
            admin.create_topic("orders", queues=1)
        with rmq.Producer("shop", **options, **keys) as producer:
            sent = {producer.send(rmq.Message("orders", b"%d" % number)).message_id for number in range(10)}
        with rmq.PullConsumer("billing", **options, **keys) as consumer:
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
        with rmq.Admin(namesrv_addr=apache.namesrv_addr, tls=True, **keys) as careful, pytest.raises(NetworkError):
            careful.create_topic("orders")
