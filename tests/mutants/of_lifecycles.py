"""Mutants of starting and shutting down."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["LIFECYCLE_MUTANTS"]

MACHINE = "src/sprocketmq/core/lifecycle.py"
DRIVER = "src/sprocketmq/client/async_client.py"
CLIENT = "src/sprocketmq/client"
LAWS = "tests/unit/core/test_lifecycle.py"
PAIRS = "tests/inproc/client/test_client_lifecycle.py"
SHUTDOWN = "tests/inproc/client/test_client_shutdown.py"

LIFECYCLE_MUTANTS = [
    Mutant(
        "S1",
        "a start that one of two callers gave up is undone for both",
        MACHINE,
        "        if self._starters:\n            return False\n",
        "",
        LAWS,
    ),
    Mutant(
        "S1",
        "an opening that ends after a shutdown runs all the same",
        MACHINE,
        "        if self.state is not LifeState.STARTING:\n            return False\n        self.state = LifeState.RUNNING",
        "        self.state = LifeState.RUNNING",
        LAWS,
    ),
    Mutant(
        "S1",
        "a consumer is started a second time",
        MACHINE,
        "        if self._was_shut_down and not self._restarts:\n",
        "        if False:\n",
        LAWS,
    ),
    Mutant(
        "S1",
        "a cancelled shutdown takes the closing along",
        DRIVER,
        "        if not runs_caller:\n            await asyncio.shield(self._work)\n",
        "        if not runs_caller:\n            await self._work\n",
        f"{SHUTDOWN}::test_a_cancelled_shutdown_goes_on_and_whoever_calls_again_waits_for_it",
    ),
    Mutant(
        "S1",
        "a second shutdown returns before the first is done",
        DRIVER,
        "        if not runs_caller:\n",
        "        if not runs_caller and step is ShutdownStep.CLOSE:\n",
        f"{SHUTDOWN}::test_a_cancelled_shutdown_goes_on_and_whoever_calls_again_waits_for_it",
    ),
    Mutant(
        "S5",
        "a shutdown in a listener waits for itself",
        f"{CLIENT}/consume/running_consumer.py",
        "        return self._service_started and self.service.runs_caller\n",
        "        return False\n",
        f"{SHUTDOWN}::test_a_listener_may_shut_its_consumer_down",
    ),
    Mutant(
        "S1",
        "a client that nobody holds stays a member",
        DRIVER,
        "                loop.call_soon_threadsafe(_stop_forgotten, parts)\n",
        "                pass\n",
        f"{SHUTDOWN}::test_a_client_that_nobody_holds_leaves_and_says_so",
    ),
    Mutant(
        "S1",
        "the end of a program forgets what send_async began",
        DRIVER,
        "atexit.register(_shut_down_at_exit)\n",
        "",
        f"{SHUTDOWN}::test_the_end_of_a_program_sends_what_was_begun_and_warns",
    ),
    Mutant(
        "S1",
        "the end of a program waits for a broker that does not answer",
        DRIVER,
        "concurrent.futures.wait(ends, EXIT_TIMEOUT_S)",
        "concurrent.futures.wait(ends, 300)",
        f"{SHUTDOWN}::test_the_end_of_a_program_does_not_wait_for_ever",
    ),
    Mutant(
        "S1",
        "shutdown leaves what send_async began",
        f"{CLIENT}/produce/running_producer.py",
        "            self._end_checks, self.flush, self._end_batches,",
        "            self._end_checks, self._end_batches,",
        f"{SHUTDOWN}::test_shutdown_waits_for_a_send_that_is_answered_late",
    ),
    Mutant(
        "S1",
        "a shutdown that meets the end of a start cuts the leaving short",
        DRIVER,
        "            if self._is_opening:\n",
        "            if True:\n",
        f"{SHUTDOWN}::test_a_shutdown_that_meets_the_end_of_a_start_leaves_all_the_same",
    ),
    Mutant(
        "S1",
        "the brokers do not hear of a filter that changes while its consumer starts",
        f"{CLIENT}/consume/running_consumer.py",
        "        if self.subscriptions == wanted:\n",
        "        if True:\n",
        f"{SHUTDOWN}::test_a_filter_that_changes_while_its_consumer_starts_holds",
    ),
    Mutant(
        "producers",
        "flush waits for every send that comes while it waits",
        f"{CLIENT}/produce/running_producer.py",
        "        if begun:\n            await asyncio.wait(begun)\n",
        "        while self.begun:\n            await asyncio.wait(self.begun)\n",
        f"{SHUTDOWN}::test_flush_waits_for_what_was_given_before_it_and_for_nothing_that_comes_meanwhile",
    ),
    Mutant(
        "producers",
        "flush of batches waits for every send that comes while it waits",
        f"{CLIENT}/produce/batch_accumulator.py",
        "        for *_, future, _ in here:\n            while not future.done():\n",
        "        if here:\n            while self._here():\n",
        f"{SHUTDOWN}::test_flush_waits_for_what_was_given_before_it_and_for_nothing_that_comes_meanwhile",
    ),
    Mutant(
        "S1",
        "a heartbeat under way registers again who has left",
        f"{CLIENT}/remoting/instance.py",
        "            await self.heartbeats.over(address)\n",
        "",
        f"{SHUTDOWN}::test_a_heartbeat_under_way_does_not_bring_back_who_has_left",
    ),
    Mutant(
        "S1",
        "a request that a shutdown interrupts looks as if its caller were cancelled",
        "src/sprocketmq/net/pool.py",
        '        if opening.task.cancelled():\n            raise ClosedError("the client was shut down")\n',
        "",
        "tests/system/net/test_connection.py::test_who_waits_for_a_connection_while_its_pool_is_closed_is_told_so_and_not_cancelled",
    ),
    Mutant(
        "S4",
        "a poll outlives its consumer",
        f"{CLIENT}/read/poll_service.py",
        "            if self._closed:",
        "            if False:",
        f"{SHUTDOWN}::test_a_poll_that_waits_ends_with_its_consumer",
    ),
]
