# SPDX-License-Identifier: Apache-2.0
"""Bodies of batches for tests: of any bytes, of messages that look alike with odd ones among them, of what real producers write."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from golden.pipeline.scenes import element
from producer_shapes import Shape, shapes

SoundBatch = list[tuple[int, bytes, bytes]]  # as ``split_batch`` gives it: flag, body, properties

_NAMES = (b"UNIQ_KEY", b"KEYS", b"TAGS", b"XTAGS", b"WAIT", b"CLUSTER", b"own", b"")
_VALUES = (b"", b"A", b"B", b"true", b"\xc3\x9c", b"\xff", b"TAGS", b"TAGS\x01C", b"\x01", b"x" * 200)
_names, _values = st.sampled_from(_NAMES), st.sampled_from(_VALUES) | st.binary(max_size=6)
_flags = st.sampled_from((0, 0, 5, -1)) | st.integers(-(1 << 31), (1 << 31) - 1)
_shapes: list[Shape] = []


@st.composite
def _properties(draw: st.DrawFn) -> bytes:
    pairs = draw(st.lists(st.tuples(_names, _values), max_size=5))
    raw = b"".join([name + b"\x01" + value + b"\x02" for name, value in pairs])
    return draw(st.sampled_from((raw, raw, raw, raw[:-1], raw + draw(st.binary(max_size=8)))))


@st.composite
def sound_batches(draw: st.DrawFn, least_body_bytes: int = 0) -> SoundBatch:
    """Messages of equal lengths, or of any, and odd ones among them."""
    count, body_bytes = draw(st.integers(1, 12)), draw(st.integers(least_body_bytes, 60))
    raw = draw(_properties())
    any_body = st.binary(min_size=least_body_bytes, max_size=60)
    alike = st.tuples(_flags, st.binary(min_size=body_bytes, max_size=body_bytes), st.just(raw))
    keyed = st.tuples(
        _flags, any_body, st.binary(min_size=4, max_size=4).map(lambda key: b"UNIQ_KEY\x01" + key + b"\x02" + raw)
    )
    odd = st.tuples(_flags, any_body, _properties())
    kind = draw(st.sampled_from((alike, keyed, odd, st.one_of(alike, alike, odd), st.one_of(alike, keyed, odd))))
    return draw(st.lists(kind, min_size=count, max_size=count))


@st.composite
def bodies_of_batches(draw: st.DrawFn) -> bytes:
    """Of sound batches, of such with a byte changed or cut off, and any bytes."""
    kind = draw(st.sampled_from(("sound", "sound", "cut", "changed", "any")))
    if kind == "any":
        return draw(st.binary(max_size=120))
    body = bytearray(b"".join([element(part, raw, flag) for flag, part, raw in draw(sound_batches())]))
    place = draw(st.integers(0, len(body) - 1))
    if kind == "cut":
        del body[place:]
    elif kind == "changed":
        body[place] = draw(st.integers(0, 255))
    return bytes(body)


def produced_batch(dice: random.Random, most: int = 120) -> SoundBatch:
    """Messages of one kind of producer, or of all kinds, as ``producer_shapes`` has them."""
    if not _shapes:
        _shapes.extend(shapes())
    kinds = [dice.choice(_shapes)] if dice.random() < 0.7 else _shapes
    first = dice.randrange(1 << 20)
    made = [dice.choice(kinds).make(first + number, dice) for number in range(dice.randint(1, most))]
    return [(dice.choice((0, 0, 0, 7)), body, raw) for body, raw, _ in made]
