# SPDX-License-Identifier: Apache-2.0
"""Who may change something at the name server: by address, as it has no users; everybody may look."""

from __future__ import annotations

import pytest

from interop.hostile_requests import templates
from sprocketmq.broker import NameServerConfig
from sprocketmq.broker.namesrv.namesrv_requests import HANDLERS, changing_codes
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.codes import ResponseCode

ASKED = [asked for asked in templates() if asked.to == "namesrv" and asked.code in HANDLERS]
CODES = {103, 104, 322, 904, 205, 327, 216, 217, 100, 102, 318}


def allow(cluster, addresses):
    cluster.on_loop(lambda: cluster.namesrv.update_config({"brokerAllowedAddresses": addresses}))
    return cluster.namesrv_client()


def state(cluster):
    server = cluster.namesrv
    return cluster.on_loop(
        lambda: repr((server.table.topics(), server.table.cluster_info(0), server.kv_config._table, server.config))
    )


def test_an_address_that_is_not_listed_may_read_and_change_nothing(cluster, caplog):
    client = allow(cluster, "10.0.0.1;10.0.1.*")
    before = state(cluster)
    for asked in ASKED:
        answer = client.ask(asked.code, body=asked.body, ext_fields=asked.fields)
        assert (answer.code == ResponseCode.NO_PERMISSION) is (asked.code in CODES), (asked.code, answer.remark)
        assert state(cluster) == before, asked.code
    assert "brokerAllowedAddresses" in caplog.text


@pytest.mark.parametrize("addresses", ["", "10.0.0.1; 127.0.0.*"])
def test_a_listed_address_and_by_default_every_address_may_change_things(cluster, addresses):
    client = allow(cluster, addresses)
    for asked in ASKED:
        answer = client.ask(asked.code, body=asked.body, ext_fields=asked.fields)
        assert "brokerAllowedAddresses" not in (answer.remark or ""), asked.code


def test_every_request_is_declared_as_reading_or_changing():
    assert changing_codes() == CODES
    assert {asked.code for asked in ASKED} == set(HANDLERS)


def test_an_invalid_address_of_brokers_is_refused():
    with pytest.raises(ConfigurationError, match="brokerAllowedAddresses"):
        NameServerConfig(broker_allowed_addresses="everybody")
