# SPDX-License-Identifier: Apache-2.0
"""What bytes are made of is told in tables (``wire.layout``): no other file has a format or a place of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sprocketmq.wire.records.record_layout import LAYOUTS, MIN_RECORD_BYTES

pytestmark = pytest.mark.slow

SOURCES = Path(__file__).resolve().parents[1] / "src/sprocketmq"
STRUCT_CALLS = frozenset({"Struct", "pack", "pack_into", "unpack", "unpack_from", "iter_unpack", "calcsize"})
NUMPY_TYPE = re.compile(r"[<>][iufV]\d+")
# File -> why its formats are its own. None of them is of something that another file writes or reads, but of remoting's frames.
OWN_FORMATS = {
    "wire/layout.py": "makes the formats of all tables",
    "wire/frames/frame.py": "the lengths of a frame and of its header",
    "wire/frames/command.py": "a frame: its lengths, and the fixed part of a binary header",
    "wire/send_frames.py": "a frame's two lengths",
    "wire/end_frames.py": "a frame's two lengths",
    "wire/bodies/register_broker.py": "the length of each part of a compressed registration",
    "net/ha_connection.py": "the two heads of replication, which are written and read there alone",
    "broker/tables/stamps.py": "offsets within ids, of which a batch has many",
    "core/group/allocation.py": "four bytes of a digest",
    "wire/records/batch_elements.py": "code units of UTF-16, as Java hashes them",
    "spark/columns/records.py": "hosts as one number each",
    "store/files/mapped_progress.py": "numbers in the machine's own byte order, written and read there alone",
}
# Numbers that say where a field of a record is, or how long records are at least, and nothing else by chance.
EVERYDAY = frozenset({*range(28), 32, 40, 48, 60, 64, 72, 80, 100, 128})
PLACES = frozenset(
    number
    for layout in LAYOUTS
    for number in (*layout.at.values(), layout.size, layout.size - LAYOUTS[0].size + MIN_RECORD_BYTES)
) | {MIN_RECORD_BYTES - 1, LAYOUTS[0].size + 1}
# File -> what a number means there that looks like a place in a record.
OTHER_NUMBERS = {
    "broker/settings/config.py": "a percentage",
    "store/message_store.py": "a percentage",
    "wire/codes.py": "codes of requests and answers",
}


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _has_text(node: ast.expr) -> bool:
    return any(_is_text(inner) for inner in ast.walk(node) if isinstance(inner, ast.expr))


def formats(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Formats that a module spells out: of the struct module, of NumPy, and bytes of a slice taken as a number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NUMPY_TYPE.fullmatch(node.value):
            yield node.lineno, node.value
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = getattr(getattr(node.func, "value", None), "id", "")
        first = node.args[0]
        if name in STRUCT_CALLS and (owner == "struct" or name == "Struct") and _has_text(first):
            yield node.lineno, ast.unparse(node)
        if name == "from_bytes" and isinstance(first, ast.Subscript) and isinstance(first.slice, ast.Slice):
            yield node.lineno, ast.unparse(node)


def places(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in PLACES - EVERYDAY:
            yield node.lineno, str(node.value)


def test_formats_are_declared_in_tables_or_give_a_reason() -> None:
    found = {str(path.relative_to(SOURCES)): list(formats(tree)) for path, tree in modules()}
    assert {name: those for name, those in found.items() if those and name not in OWN_FORMATS} == {}
    assert [name for name in OWN_FORMATS if not found.get(name)] == [], "these have no format any more"


def test_no_file_knows_where_a_field_of_a_record_is() -> None:
    found = {str(path.relative_to(SOURCES)): list(places(tree)) for path, tree in modules()}
    assert {name: those for name, those in found.items() if those and name not in OTHER_NUMBERS} == {}
    assert [name for name in OTHER_NUMBERS if not found.get(name)] == [], "these have no such number any more"


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path, ast.parse(path.read_text("utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        'HEAD = struct.Struct(">iI")',
        'HEAD = Struct(">iI").unpack_from',
        'struct.unpack_from(">q", data, at + 28)',
        'struct.pack_into(f">{count}q", data, 0)',
        'struct.Struct(">" + "q12x" * count)',
        'np.dtype([("size", ">i4")])',
        'sizes = np.ndarray((count,), ">i4", data)',
        'lengths.astype(">u2")',
        'int.from_bytes(data[at : at + 4], "big")',
    ],
)
def test_a_format_is_seen(source: str) -> None:
    assert list(formats(ast.parse(source)))


@pytest.mark.parametrize(
    "source", ["at + 84", "body = data[at + 88 :]", "size < 91", "topic_at = at + 89 + body", "view[36:40]"]
)
def test_a_place_is_seen(source: str) -> None:
    assert list(places(ast.parse(source)))


@pytest.mark.parametrize(
    "source", ["UNIT.unpack_from(data, at)", 'Layout(("size", "i"))', "struct.error", "layout.struct.pack(1)"]
)
def test_a_format_derived_from_a_table_is_not_reported(source: str) -> None:
    assert not list(formats(ast.parse(source)))
