# SPDX-License-Identifier: Apache-2.0
"""What every command has in common: names and near names, help pages, options, modules that are loaded when they are needed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import click
import pytest
from click.shell_completion import BashComplete, CompletionItem

from cli_run import commands
from sprocketmq.cli import cheat, main
from sprocketmq.cli.main import _ELSEWHERE
from sprocketmq.errors import ConfigurationError, NetworkError, RemoteError, RequestTimeout, StoreError

READING = ("list", "show", "get", "find", "trace", "track", "members", "stack", "doctor", "lag", "tail", "bench")
OF_THIS_MACHINE = {"serve", "console", "namesrv", "run", "demo", "handover", "store", "replay", "completion", "version"}
OF_THIS_MACHINE |= {"settle", "merge-ledger", "spark-checkpoint", "context", "cluster", "cheat"}


ALL = dict(commands())
OF_A_CLUSTER = {words: command for words, command in ALL.items() if not OF_THIS_MACHINE & set(words)}


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["sprocketmq", *words])
    try:
        main.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def option_names(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize("words", OF_A_CLUSTER, ids=" ".join)
def test_what_changes_a_cluster_has_a_dry_run_and_what_deletes_asks(words):
    names = option_names(OF_A_CLUSTER[words])
    verb = words[-1]
    reads = verb in READING or words in (("send",), ("request",))
    assert ("--dry-run" in names) is not reads, (
        "a command that changes a cluster has `@changes` or `@deletes`; the verb of one that only reads is in READING"
    )
    hides = words == ("topic", "alter")
    assert ("--yes" in names) is (hides or verb in ("delete", "purge", "reset", "clone", "drain")), (
        "a command that loses something has `@deletes`, and its verb is in this list"
    )


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_the_first_line_of_each_help_page_fits_the_list_of_commands(words):
    short = ALL[words].get_short_help_str(58)
    assert short.endswith((".", ")")), f"{short!r}: the first sentence of the docstring has more than 58 characters"
    assert not short.endswith("..."), f"{short!r}: the first sentence of the docstring has more than 58 characters"


def test_what_is_said_of_other_tools_commands_exists():
    assert not _ELSEWHERE.keys() & {words[0] for words in ALL if len(words) == 1}
    for meant in _ELSEWHERE.values():
        words = (re.findall("'sprocketmq (.*)'", meant) or [meant])[0].split()
        assert tuple(words[:3]) in ALL or tuple(words[:2]) in ALL or tuple(words[:1]) in ALL, meant


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topik", "list"), "No such command 'topik'. Did you mean topic?"),
        (("group", "docter", "g"), "Did you mean doctor?"),
        (("topic", "remove"), "Did you mean delete?"),
        (("topic", "mirror"), "There are: "),
        (("dlq", "billing"), "It is 'sprocketmq dead-letters list GROUP'."),
        (("health",), "It is 'sprocketmq broker list'."),
        (("metrics",), "metricsExporterType=PROM"),
        (("topic", "list", "--al"), "--all"),
        (("context", "use", "prod"), "there is no context 'prod'"),
    ],
)
def test_a_wrong_name_is_a_mistake_of_usage_with_the_nearest_one(words, said, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("SPROCKETMQ_CONTEXTS", f"{tmp_path}/contexts.json")
    assert run(monkeypatch, *words) == 2
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigurationError("no"), 2, "sprocketmq: no"),
        (
            StoreError("a\nlag of g: 0\x1b[2J\u202e"),
            2,
            "sprocketmq: a\\nlag",
        ),  # within its line, and steering no terminal
        (RemoteError(1, "no", "h:1"), 1, "sprocketmq: code 1 from h:1: no"),
        (RemoteError(3, "no", "h:1"), 1, "h:1 does not support this request, which needs RocketMQ 5"),
        (NetworkError("no"), 1, "sprocketmq: no"),
        (RequestTimeout("no"), 1, "sprocketmq: no"),
        (KeyboardInterrupt(), 130, "sprocketmq: interrupted"),
        (BrokenPipeError(), 1, ""),
    ],
    ids=repr,
)
def test_an_error_has_its_exit_code_and_one_sentence(error, code, said, monkeypatch, capfd):
    def failing(**options: object) -> None:
        raise error

    monkeypatch.setattr(main, "app", failing)
    monkeypatch.setattr(main.os, "dup2", lambda source, target: None)
    assert run(monkeypatch) == code
    out, err = capfd.readouterr()
    assert (out, said in err, len(err.splitlines())) == ("", True, 1 if said else 0)
    assert err.rstrip("\n").isprintable()


def test_no_error_if_the_reader_of_stdout_has_closed_it():
    """Through a real pipe: its end is closed before anything is written."""
    script = "import os, sys; sys.argv = ['sprocketmq', '--help']; from sprocketmq.cli.main import main; main()"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 1


def completed(*words: str) -> list[str]:
    complete = BashComplete(main.app, {}, "sprocketmq", "_SPROCKETMQ_COMPLETE")
    found: list[CompletionItem] = complete.get_completions(list(words[:-1]), words[-1])
    return [item.value for item in found]


def test_a_shell_completes_nouns_verbs_options_and_contexts(monkeypatch, tmp_path):
    monkeypatch.setenv("SPROCKETMQ_CONTEXTS", f"{tmp_path}/contexts.json")
    assert run(monkeypatch, "context", "add", "prod", "-n", "h:1") == 0
    assert completed("to") == ["topic"]
    assert completed("group", "do") == ["doctor"]
    assert completed("broker", "config", "") == ["get", "set"]
    assert completed("lag", "--fail") == ["--fail-over"]
    assert completed("lag", "g", "--context", "p") == ["prod"]


def test_an_option_that_is_a_part_of_the_one_that_is_there(monkeypatch, capsys):
    assert run(monkeypatch, "serve", "--port", "99") == 2
    said = capsys.readouterr().err
    assert "--namesrv-port" in said
    assert "--broker-port" in said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell, monkeypatch, capsys):
    assert run(monkeypatch, "completion", shell) == 0
    assert f"_SPROCKETMQ_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_the_version_is_printed(monkeypatch, capsys):
    from sprocketmq.version import __version__

    for word in ("--version", "version"):
        assert run(monkeypatch, word) == 0
        assert capsys.readouterr().out == f"sprocketmq {__version__}\n"


def test_help_loads_no_client_and_no_server():
    """All commands are imported for their first lines."""
    heavy = ("asyncio", "sprocketmq.broker", "sprocketmq.client", "msgspec", "pyspark", "ssl")
    script = f"""
