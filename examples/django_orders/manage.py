# SPDX-License-Identifier: Apache-2.0
"""A Django project in one file, for the command of the app ``orders``.

NAMESRV_ADDR=127.0.0.1:9876 python manage.py consume_orders
"""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    SECRET_KEY="only-for-the-example",
    INSTALLED_APPS=["orders"],
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("DATABASE", "orders.sqlite3")}
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
