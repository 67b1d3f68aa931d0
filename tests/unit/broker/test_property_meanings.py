# SPDX-License-Identifier: Apache-2.0
"""What a meaning says is what its properties say when they are meaning_of alone."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import examples
from sprocketmq.broker.settings.config import BrokerConfig
from sprocketmq.broker.tables.broker_identity import BrokerIdentity
from sprocketmq.wire.hashing import tags_code
from sprocketmq.wire.records.properties import decode_properties

NAMES = (
    "UNIQ_KEY",
    "KEYS",
    "TAGS",
    "WAIT",
    "CLUSTER",
    "TRACE_ON",
    "X_UNIQ_KEY",
    "MYKEYS",
    "own",
    "POP_CK",
    "DELAY",
    "TRAN_MSG",
    "TIMER_DELAY_MS",
)
VALUES = st.sampled_from(("A", "true", "false", "0", "1", "KEYS\x01v", "UNIQ_KEY\x01w", "a b", "é", "DELAY", ""))
TEXTS = st.builds(
    lambda pairs, cut: "".join(f"{name}\x01{value}\x02" for name, value in pairs)[: -1 if cut else None],
    st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5),
    st.booleans(),
)


def identity() -> BrokerIdentity:
    return BrokerIdentity(BrokerConfig(), "127.0.0.1", 10911)


@settings(max_examples=examples(600), deadline=None)
@example(["UNIQ_KEY\x01a\x02TAGS\x01KEYS\x01v\x02", "UNIQ_KEY\x01a\x02TAGS\x01KEYS\x01w\x02"])
@example(["UNIQ_KEY\x01a\x02UNIQ_KEY\x010\x02"])
@example(["UNIQ_KEY\x01a\x02AWAIT\x01false\x02"])
@example(["X_UNIQ_KEY\x01a\x02UNIQ_KEY\x010\x02"])
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_a_shape_says_of_each_text_what_its_properties_say(texts):
    own = identity()
    for text in [*texts, *texts]:
        known = own.meanings.find(text)
        if known is None:
            continue
        key, meaning = known
        assert (text + meaning.added).encode() == own.mark(text.encode())
        pairs = decode_properties(text.encode())
        assert key == pairs["UNIQ_KEY"]
        assert meaning.tags_code == tags_code(pairs.get("TAGS"))
        assert meaning.waits == (pairs.get("WAIT") != "false")
        special = [name for name in ("POP_CK", "TRAN_MSG", "TIMER_DELAY_MS") if f"{name}\x01" in text]
        assert meaning.is_special == bool(special or "DELAY" in text)
        level = pairs.get("DELAY", "")
        assert meaning.delay_level == (int(level) if level.isdecimal() and not special else 0)


def test_properties_that_differ_in_all_but_their_tags_share_a_shape():
    meanings = identity().meanings
    found = set()
    for number in range(50):
        key = f"UNIQ_KEY\x01{number:032X}\x02"
        for text in (
            f"KEYS\x01order-{number}\x02{key}TAGS\x01A\x02",
            f"{key}TAGS\x01A\x02own-{number}\x01{number}\x02",
            f"TAGS\x01A\x02WAIT\x01true\x02{key}",
        ):
            known = meanings.find(text)
            assert known is not None
            found.add(id(known[1]))
    assert len(found) == 1


def test_two_unique_keys_have_no_shape():
    meanings = identity().meanings
    assert meanings.find("UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02") is None
    assert meanings.find("UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02") is None
    assert meanings.find("UNIQ_KEY\x01a\x02CLUSTER\x01far\x02") is None  # marks of another broker have to go


def test_shapes_from_the_network_take_bounded_memory():
    meanings = identity().meanings
    for number in range(3_000):
        for end in ("", "\x02"):
            assert meanings.find(f"UNIQ_KEY\x01a\x02TAGS\x01own{number}{end}") is not None
    assert meanings.find(f"UNIQ_KEY\x01a\x02TAGS\x01{'x' * 5_000}\x02") is not None
    for known in meanings._known:
        assert len(known) <= 1024
        assert all(len(tags) < 130 for tags in known)