import sys
sys.argv = ["sprocketmq", "--help"]
from sprocketmq.cli.main import main
main()
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "[]"
    assert "Messages:" in done.stdout


def parsed(words: list[str]) -> None:
    """As the command line parses them, without running anything."""
    command: click.Command = main.app
    name = ""
    while isinstance(command, click.Group):
        found_name, found, words = command.resolve_command(click.Context(command), words)
        assert found is not None
        name, command = found_name or "", found
    with command.make_context(name, words):
        pass  # closes the files that it opened


@pytest.mark.parametrize("task", cheat.TASKS, ids=lambda task: task.wish)
def test_the_sheet_has_commands_that_are_there(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.jsonl").touch()
    for part in task.command.split(" | "):
        parsed(shlex.split(part.removeprefix("sprocketmq ")))


def test_a_command_that_is_not_there_would_be_found():
    for words in (["topic", "crate", "orders"], ["lag", "billing", "--fail-above", "1"], ["topic", "create"]):
        with pytest.raises(click.UsageError):
            parsed(words)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), len(cheat.TASKS)),
        (("topics",), 4),
        (("topic",), 4),
        (("dead-letters",), 2),
        (("dead", "letters"), 2),
        (("alarms",), 1),
    ],
)
def test_the_sheet_is_aligned_and_chosen_by_topic_or_word(monkeypatch, capsys, words, count):
    assert run(monkeypatch, "cheat", *words) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert len(lines) == count
    assert len({line.index("  sprocketmq ") for line in lines}) == 1


def test_a_topic_that_the_sheet_does_not_have_is_a_sentence(monkeypatch, capsys):
    assert run(monkeypatch, "cheat", "brokrs") == 2
    assert capsys.readouterr().err == "sprocketmq: no line is about 'brokrs'; did you mean 'brokers'?\n"
