# SPDX-License-Identifier: Apache-2.0
"""Every request code x who asks x 4.9 and 5.x x fields missing, empty, of other types, paths: refused, nothing done, nothing read.

A request that an account may not make never reaches its handler, has no effect on the broker's tables or on any byte on its disk, and its
answer holds nothing. Tables and disk are compared after each code; when they differ, the requests of that code are asked again one by one.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_hostile_values import state

from interop.hostile_requests import served_codes, templates
from sprocketmq.broker import broker as broker_module
from sprocketmq.broker.handlers import HANDLERS
from sprocketmq.wire.bodies import PolicyEntryInfo, PolicyInfo, UserInfo
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.acl_signature import signed_fields
from sprocketmq.wire.records.record import RecordView
from sprocketmq.wire.records.sys_flag import TRANSACTION_PREPARED_TYPE

pytestmark = pytest.mark.slow

SECRET = b"what only the readers of compared may see"
KEYS = {"boss": ("Boss7777", "boss-secret"), "nobody": ("Nobody77", "nobody-secret"), "denied": ("Denied77", "denied-secret"),
        "other": ("Other777", "other-secret")}  # fmt: skip
ASKERS = ("unsigned", "nobody", "denied", "other")
ACCOUNTS: dict[str, dict[str, Any]] = {
    "boss": {"admin": True},
    "nobody": {},
    "denied": {"defaultTopicPerm": "DENY", "defaultGroupPerm": "DENY", "topicPerms": ["compared=DENY"], "groupPerms": ["readers=DENY"]},
    "other": {"topicPerms": ["mine=PUB|SUB"], "groupPerms": ["my-group=SUB"]},
}  # fmt: skip
POLICIES = {
    "denied": [PolicyEntryInfo("*", ["All"], None, "Deny")],
    "other": [
        PolicyEntryInfo("Topic:mine", ["All"], None, "Allow"),
        PolicyEntryInfo("Group:my-group", ["All"], None, "Allow"),
    ],
}
SETTINGS = {
    "4.9": {"acl_enable": True},
    "5.x": {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": '{"username":"Boss7777","password":"boss-secret"}',
    },
}
VALUES = (
    None,
    "",
    " ",
    "abc",
    "-1",
    "0",
    "9" * 30,
    "[]",
    "\x00",
    "../..",
    "/etc",
    "%RETRY%",
    "%RETRY%readers",
    "x" * 300,
)
BODIES = (b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b"{}", b'{"":[],"groupName":"readers"}', b'{"groupName":["readers"]}',
          b'{"groupName":"my-group","groupName":"readers"}', b'{"groupConfigList":[null]}', b'{"topicConfigList":{"topicName":"compared"}}',
          b'{"consumerGroup":"readers","clientId":"c","mqSet":null}')  # fmt: skip
# Who has an account may ask for the settings, and may leave a producer group; where nothing begins at a place, nothing is done or read.
MAY_REACH = {26, 33, 35, 37, 323}
REFUSALS = {
    ResponseCode.NO_PERMISSION,
    ResponseCode.INVALID_PARAMETER,
}  # the second one by the door for names, in front of the gate
BY_PLACE = {33, 36, 37, 309, 323}
OWN = {"compared": "mine", "readers": "my-group"}

BY_CODE = defaultdict(list)
for _asked in templates():
    if ("broker", _asked.code) in served_codes() and _asked.to == "broker":
        BY_CODE[_asked.code].append(_asked)


both_generations = pytest.mark.parametrize("disk_cluster", SETTINGS.values(), ids=SETTINGS, indirect=True)


@pytest.fixture
def accounts(tmp_path: Path) -> None:
    """Ask for it before the cluster."""
    path = tmp_path / "store/config/plain_acl.yml"
    path.parent.mkdir(parents=True)
    content = [{"accessKey": key, "secretKey": KEYS[name][1], **ACCOUNTS[name]} for name, (key, _) in KEYS.items()]
    path.write_text(yaml.safe_dump({"accounts": content}))


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes of requests that came to their handlers. Ask for it before the cluster."""
    codes: list[int] = []

    def spy(handler: Any) -> Any:
        def handle(broker: Any, connection: Any, command: Any, now_ms: int) -> Any:
            codes.append(command.code)
            return handler(broker, connection, command, now_ms)

        return handle

    monkeypatch.setattr(broker_module, "HANDLERS", {code: spy(handler) for code, handler in HANDLERS.items()})
    return codes


