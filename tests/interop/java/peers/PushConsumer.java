// SPDX-License-Identifier: Apache-2.0
package peers;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Concurrent consumption; one "message" line per delivery, with "outcome" ok or retry. Ends after --count outcomes of ok (0: never),
 * or when its standard input ends.
 *
 * --group --topic --tags EXPRESSION | --sql EXPRESSION   --fail K: the first K deliveries of each message fail
 * --delay-level: what a failure asks for (0: the broker decides)   --broadcast true   --max-reconsume N   --from ConsumeFromWhere
 * --hold-ms N: a call of the listener takes so long
 * --reply TEXT: answer each message, as the far side of Producer --mode request
 */
public final class PushConsumer {
    private PushConsumer() {
    }

    public static void main(String[] args) throws Exception {
        Line.endAtFailure();
        Arguments arguments = new Arguments(args);
        DefaultMQPushConsumer consumer = Consumers.configured(arguments);
        int count = arguments.number("count", 0);
        CountDownLatch end = new CountDownLatch(Math.max(1, count));
        DefaultMQProducer replier = arguments.text("reply", "").isEmpty() ? null : startedReplier(arguments);
        int fail = arguments.number("fail", 0);
        int delayLevel = arguments.number("delay-level", 0);
        int holdMs = arguments.number("hold-ms", 0);
        Map<String, Integer> deliveries = new ConcurrentHashMap<>();

        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean retry = false;
            Consumers.hold(end, holdMs);
            for (MessageExt message : messages) {
                int delivery = deliveries.merge(message.getMsgId(), 1, Integer::sum);
                retry |= delivery <= fail;
                new Line("message").with(message).with("delivery", delivery).with("outcome", delivery <= fail ? "retry" : "ok").print();
                if (replier != null) {
                    answer(replier, message, arguments.text("reply", ""));
                }
            }
            return retry ? later(context, delayLevel) : done(end, count, messages.size());
        });
        Line.releaseAtEndOfInput(end);
        Consumers.start(consumer);
        new Line("ready").print();
        end.await();
        consumer.shutdown();
        if (replier != null) {
            replier.shutdown();
        }
        new Line("done").print();
        Line.end(0);
    }

    private static ConsumeConcurrentlyStatus later(ConsumeConcurrentlyContext context, int delayLevel) {
        context.setDelayLevelWhenNextConsume(delayLevel);
        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
    }

    private static ConsumeConcurrentlyStatus done(CountDownLatch end, int count, int messages) {
        for (int i = 0; i < messages && count > 0; i++) {
            end.countDown();
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private static DefaultMQProducer startedReplier(Arguments arguments) throws Exception {
        DefaultMQProducer replier = new DefaultMQProducer(arguments.need("group") + "-replies", arguments.signature());
        replier.setNamesrvAddr(arguments.need("namesrv"));
        replier.setClientIP("127.0.0.1");
        replier.setInstanceName(Line.instance("interop-replier"));
        replier.start();
        return replier;
    }

    private static void answer(DefaultMQProducer replier, MessageExt message, String text) {
        try {
            Message reply = MessageUtil.createReplyMessage(message, text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
            replier.send(reply, 10_000);
        } catch (Exception failure) {
            new Line("failed").with("why", failure).print();
        }
    }
}
