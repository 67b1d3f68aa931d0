// SPDX-License-Identifier: Apache-2.0
package peers;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * What Apache's own SQL92 filter says. --cases names a file with one case per line: the expression and the raw properties, both in
 * Base64, a blank between. One "answers" line: a letter per case, R refused by the parser, T the message matches, F it does not.
 */
public final class FilterOracle {
    private FilterOracle() {
    }

    public static void main(String[] args) throws Exception {
        Line.endAtFailure();
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Paths.get(new Arguments(args).need("cases")))) {
            String[] parts = line.split(" ", 2);
            answers.append(answer(text(parts[0]), text(parts[1])));
        }
        new Line("answers").with("letters", answers).print();
        Line.end(0);
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    private static char answer(String sql, String rawProperties) {
        Expression compiled;
        try {
            compiled = FilterFactory.INSTANCE.get("SQL92").compile(sql);
        } catch (Throwable refused) {
            return 'R';
        }
        try {
            Object value = compiled.evaluate(new Properties(MessageDecoder.string2messageProperties(rawProperties)));
            return Boolean.TRUE.equals(value) ? 'T' : 'F';
        } catch (Throwable failed) {
            return 'F'; // as ExpressionMessageFilter: logged, not matched
        }
    }

    private static final class Properties implements EvaluationContext {
        private final Map<String, String> properties;

        Properties(Map<String, String> properties) {
            this.properties = properties;
        }

        @Override
        public Object get(String name) {
            return properties.get(name);
        }

        @Override
        public Map<String, Object> keyValues() {
            return new HashMap<>(properties);
        }
    }
}
