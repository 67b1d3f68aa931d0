# SPDX-License-Identifier: Apache-2.0
"""Typed headers of requests and responses, one struct for each Java class: ``Type(...).to_ext()`` writes, ``command.header(Type)`` reads.
``wire.requests`` declares what they are for. A module is imported at the first use of one of its names (``sprocketmq.names``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.names import names_of

if TYPE_CHECKING:
    from sprocketmq.wire.headers.acl import *
    from sprocketmq.wire.headers.consumers import *
    from sprocketmq.wire.headers.ext_header import *
    from sprocketmq.wire.headers.ha import *
    from sprocketmq.wire.headers.lookup import *
    from sprocketmq.wire.headers.namesrv import *
    from sprocketmq.wire.headers.offsets import *
    from sprocketmq.wire.headers.pull import *
    from sprocketmq.wire.headers.recall import *
    from sprocketmq.wire.headers.send import *
    from sprocketmq.wire.headers.topics import *
    from sprocketmq.wire.headers.transactions import *
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
