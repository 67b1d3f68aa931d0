// SPDX-License-Identifier: Apache-2.0
package peers;

import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One load of bench/client_bench.py by Apache's own client; prints one "load" line: messages, seconds, p50_us, p99_us, cpu_us (of this
 * process, per message). What comes before --warm-up messages does not count: the JVM's compiler needs them.
 *
 * --load send-one | send-64 | push | orderly | idle (prints "ready", ends with its input)   --namesrv --topic --group
 * --messages N   --warm-up W   --body BYTES   --seconds LIMIT
 * --forms FILE   messages as bench/clients/message_forms.py drew them, in place of messages that are all alike
 */
public final class ClientLoad {
    private final Arguments arguments;
    private final int messages;
    private final int warmUp;
    private final long deadline;
    private final long[] latencies;
    private final String topic;
    private final List<String[]> forms;
    private final List<byte[]> bodies = new ArrayList<>();
    private int made;
    private long startedNanos;
    private long startedCpuNanos;

    private ClientLoad(Arguments arguments) throws Exception {
        this.arguments = arguments;
        messages = arguments.number("messages", 10_000);
        warmUp = arguments.number("warm-up", 0);
        deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(arguments.number("seconds", 120));
        latencies = new long[messages];
        topic = arguments.need("topic");
        forms = readForms(arguments);
        for (String[] form : forms) {
            bodies.add(form[0].getBytes(StandardCharsets.UTF_8));
        }
    }

    public static void main(String[] args) throws Exception {
        Line.endAtFailure();
        ClientLoad self = new ClientLoad(new Arguments(args));
        switch (self.arguments.need("load")) {
            case "send-one":
                self.sendOneAtATime();
                break;
            case "send-64":
                self.sendInFlight(64);
                break;
            case "idle":
                self.idle();
                break;
            default:
                self.consume();
        }
        Line.end(0);
    }

    private void sendOneAtATime() throws Exception {
        DefaultMQProducer producer = startedProducer();
        for (int i = 0; i < warmUp; i++) {
            producer.send(fresh());
        }
        begin();
        int done = 0;
        while (done < messages && System.nanoTime() < deadline) {
            long sent = System.nanoTime();
            producer.send(fresh());
            latencies[done++] = System.nanoTime() - sent;
        }
        print(done);
        producer.shutdown();
    }

    private void sendInFlight(int inFlight) throws Exception {
        DefaultMQProducer producer = startedProducer();
        producer.send(fresh());
        sendAll(producer, inFlight, warmUp, new long[warmUp]);
        begin();
        print(sendAll(producer, inFlight, messages, latencies));
        producer.shutdown();
    }

    private int sendAll(DefaultMQProducer producer, int inFlight, int count, long[] took) throws Exception {
        Semaphore free = new Semaphore(inFlight);
        AtomicInteger done = new AtomicInteger();
        for (int i = 0; i < count && System.nanoTime() < deadline; i++) {
            free.acquire();
            long sent = System.nanoTime();
            producer.send(fresh(), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    took[done.getAndIncrement()] = System.nanoTime() - sent;
                    free.release();
                }

                @Override
                public void onException(Throwable failure) {
                    new Line("failed").with("why", failure).print();
                    free.release();
                }
            });
        }
        free.acquire(inFlight);
        return done.get();
    }

    private void consume() throws Exception {
        DefaultMQPushConsumer consumer = consumer();
        AtomicInteger seen = new AtomicInteger();
        CountDownLatch end = new CountDownLatch(1);
        if (arguments.need("load").equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (batch, context) -> {
                for (MessageExt message : batch) {
                    count(seen, end);
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
                for (MessageExt message : batch) {
                    count(seen, end);
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        if (warmUp == 0) {
            begin();
        }
        consumer.start();
        end.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
        print(Math.min(messages, seen.get() - warmUp));
        consumer.shutdown();
    }

    private void count(AtomicInteger seen, CountDownLatch end) {
        int number = seen.incrementAndGet();
        if (number == warmUp) {
            begin();
        } else if (number == warmUp + messages) {
            end.countDown();
        }
    }

    private void idle() throws Exception {
        DefaultMQPushConsumer consumer = consumer();
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
        CountDownLatch end = new CountDownLatch(1);
        Line.releaseAtEndOfInput(end);
        consumer.start();
        new Line("ready").print();
        end.await();
        consumer.shutdown();
    }

    private DefaultMQPushConsumer consumer() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.need("group"));
        consumer.setNamesrvAddr(arguments.need("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments.need("topic"), "*");
        return consumer;
    }

    private DefaultMQProducer startedProducer() throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(arguments.need("group"));
        producer.setNamesrvAddr(arguments.need("namesrv"));
        // A machine that is busy with other things must not make a load of errors of it.
        producer.setSendMsgTimeout(30_000);
        producer.setMqClientApiTimeout(30_000);
        producer.start();
        return producer;
    }

    /** One line for each message: body, tags, keys, and properties as name=value with commas. */
    private static List<String[]> readForms(Arguments arguments) throws Exception {
        String path = arguments.text("forms", "");
        List<String[]> forms = new ArrayList<>();
        if (path.isEmpty()) {
            char[] body = new char[arguments.number("body", 1024)];
            Arrays.fill(body, 'x');
            forms.add(new String[] {new String(body), "TagA", "key", ""});
            return forms;
        }
        for (String line : Files.readAllLines(Paths.get(path), StandardCharsets.UTF_8)) {
            forms.add(line.split("\t", -1));
        }
        return forms;
    }

    /** A message carries its id from the first send on, so each send takes a new one. */
    private Message fresh() {
        int number = made++ % forms.size();
        String[] form = forms.get(number);
        Message message = new Message(topic, form[1], form[2], bodies.get(number));
        if (!form[3].isEmpty()) {
            for (String pair : form[3].split(",")) {
                int end = pair.indexOf('=');
                message.putUserProperty(pair.substring(0, end), pair.substring(end + 1));
            }
        }
        return message;
    }

    private void begin() {
        startedCpuNanos = cpuNanos();
        startedNanos = System.nanoTime();
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private void print(int done) {
        long nanos = System.nanoTime() - startedNanos;
        long cpuNanos = cpuNanos() - startedCpuNanos;
        long[] sorted = Arrays.copyOf(latencies, Math.max(done, 1));
        Arrays.sort(sorted);
        new Line("load").with("messages", done)
            .with("seconds", nanos / 1e9)
            .with("p50_us", sorted[sorted.length / 2] / 1e3)
            .with("p99_us", sorted[(int) (sorted.length * 0.99)] / 1e3)
            .with("cpu_us", cpuNanos / 1e3 / Math.max(done, 1))
            .print();
    }
}
