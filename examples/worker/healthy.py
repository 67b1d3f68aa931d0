# SPDX-License-Identifier: Apache-2.0
"""Exit code 0 if the worker of this machine or container is healthy, otherwise 1 and the reason."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

try:
    urllib.request.urlopen(f"http://127.0.0.1:{os.environ.get('HEALTH_PORT', '8080')}/", timeout=5)
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())
except OSError as error:
    sys.exit(f"the worker does not answer: {error}")
