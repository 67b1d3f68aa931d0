# SPDX-License-Identifier: Apache-2.0
"""What administrators make, change and delete while servers are killed over and over: groups, users, policies, keys. `StormLedger` has
the other laws; about these:

10. After a kill each has the value of its last acknowledged request: what was made or changed is there as it was asked for last, what was
    deleted is not there. Of a request that the kill cut off either outcome is right.

    group     UPDATE_AND_CREATE_SUBSCRIPTIONGROUP 200, DELETE_SUBSCRIPTIONGROUP 207; its value is retryMaxTimes
    forbidden UPDATE_AND_GET_GROUP_FORBIDDEN 353: a topic taken away from a group, and given back
    user      AUTH_CREATE_USER 3001, AUTH_UPDATE_USER 3002, AUTH_DELETE_USER 3003; the password
    policy    AUTH_UPDATE_ACL 3007, AUTH_DELETE_ACL 3008: one resource of an owner's user; the source address
    key       PUT_KV_CONFIG 100, DELETE_KV_CONFIG 102 of the name server

Each name has one owner, who does one thing after the other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import msgspec

from sprocketmq.net.connection import Connection
from sprocketmq.wire import bodies, headers
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command

Ask = Callable[..., Awaitable[Command]]

_OWNERS: Final = 4
_EACH: Final = 3  # names of an owner, of each kind
_NAMESPACE: Final = "STORM"
_READER: Final = "storm-readers"
_FORBIDDEN: Final = "forbidden"


class Asked(NamedTuple):
    """One request of an administrator."""

    code: int
    header: Any
    body: bytes = b""


class StormTables:
    """The books of such names. ``ask(connection, code, header, body)`` asks a server."""

    KINDS: Final = ("group", "forbidden", "user", "policy", "key")

    def __init__(self, dice: random.Random, ask: Ask, done: Counter[str]) -> None:
        self._dice, self._ask, self._done = dice, ask, done
        # (kind, name) -> the values that it may have, of which None is "not there": one, or two while a request is open
        self._allowed: dict[tuple[str, str], tuple[str | None, ...]] = {}
        self._numbers = 0

    async def create_users(self, connection: Connection) -> None:
        """Once, on a new store: who the policies are for."""
        for owner in range(_OWNERS):
            body = bodies.UserInfo(password="password").encode()
            await self._fine(
                connection, Asked(RequestCode.AUTH_CREATE_USER, headers.UserRequestHeader(_user(owner)), body)
            )

    async def change(self, owner: int, broker: Connection, namesrv: Connection) -> None:
        """One step of an owner: make, change or delete something."""
        kind, number = self._dice.choice(self.KINDS), self._dice.randrange(_EACH)
        name = f"storm-{kind}-{owner}-{number}"
        (before,) = self._allowed.get((kind, name), (None,))
        self._numbers += 1
        after = None if before is not None and self._dice.random() < 0.5 else _value(kind, self._numbers)
        self._allowed[kind, name] = (before, after)
        if after is None:
            asked, what = _deletion(kind, owner, name), "deleted"
        else:
            asked, what = _change(kind, owner, name, after, is_new=before is None), "made or changed"
        await self._fine(namesrv if kind == "key" else broker, asked)
        self._allowed[kind, name] = (after,)
        self._done[f"{kind} {what}"] += 1

    async def broken(self, broker: Connection, namesrv: Connection) -> list[str]:
        """Where law 10 does not hold after a restart, one sentence each."""
        found = {
            "group": await self._groups(broker),
            "forbidden": await self._forbidden(broker),
            "user": await self._users(broker),
            "policy": await self._policies(broker),
            "key": await self._keys(namesrv),
        }
        return self.judge(found)

    def judge(self, found: dict[str, dict[str, str]]) -> list[str]:
        """``found`` has the values by kind and name."""
        broken = []
        for (kind, name), allowed in self._allowed.items():
            value = found[kind].get(name)
            if value not in allowed:
                broken.append(f"{kind} {name} is {value!r}, acknowledged was {allowed[0]!r}")
            self._allowed[kind, name] = (value,)
        return broken

    # -- what is there -----------------------------------------------------------------------------------------------------------

    async def _groups(self, broker: Connection) -> dict[str, str]:
        header = headers.GetAllSubscriptionGroupRequestHeader()
        answer = await self._fine(broker, Asked(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header))
        table = bodies.SubscriptionGroupWrapper.decode(answer.body).subscription_group_table
        return {name: str(group.retry_max_times) for name, group in table.items()}

    async def _forbidden(self, broker: Connection) -> dict[str, str]:
        header = headers.GetAllSubscriptionGroupRequestHeader()
        answer = await self._fine(broker, Asked(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header))
        return dict.fromkeys(
            bodies.SubscriptionGroupWrapper.decode(answer.body).forbidden_table.get(_READER, ()), _FORBIDDEN
        )

    async def _users(self, broker: Connection) -> dict[str, str]:
        answer = await self._fine(broker, Asked(RequestCode.AUTH_LIST_USER, headers.ListUsersRequestHeader()))
        users = msgspec.json.decode(answer.body, type=list[bodies.UserInfo])
        return {user.username or "": user.password or "" for user in users}

    async def _policies(self, broker: Connection) -> dict[str, str]:
        answer = await self._fine(broker, Asked(RequestCode.AUTH_LIST_ACL, headers.ListAclsRequestHeader()))
        return {
            (entry.resource or "").partition(":")[2]: (entry.source_ips or [""])[0]
            for acl in (msgspec.json.decode(answer.body, type=list[bodies.AclInfo]) if answer.body else ())
            for policy in acl.policies or ()
            for entry in policy.entries or ()
        }

    async def _keys(self, namesrv: Connection) -> dict[str, str]:
        header = headers.GetKVListByNamespaceRequestHeader(_NAMESPACE)
        answer = await self._ask(namesrv, RequestCode.GET_KVLIST_BY_NAMESPACE, header)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        assert answer.code == 0, f"{answer.code}: {answer.remark}"
        return bodies.KVTable.decode(answer.body).table

    async def _fine(self, connection: Connection, asked: Asked) -> Command:
        answer = await self._ask(connection, *asked)
        assert answer.code == 0, f"request code {asked.code}: {answer.code} {answer.remark}"
        return answer


def _user(owner: int) -> str:
    return f"storm-owner-{owner}"


def _value(kind: str, number: int) -> str:
    if kind == "forbidden":
        return _FORBIDDEN
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" if kind == "policy" else str(number)


def _change(kind: str, owner: int, name: str, value: str, *, is_new: bool) -> Asked:
    if kind == "group":
        group = bodies.SubscriptionGroupConfig(group_name=name, retry_max_times=int(value))
        return Asked(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group.encode())
    if kind == "forbidden":
        header = headers.UpdateGroupForbiddenRequestHeader(_READER, name, readable=False)
        return Asked(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
    if kind == "user":
        code = RequestCode.AUTH_CREATE_USER if is_new else RequestCode.AUTH_UPDATE_USER
        return Asked(code, headers.UserRequestHeader(name), bodies.UserInfo(password=value).encode())
    if kind == "policy":
        entry = bodies.PolicyEntryInfo(f"Topic:{name}", ["Pub"], [value], "Allow")
        subject = f"User:{_user(owner)}"
        body = bodies.AclInfo(subject, [bodies.PolicyInfo("Custom", [entry])]).encode()
        return Asked(RequestCode.AUTH_UPDATE_ACL, headers.AclSubjectRequestHeader(subject), body)
    return Asked(RequestCode.PUT_KV_CONFIG, headers.PutKVConfigRequestHeader(_NAMESPACE, name, value))


def _deletion(kind: str, owner: int, name: str) -> Asked:
    if kind == "group":
        return Asked(
            RequestCode.DELETE_SUBSCRIPTIONGROUP, headers.DeleteSubscriptionGroupRequestHeader(name, True, True)
        )
    if kind == "forbidden":
        header = headers.UpdateGroupForbiddenRequestHeader(_READER, name, readable=True)
        return Asked(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
    if kind == "user":
        return Asked(RequestCode.AUTH_DELETE_USER, headers.UserRequestHeader(name))
    if kind == "policy":
        return Asked(
            RequestCode.AUTH_DELETE_ACL,
            headers.DeleteAclRequestHeader(f"User:{_user(owner)}", "Custom", f"Topic:{name}"),
        )
    return Asked(RequestCode.DELETE_KV_CONFIG, headers.DeleteKVConfigRequestHeader(_NAMESPACE, name))
