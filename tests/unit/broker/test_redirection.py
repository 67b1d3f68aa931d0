# SPDX-License-Identifier: Apache-2.0
"""A message that is parked says where it was going to, once and last, whatever it brought."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from sprocketmq.broker.redirection import redirect
from sprocketmq.store import StoredMessage
from sprocketmq.wire.records.properties import REAL_QID, REAL_TOPIC, get_property, remove_property, set_property

PAIRS = st.tuples(
    st.sampled_from(("TAGS", "REAL_TOPIC", "REAL_QID", "own", "MY_REAL_TOPIC")), st.sampled_from(("a", "REAL_QID", ""))
)
TEXTS = st.builds(
    lambda pairs, cut: "".join(f"{name}\x01{value}\x02" for name, value in pairs)[: -1 if cut else None].encode(),
    st.lists(PAIRS, max_size=4),
    st.booleans(),
)


def parked(raw: bytes, topic: str, queue_id: int) -> StoredMessage:
    host = (b"\x7f\0\0\1", 1)
    message = StoredMessage(topic, queue_id, b"body", b"before", 0, 0, 1, host, host, 0, 0, 0)
    redirect(message, raw, "waiting", 7)
    return message


@example(b"", "t", 0)
@example(b"TAGS\x01a\x02", "t", 3)
@example(b"TAGS\x01a", "t", 3)
@given(TEXTS, st.sampled_from(("t", "other", "%RETRY%g")), st.integers(0, 20))
def test_the_destination_replaces_any_other(raw, topic, queue_id):
    message = parked(raw, topic, queue_id)
    assert (message.topic, message.queue_id) == ("waiting", 7)
    assert message.properties == set_property(set_property(raw, REAL_TOPIC, topic), REAL_QID, str(queue_id))
    assert get_property(message.properties, REAL_TOPIC) == topic
    assert get_property(message.properties, REAL_QID) == str(queue_id)
    rest = remove_property(remove_property(message.properties, REAL_TOPIC), REAL_QID)
    assert rest.rstrip(b"\x02") == remove_property(remove_property(raw, REAL_TOPIC), REAL_QID).rstrip(b"\x02")
