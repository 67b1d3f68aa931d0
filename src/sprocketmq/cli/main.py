# SPDX-License-Identifier: Apache-2.0
"""The table of commands, and the exit codes and messages for errors. ``sprocketmq --help`` lists the commands.

Rules
    1. Exit codes: 0 success; 1 the command failed (a server refused or did not answer, something was not found, a check found a
       fault); 2 wrong usage, and nothing was done (a wrong command line, option, name, setting or directory); 3 above the limit
       of ``lag --fail-over``; 4 a part was done and the rest was not (``PartlyDone``); 130 Ctrl-C.
    2. An error is one sentence on stderr, ``sprocketmq: ...``. A traceback is a bug, but for that of a user's code (``run``).
    3. If the reader of stdout closes it (``| head``), the command ends without a message, with exit code 1, as click does.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Final

import click

from sprocketmq.cli.frame.command_line import SectionedGroup
from sprocketmq.cli.frame.partly_done import PartlyDone
from sprocketmq.errors import (
    ConfigurationError,
    GroupNotExist,
    RemoteError,
    RequestNotServed,
    RocketMQError,
    StoreError,
    TopicNotExist,
)
from sprocketmq.extras import extra_of, missing_extra
from sprocketmq.logs import escaped
from sprocketmq.version import __version__

FAILED: Final = 1
USAGE: Final = 2
PARTLY: Final = 4
_NOT_SUPPORTED: Final = 3  # ResponseCode.REQUEST_CODE_NOT_SUPPORTED; this module loads nothing of the wire
_SHELLS: Final = ("bash", "zsh", "fish")

# The options of a cluster (``frame.target``), and whether a value follows.
_BEFORE: Final = {
    **dict.fromkeys(("-n", "--namesrv-addr", "--context", "--access-key", "--secret-key", "--secret-key-file"), True),
    **dict.fromkeys(("--tls-ca", "--timeout"), True),
    "--tls": False,
}

# Heading -> command -> its module; the command is the attribute of its name.
_SECTIONS: Final = {
    "Messages": {
        "send": "commands.send",
        "request": "commands.send",
        "tail": "commands.tail",
        "message": "commands.message",
        "dead-letters": "commands.dead_letters",
    },
    "Topics and groups": {
        "topic": "commands.topic",
        "group": "commands.group",
        "lag": "commands.lag",
    },
    "Brokers and access": {
        "broker": "commands.broker",
        "user": "commands.access",
        "acl": "commands.access",
        "bench": "commands.bench",
    },
    "On this machine": {
        "run": "run",
        "serve": "server_commands",
        "cluster": "cluster",
        "console": "server_commands",
        "namesrv": "server_commands",
        "handover": "server_commands",
        "demo": "server_commands",
    },
    "Spark": {
        "settle": "spark_commands",
        "merge-ledger": "spark_commands",
        "spark-checkpoint": "spark_commands",
    },
    "Files": {
        "store": "store_commands",
        "replay": "store_commands",
    },
    "This program": {
        "cheat": "cheat",
        "context": "commands.context",
        "completion": "main",
        "version": "main",
    },
}

# What mqadmin, Kafka's scripts, rpk, nats and rabbitmqctl call it.
_ELSEWHERE: Final = {
    **dict.fromkeys(
        ("health", "ping", "status", "brokers", "list-brokers", "clusterList"),
        "broker list",
    ),
    "brokerStatus": "broker show BROKER",
    **dict.fromkeys(("config", "configs", "getBrokerConfig"), "broker config get BROKER"),
    "updateBrokerConfig": "broker config set BROKER KEY=VALUE",
    "metrics": "Brokers serve them: 'sprocketmq serve --set metricsExporterType=PROM'.",
    **dict.fromkeys(("dlq", "deadletter", "dead-letter", "deadletters"), "dead-letters list GROUP"),
    **dict.fromkeys(
        ("consume", "consumer", "sub", "subscribe", "receive", "read", "cat", "consumeMessage"), "tail TOPIC -f"
    ),
    **dict.fromkeys(("produce", "producer", "publish", "pub", "sendMessage"), "send TOPIC BODY"),
    **dict.fromkeys(("groups", "consumers", "consumer-groups", "consumer-group"), "group list"),
    **dict.fromkeys(("consumerProgress", "offsets"), "lag GROUP"),
    **dict.fromkeys(("consumerConnection", "members"), "group members GROUP"),
    "consumerStatus": "group doctor GROUP",
    "diagnose": "group doctor GROUP",
    **dict.fromkeys(
        ("reset", "reset-offsets", "seek", "resetOffsetByTime"), "group reset GROUP --topic TOPIC --to TIME"
    ),
    **dict.fromkeys(("topicList", "list-topics", "streams", "queues", "list_queues"), "topic list"),
    **dict.fromkeys(("topicStatus", "topicRoute", "stream", "partitions"), "topic show TOPIC"),
    **dict.fromkeys(("updateTopic", "create-topic"), "topic create TOPIC"),
    **dict.fromkeys(("deleteTopic", "delete-topic", "purge"), "topic delete TOPIC"),
    **dict.fromkeys(("messages", "find", "search", "queryMsgByKey", "queryMsgById"), "message find TOPIC --key KEY"),
    **dict.fromkeys(("queryMsgTraceById", "trace"), "message trace ID"),
    "users": "user list",
    "acls": "acl list",
    **dict.fromkeys(("server", "start"), "serve"),
    **dict.fromkeys(("ui", "dashboard", "web"), "console"),
    "check": "store check DIR",
    **dict.fromkeys(("cheatsheet", "examples"), "cheat"),
    "up": "cluster up",
    "down": "cluster down",
    "perf": "bench",
}


@click.group(
    cls=SectionedGroup,
    sections=_SECTIONS,
    elsewhere=_ELSEWHERE,
    old_names={"topics": ("topic", "list"), "doctor": ("group", "doctor")},
    before=_BEFORE,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)
@click.version_option(__version__, message="sprocketmq %(version)s")
def app() -> None:
    """Manage RocketMQ clusters, and run RocketMQ on this machine.

    Start with 'sprocketmq topic list', 'sprocketmq tail TOPIC -f' or 'sprocketmq serve'.
    """


@click.command()
def version() -> None:
    """Print the version of SprocketMQ."""
    print(f"sprocketmq {__version__}")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print a completion script for a shell.

    It completes commands, options, and the names of contexts, topics and groups.

    \b
    bash: eval "$(sprocketmq completion bash)"                                           in ~/.bashrc
    zsh:  eval "$(sprocketmq completion zsh)"                                            in ~/.zshrc
    fish: sprocketmq completion fish > ~/.config/fish/completions/sprocketmq.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    print(kind(app, {}, "sprocketmq", "_SPROCKETMQ_COMPLETE").source())


def main() -> None:
    if sys.stderr is None:  # closed by the caller, as stdout below
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    if sys.stdout is None:
        print("sprocketmq: stdout is closed; give it a file, or /dev/null", file=sys.stderr)
        sys.exit(USAGE)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks
    try:
        try:
            app(prog_name="sprocketmq", standalone_mode=False)
        finally:
            sys.stdout.flush()  # here, so that a full disk is a sentence also behind sys.exit
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption) and error.ctx is not None:
            near = _options_with(error.option_name, error.ctx.command)
            if near:
                error = click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)
        error.show()
        sys.exit(USAGE)
    except PartlyDone as error:
        print(escaped(f"sprocketmq: {error}"), file=sys.stderr)
        sys.exit(PARTLY)
    except RocketMQError as error:
        print(escaped(f"sprocketmq: {_sentence(error)}"), file=sys.stderr)
        sys.exit(USAGE if isinstance(error, ConfigurationError | StoreError) else FAILED)
    except ModuleNotFoundError as error:
        extra = extra_of(error)
        if extra is None:
            raise
        print(f"sprocketmq: {missing_extra('this command', extra, error)}", file=sys.stderr)
        sys.exit(USAGE)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(escaped(f"sprocketmq: {error}"), file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit does not fail again
        sys.exit(FAILED)
    except UnicodeError as error:
        print(escaped(f"sprocketmq: a text is not UTF-8: {error}"), file=sys.stderr)
        sys.exit(USAGE)
    except RecursionError:
        print("sprocketmq: a JSON document is nested too deeply", file=sys.stderr)
        sys.exit(USAGE)
    except (KeyboardInterrupt, click.Abort):
        print("sprocketmq: interrupted", file=sys.stderr)
        sys.exit(130)


def _options_with(name: str, command: click.Command) -> list[str]:
    """Those that have the word ``name`` in their name, as --namesrv-port has --port."""
    return [
        option for parameter in command.params for option in parameter.opts if name.lstrip("-") in option.split("-")
    ]


def _sentence(error: RocketMQError) -> str:
    """The text of an error, without code and address for a name that was mistyped. A broker that does not support a request answers
    only with a code; explain that code."""
    if isinstance(error, TopicNotExist | GroupNotExist) and error.remark:
        return error.remark
    if isinstance(error, RemoteError) and error.code == _NOT_SUPPORTED and not isinstance(error, RequestNotServed):
        return f"{error.address} does not support this request, which needs RocketMQ 5; it answered {error.remark or 'nothing else'!r}"
    return str(error)


if __name__ == "__main__":
    main()
