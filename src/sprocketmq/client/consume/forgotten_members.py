# SPDX-License-Identifier: Apache-2.0
"""Push consumers that run although nothing refers to them any more, as when a notebook cell is run a second time.

The work of a consumer keeps it alive, so both would be members of the group and share its messages. When one starts, a forgotten one of its
group and cluster is replaced in an interactive session (notebook, IPython, REPL); a program, where it may be intended, is warned.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any, Final

from sprocketmq.client.async_client import AsyncClient, unreferenced_clients

log = logging.getLogger("sprocketmq.client")

_OWN_FILES: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep

_WAIT_S: Final = 1.0  # between two checks of the other loop


def calling_line() -> str:
    """The line of the user's program that is being run, as ``file:line``."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN_FILES):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_interactive() -> bool:
    return hasattr(sys, "ps1")  # Python's prompt; IPython and notebooks set it, too


async def settle_forgotten(group: str, namesrv_addrs: frozenset[str]) -> None:
    for member in unreferenced_clients():
        made_at = _made_at(member, group, namesrv_addrs)
        if made_at is None:
            continue
        if not _is_interactive():
            log.warning(
                "group %s: this process runs a consumer of the group already, made at %s, to which no variable refers any more; both share "
                "the queues. If it was not meant to stay, keep it in a variable and call its shutdown()",
                group,
                made_at,
            )
            continue
        log.warning(
            "group %s: the consumer made at %s still ran, and no variable refers to it any more, as when a notebook cell is run twice; it "
            "is shut down, and the new one takes its place. To have several members, keep each in a variable",
            group,
            made_at,
        )
        await _shut_down(member)


def _made_at(member: AsyncClient[Any], group: str, namesrv_addrs: frozenset[str]) -> str | None:
    """Where a member of this group was made; None for other clients."""
    identity: tuple[str, frozenset[str], str] | None = getattr(member, "_membership", None)
    if identity is None:
        return None
    its_group, its_addrs, made_at = identity
    return made_at if its_group == group and its_addrs & namesrv_addrs else None


async def _shut_down(member: AsyncClient[Any]) -> None:
    loop = member._loop
    if loop is asyncio.get_running_loop():
        await member.shutdown()
    elif loop is not None and loop.is_running():
        ending = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(member.shutdown(), loop))
        while loop.is_running() and not (await asyncio.wait([ending], timeout=_WAIT_S))[0]:
            pass
        if ending.done():
            await ending
