# SPDX-License-Identifier: Apache-2.0
"""Topics that are made, used and deleted while their broker is killed over and over. `StormLedger` has the first laws; about topics:

8. A topic whose deletion was acknowledged is not there after a kill, and no group has an offset in it. One whose creation was acknowledged
   is there.
9. A topic that was made again begins at offset 0 with the messages of its present life and none of an earlier one, and no group is beyond
   its end. What its present life acknowledged is at the offset that the answer named.

Each topic has one owner, who does one thing after the other; so at a kill at most one request about it is open, and either outcome of that
one is right. A topic whose deletion was cut off may be there with any part of its messages; it is deleted again before it is used.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from sprocketmq.net.connection import Connection
from sprocketmq.wire import headers
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.record import decode_records

Ask = Callable[..., Awaitable[Command]]

_GROUP: Final = "remakers"
_EACH: Final = 3  # topics of an owner
_THERE, _GONE, _CREATING, _DELETING = "there", "gone", "being created", "being deleted"


@dataclass
class Life:
    """One topic, from a creation to the next."""

    state: str = _GONE
    number: int = 0
    acknowledged: dict[int, bytes] = field(default_factory=dict)  # by offset


class StormTopics:
    """The books of such topics. ``ask(connection, code, header, body)`` asks the broker."""

    def __init__(self, dice: random.Random, ask: Ask, done: Counter[str]) -> None:
        self._dice, self._ask, self._done = dice, ask, done
        self._lives: dict[str, Life] = {}
        self._messages = 0

    async def remake(self, owner: int, connection: Connection) -> None:
        """One step of an owner: make a topic, send to it, or delete it."""
        name = f"storm-made-{owner}-{self._dice.randrange(_EACH)}"
        life = self._lives.setdefault(name, Life())
        if life.state == _GONE:
            life.state, life.number, life.acknowledged = _CREATING, life.number + 1, {}
            header = headers.CreateTopicRequestHeader(name, "TBW102", 1, 1, 6, topic_sys_flag=0)
            await self._fine(connection, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
            life.state = _THERE
            self._done["topic created"] += 1
            return
        if life.state == _THERE:
            for _ in range(self._dice.randrange(4)):
                await self._send(name, life, connection)
            if life.acknowledged and self._dice.random() < 0.7:
                end = max(life.acknowledged) + 1
                await self._ask(connection, RequestCode.PULL_MESSAGE, _pull_header(_GROUP, name, 0))  # makes the group
                commit = headers.UpdateConsumerOffsetRequestHeader(_GROUP, name, 0, end)
                await self._fine(connection, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            if self._dice.random() < 0.5:
                return
        life.state = _DELETING  # often right behind its message, which may be the newest record of the log
        await self._fine(connection, RequestCode.DELETE_TOPIC_IN_BROKER, headers.DeleteTopicRequestHeader(name))
        life.state = _GONE
        self._done["topic deleted"] += 1

    async def _send(self, name: str, life: Life, connection: Connection) -> None:
        self._messages += 1
        body = b"%d %d " % (life.number, self._messages) * self._dice.randrange(1, 30)
        header = headers.SendMessageRequestHeaderV2(_GROUP, name, "TBW102", 1, 0, 0, 1_700_000_000_000, 0, "")
        answer = await self._fine(connection, RequestCode.SEND_MESSAGE_V2, header, body)
        life.acknowledged[answer.header(headers.SendMessageResponseHeader).queue_offset] = body

    async def _fine(self, connection: Connection, code: int, header: Any, body: bytes = b"") -> Command:
        answer = await self._ask(connection, code, header, body)
        assert answer.code == 0, f"{answer.code}: {answer.remark}"
        return answer

    async def broken(self, connection: Connection) -> list[str]:
        """The laws that do not hold after a restart, one sentence each."""
        broken: list[str] = []
        for name, life in self._lives.items():
            broken += await self._broken(connection, name, life)
        return broken

    async def _broken(self, connection: Connection, name: str, life: Life) -> list[str]:
        found = await self._bodies(connection, name)
        query = headers.QueryConsumerOffsetRequestHeader(_GROUP, name, 0, set_zero_if_not_found=False)
        answer = await self._ask(connection, RequestCode.QUERY_CONSUMER_OFFSET, query)
        committed = int(answer.ext_fields["offset"]) if answer.code == 0 else 0
        if found is None:
            if life.state == _THERE:
                return [f"topic {name} was created and is not there"]
            life.state = _GONE
            return [f"topic {name} is gone, group {_GROUP} is at {committed}"] if committed else []
        if life.state == _GONE:
            return [f"topic {name} was deleted and is there with {len(found)} messages"]
        if life.state == _DELETING:
            return []
        life.state = _THERE
        broken = [
            f"topic {name}: message {found.get(offset)!r} is at {offset}, where {body!r} was acknowledged"
            for offset, body in life.acknowledged.items()
            if found.get(offset) != body
        ]
        if sorted(found) != list(range(len(found))):
            broken.append(f"topic {name} has the offsets {sorted(found)[:3]} to {max(found)}, {len(found)} of them")
        if any(int(body.split()[0]) != life.number for body in found.values()):
            broken.append(
                f"topic {name} has messages of an earlier life than {life.number}: {list(found.values())[:3]}"
            )
        if committed > len(found):
            broken.append(f"topic {name} ends at {len(found)}, group {_GROUP} is at {committed}")
        return broken

    async def _bodies(self, connection: Connection, name: str) -> dict[int, bytes] | None:
        """By offset; None: there is no such topic."""
        found: dict[int, bytes] = {}
        at = 0
        while True:
            answer = await self._ask(connection, RequestCode.PULL_MESSAGE, _pull_header("audit", name, at))
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            if answer.code == ResponseCode.PULL_NOT_FOUND:
                return found
            assert "nextBeginOffset" in answer.ext_fields, f"{name}: {answer.code} {answer.remark}"
            if answer.code != 0 and int(answer.ext_fields["nextBeginOffset"]) == at:
                return found
            if answer.code == 0:
                found.update({message.queue_offset: bytes(message.body) for message in decode_records(answer.body)})
            at = int(answer.ext_fields["nextBeginOffset"])


def _pull_header(group: str, topic: str, at: int) -> headers.PullMessageRequestHeader:
    return headers.PullMessageRequestHeader(group, topic, 0, at, 1_000, 4, 0, 0, 0, "*", "TAG")
