# SPDX-License-Identifier: Apache-2.0
"""Send ten messages: NAMESRV_ADDR=127.0.0.1:9876 python examples/quickstart_producer.py"""

import sprocketmq as rmq

with rmq.Producer("quickstart-producers") as producer:
    for number in range(10):
        message = rmq.Message("quickstart", f"hello {number}".encode(), tags="greeting", keys=f"hello-{number}")
        result = producer.send(message)
        print(result.status, result.message_id, result.message_queue, result.queue_offset)
