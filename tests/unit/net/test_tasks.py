# SPDX-License-Identifier: Apache-2.0
"""Tasks beside their owner: failures, cancellation by other code, and the end."""

from __future__ import annotations

import asyncio
import logging
from unittest.mock import Mock

from sprocketmq.net.process.tasks import Tasks

log = logging.getLogger("sprocketmq.tests")


def test_a_failure_is_logged_and_what_has_ended_is_forgotten(caplog):
    async def fail() -> None:
        raise ValueError

    async def run() -> None:
        tasks = Tasks(log, "this work")
        await asyncio.wait([tasks.start(fail()), tasks.start(asyncio.sleep(0))])
        assert not tasks

    asyncio.run(run())
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]


async def test_kept_work_begins_again_after_other_code_cancelled_it_until_its_owner_closes():
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    clock, tasks = Mock(), Tasks(log, "this work")
    tasks.keep(work, clock)
    for times in (1, 2):
        (task,) = tasks
        await asyncio.sleep(0)
        assert begun == times
        task.cancel()
        await asyncio.wait([task])
        assert not tasks
        _, again = clock.call_later.call_args.args
        again()
    (task,) = tasks
    await tasks.close()
    assert task.cancelled()
    again()
    assert not tasks


async def test_a_close_waits_as_long_as_it_may_and_spares_its_caller():
    tasks, may_end = Tasks(log, "this work"), asyncio.Event()
    ends, hangs = tasks.start(may_end.wait()), tasks.start(asyncio.Event().wait())
    asyncio.get_running_loop().call_soon(may_end.set)
    await tasks.start(tasks.close(wait_ms=50))
    assert ends.result()
    assert hangs.cancelled()
