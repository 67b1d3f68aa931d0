# SPDX-License-Identifier: Apache-2.0
"""Generated files are what their sources say."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def generate() -> Any:
    loader = importlib.machinery.SourceFileLoader("generate_script", str(ROOT / "scripts/generate"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


GENERATE = generate()


@pytest.mark.parametrize("name", GENERATE.NAMES)
def test_generated_files_are_up_to_date(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    files = ", ".join(str(path.relative_to(ROOT)) for path in GENERATE.stale(name))
    if files:
        pytest.fail(f"{files}: not what the sources say now; run `make generate`", pytrace=False)
