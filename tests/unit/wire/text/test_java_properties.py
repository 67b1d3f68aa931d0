# SPDX-License-Identifier: Apache-2.0
"""wire.java_properties: what is written is read back; any text is a properties text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.wire.text.java_properties import format_properties, parse_properties, replace_properties

_TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20).map(lambda text: text.rstrip())
_ANY_KEYS = _TEXTS.filter(bool)


def test_the_forms_of_java():
    text = "# no\n! no\na=1\nb: 2\nc 3\nd\\=e = 4 \nlong = 1,\\\n   2\nu=\\u0041\\t.\nempty=\n"
    expected = {"a": "1", "b": "2", "c": "3", "d=e": "4", "long": "1,2", "u": "A\t.", "empty": ""}
    assert parse_properties(text) == expected


@given(st.dictionaries(_ANY_KEYS, _TEXTS))
def test_what_is_written_is_read_back(settings):
    assert parse_properties(format_properties(settings)) == settings


ADDED = "bindAddress=0.0.0.0"


@pytest.mark.parametrize(
    "value", [f"04\n{ADDED}", f"04\r{ADDED}", "04\\", f"04\\\n{ADDED}", " 04", "=04", ":04", "#04"]
)
def test_one_value_is_one_line(value):
    text = format_properties({"deleteWhen": value, "listenPort": "1"})
    assert len(text.splitlines()) == 2
    assert parse_properties(text) == {"deleteWhen": value, "listenPort": "1"}


def test_ordinary_settings_are_written_without_escapes():
    text = "messageDelayLevel=1s 5s\nnamesrvAddr=a:1;b:2\nx=\n"
    assert format_properties({"messageDelayLevel": "1s 5s", "namesrvAddr": "a:1;b:2", "x": ""}) == text


def test_a_change_replaces_the_lines_of_its_key_and_no_other():
    text = "# deleteWhen=01\n! x\n\nlistenPort = 5\ndeleteWhen=\\\n  listenPort\nnamesrvAddr=a;\\\ndeleteWhen=b\n"
    changed = replace_properties(text, {"deleteWhen": "04", "fileReservedTime": "72"})
    assert (
        changed
        == "# deleteWhen=01\n! x\n\nlistenPort = 5\ndeleteWhen=04\nnamesrvAddr=a;\\\ndeleteWhen=b\nfileReservedTime=72\n"
    )
    assert replace_properties("", {"a": "1"}) == "a=1\n"
    assert replace_properties("a=1\\", {"a": "2"}) == "a=2\n"
