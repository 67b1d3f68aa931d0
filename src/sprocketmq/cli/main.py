"""The command line: which commands there are, and what becomes of an error. ``sprocketmq --help`` lists the commands.

Laws
    1. Exit codes: 0 done; 1 it was tried and failed (a server refused or did not answer, what is asked for is not there, a check found a
       fault); 2 a mistake of usage, nothing was tried (a wrong command line, option, name, setting or directory); 3 over the limit
       that was given; 130 Ctrl-C.
    2. A mistake ends with one sentence on stderr, ``sprocketmq: ...``. A traceback is always a bug.
    3. A reader that has seen enough (``| head``) ends the command without a word, with exit code 1, as click does.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from sprocketmq.cli.frame.command_line import SectionedGroup
from sprocketmq.errors import ConfigurationError, RemoteError, RocketMQError, StoreError
from sprocketmq.extras import extra_of, missing_extra
from sprocketmq.logs import escaped
from sprocketmq.version import __version__

__all__ = ["app", "main"]

FAILED: Final = 1
USAGE: Final = 2
_NOT_SUPPORTED: Final = 3  # ResponseCode.REQUEST_CODE_NOT_SUPPORTED; this module loads nothing of the wire
_SHELLS: Final = ("bash", "zsh", "fish")

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
    "Servers on this machine": {
        "serve": "server_commands",
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
        "context": "commands.context",
        "completion": "main",
        "version": "main",
    },
}


@click.group(
    cls=SectionedGroup,
    sections=_SECTIONS,
    old_names={"topics": ("topic", "list")},
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)
@click.version_option(__version__, message="sprocketmq %(version)s")
def app() -> None:
    """RocketMQ from the command line: a cluster's topics, groups, messages and brokers, and RocketMQ on one machine.

    Start with 'sprocketmq topic list', 'sprocketmq tail TOPIC -f' or 'sprocketmq serve'.
    """


@click.command()
def version() -> None:
    """The version of SprocketMQ."""
    print(f"sprocketmq {__version__}")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Completion for bash, zsh or fish.

    Of commands, options, and names of topics and groups.

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
    """Entry point of the ``sprocketmq`` script."""
    try:
        app(prog_name="sprocketmq", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except RocketMQError as error:
        print(escaped(f"sprocketmq: {_sentence(error)}"), file=sys.stderr)
        sys.exit(USAGE if isinstance(error, ConfigurationError | StoreError) else FAILED)
    except ModuleNotFoundError as error:
        extra = extra_of(error)
        if extra is None:
            raise
        print(f"sprocketmq: {missing_extra('this command', extra, error)}", file=sys.stderr)
        sys.exit(USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the flush at Python's end says so again
        sys.exit(FAILED)
    except (KeyboardInterrupt, click.Abort):
        print("sprocketmq: interrupted", file=sys.stderr)
        sys.exit(130)


def _sentence(error: RocketMQError) -> str:
    """What went wrong. A broker that does not know a request says so by a number, which means nothing to who typed the command."""
    if isinstance(error, RemoteError) and error.code == _NOT_SUPPORTED:
        return f"{error.address} does not know this request, which came with RocketMQ 5; it answered {error.remark or 'nothing else'!r}"
    return str(error)


if __name__ == "__main__":
    main()
