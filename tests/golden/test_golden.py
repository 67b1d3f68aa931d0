# SPDX-License-Identifier: Apache-2.0
"""The golden frames are read by our decoder just as by the independent one of the interop tests."""

from __future__ import annotations

import pytest

from decoded_frames import decoded
from golden import GoldenFrame, frames
from interop.remoting import decode_header, split_frame
from sprocketmq.wire.frames.frame import FrameDecoder

FRAMES = frames()


def ids(frame: GoldenFrame) -> str:
    return frame.file.removeprefix("frames/").removesuffix(".bin")


def without_empty(ext_fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in ext_fields.items() if value}


@pytest.mark.parametrize("frame", FRAMES, ids=ids)
def test_our_decoder_reads_a_java_frame_as_the_independent_one_does(frame: GoldenFrame) -> None:
    kind, header_bytes, body = split_frame(frame.data)
    expected = decode_header(kind, header_bytes)
    (command,) = decoded(FrameDecoder(), frame.data)
    assert command.code == expected["code"]
    assert command.opaque == expected["opaque"]
    assert command.flag == expected["flag"]
    assert (command.remark or None) == (expected.get("remark") or None)
    # Under ROCKETMQ Java reads a value of no bytes as null, which is "not given" (RocketMQSerializable.readStr).
    assert without_empty(command.ext_fields) == without_empty(expected.get("extFields") or {})
    assert bytes(command.body) == body
