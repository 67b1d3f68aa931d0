// SPDX-License-Identifier: Apache-2.0
package peers;

import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.function.IntConsumer;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * One JSON object per line of standard output, whole lines only, whatever thread writes them; and how a program ends. A program has a
 * process of its own, or shares one (see Host), which then loads this class once for each program.
 */
final class Line {
    // Not System.out: RocketMQ's own start-up notes go there too.
    private static PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false);
    private static String prefix = "";
    private static CountDownLatch endOfInput;
    private static IntConsumer ended;
    private final StringBuilder text = new StringBuilder("{");

    Line(String event) {
        with("event", event);
    }

    Line with(String name, Object value) {
        if (text.length() > 1) {
            text.append(',');
        }
        quote(name);
        text.append(':');
        if (value == null) {
            text.append("null");
        } else if (value instanceof Number || value instanceof Boolean) {
            text.append(value);
        } else if (value instanceof Map) {
            text.append('{');
            boolean first = true;
            for (Map.Entry<?, ?> entry : new TreeMap<Object, Object>((Map<?, ?>) value).entrySet()) {
                if (!first) {
                    text.append(',');
                }
                first = false;
                quote(String.valueOf(entry.getKey()));
                text.append(':');
                quote(String.valueOf(entry.getValue()));
            }
            text.append('}');
        } else {
            quote(value.toString());
        }
        return this;
    }

    /** The fields of a message that was received, as a test wants to compare them. */
    Line with(MessageExt message) {
        return with("topic", message.getTopic())
            .with("msgId", message.getMsgId())
            .with("brokerName", message.getBrokerName())
            .with("queueId", message.getQueueId())
            .with("queueOffset", message.getQueueOffset())
            .with("commitLogOffset", message.getCommitLogOffset())
            .with("reconsumeTimes", message.getReconsumeTimes())
            .with("sysFlag", message.getSysFlag())
            .with("flag", message.getFlag())
            .with("bornTimestamp", message.getBornTimestamp())
            .with("storeTimestamp", message.getStoreTimestamp())
            .with("bornHost", String.valueOf(message.getBornHost()))
            .with("storeHost", String.valueOf(message.getStoreHost()))
            .with("tags", message.getTags())
            .with("keys", message.getKeys())
            .with("properties", message.getProperties())
            .with("body", new String(message.getBody(), StandardCharsets.UTF_8));
    }

    void print() {
        byte[] bytes = (prefix + text.append("}\n")).getBytes(StandardCharsets.UTF_8);
        synchronized (out) {
            out.write(bytes, 0, bytes.length);
            out.flush();
        }
    }

    /** This program shares its process: its lines begin with `prefix`, its input ends with the latch, its end is told to `whenEnded`. */
    static void share(String linePrefix, PrintStream shared, CountDownLatch input, IntConsumer whenEnded) {
        prefix = linePrefix;
        out = shared;
        endOfInput = input;
        ended = whenEnded;
    }

    /** A client's instance name: programs that share a process must not share a client, which would speak to one name server for all. */
    static String instance(String name) {
        return ended == null ? name : name + "-" + prefix.trim();
    }

    /** Ends the program, not the process that it shares. */
    static void end(int code) {
        if (ended == null) {
            Runtime.getRuntime().halt(code);
        } else {
            ended.accept(code);
        }
    }

    /** The main thread's first exception ends the program: RocketMQ's threads would keep it alive with nobody to hear from it. */
    static void endAtFailure() {
        Thread.currentThread().setUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            new Line("failed").with("why", failure).print();
            end(1);
        });
    }

    /** Counts the latch down to zero when the parent closes our standard input. */
    static void releaseAtEndOfInput(CountDownLatch latch) {
        Thread watcher = new Thread(() -> {
            awaitEndOfInput();
            while (latch.getCount() > 0) {
                latch.countDown();
            }
        }, "end-of-input");
        watcher.setDaemon(true);
        watcher.start();
    }

    private static void awaitEndOfInput() {
        try {
            if (endOfInput != null) {
                endOfInput.await();
            } else {
                while (System.in.read() >= 0) {
                    // only the end matters
                }
            }
        } catch (IOException | InterruptedException broken) {
            // a broken pipe is an end as well
        }
    }

    private void quote(String value) {
        text.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < 0x20 || c == 0x7f || Character.isSurrogate(c)) {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        text.append('"');
    }
}
