# SPDX-License-Identifier: Apache-2.0
"""A started consumer: its parts and their connections (S2; Java: DefaultMQPushConsumerImpl).

Start: subscribe to the retry topic, load progress, start the service, register, read routes, check filters, send a heartbeat, rebalance.
Stop: end pulls, then listeners, then persist progress and unlock queues, then leave the group. So no message is consumed after its queue
was dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sprocketmq.client.async_client import in_order
from sprocketmq.client.consume.consumer_requests import ConsumerRequests
from sprocketmq.client.consume.offset_store import LocalFileOffsetStore, OffsetStore, RemoteOffsetStore
from sprocketmq.client.consume.pull_loop import PullLoop
from sprocketmq.client.consume.rebalancer import Rebalancer
from sprocketmq.client.consume.send_back import SendBack
from sprocketmq.client.hooks import Hooks
from sprocketmq.client.remoting.concurrent_work import for_each
from sprocketmq.client.remoting.group_members import group_subscription, make_retry_topic
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.remoting.pulls import check_filter, why_refused
from sprocketmq.client.settings.namespace import unwrap
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.push_settings import PushSettings
from sprocketmq.core.consume import flow_control
from sprocketmq.core.consume.process_queue import ProcessQueue, QueueSnapshot
from sprocketmq.core.consume.pull_cursor import BROKER_SUSPEND_MS, PULL_TIMEOUT_MS, PullCursor, PullDue
from sprocketmq.core.consume.queue_lock import LOCK_RENEW_INTERVAL_MS
from sprocketmq.core.group.subscription import TAG, parse_tag_expression, renewed, same_subscription
from sprocketmq.core.quantities import counted
from sprocketmq.core.resource_names import is_retry_topic, retry_topic
from sprocketmq.core.retry.retry_schedule import max_reconsume_times
from sprocketmq.core.statistics import ConsumerStatistics, Window
from sprocketmq.errors import NetworkError, RemoteError, RequestTimeout, remote_error
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.wire import bodies
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.client.listen.consume_service import ConsumeService
    from sprocketmq.client.listen.stuck_listener import StuckListenerCallback
    from sprocketmq.client.observe.recorder import Recorder
    from sprocketmq.client.observe.trace import MessageTrace
    from sprocketmq.client.settings.pull_settings import PullSettings
    from sprocketmq.core.replay.decision_tape import Tape

log = logging.getLogger("sprocketmq.client")
statistics_log = logging.getLogger("sprocketmq.client.statistics")

C = TypeVar("C", bound=Callable[..., Any])

_FIRST_RENEWAL_MS: Final = 1_000
_LEAVE_TIMEOUT_S: Final = 10.0
_SHUTDOWN_WARNING_S: Final = 1.0
_BURST: Final = 20  # announcements after changes of the members; then one each _PACE_MS
_PACE_MS: Final = 1_000
_QUESTIONS_AT_ONCE: Final = 32
_MINUTE_MS: Final = 60_000
_LOGGED: Final = ((Window.MINUTE, _MINUTE_MS), (Window.HOUR, 60 * _MINUTE_MS), (Window.DAY, 24 * 60 * _MINUTE_MS))


class RunningConsumer:
    """One started consumer, and what its parts share; they hold it. Belongs to its loop.

    Attributes:
        name, namespace: the group as brokers know it, and the prefix of the names of topics and groups there; None without.
        service: gets the messages; set by whoever makes the consumer, before ``start``.
        rebalancer, offset_store, send_back, requests: which queues it reads, its progress, where failed messages go, and the requests of
            brokers.
        last_failure: time and text of the last exception of a listener, for administrators; ``has_raised``: one that is no signal.
        suspend_ms, pull_timeout_ms: how long a broker holds a pull that finds nothing, and how long we wait for it.
        unconfirmed: topics that a broker may filter by another member's subscription.
    """

    consume_type = bodies.ConsumeType.CONSUME_PASSIVELY
    with_retry_topic = True
    suspend_ms, pull_timeout_ms = BROKER_SUSPEND_MS, PULL_TIMEOUT_MS
    service: ConsumeService

    def __init__(
        self,
        options: ClientOptions,
        settings: PushSettings,
        subscriptions: dict[str, bodies.SubscriptionData],
        hooks: Hooks,
        *,
        orderly: bool = False,
    ) -> None:
        self.options, self.settings, self.subscriptions, self.hooks = options, settings, subscriptions, hooks
        self.own_settings: PushSettings | PullSettings = settings  # as the user gave them; a pull consumer's are others
        self.name, self.namespace = settings.group, options.namespace
        self.clustering = settings.clustering
        self.needs_locks = orderly and settings.clustering
        self.max_reconsume_times = max_reconsume_times(settings.max_reconsume_times, orderly=orderly)
        self.statistics = ConsumerStatistics()
        self.stuck_callbacks: list[StuckListenerCallback] = []
        self.last_failure: tuple[int, str] | None = None
        self.has_raised = False
        self.paused = self.stopping = False
        self.tasks = Tasks(log, f"group {self.name}: background work")
        self.trace: MessageTrace | None = None
        self.tape: Tape | None = None
        self._loops: dict[ProcessQueue, PullLoop] = {}
        self._limits = settings.flow_limits  # of each queue
        self._latest_subscriptions: dict[str, bodies.SubscriptionData] = {}  # of each topic, in any heartbeat or pull
        self.unconfirmed: set[str] = set()
        self._confirming = asyncio.Lock()
        self._announced_ms: deque[int] = deque(maxlen=_BURST)  # the last announcements after changes of the members
        self._announces_later = False
        self._hides_subscription: set[str] = set()  # brokers that do not say by which subscription they filter
        self._has_retry_topic: set[str] = set()  # brokers
        self._is_registered = self._is_service_started = False
        self._workers = self._least_workers = settings.consume_thread_count
        # Broadcasting progress lives in a file named after the client id, which must stay the same over restarts.
        client_id = options.client_id(keep_default_name=not self.clustering)
        # What may raise comes before the instance is acquired; otherwise the instance would keep a user that never leaves.
        local_store = (
            None if self.clustering else LocalFileOffsetStore(settings.local_offset_store_dir, client_id, self.name)
        )
        self._recorder: Recorder | None = None
        if settings.record is not None:
            from sprocketmq.client.observe.recorder import Recorder  # imported only if decisions are recorded

            self._recorder = Recorder.of(settings, options.clock, client_id, orderly, subscriptions)
        try:
            self.instance = ClientInstance.acquire(options, client_id)
        except BaseException:
            if self._recorder is not None:
                self._recorder.close()
            raise
        self.client_id, self.clock = self.instance.client_id, self.instance.clock
        self.offset_store: OffsetStore = local_store or RemoteOffsetStore(self)
        self.send_back = SendBack(self)
        if self._recorder is not None:
            self._recorder.attach(self)
        self.rebalancer = Rebalancer(self)
        self.requests = ConsumerRequests(self)
        self.started_ms = self.clock.now_ms()

    @property
    def own_name(self) -> str:  # as its user knows it
        return unwrap(self.namespace, self.name)

    def recorded(self, decides: C) -> C:
        """``decides``, a class of machines of ``core`` or a pure decision, as the parts of this consumer use it."""
        return decides if self.tape is None else self.tape.recorded(decides)

    # -- life (S2) -------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        instance, settings = self.instance, self.settings
        if settings.clustering and self.with_retry_topic:
            retry = retry_topic(self.name)
            self.subscriptions.setdefault(retry, parse_tag_expression(retry, "*", instance.clock.now_ms()))
        if self.options.enable_trace:
            from sprocketmq.client.observe.trace import MessageTrace  # imported only if messages are traced

            self.trace = MessageTrace(instance, self.options, self.name, "CONSUME")
            self.hooks = self.hooks.with_hook(self.trace)
        wanted = self._expressions()
        await self.offset_store.load()
        self.service.start()
        self._is_service_started = True
        instance.add_consumer(self)
        self._is_registered = True
        # Raises if no name server answers, so that ``start`` fails instead of only a log line.
        retry_topics = set(filter(is_retry_topic, self.subscriptions))
        await instance.cluster.routes.refresh_each(self.subscriptions.keys() - retry_topics)
        await self._make_retry_topic()
        await instance.cluster.routes.refresh_each(retry_topics)
        await self._check_expressions()
        await self.announce()
        await self.rebalance()
        if self.needs_locks:
            self._keep(self._renew_locks)
        self._keep(self._log_statistics)
        if self._expressions() == wanted:
            instance.rebalance_soon()
        else:  # by another task meanwhile, so the brokers may not have it yet
            self.subscription_changed()

    @property
    def runs_caller(self) -> bool:
        return self._is_service_started and self.service.runs_caller

    async def stop(self) -> None:
        self.stopping = True
        if self.instance.is_inherited:
            return  # a forked child has nothing to stop: tasks and connections are the parent's
        await in_order(
            self._stop_pulls, self._stop_listeners, self.tasks.close, self._end_trace, self._leave_in_time, self._end_record,
            self._release,
        )  # fmt: skip

    async def _stop_pulls(self) -> None:
        await asyncio.gather(*(loop.stop() for loop in self._loops.values()))

    async def _stop_listeners(self) -> None:
        if not self._is_service_started:
            return
        name, limit_ms = self.name, self.settings.await_termination_ms

        def warn() -> None:
            if running := len(self.service.running_since_ms()):
                calls = counted(running, "listener call")
                log.warning(
                    "group %s: shutdown waits for %s, up to %d ms (await_termination_ms)", name, calls, limit_ms
                )

        timer = asyncio.get_running_loop().call_later(_SHUTDOWN_WARNING_S, warn)
        try:
            ended = await self.service.close(limit_ms)
        finally:
            timer.cancel()
        if not ended:
            log.warning(
                "group %s: a listener still runs after %d ms (await_termination_ms); what it was cut off from is delivered again: %s",
                name,
                limit_ms,
                ", ".join(one.message_id for one in self.service.cut_off),
            )

    async def _end_trace(self) -> None:
        if self.trace is not None:
            await self.trace.close()

    async def _leave_in_time(self) -> None:
        if not self._is_registered:
            return
        try:
            # Each request has its own limit; the limits for several brokers that do not answer must not add up.
            async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                await self._leave()
        except TimeoutError:
            log.warning(
                "group %s: the brokers did not answer within %g s to the unregistration; they will notice by themselves",
                self.name,
                _LEAVE_TIMEOUT_S,
            )
        finally:
            self.instance.forget_consumer(self.name)

    async def _release(self) -> None:
        await self.instance.release(self.options)

    async def _end_record(self) -> None:
        if self._recorder is not None:
            self._recorder.close()

    async def _leave(self) -> None:
        try:
            await self.rebalancer.drop_all()
        finally:
            await self.instance.remove_consumer(self.name)

    async def _check_expressions(self) -> None:
        for subscription in list(self.subscriptions.values()):
            await self.check_expression(subscription)

    def _expressions(self) -> dict[str, str]:
        return {topic: subscription.sub_string for topic, subscription in self.subscriptions.items()}

    async def check_expression(self, subscription: bodies.SubscriptionData) -> None:
        """Raises what a broker says of an SQL92 expression that it cannot read; it would deliver everything otherwise."""
        if subscription.expression_type == TAG:
            return
        address = await self.instance.cluster.routes.any_broker(subscription.topic)
        if address is not None:
            asked = bodies.CheckClientConfigRequestBody(
                client_id=self.instance.client_id, group=self.name, subscription_data=subscription
            )
            try:
                await check_filter(self.instance.cluster, address, asked)
            except RemoteError as error:
                asked_for = f"the filter {subscription.sub_string!r} of topic {subscription.topic!r}"
                raise remote_error(error.code, f"{asked_for} is refused: {why_refused(error)}", error.address) from None

    async def _log_statistics(self) -> None:
        """At each full minute, hour and day (UTC), as Java's StatsItem prints them; at DEBUG, because each topic has several lines."""
        clock = self.clock
        now_ms = clock.now_ms()
        due_ms = [now_ms - now_ms % period_ms + period_ms for _, period_ms in _LOGGED]
        while True:
            await clock.sleep(max(0, min(due_ms) - clock.now_ms()))
            now_ms = clock.now_ms()
            for number, (window, period_ms) in enumerate(_LOGGED):
                if now_ms >= due_ms[number]:
                    due_ms[number] = now_ms - now_ms % period_ms + period_ms
                    if statistics_log.isEnabledFor(logging.DEBUG):
                        for line in self.statistics.log_lines(self.name, window, now_ms):
                            statistics_log.debug("%s", line)

    async def _renew_locks(self) -> None:
        delay_ms = _FIRST_RENEWAL_MS
        while True:
            await self.clock.sleep(delay_ms)
            delay_ms = LOCK_RENEW_INTERVAL_MS
            await self.rebalancer.renew_locks()

    def _keep(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.tasks.keep(work, self.clock)

    def warnings(self) -> list[str]:
        """What keeps messages from this consumer until somebody changes the cluster or the clients; a sentence each."""
        found = self.rebalancer.warnings()
        refused = [loop for loop in self._loops.values() if loop.refusal]
        if refused:
            found.append(
                f"brokers refuse the pulls of {counted(len(refused), 'queue')}, {refused[0].queue} for one: {refused[0].refusal}"
            )
        return found

    # -- what the instance calls (Java: MQConsumerInner) ---------------------------------------------------------------------------

    @property
    def topics(self) -> set[str]:
        return set(self.subscriptions)

    def consumer_data(self) -> bodies.ConsumerData:
        self._raise_versions()
        return bodies.ConsumerData(
            group_name=self.name,
            consume_type=self.consume_type.value,
            message_model=self.settings.message_model.value,
            consume_from_where=self.settings.consume_from_where.value,
            # Queues assigned by hand: each pull carries its filter. In the heartbeat it would become the filter of the whole group (Java:
            # empty).
            subscription_data_set=list(self.subscriptions.values()) if self.rebalancer.assigned is None else [],
            unit_mode=self.options.unit_mode,
        )

    def members_changed(self) -> None:
        # A member that came or went may have sent another subscription, and brokers use the newest: send ours again. Pulls that they answer
        # before it is there are refused, or asked again. (Java does it after a rebalance: RebalancePushImpl.messageQueueChanged.)
        now_ms = self.clock.now_ms()
        for topic, subscription in self.subscriptions.items():
            self.subscriptions[topic] = renewed(subscription, now_ms)
        if not self.stopping and not self._announces_later:
            # Each heartbeat of members whose topics differ changes the group's, of which the broker notifies all of them again.
            recent, now_ms = self._announced_ms, self.clock.steady_ms()
            self._announces_later = len(recent) == _BURST and now_ms - recent[0] < _BURST * _PACE_MS
            self._keep(self._announce_later if self._announces_later else self._announce_now)

    async def _announce_later(self) -> None:
        await self.clock.sleep(_PACE_MS)
        self._announces_later = False
        await self._announce_now()

    async def _announce_now(self) -> None:
        self._announced_ms.append(self.clock.steady_ms())
        await self.announce()

    async def rebalance(self) -> bool:
        if self.stopping:
            return True
        await self._make_retry_topic()
        balanced = await self.rebalancer.rebalance(self.subscriptions)
        self._share_limits()
        return balanced

    async def _make_retry_topic(self) -> None:
        """At each broker behind a proxy that is new."""
        instance, group = self.instance, self.name
        if not instance.cluster.behind_proxy or retry_topic(group) not in self.subscriptions:
            return

        async def make(broker_name: str, address: str) -> None:
            try:
                if await make_retry_topic(instance.cluster, address, broker_name, group):
                    self._has_retry_topic.add(broker_name)
            except (NetworkError, RequestTimeout) as error:
                log.info("group %s: broker %s did not make its retry topic: %s", group, broker_name, error)

        masters = {
            name: instance.cluster.routes.table.master_address(name) for name in instance.cluster.routes.table.brokers()
        }
        new = {name: address for name, address in masters.items() if address and name not in self._has_retry_topic}
        await asyncio.gather(*map(make, new.keys(), new.values()))

    def queue_snapshots(self) -> dict[MessageQueue, QueueSnapshot]:
        """Copies, for other threads: the process queues themselves belong to the loop."""
        self.service.record_ended()
        return {queue: process_queue.snapshot() for queue, process_queue in self.rebalancer.table.active().items()}

    async def persist_offsets(self) -> None:
        self.service.record_ended()
        self.rebalancer.forget_progress_of_others()
        await self.offset_store.persist_all(self.rebalancer.held())

    # -- between the parts -----------------------------------------------------------------------------------------------------

    async def announce(self) -> None:
        """Send the subscriptions to the brokers, and the pulls that were refused before; pulls held with another filter end."""
        await self.instance.heartbeats.send_to_all()
        for loop in self._loops.values():
            loop.subscription_announced()
        async with self._confirming:
            await self._confirm()

    async def _confirm(self) -> None:
        """Ask the brokers by whose subscription they filter: that with the highest version of any member, also of one that has left. Until
        all brokers have ours, pulls carry it. (Not always: brokers would not check whether the group may read the topic.)"""
        group, settings = self.name, self.settings
        if (
            self.instance.cluster.behind_proxy
            or settings.post_subscription_when_pull
            or self.rebalancer.assigned is not None
        ):
            return
        ours = {
            topic: subscription
            for topic, subscription in self.subscriptions.items()
            if topic in self.unconfirmed and not is_retry_topic(topic)
        }
        self.unconfirmed.intersection_update(ours)
        unlike: dict[str, str] = {}

        async def ask(address_and_topic: tuple[str, str]) -> None:
            address, topic = address_and_topic
            if (why := await self._why_unlike(address, ours[topic])) is not None:
                unlike[topic] = why

        brokers = [one for one in self.instance.heartbeats.reached() if one not in self._hides_subscription]
        await for_each([(address, topic) for address in brokers for topic in ours], ask, _QUESTIONS_AT_ONCE)
        for topic, subscription in ours.items():
            if topic in unlike:
                log.debug("group %s: pulls of %s carry their filter: %s", group, topic, unlike[topic])
            elif self.subscriptions.get(topic) is subscription:  # else it changed meanwhile, and is announced again
                self.unconfirmed.discard(topic)

    async def _why_unlike(self, address: str, ours: bodies.SubscriptionData) -> str | None:
        """How a broker's subscription of the group differs from ours; None if it does not, or the broker does not say."""
        group, topic, cluster = self.name, ours.topic, self.instance.cluster
        try:
            found = await group_subscription(cluster, address, group, topic)
        except RemoteError as error:  # in 5.x it takes the permission GET, and consumers may have only SUB
            self._hides_subscription.add(address)
            log.debug("group %s: %s does not say by which subscription it filters: %s", group, address, error)
            return None
        except (NetworkError, RequestTimeout) as error:
            return f"{address} did not answer: {error}"
        if found is None:
            return f"{address} has none"
        if same_subscription(found, ours):
            return None
        cluster.outages.failed(
            "filters",
            None,
            "group %s: another member subscribes to %s by %r, this one by %r; the group loses messages that the "
            "member which reads their queue does not subscribe to: let all members subscribe alike",
            group, topic, found.sub_string, ours.sub_string, of=topic,
        )  # fmt: skip
        return f"{address} has {found.sub_string!r}"

    def subscription_changed(self) -> None:
        async def announce_and_rebalance() -> None:
            await self.announce()
            self.instance.rebalance_soon()

        self._keep(announce_and_rebalance)

    def resize(self, workers: int) -> None:
        """Set how many listener calls may run at once; ``adjust_pool`` starts from this number."""
        self._workers = self._least_workers = workers
        self.service.resize(workers)

    def adjust_pool(self) -> None:
        settings = self.settings
        if settings.consume_thread_max is None:
            return
        waiting = sum(process_queue.broker_backlog for process_queue in self._loops)
        threshold, before = settings.adjust_thread_pool_nums_threshold, self._workers
        if waiting >= threshold:
            self._workers = min(self._workers + 1, max(settings.consume_thread_max, self._least_workers))
        elif waiting < threshold * 0.8:  # Java's margin (DefaultMQPushConsumerImpl.adjustThreadPool)
            self._workers = max(self._workers - 1, self._least_workers)
        if self._workers != before:
            log.info("group %s: %d messages wait, %d listener calls at once", self.name, waiting, self._workers)
            self.service.resize(self._workers)

    def wake(self) -> None:
        for loop in self._loops.values():
            loop.wake()

    def start_loop(self, process_queue: ProcessQueue, offset: int) -> None:
        if self.stopping:
            return
        settings = self.settings
        cursor = self.recorded(PullCursor)(
            process_queue,
            offset,
            orderly=self.needs_locks,
            limits=self._limits,
            pull_interval_ms=settings.pull_interval_ms,
            exception_delay_ms=settings.pull_time_delay_when_exception_ms,
        )
        loop = self._loops[process_queue] = PullLoop(self, cursor)
        loop.start()

    def loop_ended(self, process_queue: ProcessQueue) -> None:
        self._loops.pop(process_queue, None)

    def pull_state(self, queue: MessageQueue) -> PullDue:
        return PullDue(not self.stopping, self.paused, queue.topic in self.subscriptions)

    def subscription(self, topic: str) -> bodies.SubscriptionData | None:
        """The subscription for pulls. Brokers refuse it (code 25) before its heartbeat, so that no older filter passes over a message."""
        wanted = self.subscriptions.get(topic)
        if wanted is not None and wanted is not self._latest_subscriptions.get(topic):
            self._raise_versions()
        return self.subscriptions.get(topic)

    def _raise_versions(self) -> None:
        """A broker accepts only newer versions, so each change gets a higher one, even if the clock stands still or was set back."""
        for topic, wanted in self.subscriptions.items():
            latest = self._latest_subscriptions.get(topic)
            if latest is not None and latest is not wanted and wanted.sub_version <= latest.sub_version:
                self.subscriptions[topic] = renewed(wanted, latest.sub_version + 1)
            if self.subscriptions[topic] is not latest:
                self._latest_subscriptions[topic] = self.subscriptions[topic]
                self.unconfirmed.add(topic)

    async def read_offset(self, queue: MessageQueue) -> int:
        """The offset for the first locked pull: what the owner before us committed last. If nothing is stored, the computed start
        stays: a second end of the queue would skip messages that arrived in between."""
        stored = await self.offset_store.read(queue)
        if stored >= -1:
            for loop in self._loops.values():
                if loop.queue == queue:
                    return stored if stored >= 0 else loop.cursor.own_offset
        return -1

    def correct_offset(self, process_queue: ProcessQueue, offset: int) -> None:
        """Nothing is cached, and the filter left out everything before ``offset``."""
        if process_queue.queue is not None:
            self.offset_store.progress.update(process_queue.queue, offset)

    def offset_illegal(self, queue: MessageQueue, offset: int, has_lost_end: bool) -> None:
        sentence = "group %s: %s continues at offset %d, as its broker says: the group was reset, or its old offset is not there"
        self.instance.cluster.outages.failed("resets", None, sentence, self.name, queue, offset, of=str(queue))

        async def drop_then_take_up_again() -> None:
            await self.rebalancer.drop_at(queue, offset)
            self.instance.rebalance_soon()

        self._keep(drop_then_take_up_again)

    def locked_again(self, process_queue: ProcessQueue) -> None:
        loop = self._loops.get(process_queue)
        if loop is not None:
            loop.locked_again()

    def messages_left(self, process_queue: ProcessQueue) -> None:
        loop = self._loops.get(process_queue)
        if loop is not None:
            loop.messages_left()

    def queues_changed(self, topic: str) -> None:
        self._share_limits()

    def _share_limits(self) -> None:
        limits = flow_control.per_queue_limits(self.settings.flow_limits, len(self._loops))
        if limits != self._limits:  # mostly they do not depend on the number of queues
            self._limits = limits
            for loop in self._loops.values():
                loop.cursor.limits = limits
