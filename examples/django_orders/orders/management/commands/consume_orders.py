# SPDX-License-Identifier: Apache-2.0
"""``manage.py consume_orders``: bills orders until SIGTERM or Ctrl-C."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandParser
from django.db import close_old_connections, transaction

import sprocketmq as rmq


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    help = "Bills the orders of a RocketMQ topic until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--topic", default="orders")
        parser.add_argument("--group", default="billing")
        parser.add_argument("--threads", type=int, default=4)

    def handle(self, *args: Any, **options: Any) -> None:
        bills = apps.get_model("orders", "Bill").objects
        first = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = rmq.PushConsumer(
            options["group"],
            consume_thread_count=options["threads"],
            consume_from_where=first,
            value_deserializer=rmq.json_deserializer,
        )
        consumer.subscribe(options["topic"])

        @consumer.on_message
        def bill(message: rmq.MessageExt) -> None:
            close_old_connections()  # as at the beginning of a web request: reconnect if the database has closed the connection
            try:
                with transaction.atomic():
                    order = message.value
                    _, made = bills.get_or_create(order=order["id"], defaults={"total": order["total"]})
            finally:
                close_old_connections()
            self.stdout.write(f"order {order['id']} {'billed' if made else 'was billed before'}")

        consumer.run_forever()
