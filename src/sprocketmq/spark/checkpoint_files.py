# SPDX-License-Identifier: Apache-2.0
"""Read and edit the checkpoint of a stream while no query runs (``sprocketmq spark-checkpoint``); needs no PySpark. The files are Spark's:

    CHECKPOINT/metadata        {"id": query}
    CHECKPOINT/offsets/N       offset log: v1, one line of the batch, one line of JSON for each source; written before batch N runs.
                               v2 (a query whose sources have names): the name and a colon before the JSON
    CHECKPOINT/commits/N       commit log: its version, one line of JSON; written when batch N is done
    CHECKPOINT/offsets/.N.crc  checksums of local files; Hadoop's ChecksumFileSystem accepts a missing one

The next batch begins where the last one ended (MicroBatchExecution.populateStartOffsets), so a stream is moved by an edit of the last file
of ``offsets``. The rest stays the same, byte for byte. Files are replaced as a whole, and the old content is kept.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.offsets import StreamOffset, queues_from_json, queues_to_json
from sprocketmq.wire.records.message import MessageQueue

_VERSIONS: Final = ("v1", "v2")
_OLD_FILES: Final = "sprocketmq-before"
_NOT_A_SOURCE: Final = "-"
_FIRST_LINES: Final = 2
_NOTHING_DONE: Final = 'v1\n{"nextBatchWatermarkMs":0}'

Offsets = dict[MessageQueue, int]


@dataclass(frozen=True)
class SourceLine:
    """One rocketmq source in the last file of the offset log: its name or number, its JSON, and the batch and text of the file."""

    name: str | int
    document: Mapping[str, Any]
    batch: int
    text: str

    @property
    def offset(self) -> StreamOffset:
        return StreamOffset.from_json(self.document)


class StreamCheckpoint:
    """A checkpoint location on this machine's file system. Raises ConfigurationError (the location is not a checkpoint, or its
    format is unknown)."""

    def __init__(self, location: str) -> None:
        scheme, colon, rest = location.partition(":")
        if colon and scheme != "file" and len(scheme) > 1:
            raise ConfigurationError(
                f"the checkpoint is {location!r}, a local directory is allowed; copy offsets/, commits/ and metadata here and back again"
            )
        self.path = Path(rest if scheme == "file" and colon else location)
        if not (self.path / "offsets").is_dir():
            raise ConfigurationError(
                f"{self.path} has no folder offsets, so it is not a checkpoint of a stream; give its checkpointLocation"
            )

    @property
    def query(self) -> str:
        try:
            found = json.loads((self.path / "metadata").read_text())["id"]
        except (OSError, ValueError, KeyError, TypeError):
            return "unknown"
        return str(found)

    @property
    def planned(self) -> int:
        return self._last("offsets")

    @property
    def done(self) -> int:
        return self._last("commits")

    def sources(self) -> list[SourceLine]:
        batch = self.planned
        text = self._text(batch)
        documents = ((name, _document(line)) for name, line in logged_sources(text))
        return [SourceLine(name, document, batch, text) for name, document in documents if document is not None]

    def source(self, name: str | None) -> SourceLine:
        """The source with this name or number, or the only source. Raises ConfigurationError (there is none, or several and no name)."""
        found = self.sources()
        names = ", ".join(str(one.name) for one in found) or "none"
        chosen = [one for one in found if name in (None, str(one.name))]
        if len(chosen) != 1:
            raise ConfigurationError(
                f"--source is {'not given' if name is None else name}, and the rocketmq sources of {self.path} are {names}; name one"
            )
        return chosen[0]

    def edit(self, source: SourceLine, change: Callable[[Offsets], Offsets]) -> None:
        """Change the offsets of a source by ``change``. Raises ConfigurationError (a batch is planned but not committed, the query has read
        nothing yet, or the file changed since it was read: a query runs)."""
        self.refuse_unfinished()
        if source.offset.initial is not None:
            raise ConfigurationError(f"the query of {self.path} has not begun to read; there is nothing to move")
        document = dict(source.document)
        offsets = change(queues_from_json(document["q"]))
        document["q"] = queues_to_json(offsets)
        if "origin" in document:  # of the batch that is done
            document["origin"] = queues_to_json(
                {queue: at for queue, at in queues_from_json(document["origin"]).items() if queue in offsets}
            )
        lines = source.text.split("\n")
        names = [name for name, _ in logged_sources(source.text)]
        begin = "" if isinstance(source.name, int) else f"{source.name}:"
        lines[_FIRST_LINES + names.index(source.name)] = begin + json.dumps(document)
        if self.planned != source.batch or self._text(source.batch) != source.text:
            raise ConfigurationError(
                f"{self._file('offsets', source.batch)} changed just now: a query runs; stop it first"
            )
        self._keep("offsets", source.batch)
        self._write("offsets", source.batch, "\n".join(lines))

    def refuse_unfinished(self) -> None:
        if self.planned != self.done:
            raise ConfigurationError(
                f"batch {self.planned} of {self.path} is planned and not done, and would run again as planned; start the query until "
                "it is done, or run 'sprocketmq spark-checkpoint finish' with plan-anew (it is planned again) or done (it counts as done)"
            )

    def finish(self, how: Literal["plan-anew", "done"]) -> None:
        """Mark a batch that is planned but not committed as done; with ``plan-anew`` as one without rows. Its number is not used again: a
        sink that knows it (Spark's file sink, Delta, a transactional write) would skip the rows of the new plan. Raises
        ConfigurationError (a stateful query whose batch did not write its state version, or the first batch)."""
        number = self.planned
        if number == self.done:
            return
        if (self.path / "state").exists():
            raise ConfigurationError(
                f"batch {number} of {self.path} cannot {'count as done' if how == 'done' else 'be planned anew'}: the query keeps state, "
                "which the batch has not written; start the query until it is done"
            )
        if how == "plan-anew":
            if number == 0:
                raise ConfigurationError(
                    f"batch 0 of {self.path} is the first, there is nothing to go back to; start the query until it is done"
                )
            self._keep("offsets", number)
            self._write("offsets", number, self._text(number - 1))
        self._write(
            "commits", number, self._file("commits", self.done).read_text() if self.done >= 0 else _NOTHING_DONE
        )

    # -- files -----------------------------------------------------------------------------------------------------------------

    def _last(self, log: str) -> int:
        folder = self.path / log
        names = os.listdir(folder) if folder.is_dir() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _file(self, log: str, number: int) -> Path:
        return self.path / log / str(number)

    def _checksum(self, log: str, number: int) -> Path:
        return self.path / log / f".{number}.crc"

    def _text(self, batch: int) -> str:
        if batch < 0:
            raise ConfigurationError(f"{self.path} holds no batch yet; there is nothing to show or to move")
        text = self._file("offsets", batch).read_text()
        version = text.partition("\n")[0]
        if version not in _VERSIONS:
            raise ConfigurationError(
                f"{self._file('offsets', batch)} begins with {version!r}, {' or '.join(_VERSIONS)} is allowed; this Spark writes "
                "a form that is not known here"
            )
        return text

    def _write(self, log: str, number: int, text: str) -> None:
        self._checksum(log, number).unlink(missing_ok=True)
        new = self.path / log / f".{number}.sprocketmq"
        with new.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._file(log, number))

    def _keep(self, log: str, number: int) -> None:
        folder = self.path / _OLD_FILES / log
        folder.mkdir(parents=True, exist_ok=True)
        count = sum(name.startswith(f"{number}.") for name in os.listdir(folder))
        shutil.copyfile(self._file(log, number), folder / f"{number}.{count}")


def logged_sources(text: str) -> Iterator[tuple[str | int, str]]:
    """The sources in a file of the offset log, in its order: the name of each, or its number if they have none, and its JSON."""
    version, _, *lines = text.split("\n")
    for number, line in enumerate(lines):
        if version == "v1":
            yield number, line
        else:
            name, _, document = line.partition(":")
            yield name, document


def _document(line: str) -> dict[str, Any] | None:
    if line == _NOT_A_SOURCE:
        return None
    try:
        document = json.loads(line)
    except ValueError:
        return None
    is_ours = isinstance(document, dict) and "v" in document and ("q" in document or "init" in document)
    return document if is_ours else None
