package peers;

import java.lang.reflect.Method;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** What PushConsumer and OrderlyConsumer have in common: a configured, not yet started consumer. */
final class Consumers {
    private Consumers() {
    }

    static DefaultMQPushConsumer configured(Arguments arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.need("group"));
        consumer.setNamesrvAddr(arguments.need("namesrv"));
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName(arguments.text("instance", "interop-" + arguments.need("group")));
        consumer.setConsumeFromWhere(
            ConsumeFromWhere.valueOf(arguments.text("from", "CONSUME_FROM_FIRST_OFFSET")));
        consumer.setMaxReconsumeTimes(arguments.number("max-reconsume", -1));
        consumer.setConsumeMessageBatchMaxSize(arguments.number("batch", 1));
        consumer.setPersistConsumerOffsetInterval(arguments.number("persist-ms", 1000));
        consumer.setHeartbeatBrokerInterval(arguments.number("heartbeat-ms", 30_000));
        if (arguments.flag("broadcast")) {
            becomeBroadcasting(consumer);
        }
        String sql = arguments.text("sql", "");
        if (sql.isEmpty()) {
            consumer.subscribe(arguments.need("topic"), arguments.text("tags", "*"));
        } else {
            consumer.subscribe(arguments.need("topic"), MessageSelector.bySql(sql));
        }
        return consumer;
    }

    /** MessageModel lives in another package in 4.9 than in 5.x, so it is not named here. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void becomeBroadcasting(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : consumer.getClass().getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class<?> model = method.getParameterTypes()[0];
                method.invoke(consumer, Enum.valueOf((Class<Enum>) model, "BROADCASTING"));
                return;
            }
        }
        throw new NoSuchMethodException("setMessageModel");
    }
}
