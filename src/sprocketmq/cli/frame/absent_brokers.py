# SPDX-License-Identifier: Apache-2.0
"""A note about brokers that are gone, below numbers that lack what these brokers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.cli.frame.output import note
from sprocketmq.errors import RequestNotServed

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin, BrokerStatus


def absent_masters(admin: Admin) -> list[BrokerStatus]:
    """The masters that are gone, with a note about each. A proxy tells nothing of brokers."""
    try:
        gone = [one for one in admin.gone_brokers() if one.broker_id == 0]
    except RequestNotServed:
        return []
    for one in gone:
        note(f"sprocketmq: not counted is what a broker holds that is gone: {one.absence}")
    return gone
