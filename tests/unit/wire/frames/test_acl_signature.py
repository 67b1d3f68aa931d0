# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoded_frames import decoded
from golden import frames
from sprocketmq.wire.frames.acl_signature import SigningKey, sign, signed_fields, signed_text
from sprocketmq.wire.frames.frame import FrameDecoder


def test_a_signature_is_the_known_one():
    fields = signed_fields({"topic": "T", "queueId": "0"}, b"body", "rocketmq2", "12345678")
    assert fields == {
        "topic": "T",
        "queueId": "0",
        "AccessKey": "rocketmq2",
        "Signature": "30On15NG+ak+AM2E+q89aC6dUl0=",
    }


def test_a_security_token_is_signed_as_well():
    fields = signed_fields({"topic": "T"}, b"body", "key", "secret", security_token="token")
    assert fields["SecurityToken"] == "token"
    assert fields["Signature"] == sign({"topic": "T", "AccessKey": "key", "SecurityToken": "token"}, b"body", "secret")


@given(st.text(max_size=130), st.text(max_size=20), st.binary(max_size=3_000))
def test_a_signature_is_an_hmac_of_text_and_body(secret_key, text, body):
    """Whatever the length of the key: up to a block of the hash it is filled up, a longer one is hashed first."""
    expected = base64.b64encode(hmac.digest(secret_key.encode(), text.encode() + body, "sha1"))
    key = SigningKey(secret_key)
    for _ in range(2):  # it is used again and again
        assert key.signature(text, memoryview(body)) == expected
        assert key.signature(text, body) == expected


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=6))
def test_values_are_signed_in_the_order_of_java_strings(fields):
    in_order = sorted(fields, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    assert signed_text({**fields, "Signature": "left out"}) == "".join(fields[name] for name in in_order)


SIGNED = [frame for frame in frames(kind="request", sender="client") if frame.shows.endswith("signed")]


@pytest.mark.parametrize("frame", SIGNED, ids=lambda frame: frame.file.removeprefix("frames/"))
def test_a_signature_of_a_java_client_is_the_one_we_make(frame):
    """In a ROCKETMQ header Java writes each field twice then; it counts once."""
    (command,) = decoded(FrameDecoder(), frame.data)
    assert command.ext_fields["AccessKey"] == "someone"
    assert sign(command.ext_fields, command.body, "12345678") == command.ext_fields["Signature"]
