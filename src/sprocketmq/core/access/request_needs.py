# SPDX-License-Identifier: Apache-2.0
"""The rights that each request to a broker needs, for both generations, by the declarations of ``wire.requests``.

Java (PlainAccessValidator.parse, DefaultAuthorizationContextBuilder) leaves out some requests and skips missing names. Here every request
has its needs, and is refused if a name is missing; ``authorizationWhitelist`` allows single codes again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cache
from typing import Final

from sprocketmq.core.access.need_readers import Place, Reader, names_alone, reader_of
from sprocketmq.core.access.rights import Need
from sprocketmq.errors import ProtocolError
from sprocketmq.wire import requests
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.headers.ext_header import ExtHeader
from sprocketmq.wire.requests.declaration import Peer


def needs_of(command: Command, place: Place) -> Iterable[Need]:
    """The needs of ``command``, in the order of the checks. Raises ProtocolError, also while iterating: they cannot be determined."""
    reader = _readers().get(command.code)
    if reader is None:
        raise ProtocolError(f"request code {command.code} has no stated need")
    return reader(command, place)


def needs_key(command: Command) -> Hashable | None:
    """The code and names of a frequent request with a typed header, if its needs depend on nothing else; otherwise None."""
    header, code = command.typed_header, command.code
    if header is None:
        return None
    names = (_NAMES or _find_names()).get(code)
    return None if names is None else (code, names(header))


# By the code: a function that returns the names in a typed header. Filled when the first request is checked.
_NAMES: Final[dict[int, Callable[[ExtHeader], Hashable] | None]] = {}


def _find_names() -> dict[int, Callable[[ExtHeader], Hashable] | None]:
    for one in requests.served_by(Peer.BROKER):
        _NAMES[int(one.code)] = names_alone(one.access or (), one.header)
    return _NAMES


@cache
def _readers() -> dict[int, Reader]:
    return {
        int(one.code): reader_of(one.access, one.header)
        for one in requests.served_by(Peer.BROKER)
        if one.access is not None
    }
