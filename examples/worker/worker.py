# SPDX-License-Identifier: Apache-2.0
"""A worker: consumes until SIGTERM, reports its health over HTTP, and logs one JSON object per line.

NAMESRV_ADDR=127.0.0.1:9876 python worker.py
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import sprocketmq as rmq

log = logging.getLogger("worker")


class JsonLines(logging.Formatter):
    """Log records as one JSON object each; values of ``extra=``, also those of sprocketmq, are further keys."""

    _ordinary = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": self.formatTime(record), "level": record.levelname, "logger": record.name}
        line["message"] = record.getMessage()
        line |= {name: value for name, value in vars(record).items() if name not in self._ordinary}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logging() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=os.environ.get("LOG_LEVEL", "INFO"), handlers=[handler])


def serve_health(consumer: rmq.PushConsumer, port: int) -> ThreadingHTTPServer:
    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            health = consumer.health()
            body = json.dumps({"healthy": health.is_healthy, "problems": health.problems}).encode()
            self.send_response(200 if health.is_healthy else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Do not log probes."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Health)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server


def handle(message: rmq.MessageExt) -> None:
    order = message.value
    if order["total"] < 0:
        raise rmq.DeadLetter("a negative total")
    log.info(
        "billed", extra={"order": order["id"], "message_id": message.message_id, "try": message.reconsume_times + 1}
    )


def main() -> None:
    set_up_logging()
    first = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer = rmq.PushConsumer("billing", value_deserializer=rmq.json_deserializer, consume_from_where=first)
    consumer.subscribe("orders")
    consumer.on_message(handle)
    server = serve_health(consumer, int(os.environ.get("HEALTH_PORT", "8080")))
    log.info("started", extra={"health_port": server.server_port})
    consumer.run_forever()  # SIGTERM and Ctrl-C end it: running listeners finish, progress is written
    log.info("stopped")


if __name__ == "__main__":
    main()
