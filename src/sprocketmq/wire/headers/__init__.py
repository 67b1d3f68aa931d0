# SPDX-License-Identifier: Apache-2.0
"""Typed headers of requests and responses, one struct for each Java class: ``Type(...).to_ext()`` writes, ``command.header(Type)`` reads.
``wire.requests`` declares what they are for. A module is imported at the first use of one of its names (``sprocketmq.names``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.names import names_of

if TYPE_CHECKING:
    from sprocketmq.wire.headers.acl import AclSubjectRequestHeader as AclSubjectRequestHeader
    from sprocketmq.wire.headers.acl import CreateAccessConfigRequestHeader as CreateAccessConfigRequestHeader
    from sprocketmq.wire.headers.acl import DeleteAccessConfigRequestHeader as DeleteAccessConfigRequestHeader
    from sprocketmq.wire.headers.acl import DeleteAclRequestHeader as DeleteAclRequestHeader
    from sprocketmq.wire.headers.acl import GetBrokerAclConfigResponseHeader as GetBrokerAclConfigResponseHeader
    from sprocketmq.wire.headers.acl import ListAclsRequestHeader as ListAclsRequestHeader
    from sprocketmq.wire.headers.acl import ListUsersRequestHeader as ListUsersRequestHeader
    from sprocketmq.wire.headers.acl import (
        UpdateGlobalWhiteAddrsConfigRequestHeader as UpdateGlobalWhiteAddrsConfigRequestHeader,
    )
    from sprocketmq.wire.headers.acl import UserRequestHeader as UserRequestHeader
    from sprocketmq.wire.headers.consumers import (
        ConsumeMessageDirectlyResultRequestHeader as ConsumeMessageDirectlyResultRequestHeader,
    )
    from sprocketmq.wire.headers.consumers import (
        GetConsumerConnectionListRequestHeader as GetConsumerConnectionListRequestHeader,
    )
    from sprocketmq.wire.headers.consumers import (
        GetConsumerListByGroupRequestHeader as GetConsumerListByGroupRequestHeader,
    )
    from sprocketmq.wire.headers.consumers import (
        GetConsumerRunningInfoRequestHeader as GetConsumerRunningInfoRequestHeader,
    )
    from sprocketmq.wire.headers.consumers import GetConsumeStatsInBrokerHeader as GetConsumeStatsInBrokerHeader
    from sprocketmq.wire.headers.consumers import GetConsumeStatsRequestHeader as GetConsumeStatsRequestHeader
    from sprocketmq.wire.headers.consumers import (
        GetProducerConnectionListRequestHeader as GetProducerConnectionListRequestHeader,
    )
    from sprocketmq.wire.headers.consumers import HeartbeatResponseHeader as HeartbeatResponseHeader
    from sprocketmq.wire.headers.consumers import (
        NotifyConsumerIdsChangedRequestHeader as NotifyConsumerIdsChangedRequestHeader,
    )
    from sprocketmq.wire.headers.consumers import UnregisterClientRequestHeader as UnregisterClientRequestHeader
    from sprocketmq.wire.headers.consumers import ViewBrokerStatsDataRequestHeader as ViewBrokerStatsDataRequestHeader
    from sprocketmq.wire.headers.ext_header import ExtHeader as ExtHeader
    from sprocketmq.wire.headers.ext_header import Int32 as Int32
    from sprocketmq.wire.headers.ext_header import Int64 as Int64
    from sprocketmq.wire.headers.ha import ExchangeHAInfoHeader as ExchangeHAInfoHeader
    from sprocketmq.wire.headers.ha import HandoverRequestHeader as HandoverRequestHeader
    from sprocketmq.wire.headers.lookup import UNIQUE_KEY_QUERY as UNIQUE_KEY_QUERY
    from sprocketmq.wire.headers.lookup import QueryMessageRequestHeader as QueryMessageRequestHeader
    from sprocketmq.wire.headers.lookup import QueryMessageResponseHeader as QueryMessageResponseHeader
    from sprocketmq.wire.headers.lookup import ViewMessageRequestHeader as ViewMessageRequestHeader
    from sprocketmq.wire.headers.namesrv import AddWritePermOfBrokerRequestHeader as AddWritePermOfBrokerRequestHeader
    from sprocketmq.wire.headers.namesrv import AddWritePermOfBrokerResponseHeader as AddWritePermOfBrokerResponseHeader
    from sprocketmq.wire.headers.namesrv import BrokerHeartbeatRequestHeader as BrokerHeartbeatRequestHeader
    from sprocketmq.wire.headers.namesrv import DeleteKVConfigRequestHeader as DeleteKVConfigRequestHeader
    from sprocketmq.wire.headers.namesrv import (
        DeleteTopicFromNamesrvRequestHeader as DeleteTopicFromNamesrvRequestHeader,
    )
    from sprocketmq.wire.headers.namesrv import GetBrokerMemberGroupRequestHeader as GetBrokerMemberGroupRequestHeader
    from sprocketmq.wire.headers.namesrv import GetKVConfigRequestHeader as GetKVConfigRequestHeader
    from sprocketmq.wire.headers.namesrv import GetKVConfigResponseHeader as GetKVConfigResponseHeader
    from sprocketmq.wire.headers.namesrv import GetKVListByNamespaceRequestHeader as GetKVListByNamespaceRequestHeader
    from sprocketmq.wire.headers.namesrv import GetRouteInfoRequestHeader as GetRouteInfoRequestHeader
    from sprocketmq.wire.headers.namesrv import GetTopicsByClusterRequestHeader as GetTopicsByClusterRequestHeader
    from sprocketmq.wire.headers.namesrv import (
        NotifyMinBrokerIdChangeRequestHeader as NotifyMinBrokerIdChangeRequestHeader,
    )
    from sprocketmq.wire.headers.namesrv import PutKVConfigRequestHeader as PutKVConfigRequestHeader
    from sprocketmq.wire.headers.namesrv import QueryDataVersionRequestHeader as QueryDataVersionRequestHeader
    from sprocketmq.wire.headers.namesrv import QueryDataVersionResponseHeader as QueryDataVersionResponseHeader
    from sprocketmq.wire.headers.namesrv import RegisterBrokerRequestHeader as RegisterBrokerRequestHeader
    from sprocketmq.wire.headers.namesrv import RegisterBrokerResponseHeader as RegisterBrokerResponseHeader
    from sprocketmq.wire.headers.namesrv import RegisterTopicRequestHeader as RegisterTopicRequestHeader
    from sprocketmq.wire.headers.namesrv import UnRegisterBrokerRequestHeader as UnRegisterBrokerRequestHeader
    from sprocketmq.wire.headers.namesrv import WipeWritePermOfBrokerRequestHeader as WipeWritePermOfBrokerRequestHeader
    from sprocketmq.wire.headers.namesrv import (
        WipeWritePermOfBrokerResponseHeader as WipeWritePermOfBrokerResponseHeader,
    )
    from sprocketmq.wire.headers.offsets import CloneGroupOffsetRequestHeader as CloneGroupOffsetRequestHeader
    from sprocketmq.wire.headers.offsets import GetConsumerStatusRequestHeader as GetConsumerStatusRequestHeader
    from sprocketmq.wire.headers.offsets import (
        GetEarliestMsgStoretimeRequestHeader as GetEarliestMsgStoretimeRequestHeader,
    )
    from sprocketmq.wire.headers.offsets import (
        GetEarliestMsgStoretimeResponseHeader as GetEarliestMsgStoretimeResponseHeader,
    )
    from sprocketmq.wire.headers.offsets import GetMaxOffsetRequestHeader as GetMaxOffsetRequestHeader
    from sprocketmq.wire.headers.offsets import GetMaxOffsetResponseHeader as GetMaxOffsetResponseHeader
    from sprocketmq.wire.headers.offsets import GetMinOffsetRequestHeader as GetMinOffsetRequestHeader
    from sprocketmq.wire.headers.offsets import GetMinOffsetResponseHeader as GetMinOffsetResponseHeader
    from sprocketmq.wire.headers.offsets import QueryConsumeQueueRequestHeader as QueryConsumeQueueRequestHeader
    from sprocketmq.wire.headers.offsets import QueryConsumerOffsetRequestHeader as QueryConsumerOffsetRequestHeader
    from sprocketmq.wire.headers.offsets import QueryConsumerOffsetResponseHeader as QueryConsumerOffsetResponseHeader
    from sprocketmq.wire.headers.offsets import QueryCorrectionOffsetHeader as QueryCorrectionOffsetHeader
    from sprocketmq.wire.headers.offsets import ResetOffsetRequestHeader as ResetOffsetRequestHeader
    from sprocketmq.wire.headers.offsets import SearchOffsetRequestHeader as SearchOffsetRequestHeader
    from sprocketmq.wire.headers.offsets import SearchOffsetResponseHeader as SearchOffsetResponseHeader
    from sprocketmq.wire.headers.offsets import UpdateConsumerOffsetRequestHeader as UpdateConsumerOffsetRequestHeader
    from sprocketmq.wire.headers.pull import PullMessageRequestHeader as PullMessageRequestHeader
    from sprocketmq.wire.headers.pull import PullMessageResponseHeader as PullMessageResponseHeader
    from sprocketmq.wire.headers.recall import RecallMessageRequestHeader as RecallMessageRequestHeader
    from sprocketmq.wire.headers.recall import RecallMessageResponseHeader as RecallMessageResponseHeader
    from sprocketmq.wire.headers.send import ConsumerSendMsgBackRequestHeader as ConsumerSendMsgBackRequestHeader
    from sprocketmq.wire.headers.send import ReplyMessageRequestHeader as ReplyMessageRequestHeader
    from sprocketmq.wire.headers.send import SendMessageRequestHeader as SendMessageRequestHeader
    from sprocketmq.wire.headers.send import SendMessageRequestHeaderV2 as SendMessageRequestHeaderV2
    from sprocketmq.wire.headers.send import SendMessageResponseHeader as SendMessageResponseHeader
    from sprocketmq.wire.headers.topics import CreateTopicRequestHeader as CreateTopicRequestHeader
    from sprocketmq.wire.headers.topics import (
        DeleteSubscriptionGroupRequestHeader as DeleteSubscriptionGroupRequestHeader,
    )
    from sprocketmq.wire.headers.topics import DeleteTopicRequestHeader as DeleteTopicRequestHeader
    from sprocketmq.wire.headers.topics import (
        GetAllSubscriptionGroupRequestHeader as GetAllSubscriptionGroupRequestHeader,
    )
    from sprocketmq.wire.headers.topics import (
        GetAllSubscriptionGroupResponseHeader as GetAllSubscriptionGroupResponseHeader,
    )
    from sprocketmq.wire.headers.topics import GetAllTopicConfigRequestHeader as GetAllTopicConfigRequestHeader
    from sprocketmq.wire.headers.topics import GetAllTopicConfigResponseHeader as GetAllTopicConfigResponseHeader
    from sprocketmq.wire.headers.topics import GetBrokerConfigResponseHeader as GetBrokerConfigResponseHeader
    from sprocketmq.wire.headers.topics import (
        GetSubscriptionGroupConfigRequestHeader as GetSubscriptionGroupConfigRequestHeader,
    )
    from sprocketmq.wire.headers.topics import GetTopicConfigRequestHeader as GetTopicConfigRequestHeader
    from sprocketmq.wire.headers.topics import GetTopicStatsInfoRequestHeader as GetTopicStatsInfoRequestHeader
    from sprocketmq.wire.headers.topics import QueryConsumeTimeSpanRequestHeader as QueryConsumeTimeSpanRequestHeader
    from sprocketmq.wire.headers.topics import (
        QuerySubscriptionByConsumerRequestHeader as QuerySubscriptionByConsumerRequestHeader,
    )
    from sprocketmq.wire.headers.topics import (
        QueryTopicConsumeByWhoRequestHeader as QueryTopicConsumeByWhoRequestHeader,
    )
    from sprocketmq.wire.headers.topics import QueryTopicsByConsumerRequestHeader as QueryTopicsByConsumerRequestHeader
    from sprocketmq.wire.headers.topics import UpdateGroupForbiddenRequestHeader as UpdateGroupForbiddenRequestHeader
    from sprocketmq.wire.headers.transactions import (
        CheckTransactionStateRequestHeader as CheckTransactionStateRequestHeader,
    )
    from sprocketmq.wire.headers.transactions import EndTransactionRequestHeader as EndTransactionRequestHeader
    from sprocketmq.wire.headers.transactions import (
        ResumeCheckHalfMessageRequestHeader as ResumeCheckHalfMessageRequestHeader,
    )
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            "acl": (
                "AclSubjectRequestHeader CreateAccessConfigRequestHeader DeleteAccessConfigRequestHeader "
                "DeleteAclRequestHeader GetBrokerAclConfigResponseHeader ListAclsRequestHeader ListUsersRequestHeader "
                "UpdateGlobalWhiteAddrsConfigRequestHeader UserRequestHeader"
            ),
            "consumers": (
                "ConsumeMessageDirectlyResultRequestHeader GetConsumerConnectionListRequestHeader "
                "GetConsumerListByGroupRequestHeader GetConsumerRunningInfoRequestHeader "
                "GetConsumeStatsInBrokerHeader GetConsumeStatsRequestHeader GetProducerConnectionListRequestHeader "
                "HeartbeatResponseHeader NotifyConsumerIdsChangedRequestHeader UnregisterClientRequestHeader "
                "ViewBrokerStatsDataRequestHeader"
            ),
            "ext_header": "ExtHeader Int32 Int64",
            "ha": "ExchangeHAInfoHeader HandoverRequestHeader",
            "lookup": "UNIQUE_KEY_QUERY QueryMessageRequestHeader QueryMessageResponseHeader ViewMessageRequestHeader",
            "namesrv": (
                "AddWritePermOfBrokerRequestHeader AddWritePermOfBrokerResponseHeader BrokerHeartbeatRequestHeader "
                "DeleteKVConfigRequestHeader DeleteTopicFromNamesrvRequestHeader GetBrokerMemberGroupRequestHeader "
                "GetKVConfigRequestHeader GetKVConfigResponseHeader GetKVListByNamespaceRequestHeader "
                "GetRouteInfoRequestHeader GetTopicsByClusterRequestHeader NotifyMinBrokerIdChangeRequestHeader "
                "PutKVConfigRequestHeader QueryDataVersionRequestHeader QueryDataVersionResponseHeader "
                "RegisterBrokerRequestHeader RegisterBrokerResponseHeader RegisterTopicRequestHeader "
                "UnRegisterBrokerRequestHeader WipeWritePermOfBrokerRequestHeader WipeWritePermOfBrokerResponseHeader"
            ),
            "offsets": (
                "CloneGroupOffsetRequestHeader GetConsumerStatusRequestHeader GetEarliestMsgStoretimeRequestHeader "
                "GetEarliestMsgStoretimeResponseHeader GetMaxOffsetRequestHeader GetMaxOffsetResponseHeader "
                "GetMinOffsetRequestHeader GetMinOffsetResponseHeader QueryConsumeQueueRequestHeader "
                "QueryConsumerOffsetRequestHeader QueryConsumerOffsetResponseHeader QueryCorrectionOffsetHeader "
                "ResetOffsetRequestHeader SearchOffsetRequestHeader SearchOffsetResponseHeader "
                "UpdateConsumerOffsetRequestHeader"
            ),
            "pull": "PullMessageRequestHeader PullMessageResponseHeader",
            "recall": "RecallMessageRequestHeader RecallMessageResponseHeader",
            "send": (
                "ConsumerSendMsgBackRequestHeader ReplyMessageRequestHeader SendMessageRequestHeader "
                "SendMessageRequestHeaderV2 SendMessageResponseHeader"
            ),
            "topics": (
                "CreateTopicRequestHeader DeleteSubscriptionGroupRequestHeader DeleteTopicRequestHeader "
                "GetAllSubscriptionGroupRequestHeader GetAllSubscriptionGroupResponseHeader "
                "GetAllTopicConfigRequestHeader GetAllTopicConfigResponseHeader GetBrokerConfigResponseHeader "
                "GetSubscriptionGroupConfigRequestHeader GetTopicConfigRequestHeader GetTopicStatsInfoRequestHeader "
                "QueryConsumeTimeSpanRequestHeader QuerySubscriptionByConsumerRequestHeader "
                "QueryTopicConsumeByWhoRequestHeader QueryTopicsByConsumerRequestHeader "
                "UpdateGroupForbiddenRequestHeader"
            ),
            "transactions": "CheckTransactionStateRequestHeader EndTransactionRequestHeader ResumeCheckHalfMessageRequestHeader",
        },
    )
