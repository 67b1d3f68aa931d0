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

__all__ = ["DeadLetters"]


class DeadLetters(BlockingClient):
    """The dead letters of one group: read, looked at, sent again (AsyncDeadLetters: for callers with an event loop).

    ::

        with DeadLetters("delays", namesrv_addr="127.0.0.1:9876") as letters:
            for letter in letters.read(topic="flights"):
                print(letter.message_id, letter.message.keys, letter.message.body)
            report = letters.replay_all(topic="flights")
            print(len(report.replayed), report.error)

    Args:
        group: whose dead letters.
        options: as CommonOptions says (``help(sprocketmq.CommonOptions)``): ``namesrv_addr``, ``access_key``, ...
        engine: whose thread runs the client; default one thread, shared by all blocking clients of the process.

    Raises:
        ConfigurationError: an option or the group's name is wrong.
    """

    def __init__(self, group: str, *, engine: Engine | None = None, **options: Unpack[CommonOptions]) -> None:
        self._async = AsyncDeadLetters(group, **options)
        super().__init__(engine)

    @property
    def topic(self) -> str:
        """``%DLQ%group``; any consumer may subscribe to it, too."""
        return self._async.topic

    def start(self) -> None:
        """Nothing is opened before the first request; here so that ``with`` reads like the other clients."""

    def shutdown(self) -> None:
        """Close all connections; a later request opens new ones."""
        self._run(self._async.shutdown())

    def count(self) -> int:
        """How many dead letters the brokers hold.

        Returns:
            Their number.

        Raises:
            GroupNotExist: no broker knows the group.
            ConfigurationError: the dead-letter topic exists, but is not readable; the sentence says what to do.
            RemoteError, NetworkError, RequestTimeout: the cluster cannot be asked.
        """
        return self._run(self._async.count())

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
        """The dead letters that are there now, oldest first (broker by broker); the conditions narrow it down, all must hold.

        Args:
            topic: first sent to this topic; default any.
            key: with this among its keys; default any.
            tags: with exactly these tags; default any.
            since_ms: dead since this time, milliseconds since 1970; default ever since.
            until_ms: dead before this time, milliseconds since 1970; default until now.
            start_offsets: per queue where to begin, as in ``ReplayReport.next_offsets``; other queues, and all by default, begin at their
                oldest letter.

        Yields:
            Each letter.

        Raises:
            GroupNotExist: no broker knows the group.
            ConfigurationError: the dead-letter topic exists, but is not readable; the sentence says what to do.
            RemoteError, NetworkError, RequestTimeout: the cluster cannot be asked.
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

    def get(self, message_id: str) -> DeadLetterMessage:
        """The letter with this ``message_id``; the newest of several.

        Args:
            message_id: of the message, or ``offset_message_id`` of the letter or of the first copy.

        Returns:
            The letter.

        Raises:
            ConfigurationError: there is none.
            RemoteError, NetworkError, RequestTimeout: the cluster cannot be asked.
        """
        return self._run(self._async.get(message_id))

    def replay(self, letter: DeadLetterMessage, *, topic: str | None = None) -> SendResult:
        """Send one letter again, to the topic it came from; the letter itself stays.

        Every group that subscribes to that topic gets it, with the message id it had and no failed tries.

        Args:
            letter: as ``read`` or ``get`` gave it.
            topic: send it there instead; default where it came from.

        Returns:
            The SendResult of the copy.

        Raises:
            ConfigurationError: nothing in the letter says where it came from, and no ``topic`` is given.
            RemoteError, NetworkError, RequestTimeout: it could not be sent (after a timeout it may have been).
        """
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
        """Replay every letter that ``read`` gives for these conditions, one after the other, up to the first that fails.

        Args:
            to_topic: send them there; default where each came from.
            topic: first sent to this topic; default any.
            key: with this among its keys; default any.
            tags: with exactly these tags; default any.
            since_ms: dead since this time, milliseconds since 1970; default ever since.
            until_ms: dead before this time, milliseconds since 1970; default until now.
            start_offsets: per queue where to begin, as in ``ReplayReport.next_offsets``; other queues, and all by default, begin at their
                oldest letter.

        Returns:
            What was done, and in ``error`` why it stopped early; RocketMQError is only raised where reading fails.

        Raises:
            GroupNotExist: no broker knows the group.
            ConfigurationError: the dead-letter topic exists, but is not readable; the sentence says what to do.
            RemoteError, NetworkError, RequestTimeout: the cluster cannot be asked.
        """
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
        """Forget all dead letters of the group, by deleting their topic. RocketMQ cannot delete single messages.

        The next letter makes the topic anew. What the log holds of them stays on the brokers' disks until retention takes it.

        Returns:
            How many there were.

        Raises:
            GroupNotExist: no broker knows the group.
            RemoteError, NetworkError, RequestTimeout: the cluster cannot be asked, or refused.
        """
        return self._run(self._async.purge())
