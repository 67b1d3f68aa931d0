# SPDX-License-Identifier: Apache-2.0
"""Every command where its surroundings are hostile: a full disk or nothing behind stdout, a terminal of ASCII, no home directory.

Each ends with an exit code and at most one line of its own on stderr, never with a traceback.
"""

from __future__ import annotations

import io

import pytest

from cli_run import commands
from sprocketmq.cli.main import main

COMMANDS = [words for words, _ in commands()]


def ended(monkeypatch: pytest.MonkeyPatch, out: io.TextIOWrapper | None, *words: str) -> tuple[int, str]:
    """Exit code and stderr."""
    err = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr("sys.argv", ["sprocketmq", *words])
    code = 0
    try:
        main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    err.flush()
    assert isinstance(err.buffer, io.BytesIO)
    return code, err.buffer.getvalue().decode("utf-8", "replace")  # click takes an ASCII terminal for one of UTF-8


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help(monkeypatch, words):
    ascii_only = io.TextIOWrapper(io.BytesIO(), "ascii")
    assert ended(monkeypatch, ascii_only, *words, "--help") == (0, "")
    assert ended(monkeypatch, None, *words, "--help") == (
        2,
        "sprocketmq: stdout is closed; give it a file, or /dev/null\n",
    )
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert ended(monkeypatch, full, *words, "--help") == (1, "sprocketmq: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_option_with_letters_that_the_terminal_lacks(monkeypatch, words):
    code, errors = ended(monkeypatch, io.TextIOWrapper(io.BytesIO(), "ascii"), *words, "--größe\udcff")
    assert code == 2
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--store", "~/store", "--namesrv-port", "0", "--broker-port", "0"),
        ("store", "check", "~/store"),
        ("store", "inspect", "~/store"),
        ("replay", "~/record"),
        ("context", "add", "prod", "--namesrv-addr", "127.0.0.1:9"),
    ],
    ids=lambda words: words[0],
)
def test_a_tilde_without_a_home(monkeypatch, tmp_path, words):
    """As a user of a container that is not in /etc/passwd."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "XDG_CONFIG_HOME", "SPROCKETMQ_CONTEXTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    code, errors = ended(monkeypatch, io.TextIOWrapper(io.BytesIO(), "utf-8"), *words)
    assert (code, errors.count("\n"), "no home directory" in errors) == (2, 1, True)
    assert list(tmp_path.iterdir()) == []
    assert ended(monkeypatch, io.TextIOWrapper(io.BytesIO(), "utf-8"), "context", "list")[0] == 0


NO_UTF8 = b"\xff\xfe\n{}\n"
DEEP = b"[" * 200_000 + b"\n{}\n"


@pytest.mark.parametrize(
    ("words", "content"),
    [
        *((words, content) for words in (("send", "orders", "--file"), ("replay",)) for content in (NO_UTF8, DEEP)),
        (("serve", "--config"), NO_UTF8),
        (("console", "--token-file"), NO_UTF8),
    ],
    ids=["send", "send, deep", "replay", "replay, deep", "serve", "console"],
)
def test_files_that_cannot_be_read(monkeypatch, tmp_path, words, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:9")
    code, errors = ended(monkeypatch, io.TextIOWrapper(io.BytesIO(), "utf-8"), *words, str(file))
    assert code in (1, 2)
    assert "Traceback" not in errors
    assert errors.count("\n") == 1


def test_an_empty_store_is_not_the_working_directory(monkeypatch):
    code, errors = ended(monkeypatch, io.TextIOWrapper(io.BytesIO(), "utf-8"), "serve", "--store", "")
    assert (code, "it is empty" in errors) == (2, True)
