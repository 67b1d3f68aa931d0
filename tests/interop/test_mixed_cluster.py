# SPDX-License-Identifier: Apache-2.0
"""Name servers and brokers of ours and of Apache in one cluster, and mqadmin's questions to either name server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import sprocketmq as rmq
from interop.mqadmin_output import printed_lines
from interop.peers import APACHE_4, VERSIONS, ApacheCluster, SprocketServer, poll_until
from interop.remoting import ask
from sprocketmq.wire.codes import RequestCode

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("java_peers")]

TOPIC = "everywhere"


class Mixed(NamedTuple):
    """Ours: name server and broker-a; Apache's: name server and broker-b; both brokers at both name servers."""

    version: str
    ours: SprocketServer
    apache: ApacheCluster

    @property
    def name_servers(self) -> tuple[str, str]:
        return self.ours.namesrv_addr, self.apache.namesrv_addr


@pytest.fixture(scope="module", params=VERSIONS)
def mixed(
    java_peers: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mixed]:
    # Compressed: what our name server reads then must be what Apache's reads. Not from 5.x, whose own name server cannot read it.
    apache = ApacheCluster(request.param, brokerName="broker-b", compressedRegister=request.param == APACHE_4)
    ours = SprocketServer()
    try:
        apache.start_namesrv()
        ours = SprocketServer(tmp_path_factory.mktemp("mixed") / "store", namesrvAddr=apache.namesrv_addr).start()
        apache.start_broker(f"{ours.namesrv_addr};{apache.namesrv_addr}")
        mixed = Mixed(request.param, ours, apache)
        for address in mixed.name_servers:
            poll_until(
                lambda address=address: len(route(address, "TBW102")[0]) == 2, f"both are known to {address}", 90
            )
        for broker in (ours, apache):
            broker.create_topic(TOPIC, 4)
        for address in mixed.name_servers:
            poll_until(lambda address=address: len(route(address, TOPIC)[0]) == 2, f"{TOPIC} is known to {address}")
        yield mixed
    finally:
        apache.stop()
        ours.stop()


def asked(address: str, code: int, **ext: str) -> Any:
    answer = ask(address, code, {"acceptStandardJsonOnly": "true", **ext})
    assert answer.code == 0, answer.header
    # Cluster info has Java's bare numbers as keys.
    return json.loads(re.sub(rb"([{,])(\d+):", rb'\1"\2":', answer.body))


def route(address: str, topic: str) -> Any:
    found = asked(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
    for broker in found["brokerDatas"]:
        broker.pop("enableActingMaster", None)  # 5.x and ours; 4.9 has none
    for queue in found["queueDatas"]:
        queue.pop("topicSynFlag", None)
    return sorted(map(str, found["brokerDatas"])), sorted(map(str, found["queueDatas"]))


def test_both_name_servers_know_both_brokers_and_a_dead_one_leaves(mixed):
    ours, apache = (route(address, TOPIC) for address in mixed.name_servers)
    assert ours == apache
    clusters = [asked(address, RequestCode.GET_BROKER_CLUSTER_INFO) for address in mixed.name_servers]
    assert {name: sorted(found["brokerAddrTable"]) for name, found in zip("oa", clusters, strict=True)} == {
        "o": ["broker-a", "broker-b"],
        "a": ["broker-a", "broker-b"],
    }
    for address in mixed.name_servers:
        sent = []
        with rmq.Producer("mixed", namesrv_addr=address) as producer:
            sent = [producer.send(rmq.Message(TOPIC, b"x")).message_queue.broker_name for _ in range(16)]
        assert set(sent) == {"broker-a", "broker-b"}

    mixed.apache.kill()
    for address in mixed.name_servers:
        poll_until(lambda address=address: len(route(address, TOPIC)[0]) == 1, f"the dead broker leaves {address}")
    mixed.apache.start_broker(";".join(mixed.name_servers))
    for address in mixed.name_servers:
        poll_until(lambda address=address: len(route(address, "TBW102")[0]) == 2, f"it comes back to {address}")


def test_mqadmin_works_with_our_name_server_and_gets_what_apaches_answers(mixed, tools):
    """What changes something is asked of ours; what lists is asked of both, and equal but for addresses and times."""
    ours = mixed.ours.namesrv_addr

    def told(address: str, command: str, *arguments: str) -> str:
        printed = tools(mixed.version).run(command, "-n", address, *arguments, timeout_s=180)
        assert "Exception" not in printed, f"{command} at {address}: {printed}"
        return printed.replace(address, "NAMESRV")

    told(ours, "updateKvConfig", "-s", "MINE", "-k", "color", "-v", "blue")
    told(ours, "deleteKvConfig", "-s", "MINE", "-k", "color")
    told(ours, "updateOrderConf", "-t", "ordered", "-v", "broker-a:4;broker-b:4", "-m", "put")
    assert "broker-a:4;broker-b:4" in told(ours, "updateOrderConf", "-t", "ordered", "-m", "get")
    told(ours, "updateOrderConf", "-t", "ordered", "-m", "delete")
    assert re.search(r"OK, [1-9]", told(ours, "wipeWritePerm", "-b", "broker-a"))
    assert sum("'perm': 5" in queue for queue in route(ours, "TBW102")[1]) == 1  # inherit and read
    assert re.search(r"OK, [1-9]", told(ours, "addWritePerm", "-b", "broker-a"))
    assert sum("'perm': 6" in queue for queue in route(ours, "TBW102")[1]) == 1  # Apache forgets the inherit flag, too
    told(ours, "updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    assert re.search(r"orderMessageEnable\s*=\s*true", told(ours, "getNamesrvConfig"))
    for command in (
        ("topicRoute", "-t", TOPIC),
        ("topicClusterList", "-t", TOPIC),
        ("clusterList",),
        ("topicList", "-c"),
    ):
        rates = command[0] == "clusterList"  # what both brokers measure goes on between two looks
        answers = [printed_lines(told(address, *command), rates) for address in mixed.name_servers]
        assert answers[0] == answers[1], command


def test_a_broker_with_more_topics_than_a_part_of_its_registration_holds_is_known_whole(mixed):
    """Both generations of Apache's name server take our registration in parts, and a part takes nothing of another one away."""
    names = [f"many-{number}" for number in range(2_000)]
    for begin in range(0, len(names), 500):
        configs = [
            {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
            for name in names[begin : begin + 500]
        ]
        body = json.dumps({"topicConfigList": configs}).encode()
        assert ask(mixed.ours.broker_addr, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, body).code == 0
    for address in mixed.name_servers:
        poll_until(lambda address=address: set(names) <= known_topics(address), f"all topics reach {address}")
    mixed.ours.create_topic("one-more", 1)
    for address in mixed.name_servers:
        poll_until(lambda address=address: "one-more" in known_topics(address), f"one more reaches {address}")
        assert set(names) <= known_topics(address)
        assert len(route(address, names[0])[0]) == len(route(address, names[-1])[0]) == 1


def known_topics(address: str) -> set[str]:
    return set(asked(address, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)["topicList"])
