// SPDX-License-Identifier: Apache-2.0
package peers;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Many mqadmin commands in one process: each line of standard input is one command, its words separated by tabs; what it printed comes
 * back as one "printed" line. The line "codes" is answered with the constants of RequestCode.
 */
public final class Mqadmin {
    private Mqadmin() {
    }

    public static void main(String[] args) throws Exception {
        Line.endAtFailure();
        stayAlive();
        Brisk.watch();
        new Line("ready").print();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String command;
        while ((command = commands.readLine()) != null) {
            if (command.equals("codes")) {
                new Line("codes").with("codes", codes()).print();
            } else {
                new Line("printed").with("text", printed(command.isEmpty() ? new String[0] : command.split("\t", -1))).print();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    /** A command that does not understand its options ends the process; here that becomes an exception in what it printed. */
    @SuppressWarnings({"deprecation", "removal"})
    private static void stayAlive() {
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkExit(int status) {
                throw new SecurityException("the command wanted to end the process with " + status);
            }

            @Override
            public void checkPermission(Permission permission) {
                // everything else is allowed
            }
        });
    }

    private static String printed(String[] command) {
        ByteArrayOutputStream caught = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        PrintStream both = new PrintStream(caught, true);
        System.setOut(both);
        System.setErr(both);
        try {
            System.clearProperty("rocketmq.namesrv.addr");
            forget();
            MQAdminStartup.main0(command, null);
        } catch (Throwable failure) {
            failure.printStackTrace(both);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        both.flush();
        return new String(caught.toByteArray(), StandardCharsets.UTF_8);
    }

    /** A command keeps the client of its first run; without this its second run would find it shut down. */
    private static void forget() throws Exception {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }

    private static Map<String, Integer> codes() throws Exception {
        Class<?> named;
        try {
            named = Class.forName("org.apache.rocketmq.remoting.protocol.RequestCode");
        } catch (ClassNotFoundException olderThan5) {
            named = Class.forName("org.apache.rocketmq.common.protocol.RequestCode");
        }
        Map<String, Integer> found = new TreeMap<>();
        for (Field field : named.getFields()) {
            if (Modifier.isStatic(field.getModifiers())) {
                found.put(field.getName(), ((Number) field.get(null)).intValue());
            }
        }
        return found;
    }
}
