# SPDX-License-Identifier: Apache-2.0
"""The store of progress: the broker for clustering, a local file for broadcasting (policy in core.consume.consume_progress)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from sprocketmq.client.remoting.queue_offsets import commit_offset, committed_offset
from sprocketmq.core.consume.consume_progress import OFFSET_NOT_FOUND, OFFSET_UNKNOWN, ConsumeProgress
from sprocketmq.errors import ConfigurationError, NetworkError, ProtocolError, RemoteError, RequestTimeout
from sprocketmq.threads import ClaimedWork
from sprocketmq.troubles import Troubles
from sprocketmq.user_paths import user_path
from sprocketmq.wire.bodies import OffsetSerializeWrapper
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

log = logging.getLogger("sprocketmq.client")


class OffsetStore(Protocol):
    """``progress`` is the table in memory."""

    progress: ConsumeProgress

    async def load(self) -> None: ...

    async def read(self, queue: MessageQueue) -> int:
        """The stored offset, OFFSET_NOT_FOUND or OFFSET_UNKNOWN; from the store itself, not from memory."""
        ...

    async def persist(self, queue: MessageQueue) -> None: ...

    async def persist_all(self, owned: Iterable[MessageQueue]) -> None: ...


class RemoteOffsetStore:
    """Progress at the master of each queue's broker (Java: RemoteBrokerOffsetStore)."""

    def __init__(self, consumer: RunningConsumer) -> None:
        self._cluster, self._group = consumer.instance.cluster, consumer.name
        self.progress = ConsumeProgress()

    async def load(self) -> None:
        """Each queue's offset is requested when it is needed."""

    async def read(self, queue: MessageQueue) -> int:
        try:
            offset = await committed_offset(self._cluster, self._group, queue)
        except (RemoteError, NetworkError, RequestTimeout) as error:
            sentence = "group %s: the offset of %s could not be read: %s"
            self._failed("reading of progress", error, sentence, self._group, queue, error)
            return OFFSET_UNKNOWN
        return OFFSET_NOT_FOUND if offset is None else offset

    async def persist(self, queue: MessageQueue) -> None:
        offset = self.progress.read(queue)
        if offset >= 0:
            await self._write(queue, offset, oneway=False)

    async def persist_all(self, owned: Iterable[MessageQueue]) -> None:
        for queue in self.progress.to_persist(owned):
            # Read now: a queue that was given up during a write before is its next owner's.
            offset = self.progress.read(queue)
            if offset >= 0:
                await self._write(queue, offset, oneway=True)

    async def _write(self, queue: MessageQueue, offset: int, *, oneway: bool) -> None:
        try:
            await commit_offset(self._cluster, self._group, queue, offset, oneway=oneway)
        except (RemoteError, NetworkError, RequestTimeout) as error:
            sentence = "group %s: offset %d of %s could not be persisted: %s"
            self._failed("progress", error, sentence, self._group, offset, queue, error)

    def _failed(self, what: str, error: Exception, sentence: str, *args: object) -> None:
        self._cluster.outages.failed(what, error, sentence, *args, of=self._group)


class LocalFileOffsetStore:
    """Progress in ``<dir>/<client id>/<group>/offsets.json``, Java's file (LocalFileOffsetStore), with a ``.bak`` of the version before.

    Each write replaces the file at once (``store.config_files``): a crash or another process with the same client id leaves a readable
    one. Writes wait for the disk in a thread; those that come meanwhile are one: giving up a thousand queues costs two.
    """

    def __init__(self, directory: str | os.PathLike[str] | None, client_id: str, group: str) -> None:
        from pathlib import Path  # imported only for broadcasting

        from sprocketmq.store.files.paths import path_below

        given = directory or os.environ.get("ROCKETMQ_CLIENT_LOCAL_OFFSET_STORE_DIR")
        base = Path(given) if given is not None else user_path("~/.rocketmq_offsets")
        self.path = Path(path_below(base, client_id, group, "offsets.json"))
        self._backup = self.path.with_name("offsets.json.bak")
        self._troubles = Troubles(log)
        self._written: dict[MessageQueue, int] = {}
        self._wanted: dict[MessageQueue, int] = {}
        self._writing = asyncio.Lock()
        self.progress = ConsumeProgress()

    async def load(self) -> None:
        """Raises ConfigurationError (neither the file nor its backup can be read: guessing would repeat or skip everything)."""
        failure: Exception | None = None
        for path in (self.path, self._backup):
            if not path.exists():
                continue
            try:
                self._written = OffsetSerializeWrapper.decode(path.read_bytes()).offset_table
            except (OSError, ProtocolError) as error:
                failure = error
                log.warning("offset file %s cannot be read (%s), trying its backup", path, error)
                continue
            self._wanted = dict(self._written)
            self.progress.load(self._written)
            if isinstance(failure, ProtocolError):
                self._set_aside()
            return
        if failure is not None:
            raise ConfigurationError(
                f"the offset file {self.path} cannot be read: {failure}; repair it, or remove it to begin at consume_from_where"
            ) from failure

    def _set_aside(self) -> None:
        """Rename a file that cannot be read. Otherwise the next write would make it the backup, in place of the readable one."""
        aside = self.path.with_name("offsets.json.broken")
        with contextlib.suppress(FileNotFoundError):  # another process has renamed it
            os.replace(self.path, aside)
        log.error("offset file %s cannot be read; it is kept as %s, and its backup counts", self.path, aside)

    async def read(self, queue: MessageQueue) -> int:
        return self._wanted.get(queue, self.progress.read(queue))

    async def persist(self, queue: MessageQueue) -> None:
        offset = self.progress.read(queue)
        if offset >= 0:
            self._wanted[queue] = offset
            await self._save()

    async def persist_all(self, owned: Iterable[MessageQueue]) -> None:
        # Queues that are not owned now stay in the file: in broadcasting a member owns all queues, so a queue is only missing if its route
        # is missing.
        self._wanted.update({queue: self.progress.read(queue) for queue in owned if self.progress.read(queue) >= 0})
        await self._save()

    async def _save(self) -> None:
        async with self._writing:
            if self._wanted == self._written:
                return
            offsets = dict(self._wanted)
            work = ClaimedWork(partial(self._write, offsets))
            try:
                asyncio.get_running_loop().run_in_executor(None, work)
            except RuntimeError:  # no thread can be started, as when the interpreter ends
                work()
            if await asyncio.wrap_future(work.outcome):
                self._written = offsets

    def _write(self, offsets: dict[MessageQueue, int]) -> bool:
        from sprocketmq.store.config_files import replace_file  # imported only for broadcasting

        try:
            replace_file(self.path, OffsetSerializeWrapper(offset_table=offsets).encode(), shared=True)
        except OSError as error:
            sentence = "offset file %s cannot be written, a restart repeats messages: %s"
            self._troubles.failed("write", sentence, self.path, error, level=logging.ERROR, lasts=True)
            return False
        self._troubles.over("write", "offset file %s is written again", self.path)
        return True
