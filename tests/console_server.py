# SPDX-License-Identifier: Apache-2.0
"""A console that serves on a thread, asked over HTTP as a browser asks it."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from sprocketmq.console import ConsoleServer, ConsoleSettings

if TYPE_CHECKING:
    from typing import Self

    from sprocketmq.client.keyword_options import CommonOptions

T = TypeVar("T")

DEADLINE_S = 60


class RunningConsole:
    """One console on a free port; ``browser`` is signed in, ``stranger`` is not."""

    def __init__(self, namesrv_addr: str, *, clients: Mapping[str, Any] | None = None, **settings: Any) -> None:
        options: CommonOptions = {"namesrv_addr": namesrv_addr, **(clients or {})}  # type: ignore[typeddict-item]
        settings = {"port": 0, "interval_ms": 500, "limit_ms": 2_000, **settings}
        self.server = ConsoleServer(ConsoleSettings(options, **settings))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self.server.astart())
        self.base = f"http://{self.server.address}"
        self.stranger = httpx.Client(base_url=self.base, timeout=DEADLINE_S)
        self.browser = httpx.Client(base_url=self.base, timeout=DEADLINE_S)
        assert self.browser.get(self.server.link).status_code == 200
        return self

    def __exit__(self, *raised: object) -> None:
        self.stranger.close()
        self.browser.close()
        self.run(self.server.astop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step on the console's loop."""
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(DEADLINE_S)

    def page(self, path: str, **parameters: Any) -> str:
        """The text of a page that is there."""
        answer = self.browser.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.text

    def until(self, wanted: str, path: str, **parameters: Any) -> str:
        """Ask for a page until ``wanted`` is in it."""
        deadline = time.monotonic() + DEADLINE_S
        while wanted not in (text := self.page(path, **parameters)):
            assert time.monotonic() < deadline, f"{wanted!r} is not in {text}"
            time.sleep(0.1)
        return text

    @property
    def form_key(self) -> str:
        """What the forms of the signed-in browser carry."""
        found = re.search(r'name="form_key" value="([^"]+)"', self.page("/"))
        assert found is not None
        return found[1]

    def post(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form as a page of the signed-in browser does."""
        return self.browser.post(path, data={"form_key": self.form_key, **fields})
