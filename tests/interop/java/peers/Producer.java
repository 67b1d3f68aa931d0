// SPDX-License-Identifier: Apache-2.0
package peers;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends --count messages to --topic and prints a "sent" line for each (a batch: one for the whole).
 *
 * --mode     sync | async | oneway | batch | ordered | transaction | request
 *            ordered: queue by the hash of the key (the queue selector). transaction: message i commits, rolls back or stays unknown by
 *            i % 3; the check-back answers --check (commit, the default | rollback | unknown). request: request-reply, prints the answer.
 * --tags     tags given in turn, "A,B"       --body-bytes  pads each body to this many bytes
 * --deliver-after-ms  as a timer message of 5.x; --recall N takes message N back after all are sent and prints "recalled"
 * --compress-type ZLIB | LZ4 | ZSTD (5.x)   --auto-batch  with --mode async (5.x)   --wait false: no answer has to wait for the disk
 * --delay-level, --batch-size, --compress-over, --keys (number of different keys), --group, --instance, --trace (message trace)
 */
public final class Producer {
    private final Arguments arguments;
    private final DefaultMQProducer producer;
    private final CountDownLatch unanswered;
    private String recallHandle;

    private Producer(Arguments arguments) {
        this.arguments = arguments;
        String group = arguments.text("group", "interop-producers");
        if (mode().equals("transaction")) {
            TransactionMQProducer transactional = new TransactionMQProducer(group, arguments.signature());
            transactional.setTransactionListener(new ByNumber(arguments.text("check", "commit")));
            producer = transactional;
        } else {
            producer = new DefaultMQProducer(group, arguments.signature(), arguments.flag("trace"), null);
        }
        producer.setNamesrvAddr(arguments.need("namesrv"));
        producer.setClientIP("127.0.0.1");
        producer.setInstanceName(Line.instance(arguments.text("instance", "interop-producer")));
        producer.setCompressMsgBodyOverHowmuch(arguments.number("compress-over", 4096));
        producer.setSendMsgTimeout(10_000);
        if (arguments.text("compress-type", null) != null) {
            compressBy(arguments.need("compress-type"));
        }
        if (arguments.flag("auto-batch")) {
            batchByItself();
        }
        unanswered = new CountDownLatch(mode().equals("async") ? count() : 0);
    }

    public static void main(String[] args) throws Exception {
        Line.endAtFailure();
        Producer self = new Producer(new Arguments(args));
        self.producer.start();
        new Line("ready").print();
        try {
            self.run();
            if (self.arguments.flag("stay")) {
                CountDownLatch end = new CountDownLatch(1);
                Line.releaseAtEndOfInput(end);
                end.await();
            }
        } finally {
            self.producer.shutdown();
        }
        new Line("done").print();
        Line.end(0);
    }

    /** Clients of 4.9 know zlib alone, and this file is compiled against both. */
    private void compressBy(String name) {
        try {
            Class<?> types = Class.forName("org.apache.rocketmq.common.compression.CompressionType");
            Object type = types.getMethod("of", String.class).invoke(null, name);
            producer.getClass().getMethod("setCompressType", types).invoke(producer, type);
        } catch (ReflectiveOperationException failure) {
            throw new IllegalArgumentException("--compress-type " + name, failure);
        }
    }

    /** As for compressBy: clients of 4.9 cannot. */
    private void batchByItself() {
        try {
            producer.getClass().getMethod("setAutoBatch", boolean.class).invoke(producer, true);
        } catch (ReflectiveOperationException failure) {
            throw new IllegalArgumentException("--auto-batch", failure);
        }
    }

    private String mode() {
        return arguments.text("mode", "sync");
    }

    private int count() {
        return arguments.number("count", 1);
    }

