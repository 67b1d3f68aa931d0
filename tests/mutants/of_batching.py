"""Mutants of automatic batching: what each message of a batch costs, keeps, and is told."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["BATCHING_MUTANTS"]

WIRE = "src/sprocketmq/wire"
VALUES = "tests/unit/wire/test_properties.py::test_a_value_is_taken_when_a_reader_would_see_it_whole"

BATCHING_MUTANTS = [
    Mutant(
        "batching",
        "a blank tag is taken, and no reader sees it",
        f"{WIRE}/properties.py",
        "if type(value) is str and value.isprintable() and value and not value.isspace():",
        "if type(value) is str and value.isprintable() and value:",
        VALUES,
    ),
    Mutant(
        "batching",
        "two keys with two blanks between them stay as they were typed",
        f"{WIRE}/properties.py",
        "if keys.isprintable() and keys and KEY_SEPARATOR not in keys:",
        "if keys.isprintable() and keys:",
        VALUES,
    ),
]
