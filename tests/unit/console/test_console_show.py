# SPDX-License-Identifier: Apache-2.0
"""Bodies and values on a page: forms, cuts, masks, and an edited body, unchanged where it was not edited."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sprocketmq.console.safety.mask import MASKED, Mask
from sprocketmq.console.settings import compiled_masks
from sprocketmq.console.show.bodies import MOST_EDITED_BYTES, editable_text, edited_body, preview, shown_body
from sprocketmq.console.show.sparkline import HEIGHT, WIDTH, sparkline
from sprocketmq.console.show.values import iso_time, local_time, number, permission, size, whole_number

OPEN = Mask()
CARDS = Mask(compiled_masks(["[0-9]{16}"]))


@pytest.mark.parametrize(
    ("body", "asked", "form", "why"),
    [
        (b'{"a": [1]}', None, "json", ""),
        (b"plain", None, "text", ""),
        (b"12", None, "text", ""),
        (b"\xff\x00", None, "hex", ""),
        (b'{"a": 1}', "text", "text", ""),
        (b'{"a": 1}', "hex", "hex", ""),
        (b"plain", "json", "text", "it is no JSON"),
        (b"12", "json", "text", "it is no JSON object or list"),
        (b"\xff", "text", "hex", "it is no UTF-8 text"),
        (b"", None, "text", ""),
        (b"[" * 5_000, None, "text", ""),
    ],
)
def test_a_body_is_shown_in_a_form_that_fits(body, asked, form, why):
    shown = shown_body(body, asked, OPEN)
    assert (shown.form, shown.why_not, shown.size_bytes) == (form, why, len(body))


def test_a_long_body_is_cut_and_says_so():
    for body in (b"x" * (4 << 20), b"\xff" * (4 << 20)):
        shown = shown_body(body, None, OPEN)
        assert shown.is_cut
        assert len(shown.text) < 200_000
        assert shown.size_bytes == 4 << 20
    assert not shown_body(b"x" * 100, None, OPEN).is_cut


@pytest.mark.parametrize("form", [None, "text", "json", "hex"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"card": "4111111111111111"}',
        b'{"card": "\\u0034111111111111111"}',
        b"\xff4111111111111111",
        b"4111111111111111" * 20_000,
        b"x" * ((64 << 10) - 8) + b"4111111111111111",
    ],
)
def test_masked_text_appears_in_no_form_of_a_body(body, form):
    shown = shown_body(body, form, CARDS)
    readable = (
        shown.text
        if shown.form != "hex"
        else bytes.fromhex("".join(line[10:57].replace(" ", "") for line in shown.text.splitlines())).decode("latin-1")
    )
    assert "4111111111111111" not in readable
    assert "41111111" not in preview(body.replace(b"\\u0034", b"4"), CARDS)
    if "\\u0034" not in body.decode("latin-1"):
        assert shown.is_masked


def test_control_characters_are_shown_as_pictures():
    assert shown_body(b"a\x00b\x1b[2Jc\td\n", None, OPEN).text == "a\u2400b\u241b[2Jc\td\n"


def test_a_preview_masks_matches_across_line_breaks():
    assert preview(b"pin 12\n34", Mask(compiled_masks(["[0-9]{2} [0-9]{2}"]))) == f"pin {MASKED}"


def test_a_preview_is_one_line():
    assert preview(b"a\n\n  b", OPEN) == "a b"
    assert preview("é".encode() * 5_000, OPEN).startswith("éé")
    assert preview("é".encode() * 5_000, OPEN).endswith("…")
    assert preview(b"\xff\x00", OPEN) == "ff 00"
    assert preview(b"4111111111111111", CARDS) == MASKED
    assert preview(b"", OPEN) == ""


def as_a_browser_sends(text: str) -> str:
    """What a form sends of a text area: each line break as CR LF (HTML: the form data set)."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")


@given(st.text(alphabet=st.sampled_from("ab\n\ré\x00\u2028{}"), max_size=30))
def test_an_unedited_body_keeps_its_bytes(text):
    body = text.encode()
    shown, why_not = editable_text(body, OPEN)
    assume(shown is not None)
    assert not why_not
    assert edited_body(body, as_a_browser_sends(shown or "")) == body


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"\xff", "no UTF-8"),
        (b"a\x00", "control characters"),
        (b"a\rb", "several kinds"),
        (b"a\r\nb\nc", "several kinds"),
        (b"4111111111111111", "masked"),
        (b"x" * (MOST_EDITED_BYTES + 1), "can be edited here"),
    ],
)
def test_a_body_that_cannot_be_edited_gives_the_reason(body, why):
    text, why_not = editable_text(body, CARDS)
    assert text is None
    assert why in why_not


def test_an_edited_body_keeps_its_kind_of_line_breaks():
    assert edited_body(b"a\nb", "a\r\nc") == b"a\nc"
    assert edited_body(b"a\r\nb", "a\r\nc") == b"a\r\nc"


def test_values_are_words_and_unknown_is_unknown():
    assert [number(1234), number(0), number(1.25), number(None)] == ["1,234", "0", "1.2", "unknown"]
    assert [size(12), size(4 << 20), size(None)] == ["12 bytes", "4.0 MiB", "unknown"]
    assert [permission(6), permission(4), permission(0)] == ["read, write", "read", "neither read nor write"]
    assert local_time(None) == "unknown"
    assert local_time(10**30) == "unknown"
    assert iso_time(0) == "1970-01-01T00:00:00.000+00:00"


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of the process cannot be set")
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_time_that_only_another_zone_has_is_unknown(zone, monkeypatch):
    """What a message says of its time is anything."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        shown = [local_time(at) for at in (253_402_300_799_000, -62_135_596_800_000, 10**400)]
        assert "unknown" in shown[:2]
        assert shown[2] == "unknown"
        date, day, name = local_time(0).split()
        assert (date, len(day), name) == ("1970-01-01" if zone == "Asia/Tokyo" else "1969-12-31", 8, time.tzname[0])
    time.tzset()


@pytest.mark.parametrize(
    ("text", "is_it"),
    [("0", 0), ("12", 12), ("", None), ("-1", None), ("²", None), ("٣", None), ("9" * 20, None), ("9" * 5_000, None)],
)
def test_a_whole_number_is_what_ascii_digits_write(text, is_it):
    assert whole_number(text) == is_it


def test_a_sparkline_has_gaps_where_nothing_is_known():
    assert sparkline([None, 5, None]) == []
    assert len(sparkline([1, 2, None, 3, 4])) == 2
    for piece in sparkline([0, 10, 5]):
        for point in piece.split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT
