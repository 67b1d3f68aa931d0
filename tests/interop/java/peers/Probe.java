// SPDX-License-Identifier: Apache-2.0
package peers;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The questions a client can ask, each once, over a --topic that holds messages: routes, offsets, pulls (found, no new, no match,
 * illegal offset), progress, a message by id and by key, send-back. One "answer" line each, so that a broker can be compared with another.
 */
public final class Probe {
    private final Arguments arguments;
    private final DefaultMQPullConsumer consumer;

    private Probe(Arguments arguments) {
        this.arguments = arguments;
        consumer = new DefaultMQPullConsumer(arguments.text("group", "interop-probe"));
        consumer.setNamesrvAddr(arguments.need("namesrv"));
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName(Line.instance("interop-probe"));
    }

    public static void main(String[] args) throws Exception {
        Line.endAtFailure();
        Probe self = new Probe(new Arguments(args));
        self.consumer.start();
        new Line("ready").print();
        try {
            self.run();
        } finally {
            self.consumer.shutdown();
        }
        new Line("done").print();
        Line.end(0);
    }

    private void run() throws Exception {
        String topic = arguments.need("topic");
        List<MessageQueue> queues = new ArrayList<>(consumer.fetchSubscribeMessageQueues(topic));
        queues.sort(Comparator.naturalOrder());
        new Line("answer").with("asked", "queues").with("count", queues.size()).print();
        MessageExt found = null;
        for (MessageQueue queue : queues) {
            offsets(queue);
            if (found == null && consumer.maxOffset(queue) > consumer.minOffset(queue)) {
                found = pulls(queue);
            }
        }
        if (found == null) {
            throw new IllegalStateException("topic " + topic + " holds no message");
        }
        lookUp(topic, found);
        consumer.sendMessageBack(found, 1);
        new Line("answer").with("asked", "sendMessageBack").print();
    }

    private void offsets(MessageQueue queue) throws Exception {
        new Line("answer").with("asked", "offsets")
            .with("queueId", queue.getQueueId())
            .with("max", consumer.maxOffset(queue))
            .with("min", consumer.minOffset(queue))
            .with("atTimeZero", consumer.searchOffset(queue, 0))
            .with("atNow", consumer.searchOffset(queue, System.currentTimeMillis() + 1000))
            .with("earliest", consumer.earliestMsgStoreTime(queue))
            .with("progress", consumer.fetchConsumeOffset(queue, true))
            .print();
    }

    private MessageExt pulls(MessageQueue queue) throws Exception {
        long min = consumer.minOffset(queue);
        long max = consumer.maxOffset(queue);
        PullResult found = pull("found", queue, "*", min);
        pull("noNew", queue, "*", max);
        pull("noMatch", queue, "no-such-tag", min);
        pull("beyond", queue, "*", max + 1000);
        // More than one character wide tags: the text of the expression travels in the request.
        pull("byTag", queue, "A || B", min);
        consumer.updateConsumeOffset(queue, min + 1);
        consumer.getOffsetStore().persist(queue);
        consumer.getOffsetStore().updateConsumeOffsetToBroker(queue, min + 1, true);
        new Line("answer").with("asked", "progress").with("offset", consumer.fetchConsumeOffset(queue, true)).print();
        return found.getMsgFoundList().get(0);
    }

    private PullResult pull(String what, MessageQueue queue, String expression, long offset) throws Exception {
        PullResult result = consumer.pull(queue, expression, offset, 32);
        int messages = result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
        new Line("answer").with("asked", "pull").with("what", what)
            .with("status", result.getPullStatus())
            .with("next", result.getNextBeginOffset())
            .with("min", result.getMinOffset())
            .with("max", result.getMaxOffset())
            .with("messages", messages)
            .print();
        for (int i = 0; i < messages; i++) {
            new Line("message").with(result.getMsgFoundList().get(i)).print();
        }
        return result;
    }

    private void lookUp(String topic, MessageExt found) throws Exception {
        MessageExt seen = consumer.viewMessage(topic, offsetMessageId(found));
        new Line("answer").with("asked", "viewMessage").with("body", new String(seen.getBody(), StandardCharsets.UTF_8)).print();
        QueryResult byKey = consumer.queryMessage(topic, found.getKeys(), 32, 0, Long.MAX_VALUE);
        new Line("answer").with("asked", "queryMessage").with("messages", byKey.getMessageList().size()).print();
        MessageExt byUniqueKey = consumer.viewMessage(topic, found.getMsgId());
        new Line("answer").with("asked", "viewUniqueKey").with("offset", byUniqueKey.getCommitLogOffset()).print();
    }

    private static String offsetMessageId(MessageExt message) {
        // MessageClientExt answers the client's id from getMsgId and the store's id from getOffsetMsgId; only the class differs.
        return ((org.apache.rocketmq.common.message.MessageClientExt) message).getOffsetMsgId();
    }
}
