# SPDX-License-Identifier: Apache-2.0
"""Keys that are renewed while many requests are under way: each that was refused is signed again, whoever saw the new keys first."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sprocketmq.errors import SignatureRefused
from sprocketmq.net.pool import ConnectionPool
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.frames.acl_signature import SIGNATURE, Credentials, sign
from sprocketmq.wire.frames.command import Command, decode_command, encode_command

REFUSED = "the signature of access key Worker77 does not fit; check the secretKey"


class Renewed:
    """Keys of a file that others renew."""

    def __init__(self) -> None:
        self.secret = "one"

    def current(self) -> Credentials:
        return Credentials("Worker77", self.secret)

    def reread(self) -> None:
        pass  # ``current`` always knows


class Server:
    def __init__(self, remark: str = REFUSED) -> None:
        self.secret, self.remark, self.asked = "one", remark, 0
        self.answers = asyncio.Event()
        self.answers.set()
        self._serving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self, keys: Renewed) -> AsyncIterator[Callable[[], Coroutine[Any, Any, Command]]]:
        """What asks it one request by a pool that signs with ``keys``."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        pool = ConnectionPool(credentials=keys)
        try:
            yield lambda: pool.invoke(f"{host}:{port}", Command(code=105), 60_000)
        finally:
            await pool.aclose()
            server.close()
            await asyncio.gather(*self._serving)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                command = decode_command(await reader.readexactly(size))
                self.asked += 1
                await self.answers.wait()
                fits = command.ext_fields.get(SIGNATURE) == sign(command.ext_fields, command.body, self.secret)
                code, remark = (0, None) if fits else (ResponseCode.NO_PERMISSION, self.remark)
                writer.write(encode_command(Command(code=code, flag=1, opaque=command.opaque, remark=remark)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def asked(server: Server, keys: Renewed, count: int) -> list[Command | BaseException]:
    """``count`` requests that are signed with the first keys and answered when both sides have others."""
    async with server.listening(keys) as ask:
        await ask()
        server.answers.clear()
        requests = [asyncio.create_task(ask()) for _ in range(count)]
        while server.asked < 2:
            await asyncio.sleep(0)
        server.secret = keys.secret = "two"
        server.answers.set()
        return await asyncio.gather(*requests, return_exceptions=True)


def test_each_request_under_way_is_signed_with_the_new_keys():
    answers = asyncio.run(asked(Server(), Renewed(), 8))
    assert [getattr(answer, "code", answer) for answer in answers] == [0] * 8


def test_a_topic_name_with_the_word_signature_is_not_a_signature_error():
    answers = asyncio.run(asked(Server("no permission to publish to topic signature-events"), Renewed(), 2))
    assert [getattr(answer, "code", answer) for answer in answers] == [ResponseCode.NO_PERMISSION] * 2


@pytest.mark.parametrize(
    "remark",
    [
        REFUSED,
        REFUSED.replace("access key", "user"),
        "check signature failed",
        "Check signature failed for accessKey=Worker77",
    ],
)
def test_the_sentences_of_each_broker_are_known(remark):
    async def run() -> None:
        server = Server(remark)
        server.secret = "another"
        async with server.listening(Renewed()) as ask:
            with pytest.raises(SignatureRefused):
                await ask()

    asyncio.run(run())
