# SPDX-License-Identifier: Apache-2.0
"""What the broker answers to sends, batches and pulls, and what it stores, is what it was: the recording of ``tests/golden/pipeline``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from msgspec import structs

from golden.pipeline import recorded_scenes
from golden.pipeline.scenes import pull, send
from inproc.broker.played_frames import play
from sprocketmq.broker import lazy_imports
from sprocketmq.net.connection import Connection, RequestHandler
from sprocketmq.wire.frames.command import FLAG_ONEWAY, Command


@pytest.fixture(scope="module", autouse=True)
def nothing_is_loaded_late() -> Iterator[None]:
    """Else the first filter of a run is answered later than the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_imports, "_loaded", set(lazy_imports.Library))
        yield


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def let_pass(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
    return handler(connection, command)


@pytest.mark.parametrize("intercepted", [False, True], ids=["", "intercepted"])
@pytest.mark.parametrize("scene", recorded_scenes(), ids=str)
def test_each_recorded_frame_is_stored_and_answered_as_before(scene, intercepted, loop):
    answers, stored = play(loop, scene.host, scene.reads, let_pass if intercepted else None)
    assert answers == scene.answers
    assert stored == scene.stored


@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "binary"])
def test_a_pull_that_nobody_waits_for_is_not_answered(loop, binary):
    reads = [send(), pull(binary=binary, queueId="1"), pull(binary=binary, queueId="1", flag=FLAG_ONEWAY)]
    stored, found, unasked = play(loop, "127.0.0.1", reads)[0]
    assert (bool(stored), bool(found), unasked) == (True, True, b"")


@pytest.mark.parametrize("binary", [False, True], ids=["JSON", "binary"])
def test_the_request_and_answer_that_an_interceptor_replaces_are_used(loop, binary):
    def other(connection: Connection, command: Command, handler: RequestHandler) -> Command | None:
        fields = {**command.ext_fields, "b": "wide"}
        answer = handler(connection, structs.replace(command, ext_fields=fields))
        return None if answer is None else structs.replace(answer, remark="seen")

    answers, held = play(loop, "127.0.0.1", [send(binary=binary)], interceptor=other)
    assert b"seen" in answers[0]
    assert any(line.startswith("wide") for line in held), held
