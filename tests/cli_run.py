# SPDX-License-Identifier: Apache-2.0
"""The command line in this process: what a command prints, and how it ends."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import mock

import click

from sprocketmq.cli.main import app, main


def commands(group: click.Group = app, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with the words that lead to it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one document."""
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        """Its documents, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class CommandLine:
    """Runs commands at one cluster. Args: ``environment`` holds variables for them."""

    def __init__(self, namesrv_addr: str, environment: Mapping[str, str] | None = None) -> None:
        self.namesrv_addr = namesrv_addr
        self.environment = {"NAMESRV_ADDR": namesrv_addr, **(environment or {})}

    def run(self, command: str, stdin: bytes = b"") -> Ended:
        """``command`` as it is typed behind ``sprocketmq``; a pipe of several is one after the other."""
        ended = Ended(0, stdin.decode("utf-8", "surrogateescape"), "")
        for part in command.split(" | "):
            words = shlex.split(part.removeprefix("sprocketmq "))
            ended = self.words(*words, stdin=ended.out.encode("utf-8", "surrogateescape"))
            if ended.code:
                return ended
        return ended

    def words(self, *words: str, stdin: bytes = b"") -> Ended:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        code = 0
        with (
            mock.patch.object(sys, "argv", ["sprocketmq", *words]),
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8")),
            mock.patch.dict("os.environ", self.environment),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
            out.flush()
            err.flush()
            said = [stream.buffer.getvalue().decode("utf-8", "surrogateescape") for stream in (out, err)]
        return Ended(code, *said)

    def ok(self, command: str, stdin: bytes = b"") -> Ended:
        """``run`` of what has to succeed."""
        ended = self.run(command, stdin)
        assert ended.code == 0, f"sprocketmq {command}: {ended}"
        return ended
