# SPDX-License-Identifier: Apache-2.0
"""Long answers are decoded on one thread, never on the loop that asked."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sprocketmq.client.answer_bodies import answer_body
from sprocketmq.errors import ProtocolError
from sprocketmq.wire import bodies, requests
from sprocketmq.wire.frames.command import Buffer, Command, request, response


def answered(body: bytes) -> Command:
    return response(request(202, None), body=body)


def test_a_long_answer_is_decoded_on_another_thread_and_a_short_one_at_once(monkeypatch):
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
