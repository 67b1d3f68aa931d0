# SPDX-License-Identifier: Apache-2.0
"""Who signed a request, without a request."""

from __future__ import annotations

from sprocketmq.wire.frames.acl_signature import SigningKey
from sprocketmq.wire.frames.command import Buffer
from sprocketmq.wire.frames.signed_request import SignedRequest


class Sender(SignedRequest):
    """Who signed with this secret."""

    secret: str = ""

    def is_signed_with(self, key: SigningKey, body: Buffer) -> bool:
        return key.signature("text", body) == SigningKey(self.secret).signature("text", body)


def sender(access_key: str, secret: str) -> Sender:
    return Sender(access_key=access_key, secret=secret)
