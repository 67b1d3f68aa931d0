# SPDX-License-Identifier: Apache-2.0
"""Print the messages of quickstart_producer.py until Ctrl-C: NAMESRV_ADDR=127.0.0.1:9876 python examples/quickstart_consumer.py"""

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
    # Returning is success. Raising is failure: the message is delivered again after 10 s, 30 s, 1 min, ..., and after 16 tries it goes to
    # %DLQ%quickstart-consumers.
    # A logger and not print, because listeners run in several threads.
    log.info("%s %s %s try %d", message.body.decode(), message.tags, message.keys, message.reconsume_times + 1)


consumer.run_forever()
