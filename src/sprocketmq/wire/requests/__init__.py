# SPDX-License-Identifier: Apache-2.0
"""Every request of the protocol, each declared once in the module of its family (``requests.offsets.GET_MAX_OFFSET``): its code, headers
and bodies, the rights it needs, and who serves it. Handlers, access control, checks of headers, clients, the handover and
docs/internals/requests.md go by it. A family is imported at its first use, because a producer never needs most of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Final

from sprocketmq.errors import ConfigurationError

if TYPE_CHECKING:
    from sprocketmq.wire.requests import accounts as accounts
    from sprocketmq.wire.requests import brokers as brokers
    from sprocketmq.wire.requests import consumers as consumers
    from sprocketmq.wire.requests import messages as messages
    from sprocketmq.wire.requests import name_servers as name_servers
    from sprocketmq.wire.requests import offsets as offsets
    from sprocketmq.wire.requests import topics as topics
    from sprocketmq.wire.requests.declaration import AnyRequest, Peer

__all__ = ["FAMILIES", "check_handlers", "declared", "served_by"]

FAMILIES: Final = ("messages", "consumers", "offsets", "topics", "brokers", "accounts", "name_servers")


def __getattr__(name: str) -> ModuleType:
    if name not in FAMILIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")  # the import makes it an ordinary attribute


@cache
def declared() -> tuple[AnyRequest, ...]:
    from sprocketmq.wire.requests.declaration import Request

    found = [one for name in FAMILIES for one in vars(__getattr__(name)).values() if isinstance(one, Request)]
    return tuple(sorted(found, key=lambda one: one.code))


def served_by(peer: Peer) -> tuple[AnyRequest, ...]:
    return tuple(one for one in declared() if peer in one.served_by)


def check_handlers(peer: Peer, codes: Iterable[int]) -> None:
    """Check that a server has a handler for each request that it serves and for no other, and that each declares its needs. Raises
    ConfigurationError (names the codes for which this is not so)."""
    handled, serves = set(codes), served_by(peer)
    declared_codes = {int(one.code) for one in serves}
    for wrong, what in (
        (handled - declared_codes, "have a handler and no declaration"),
        (declared_codes - handled, "are declared and have no handler"),
        ({int(one.code) for one in serves if one.access is None}, "have no stated need"),
    ):
        if wrong:
            names = ", ".join(str(code) for code in sorted(wrong))
            raise ConfigurationError(f"request codes {names} {what}; see sprocketmq.wire.requests")
