# SPDX-License-Identifier: Apache-2.0
"""Settings that change while the broker runs (Java: Configuration.update, which changes any field, with or without an effect).

1. A list of changes is applied completely or not at all, and then written into the file of ``--config``.
2. A key that is only read while starting is refused, so that no change waits for a restart unnoticed; its present value is accepted.
3. The data version counts each list that was applied.
4. Settings are never changed, but replaced: an older ``BrokerConfig`` keeps its values.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sprocketmq.broker.security.name_checks import settings_length_problem, settings_problem
from sprocketmq.broker.settings.config import BrokerConfig, shown_setting
from sprocketmq.broker.settings.key_names import nearest_key
from sprocketmq.errors import ConfigurationError, NoPermission, StoreError, StoreNotWritable
from sprocketmq.store.config_files import ConfigFile
from sprocketmq.wire.bodies import DataVersion
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.text.java_properties import format_properties, parse_properties, replace_properties

if TYPE_CHECKING:
    from sprocketmq.broker.broker import Broker

log = logging.getLogger("sprocketmq.broker")

# Keys that are read where they are used, so that a new value counts from the next request (or round) on.
_OF_BROKER: Final = frozenset(
    (
        "accessMessageInMemoryMaxRatio",
        "allowRecallWhenBrokerNotWriteable",
        "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable",
        "brokerPermission",
        "brokerRole",
        "channelExpiredTimeout",
        "enableMixedMessageType",
        "enablePropertyFilter",
        "enableSplitMetadata",
        "filterDataCleanTimeSpan",
        "filterSupportRetry",
        "haHousekeepingInterval",
        "haMaxGapNotInSync",
        "haSendHeartbeatInterval",
        "haTransferBatchSize",
        "litePullMessageEnable",
        "longPollingEnable",
        "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInMemory",
        "notifyConsumerIdsChangedEnable",
        "recallMessageEnable",
        "rejectPullConsumerEnable",
        "rejectTransactionMessage",
        "serverLoadBalancerEnable",
        "shortPollingTimeMills",
        "slaveReadEnable",
        "slaveTimeout",
        "splitMetadataSize",
        "storeReplyMessageEnable",
        "subscriptionExpiredTimeout",
        "transactionCheckMax",
        "transactionTimeOut",
        "useServerSideResetOffset",
    )
)
_OF_STORE: Final = frozenset(
    (
        "deleteFileBatchMax",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "diskSpaceWarningLevelRatio",
        "fileReservedTime",
        "maxFilterMessageSize",
        "maxMessageSize",
    )
)
# Refused even with their present value: they decide what a request may change, and where the file is.
_BLACK_LIST: Final = frozenset(("brokerConfigPath", "configBlackList", "rocketmqHome"))

# Keys that have no meaning here, but that mqadmin exportConfigs of 4.9 requires.
_FOR_TOOLS: Final = {"filterServerNums": "0"}


class LiveConfig:
    """The settings as tools see them. ``file``: the properties file of the start; without one, a change lasts until the next start."""

    def __init__(self, broker: Broker, file: Path | None) -> None:
        self._broker, self._file = broker, file
        self.data_version = DataVersion(timestamp=broker.start_ms)

    def text(self) -> str:
        """All settings except secrets, one ``key=value`` per line, sorted by key."""
        settings = {**self._broker.config.without_secrets(), **_FOR_TOOLS}
        settings["useTLS"] = str(self._broker.tls is not None).lower()
        return format_properties(dict(sorted(settings.items())))

    def update(self, text: str, now_ms: int) -> None:
        """Apply ``key=value`` lines. Raises NoPermission (a key is on the black list), ConfigurationError (unknown, not now, or a wrong
        value), StoreNotWritable (in effect, but not in the file)."""
        too_long = settings_length_problem(len(text))
        if too_long is not None:
            raise ConfigurationError(too_long)
        changes = {key.strip(): value for key, value in parse_properties(text).items()}
        before = self._broker.config
        listed = _BLACK_LIST | {key.strip() for key in before.config_black_list.split(";")}
        for key in changes:
            if key in listed:
                raise NoPermission(
                    ResponseCode.NO_PERMISSION, f"{key} is on the black list of keys that a request may not change"
                )
        problem = settings_problem(changes)
        if problem is not None:
            raise ConfigurationError(problem)
        after = _checked(before, changes)
        if after != before:
            self._broker.replace_config(after, now_ms)
        self.data_version.next_version(now_ms)
        if after != before:
            log.info(
                "settings were changed by request: %s",
                ", ".join(f"{key}={shown_setting(key, changes[key])}" for key in changes),
            )
        self._write_down(changes)

    def _write_down(self, changes: Mapping[str, str]) -> None:
        """Change the keys of ``changes`` in the file; its other lines, including comments, stay as they are."""
        if self._file is None or not changes:
            return
        try:
            text = replace_properties(self._file.read_text("utf-8"), changes)
            ConfigFile(self._file).save(text.encode())
        except (OSError, UnicodeDecodeError, StoreError) as error:
            reason = error if isinstance(error, StoreError) else f"{self._file} cannot be read: {error}"
            raise StoreNotWritable(
                f"the settings are changed until the broker ends, but they could not be written down: {reason}"
            ) from error


def _checked(before: BrokerConfig, changes: Mapping[str, str]) -> BrokerConfig:
    present = before.to_properties()
    known = BrokerConfig.keys()
    for key in changes:
        if key not in known:
            near = nearest_key(key, known)
            todo = f"did you mean {near}?" if near else "getBrokerConfig shows the keys there are"
            raise ConfigurationError(f"{key} is unknown to this broker; {todo}")
    after = BrokerConfig.from_properties({**present, **changes})
    values = after.to_properties()
    for key in changes:
        if values.get(key) != present.get(key) and key not in _OF_BROKER | _OF_STORE:
            raise ConfigurationError(
                f"{key} is {shown_setting(key, present.get(key, ''))} since the start and cannot change while the broker runs; "
                "set it in the configuration and restart"
            )
    return after
