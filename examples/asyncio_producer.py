# SPDX-License-Identifier: Apache-2.0
"""Send a thousand messages from asyncio, many concurrently: NAMESRV_ADDR=127.0.0.1:9876 python examples/asyncio_producer.py"""

import asyncio
import time

import sprocketmq as rmq


async def main() -> None:
    async with rmq.AsyncProducer("asyncio-producers") as producer:
        started = time.perf_counter()
        results = await asyncio.gather(
            *(producer.send(rmq.Message("quickstart", f"async {number}".encode())) for number in range(1000))
        )
        spent = time.perf_counter() - started
        stored = sum(result.status is rmq.SendStatus.SEND_OK for result in results)
        print(f"{stored} messages stored in {spent:.2f} s")


asyncio.run(main())