def make_users(broker: Any) -> None:
    table = broker.users.table
    for name in ("nobody", "denied", "other"):
        table.create_user(UserInfo(*KEYS[name]))
    for name, entries in POLICIES.items():
        table.update_acl(KEYS[name][0], [PolicyInfo("Custom", entries)])
    broker.users.save()


class Asking:
    """One client; asks as an account and keeps what was wrong."""

    def __init__(self, cluster: Any, name: str) -> None:
        self.client, self.name = cluster.client(), name

    def begin(self, code: int, fields: dict[str, str], body: bytes = b"") -> Any:
        keys = KEYS.get(self.name)
        ext = fields if keys is None else signed_fields(fields, body, *keys)
        return self.client.begin(code, None, body, ext_fields=ext)

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Any:
        return self.begin(code, fields, body).result(10)


def send_fields(topic: str, **more: str) -> dict[str, str]:
    return {
        "a": "writers",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": "",
        **more,
    }


@pytest.fixture
def places(disk_cluster):
    """Messages of compared, whole and half, a delayed one, a group with progress and a member, one of mine; the places of the first two."""
    if disk_cluster.broker.config.authentication_enabled:
        disk_cluster.on_loop(lambda: make_users(disk_cluster.broker))
    boss = Asking(disk_cluster, "boss")
    half = {"f": str(TRANSACTION_PREPARED_TYPE), "i": "TRAN_MSG\x01true\x02PGROUP\x01writers\x02UNIQ_KEY\x01k\x02"}
    for fields in (send_fields("compared", i="KEYS\x01key-1\x02"), send_fields("compared", **half),
                   send_fields("compared", i="DELAY\x013\x02"), send_fields("mine")):  # fmt: skip
        assert boss.ask(310, fields, SECRET).code == 0
    (heartbeat,) = BY_CODE[34][:1]
    assert boss.ask(34, {}, heartbeat.body.replace(b"second-readers", b"readers")).code == 0
    assert (
        boss.ask(15, {"consumerGroup": "readers", "topic": "compared", "queueId": "0", "commitOffset": "1"}).code == 0
    )
    store = disk_cluster.broker.store
    whole, halves = (
        store.units(topic, 0, 0, 1)[0].physical_offset for topic in ("compared", "RMQ_SYS_TRANS_HALF_TOPIC")
    )
    assert RecordView(store.record_at(whole)).topic == "compared"
    disk_cluster.engine.run(disk_cluster.broker.index_building.catch_up())
    disk_cluster.engine.run(disk_cluster.broker.config_store.saved())
    return whole, halves