    private void run() throws Exception {
        if (mode().equals("batch")) {
            int size = arguments.number("batch-size", 10);
            for (int first = 0; first < count(); first += size) {
                List<Message> batch = new ArrayList<>();
                for (int i = first; i < Math.min(count(), first + size); i++) {
                    batch.add(message(i));
                }
                print(first, batch.get(0), producer.send(batch));
            }
            return;
        }
        for (int i = 0; i < count(); i++) {
            send(i, message(i));
        }
        unanswered.await();
        if (recallHandle != null) {
            // Clients of 4.9 know nothing of it, and this file is compiled against both.
            Object id = producer.getClass().getMethod("recallMessage", String.class, String.class)
                .invoke(producer, arguments.need("topic"), recallHandle);
            new Line("recalled").with("msgId", id).print();
        }
    }

    private void send(int i, Message message) throws Exception {
        switch (mode()) {
            case "sync":
                SendResult result = producer.send(message);
                print(i, message, result);
                if (i == arguments.number("recall", -1)) {
                    recallHandle = (String) result.getClass().getMethod("getRecallHandle").invoke(result);
                }
                break;
            case "ordered":
                print(i, message, producer.send(message, new SelectMessageQueueByHash(), message.getKeys()));
                break;
            case "oneway":
                producer.sendOneway(message);
                new Line("sent").with("number", i).print();
                break;
            case "async":
                producer.send(message, new Printing(i, message));
                break;
            case "transaction":
                print(i, message, producer.sendMessageInTransaction(message, i));
                break;
            case "request":
                Message answer = producer.request(message, 10_000);
                new Line("answer").with("number", i).with("body", new String(answer.getBody(), StandardCharsets.UTF_8)).print();
                break;
            default:
                throw new IllegalArgumentException("--mode " + mode());
        }
    }

    private Message message(int i) {
        String[] tags = arguments.text("tags", "").split(",");
        StringBuilder body = new StringBuilder("number " + i);
        while (body.length() < arguments.number("body-bytes", 0)) {
            body.append(" .");
        }
        Message message = new Message(arguments.need("topic"), tags[i % tags.length],
            "key-" + i % arguments.number("keys", 8), body.toString().getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("number", Integer.toString(i));
        message.setFlag(i);
        message.setWaitStoreMsgOK(Boolean.parseBoolean(arguments.text("wait", "true")));
        if (arguments.number("deliver-after-ms", 0) > 0) {
            long moment = System.currentTimeMillis() + arguments.number("deliver-after-ms", 0);
            MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", Long.toString(moment));
        }
        if (arguments.number("delay-level", 0) > 0) {
            message.setDelayTimeLevel(arguments.number("delay-level", 0));
        }
        return message;
    }

    private static void print(int i, Message message, SendResult result) {
        new Line("sent").with("number", i)
            .with("status", result.getSendStatus())
            .with("msgId", result.getMsgId())
            .with("offsetMsgId", result.getOffsetMsgId())
            .with("brokerName", result.getMessageQueue().getBrokerName())
            .with("queueId", result.getMessageQueue().getQueueId())
            .with("queueOffset", result.getQueueOffset())
            .with("transactionId", result.getTransactionId())
            .with("tags", message.getTags())
            .with("keys", message.getKeys())
            .print();
    }

    private final class Printing implements SendCallback {
        private final int number;
        private final Message message;

        Printing(int number, Message message) {
            this.number = number;
            this.message = message;
        }

        @Override
        public void onSuccess(SendResult result) {
            print(number, message, result);
            unanswered.countDown();
        }

        @Override
        public void onException(Throwable failure) {
            new Line("failed").with("number", number).with("why", failure).print();
            unanswered.countDown();
        }
    }

    private static final class ByNumber implements TransactionListener {
        private final LocalTransactionState whenChecked;

        ByNumber(String check) {
            switch (check) {
                case "commit":
                    whenChecked = LocalTransactionState.COMMIT_MESSAGE;
                    break;
                case "rollback":
                    whenChecked = LocalTransactionState.ROLLBACK_MESSAGE;
                    break;
                default:
                    whenChecked = LocalTransactionState.UNKNOW;
            }
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object number) {
            switch ((Integer) number % 3) {
                case 0:
                    return LocalTransactionState.COMMIT_MESSAGE;
                case 1:
                    return LocalTransactionState.ROLLBACK_MESSAGE;
                default:
                    return LocalTransactionState.UNKNOW;
            }
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            new Line("checked").with(message).print();
            return whenChecked;
        }
    }
}
