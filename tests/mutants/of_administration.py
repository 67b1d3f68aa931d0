"""Mutants of the admin client: what it must not take a broker's silence, version or index for."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["ADMINISTRATION_MUTANTS"]

ADMIN = "src/sprocketmq/client/admin"
TESTS = "tests/inproc/client/test_client_admin.py"

ADMINISTRATION_MUTANTS = [
    Mutant(
        "S6",
        "one queue is moved through a 4.9 broker, which moves all of them",
        f"{ADMIN}/offsets.py",
        "if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:\n                return False",
        "if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:\n                return True",
        f"{TESTS}::test_one_queue_of_a_group_that_is_online_is_not_moved_through_an_old_broker",
    ),
    Mutant(
        "S6",
        "a 4.9 broker's group without members cannot be moved",
        f"{ADMIN}/offsets.py",
        "if error.code == ResponseCode.CONSUMER_NOT_ONLINE or (",
        "if False and (",
        f"{TESTS}::test_a_group_without_members_is_moved_by_time_and_to_the_end",
    ),
    Mutant(
        "S11",
        "of a list that comes in pages only the first is seen",
        f"{ADMIN}/session.py",
        "if not rows or len(found) >= total:",
        "if True:",
        f"{TESTS}::test_lists_longer_than_a_page_come_whole",
    ),
    Mutant(
        "S11",
        "a message that the group's filter left out counts as consumed",
        f"{ADMIN}/messages.py",
        "return TrackType.CONSUMED_BUT_FILTERED",
        "return TrackType.CONSUMED",
        f"{TESTS}::test_what_became_of_a_message_is_told_for_each_group",
    ),
]
