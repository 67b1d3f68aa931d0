"""wire.java_properties: what is written is read back; any text is a properties text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.wire.java_properties import format_properties, parse_properties

_KEYS = st.from_regex(r"[A-Za-z][A-Za-z0-9.]{0,20}", fullmatch=True)
_VALUES = st.from_regex(r"[A-Za-z0-9/:;,._-][A-Za-z0-9/:;,._ -]{0,20}", fullmatch=True).map(str.rstrip)


@given(st.dictionaries(_KEYS, _VALUES))
def test_settings_come_back_as_they_were(settings: dict[str, str]) -> None:
    assert parse_properties(format_properties(settings)) == settings


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    parse_properties(text)


def test_the_forms_of_java() -> None:
    text = "# no\n! no\na=1\nb: 2\nc 3\nd\\=e = 4 \nlong = 1,\\\n   2\nu=\\u0041\\t.\nempty=\n"
    expected = {"a": "1", "b": "2", "c": "3", "d=e": "4", "long": "1,2", "u": "A\t.", "empty": ""}
    assert parse_properties(text) == expected
