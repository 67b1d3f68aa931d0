// SPDX-License-Identifier: Apache-2.0
package peers;

import java.lang.reflect.Method;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What PushConsumer and OrderlyConsumer have in common: a configured, not yet started consumer. Each rebalance prints an "allocated" line
 * with the queue ids that this member gets, "0,1,2"; --only-queue N leaves out all others, --most-cached N is pullThresholdForQueue.
 */
final class Consumers {
    private Consumers() {
    }

    static DefaultMQPushConsumer configured(Arguments arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            arguments.need("group"), arguments.signature(), new AllocateMessageQueueAveragely(), arguments.flag("trace"), null);
        consumer.setNamesrvAddr(arguments.need("namesrv"));
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName(Line.instance(arguments.text("instance", "interop-" + arguments.need("group"))));
        consumer.setConsumeFromWhere(
            ConsumeFromWhere.valueOf(arguments.text("from", "CONSUME_FROM_FIRST_OFFSET")));
        consumer.setMaxReconsumeTimes(arguments.number("max-reconsume", -1));
        consumer.setConsumeMessageBatchMaxSize(arguments.number("batch", 1));
        consumer.setPersistConsumerOffsetInterval(arguments.number("persist-ms", 1000));
        consumer.setHeartbeatBrokerInterval(arguments.number("heartbeat-ms", 30_000));
        consumer.setPollNameServerInterval(1000);  // not 30 s until a retry topic is found
        consumer.setPullThresholdForQueue(arguments.number("most-cached", 1000));
        consumer.setAllocateMessageQueueStrategy(new Announced(arguments.need("topic"), arguments.number("only-queue", -1)));
        // Otherwise shutdown leaves behind the progress of a listener that has counted its last message and not yet returned.
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);
        if (arguments.flag("broadcast")) {
            becomeBroadcasting(consumer);
        }
        String sql = arguments.text("sql", "");
        if (sql.isEmpty()) {
            consumer.subscribe(arguments.need("topic"), arguments.text("tags", "*"));
        } else {
            consumer.subscribe(arguments.need("topic"), MessageSelector.bySql(sql));
        }
        return consumer;
    }

    /** The listener takes so long, or until the program is to end. */
    static void hold(CountDownLatch end, int millis) {
        try {
            if (millis > 0) {
                end.await(millis, TimeUnit.MILLISECONDS);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Starts it, or leaves nothing of it behind: a consumer that was refused would go on announcing itself. */
    static void start(DefaultMQPushConsumer consumer) throws Exception {
        try {
            consumer.start();
        } catch (Exception refused) {
            consumer.shutdown();
            throw refused;
        }
    }

    /** MessageModel lives in another package in 4.9 than in 5.x, so it is not named here. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void becomeBroadcasting(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : consumer.getClass().getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class<?> model = method.getParameterTypes()[0];
                method.invoke(consumer, Enum.valueOf((Class<Enum>) model, "BROADCASTING"));
                return;
            }
        }
        throw new NoSuchMethodException("setMessageModel");
    }

    /** The default strategy, which says what it decided for one topic. */
    private static final class Announced extends AllocateMessageQueueAveragely {
        private final String topic;
        private final int only;

        Announced(String topic, int only) {
            this.topic = topic;
            this.only = only;
        }

        @Override
        public List<MessageQueue> allocate(String group, String clientId, List<MessageQueue> queues, List<String> clientIds) {
            List<MessageQueue> mine = super.allocate(group, clientId, queues, clientIds);
            if (!queues.isEmpty() && queues.get(0).getTopic().equals(topic)) {
                if (only >= 0) {
                    mine = mine.stream().filter(queue -> queue.getQueueId() == only).collect(Collectors.toList());
                }
                String ids = mine.stream().map(queue -> Integer.toString(queue.getQueueId())).collect(Collectors.joining(","));
                new Line("allocated").with("queues", ids).print();
            }
            return mine;
        }
    }
}