def requests_of(code: int, places: tuple[int, int], asker: str) -> list[tuple[dict[str, str], bytes]]:
    """What is asked of one code, each beside the well-formed one in one place."""
    whole, half = places
    found: list[tuple[dict[str, str], bytes]] = []
    for asked in BY_CODE[code][:3]:
        fields = {name: "compared" if text.endswith("_REPLY_TOPIC") else text for name, text in asked.fields.items()}
        if code in BY_PLACE:
            fields = {**fields, **{name: place for name, place in (("offset", str(whole)), ("commitLogOffset", str(half)),
                      ("msgId", f"7F00000100002A9F{whole:016X}")) if name in fields}}  # fmt: skip
        found.append((fields, asked.body))
        for name in fields:
            others = {key: text for key, text in fields.items() if key != name}
            found += [(others if value is None else {**others, name: value}, asked.body) for value in VALUES]
            if fields[name] in OWN and len({text for text in fields.values() if text in OWN}) > 1:
                found.append(({**fields, name: OWN[fields[name]]}, asked.body))
        if code in BY_PLACE and asker == "other":
            found.append(({name: OWN.get(text, text) for name, text in fields.items()}, asked.body))
            found.append(
                ({name: OWN.get(text, text) for name, text in fields.items() if text != "compared"}, asked.body)
            )
        found += [(fields, body) for body in BODIES]
        if b"compared" in asked.body and b"readers" in asked.body:
            for name, own in OWN.items():
                found.append((fields, asked.body.replace(name.encode(), own.encode())))
        found.append(({}, asked.body))
    return found


def fingerprint(cluster: Any) -> dict[str, Any]:
    """Everything that a refused request leaves alone: the tables, and each byte of the store's directory."""

    def tables() -> dict[str, Any]:
        broker = cluster.broker
        return {
            "members": repr({name: sorted(m.client_id for m in group.members.values()) for name, group in broker.consumers.groups.items()}),
            "producers": repr({name: len(members) for name, members in broker.producers.groups.items()}),
            "modes": broker.request_modes.content().encode(),
            "handover": broker.handover.status().encode(),
            "accounts": repr(broker.plain_access and broker.plain_access.accounts()),
            "halves": broker.transactions.half_at(0),
        }  # fmt: skip

    files = {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(cluster.store_dir).rglob("*"))
        if path.is_file() and path.name != "checkpoint"  # it says how far the disk is good, which moves on by itself
    }
    return {**state(cluster), **cluster.on_loop(tables), **files}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def wrong(code: int, answer: Any, came: int) -> str | None:
    """What is wrong with the answer to a request that should have been refused."""
    told = bytes(answer.body) + repr(answer.ext_fields).encode()
    if SECRET in told or b"secret" in told.lower():
        return "read what is not for it"
    if came and code not in MAY_REACH:
        return f"was served, with code {answer.code}"
    if not came and (answer.code not in REFUSALS or answer.body or not answer.remark):
        return f"code {answer.code}, {answer.remark}, {len(answer.body)} bytes"
    return None


@pytest.mark.parametrize("asker", ASKERS)
@both_generations
def test_no_request_code_does_or_shows_anything_without_the_right(accounts, reached, disk_cluster, places, asker):
    client, found = Asking(disk_cluster, asker), []
    before = fingerprint(disk_cluster)
    for code in sorted(BY_CODE):
        asked = requests_of(code, places, asker)
        reached.clear()
        answers = [future.result(20) for future in [client.begin(code, *one) for one in asked]]
        whole = len(reached)
        after = fingerprint(disk_cluster)
        if not whole and not differences(before, after):
            found += [
                (code, one, problem)
                for one, answer in zip(asked, answers, strict=True)
                if (problem := wrong(code, answer, 0))
            ]
            continue
        for one in asked:
            reached.clear()
            answer = client.ask(code, *one)
            problem = wrong(code, answer, len(reached))
            if problem is not None:
                found.append((code, one, problem))
        if differences(before, after):
            found.append((code, "one of them", f"changed {differences(before, after)}"))
            before = fingerprint(disk_cluster)
    shown = {code: (number, one) for number, (code, *one) in enumerate(found)}  # one of each code
    assert not found, f"{len(found)} requests of codes {sorted(shown)}: " + "\n".join(map(repr, shown.items()))


def test_the_requests_of_this_test_cover_every_code_that_is_served():
    assert {code for to, code in served_codes() if to == "broker"} == set(BY_CODE)
    assert set(BY_CODE) == {int(code) for code in HANDLERS}
    assert all(isinstance(RequestCode(code), RequestCode) for code in BY_CODE)
