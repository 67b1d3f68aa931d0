# SPDX-License-Identifier: Apache-2.0
"""docs/spark/deploy.md, "Rights that an account needs": with users as 5.x has them the rights that it lists are enough. `Get` is needed,
as a reader asks where a queue ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from inproc.spark.as_spark import batch_rows
from sprocketmq.errors import NoPermission
from sprocketmq.spark.source import RocketMQDataSource
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.bodies import PolicyEntryInfo, PolicyInfo, UserInfo

USERS = {
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "initAuthenticationUser": '{"username":"boss777","password":"boss777-secret"}',
}
READER = "Group:SPARK_ROCKETMQ_SOURCE"
CASES = {
    "topic": ({"topic": "flights"}, {"Topic:flights": ["Sub", "Get"], READER: ["Sub"]}),
    "deadLettersOf": ({"deadLettersOf": "delays"}, {"Topic:%DLQ%delays": ["Sub", "Get"], READER: ["Sub"]}),
    "includeRetry": (
        {"topic": "flights", "group": "delays", "includeRetry": "true"},
        {"Topic:flights": ["Sub", "Get"], "Group:delays": ["Sub", "Get"]},
    ),
    "commitOffsets": ({"topic": "flights", "group": "delays"}, {"Topic:flights": ["Sub", "Get"], "Group:delays": ["Sub"]}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_rights_of_the_page_are_enough_and_each_get_is_needed(case: str, tmp_path: Path) -> None:
    options, rights = CASES[case]
    (tmp_path / "keys.yml").write_text("accessKey: spark777\nsecretKey: spark777-secret\n")
    with EmbeddedRocketMQ(clock="system", **USERS) as mq:
        for topic in ("flights", "%RETRY%delays", "%DLQ%delays"):
            mq.create_topic(topic, queues=1)
        mq._on_loop(lambda: mq.broker.users.table.create_user(UserInfo("spark777", "spark777-secret")))
        given = {"namesrvAddr": mq.namesrv_addr, "secretKeyFile": f"{tmp_path}/keys.yml", **options}
        allow(mq, rights)
        read(given)
        for resource in (name for name, actions in rights.items() if "Get" in actions):
            allow(mq, {**rights, resource: ["Sub"]})
            with pytest.raises(NoPermission, match=f"no permission to Get {resource}"):
                read(given)


def allow(mq: EmbeddedRocketMQ, rights: dict[str, list[str]]) -> None:
    entries = [PolicyEntryInfo(resource, actions, None, "Allow") for resource, actions in rights.items()]
    mq._on_loop(lambda: mq.broker.users.table.update_acl("spark777", [PolicyInfo("Custom", entries)]))


def read(given: dict[str, str]) -> None:
    """As a stream with a group does it once, else as a batch."""
    if "group" in given:
        source = RocketMQDataSource(given)
        stream = source.streamReader(source.schema())
        stream.commit(stream.latestOffset(stream.initialOffset(), None))
    else:
        assert batch_rows(**given) == []
