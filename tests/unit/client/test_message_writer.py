# SPDX-License-Identifier: Apache-2.0
"""The header that is written out for each send is the typed one; properties as text are those of the bytes."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sprocketmq.client.remoting import message_writer
from sprocketmq.client.remoting.message_writer import MessageWriter
from sprocketmq.client.remoting.send import Send
from sprocketmq.client.remoting.unique_keys import UniqueKeys
from sprocketmq.client.settings.send_settings import SendSettings
from sprocketmq.errors import ConfigurationError
from sprocketmq.net.process.clock import ManualClock
from sprocketmq.wire.frames.command import encode_command
from sprocketmq.wire.records.message import Message, MessageQueue
from sprocketmq.wire.records.properties import encode_properties, properties_text

QUEUE = MessageQueue("flights", "broker-a", 3)


@pytest.fixture(params=[False, True])
def writer(request: pytest.FixtureRequest) -> MessageWriter:
    return MessageWriter(SendSettings(group="ops"), ManualClock(1_000), UniqueKeys("127.0.0.1"), None, request.param)


def forms(writer: MessageWriter) -> list[Send]:
    plain = Message("flights", b"x", tags="UA", flag=7, properties={"ü": "ß"})
    retry = Message("%RETRY%delays", b"x")
    sends = [
        Send(plain),
        Send(plain, sharding_key="N1", delay_level=3),
        Send(Message("flights", b"a" * 5_000), delay_ms=5_000),
        Send(plain, extra={"TRAN_MSG": "true", "PGROUP": "ops"}),
        Send(plain, extra={"MSG_TYPE": "reply"}),
        Send(plain, messages=[plain, plain]),
        Send(retry, extra={"RECONSUME_TIME": "2", "MAX_RECONSUME_TIMES": "5"}),
    ]
    for send in sends:
        (writer.write_batch if send.messages else writer.write)(send)
    return sends


def test_the_header_that_is_written_out_is_the_typed_one(writer):
    codes = []
    for outgoing in forms(writer):
        command = writer.command(outgoing, QUEUE)
        assert command.ext_fields == writer.header(outgoing, QUEUE).to_ext()
        assert command.body == outgoing.body
        codes.append(command.code)
    assert codes == [310, 310, 310, 310, 325, 320, 310]


def test_a_frame_is_that_of_the_command(writer):
    for _ in range(2):  # with a template that is made, and with one that is known
        for opaque, outgoing in enumerate(forms(writer)):
            target = MessageQueue(outgoing.topic, "broker-a", 3)
            template = writer.template(outgoing, target, None)
            if outgoing.topic.startswith("%RETRY%"):
                assert template is None, "its counts are in the header"
                continue
            assert template is not None
            command = writer.command(outgoing, target)
            command.opaque = opaque
            assert writer.frame(template, opaque, outgoing) == encode_command(command)


def test_templates_do_not_grow_for_ever(writer, monkeypatch):
    monkeypatch.setattr(message_writer, "_MOST_TEMPLATES", 10)
    outgoing = forms(writer)[0]
    for number in range(100):
        writer.template(outgoing, MessageQueue("flights", "broker-a", number), None)
        assert len(writer._templates[outgoing.code]) <= 10


def test_a_copy_for_a_retry_topic_carries_its_counts_in_the_header(writer):
    ext = writer.command(forms(writer)[-1], QUEUE).ext_fields
    assert (ext["j"], ext["l"]) == ("2", "5")
    assert "RECONSUME" not in ext["i"]


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_properties_as_text_are_those_of_the_bytes(properties):
    try:
        raw = encode_properties(properties)
    except ConfigurationError:
        with pytest.raises(ConfigurationError):
            properties_text(properties)
    else:
        assert properties_text(properties) == raw.decode()


def test_properties_that_are_too_long_are_refused_as_text_too():
    for value in ("a" * 32_765, "ü" * 16_382):
        with pytest.raises(ConfigurationError, match="at most 32767"):
            properties_text({"ab": value})
    assert len(properties_text({"ab": "a" * 32_763})) == 32_767
