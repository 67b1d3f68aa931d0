# SPDX-License-Identifier: Apache-2.0
"""The cluster that a command connects to, and with which keys. The first of these that is given counts:

    1. -n HOST:PORT            keys from options or the environment
    2. --context NAME          everything from the context; an option replaces its part
    3. SPROCKETMQ_CONTEXT      as 2
    4. NAMESRV_ADDR            as 1
    5. the current context     as 2
    6. 127.0.0.1:9876          as 1

Rule: the keys of a context are sent only to the name servers of that context, or to those given by -n together with --context. The keys
of the environment are never sent to a context's name servers.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from sprocketmq.cli.frame.command_line import options
from sprocketmq.cli.frame.contexts import Context, Contexts
from sprocketmq.cli.frame.values import DURATION
from sprocketmq.errors import ConfigurationError, RocketMQError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from sprocketmq.client.admin import Admin
    from sprocketmq.client.dead_letters.dead_letters import DeadLetters
    from sprocketmq.client.keyword_options import CommonOptions

C = TypeVar("C", bound=Callable[..., Any])

DEFAULT_NAMESRV: Final = "127.0.0.1:9876"
_COMPLETION_TIMEOUT_MS: Final = 1_000
_NAMES: Final = (
    *("namesrv_addr", "context", "access_key", "secret_key", "secret_key_file"),
    *("tls", "tls_ca", "timeout_ms"),
)


@dataclass(frozen=True, slots=True)
class Target:
    namesrv_addr: str
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    secret_key_file: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    timeout_ms: int = 3_000

    def options(self) -> CommonOptions:
        found: CommonOptions = {
            "namesrv_addr": self.namesrv_addr,
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "secret_key_file": self.secret_key_file,
            "mq_client_api_timeout_ms": self.timeout_ms,
        }
        if self.tls_ca:
            import ssl

            try:
                found["ssl_context"] = ssl.create_default_context(cafile=self.tls_ca)
            except OSError as error:  # ssl.SSLError is one
                raise ConfigurationError(
                    f"--tls-ca is {self.tls_ca!r}, which cannot be read as certificates ({error}); a file in PEM form is allowed"
                ) from error
        elif self.tls:
            found["tls"] = True
        return found

    def spark_options(self) -> dict[str, str]:
        options = {
            "namesrvAddr": self.namesrv_addr,
            "accessKey": self.access_key,
            "secretKey": self.secret_key,
            "secretKeyFile": self.secret_key_file,
            "tls": "true" if self.tls or self.tls_ca else None,
            "tlsTrustCertPath": self.tls_ca,
        }
        return {name: value for name, value in options.items() if value}

    def admin(self) -> Admin:
        from sprocketmq.client.admin import Admin

        return Admin(**self.options())

    def dead_letters(self, group: str) -> DeadLetters:
        from sprocketmq.client.dead_letters.dead_letters import DeadLetters

        return DeadLetters(group, **self.options())


def resolve(given: Mapping[str, Any], environment: Mapping[str, str], contexts: Callable[[], Contexts]) -> Target:
    chosen: Context | None = None
    address = given.get("namesrv_addr")
    name = given.get("context") or ("" if address else environment.get("SPROCKETMQ_CONTEXT"))
    if name:
        chosen = contexts().get(name)
    elif not address:
        address = environment.get("NAMESRV_ADDR")
        known = None if address else contexts()
        if known is not None and known.current is not None:
            chosen = known.get(known.current)
    from_environment = Context(
        environment.get("NAMESRV_ADDR", ""),
        environment.get("ROCKETMQ_ACCESS_KEY") or None,
        environment.get("ROCKETMQ_SECRET_KEY_FILE") or None,
        tls_ca=environment.get("ROCKETMQ_TLS_CA") or None,
    )
    base = chosen or from_environment
    secret = given.get("secret_key") or (None if chosen else environment.get("ROCKETMQ_SECRET_KEY")) or None
    file = given.get("secret_key_file") or (None if given.get("secret_key") else base.secret_key_file)
    if file and not given.get("secret_key"):
        secret = None
    return Target(
        address or base.namesrv_addr or DEFAULT_NAMESRV,
        given.get("access_key") or base.access_key,
        secret,
        file,
        bool(given.get("tls") or base.tls),
        given.get("tls_ca") or base.tls_ca,
        given.get("timeout_ms") or 3_000,
    )


def _items(names: Iterable[str]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names]


def _complete_context(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        return _items(name for name in sorted(Contexts.load().by_name) if name.startswith(incomplete))
    except RocketMQError:
        return []


def _namesrv_addr(help_text: str) -> Callable[[C], C]:
    return click.option("--namesrv-addr", "-n", metavar="HOST:PORT", help=help_text)


_ACCESS: Final = options(
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=_complete_context,
        help="A cluster that 'sprocketmq context add' saved.  [env: SPROCKETMQ_CONTEXT]",
    ),
    click.option("--access-key", metavar="KEY", help="Access key.  [env: ROCKETMQ_ACCESS_KEY]"),
    click.option(
        "--secret-key",
        metavar="KEY",
        help="Secret key; ps shows it to other users, so prefer --secret-key-file.  [env: ROCKETMQ_SECRET_KEY]",
    ),
    click.option(
        "--secret-key-file",
        metavar="FILE",
        help="A file with the secret key, or with both keys.  [env: ROCKETMQ_SECRET_KEY_FILE]",
    ),
    click.option("--tls", is_flag=True, help="Use TLS, and trust this machine's certificate authorities."),
    click.option(
        "--tls-ca",
        metavar="FILE",
        help="Use TLS, and trust the certificate authorities in this file.  [env: ROCKETMQ_TLS_CA]",
    ),
)
_OPTIONS: Final = options(
    _namesrv_addr("Name servers, separated by ';'.  [env: NAMESRV_ADDR; default: 127.0.0.1:9876]"), _ACCESS
)
_TIMEOUT: Final = click.option(
    "--timeout", "timeout_ms", metavar="DURATION", type=DURATION, help="Timeout of each request; default: 3s."
)


def connects(command: C) -> C:
    """Add the options of a cluster to a command, and pass ``target`` to it."""
    return connects_without_timeout(_TIMEOUT(command))


def connects_without_timeout(command: C) -> C:
    """Like ``connects``, for commands whose own ``--timeout`` means something else."""

    return _OPTIONS(_with_target(command, needs_cluster=True))


def may_connect(command: C) -> C:
    """Like ``connects_without_timeout``, for a command that starts a cluster of its own, with ``target`` None, without -n and --context."""

    own = _namesrv_addr("Name servers of a cluster, or its proxy, to use instead of a broker of its own.")
    return own(_ACCESS(_with_target(command, needs_cluster=False)))


def _with_target(command: C, *, needs_cluster: bool) -> C:
    @functools.wraps(command)
    def connected(*args: Any, **named: Any) -> Any:
        given = {name: named.pop(name, None) for name in _NAMES}
        if needs_cluster or given["namesrv_addr"] or given["context"]:
            return command(*args, target=resolve(given, os.environ, Contexts.load), **named)
        if any(given.values()):
            raise click.UsageError("keys and TLS belong to a cluster; name it with -n HOST:PORT or --context NAME")
        return command(*args, target=None, **named)

    return connected  # type: ignore[return-value]


# -- names from the cluster, for the shell -----------------------------------------------------------------------------------------


def _completing(ask: Callable[[Admin], list[str]]) -> Callable[..., list[CompletionItem]]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        given = {name: ctx.params.get(name) for name in _NAMES} | {"timeout_ms": _COMPLETION_TIMEOUT_MS}
        try:
            with resolve(given, os.environ, Contexts.load).admin() as admin:
                names = ask(admin)
        except RocketMQError:
            return []
        hidden = () if incomplete.startswith("%") else ("%",)
        return _items(name for name in names if name.startswith(incomplete) and not name.startswith(hidden))

    return complete


def topic_argument(name: str = "topic", **named: Any) -> Callable[[C], C]:
    return click.argument(name, shell_complete=_completing(lambda admin: admin.topics()), **named)


def group_argument(name: str = "group", **named: Any) -> Callable[[C], C]:
    return click.argument(name, shell_complete=_completing(lambda admin: admin.groups()), **named)
