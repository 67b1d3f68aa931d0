# SPDX-License-Identifier: Apache-2.0
"""core.subscription: tag expressions, the two filters, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sprocketmq.core.group.subscription import (
    FilterExpression,
    build_subscription,
    matches_tags,
    parse_tag_expression,
    renewed,
    same_subscription,
    sql92,
    tags_code_matcher,
    tags_like_sql,
)
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.hashing import tags_code


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_means_everything(expression):
    subscription = parse_tag_expression("flights", expression, 5)
    assert (subscription.sub_string, subscription.tags_set, subscription.code_set) == ("*", set(), set())
    assert matches_tags(subscription, None)
    assert tags_code_matcher(subscription) is None


def test_tags_are_split_trimmed_and_hashed():
    subscription = parse_tag_expression("flights", " TagA||  TagB || ||TagA", 1_700_000_000_000)
    assert subscription.tags_set == {"TagA", "TagB"}
    assert subscription.code_set == {2598919, 2598920}
    assert subscription.sub_version == 1_700_000_000_000
    assert subscription.expression_type == "TAG"


def test_an_expression_without_a_tag_is_refused():
    with pytest.raises(ConfigurationError, match="names no tag"):
        parse_tag_expression("flights", " || ", 0)


def test_a_message_without_tag_matches_only_everything():
    subscription = parse_tag_expression("flights", "UA", 0)
    matcher = tags_code_matcher(subscription)
    assert matcher is not None
    assert not matcher(0)
    assert not matches_tags(subscription, None)


def test_equal_hashes_pass_the_broker_and_stop_at_the_client():
    subscription = parse_tag_expression("flights", "Aa", 0)  # "Aa" and "BB" have the same Java hash
    assert tags_code("Aa") == tags_code("BB")
    matcher = tags_code_matcher(subscription)
    assert matcher is not None
    assert matcher(tags_code("BB"))
    assert not matches_tags(subscription, "BB")


@given(wanted=st.lists(st.text("ABab|", min_size=1, max_size=3), min_size=1), tag=st.text("ABab", max_size=3))
def test_the_broker_never_withholds_what_the_client_wants(wanted, tag):
    try:
        subscription = parse_tag_expression("t", "||".join(wanted), 0)
    except ConfigurationError:
        return
    matcher = tags_code_matcher(subscription)
    assert matcher is not None
    code = tags_code(tag)
    if matches_tags(subscription, tag):
        assert matcher(code)


def test_codes_are_compared_as_the_int_that_java_casts_to():
    subscription = parse_tag_expression("t", "polygenelubricants", 0)  # hash -2147483648
    matcher = tags_code_matcher(subscription)
    assert matcher is not None
    assert matcher(-2147483648)
    assert matcher(0x7FFF_FFFF_8000_0000)
    assert matcher(0x1_8000_0000)


def test_sql92_is_carried_as_it_is():
    subscription = build_subscription("flights", sql92("distance > 1000"), 9)
    assert (subscription.sub_string, subscription.expression_type) == ("distance > 1000", "SQL92")
    assert not subscription.tags_set
    assert tags_code_matcher(subscription) is None


def test_a_blank_condition_and_an_unknown_type_are_refused():
    with pytest.raises(ConfigurationError, match="blank"):
        sql92("  ")
    with pytest.raises(ConfigurationError, match="'XPATH', TAG and SQL92 are allowed"):
        build_subscription("flights", FilterExpression("a", "XPATH"), 0)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("a > 5", ["a > 5"]),
        ("UA || tag in ('x')", ["tag in ('x')"]),
        ("New York || DL", []),
        ("a>5", ["a>5"]),
        ("*", []),
    ],
)
def test_tags_that_look_like_a_condition_are_found(expression, found):
    assert tags_like_sql(build_subscription("flights", expression, 0)) == found


def test_a_renewed_subscription_is_newer_whatever_the_clock_says():
    one = parse_tag_expression("t", "A||B", 5)
    assert [renewed(one, now_ms).sub_version for now_ms in (3, 5, 9)] == [6, 6, 9]
    assert same_subscription(renewed(one, 9), one)


def test_a_subscription_is_the_same_whatever_its_version():
    one, later = parse_tag_expression("t", "A||B", 1), parse_tag_expression("t", "A||B", 2)
    assert same_subscription(one, later)
    assert not same_subscription(one, parse_tag_expression("t", "A", 1))
    assert not same_subscription(one, parse_tag_expression("u", "A||B", 1))
    assert same_subscription(build_subscription("t", FilterExpression("A||B"), 3), one)


@pytest.mark.parametrize("word", ["東\u3000京", "10\u00a0000", "👨\u200d👩\u200d👧", "\u3000A"])
def test_an_expression_may_have_any_text_without_control_characters(word):
    assert build_subscription("flights", f"{word} || B", 1).tags_set == {word, "B"}
    assert build_subscription("flights", sql92(f"name = '{word}'"), 1).sub_string == f"name = '{word}'"
