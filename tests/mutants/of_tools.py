"""Mutants of what tools ask of a broker: resets, relays, settings, statistics, attributes, lists."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["TOOL_MUTANTS"]

BROKER = "src/sprocketmq/broker"
HANDLERS = f"{BROKER}/handlers"
RESET = "tests/inproc/broker/test_broker_offset_reset.py"
RELAY = "tests/inproc/broker/test_broker_relay.py"
SETTINGS = "tests/inproc/broker/test_broker_live_config.py"
TOOLS = "tests/inproc/broker/test_broker_tools.py"
STATISTICS = "tests/unit/broker/test_statistics.py"

TOOL_MUTANTS = [
    Mutant(
        "tools",
        "a reset stays pending, and the group is sent back for ever",
        f"{BROKER}/tables/offsets.py",
        "return self.resets.pop((group, topic, queue_id), None)",
        "return self.resets.get((group, topic, queue_id))",
        f"{RESET}::test_the_next_pull_is_sent_to_the_new_place_once_and_its_own_commit_does_not_count",
    ),
    Mutant(
        "tools",
        "a commit of what was pulled before a reset undoes the reset",
        f"{HANDLERS}/group/offsets.py",
        "if broker.offsets.resets and broker.offsets.has_reset(group, topic, header.queue_id):",
        "if False:",
        f"{RESET}::test_what_the_group_commits_before_that_pull_is_ignored_and_counts_after_it",
    ),
    Mutant(
        "tools",
        "a reset without force moves a 4.9 group forward over messages",
        f"{HANDLERS}/group/offset_reset.py",
        "offset if header.is_force else min(offset, consumed)",
        "offset",
        f"{RESET}::test_as_4_9_a_reset_without_force_moves_no_queue_forward",
    ),
    Mutant(
        "tools",
        "source and clone share their offsets",
        f"{BROKER}/tables/offsets.py",
        'self._committed[f"{topic}@{target}"] = dict(offsets)',
        'self._committed[f"{topic}@{target}"] = offsets',
        f"{RESET}::test_a_clone_stands_where_its_source_stands_and_goes_its_own_way_then",
    ),
    Mutant(
        "tools",
        "the wrong member is asked",
        f"{HANDLERS}/messages/relay.py",
        "[m for m in members.members.values() if m.client_id == client_id]",
        "[m for m in members.members.values()]",
        f"{RELAY}::test_running_info_goes_to_the_member_as_it_came_and_its_answer_back"
        f" {RELAY}::test_a_member_that_is_not_there_is_said_to_be_offline",
    ),
    Mutant(
        "tools",
        "half of a list of settings is taken",
        f"{BROKER}/live_config.py",
        "        after = self._checked(changes)\n",
        "        after = BrokerConfig.from_properties({**before.to_properties(), **changes})\n",
        f"{SETTINGS}::test_a_list_with_one_wrong_key_changes_nothing_and_the_remark_names_it",
    ),
    Mutant(
        "tools",
        "a changed limit of the store waits for a restart",
        f"{BROKER}/live_config.py",
        "                object.__setattr__(store, field.name, getattr(wanted, field.name))\n",
        "                pass\n",
        f"{SETTINGS}::test_a_limit_of_the_store_counts_at_once",
    ),
    Mutant(
        "tools",
        "passwords are shown to who may read the settings",
        f"{BROKER}/config.py",
        "if not _SECRET.fullmatch(key)",
        "if key",
        f"{SETTINGS}::test_secrets_are_not_shown",
    ),
    Mutant(
        "tools",
        "after a silence a rate is that of hours",
        f"{BROKER}/observe/statistics.py",
        "        elif series[-1][0] < now_ms - 2 * period_ms:",
        "        elif False:",
        f"{STATISTICS}::test_after_a_long_silence_the_rate_is_that_of_the_last_seconds",
    ),
    Mutant(
        "tools",
        "a page goes on in a table that has changed, and misses what was inserted before it",
        f"{HANDLERS}/pages.py",
        "        first = 0\n",
        "        pass\n",
        f"{TOOLS}::test_topics_come_in_pages_of_their_sorted_names",
    ),
    Mutant(
        "tools",
        "an attribute that says how files look changes under them",
        "src/sprocketmq/core/topic_attributes.py",
        "if current is not None and not attribute.changeable:",
        "if False:",
        "tests/unit/core/test_topic_attributes.py::test_a_change_that_is_not_allowed_refuses_the_whole_list",
    ),
    Mutant(
        "tools",
        "a topic that was taken away from a group is read all the same",
        f"{BROKER}/tables/groups.py",
        "return not self.forbidden.get(group, {}).get(topic, 0) & _FORBID_READ",
        "return True",
        f"{TOOLS}::test_a_topic_that_is_taken_away_from_a_group_is_not_read_until_it_is_given_back",
    ),
    Mutant(
        "tools",
        "the broker shares out its own queues only",
        f"{BROKER}/namesrv/route_lookup.py",
        "        found += await self._of_others(topic)\n",
        "",
        f"{TOOLS}::test_queues_of_other_brokers_are_shared_out_too",
    ),
]
