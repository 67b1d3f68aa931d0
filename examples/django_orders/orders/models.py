# SPDX-License-Identifier: Apache-2.0
"""The orders that were billed."""

from __future__ import annotations

from django.db import models


class Bill(models.Model):  # type: ignore[misc]  # Django has no types
    order = models.BigIntegerField(unique=True)  # a message may be delivered twice, but an order is billed once
    total = models.FloatField()
