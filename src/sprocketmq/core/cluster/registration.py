# SPDX-License-Identifier: Apache-2.0
"""What a name server stores about a registered broker, and what it answers. Java: BrokerLiveInfo, RegisterBrokerResult.
``namesrv_table`` has the rules."""

from __future__ import annotations

from msgspec import Struct

from sprocketmq.wire.bodies import DataVersion


class LiveBroker(Struct):
    """One registered address. ``owner`` is its connection, ``timeout_ms`` how long it may be silent."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    data_version: DataVersion
    last_update_ms: int
    timeout_ms: int
    owner: object


class RegistrationResult(Struct, frozen=True):
    """For a slave the master's addresses. ``changed``: some route may be different. ``lower_id``: set if the lowest id is lower now."""

    master_address: str = ""
    ha_server_address: str = ""
    changed: bool = False
    lower_id: MinIdChange | None = None


class TopicRegistration(Struct):
    """``wanted``: this broker's topics count (rule 4); ``rival``: the address that newly takes turns with this one (rule 10)."""

    result: RegistrationResult
    live: LiveBroker
    data_version: DataVersion
    changed: bool = True
    read_only: bool = False
    wanted: bool = True
    rival: str | None = None
    named: dict[str, None] = {}


class MinIdChange(Struct, frozen=True):
    """The broker with the lowest id of its name came or went. ``notified``: addresses of the brokers to notify (5.x: request 905)."""

    broker_name: str
    min_id: int
    min_address: str
    offline_address: str | None
    ha_address: str | None
    notified: list[str]
