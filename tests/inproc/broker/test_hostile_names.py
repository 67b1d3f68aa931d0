# SPDX-License-Identifier: Apache-2.0
"""Names that are paths, in every field of every request and in every text of its body, at a broker and a name server with a disk.

Whatever is answered: nothing is deleted, made or changed outside of the store, what is inside keeps its shape, and no table knows a name
that could lead elsewhere.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from inproc.broker.conftest import Cluster, Fields
from interop.hostile_requests import served_codes, templates
from sprocketmq.broker.security.name_checks import NAMES, TEXTS
from sprocketmq.errors import ProtocolError
from sprocketmq.wire import headers
from sprocketmq.wire.headers.ext_header import ExtHeader
from sprocketmq.wire.text import fastjson

OUTSIDE = "outside"  # stands for the path of a folder that is none of the broker's business
PATHS = (
    "../..",
    "..",
    ".",
    OUTSIDE,
    "../outside",
    "../../outside",
    "..\\..",
    "a/b",
    "a\\b",
    "C:\\x",
    "\x00",
    "a\x00b",
    "a\nb",
)
BY_CODE = defaultdict(list)
for _asked in templates():
    BY_CODE[_asked.to, _asked.code].append(_asked)

SHAPE = re.compile(
    r"abort|checkpoint|lock|tables|timerwheel|timercheck"
    r"|(commitlog|index|timerlog)(/\d+)?"
    r"|config(/[A-Za-z]+(_acl)?\.?[a-z]*(\.(bak|tmp))?)?"
    r"|consumequeue(_ext)?(/[%|a-zA-Z0-9_+-]+(/\d+(/\d{20})?)?)?"
)


@pytest.fixture(scope="module")
def busy(tmp_path_factory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("machine")
    for place in ("outside/a/0", "outside/b", "store/kept"):
        (root / place).mkdir(parents=True)
        (root / place / "precious").write_text(place)
    sizes = {"mapped_file_size_commit_log": 1 << 22, "mapped_file_size_consume_queue": 20_000}
    settings = {"max_hash_slot_num": 1_000, "max_index_num": 4_000, "enable_consume_queue_ext": True}
    made = Cluster(str(root / "store" / "of" / "broker"), {**sizes, **settings, "enable_property_filter": True})
    client = made.client()
    client.send("compared", properties={"KEYS": "key-1"})
    client.heartbeat("somebody", group="readers", topics={"compared": "*"}, producer="writers")
    client.pull("readers", "compared", 0, 0, commit_offset=1)
    yield made
    made.close()


def outside(cluster: Cluster) -> dict[str, str]:
    """All that is on the "machine" beside the store: its path, and what a file holds."""
    store, found = str(cluster.store_dir), {}
    for folder, _, names in os.walk(os.path.join(store, "../../..")):
        folder = os.path.realpath(folder)
        if not (folder + "/").startswith(store + "/"):
            found[folder] = ""
            for name in names:
                with open(os.path.join(folder, name)) as file:
                    found[os.path.join(folder, name)] = file.read()
    return found


def inside(cluster: Cluster) -> set[str]:
    store = str(cluster.store_dir)
    return {
        os.path.relpath(os.path.join(folder, name), store)
        for folder, folders, names in os.walk(store)
        for name in (*folders, *names)
    }


def known_names(cluster: Cluster) -> set[str]:
    """What brokers and name servers keep by name."""
    broker, server = cluster.broker, cluster.namesrv
    committed = [part for key in broker.offsets._committed for part in key.rpartition("@")[::2]]
    brokers = server.table.cluster_info(0)
    return {
        *broker.topics.table,
        *(topic.topic_name for topic in broker.topics.table.values()),
        *broker.groups.table,
        *broker.groups.forbidden,
        *(topic for topics in broker.groups.forbidden.values() for topic in topics),
        *committed,
        *broker.consumers.groups,
        *broker.timers.metrics,
        *(topic for topic, _ in broker.store.queues()),
        *broker.request_modes.content().message_request_mode_map,
        *server.table.topics(),
        *brokers.broker_addr_table,
        *brokers.cluster_addr_table,
        *server.kv_config._table,
    }


def with_paths(value: Any, bad: str) -> Iterator[Any]:
    """``value`` with one text, or one key, of it changed into ``bad``, in every way."""
    if isinstance(value, str):
        yield bad
    elif isinstance(value, list):
        for index, part in enumerate(value):
            for changed in with_paths(part, bad):
                yield [*value[:index], changed, *value[index + 1 :]]
    elif isinstance(value, dict):
        for key, part in value.items():
            yield {(bad if other == key else other): kept for other, kept in value.items()}
            for changed in with_paths(part, bad):
                yield {**value, key: changed}


def bodies(body: bytes, bad: str) -> Iterator[bytes]:
    try:
        parsed = fastjson.loads(body)
    except ProtocolError:
        if b"=" in body:  # settings
            for line in body.splitlines():
                key = line.partition(b"=")[0]
                yield key + b"=" + bad.encode() + b"\n"
        return
    for changed in with_paths(parsed, bad):
        yield json.dumps(changed).encode()


@pytest.mark.parametrize(("to", "code"), sorted(served_codes()))
def test_no_request_reaches_a_file_that_is_not_the_stores(busy, to, code):
    asker = {"broker": busy.client(), "namesrv": busy.namesrv_client()}[to]
    away = os.path.realpath(os.path.join(str(busy.store_dir), "../../../outside"))
    before = outside(busy)
    log = os.listdir(os.path.join(str(busy.store_dir), "commitlog"))

    def ask(fields: dict[str, str], body: bytes) -> None:
        if code == 37:  # nobody answers it
            asker.tell(code, Fields(fields), body)
        else:
            asker.ask(code, None, body, ext_fields=fields)

    for asked in BY_CODE[to, code]:
        for path in PATHS:
            bad = away if path is OUTSIDE else path
            for field in asked.fields:
                ask({**asked.fields, field: bad}, asked.body)
            for body in bodies(asked.body, bad):
                ask(asked.fields, body)
    if to == "broker":
        asker.ask(30, Fields({"topic": "compared", "queueId": "0"}))  # behind all of them
    assert outside(busy) == before, "something outside of the store was changed"
    assert [path for path in sorted(inside(busy)) if SHAPE.fullmatch(path) is None] == []
    assert set(log) <= set(os.listdir(os.path.join(str(busy.store_dir), "commitlog")))
    names = busy.on_loop(lambda: known_names(busy))
    assert [name for name in names if re.search(r"[\x00-\x1f/\\]", name) or name in (".", "..")] == []


def test_every_field_of_every_header_is_a_name_or_listed_as_another():
    """A new header with a new kind of name has to say so."""
    plain = {
        "a", "accessKey", "aclFileFullPath", "addressList", "allAclFileVersion", "attributes", "b", "batchUniqId", "bornHost",
        "boundaryType", "brokerAddr", "c", "clientAddr", "dataVersion", "defaultGroupPerm", "defaultTopicPerm", "expressionType",
        "filter", "filterGroups", "globalWhiteAddrs", "groupPerms", "haBrokerAddr", "haServerAddr", "i", "indexType",
        "masterAddr", "masterAddress", "masterHaAddress", "minBrokerAddr", "msgId", "n", "offlineBrokerAddr", "offsetMsgId",
        "originMsgId", "policyType", "properties", "proxyFrowardClientId", "recallHandle", "resource", "resourceFilter",
        "secretKey", "step", "storeHost", "subject", "subjectFilter", "subscription", "topicFilterType", "topicList",
        "topicPerms", "transactionId", "value", "version", "whiteRemoteAddress",
    }  # fmt: skip
    texts = set()
    for name in dir(headers):
        header = getattr(headers, name)
        if isinstance(header, type) and issubclass(header, ExtHeader):
            hints = header.__annotations__
            fields = zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True)
            texts |= {sent for field, sent in fields if "str" in str(hints.get(field))}
    assert texts - NAMES - TEXTS - plain == set()
    assert {"topic", "consumerGroup", "brokerName"} <= texts
