# SPDX-License-Identifier: Apache-2.0
"""The pull loop of one queue (Java: PullMessageService, PullAPIWrapper). ``core.consume.pull_cursor`` decides.

Its one task has at most one pull in flight. A pause for flow control ends when enough messages have left the queue, or after 50 ms;
one for the span when the message at its head has.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from sprocketmq.client.hooks import FilterMessageContext
from sprocketmq.client.remoting.pulls import pull_message
from sprocketmq.client.results import PullResult
from sprocketmq.client.settings.namespace import unwrap
from sprocketmq.client.settings.unreadable_bodies import UnreadableBodies
from sprocketmq.client.settings.values import use_deserializers
from sprocketmq.core.consume import flow_control, pull_cursor
from sprocketmq.core.consume.flow_control import FlowControlCause
from sprocketmq.core.consume.process_queue import ProcessQueue
from sprocketmq.core.consume.pull_cursor import PullCursor, PullStatus
from sprocketmq.core.group.subscription import SUB_ALL, matches_tags, same_subscription
from sprocketmq.core.resource_names import retry_topic
from sprocketmq.errors import (
    ConfigurationError,
    NetworkError,
    ProtocolError,
    RemoteError,
    RequestTimeout,
    described,
)
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.wire import headers
from sprocketmq.wire.bodies import SubscriptionData
from sprocketmq.wire.codes import ResponseCode
from sprocketmq.wire.records import properties as props
from sprocketmq.wire.records.message import MessageExt, MessageQueue
from sprocketmq.wire.records.record import decode_records
from sprocketmq.wire.records.sys_flag import pull_sys_flag

if TYPE_CHECKING:
    from sprocketmq.client.consume.running_consumer import RunningConsumer

log = logging.getLogger("sprocketmq.client")

_ANY_COUNT: Final = 1 << 31
_PATIENCE_MS: Final = 60_000
# Such a pull is refused until an administrator or the user changes something.
_REFUSALS: Final = (
    ResponseCode.NO_PERMISSION,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
)
# The broker has not got the heartbeat with this subscription yet, or has restarted and has none.
_UNKNOWN_TO_BROKER: Final = (
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_NOT_LATEST,
    ResponseCode.FILTER_DATA_NOT_LATEST,
)


def decode_pull(
    result: PullResult,
    queue: MessageQueue,
    subscription: SubscriptionData,
    group: str,
    namespace: str | None = None,
    unreadable: list[tuple[MessageExt, Exception]] | None = None,
) -> list[MessageExt]:
    """The messages of a pull as a listener sees them: exact tag check, limits of the queue noted, a retry's own topic restored, and
    the topic's name without ``namespace``; ``unreadable`` gets those that cannot be opened (``decode_records``)."""
    limits = f"{props.MIN_OFFSET}\x01{result.min_offset}\x02{props.MAX_OFFSET}\x01{result.max_offset}\x02".encode()
    messages = decode_records(
        result.body, queue.broker_name, queue_id=queue.queue_id, more_properties=limits, unreadable=unreadable
    )
    if subscription.tags_set:
        # The broker compares hashes; this compares tags.
        messages = [message for message in messages if matches_tags(subscription, _property(message, props.TAGS))]
    if queue.topic == retry_topic(group):
        for message in messages:
            message.topic = _property(message, props.RETRY_TOPIC) or message.topic
    if namespace is not None:
        for message in messages:
            message.topic = unwrap(namespace, message.topic)
    return messages


def _property(message: MessageExt, name: str) -> str | None:
    """One property without parsing all of them."""
    raw = message._raw_properties
    return message.properties.get(name) if raw is None else props.get_property(raw, name)


