// SPDX-License-Identifier: Apache-2.0
package peers;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** Command line of the interop programs: `--name value` pairs, nothing else. An unknown name or a missing one stops the program. */
final class Arguments {
    private final Map<String, String> given = new HashMap<>();

    Arguments(String[] args) {
        for (int i = 0; i < args.length; i += 2) {
            if (!args[i].startsWith("--") || i + 1 == args.length) {
                throw new IllegalArgumentException("expected --name value, got " + args[i]);
            }
            given.put(args[i].substring(2), args[i + 1]);
        }
    }

    String need(String name) {
        String value = given.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    String text(String name, String otherwise) {
        return given.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return given.containsKey(name) ? Integer.parseInt(given.get(name)) : otherwise;
    }

    boolean flag(String name) {
        return Boolean.parseBoolean(given.getOrDefault(name, "false"));
    }

    /** What signs requests with --access-key and --secret-key; null without them. */
    RPCHook signature() {
        String accessKey = given.get("access-key");
        return accessKey == null ? null : new AclClientRPCHook(new SessionCredentials(accessKey, need("secret-key")));
    }
}
