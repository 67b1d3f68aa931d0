"""Mutants of SQL92 filters, of who may pull what, and of heartbeats."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["FILTER_MUTANTS"]

SQL = "src/sprocketmq/core/sql92"
BROKER = "src/sprocketmq/broker"
UNIT = "tests/unit/core/sql92/test_sql92.py"
TABLE = "tests/unit/broker/test_filters.py"
INPROC = "tests/inproc/broker/test_broker_filters.py"
FROZEN = f"{UNIT}::test_every_frozen_case_is_refused_matched_or_not_as_by_apache"

FILTER_MUTANTS = [
    Mutant(
        "filters",
        "NOT of an unknown condition is true",
        f"{SQL}/compiler.py",
        "        return None if value is None else not value\n",
        "        return not value\n",
        f"{UNIT}::test_logic_has_three_values",
    ),
    Mutant(
        "filters",
        "a value that cannot be converted counts as unknown, so that OR goes on",
        f"{SQL}/compiler.py",
        "        return None if value is None else holds(convert(value), limit)\n",
        "        try:\n            return None if value is None else holds(convert(value), limit)\n"
        "        except ValueError:\n            return None\n",
        f"{UNIT}::test_a_value_that_cannot_be_converted_spoils_the_whole_expression",
    ),
    Mutant(
        "filters",
        "a missing property is no text that is not contained",
        f"{SQL}/compiler.py",
        "        return isinstance(value, str) and test(value, search) is not negated\n",
        "        return (isinstance(value, str) and test(value, search)) is not negated\n",
        FROZEN,
    ),
    Mutant(
        "filters",
        "an unmatched bracket behind a complete expression is refused",
        f"{SQL}/parser.py",
        "            if open_brackets < 0:",
        "            if open_brackets < -9:",
        FROZEN,
    ),
    Mutant(
        "filters",
        "nesting has no limit",
        f"{SQL}/expression.py",
        "    if depth > MAX_DEPTH:\n",
        "    if depth > 1_000_000:\n",
        f"{UNIT}::test_nesting_beyond_the_limit_is_refused_and_never_a_recursion_error",
    ),
    Mutant(
        "filters",
        "an older heartbeat replaces a newer filter",
        f"{BROKER}/delivery/filters.py",
        "            if version < data.client_version or (version == data.client_version and not old.is_dead):  # law 1\n"
        "                return\n",
        "",
        f"{TABLE} {INPROC}::test_versions_decide_which_filter_holds",
    ),
    Mutant(
        "filters",
        "a wrong new expression leaves the old filter in force",
        f"{BROKER}/delivery/filters.py",
        "            if filters.pop(topic, None) is not None:\n",
        "            if topic in filters:\n",
        f"{TABLE} {INPROC}::test_a_wrong_expression_is_no_filter_and_its_pulls_are_told_so",
    ),
    Mutant(
        "filters",
        "topics that the heartbeat no longer names keep their filters alive",
        f"{BROKER}/delivery/filters.py",
        "            if topic not in named and not known.is_dead:  # law 3\n",
        "            if topic in named and not known.is_dead:\n",
        f"{INPROC}::test_the_same_version_brings_a_dead_filter_back_and_other_topics_die",
    ),
    Mutant(
        "filters",
        "any message wakes a pull that filters by properties",
        f"{BROKER}/handlers/messages/pull.py",
        "match = wanted.match if wanted.match_record is None else ArrivalProbe(broker.store, header, wanted)",
        "match = wanted.match",
        f"{INPROC}::test_a_held_pull_is_woken_only_by_what_its_filter_wants",
    ),
    Mutant(
        "filters",
        "a held pull looks again at what it has judged already",
        f"{BROKER}/delivery/filters.py",
        "        self._offset = found.next_offset\n",
        "",
        f"{TABLE}::test_a_probe_judges_each_message_once_and_gives_up_at_the_scan_limit",
    ),
    Mutant(
        "filters",
        "conditions are served although they are switched off",
        f"{BROKER}/handlers/messages/pull_checks.py",
        "        elif not broker.config.enable_property_filter:\n"
        "            return response(command, ResponseCode.SYSTEM_ERROR, no_property_filter(kind))\n",
        "",
        f"{INPROC}::test_without_enable_property_filter_nothing_but_tags_is_filtered",
    ),
    Mutant(
        "filters",
        "a group that lost its subscriptions is never asked for them",
        f"{BROKER}/tables/consumers.py",
        "        return without_sub and (group is None or not group.subscriptions)\n",
        "        return False\n",
        f"{INPROC}::test_a_heartbeat_without_subscriptions_of_an_unknown_group_asks_for_them",
    ),
    Mutant(
        "filters",
        "a heartbeat without subscriptions is taken as one of none",
        f"{BROKER}/handlers/group/consumers.py",
        "    without_sub = data.without_sub and fingerprint != 0\n",
        "    without_sub = False\n",
        f"{INPROC}::test_heartbeats_of_version_2_may_leave_out_what_did_not_change",
    ),
    Mutant(
        "filters",
        "nothing is told of filters while they are switched off",
        f"{BROKER}/handlers/messages/pull_checks.py",
        "    known = broker.filters.get(group_name, topic)\n    if known is None:\n",
        "    if not broker.config.enable_property_filter:\n"
        "        return response(command, ResponseCode.SYSTEM_ERROR, no_property_filter(subscription.expression_type))\n"
        "    known = broker.filters.get(group_name, topic)\n    if known is None:\n",
        f"{INPROC}::test_what_is_wrong_with_a_filter_is_told_whether_filters_are_served_or_not",
    ),
    Mutant(
        "filters",
        "no filter is taken while they are switched off",
        f"{BROKER}/handlers/group/consumers.py",
        "        if not without_sub:\n",
        "        if not without_sub and broker.config.enable_property_filter:\n",
        f"{INPROC}::test_what_is_wrong_with_a_filter_is_told_whether_filters_are_served_or_not",
    ),
]
