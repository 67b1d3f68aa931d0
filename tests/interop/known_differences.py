# SPDX-License-Identifier: Apache-2.0
"""Why an answer of ours is not Apache's, as data. A difference that nobody explains here fails the tests, and so does a reason that
explains nothing any more.

Two kinds need no line of their own, because they are rules of the house: what is ill-formed is refused with one sentence (`REFUSED`), and
both generations of clients get the answers of 5.4.0 (`AS_5`).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from interop.java_peers import ALL_VERSIONS, APACHE_4, APACHE_55

REFUSED: Final = "ill-formed: refused here"
AS_5: Final = "as 5.4.0"


class Known(NamedTuple):
    """`where` is a pattern for the request's key, `what` one for the difference, as the page of the comparison spells them."""

    where: str
    reason: str
    what: str = ""
    versions: tuple[str, ...] = ALL_VERSIONS

    def explains(self, version: str, key: str, difference: str) -> bool:
        return (
            version in self.versions
            and re.search(rf"^{self.where}", key) is not None
            and re.search(self.what, difference) is not None
        )


KNOWN: Final = (
    Known("broker (11|361) .*(condition|expressionType)", "a filter that cannot be read is code 23, Apache delivers everything"),
    Known("broker 21", "Apache's own topics for RocksDB, POP and controllers are not made"),
    Known("broker 26", "the settings that there are here; Apache's has hundreds for parts that are built otherwise"),
    Known("broker 28", "latencies of puts are not kept; brokerVersion and getTransferedTps are also there under older names"),
    Known("broker 907", "one field more, activated"),
    Known("broker 43", "one table more at 5.5.0, pullOffsetTable", versions=(APACHE_55,)),
    Known("broker 45", "one field more, copiesBefore"),
    Known("broker 323", "only a message that was given up is taken back, Apache takes any message"),
    Known("broker 25", "an unknown key is refused with code 29, Apache answers success and forgets it", "code 0, ours 29"),
    Known("broker (10|310) (sysFlag|f) negative", "bits that belong to the broker are cleared, Apache refuses them"),
    Known("broker (10|310|320|324|325) (topic|b|f) ", "a refusal of the whole request names no region", "^MSG_REGION missing; TRACE_ON"),
    Known("broker 17 topicFilterType missing", "the filter type is SINGLE_TAG where it is left out"),
    Known("broker 5[24]", "Apache does not answer while aclEnable is false", versions=(APACHE_4,)),
    Known("broker 300[1267] body missing", "a missing body is an empty one: code 16, as for any user that cannot be"),
    Known("client 39", "the half message comes as it was sent, Apache's copies of it are marked WAIT=false", "body"),
    Known("namesrv 319", "the settings that there are here; Apache's has more for its thread pools"),
)  # fmt: skip


class NotServed(NamedTuple):
    """A code of Apache's that is answered with code 3 here."""

    code: int
    name: str
    to: str
    reason: str


_POP: Final = "POP consumption is not there"
_CONTROLLER: Final = "controllers (a Raft group that elects masters) are not there"
_CONTAINER: Final = "broker containers (several brokers in one process) are not there"
_COLD: Final = "cold data flow control is not there: reads go through the page cache alone"
_ROCKSDB: Final = "nothing is kept in RocksDB"
_LITE: Final = (
    "lite topics (5.5.0: any number of queues with names of their own below one topic, read by POP) are not there"
)
_OLD: Final = "no server of either version answers it"

