# SPDX-License-Identifier: Apache-2.0
"""The retry policy of a group, read from a 5.x broker when the first message fails.

    first failure --> GET_SUBSCRIPTIONGROUP_CONFIG at the message's broker --> policy, kept for a minute --> delay level of the send-back
                         | code 3 (4.9), no permission, no answer
                         v
                      None, kept for a minute, too: the schedule decides

Laws
    1. Failures at the same time share one request. A consumer whose messages succeed sends none.
    2. Whatever the broker answers, the message is sent back; at worst a second later, with the level of the schedule.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sprocketmq.client.remoting.api import RemotingApi
from sprocketmq.core.retry.retry_policy import RetryPolicy, read_retry_policy
from sprocketmq.core.retry.retry_schedule import DelayLevels
from sprocketmq.errors import NetworkError, ProtocolError, RemoteError, RequestNotServed, RequestTimeout
from sprocketmq.net.process.clock import Clock
from sprocketmq.wire import headers, requests

log = logging.getLogger("sprocketmq.client")

_KEPT_MS: Final = 60_000
_TIMEOUT_MS: Final = 1_000


class GroupRetryPolicy:
    """The policy of one group, of one client. Belongs to its loop."""

    def __init__(self, api: RemotingApi, group: str, clock: Clock) -> None:
        self._api, self._group, self._clock = api, group, clock
        self._levels = DelayLevels.parse()
        self._policy: RetryPolicy | None = None
        self._known_until_ms = -1
        self._asking = asyncio.Lock()
        self._complained = False

    async def delay_level(self, address: str, reconsume_times: int) -> int:
        """The level to ask for after this failure; 0 lets the broker choose."""
        if self._clock.now_ms() >= self._known_until_ms:
            async with self._asking:
                if self._clock.now_ms() >= self._known_until_ms:  # else another caller has asked meanwhile
                    self._policy = await self._ask(address)
                    self._known_until_ms = self._clock.now_ms() + _KEPT_MS
        return 0 if self._policy is None else self._levels.level_for(self._policy.next_delay_ms(reconsume_times))

    async def _ask(self, address: str) -> RetryPolicy | None:
        header = headers.GetSubscriptionGroupConfigRequestHeader(group=self._group)
        asked = requests.topics.GET_SUBSCRIPTIONGROUP_CONFIG
        try:
            config = await self._api.ask_body(address, asked, header, timeout_ms=_TIMEOUT_MS)
            return read_retry_policy(config.group_retry_policy)
        except RequestNotServed as error:
            if not self._complained:
                self._complained = True
                log.warning("group %s: the broker chooses the delays of retries: %s", self._group, error)
            return None
        except (NetworkError, RemoteError, RequestTimeout, ProtocolError) as error:
            log.debug("group %s: %s was not asked for the retry policy: %s", self._group, address, error)
            return None
