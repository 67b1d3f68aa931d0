# SPDX-License-Identifier: Apache-2.0
"""A started consumer: its parts and their connections (S2; Java: DefaultMQPushConsumerImpl).

    rebalancer --queues--> pull_loop (one per queue) --messages--> consume service --> listener, or ``poll``
        ^                        |                                      |
        `------ instance --------+---------- offset_store <-------------+--> send_back

Start: subscribe to the retry topic, load progress, start the service, register, read routes, check filters, send a heartbeat, rebalance.
Stop: end pulls, then listeners, then persist progress and unlock queues, then leave the group. So no message is consumed after its queue
was dropped.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from sprocketmq.client.async_client import in_order
from sprocketmq.client.consume.consumer_health import ConsumerHealth, health_of
from sprocketmq.client.consume.consumer_requests import ConsumerRequests
from sprocketmq.client.consume.group_member import ConsumeService, GroupMember
from sprocketmq.client.consume.group_retry_policy import GroupRetryPolicy
from sprocketmq.client.consume.offset_store import LocalFileOffsetStore, OffsetStore, RemoteOffsetStore
from sprocketmq.client.consume.pull_loop import PullLoop
from sprocketmq.client.consume.rebalancer import Rebalancer
from sprocketmq.client.consume.send_back import SendBack
from sprocketmq.client.hooks import Hooks
from sprocketmq.client.remoting.api import refused_expression
from sprocketmq.client.remoting.concurrent_work import for_each
from sprocketmq.client.remoting.instance import ClientInstance
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.client.settings.push_settings import PushSettings, consume_timestamp_ms
from sprocketmq.core.consume import flow_control
from sprocketmq.core.consume.process_queue import ProcessQueue, QueueSnapshot
from sprocketmq.core.consume.pull_cursor import BROKER_SUSPEND_MS, PULL_TIMEOUT_MS, PullCursor, PullDue
from sprocketmq.core.consume.queue_lock import LOCK_RENEW_INTERVAL_MS
from sprocketmq.core.group.subscription import TAG, parse_tag_expression, renewed, same_subscription
from sprocketmq.core.quantities import counted
from sprocketmq.core.retry import retry_schedule
from sprocketmq.core.statistics import ConsumerStatistics, Window
from sprocketmq.errors import NetworkError, RemoteError, RequestTimeout
from sprocketmq.net.process.tasks import Tasks
from sprocketmq.wire import bodies
from sprocketmq.wire.frames.command import Command
from sprocketmq.wire.records.message import MessageQueue

if TYPE_CHECKING:
    from sprocketmq.client.consume.poll_service import PollService
    from sprocketmq.client.observe.recorder import Recorder
    from sprocketmq.client.observe.trace import MessageTrace
    from sprocketmq.client.settings.pull_settings import PullSettings

log = logging.getLogger("sprocketmq.client")
statistics_log = logging.getLogger("sprocketmq.client.statistics")

_FIRST_RENEWAL_MS: Final = 1_000
_LEAVE_TIMEOUT_S: Final = 10.0
_TOLD_AFTER_S: Final = 1.0
_AT_ONCE: Final = 20  # announcements after changes of the members; then one a second
_PACE_MS: Final = 1_000
_QUESTIONS_AT_ONCE: Final = 32
_MINUTE_MS: Final = 60_000
_LOGGED: Final = ((Window.MINUTE, _MINUTE_MS), (Window.HOUR, 60 * _MINUTE_MS), (Window.DAY, 24 * 60 * _MINUTE_MS))


class RunningConsumer:
    """The parts of one started consumer. Belongs to its loop.

    Args:
        make_service: makes what receives the messages, of the group it is given.
        consume_type: how the group is announced to the brokers.
        orderly: queues are locked.
        with_retry_topic: also consume the group's retry topic.
        suspend_ms, pull_timeout_ms: how long a broker holds a pull that finds nothing, and how long we wait for it.
        own_settings: of a pull consumer, for its running info.

    Attributes: ``watcher`` is called for new queues and before pulls (pull consumers); ``trace`` is there with ``enable_trace``.
    """

    def __init__(
        self,
        options: ClientOptions,
        settings: PushSettings,
        subscriptions: dict[str, bodies.SubscriptionData],
        make_service: Callable[[GroupMember], ConsumeService],
        *,
        consume_type: bodies.ConsumeType = bodies.ConsumeType.CONSUME_PASSIVELY,
        orderly: bool = False,
        with_retry_topic: bool = True,
        suspend_ms: int = BROKER_SUSPEND_MS,
        pull_timeout_ms: int = PULL_TIMEOUT_MS,
        hooks: Hooks | None = None,
        own_settings: PullSettings | None = None,
    ) -> None:
        self.options, self._settings = options, settings
        self.own_settings = own_settings or settings
        self.subscriptions = subscriptions
        self._consume_type, self._with_retry_topic = consume_type, with_retry_topic
        self.suspend_ms, self.pull_timeout_ms = suspend_ms, pull_timeout_ms
        self.paused = False
        self.tasks = Tasks(log, f"group {settings.group}: background work")
        self.watcher: PollService | None = None
        self.stopping = False
        self.trace: MessageTrace | None = None
        self._loops: dict[ProcessQueue, PullLoop] = {}
        self._limits = settings.flow_limits  # of each queue
        self._latest_subscriptions: dict[str, bodies.SubscriptionData] = {}  # of each topic, in any heartbeat or pull
        self.unconfirmed: set[str] = set()  # topics that a broker may filter by another member's subscription
        self._confirming = asyncio.Lock()
        self._announced_ms: deque[int] = deque(maxlen=_AT_ONCE)  # the last announcements after changes of the members
        self._announces_later = False
        self._tell_no_subscription: set[str] = set()  # brokers that refuse to tell by which subscription they filter
        clustering = self._settings.clustering
        # Broadcasting progress lives in a file named after the client id, which must stay the same over restarts.
        client_id = self.options.client_id(keep_default_name=not clustering)
        # What may raise comes before the instance is acquired; otherwise the instance would keep a user that never leaves.
        local_store = (
            None
            if clustering
            else LocalFileOffsetStore(
                settings.local_offset_store_dir or os.environ.get("ROCKETMQ_CLIENT_LOCAL_OFFSET_STORE_DIR"),
                client_id,
                settings.group,
            )
        )
        self._recorder: Recorder | None = None
        if settings.record is not None:
            from sprocketmq.client.observe.recorder import Recorder  # imported only if decisions are recorded

            self._recorder = Recorder.of(settings, options.clock, client_id, orderly, subscriptions)
        try:
            self.instance = ClientInstance.acquire(self.options, client_id)
        except BaseException:
            if self._recorder is not None:
                self._recorder.close()
            raise
        instance = self.instance
        store: OffsetStore = local_store or RemoteOffsetStore(instance.api, instance.routes, settings.group)
        limit = retry_schedule.max_reconsume_times(self._settings.max_reconsume_times, orderly=orderly)
        self.member = GroupMember(
            name=self._settings.group,
            namespace=self.options.namespace,
            max_delay_level=self.options.max_delay_level,
            client_id=instance.client_id,
            settings=self._settings,
            clock=instance.clock,
            offset_store=store,
            send_back=SendBack(
                instance.api,
                instance.routes,
                self._settings.group,
                limit,
                instance.inner_sender.send_again,
                GroupRetryPolicy(instance.api, self._settings.group, instance.clock)
                if self._settings.follow_group_retry_policy
                else None,
            ),
            statistics=ConsumerStatistics(),
            lock_queue=self._lock_queue,
            settled=self._settled,
            hooks=hooks if hooks is not None else Hooks(),
        )
        if self._recorder is not None:
            self._recorder.attach(self.member)
        self.service = make_service(self.member)
        timestamp = self._settings.consume_timestamp
        self.rebalancer = Rebalancer(
            self, orderly=orderly, start_timestamp_ms=consume_timestamp_ms(timestamp) if timestamp else None
        )
        self.requests = ConsumerRequests(self)
        self.started_ms = instance.clock.now_ms()
        self._has_retry_topic: set[str] = set()  # brokers
        self._registered = False
        self._service_started = False
        self._workers = self._least_workers = settings.consume_thread_count

    # -- life (S2) -------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        instance, settings = self.instance, self._settings
        if settings.clustering and self._with_retry_topic:
            retry = retry_schedule.retry_topic(settings.group)
            self.subscriptions.setdefault(retry, parse_tag_expression(retry, "*", instance.clock.now_ms()))
        if self.options.enable_trace:
            from sprocketmq.client.observe.trace import MessageTrace  # imported only if messages are traced

            self.trace = MessageTrace(instance, self.options, self.member.name, "CONSUME")
            self.member.hooks = self.member.hooks.with_hook(self.trace)
        wanted = self._expressions()
        await self.member.offset_store.load()
        self.service.start()
        self._service_started = True
        instance.add_consumer(self)
        self._registered = True
        # Raises if no name server answers, so that ``start`` fails instead of only a log line.
        retry_topics = set(filter(retry_schedule.is_retry_topic, self.subscriptions))
        await instance.routes.refresh_each(self.subscriptions.keys() - retry_topics)
        await self._make_retry_topic()
        await instance.routes.refresh_each(retry_topics)
        await self._check_expressions()
        await self.announce()
        await self.rebalance()
        if self.service.orderly and settings.clustering:
            self._keep(self._renew_locks)
        self._keep(self._log_statistics)
        if self._expressions() == wanted:
            instance.rebalance_soon()
        else:  # by another task meanwhile, so the brokers may not have it yet
            self.subscription_changed()

    @property
    def runs_caller(self) -> bool:
        return self._service_started and self.service.runs_caller

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
        if not self._service_started:
            return
        name, limit_ms = self.member.name, self._settings.await_termination_ms

        def tell() -> None:
            if running := len(self.service.running_since_ms()):
                calls = counted(running, "listener call")
                log.warning(
                    "group %s: shutdown waits for %s, up to %d ms (await_termination_ms)", name, calls, limit_ms
                )

        timer = asyncio.get_running_loop().call_later(_TOLD_AFTER_S, tell)
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
        if not self._registered:
            return
        try:
            # Each request has its own limit; the limits for several brokers that do not answer must not add up.
            async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                await self._leave()
        except TimeoutError:
            log.warning(
                "group %s: the brokers did not answer within %g s to the unregistration; they will notice by themselves",
                self.member.name,
                _LEAVE_TIMEOUT_S,
            )
        finally:
            self.instance.forget_consumer(self.member.name)

    async def _release(self) -> None:
        await self.instance.release(self.options)

    async def _end_record(self) -> None:
        if self._recorder is not None:
            self._recorder.close()

    async def _leave(self) -> None:
        try:
            await self.rebalancer.drop_all()
        finally:
            await self.instance.remove_consumer(self.member.name)

    async def _check_expressions(self) -> None:
        for subscription in list(self.subscriptions.values()):
            await self.check_expression(subscription)

    def _expressions(self) -> dict[str, str]:
        return {topic: subscription.sub_string for topic, subscription in self.subscriptions.items()}

    async def check_expression(self, subscription: bodies.SubscriptionData) -> None:
        """Raises what the broker says of an SQL92 expression that it cannot read; it would deliver everything otherwise."""
        if subscription.expression_type == TAG:
            return
        address = await self.instance.routes.any_broker(subscription.topic)
        if address is not None:
            asked = bodies.CheckClientConfigRequestBody(
                client_id=self.instance.client_id, group=self.member.name, subscription_data=subscription
            )
            try:
                await self.instance.api.check_client_config(address, asked)
            except RemoteError as error:
                raise refused_expression(error, subscription) from None

    async def _log_statistics(self) -> None:
        """At each full minute, hour and day (UTC), as Java's StatsItem prints them; at DEBUG, because each topic has several lines."""
        clock, member = self.member.clock, self.member
        now_ms = clock.now_ms()
        due_ms = [now_ms - now_ms % period_ms + period_ms for _, period_ms in _LOGGED]
        while True:
            await clock.sleep(max(0, min(due_ms) - clock.now_ms()))
            now_ms = clock.now_ms()
            for number, (window, period_ms) in enumerate(_LOGGED):
                if now_ms >= due_ms[number]:
                    due_ms[number] = now_ms - now_ms % period_ms + period_ms
                    if statistics_log.isEnabledFor(logging.DEBUG):
                        for line in member.statistics.log_lines(member.name, window, now_ms):
                            statistics_log.debug("%s", line)

    async def _renew_locks(self) -> None:
        delay_ms = _FIRST_RENEWAL_MS
        while True:
            await self.member.clock.sleep(delay_ms)
            delay_ms = LOCK_RENEW_INTERVAL_MS
            await self.rebalancer.renew_locks()

    def _keep(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.tasks.keep(work, self.member.clock)

    def health(self) -> ConsumerHealth:
        return health_of(
            list(self.rebalancer.table.active().values()),
            self.service,
            self.member.clock.now_ms(),
            paused=self.paused,
            consume_timeout_ms=getattr(self.service, "consume_timeout_ms", 0),
            warnings=self._warnings(),
        )

    def _warnings(self) -> list[str]:
        found = self.rebalancer.warnings()
        refused = [loop for loop in self._loops.values() if loop.refusal]
        if refused:
            found.append(
                f"brokers refuse the pulls of {counted(len(refused), 'queue')}, {refused[0].queue} for one: {refused[0].refusal}"
            )
        return found

    # -- what the instance calls (Java: MQConsumerInner) ---------------------------------------------------------------------------

    @property
    def group_name(self) -> str:
        return self._settings.group

    @property
    def topics(self) -> set[str]:
        return set(self.subscriptions)

    def consumer_data(self) -> bodies.ConsumerData:
        self._raise_versions()
        return bodies.ConsumerData(
            group_name=self._settings.group,
            consume_type=self._consume_type.value,
            message_model=self._settings.message_model.value,
            consume_from_where=self._settings.consume_from_where.value,
            # Queues assigned by hand: each pull carries its filter. In the heartbeat it would become the filter of the whole group (Java:
            # empty).
            subscription_data_set=list(self.subscriptions.values()) if self.rebalancer.fixed is None else [],
            unit_mode=self.options.unit_mode,
        )

    def members_changed(self) -> None:
        # A member that came or went may have sent another subscription, and brokers use the newest: send ours again. Pulls that they answer
        # before it is there are refused, or asked again. (Java does it after a rebalance: RebalancePushImpl.messageQueueChanged.)
        now_ms = self.member.clock.now_ms()
        for topic, subscription in self.subscriptions.items():
            self.subscriptions[topic] = renewed(subscription, now_ms)
        if not self.stopping and not self._announces_later:
            # Each heartbeat of members whose topics differ changes the group's, of which the broker notifies all of them again.
            recent, now_ms = self._announced_ms, self.member.clock.steady_ms()
            self._announces_later = len(recent) == _AT_ONCE and now_ms - recent[0] < _AT_ONCE * _PACE_MS
            self._keep(self._announce_later if self._announces_later else self._announce_now)

    async def _announce_later(self) -> None:
        await self.member.clock.sleep(_PACE_MS)
        self._announces_later = False
        await self._announce_now()

    async def _announce_now(self) -> None:
        self._announced_ms.append(self.member.clock.steady_ms())
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
        instance, group = self.instance, self._settings.group
        if not instance.api.behind_proxy or retry_schedule.retry_topic(group) not in self.subscriptions:
            return

        async def make(broker_name: str, address: str) -> None:
            try:
                if await instance.api.make_retry_topic(address, broker_name, group):
                    self._has_retry_topic.add(broker_name)
            except (NetworkError, RequestTimeout) as error:
                log.info("group %s: broker %s did not make its retry topic: %s", group, broker_name, error)

        masters = {name: instance.routes.broker_address(name) for name in instance.routes.table.brokers()}
        new = {name: address for name, address in masters.items() if address and name not in self._has_retry_topic}
        await asyncio.gather(*map(make, new.keys(), new.values()))

    def queue_snapshots(self) -> dict[MessageQueue, QueueSnapshot]:
        """Copies of the process queues, for other threads: the process queues themselves belong to the loop."""
        self.service.record_ended()
        return {queue: process_queue.snapshot() for queue, process_queue in self.rebalancer.table.active().items()}

    async def persist_offsets(self) -> None:
        self.service.record_ended()
        self.rebalancer.forget_progress_of_others()
        await self.member.offset_store.persist_all(self.rebalancer.kept())

    async def serve(self, command: Command) -> Command:
        return await self.requests.serve(command)

    # -- between the parts -----------------------------------------------------------------------------------------------------

    async def announce(self) -> None:
        """Send the subscriptions to the brokers. Pulls that were refused before go again, and those that a broker holds with another filter
        end."""
        await self.instance.heartbeats.send_to_all()
        for loop in self._loops.values():
            loop.subscription_announced()
        async with self._confirming:
            await self._confirm()

    async def _confirm(self) -> None:
        """Ask the brokers by whose subscription they filter. They use the one with the highest version of any member, also of one that has
        left, so that another's may be in force: a clock was ahead, or both versions have the same millisecond. Until all brokers have ours,
        pulls carry it. (Not always: brokers would not check whether the group may read the topic.)"""
        group, api, settings = self._settings.group, self.instance.api, self._settings
        if api.behind_proxy or settings.post_subscription_when_pull or self.rebalancer.fixed is not None:
            return
        ours = {
            topic: subscription
            for topic, subscription in self.subscriptions.items()
            if topic in self.unconfirmed and not retry_schedule.is_retry_topic(topic)
        }
        self.unconfirmed.intersection_update(ours)
        unlike: dict[str, str] = {}

        async def ask(address_and_topic: tuple[str, str]) -> None:
            address, topic = address_and_topic
            try:
                found = await api.group_subscription(address, group, topic)
            except RemoteError as error:  # in 5.x it takes the permission GET, and consumers may have only SUB
                self._tell_no_subscription.add(address)
                log.debug("group %s: %s does not tell by which subscription it filters: %s", group, address, error)
                return
            except (NetworkError, RequestTimeout) as error:
                unlike[topic] = f"{address} did not answer: {error}"
                return
            if found is None or not same_subscription(found, ours[topic]):
                unlike[topic] = f"{address} has {'none' if found is None else repr(found.sub_string)}"
                if found is not None:
                    api.outages.failed(
                        f"filter of {group} for {topic}",
                        None,
                        "group %s: another member subscribes to %s by %r, this one by %r; the group loses messages that the "
                        "member which reads their queue does not subscribe to: let all members subscribe alike",
                        group, topic, found.sub_string, ours[topic].sub_string,
                    )  # fmt: skip

        brokers = [one for one in self.instance.heartbeats.reached() if one not in self._tell_no_subscription]
        await for_each([(address, topic) for address in brokers for topic in ours], ask, _QUESTIONS_AT_ONCE)
        for topic, subscription in ours.items():
            if topic in unlike:
                log.debug("group %s: pulls of %s carry their filter: %s", group, topic, unlike[topic])
            elif self.subscriptions.get(topic) is subscription:  # else it changed meanwhile, and is announced again
                self.unconfirmed.discard(topic)

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
        settings = self._settings
        if settings.consume_thread_max is None:
            return
        waiting = sum(process_queue.broker_backlog for process_queue in self._loops)
        threshold, before = settings.adjust_thread_pool_nums_threshold, self._workers
        if waiting >= threshold:
            self._workers = min(self._workers + 1, max(settings.consume_thread_max, self._least_workers))
        elif waiting < threshold * 0.8:  # Java's margin (DefaultMQPushConsumerImpl.adjustThreadPool)
            self._workers = max(self._workers - 1, self._least_workers)
        if self._workers != before:
            log.info("group %s: %d messages wait, %d listener calls at once", self.member.name, waiting, self._workers)
            self.service.resize(self._workers)

    def wake(self) -> None:
        for loop in self._loops.values():
            loop.wake()

    def start_loop(self, process_queue: ProcessQueue, offset: int) -> None:
        if self.stopping:
            return
        settings = self._settings
        cursor = self.member.recorded(PullCursor)(
            process_queue,
            offset,
            orderly=self.service.orderly and settings.clustering,
            limits=self._limits,
            pull_interval_ms=settings.pull_interval_ms,
            exception_delay_ms=settings.pull_time_delay_when_exception_ms,
        )
        loop = PullLoop(self, cursor)
        self._loops[process_queue] = loop
        if self.watcher is not None:
            self.watcher.queue_added(process_queue, offset)
        loop.start()

    def loop_ended(self, process_queue: ProcessQueue) -> None:
        self._loops.pop(process_queue, None)

    def pull_state(self, queue: MessageQueue) -> PullDue:
        subscribed, watcher = queue.topic in self.subscriptions, self.watcher
        if watcher is None:
            return PullDue(running=not self.stopping, paused=self.paused, subscribed=subscribed)
        return PullDue(not self.stopping, self.paused or watcher.paused(queue), subscribed, watcher.full())

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
        stays: computing the end of the queue a second time would skip messages that arrived in between."""
        stored = await self.member.offset_store.read(queue)
        if stored >= -1:
            for loop in self._loops.values():
                if loop.queue == queue:
                    return stored if stored >= 0 else loop.cursor.own_offset
        return -1

    def correct_offset(self, process_queue: ProcessQueue, offset: int) -> None:
        if self.watcher is not None:
            self.watcher.skipped(process_queue, offset)
        elif process_queue.queue is not None:
            self.member.offset_store.progress.update(process_queue.queue, offset)

    def offset_illegal(self, queue: MessageQueue, offset: int) -> None:
        async def drop_then_take_up_again() -> None:
            await self.rebalancer.drop_at(queue, offset)
            self.instance.rebalance_soon()

        self._keep(drop_then_take_up_again)

    async def _lock_queue(self, process_queue: ProcessQueue) -> bool:
        return await self.rebalancer.lock_one(process_queue)

    def locked_again(self, process_queue: ProcessQueue) -> None:
        loop = self._loops.get(process_queue)
        if loop is not None:
            loop.locked_again()

    def _settled(self, process_queue: ProcessQueue) -> None:
        loop = self._loops.get(process_queue)
        if loop is not None:
            loop.settled()

    def queues_changed(self, topic: str) -> None:
        self._share_limits()
        if self.watcher is not None:
            self.watcher.changed(topic)

    def _share_limits(self) -> None:
        limits = flow_control.per_queue_limits(self._settings.flow_limits, len(self._loops))
        if limits != self._limits:  # mostly they do not depend on the number of queues
            self._limits = limits
            for loop in self._loops.values():
                loop.cursor.limits = limits
