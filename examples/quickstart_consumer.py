# SPDX-License-Identifier: Apache-2.0
"""Print what quickstart_producer.py sends, until Ctrl-C: NAMESRV_ADDR=127.0.0.1:9876 python examples/quickstart_consumer.py"""

import logging
import sys

import sprocketmq as rmq

logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.WARNING)
log = logging.getLogger("quickstart")
log.setLevel(logging.INFO)

consumer = rmq.PushConsumer("quickstart-consumers", consume_from_where=rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
consumer.subscribe("quickstart", "greeting")


@consumer.on_message
def handle(message: rmq.MessageExt) -> None:
    # Returning means done. Raising means: bring it again in 10 s, then 30 s, 1 min, ..., and after 16 tries to %DLQ%quickstart-consumers.
    # Listeners run in several threads, hence a logger and not print.
    log.info("%s %s %s try %d", message.body.decode(), message.tags, message.keys, message.reconsume_times + 1)


consumer.run_forever()
