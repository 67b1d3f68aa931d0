// SPDX-License-Identifier: Apache-2.0
package peers;

import java.util.Arrays;
import java.util.Map;

/**
 * Ends RocketMQ's processes and clients without a wait that nobody needs: at its end a 5.x client joins a thread that looks up from its
 * queue of connection events only every three seconds. While somebody waits for that thread, and it waits for its queue, it is woken up.
 *
 * As a main class it takes the name of another one and its arguments, and runs that.
 */
public final class Brisk {
    private static final long PAUSE_MS = 50;
    // A server ends once and runs for long, and each look stops all its threads.
    private static final long SERVER_PAUSE_MS = 500;

    private Brisk() {
    }

    public static void main(String[] args) throws Exception {
        watch(SERVER_PAUSE_MS);
        Class.forName(args[0]).getMethod("main", String[].class).invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
    }

    static void watch() {
        watch(PAUSE_MS);
    }

    private static void watch(long pauseMs) {
        Thread watcher = new Thread(() -> {
            while (true) {
                try {
                    Thread.sleep(pauseMs);
                } catch (InterruptedException ended) {
                    return;
                }
                Map<Thread, StackTraceElement[]> stacks = Thread.getAllStackTraces();
                if (stacks.values().stream().anyMatch(stack -> stands(stack, "ServiceThread", "shutdown"))) {
                    stacks.forEach((thread, stack) -> {
                        if (stands(stack, "NettyEventExecutor", "run") && stands(stack, "LinkedBlockingQueue", "poll")) {
                            thread.interrupt();
                        }
                    });
                }
            }
        }, "brisk");
        watcher.setDaemon(true);
        watcher.start();
    }

    private static boolean stands(StackTraceElement[] stack, String type, String method) {
        return Arrays.stream(stack).anyMatch(frame -> frame.getMethodName().equals(method) && frame.getClassName().endsWith(type));
    }
}
