from __future__ import annotations

from sprocketmq.wire.acl_signature import sign, signed_fields


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