NOT_SERVED: Final = (
    NotServed(13, "QUERY_BROKER_OFFSET", "broker", _OLD),
    NotServed(22, "GET_TOPIC_CONFIG_LIST", "broker", _OLD),
    NotServed(23, "GET_TOPIC_NAME_LIST", "broker", _OLD),
    NotServed(27, "TRIGGER_DELETE_FILES", "broker", _OLD),
    NotServed(47, "GET_CLIENT_CONFIG", "broker", _OLD),
    NotServed(209, "SUSPEND_CONSUMER", "broker", _OLD),
    NotServed(210, "RESUME_CONSUMER", "broker", _OLD),
    NotServed(211, "RESET_CONSUMER_OFFSET_IN_CONSUMER", "broker", _OLD),
    NotServed(212, "RESET_CONSUMER_OFFSET_IN_BROKER", "broker", _OLD),
    NotServed(213, "ADJUST_CONSUMER_THREAD_POOL", "broker", _OLD),
    NotServed(214, "WHO_CONSUME_THE_MESSAGE", "broker", _OLD),
    NotServed(301, "REGISTER_FILTER_SERVER", "broker", _OLD),
    NotServed(302, "REGISTER_MESSAGE_FILTER_CLASS", "broker", _OLD),
    NotServed(354, "CHECK_ROCKSDB_CQ_WRITE_PROGRESS", "broker", _ROCKSDB),
    NotServed(355, "EXPORT_ROCKSDB_CONFIG_TO_JSON", "broker", _ROCKSDB),
    NotServed(513, "UPDATE_AND_CREATE_STATIC_TOPIC", "broker", "static topics (queues that move between brokers) are not there"),
    NotServed(902, "ADD_BROKER", "broker", _CONTAINER),
    NotServed(903, "REMOVE_BROKER", "broker", _CONTAINER),
    NotServed(905, "NOTIFY_MIN_BROKER_ID_CHANGE", "broker", "a slave that acts as master is not there"),
    NotServed(908, "RESET_MASTER_FLUSH_OFFSET", "broker", _CONTROLLER),
    *(
        NotServed(code, name, "broker", _CONTROLLER)
        for code, name in enumerate(
            (
                "CONTROLLER_ALTER_SYNC_STATE_SET", "CONTROLLER_ELECT_MASTER", "CONTROLLER_REGISTER_BROKER", "CONTROLLER_GET_REPLICA_INFO",
                "CONTROLLER_GET_METADATA_INFO", "CONTROLLER_GET_SYNC_STATE_DATA", "GET_BROKER_EPOCH_CACHE", "NOTIFY_BROKER_ROLE_CHANGED",
                "UPDATE_CONTROLLER_CONFIG", "GET_CONTROLLER_CONFIG", "CLEAN_BROKER_DATA", "CONTROLLER_GET_NEXT_BROKER_ID",
                "CONTROLLER_APPLY_BROKER_ID", "BROKER_CLOSE_CHANNEL_REQUEST", "CHECK_NOT_ACTIVE_BROKER_REQUEST",
                "GET_BROKER_LIVE_INFO_REQUEST", "GET_SYNC_STATE_DATA_REQUEST", "RAFT_BROKER_HEART_BEAT_EVENT_REQUEST",
            ),
            1001,
        )
    ),
    NotServed(2001, "UPDATE_COLD_DATA_FLOW_CTR_CONFIG", "broker", _COLD),
    NotServed(2002, "REMOVE_COLD_DATA_FLOW_CTR_CONFIG", "broker", _COLD),
    NotServed(2003, "GET_COLD_DATA_FLOW_CTR_INFO", "broker", _COLD),
    NotServed(2004, "SET_COMMITLOG_READ_MODE", "broker", _COLD),
    NotServed(5001, "SWITCH_TIMER_ENGINE", "broker", "there is one kind of timer: files, no RocksDB"),
    NotServed(200050, "POP_MESSAGE", "broker", _POP),
    NotServed(200051, "ACK_MESSAGE", "broker", _POP),
    NotServed(200052, "PEEK_MESSAGE", "broker", _POP),
    NotServed(200053, "CHANGE_MESSAGE_INVISIBLETIME", "broker", _POP),
    NotServed(200054, "NOTIFICATION", "broker", _POP),
    NotServed(200055, "POLLING_INFO", "broker", _POP),
    NotServed(200056, "POP_ROLLBACK", "broker", _POP),
    NotServed(200151, "BATCH_ACK_MESSAGE", "broker", _POP),
    *(
        NotServed(code, name, "broker", _LITE)
        for code, name in enumerate(
            (
                "POP_LITE_MESSAGE", "LITE_SUBSCRIPTION_CTL", "ACK_LITE_MESSAGE", "NOTIFY_UNSUBSCRIBE_LITE", "GET_BROKER_LITE_INFO",
                "GET_PARENT_TOPIC_INFO", "GET_LITE_TOPIC_INFO", "GET_LITE_CLIENT_INFO", "GET_LITE_GROUP_INFO", "TRIGGER_LITE_DISPATCH",
            ),
            200070,
        )
    ),
)  # fmt: skip
