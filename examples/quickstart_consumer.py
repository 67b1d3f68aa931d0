"""Print what quickstart_producer.py sends, until Ctrl-C: NAMESRV_ADDR=127.0.0.1:9876 python examples/quickstart_consumer.py"""

import sprocketmq as rmq

consumer = rmq.PushConsumer("quickstart-consumers", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
consumer.subscribe("quickstart", "greeting")


@consumer.on_message
def handle(message: rmq.MessageExt) -> None:
    # Returning means done. Raising means: bring it again in 10 s, then 30 s, 1 min, ..., and after 16 tries to %DLQ%quickstart-consumers.
    print(message.body.decode(), message.tags, message.keys, f"try {message.reconsume_times + 1}", flush=True)


consumer.run_forever()
