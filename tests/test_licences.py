# SPDX-License-Identifier: Apache-2.0
"""Each source file names its licence, as the package does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sprocketmq.client import keyword_options

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts/spdx"


def run(*arguments: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(root / "scripts/spdx"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_each_source_file_has_the_line() -> None:
    done = run("--check")
    assert done.returncode == 0, done.stderr
    written = Path(keyword_options.__file__).read_text("utf-8")
    assert written.startswith("# SPDX-License-Identifier: Apache-2.0\n")


def test_the_script_names_a_file_without_the_line_and_writes_it_below_the_interpreter(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/spdx").write_bytes(SCRIPT.read_bytes())
    for name, text in {
        "a.py": "X = 1\n",
        "tool": "#!/bin/sh\ntrue\n",
        "A.java": "class A {}\n",
        "a.css": "a {}\n",
        "a.txt": "a\n",
    }.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert run("--check", root=tmp_path).stderr.split()[-4:] == ["A.java", "a.css", "a.py", "tool"]
    assert run(root=tmp_path).returncode == 0
    assert run("--check", root=tmp_path).returncode == 0
    line = "SPDX-License-Identifier: Apache-2.0"
    assert (tmp_path / "a.py").read_text() == f"# {line}\nX = 1\n"
    assert (tmp_path / "tool").read_text() == f"#!/bin/sh\n# {line}\ntrue\n"
    assert (tmp_path / "a.css").read_text() == f"/* {line} */\na {{}}\n"
    assert (tmp_path / "a.txt").read_text() == "a\n"
