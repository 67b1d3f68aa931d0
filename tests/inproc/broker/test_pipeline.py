"""What the broker answers to sends, batches and pulls, and what it stores, is what it was: the recording of ``tests/golden/pipeline``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from golden.pipeline import Scene, recorded_scenes
from inproc.broker.played_frames import play
from sprocketmq.broker import lazy_imports


@pytest.fixture(scope="module", autouse=True)
def nothing_is_loaded_late() -> Iterator[None]:
    """Else the first filter of a run is answered later than the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_imports, "_loaded", set(lazy_imports.Library))
        yield


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("intercepted", [False, True], ids=["", "intercepted"])
@pytest.mark.parametrize("scene", recorded_scenes(), ids=str)
def test_each_recorded_frame_is_stored_and_answered_as_before(
    scene: Scene, intercepted: bool, loop: asyncio.AbstractEventLoop
) -> None:
    answers, stored = play(loop, scene.host, scene.reads, intercepted=intercepted)
    assert answers == scene.answers
    assert stored == scene.stored
