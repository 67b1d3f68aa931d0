// SPDX-License-Identifier: Apache-2.0
package peers;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A member of a group whose history is recorded: "begin" and "end" around each message, with the queue, the offset and the time that all
 * processes of this machine share (System.nanoTime, CLOCK_MONOTONIC). The end is told before its result can become progress.
 *
 * --group --topic --instance as in PushConsumer   --orderly true   --work-ms: how long a message takes
 */
public final class GroupMember {
    private static int workMs;

    private GroupMember() {
    }

    public static void main(String[] args) throws Exception {
        Line.endAtFailure();
        Arguments arguments = new Arguments(args);
        DefaultMQPushConsumer consumer = Consumers.configured(arguments);
        workMs = arguments.number("work-ms", 2);
        if (arguments.flag("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                work(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                work(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        CountDownLatch end = new CountDownLatch(1);
        Line.releaseAtEndOfInput(end);
        Consumers.start(consumer);
        new Line("ready").print();
        end.await();
        consumer.shutdown();
        new Line("done").print();
        Line.end(0);
    }

    private static void work(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            tell("begin", message);
            try {
                Thread.sleep(workMs);
            } catch (InterruptedException stopped) {
                throw new IllegalStateException(stopped);
            }
            tell("end", message);
        }
    }

    private static void tell(String event, MessageExt message) {
        new Line(event).with("queueId", message.getQueueId())
            .with("offset", message.getQueueOffset())
            .with("body", new String(message.getBody(), StandardCharsets.UTF_8))
            .with("at", System.nanoTime())
            .print();
    }
}
