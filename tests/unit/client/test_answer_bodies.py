# SPDX-License-Identifier: Apache-2.0
"""Long answers are decoded on one thread, never on the loop that asked."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest

import sprocketmq
from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.errors import ProtocolError
from sprocketmq.wire import bodies, requests
from sprocketmq.wire.frames.command import Buffer, Command, request, response


def answered(body: bytes) -> Command:
    return response(request(202, None), body=body)


def test_a_long_answer_is_decoded_on_another_thread_and_a_short_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    decode = bodies.TopicList.decode

    def noted(data: Buffer) -> bodies.TopicList:
        threads.append(threading.current_thread())
        return decode(data)

    monkeypatch.setattr(bodies.TopicList, "decode", noted)
    asked = requests.name_servers.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    short, long = bodies.TopicList(["a"]), bodies.TopicList(["a" * 20_000])

    async def run() -> None:
        assert await answer_body(asked, answered(short.encode())) == short
        assert await asyncio.gather(*(answer_body(asked, answered(long.encode())) for _ in range(5))) == [long] * 5
        with pytest.raises(ProtocolError):
            await answer_body(asked, answered(b"{" * 20_000))

    asyncio.run(run())
    here, *others = threads
    assert here is threading.current_thread()
    assert {thread.name for thread in others} == {"sprocketmq-decoder_0"}


def test_no_client_decodes_an_answer_in_another_way() -> None:
    found = {
        str(path.relative_to(folder))
        for folder in [Path(sprocketmq.__file__).parent]
        for part in ("client", "spark", "console", "cli")
        for path in (folder / part).rglob("*.py")
        if re.search(r"answer_body_in\(|(?<!properties)\.decode\((answer|found)\.body", path.read_text())
    }
    assert found == {
        "client/answer_bodies.py",
        "client/consume/queue_reader.py",  # the settings of one topic
        "cli/handover.py",  # a program of its own, with a loop of its own
    }
