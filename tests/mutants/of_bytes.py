"""Bounds of bytes and descriptors, broken on purpose."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

NET: Final = "src/sprocketmq/net"
BROKER: Final = "src/sprocketmq/broker"
CORE: Final = "src/sprocketmq/core"
BOUNDED: Final = "tests/unit/net/test_bounded_protocol.py"
BUDGET: Final = "tests/unit/core/test_queue_budget.py"
DEAF: Final = "tests/inproc/broker/test_deaf_peers.py"
TEXTS: Final = "tests/inproc/broker/test_broker_texts.py"
DESCRIPTORS: Final = "tests/system/broker/test_descriptors.py"

BYTES_MUTANTS = [
    Mutant(
        "limits",
        "answers that are sent as commands are not counted",
        f"{NET}/connection.py",
        "        self._out_bytes += len(frame)\n",
        "",
        f"{BOUNDED}::test_the_mark_is_looked_at_within_one_read",
    ),
    Mutant(
        "limits",
        "nobody looks at the mark until the transport is empty",
        f"{NET}/connection.py",
        "        if self.backs_up:\n            self._look_at_unsent()\n",
        "",
        f"{BOUNDED}::test_the_mark_is_looked_at_within_one_read",
    ),
    Mutant(
        "limits",
        "requests that are being worked on do not pause their peer",
        f"{NET}/bounded_protocol.py",
        "        if self.holds_much:\n            self._stop()\n",
        "",
        f"{BOUNDED}::test_requests_that_are_being_worked_on_pause_their_peer_until_some_have_ended",
    ),
    Mutant(
        "gathering",
        "what is held is noted at each request",
        f"{NET}/bounded_protocol.py",
        "        if self._held_bytes - self._noted_held_bytes >= COUNTED_IN_BYTES:\n",
        "        if self._held_bytes >= COUNTED_IN_BYTES:\n",
        f"{BOUNDED}::test_what_is_held_is_noted_in_steps_and_not_each_time",
    ),
    Mutant(
        "gathering",
        "each durable answer is written by itself",
        f"{NET}/gathered_answers.py",
        "            if connection.gather():\n                self._began.append(connection)\n",
        "",
        "tests/inproc/broker/test_broker_restart.py::test_answers_that_one_flush_made_durable_leave_in_one_write",
    ),
    Mutant(
        "limits",
        "a connection that paused for its requests stays paused",
        f"{NET}/bounded_protocol.py",
        "            self._loop.call_soon(self._go_on)  # not here",
        "            pass  # not here",
        f"{BOUNDED}::test_requests_that_are_being_worked_on_pause_their_peer_until_some_have_ended",
    ),
    Mutant(
        "limits",
        "what was held of a peer that has gone is forgotten at once",
        f"{NET}/bounded_protocol.py",
        "        self._newest.clear()\n        self._queued.note(self, 0 if self._is_aborted else self._held_bytes, 0, self.now_s())\n",
        "        self._newest.clear()\n        self._queued.discard(self)\n",
        f"{BOUNDED}::test_what_is_held_of_a_peer_that_has_gone_stays_counted_until_it_is_released",
    ),
    Mutant(
        "limits",
        "pushes go to a peer that does not read",
        f"{NET}/connection.py",
        "        if self.is_closed or self.is_congested:\n            return False\n",
        "        if self.is_closed:\n            return False\n",
        f"{BOUNDED}::test_pushes_to_a_peer_that_does_not_read_are_dropped_and_notices_wait_one_of_each_kind",
    ),
    Mutant(
        "limits",
        "every notice waits",
        f"{NET}/bounded_protocol.py",
        "            self._newest[kind] = frame\n",
        "            self._newest[len(self._newest)] = frame\n",
        f"{DEAF}::test_notices_of_one_group_to_a_member_that_does_not_read_wait_once "
        f"{BOUNDED}::test_pushes_to_a_peer_that_does_not_read_are_dropped_and_notices_wait_one_of_each_kind",
    ),
    Mutant(
        "limits",
        "a queue that others fill grows on",
        f"{NET}/bounded_protocol.py",
        "            queued.close_deaf(self, unsent_bytes, self.now_s())\n            return\n",
        "            pass\n",
        f"{BOUNDED}::test_a_queue_that_others_fill_closes_its_connection",
    ),
    Mutant(
        "limits",
        "one answer above the limit closes a peer that read until then",
        f"{NET}/bounded_protocol.py",
        "max(queued.most_out_bytes, unsent_bytes)",
        "queued.most_out_bytes",
        f"{BOUNDED}::test_one_large_answer_goes_to_a_peer_that_read_until_now",
    ),
    Mutant(
        "limits",
        "frames that have not arrived in full are not counted",
        f"{NET}/connection.py",
        "        if self._noted_in or self._decoder.pending_bytes >= COUNTED_IN_BYTES:\n            self._note()\n",
        "",
        f"{BOUNDED}::test_over_the_limit_of_all_the_largest_go_and_the_others_stay",
    ),
    Mutant(
        "limits",
        "connections are closed for bytes that left meanwhile",
        f"{NET}/queued_bytes.py",
        "        self.look_again()\n        sentence",
        "        sentence",
        f"{BOUNDED}::test_bytes_that_left_meanwhile_close_nobody",
    ),
    Mutant(
        "limits",
        "one connection more than needed is closed",
        f"{CORE}/queue_budget.py",
        "            if excess_bytes <= 0:\n                break\n",
        "            if excess_bytes < 0:\n                break\n",
        f"{BUDGET}::test_nobody_goes_for_what_fits_exactly",
    ),
    Mutant(
        "limits",
        "the largest goes first, however long it has been there",
        f"{CORE}/queue_budget.py",
        "share.bytes * (1.0 + max(0.0, now_s - share.since_s))",
        "share.bytes * 1.0",
        f"{BUDGET}::test_who_keeps_a_little_for_long_goes_before_who_sends_much_just_now",
    ),
    Mutant(
        "limits",
        "who waits to write waits for ever",
        f"{NET}/write_turns.py",
        "timeout=timeout_ms / 1000",
        "timeout=None",
        f"{BOUNDED}::test_requests_wait_in_their_order_and_each_only_as_long_as_it_may",
    ),
    Mutant(
        "limits",
        "a relayed request is written to a member that does not read",
        f"{BROKER}/handlers/relay.py",
        "    if member.connection.is_congested:\n        remark",
        "    if False:\n        remark",
        f"{DEAF}::test_a_relayed_message_is_refused_when_its_member_does_not_read",
    ),
    Mutant(
        "limits",
        "a reply is kept for a requester that does not read",
        f"{BROKER}/handlers/reply.py",
        "    if requester.is_congested:",
        "    if False:",
        f"{DEAF}::test_a_reply_to_a_requester_that_does_not_read_is_stored_and_its_sender_told",
    ),
    Mutant(
        "limits",
        "a producer that does not read is asked though another reads",
        f"{BROKER}/consumers.py",
        "[connection for connection in open_ones if not connection.is_congested] or open_ones",
        "open_ones",
        f"{DEAF}::test_a_producer_that_does_not_read_is_not_asked_about_its_halves_and_one_that_does_is",
    ),
    Mutant(
        "limits",
        "the bytes of pulls that wait are not counted",
        f"{BROKER}/parked.py",
        "            size_bytes=size_bytes,\n",
        "",
        f"{DEAF}::test_pulls_that_wait_are_counted_by_their_bytes_too",
    ),
    Mutant(
        "limits",
        "each port is promised all descriptors",
        f"{NET}/server.py",
        "        if not self._has_room() or not self._share.take():",
        "        if not self._has_room():",
        f"{DESCRIPTORS}::test_many_topics_and_many_clients_fit_and_more_clients_are_refused_while_sends_go_on",
    ),
    Mutant(
        "limits",
        "a mapped file keeps a descriptor",
        "src/sprocketmq/store/mapping.py",
        "    if read_only or MAPPING_TAKES_ONE:",
        "    if True:",
        "tests/unit/store/test_mapping.py::test_three_hundred_mappings_take_no_descriptor",
    ),
    Mutant(
        "limits",
        "slaves and strangers on the replication port are not counted",
        f"{BROKER}/replication.py",
        "        if len(self._slaves) >= _MOST_SLAVES:",
        "        if False:",
        "tests/inproc/broker/test_broker_replication.py::test_one_slave_too_many_is_refused",
    ),
    Mutant(
        "limits",
        "a short way takes a header of any length",
        f"{NET}/connection.py",
        "(stop - at <= max_header_bytes or _HEADER_LENGTH(whole, at)[0] <= max_header_bytes)",
        "(True)",
        f"{TEXTS}::test_a_long_header_goes_no_short_way",
    ),
    Mutant(
        "limits",
        "long properties of a send are remembered",
        f"{BROKER}/plain_sends.py",
        "        if len(template) <= REMEMBERED_LENGTH:",
        "        if True:",
        f"{TEXTS}::test_long_properties_of_a_send_are_judged_and_not_remembered",
    ),
    Mutant(
        "limits",
        "empty fields of a request that waits count as nothing",
        f"{NET}/connection.py",
        "    size = len(fields) * _FIELD_BYTES + sum(map(getsizeof, fields)) + sum(map(getsizeof, fields.values()))\n",
        "    size = sum(map(len, fields.values()))\n",
        f"{TEXTS}::test_each_field_of_a_request_that_waits_counts",
    ),
    Mutant(
        "limits",
        "a pull that waits keeps fields that nobody reads",
        f"{BROKER}/parked.py",
        "        if command.ext_fields:\n            command.ext_fields = {}\n",
        "",
        f"{TEXTS}::test_a_pull_that_waits_keeps_none_of_its_fields",
    ),
    Mutant(
        "access",
        "a timer message of any topic is taken back by its key alone",
        f"{BROKER}/timer_messages.py",
        "                if (topic, key) in keys:\n                    keys[topic, key] = True",
        "                if key in [name for _, name in keys]:\n                    keys[topic, key] = True",
        "tests/inproc/broker/test_broker_timer.py::test_nobody_takes_back_a_message_of_another_topic",
    ),
]
