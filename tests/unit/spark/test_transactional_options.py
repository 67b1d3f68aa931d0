# SPDX-License-Identifier: Apache-2.0
"""Options of the transactional sink: what belongs together, and what is refused."""

from __future__ import annotations

import pytest

from sprocketmq.errors import ConfigurationError
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.send.row_ids import check_write_name

GIVEN = {"namesrvaddr": "127.0.0.1:9876", "topic": "flights", "group": "exact", "delivery": "transactional"}


def test_the_ledger_is_named_after_the_group_unless_it_has_a_name() -> None:
    assert sink_options(GIVEN).ledger_topic == "SPROCKETMQ_DECISIONS_exact"
    assert sink_options({**GIVEN, "ledgertopic": "decisions"}).ledger_topic == "decisions"
    assert sink_options({**GIVEN, "delivery": "idempotent"}).ledger_topic == ""


def test_a_write_has_a_name_and_a_number_or_neither() -> None:
    named = sink_options({**GIVEN, "txnappid": "loads", "txnversion": "0"})
    assert (named.txn_app_id, named.txn_version) == ("loads", 0)
    assert (sink_options(GIVEN).txn_app_id, sink_options(GIVEN).txn_version) == (None, None)


def test_an_idempotent_batch_write_has_a_name_and_a_stream_has_its_own() -> None:
    unnamed = sink_options({**GIVEN, "delivery": "idempotent"})
    named = sink_options({**GIVEN, "txnappid": "loads", "txnversion": "0"})
    check_write_name(unnamed, streaming=True)
    check_write_name(named, streaming=False)
    for options, streaming in ((unnamed, False), (named, True)):
        with pytest.raises(ConfigurationError, match="txnAppId and txnVersion"):
            check_write_name(options, streaming)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"group": ""}, "delivery is 'transactional' without group"),
        ({"txnappid": "loads"}, "txnAppId and txnVersion belong together"),
        ({"txnversion": "1"}, "txnAppId and txnVersion belong together"),
        ({"txnappid": "a\x02b", "txnversion": "1"}, "txnAppId is '.*'; allowed is printable text"),
        ({"txnappid": "loads", "txnversion": "-1"}, "txnVersion is '-1'; allowed is a whole number from 0"),
        ({"txnappid": "loads", "txnversion": "one"}, "txnVersion is 'one'; allowed is a whole number from 0"),
        ({"delivery": "atLeastOnce", "ledgertopic": "d"}, "ledgerTopic is given without delivery transactional"),
        (
            {"delivery": "atLeastOnce", "txnversion": "1"},
            "txnVersion is given without delivery idempotent or transactional",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(options: dict[str, str], sentence: str) -> None:
    given = {name: value for name, value in {**GIVEN, **options}.items() if value}
    with pytest.raises(ConfigurationError, match=sentence):
        sink_options(given)
