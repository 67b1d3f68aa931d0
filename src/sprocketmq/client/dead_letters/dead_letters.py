# SPDX-License-Identifier: Apache-2.0
"""The blocking form of AsyncDeadLetters: each method runs its async twin on the engine's loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sprocketmq.client.blocking_client import BlockingClient
from sprocketmq.client.dead_letters.async_dead_letters import AsyncDeadLetters
from sprocketmq.client.dead_letters.dead_letter_message import DeadLetterMessage, ReplayReport
from sprocketmq.client.results import SendResult
from sprocketmq.net.process.engine import Engine
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from typing import Unpack

    from sprocketmq.client.keyword_options import CommonOptions


class DeadLetters(BlockingClient[AsyncDeadLetters]):
    """The dead letters of one group: read, looked at, sent again (AsyncDeadLetters: for callers with an event loop).

    ::

        with DeadLetters("delays", namesrv_addr="127.0.0.1:9876") as letters:
            for letter in letters.read(topic="flights"):
                print(letter.message_id, letter.message.keys, letter.message.body)
            report = letters.replay_all(topic="flights")

    Args:
        group: the consumer group.
        options: the options of CommonOptions (``help(sprocketmq.CommonOptions)``): ``namesrv_addr``, ``access_key``, ...
        engine: the engine whose thread runs the client; default: one engine for all blocking clients of the process.

    Raises:
        ConfigurationError: an option or the group's name is invalid.

    Every method that selects letters takes conditions (``topic``, ``key``, ``tags``; ``since_ms`` and ``until_ms`` in milliseconds
    since 1970; ``start_offsets``) as ``read`` explains them; default: all letters.

    Every method raises GroupNotExist (no broker knows the group), ConfigurationError (the dead letter topic exists, but is not readable;
    the message says what to do), and RemoteError, NetworkError or RequestTimeout (a server refused or did not answer).
    """

    def __init__(self, group: str, *, engine: Engine | None = None, **options: Unpack[CommonOptions]) -> None:
        super().__init__(AsyncDeadLetters(group, **options), engine)

    def start(self) -> None:
        """Do nothing: connections open with the first request. It exists for ``with``."""

    def shutdown(self) -> None:
        """Close all connections; a later request opens new ones."""
        self._run_shutdown()

    def read(
        self,
        *,
        topic: str | None = None,
        key: str | None = None,
        tags: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        start_offsets: Mapping[MessageQueue, int] | None = None,
    ) -> Iterator[DeadLetterMessage]:
        """The dead letters that are stored now and meet all conditions, broker by broker, the oldest first.

        Args:
            topic, key: only letters that were first sent to this topic, or have this key; default: any.
            tags: only letters with exactly these tags; default: any.
            since_ms, until_ms: only letters that became dead letters from the one time on and before the other, in milliseconds
                since 1970; default: no limit.
            start_offsets: where to begin, as in ``ReplayReport.next_offsets``; default for each queue: its oldest letter.
        """
        letters = self._async.read(
            topic=topic, key=key, tags=tags, since_ms=since_ms, until_ms=until_ms, start_offsets=start_offsets
        )

        async def following() -> DeadLetterMessage | None:
            return await anext(letters, None)

        try:
            while (letter := self._run(following())) is not None:
                yield letter
        finally:
            self._run(letters.aclose())

    # Written by `make generate` from here on, from the methods of AsyncDeadLetters.

    @property
    def topic(self) -> str:
        """The dead letter topic, ``%DLQ%group``. Consumers can subscribe to it, too."""
        return self._async.topic

    def count(self) -> int:
        """The number of stored dead letters of the group."""
        return self._run(self._async.count())

    def get(self, message_id: str) -> DeadLetterMessage:
        """The newest dead letter with this id: the message id, or the offset message id of the dead letter or of the first copy.
        Raises ConfigurationError (there is none)."""
        return self._run(self._async.get(message_id))

    def replay(self, letter: DeadLetterMessage, *, topic: str | None = None) -> SendResult:
        """Send one dead letter, which itself remains, to ``topic`` (default: the original). Every group that subscribes to
        that topic gets the message, with its original message id and no failed tries. Raises ConfigurationError (the
        original topic is not known, and no ``topic`` is given). After a timeout it may be stored nevertheless."""
        return self._run(self._async.replay(letter, topic=topic))

    def replay_all(
        self,
        *,
        to_topic: str | None = None,
        topic: str | None = None,
        key: str | None = None,
        tags: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        start_offsets: Mapping[MessageQueue, int] | None = None,
    ) -> ReplayReport:
        """Replay what ``read`` returns for these conditions to ``to_topic`` (default: the original topic of each), until one
        fails. Returns what was replayed, and in ``error`` why it stopped early; only failed reads raise."""
        return self._run(
            self._async.replay_all(
                to_topic=to_topic,
                topic=topic,
                key=key,
                tags=tags,
                since_ms=since_ms,
                until_ms=until_ms,
                start_offsets=start_offsets,
            )
        )

    def purge(self) -> int:
        """Delete all dead letters with their topic, as RocketMQ cannot delete single messages, and return their number. The
        next one creates the topic again. The commit logs keep the messages until their files expire."""
        return self._run(self._async.purge())
