# SPDX-License-Identifier: Apache-2.0
"""What the groups of one connection subscribe to is limited in all, however many heartbeats bring it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sprocketmq.broker.handlers import limits

GROUPS = 30


def heartbeat(client, *groups: dict[str, Any]):
    body = {"clientID": "stranger", "consumerDataSet": list(groups), "producerDataSet": []}
    return client.ask(34, None, json.dumps(body).encode())


def group(number: int, *subscriptions: dict[str, Any], version: int = 1) -> dict[str, Any]:
    return {"groupName": f"g{number}", "subscriptionDataSet": [{"subVersion": version, **one} for one in subscriptions]}


def codes(number: int) -> list[dict[str, Any]]:
    return [{"topic": "t", "subString": "a", "codeSet": list(range(10))}]


def tags(number: int) -> list[dict[str, Any]]:
    return [{"topic": "t", "subString": "a", "tagsSet": [f"tag-{each}" for each in range(10)]}]


def topics(number: int) -> list[dict[str, Any]]:
    return [{"topic": f"t{each}", "subString": "*"} for each in range(10)]


def texts(number: int) -> list[dict[str, Any]]:
    return [{"topic": "t", "subString": "a" * 10}]


@pytest.mark.parametrize(
    ("subscriptions", "limit", "most"),
    [
        (codes, "_MOST_TAGS", 100),
        (tags, "_MOST_TAGS", 100),
        (topics, "_MOST_SUBSCRIPTIONS", 100),
        (texts, "MAX_REQUEST_BYTES", 110),
    ],
)
def test_many_heartbeats_leave_no_more_behind_than_one(cluster, client, monkeypatch, subscriptions, limit, most):
    monkeypatch.setattr(limits, limit, most)
    answers = [heartbeat(client, group(number, *subscriptions(number))) for number in range(GROUPS)]
    assert [answer.code for answer in answers] == [0] * 10 + [1] * (GROUPS - 10)
    assert f"{most} are allowed; use more clients" in answers[-1].remark
    assert len(cluster.broker.consumers.groups) == 10
    # Who stays within the limit may go on: a group that is named again counts as it is then.
    assert heartbeat(client, *(group(number, *subscriptions(number), version=2) for number in range(10))).code == 0
    assert heartbeat(client, *(group(number, version=3) for number in range(10))).code == 0
    assert heartbeat(client, group(GROUPS, *subscriptions(GROUPS))).code == 0
