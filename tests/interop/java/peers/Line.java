package peers;

import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.common.message.MessageExt;

/** One JSON object per line of standard output, whole lines only, whatever thread writes them. */
final class Line {
    // Not System.out: RocketMQ's own start-up notes go there too.
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false);
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
        byte[] bytes = text.append("}\n").toString().getBytes(StandardCharsets.UTF_8);
        synchronized (OUT) {
            OUT.write(bytes, 0, bytes.length);
            OUT.flush();
        }
    }

    /** The main thread's first exception ends the program: RocketMQ's threads would keep it alive with nobody to hear from it. */
    static void endAtFailure() {
        Thread.currentThread().setUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            new Line("failed").with("why", failure).print();
            Runtime.getRuntime().halt(1);
        });
    }

    /** Counts the latch down to zero when the parent closes our standard input. */
    static void releaseAtEndOfInput(CountDownLatch latch) {
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // only the end matters
                }
            } catch (IOException broken) {
                // a broken pipe is an end as well
            }
            while (latch.getCount() > 0) {
                latch.countDown();
            }
        }, "end-of-input");
        watcher.setDaemon(true);
        watcher.start();
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
