"""Names from the network, broken on purpose: the door in front of the handlers, and the fence where paths are made."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

CHECKS: Final = "src/sprocketmq/broker/name_checks.py"
PATHS: Final = "src/sprocketmq/store/paths.py"
DOOR: Final = "tests/inproc/broker/test_hostile_names.py"
REGISTRATIONS: Final = "tests/inproc/broker/test_hostile_registrations.py"
LENGTHS: Final = "tests/inproc/broker/test_long_names.py"
NOTICES: Final = "tests/unit/broker/test_member_notices.py"
FENCE: Final = "tests/unit/store/test_paths.py"

ASIDE: Final = "tests/inproc/broker/test_undeliverable.py"
LOGS: Final = "tests/unit/test_logs.py"
SETTINGS: Final = "tests/inproc/broker/test_broker_live_config.py"

NAME_MUTANTS = [
    Mutant(
        "names",
        "a request's names are not looked at before its handler",
        CHECKS,
        "    problem = _problem(fields)\n",
        "    problem = None\n",
        f"{DOOR}::test_no_request_reaches_a_file_that_is_not_the_stores",
    ),
    Mutant(
        "names",
        "the name server takes any name",
        "src/sprocketmq/broker/namesrv.py",
        "return refusal_of_names(command) or handler",
        "return handler",
        f"{DOOR}::test_no_request_reaches_a_file_that_is_not_the_stores",
    ),
    Mutant(
        "names",
        "the topics of a registration are not looked at",
        "src/sprocketmq/broker/namesrv_requests.py",
        'names_problem("a topic of the registration", topics) or queues_problem(topics)',
        "queues_problem(topics)",
        f"{DOOR}::test_no_request_reaches_a_file_that_is_not_the_stores",
    ),
    Mutant(
        "names",
        "two dots are a name like any other",
        "src/sprocketmq/core/resource_names.py",
        'name in (".", "..") or ',
        "",
        f"{FENCE}::test_a_name_that_is_no_single_step_down_is_refused",
    ),
    Mutant(
        "names",
        "a path is joined of whatever it is given",
        PATHS,
        "        if problem is not None:\n            raise",
        "        if False:\n            raise",
        f"{FENCE}::test_a_name_that_is_no_single_step_down_is_refused",
    ),
    Mutant(
        "names",
        "a topic without a name is its own parent",
        PATHS,
        "    if not name:\n",
        "    if False:\n",
        f"{FENCE}::test_the_extension_and_the_queues_of_such_a_topic_are_refused",
    ),
    Mutant(
        "names",
        "what a link points at is deleted with it",
        PATHS,
        "    if os.path.islink(path):\n",
        "    path = os.path.realpath(path)\n    if os.path.islink(path):\n",
        f"{FENCE}::test_a_link_is_removed_and_what_it_points_at_stays",
    ),
    Mutant(
        "names",
        "a broadcasting client keeps its progress where its name leads",
        "src/sprocketmq/client/offset_store.py",
        'Path(path_below(base, client_id, group, "offsets.json"))',
        'base / client_id / group / "offsets.json"',
        f"{FENCE}::test_a_clients_own_progress_is_kept_below_its_folder",
    ),
    Mutant(
        "names",
        "an odd folder among the queues becomes a topic",
        "src/sprocketmq/store/consume_queue_table.py",
        "            if not is_folder_name(topic):\n",
        "            if False:\n",
        f"{FENCE}::test_a_folder_of_an_odd_name_among_the_queues_is_left_alone",
    ),
    Mutant(
        "aside",
        "a waiting message that is refused for good is tried for ever",
        "src/sprocketmq/broker/undeliverable.py",
        "        except ConfigurationError as error:\n            self._set_aside(message, str(error), now_ms)\n            return None\n",
        "        except MemoryError:\n            return None\n",
        f"{ASIDE}::test_the_message_behind_those_that_can_never_be_delivered_is_delivered",
    ),
    Mutant(
        "aside",
        "a full disk sets messages aside",
        "src/sprocketmq/broker/undeliverable.py",
        "        except ConfigurationError as error:\n            self._set_aside(message, str(error), now_ms)\n            return None\n",
        "        except Exception as error:\n            self.counts[message.topic] += 1\n            return None\n",
        f"{ASIDE}::test_what_is_refused_for_now_waits_and_is_not_set_aside",
    ),
    Mutant(
        "aside",
        "a timer message for the timer goes round and round",
        "src/sprocketmq/broker/undeliverable.py",
        "message.topic in SEND_FORBIDDEN or message.topic == TIMER_TOPIC",
        "message.topic in SEND_FORBIDDEN",
        f"{ASIDE}::test_the_message_behind_those_that_can_never_be_delivered_is_delivered",
    ),
    Mutant(
        "aside",
        "a waiting message that is larger than new ones may be is refused",
        "src/sprocketmq/store/queue_log_store.py",
        "message, now_ms, most_bytes=len(message.body))",
        "message, now_ms)",
        f"{ASIDE}::test_what_waits_is_delivered_when_new_messages_must_be_smaller",
    ),
    Mutant(
        "aside",
        "a timer message is taken though its copy will not fit",
        "src/sprocketmq/broker/timer_messages.py",
        "        if len(raw) > most_bytes:\n",
        "        if False:\n",
        f"{ASIDE}::test_what_was_taken_is_delivered_whatever_the_size_of_its_properties",
    ),
    Mutant(
        "aside",
        "a half message is taken though its copy will not fit",
        "src/sprocketmq/broker/handlers/special_messages.py",
        "    if len(message.properties) > MAX_HALF_PROPERTIES_BYTES:\n",
        "    if False:\n",
        f"{ASIDE}::test_what_was_taken_is_delivered_whatever_the_size_of_its_properties",
    ),
    Mutant(
        "aside",
        "a timer message made by hand goes anywhere",
        "src/sprocketmq/broker/timer_messages.py",
        "        if queue_id >= queues:\n",
        "        if False:\n",
        f"{ASIDE}::test_a_timer_message_made_by_hand_goes_where_its_sender_may_send",
    ),
    Mutant(
        "lines",
        "a line of the log is what a peer makes of it",
        "src/sprocketmq/logs.py",
        "    return argument if _UNSAFE.search(text) is None else escaped(text)\n",
        "    return argument\n",
        f"{LOGS}::test_a_name_with_a_line_break_makes_no_second_line",
    ),
    Mutant(
        "lines",
        "the text of an error is lines of its traceback",
        "src/sprocketmq/logs.py",
        "            text = text.replace(message, escaped(message))\n",
        "            pass\n",
        f"{LOGS}::test_the_text_of_an_error_makes_no_line_of_its_traceback",
    ),
    Mutant(
        "lines",
        "a request may give a setting a value of two lines",
        "src/sprocketmq/broker/live_config.py",
        "        problem = settings_problem(changes)\n",
        "        problem = None\n",
        f"{SETTINGS}::test_a_value_with_a_line_break_is_refused_and_nothing_is_written",
    ),
    Mutant(
        "lines",
        "a value is written as it is, whatever it holds",
        "src/sprocketmq/wire/java_properties.py",
        "={_escaped(value)}\\n",
        "={value}\\n",
        "tests/unit/wire/test_java_properties.py::test_one_value_is_one_line",
    ),
    Mutant(
        "lines",
        "a refusal tells the secret that it keeps",
        "src/sprocketmq/broker/config.py",
        'return "<not told>" if _SECRET.fullmatch(key) else value',
        "return value",
        f"{SETTINGS}::test_a_secret_is_told_neither_in_a_refusal_nor_in_the_log",
    ),
    Mutant(
        "names",
        "a registration may name any number of queues",
        CHECKS,
        '            queue_number_problem(f"readQueueNums',
        '            None and queue_number_problem(f"readQueueNums',
        f"{REGISTRATIONS}::test_a_registration_with_a_queue_number_that_cannot_be_is_refused",
    ),
    Mutant(
        "names",
        "each topic of a registration may be odd JSON",
        "src/sprocketmq/wire/bodies/register_broker.py",
        "_MAX_ODD_TOPIC_BYTES: Final = 0\n",
        "_MAX_ODD_TOPIC_BYTES: Final = 8192\n",
        f"{REGISTRATIONS}::test_no_registration_reaches_the_slow_parser_with_more_than_8_kib",
    ),
    Mutant(
        "names",
        "a request may say who may change the name server",
        "src/sprocketmq/broker/config.py",
        '("brokerAllowedAddresses", "configBlackList"',
        '("configBlackList"',
        f"{REGISTRATIONS}::test_no_request_says_who_may_change_the_name_server",
    ),
    Mutant(
        "names",
        "a name may be as long as its request",
        "src/sprocketmq/core/resource_names.py",
        "return None if len(text) <= limit else",
        "return None if text else",
        f"{LENGTHS}::test_a_long_name_in_a_body_is_refused",
    ),
    Mutant(
        "names",
        "an orderly consumer of a large topic gets no locks",
        "src/sprocketmq/broker/handlers/locks.py",
        "    if len(queues) <= MAX_QUEUES:\n",
        "    if len(queues) <= 2_000:\n",
        f"{LENGTHS}::test_an_orderly_consumer_locks_all_queues_of_a_large_topic",
    ),
    Mutant(
        "names",
        "all queues of a request are locked in one go",
        "src/sprocketmq/broker/handlers/locks.py",
        "            now_ms = broker.clock.steady_ms()\n",
        "            share, now_ms = body.mq_set if share[0] == body.mq_set[0] else [], broker.clock.steady_ms()\n",
        f"{LENGTHS}::test_queues_are_locked_and_unlocked_in_steps",
    ),
    Mutant(
        "notices",
        "all members of all groups are told in one turn",
        "src/sprocketmq/broker/member_notices.py",
        "        while self._left > 0:\n",
        "        while True:\n",
        f"{NOTICES}::test_a_member_of_many_groups_that_comes_is_told_to_the_others_in_steps",
    ),
    Mutant(
        "notices",
        "a heartbeat has any number of tags",
        "src/sprocketmq/broker/handlers/limits.py",
        "    if tags > _MOST_TAGS:\n",
        "    if False:\n",
        f"{LENGTHS}::test_a_heartbeat_of_many_tags_or_subscriptions_is_refused",
    ),
]
