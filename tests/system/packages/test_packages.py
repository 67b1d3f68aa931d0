# SPDX-License-Identifier: Apache-2.0
"""Wheel and sdist: what is in them, what an index would say of them, and what somebody has who installs them into an empty environment.

Nothing is downloaded: what the package depends on is copied from the environment of the tests, by the lists of files of its installer.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from walked_page import Walk, fences_of

ROOT = Path(__file__).resolve().parents[3]
VERSION = importlib.metadata.version("sprocketmq")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with wheel and sdist; the wheel is built out of the sdist, as installers do it."""
    folder = tmp_path_factory.mktemp("packages")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    with tarfile.open(folder / f"sprocketmq-{VERSION}.tar.gz") as sdist:
        sdist.extractall(folder / "unpacked", filter="data")
    source = folder / "unpacked" / f"sprocketmq-{VERSION}"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    return folder


@pytest.fixture(scope="module")
def wheel(packages: Path) -> Path:
    return packages / f"sprocketmq-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"sprocketmq-{VERSION}.dist-info/METADATA").decode())


def sources() -> set[str]:
    """What the repository has, also what is not yet committed."""
    return set(run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).split())


def environment(folder: Path, wheel: Path, *extras: str) -> Path:
    """An environment with the wheel, these extras, what they need, and nothing else; the folder of its programs."""
    venv.create(folder, symlinks=True)
    programs = folder / "bin"
    run(
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "-q",
        "--offline",
        "--no-deps",
        "--python",
        programs / "python",
        wheel,
        cwd=folder,
    )
    (library,) = (folder / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"sprocketmq-{VERSION}.dist-info/METADATA").decode()
    wanted = [(Requirement(line), extras) for line in Parser().parsestr(text).get_all("Requires-Dist", [])]
    seen = set()
    while wanted:
        requirement, of = wanted.pop()
        if requirement.name in seen or not _holds(requirement, of):
            continue
        seen.add(requirement.name)
        found = importlib.metadata.distribution(requirement.name)
        for path in found.files or ():
            if ".." not in path.parts:
                (library / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found.locate_file(path), library / path)
        wanted += [(Requirement(line), tuple(requirement.extras)) for line in found.requires or ()]
    return programs


def _holds(requirement: Requirement, extras: tuple[str, ...]) -> bool:
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": one}) for one in ("", *extras))


def test_an_index_takes_both(packages: Path) -> None:
    files = [*packages.glob("*.whl"), *packages.glob("*.tar.gz")]
    assert len(files) == 2
    said = run(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=packages)
    assert said.count("PASSED") == 2


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    info = f"sprocketmq-{VERSION}.dist-info"
    assert {name.split("/")[0] for name in inside} == {"sprocketmq", "pyspark_rocketmq", info}
    assert {f"src/{name}" for name in inside if not name.startswith(info)} == {
        name for name in sources() if name.startswith("src/")
    }
    assert "sprocketmq/py.typed" in inside
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"} <= inside


def test_the_sdist_holds_what_is_tracked_and_nothing_made_here(packages: Path) -> None:
    with tarfile.open(packages / f"sprocketmq-{VERSION}.tar.gz") as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert inside - sources() <= {"PKG-INFO"}
    assert {"pyproject.toml", "README.md", "LICENSE", "NOTICE", "CHANGELOG.md"} <= inside
    assert any(name.startswith("tests/") for name in inside)


def test_a_link_of_the_readme_works_on_an_index(metadata: Message) -> None:
    """An index shows the README alone: a link into the repository leads nowhere there, unless it is a whole address."""
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert re.findall(r"!\[[^\]]*\]\((?!https://)", text) == []


def test_the_client_alone_needs_two_libraries(wheel: Path, tmp_path: Path) -> None:
    programs = environment(tmp_path / "venv", wheel)
    installed = run(
        sys.executable, "-m", "uv", "pip", "list", "--offline", "--python", programs / "python", cwd=tmp_path
    )
    assert {line.split()[0] for line in installed.splitlines()[2:]} == {"sprocketmq", "msgspec", "uvloop"}
    told = run(programs / "python", "-c", "import sprocketmq as rmq; print(rmq.Producer, rmq.__file__)", cwd=tmp_path)
    assert str(tmp_path) in told
    done = subprocess.run(
        [programs / "sprocketmq", "--version"], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.returncode != 0
    assert "pip install 'sprocketmq[cli]'" in done.stderr


@pytest.mark.timeout(300)
def test_the_tutorial_works_with_what_it_installs(wheel: Path, tmp_path: Path) -> None:
    """The extras that the page names, in an empty environment outside of the clone; Spark is left out, it is large."""
    fences = fences_of(ROOT / "docs/tutorial.md")
    (extras,) = re.findall(
        r'^\$ pip install "sprocketmq\[(broker.*)\]"$', "".join(f.text for f in fences), re.MULTILINE
    )
    programs = environment(tmp_path / "venv", wheel, *extras.split(","))
    (tmp_path / "shop").mkdir()
    with Walk(tmp_path / "shop", programs=programs) as reader:
        for fence in fences:
            if not fence.section.startswith("6."):
                reader.step(fence)
