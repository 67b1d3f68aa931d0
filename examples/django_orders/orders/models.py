# SPDX-License-Identifier: Apache-2.0
"""What was billed."""

from __future__ import annotations

from django.db import models


class Bill(models.Model):  # type: ignore[misc]  # Django has no types
    order = models.BigIntegerField(unique=True)  # a message may come twice, a bill must not
    total = models.FloatField()
