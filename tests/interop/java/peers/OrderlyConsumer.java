// SPDX-License-Identifier: Apache-2.0
package peers;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Consumption in order; one "message" line per delivery, numbered within its queue by "sequence". Ends after --count messages that
 * were consumed (0: never), or when its standard input ends.
 *
 * --group --topic --tags --from --max-reconsume --hold-ms as in PushConsumer   --fail K: the first K deliveries of each message suspend the queue
 */
public final class OrderlyConsumer {
    private OrderlyConsumer() {
    }

    public static void main(String[] args) throws Exception {
        Line.endAtFailure();
        Arguments arguments = new Arguments(args);
        DefaultMQPushConsumer consumer = Consumers.configured(arguments);
        int count = arguments.number("count", 0);
        CountDownLatch end = new CountDownLatch(Math.max(1, count));
        int fail = arguments.number("fail", 0);
        consumer.setSuspendCurrentQueueTimeMillis(arguments.number("suspend-ms", 100));
        Map<String, Integer> deliveries = new ConcurrentHashMap<>();
        Map<Integer, Integer> sequences = new ConcurrentHashMap<>();
        int holdMs = arguments.number("hold-ms", 0);

        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            boolean retry = false;
            Consumers.hold(end, holdMs);
            for (MessageExt message : messages) {
                int delivery = deliveries.merge(message.getMsgId(), 1, Integer::sum);
                retry |= delivery <= fail;
                new Line("message").with(message)
                    .with("sequence", sequences.merge(message.getQueueId(), 1, Integer::sum))
                    .with("delivery", delivery)
                    .with("outcome", delivery <= fail ? "retry" : "ok")
                    .print();
            }
            if (retry) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            for (int i = 0; i < messages.size() && count > 0; i++) {
                end.countDown();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        Line.releaseAtEndOfInput(end);
        Consumers.start(consumer);
        new Line("ready").print();
        end.await();
        consumer.shutdown();
        new Line("done").print();
        Line.end(0);
    }
}
