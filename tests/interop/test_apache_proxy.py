# SPDX-License-Identifier: Apache-2.0
"""What Apache's proxy tells, asked without our client."""

from __future__ import annotations

import json

from interop.remoting import Answer, ask, can_send

GET_ROUTEINFO_BY_TOPIC, GET_MAX_OFFSET, GET_TOPIC_STATS_INFO = 105, 30, 202
SYSTEM_ERROR, NOT_SERVED, VERSION_NOT_SUPPORTED = 1, 3, 15


def route(proxy_addr: str, topic: str, **how: object) -> dict[str, str]:
    """The address of each broker of a topic."""
    answer = ask(proxy_addr, GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, **how)  # type: ignore[arg-type]
    return {broker["brokerName"]: broker["brokerAddrs"]["0"] for broker in json.loads(answer.body)["brokerDatas"]}


def max_offset(address: str, topic: str, **broker: str) -> Answer:
    return ask(address, GET_MAX_OFFSET, {"topic": topic, "queueId": "0", **broker})


def test_one_address_is_name_server_and_broker_and_wants_the_name_of_the_broker(proxy):
    proxy.create_topic("behind", 1)
    assert route(proxy.namesrv_addr, "behind") == {"broker-a": proxy.namesrv_addr}
    sent = int(max_offset(proxy.namesrv_addr, "behind", bname="broker-a").header["extFields"]["offset"])
    assert can_send(proxy.namesrv_addr, "behind", "broker-a")
    assert max_offset(proxy.namesrv_addr, "behind", bname="broker-a").header["extFields"]["offset"] == str(sent + 1)
    unnamed = max_offset(proxy.namesrv_addr, "behind")
    assert (unnamed.code, unnamed.header["remark"]) == (VERSION_NOT_SUPPORTED, "Request doesn't have field bname")
    assert ask(proxy.namesrv_addr, GET_TOPIC_STATS_INFO, {"topic": "behind", "bname": "broker-a"}).code == NOT_SERVED
