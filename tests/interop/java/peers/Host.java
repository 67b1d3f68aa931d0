// SPDX-License-Identifier: Apache-2.0
package peers;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.function.IntConsumer;

/**
 * Many programs in one process, each as if it were alone: RocketMQ's classes are shared and warm, the classes of this package are loaded
 * anew for each. A line of standard input is "run ID PROGRAM ARGUMENTS..." or "close ID" (its input ends), the words separated by tabs;
 * a line of standard output is "ID LINE", or "ID !CODE" when the program has ended. Ends with its input.
 */
public final class Host {
    // Not System.out: RocketMQ's own notes go there, and here belong to nobody.
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false);
    private static final Map<String, CountDownLatch> INPUTS = new ConcurrentHashMap<>();

    private Host() {
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        Brisk.watch();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String command;
        while ((command = commands.readLine()) != null) {
            String[] words = command.split("\t", -1);
            if (words[0].equals("run")) {
                CountDownLatch input = new CountDownLatch(1);
                INPUTS.put(words[1], input);
                new Thread(() -> run(words, input), "program-" + words[1]).start();
            } else if (INPUTS.containsKey(words[1])) {
                INPUTS.get(words[1]).countDown();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String[] words, CountDownLatch input) {
        try {
            ClassLoader apart = new Apart();
            Thread.currentThread().setContextClassLoader(apart);
            Method share = apart.loadClass("peers.Line")
                .getDeclaredMethod("share", String.class, PrintStream.class, CountDownLatch.class, IntConsumer.class);
            share.setAccessible(true);
            share.invoke(null, words[1] + "\t", OUT, input, (IntConsumer) code -> ended(words[1], code));
            String[] arguments = Arrays.copyOfRange(words, 3, words.length);
            apart.loadClass("peers." + words[2]).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failed) {
            Thread self = Thread.currentThread();
            self.getUncaughtExceptionHandler().uncaughtException(self, failed.getCause());
        } catch (ReflectiveOperationException broken) {
            broken.printStackTrace();
            ended(words[1], 1);
        }
    }

    private static void ended(String id, int code) {
        CountDownLatch input = INPUTS.remove(id);
        if (input == null) {
            return;
        }
        input.countDown();
        byte[] bytes = (id + "\t!" + code + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (OUT) {
            OUT.write(bytes, 0, bytes.length);
            OUT.flush();
        }
    }

    /** Loads the classes of this package itself, everything else as its parent does. */
    private static final class Apart extends ClassLoader {
        Apart() {
            super(Host.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("peers.")) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                return loaded == null ? define(name) : loaded;
            }
        }

        private Class<?> define(String name) throws ClassNotFoundException {
            try (InputStream file = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
                byte[] bytes = file.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (IOException broken) {
                throw new ClassNotFoundException(name, broken);
            }
        }
    }
}