class PullLoop:
    """``start`` it once; it ends by itself when the queue is dropped."""

    def __init__(self, consumer: RunningConsumer, cursor: PullCursor) -> None:
        assert cursor.queue is not None
        self.cursor = cursor
        self.queue: MessageQueue = cursor.queue
        self._consumer = consumer
        self._cluster, self._routes = consumer.instance.cluster, consumer.instance.cluster.routes
        self._broker_id = 0
        self._is_at_end = False  # the last pull found no more
        self._tasks = Tasks(log, f"group {self._consumer.name}: the pull loop of {self.queue}")
        self._task: asyncio.Task[None] | None = None  # from its first step on
        self._pause: asyncio.Future[None] | None = None
        self._waits_for_room = False
        self._stuck_at: int | None = -1  # no offset has this value
        self._resume_count = _ANY_COUNT
        self._pull_subscription: SubscriptionData | None = None  # of the pull that the broker has
        self._announcements = 0  # heartbeats of a changed subscription, sent to all brokers
        self._awaits_heartbeat = False  # the last pull was refused because the broker does not know our subscription
        self._is_cancelled = False  # this pull: ``_end_outdated`` has cancelled it
        self._carries_filter = False  # this pull
        self._stopped = False
        self._complaint = ""
        self._bodies = UnreadableBodies(
            self._consumer.settings.unreadable_body, self._consumer.name, self.queue, self._cluster.outages.troubles
        )
        self._failing_since_ms: int | None = None  # since when brokers answer pulls with what cannot be used
        self.refusal = ""  # the broker's answer while the broker refuses pulls until somebody changes something

    @property
    def process_queue(self) -> ProcessQueue:
        return self.cursor.process_queue

    def start(self) -> None:
        self._tasks.keep(self._run, self._consumer.clock)

    def messages_left(self) -> None:
        """Messages have left the process queue: check again if the loop waits for flow control."""
        if self._waits_for_room:
            process_queue = self.process_queue
            if process_queue.count <= self._resume_count and process_queue.min_offset != self._stuck_at:
                self.wake()

    def wake(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    def subscription_announced(self) -> None:
        """The brokers have the subscription: a pull that was refused is sent again, and one that a broker holds with another filter."""
        self._announcements += 1
        if self._awaits_heartbeat:
            self.wake()
        self._end_outdated()

    def locked_again(self) -> None:
        """Read now where another member ended: until then nothing is consumed, and the broker may hold our pull for long."""
        self.wake()
        self._end_outdated()

    def _end_outdated(self) -> None:
        pull_subscription = self._pull_subscription
        if self._task is None or pull_subscription is None or self._is_cancelled:
            return
        now = self._consumer.subscription(self.queue.topic)
        # Not for a newer version alone: a broker would hold one more pull of each queue whenever a member joins or leaves.
        if self._awaits_offset or now is None or not same_subscription(pull_subscription, now):
            self._is_cancelled = True  # so that ``_answer`` knows why
            self._task.cancel()

    async def stop(self) -> None:
        self._stopped = True
        await self._tasks.close()

    async def _run(self) -> None:
        # When it begins again, because other code cancelled its task, the answer to the last pull is lost.
        event: pull_cursor.PullEvent | None = (
            self._consumer.pull_state(self.queue) if self._task is None else pull_cursor.PullOutdated()
        )
        self._task = asyncio.current_task()
        try:
            while event is not None:
                next_event: pull_cursor.PullEvent | None = None
                for effect in self.cursor.handle(event, self._consumer.clock.steady_ms()):
                    next_event = await self._carry_out(effect) or next_event
                event = next_event
        except asyncio.CancelledError:
            if self._stopped or self.process_queue.dropped:
                self._consumer.loop_ended(self.process_queue)
            raise
        except BaseException:
            # A queue whose pull loop died is found by rebalance (pull expired, 120 s) and added anew.
            self._consumer.loop_ended(self.process_queue)
            raise
        self._consumer.loop_ended(self.process_queue)

    async def _carry_out(self, effect: pull_cursor.PullEffect) -> pull_cursor.PullEvent | None:
        if isinstance(effect, pull_cursor.SendPull):
            return await self._pull(effect.offset)
        if isinstance(effect, pull_cursor.PullNow):
            return self._consumer.pull_state(self.queue)
        if isinstance(effect, pull_cursor.Dispatch):
            self._consumer.service.submit(self.process_queue)
        elif isinstance(effect, pull_cursor.PullLater):
            await self._wait(effect)
            return self._consumer.pull_state(self.queue)
        elif isinstance(effect, pull_cursor.CorrectOffset):
            self._consumer.correct_offset(self.process_queue, effect.offset)
        elif isinstance(effect, pull_cursor.ReadOffset):
            return pull_cursor.OffsetRead(await self._consumer.read_offset(self.queue))
        elif isinstance(effect, pull_cursor.DropQueue):
            self._consumer.offset_illegal(self.queue, effect.offset, effect.has_lost_end)
        return None

    async def _wait(self, later: pull_cursor.PullLater) -> None:
        if later.reason != self._complaint:
            self._complaint = later.reason
            level = logging.DEBUG if later.cause is not None or later.reason == "pull_interval_ms" else logging.INFO
            log.log(
                level,
                "group %s: no pull of %s for %d ms: %s",
                self._consumer.name,
                self.queue,
                later.delay_ms,
                later.reason,
            )
        self._pause = asyncio.get_running_loop().create_future()
        self._waits_for_room = later.cause is not None
        self._stuck_at = self.process_queue.min_offset if later.cause is FlowControlCause.SPAN else -1
        limits = self.cursor.limits
        is_over_count = later.cause is FlowControlCause.COUNT and self.process_queue.count > limits.max_count
        self._resume_count = flow_control.resume_count(limits) if is_over_count else _ANY_COUNT
        timer = self._consumer.clock.call_later(later.delay_ms, self.wake)
        try:
            await self._pause
        finally:
            timer.cancel()
            self._pause, self._waits_for_room = None, False

    async def _pull(self, offset: int) -> pull_cursor.PullEvent:
        subscription = self._consumer.subscription(self.queue.topic)
        if subscription is None:
            return pull_cursor.PullFailed("the topic is not subscribed any more")
        clock = self._consumer.clock
        asked_ms, announcements = clock.steady_ms(), self._announcements
        self._awaits_heartbeat = False
        try:
            result = await self._answer(offset, subscription)
            if result is None:
                return pull_cursor.PullOutdated()
            self._broker_id = result.suggested_broker_id
            messages: list[MessageExt] = []
            unreadable: list[tuple[MessageExt, Exception]] = []
            next_offset = result.next_begin_offset
            consumer = self._consumer
            if result.status is PullStatus.FOUND:
                messages = decode_pull(result, self.queue, subscription, consumer.name, consumer.namespace, unreadable)
            if self._may_lack_messages(result, offset, len(messages) + len(unreadable), subscription):
                log.debug("group %s: pulls of %s carry their filter from now on", consumer.name, self.queue)
                consumer.unconfirmed.add(self.queue.topic)
                return pull_cursor.PullOutdated()
            if result.status is PullStatus.FOUND:
                now_ms = clock.now_ms()
                if unreadable:
                    messages, next_offset = self._bodies.settle(unreadable, messages, offset, next_offset)
                use_deserializers(consumer.settings.value_deserializer, messages)
                if consumer.hooks.filter:
                    hook_context = FilterMessageContext(
                        consumer.own_name, consumer.client_id, self.queue, messages, now_ms
                    )
                    messages = consumer.hooks.filter_messages(hook_context)
                consumer.statistics.pulled(self.queue.topic, len(messages), clock.steady_ms() - asked_ms, now_ms)
                self.process_queue.broker_backlog = result.max_offset - next_offset
            self._is_at_end = next_offset >= result.max_offset
        except RemoteError as error:
            if error.code in _UNKNOWN_TO_BROKER:
                if announcements != self._announcements:
                    return pull_cursor.PullOutdated()
                self._awaits_heartbeat = True
                self._consumer.instance.heartbeats.soon()
            self.refusal = str(error) if error.code in _REFUSALS else ""
            self._log_standstill(offset, error, lasting=bool(self.refusal))
            return pull_cursor.PullFailed(str(error), broker_flow_control=error.code == ResponseCode.FLOW_CONTROL)
        except (ProtocolError, ConfigurationError) as error:
            self._log_standstill(offset, error, lasting=True)
            return pull_cursor.PullFailed(str(error))
        except (NetworkError, RequestTimeout) as error:
            self._complaint = str(error)  # not logged for each queue: Outages does for all
            log.debug("group %s: a pull of %s failed: %s", self._consumer.name, self.queue, error)
            return pull_cursor.PullFailed(str(error))
        except Exception as error:  # noqa: BLE001 - a bug, ours or a hook's: go on in 1 s (a new loop: in 120 s)
            sentence, group = "group %s: a pull of %s failed: %s", self._consumer.name
            self._cluster.outages.failed("pulls", error, sentence, group, self.queue, error, of=str(self.queue))
            return pull_cursor.PullFailed(described(error))
        self._complaint = self.refusal = ""
        self._failing_since_ms = None
        return pull_cursor.PullReturned(result.status, next_offset, messages, offset > result.max_offset)

    def _may_lack_messages(self, result: PullResult, offset: int, count: int, subscription: SubscriptionData) -> bool:
        """Whether the broker has passed over messages by another member's filter: the answer to a pull that did not carry ours has only
        ``count`` messages, and ours lets all pass. (That member may have renewed its filter after we saw ours in force; nobody is notified.
        With another filter of ours it cannot be seen. A queue with holes looks the same, also to a pull that carries our filter.)"""
        passed = result.next_begin_offset - offset
        is_valid = result.status is not PullStatus.OFFSET_ILLEGAL
        return passed > count and is_valid and not self._carries_filter and subscription.sub_string == SUB_ALL

    def _log_standstill(self, offset: int, error: Exception, *, lasting: bool) -> None:
        """Log that a queue does not move: at once if waiting does not help, else after the first minute."""
        now_ms = self._consumer.clock.steady_ms()
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        if lasting or now_ms - self._failing_since_ms >= _PATIENCE_MS:
            # A broker refuses the pulls of all its queues alike; a message that cannot be opened is in one queue.
            is_refusal = isinstance(error, RemoteError)
            self._cluster.outages.failed(
                "pulls" if is_refusal else "reading",
                error,
                "group %s: %s cannot be read at offset %d, its messages have waited there for %d s: %s",
                self._consumer.name,
                self.queue,
                offset,
                (now_ms - self._failing_since_ms) // 1000,
                error,
                of=self._consumer.name if is_refusal else str(self.queue),
                level=logging.ERROR,
            )

    async def _answer(self, offset: int, subscription: SubscriptionData) -> PullResult | None:
        """The broker's answer; None if the subscription changed or the lock came back meanwhile. An answer that moves the offset counts
        all the same: no filter had a part in it, and a broker reports a reset once (ConsumerOffsetManager.queryThenEraseResetOffset)."""
        self._pull_subscription, self._is_cancelled = subscription, False
        try:
            result = await self._ask(offset, subscription)
        except asyncio.CancelledError:
            # By _end_outdated, unless the loop is stopped as well: two cancellations before its next step come as one.
            # What was outdated may be in force again by now.
            if self._stopped or not self._is_cancelled:
                raise
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            return None
        finally:
            self._pull_subscription = None
        if self._awaits_offset:
            return None
        # Also under the same filter in an older version: the broker may have filtered by a newer one, of another member.
        is_outdated = self._consumer.subscription(self.queue.topic) is not subscription
        return None if is_outdated and result.status is not PullStatus.OFFSET_ILLEGAL else result

    @property
    def _awaits_offset(self) -> bool:
        return self.cursor.orderly and self.process_queue.awaits_offset

    async def _ask(self, offset: int, subscription: SubscriptionData) -> PullResult:
        queue, settings = self.queue, self._consumer.settings
        broker = self._routes.table.broker_address(queue.broker_name, self._broker_id)
        if broker is None:
            await self._routes.refresh(queue.topic)
            broker = self._routes.table.broker_address(queue.broker_name, self._broker_id)
        if broker is None:
            raise NetworkError(f"no route names an address of broker {queue.broker_name!r}")
        progress = self._consumer.offset_store.progress.read(queue) if self._consumer.clustering else 0
        behind_proxy = self._cluster.behind_proxy
        # A proxy would put in the filter of its newest heartbeat, whatever the version (PullMessageActivity.processRequest0).
        post = settings.post_subscription_when_pull or behind_proxy or queue.topic in self._consumer.unconfirmed
        size = settings.pull_batch_size_in_bytes
        self._carries_filter = post
        suspend, suspend_ms, timeout_ms = True, self._consumer.suspend_ms, self._consumer.pull_timeout_ms
        count = settings.pull_batch_size
        if behind_proxy:  # see client.remoting.pulls
            suspend, self._is_at_end = self._is_at_end, False
            suspend_ms = min(suspend_ms, pull_cursor.PROXY_SUSPEND_MS)
            timeout_ms = min(timeout_ms, pull_cursor.PROXY_TIMEOUT_MS)
            if suspend:
                count = 1  # after a burst the waiting pulls of all queues are answered in the same moment
        header = headers.PullMessageRequestHeader(
            consumer_group=self._consumer.name,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=pull_sys_flag(
                commit_offset=progress > 0 and not broker.is_slave, suspend=suspend, subscription=post
            ),
            commit_offset=max(progress, 0),
            suspend_timeout_millis=suspend_ms,
            sub_version=subscription.sub_version,
            subscription=subscription.sub_string if post else None,
            expression_type=subscription.expression_type,
            max_msg_bytes=None if size == pull_cursor.BROKER_PULL_BYTES else size,
            bname=queue.broker_name,
        )
        return await pull_message(self._cluster, broker.address, header, timeout_ms)
