# SPDX-License-Identifier: Apache-2.0
"""The embedded RocketMQ: a name server and a broker that official remoting clients can talk to, startable inside any process.

Each runs on one owner loop: handlers are plain functions of (broker, connection, request, now), so no state here has a lock.
"""

from __future__ import annotations

import sprocketmq.logs  # noqa: F401 - escapes text of peers in log lines
from sprocketmq.broker.broker import Broker
from sprocketmq.broker.namesrv.namesrv import NameServer
from sprocketmq.broker.settings.config import BrokerConfig, NameServerConfig

__all__ = ["Broker", "BrokerConfig", "NameServer", "NameServerConfig"]
