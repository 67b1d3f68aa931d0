"""Mutants of the short way of a send: its two frames, who gets which answer, and what becomes of a try that had begun."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["SENDING_MUTANTS"]

CLIENT, NET, WIRE = "src/sprocketmq/client", "src/sprocketmq/net", "src/sprocketmq/wire"
FRAMES = "tests/unit/wire/test_send_frames.py"
REQUESTS = "tests/unit/net/test_requests_in_flight.py"
SHORT = "tests/inproc/client/test_client_short_send.py"

SENDING_MUTANTS = [
    Mutant(
        "producers",
        "a percent sign in a name spoils every frame of its queue",
        f"{WIRE}/send_frames.py",
        '.replace(b"%", b"%%")',
        "",
        f"{FRAMES}::test_a_template_writes_what_the_command_would_be",
    ),
    Mutant(
        "producers",
        "a refusal is read as stored",
        f"{WIRE}/send_frames.py",
        "    return answer if answer.code == 0 and answer.flag & 1 else None",
        "    return answer",
        f"{FRAMES}::test_any_other_frame_is_left_to_the_long_way",
    ),
    Mutant(
        "producers",
        "the fields of an answer with a body swallow it",
        f"{WIRE}/send_frames.py",
        "    if stop - at < 4 or _header_length(read, at)[0] != stop - at - 4:\n        return None\n",
        "    stop = at + 4 + (_header_length(read, at)[0] & 0xFFFFFF)\n",
        f"{FRAMES}::test_any_other_frame_is_left_to_the_long_way",
    ),
    Mutant(
        "net",
        "who asked for a command gets a stored answer",
        f"{NET}/waiting_requests.py",
        "        if waiting is None or not waiting[4]:",
        "        if waiting is None:",
        f"{REQUESTS}::test_a_stored_answer_is_for_sends_and_commands_are_for_everybody_else",
    ),
    Mutant(
        "net",
        "a send is written unsigned",
        f"{NET}/connection.py",
        "            and self.signer is None\n",
        "",
        f"{REQUESTS}::test_frames_are_taken_while_they_can_be_written_unsigned",
    ),
    Mutant(
        "producers",
        "a first try that failed is forgotten and made again",
        f"{CLIENT}/remoting/sender.py",
        "        return await self.deliver(outgoing, chosen, timeout_ms, first, begun, end_s)",
        "        return await self.deliver(outgoing, chosen, timeout_ms, first, None, end_s)",
        f"{SHORT}::test_a_message_that_is_stored_with_a_but_is_stored_once_unless_told_otherwise",
    ),
    Mutant(
        "producers",
        "a queue whose turn it was is passed over",
        f"{CLIENT}/remoting/sender.py",
        "            target = chosen or first\n",
        "            target = chosen\n",
        f"{SHORT}::test_sends_take_all_queues_in_turn_also_where_the_short_way_opens",
    ),
    Mutant(
        "producers",
        "who cancels a send leaves it waiting for its answer",
        f"{CLIENT}/remoting/sender.py",
        "                except BaseException:\n                    begun.connection.forget(begun.opaque)\n",
        "                except BaseException:\n",
        f"{SHORT}::test_a_send_that_is_cancelled_is_forgotten",
    ),
    Mutant(
        "producers",
        "a host that says nothing is asked for ever",
        f"{CLIENT}/remoting/sender.py",
        "            self._api.pool.doubt(begun.address, begun.connection, begun.started_s)\n",
        "",
        f"{SHORT}::test_a_host_that_says_nothing_during_a_whole_send_is_connected_anew",
    ),
    Mutant(
        "producers",
        "what is sent again has the properties of later",
        f"{CLIENT}/remoting/message_writer.py",
        "        properties = message.properties.copy()\n",
        "        properties = message.properties\n",
        f"{SHORT}::test_what_is_sent_again_is_what_was_sent_first",
    ),
    Mutant(
        "producers",
        "a forked child gives its messages the ids of its parent",
        f"{CLIENT}/remoting/unique_keys.py",
        "        self._stem_ms = -1\n\n    def next",
        "\n    def next",
        "tests/unit/client/test_client_parts.py::test_a_forked_child_makes_other_unique_keys",
    ),
]
