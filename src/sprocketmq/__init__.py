# SPDX-License-Identifier: Apache-2.0
"""SprocketMQ: a RocketMQ client in pure Python, an embedded broker, and a Spark pipeline.

``import sprocketmq as rmq`` gives the client's public names. They load when they are first used (``sprocketmq.names``), so that
``sprocketmq.broker`` alone does not import the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sprocketmq.names import names_of
from sprocketmq.version import __version__ as __version__

if TYPE_CHECKING:
    from sprocketmq.client.admin import Admin as Admin
    from sprocketmq.client.admin import AsyncAdmin as AsyncAdmin
    from sprocketmq.client.admin import BrokerStatus as BrokerStatus
    from sprocketmq.client.admin import GroupSummary as GroupSummary
    from sprocketmq.client.admin import MessageTrack as MessageTrack
    from sprocketmq.client.admin import QueueProgress as QueueProgress
    from sprocketmq.client.admin import TopicTraffic as TopicTraffic
    from sprocketmq.client.admin import TrackType as TrackType
    from sprocketmq.client.consume.async_pull_consumer import AsyncPullConsumer as AsyncPullConsumer
    from sprocketmq.client.consume.async_push_consumer import AsyncPushConsumer as AsyncPushConsumer
    from sprocketmq.client.consume.consumer_health import ConsumerHealth as ConsumerHealth
    from sprocketmq.client.consume.message_iterator import AsyncMessageIterator as AsyncMessageIterator
    from sprocketmq.client.consume.message_iterator import MessageIterator as MessageIterator
    from sprocketmq.client.consume.pull_consumer import PullConsumer as PullConsumer
    from sprocketmq.client.consume.push_consumer import PushConsumer as PushConsumer
    from sprocketmq.client.consume.queue_reader import QueueReader as QueueReader
    from sprocketmq.client.dead_letters.async_dead_letters import AsyncDeadLetters as AsyncDeadLetters
    from sprocketmq.client.dead_letters.dead_letter_message import DeadLetterMessage as DeadLetterMessage
    from sprocketmq.client.dead_letters.dead_letter_message import ReplayReport as ReplayReport
    from sprocketmq.client.dead_letters.dead_letters import DeadLetters as DeadLetters
    from sprocketmq.client.hooks import CheckForbiddenHook as CheckForbiddenHook
    from sprocketmq.client.hooks import ConsumeMessageContext as ConsumeMessageContext
    from sprocketmq.client.hooks import ConsumeMessageHook as ConsumeMessageHook
    from sprocketmq.client.hooks import EndTransactionContext as EndTransactionContext
    from sprocketmq.client.hooks import EndTransactionHook as EndTransactionHook
    from sprocketmq.client.hooks import FilterMessageContext as FilterMessageContext
    from sprocketmq.client.hooks import FilterMessageHook as FilterMessageHook
    from sprocketmq.client.hooks import SendMessageContext as SendMessageContext
    from sprocketmq.client.hooks import SendMessageHook as SendMessageHook
    from sprocketmq.client.keyword_options import CommonOptions as CommonOptions
    from sprocketmq.client.keyword_options import GroupSettings as GroupSettings
    from sprocketmq.client.keyword_options import ProducerOptions as ProducerOptions
    from sprocketmq.client.keyword_options import PullConsumerOptions as PullConsumerOptions
    from sprocketmq.client.keyword_options import PushConsumerOptions as PushConsumerOptions
    from sprocketmq.client.keyword_options import RequestArguments as RequestArguments
    from sprocketmq.client.keyword_options import SendArguments as SendArguments
    from sprocketmq.client.listen.stuck_listener import StuckListener as StuckListener
    from sprocketmq.client.listener_signals import DeadLetter as DeadLetter
    from sprocketmq.client.listener_signals import RetryLater as RetryLater
    from sprocketmq.client.metrics import ClientMetrics as ClientMetrics
    from sprocketmq.client.observe.tracing import OpenTelemetryHook as OpenTelemetryHook
    from sprocketmq.client.produce.async_producer import AsyncProducer as AsyncProducer
    from sprocketmq.client.produce.async_transaction_producer import (
        AsyncTransactionProducer as AsyncTransactionProducer,
    )
    from sprocketmq.client.produce.async_transaction_producer import TransactionSendResult as TransactionSendResult
    from sprocketmq.client.produce.producer import Producer as Producer
    from sprocketmq.client.produce.transaction_producer import TransactionProducer as TransactionProducer
    from sprocketmq.client.received_message import ReceivedMessage as ReceivedMessage
    from sprocketmq.client.results import ConsumeConcurrentlyContext as ConsumeConcurrentlyContext
    from sprocketmq.client.results import ConsumeOrderlyContext as ConsumeOrderlyContext
    from sprocketmq.client.results import SendResult as SendResult
    from sprocketmq.client.results import SendStatus as SendStatus
    from sprocketmq.client.results import ServerOutage as ServerOutage
    from sprocketmq.client.settings.unreadable_bodies import UnreadableBody as UnreadableBody
    from sprocketmq.client.settings.values import bytes_deserializer as bytes_deserializer
    from sprocketmq.client.settings.values import bytes_serializer as bytes_serializer
    from sprocketmq.client.settings.values import json_deserializer as json_deserializer
    from sprocketmq.client.settings.values import json_serializer as json_serializer
    from sprocketmq.client.settings.values import text_deserializer as text_deserializer
    from sprocketmq.client.settings.values import text_serializer as text_serializer
    from sprocketmq.core.consume.consume_result import ConsumeConcurrentlyStatus as ConsumeConcurrentlyStatus
    from sprocketmq.core.consume.orderly_turn import ConsumeOrderlyStatus as ConsumeOrderlyStatus
    from sprocketmq.core.group.allocation import AllocateAveragely as AllocateAveragely
    from sprocketmq.core.group.allocation import AllocateAveragelyByCircle as AllocateAveragelyByCircle
    from sprocketmq.core.group.allocation import AllocateByConfig as AllocateByConfig
    from sprocketmq.core.group.allocation import AllocateByConsistentHash as AllocateByConsistentHash
    from sprocketmq.core.group.allocation import AllocateByMachineRoom as AllocateByMachineRoom
    from sprocketmq.core.group.allocation import AllocateMachineRoomNearby as AllocateMachineRoomNearby
    from sprocketmq.core.group.subscription import FilterExpression as FilterExpression
    from sprocketmq.core.group.subscription import sql92 as sql92
    from sprocketmq.core.transactions.open_transactions import LocalTransactionState as LocalTransactionState
    from sprocketmq.errors import ClosedError as ClosedError
    from sprocketmq.errors import ConfigurationError as ConfigurationError
    from sprocketmq.errors import ConnectFailed as ConnectFailed
    from sprocketmq.errors import ConnectionLost as ConnectionLost
    from sprocketmq.errors import FrameTooLarge as FrameTooLarge
    from sprocketmq.errors import GroupNotExist as GroupNotExist
    from sprocketmq.errors import NetworkError as NetworkError
    from sprocketmq.errors import NoPermission as NoPermission
    from sprocketmq.errors import ProtocolError as ProtocolError
    from sprocketmq.errors import RemoteError as RemoteError
    from sprocketmq.errors import RequestNotServed as RequestNotServed
    from sprocketmq.errors import RequestTimeout as RequestTimeout
    from sprocketmq.errors import RocketMQError as RocketMQError
    from sprocketmq.errors import SignatureRefused as SignatureRefused
    from sprocketmq.errors import StoreCorrupt as StoreCorrupt
    from sprocketmq.errors import StoreError as StoreError
    from sprocketmq.errors import StoreLocked as StoreLocked
    from sprocketmq.errors import StoreNotWritable as StoreNotWritable
    from sprocketmq.errors import SystemBusy as SystemBusy
    from sprocketmq.errors import TooMuchRequest as TooMuchRequest
    from sprocketmq.errors import TopicNotExist as TopicNotExist
    from sprocketmq.errors import ValueDeserializationError as ValueDeserializationError
    from sprocketmq.wire.bodies import ConsumeFromWhere as ConsumeFromWhere
    from sprocketmq.wire.bodies import MessageModel as MessageModel
    from sprocketmq.wire.bodies import SubscriptionGroupConfig as SubscriptionGroupConfig
    from sprocketmq.wire.bodies import TopicConfig as TopicConfig
    from sprocketmq.wire.records.message import Message as Message
    from sprocketmq.wire.records.message import MessageExt as MessageExt
    from sprocketmq.wire.records.message import MessageQueue as MessageQueue
    from sprocketmq.wire.trace import ConsumeReturnType as ConsumeReturnType
    from sprocketmq.wire.trace import TraceRecord as TraceRecord
    from sprocketmq.wire.trace import TraceType as TraceType
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            "client.admin": "Admin AsyncAdmin BrokerStatus GroupSummary MessageTrack QueueProgress TopicTraffic TrackType",
            "client.dead_letters.dead_letter_message": "DeadLetterMessage ReplayReport",
            "client.dead_letters.async_dead_letters": "AsyncDeadLetters",
            "client.dead_letters.dead_letters": "DeadLetters",
            "client.keyword_options": (
                "CommonOptions GroupSettings ProducerOptions PullConsumerOptions PushConsumerOptions RequestArguments SendArguments"
            ),
            "client.listener_signals": "DeadLetter RetryLater",
            "client.hooks": (
                "CheckForbiddenHook ConsumeMessageContext ConsumeMessageHook EndTransactionContext EndTransactionHook "
                "FilterMessageContext FilterMessageHook SendMessageContext SendMessageHook"
            ),
            "client.metrics": "ClientMetrics",
            "client.produce.producer": "AsyncProducer Producer",
            "client.consume.async_pull_consumer": "AsyncPullConsumer",
            "client.consume.consumer_health": "ConsumerHealth",
            "client.consume.message_iterator": "AsyncMessageIterator MessageIterator",
            "client.consume.pull_consumer": "PullConsumer",
            "client.consume.async_push_consumer": "AsyncPushConsumer",
            "client.consume.push_consumer": "PushConsumer",
            "client.consume.queue_reader": "QueueReader",
            "client.received_message": "ReceivedMessage",
            "client.results": "ConsumeConcurrentlyContext ConsumeOrderlyContext SendResult SendStatus ServerOutage",
            "client.listen.stuck_listener": "StuckListener",
            "core.group.allocation": (
                "AllocateAveragely AllocateAveragelyByCircle AllocateByConfig AllocateByConsistentHash "
                "AllocateByMachineRoom AllocateMachineRoomNearby"
            ),
            "client.produce.async_transaction_producer": "AsyncTransactionProducer TransactionSendResult",
            "client.produce.transaction_producer": "TransactionProducer",
            "client.observe.tracing": "OpenTelemetryHook",
            "client.settings.unreadable_bodies": "UnreadableBody",
            "client.settings.values": (
                "bytes_deserializer bytes_serializer json_deserializer json_serializer text_deserializer text_serializer"
            ),
            "core.consume.consume_progress": "ConsumeFromWhere",
            "core.consume.consume_result": "ConsumeConcurrentlyStatus",
            "core.transactions.open_transactions": "LocalTransactionState",
            "core.consume.orderly_turn": "ConsumeOrderlyStatus",
            "core.group.subscription": "FilterExpression sql92",
            "errors": (
                "ClosedError ConfigurationError ConnectFailed ConnectionLost FrameTooLarge GroupNotExist NetworkError NoPermission "
                "ProtocolError RemoteError RequestNotServed RequestTimeout RocketMQError SignatureRefused StoreCorrupt StoreError "
                "StoreLocked StoreNotWritable SystemBusy TooMuchRequest TopicNotExist ValueDeserializationError"
            ),
            "wire.bodies": "MessageModel SubscriptionGroupConfig TopicConfig",
            "wire.records.message": "Message MessageExt MessageQueue",
            "wire.trace": "ConsumeReturnType TraceRecord TraceType",
        },
    )
    __all__ += ["__version__"]
