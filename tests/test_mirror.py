# SPDX-License-Identifier: Apache-2.0
"""Unit tests are where their modules are: ``core/consume/flow_control.py`` has its tests in ``tests/unit/core/consume``."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/sprocketmq"
TESTS = ROOT / "tests"
LAYERS = ("core", "wire", "store")

# Modules that are tested through the part that uses them, and folders of types that one test takes all together.
TESTED_BY = {
    "core/replay/decision_story": "inproc/client/test_client_record.py",
    "core/replay/story_records": "inproc/client/test_client_record.py",
    "core/sql92/expression": "unit/core/sql92/test_sql92.py",
    "store/log/commit_log": "unit/store/test_message_store.py",
    "store/damaged_bodies": "unit/store/recovery/test_flipped_bits.py",
    "store/queue/consume_queue_table": "unit/store/recovery/test_recovery.py",
    "store/services/dispatch": "unit/store/log/test_property_columns.py",
    "store/recovery/entry_repair": "unit/store/recovery/test_flipped_bits.py",
    "store/tools/check_auxiliary_files": "unit/store/tools/test_check.py",
    "store/tools/inspect": "unit/cli/test_store_commands.py",
    "store/unfiltered_reads": "unit/store/test_read_at_once.py",
    "wire/bodies": "unit/wire/bodies/test_bodies.py",
    "wire/headers": "unit/wire/headers/test_headers.py",
    "wire/layout": "unit/wire/records/test_record_layout.py",
    "wire/records/record_head": "unit/wire/records/test_message.py",
    "wire/requests": "unit/wire/requests/test_requests.py",
    "wire/text/json_references": "unit/wire/text/test_fastjson.py",
}


def modules() -> list[str]:
    paths = [path for layer in LAYERS for path in (SOURCE / layer).rglob("*.py") if path.name != "__init__.py"]
    return sorted(str(path.relative_to(SOURCE).with_suffix("")) for path in paths)


def imported(test: Path) -> Iterator[str]:
    """Modules that a test imports, and those that define what it imports under a package's name."""
    for node in ast.walk(ast.parse(test.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sprocketmq."):
            yield node.module
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
                thing = getattr(importlib.import_module(node.module), alias.name, None)
                yield str(getattr(thing, "__module__", ""))


@cache
def imported_in(folder: Path) -> frozenset[str]:
    return frozenset(name for test in folder.glob("test_*.py") for name in imported(test))


def has_its_test(module: str) -> bool:
    """A test of its name, or one that imports it, in the folder that mirrors its own."""
    folder, _, name = module.rpartition("/")
    return (TESTS / "unit" / folder / f"test_{name}.py").exists() or (
        "sprocketmq." + module.replace("/", ".") in imported_in(TESTS / "unit" / folder)
    )


@pytest.mark.parametrize("module", modules())
def test_each_module_has_a_test_in_the_folder_that_mirrors_its_own(module: str) -> None:
    assert has_its_test(module) or module in TESTED_BY or module.rpartition("/")[0] in TESTED_BY


def test_the_table_names_what_is_there_and_nothing_else() -> None:
    without = {module for module in modules() if not has_its_test(module)}
    needed = without | {module.rpartition("/")[0] for module in without}
    assert sorted(name for name in TESTED_BY if name not in needed) == []
    assert sorted(test for test in TESTED_BY.values() if not (TESTS / test).exists()) == []


def test_folders_of_unit_tests_are_folders_of_the_sources() -> None:
    folders = {path.parent for layer in LAYERS for path in (TESTS / "unit" / layer).rglob("*.py")}
    names = {str(folder.relative_to(TESTS / "unit")) for folder in folders}
    assert sorted(name for name in names if not (SOURCE / name).is_dir()) == []
