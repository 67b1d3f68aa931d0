# SPDX-License-Identifier: Apache-2.0
"""What a forge, an installer and a contributor read says the same in each place."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from sprocketmq.version import __version__

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def pythons() -> list[str]:
    found = (
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in PROJECT["project"]["classifiers"]
    )
    return [match[1] for match in found if match]


def test_every_place_names_the_same_pythons() -> None:
    oldest = pythons()[0]
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))
    assert workflow["jobs"]["tests"]["strategy"]["matrix"]["python"] == pythons()
    assert " ".join(pythons()) in (ROOT / "scripts/test-pythons").read_text("utf-8")
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    for page in ("README.md", "CONTRIBUTING.md", "scripts/setup-python"):
        assert f"Python {oldest} or later" in (ROOT / page).read_text("utf-8"), page


def test_the_changelog_has_this_version_dated_below_an_unreleased_section() -> None:
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heads[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d", heads[1])


def test_hooks_run_what_the_environment_has() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert {hook["entry"].split()[0] for hook in hooks} <= {
        f".venv/bin/{tool}" for tool in ("ruff", "mypy", "lint-imports", "python")
    }
    for hook in hooks:
        assert (Path(sys.executable).parent / Path(hook["entry"].split()[0]).name).exists(), hook


def test_the_lock_names_no_registry() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text("utf-8")


def test_no_file_has_marks_of_an_unfinished_merge() -> None:
    mark = re.compile(r"^(?:<{7} |>{7} |={7}$|\|{7} )", re.MULTILINE)
    folders = ("src", "tests", "docs", "bench", "examples", "scripts", ".github")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".rst", ".yml", "")
    ]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    marked = [
        path
        for path in files
        if path.is_file() and "_build" not in path.parts and mark.search(path.read_text("utf-8", "replace"))
    ]
    assert len(files) > 500
    assert not marked
