"""Mutants of what each request needs, and of what stood beside the gate."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["GATES_MUTANTS"]

CORE, BROKER = "src/sprocketmq/core/access", "src/sprocketmq/broker"
REQUESTS = "src/sprocketmq/wire/requests"
TABLE = "tests/inproc/broker/test_access_table.py::test_no_request_code_does_or_tells_anything_to_who_may_not_ask"
PUSHES = "tests/inproc/broker/test_access_pushes.py"
NEEDS = "tests/unit/core/test_access_needs.py"
DECLARED = "tests/unit/wire/test_requests.py"

GATES_MUTANTS = [
    Mutant(
        "gates",
        "END_TRANSACTION ungated",
        f"{REQUESTS}/messages.py",
        "    access=record(_ended, PUBLISH),",
        "    access=(),",
        TABLE,
    ),
    Mutant(
        "gates",
        "short ways pass by the gate",
        f"{BROKER}/broker.py",
        "        return self._handlers if self.intercept is None else {}",
        "        return self._behind_the_gate if self.intercept is None else {}",
        "tests/inproc/broker/test_broker_access.py::test_a_signed_request_is_served_and_any_other_is_refused_with_its_reason",
    ),
    Mutant(
        "gates",
        "replies need an account and nothing else",
        f"{REQUESTS}/messages.py",
        '    access=reply("b"),',
        "    access=(),",
        f"{PUSHES}::test_a_consumer_replies_and_nobody_else_does",
    ),
    Mutant(
        "gates",
        "whoever consumes anything may reply to any topic",
        f"{CORE}/need_readers.py",
        "REPLY if name == place.reply_topic else PUBLISH",
        "REPLY",
        f"{NEEDS}::test_only_the_reply_topic_may_be_replied_to_by_any_consumer",
    ),
    Mutant(
        "gates",
        "a missing name is skipped",
        f"{CORE}/need_readers.py",
        " if name or not optional else ()",
        " if name else ()",
        f"{NEEDS}::test_what_cannot_be_told_is_never_skipped",
    ),
    Mutant(
        "gates",
        "a body that names nothing passes",
        f"{CORE}/need_readers.py",
        "        if not found and not stated.optional:\n            raise",
        "        if False:\n            raise",
        f"{NEEDS}::test_what_cannot_be_told_is_never_skipped",
    ),
    Mutant(
        "gates",
        "another group's retry topic is nobody's",
        f"{CORE}/need_readers.py",
        '    if name[:1] == "%" and name.startswith(RETRY_PREFIX):',
        "    if False:",
        f"{NEEDS}::test_a_request_needs_what_its_header_names",
    ),
    Mutant(
        "gates",
        "delayed and half messages of all topics are read by who may read everything but some",
        f"{CORE}/need_readers.py",
        "    if name in PARKING_TOPICS:",
        "    if False:",
        f"{NEEDS}::test_topics_in_which_messages_of_all_topics_wait_are_the_cluster_s",
    ),
    Mutant(
        "gates",
        "bytes inside of a message count as a record",
        f"{BROKER}/security/access.py",
        "        if not units or units[0].physical_offset != physical_offset:",
        "        if False:",
        f"{PUSHES}::test_bytes_inside_of_a_message_that_look_like_a_record_are_none",
    ),
    Mutant(
        "gates",
        "a crafted key finds messages of other topics",
        f"{BROKER}/handlers/messages/lookup.py",
        " and RecordView(record).topic_bytes == topic",
        "",
        f"{PUSHES}::test_a_key_with_the_hash_of_another_topic_s_key_finds_nothing_of_that_topic",
    ),
    Mutant(
        "gates",
        "the handover's watch stands in front of the gate",
        f"{BROKER}/broker.py",
        "        behind = self._behind_the_gate\n        if code in behind:",
        "        behind = self._handlers\n        if code in behind:",
        f"{PUSHES}::test_refused_requests_move_no_handover",
    ),
    Mutant(
        "gates",
        "a need that nobody stated is found by an attacker, not at the start",
        f"{BROKER}/broker.py",
        "        requests.check_handlers(Peer.BROKER, self._handlers)\n",
        "",
        f"{PUSHES}::test_a_broker_does_not_start_with_a_request_whose_need_nobody_stated",
    ),
    Mutant(
        "gates",
        "whoever may look at the cluster sees passwords",
        f"{BROKER}/handlers/admin/auth.py",
        "        info.password = None\n",
        "        pass\n",
        f"{PUSHES}::test_passwords_are_told_to_super_users_only",
    ),
    Mutant(
        "gates",
        "a name without a signature passes for a Super user",
        f"{BROKER}/security/users.py",
        "user.is_super and self._not_authentic(command) is None",
        "user.is_super",
        f"{PUSHES}::test_nobody_passes_for_a_super_user_by_naming_him",
    ),
    Mutant(
        "gates",
        "a name that nobody vouches for has its rights",
        f"{BROKER}/security/users.py",
        "        if stranger is not None:  # a name",
        "        if False:  # a name",
        f"{PUSHES}::test_a_name_that_nobody_vouches_for_has_no_rights",
    ),
    Mutant(
        "gates",
        "the replication port gives the log to anybody",
        f"{BROKER}/replication/replication.py",
        "        if not self._may_copy(split_address(connection.remote_address)[0]):",
        "        if False:",
        f"{PUSHES}::test_where_clients_prove_who_they_are_only_named_addresses_get_the_log",
    ),
    Mutant(
        "gates",
        "whoever says that he is of a producer group sees its half messages",
        f"{BROKER}/tables/consumers.py",
        " and may_know(connection)]",
        "]",
        f"{PUSHES}::test_only_who_may_send_to_the_topic_is_asked_about_a_half_message",
    ),
    Mutant(
        "gates",
        "anybody announces brokers at a name server that names who may",
        f"{BROKER}/namesrv/namesrv.py",
        "        if command.code in self._changing and not self._may_change(connection.peer[0]):",
        "        if False:",
        "tests/inproc/broker/test_namesrv_access.py::test_who_is_not_named_changes_nothing_and_may_look",
    ),
    Mutant(
        "gates",
        "names of any length are remembered",
        f"{CORE}/users.py",
        "            if len(need.name) <= _LONGEST_REMEMBERED:",
        "            if True:",
        "tests/unit/core/test_access_users.py::test_what_is_remembered_stays_small_whatever_is_asked",
    ),
    Mutant(
        "gates",
        "a request that says nothing of its needs is open to everybody",
        f"{REQUESTS}/__init__.py",
        "        ({int(one.code) for one in serves if one.access is None}, ",
        "        (set(), ",
        f"{DECLARED}::test_no_server_starts_with_a_request_that_does_not_say_what_it_needs",
    ),
    Mutant(
        "gates",
        "a name server starts without a handler for what it serves",
        f"{BROKER}/namesrv/namesrv.py",
        "        requests.check_handlers(Peer.NAME_SERVER, self._handlers)\n",
        "",
        f"{DECLARED}::test_no_server_starts_with_a_request_that_does_not_say_what_it_needs",
    ),
    Mutant(
        "gates",
        "a declared request that nobody handles passes",
        f"{REQUESTS}/__init__.py",
        "        (declared_codes - handled, ",
        "        (set(), ",
        f"{DECLARED}::test_a_server_has_a_handler_for_what_it_serves_and_for_nothing_else",
    ),
    Mutant(
        "gates",
        "groups are deleted while a broker hands over",
        f"{REQUESTS}/topics.py",
        "    header=DeleteSubscriptionGroupRequestHeader,\n    changes_tables=True,\n",
        "    header=DeleteSubscriptionGroupRequestHeader,\n",
        "tests/inproc/broker/test_broker_replication.py"
        "::test_a_broker_that_hands_over_changes_nothing_that_its_slave_has_copied",
    ),
]
