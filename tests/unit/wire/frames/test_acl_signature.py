from __future__ import annotations

import pytest

from decoded_frames import decoded
from golden import GoldenFrame, frames
from sprocketmq.wire.frames.acl_signature import sign, signed_fields
from sprocketmq.wire.frames.frame import FrameDecoder


def test_a_signature_is_the_known_one() -> None:
    fields = signed_fields({"topic": "T", "queueId": "0"}, b"body", "rocketmq2", "12345678")
    assert fields == {
        "topic": "T",
        "queueId": "0",
        "AccessKey": "rocketmq2",
        "Signature": "30On15NG+ak+AM2E+q89aC6dUl0=",
    }


def test_a_signature_covers_every_field_and_the_body_but_not_itself() -> None:
    fields = signed_fields({"topic": "T"}, b"body", "key", "secret", security_token="token")
    assert sign(fields, memoryview(b"body"), "secret") == fields["Signature"]
    assert fields["SecurityToken"] == "token"
    changed = [
        sign({**fields, "topic": "U"}, b"body", "secret"),
        sign(fields, b"bodx", "secret"),
        sign(fields, b"body", "other"),
        sign({**fields, "bname": "b"}, b"body", "secret"),
    ]
    assert fields["Signature"] not in changed


SIGNED = [frame for frame in frames(kind="request", sender="client") if frame.shows.endswith("signed")]


@pytest.mark.parametrize("frame", SIGNED, ids=lambda frame: frame.file.removeprefix("frames/"))
def test_a_signature_of_a_java_client_is_the_one_we_make(frame: GoldenFrame) -> None:
    """In a ROCKETMQ header Java writes each field twice then; it counts once."""
    (command,) = decoded(FrameDecoder(), frame.data)
    assert command.ext_fields["AccessKey"] == "someone"
    assert sign(command.ext_fields, command.body, "12345678") == command.ext_fields["Signature"]
