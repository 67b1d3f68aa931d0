# SPDX-License-Identifier: Apache-2.0
"""Log lines: what a peer says stays inside of its line, whatever handler an application has."""

from __future__ import annotations

import ast
import io
import json
import logging
from pathlib import Path

import pytest

import sprocketmq
from sprocketmq.cli.serve.log_lines import JsonLines
from sprocketmq.logs import LOGGERS, EscapedArguments, Lines, escaped

SOURCE = Path(sprocketmq.__file__).parent
FORGED = "nobody\n2026-11-22 10:00:00,000 ERROR sprocketmq.broker the disk is gone"
ENDS = (
    "\n",
    "\r",
    "\r\n",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x85",
    "\u2028",
    "\u2029",
    "\x00",
    "\x1b[2K",
    "\x7f",
    "\u202e",
    "\ud800",
)


def written(name: str, *arguments: object, formatter: logging.Formatter | None = None, **options: object) -> str:
    """What a handler of an application writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter or logging.Formatter("%(levelname)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        logging.getLogger(name).error(*arguments, **options)  # type: ignore[arg-type]
    finally:
        root.removeHandler(handler)
    return stream.getvalue()


@pytest.mark.parametrize("name", LOGGERS)
def test_a_name_with_a_line_break_makes_no_second_line(name):
    line = written(name, "group %s of %d: %s", FORGED, 3, ValueError(FORGED))
    assert line.splitlines() == [line.rstrip("\n")]
    assert line.count("the disk is gone") == 2
    assert line.isprintable() or line.rstrip("\n").isprintable()


@pytest.mark.parametrize("end", ENDS)
def test_nothing_that_ends_a_line_or_steers_a_terminal_comes_through(end):
    line = written("sprocketmq.broker", "%s", f"a{end}b").rstrip("\n")
    assert line.isprintable()
    assert len(line.splitlines()) == 1
    assert eval(f"'{escaped(f'a{end}b')}'") == f"a{end}b", "nothing is lost"  # noqa: S307


def test_ordinary_text_numbers_and_our_own_stacks_are_as_they_were():
    assert written("sprocketmq.net", "%s %r %5.1f %d%%", "grüße 🛫", "x", 1.25, 7) == "ERROR grüße 🛫 'x'   1.2 7%\n"
    assert written("sprocketmq.client", "stands in\n%s", Lines("a\nb")) == "ERROR stands in\na\nb\n"
    assert written("sprocketmq.client", "%(name)s", {"name": "a\nb"}) == "ERROR a\\nb\n"


def test_the_text_of_an_error_makes_no_line_of_its_traceback():
    try:
        try:
            raise ValueError(FORGED)
        except ValueError as error:
            raise RuntimeError("outer\r" + FORGED) from error
    except RuntimeError as error:
        text = written("sprocketmq.broker", "failed", exc_info=error)
    assert "Traceback" in text
    assert not [line for line in text.splitlines() if line.startswith("2026-11-22")]
    assert text.count("the disk is gone") >= 2


def test_json_lines_stay_json():
    line = written("sprocketmq.broker", "group %s", FORGED, formatter=JsonLines())
    assert json.loads(line)["message"] == "group " + escaped(FORGED)


def test_a_record_may_pass_twice():
    record = logging.LogRecord("x", logging.INFO, "", 1, "%s", ("a\nb",), None)
    for _ in range(2):
        assert EscapedArguments().filter(record)
    assert record.getMessage() == "a\\nb"


def test_every_logger_of_the_package_is_named_in_logs():
    """A new one has to be named in sprocketmq.logs, and its package to import that."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        module = ".".join(("sprocketmq", *path.relative_to(SOURCE).with_suffix("").parts))
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "getLogger" in text else ():
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in ("logging.getLogger", "getLogger")
                and node.args
            ):
                argument = node.args[0]
                name = (
                    module
                    if isinstance(argument, ast.Name) and argument.id == "__name__"
                    else ast.unparse(argument).strip("'")
                )
                if name != "_name" and not name.startswith(
                    ("uvicorn.", "watchfiles")
                ):  # sprocketmq.logs itself; libraries
                    found.add(name)
                    package = SOURCE / path.relative_to(SOURCE).parts[0] / "__init__.py"
                    assert "import sprocketmq.logs" in package.read_text(), package
    assert found == set(LOGGERS)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_without_text_is_shown_by_its_type(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("sprocketmq.client")
    try:
        raise Mute
    except Mute as error:
        log.warning("raised %s", error, exc_info=error)
        log.warning(error)
    first, second = caplog.records
    assert first.getMessage() == "raised <Mute without a text>"
    assert "Mute" in str(first.exc_text)
    assert second.getMessage() == "Mute"
