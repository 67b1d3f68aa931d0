"""Mutants of what keeps wishes from becoming storms, and outages from spreading."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["STORM_MUTANTS"]

CORE, CLIENT, NET = "src/sprocketmq/core", "src/sprocketmq/client", "src/sprocketmq/net"
PACE = "tests/unit/core/test_pace.py"
STORMS = "tests/system/client/test_storms.py"
LIMITS = "tests/system/client/test_time_limits.py"

STORM_MUTANTS = [
    Mutant(
        "S3",
        "nothing lies between two rounds",
        f"{CORE}/pace.py",
        "max(self._wanted_ms, self._free_ms)",
        "self._wanted_ms",
        f"{PACE}::test_the_first_run_is_due_at_once_and_the_next_an_interval_after_its_end",
    ),
    Mutant(
        "S3",
        "a wish takes the place of one that is due earlier",
        f"{CORE}/pace.py",
        "min(at_ms, self._wanted_ms)",
        "at_ms",
        f"{PACE}::test_a_wish_with_a_delay_is_fulfilled_by_an_earlier_one",
    ),
    Mutant(
        "S3",
        "rebalances have no minimum interval",
        f"{CLIENT}/remoting/instance.py",
        "PacedWork(self.clock, REBALANCE_MIN_INTERVAL_MS, ",
        "PacedWork(self.clock, 0, ",
        f"{STORMS}::test_a_broker_that_says_a_thousand_times_that_the_group_changed_is_one_wish",
    ),
    Mutant(
        "S1",
        "each queue that a broker has forgotten makes a heartbeat",
        f"{CLIENT}/remoting/heartbeats.py",
        "        self._soon.soon()\n",
        "        self._spawn(self.to_all())\n        self._lanes.clear()\n",
        f"{STORMS}::test_256_queues_of_a_broker_that_forgot_us_make_few_heartbeats",
    ),
    Mutant(
        "producers",
        "a question to name servers has no part in the timeout of a send",
        f"{CLIENT}/remoting/routes.py",
        "came = await awaited.line.wait(timeout_ms)",
        "came = await awaited.line.wait(None)",
        f"{LIMITS}::test_a_send_that_no_name_server_can_be_asked_for_ends_in_time",
    ),
    Mutant(
        "producers",
        "connecting has no part in the timeout of a send",
        f"{NET}/pool.py",
        "            connection = await self.connection(address, timeout_ms)\n",
        "            connection = await self.connection(address)\n",
        f"{LIMITS}::test_a_send_to_a_broker_that_cannot_be_reached_ends_in_time",
    ),
    Mutant(
        "producers",
        "connecting has no part in the time of a one-way send",
        f"{NET}/pool.py",
        "        connection = await self.connection(address, timeout_ms)\n        await connection",
        "        connection = await self.connection(address)\n        await connection",
        f"{LIMITS}::test_a_send_to_a_broker_that_cannot_be_reached_ends_in_time",
    ),
    Mutant(
        "producers",
        "a peer that does not read has no part in the time of a one-way send",
        f"{NET}/connection.py",
        "            await self._turn(command.code, timeout_ms)\n            try:\n                self._write_oneway",
        "            await self._turn(command.code, _ONEWAY_TIMEOUT_MS)\n            try:\n                self._write_oneway",
        f"{LIMITS}::test_a_one_way_send_to_a_broker_that_does_not_read_ends_in_time",
    ),
    Mutant(
        "producers",
        "the end of a transaction has no limit of its own",
        f"{CLIENT}/remoting/sender.py",
        "invoke_oneway(address, command, left_ms)",
        "invoke_oneway(address, command)",
        f"{LIMITS}::test_the_end_of_a_transaction_whose_broker_cannot_be_reached_is_given_up_in_time",
    ),
    Mutant(
        "net",
        "a connection whose peer does not read is kept after it was given up",
        f"{NET}/pool.py",
        "            connection.abort()\n",
        "            pass\n",
        f"{LIMITS}::test_sends_to_a_broker_that_does_not_read_end_in_time_and_leave_nothing_open",
    ),
    Mutant(
        "net",
        "a silent connection is asked for ever",
        f"{NET}/pool.py",
        "            self.doubt(address, connection, asked_s)\n",
        "",
        f"{LIMITS}::test_a_silent_connection_to_a_name_server_is_given_up",
    ),
    Mutant(
        "producers",
        "a message that waits behind others of its queue waits for ever",
        f"{CLIENT}/produce/batch_accumulator.py",
        "            _fail(late, _waited_too_long())\n",
        "            pass\n",
        f"{LIMITS}::test_batched_sends_to_a_broker_that_does_not_answer_end_in_time",
    ),
    Mutant(
        "S1",
        "all brokers' heartbeats wait for each other",
        f"{CLIENT}/remoting/heartbeats.py",
        "        for address in self._targets():\n            self.begin(address)\n",
        "        await self.to_all()\n",
        f"{LIMITS}::test_a_frozen_broker_holds_up_no_heartbeat_to_another",
    ),
    Mutant(
        "producers",
        "a request fails while any broker of its topic is down",
        f"{CLIENT}/produce/request_reply.py",
        "                except NetworkError as error:\n",
        "                except ZeroDivisionError as error:\n",
        f"{LIMITS}::test_a_request_is_answered_while_another_broker_of_its_topic_is_down",
    ),
    Mutant(
        "net",
        "who comes later overtakes the one whose turn it is",
        f"{NET}/write_turns.py",
        "        self.is_idle = not self._waiting and not self._is_given\n",
        "        self.is_idle = not self._waiting\n",
        "tests/unit/net/test_requests_in_flight.py::test_requests_that_wait_for_a_peer_that_reads_again_are_not_overtaken",
    ),
    Mutant(
        "net",
        "a frame that is written already overtakes requests that wait",
        f"{NET}/connection.py",
        "            and self._turns.is_idle  # nobody is overtaken\n",
        "",
        "tests/unit/net/test_requests_in_flight.py::test_requests_that_wait_for_a_peer_that_reads_again_are_not_overtaken",
    ),
    Mutant(
        "producers",
        "a new topic has four queues, whatever its producer says",
        f"{CLIENT}/remoting/sender.py",
        "settings.create_topic_key, settings.default_topic_queue_nums, left_ms",
        "settings.create_topic_key, 4, left_ms",
        f"{LIMITS}::test_a_topic_that_is_sent_into_being_has_as_many_queues_as_its_producer_says",
    ),
]
