# SPDX-License-Identifier: Apache-2.0
"""The script ``sprocketmq``; ``python -m sprocketmq.cli`` does the same."""

from __future__ import annotations

import os
import signal
import sys

from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import needs_extra


def main() -> None:
    """Run the command line, or name the extra to install: pip also installs the script when its libraries are missing."""
    # In a container: the kernel drops a signal that PID 1 does not handle, and the imports take a second.
    if os.getpid() == 1:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda got, _frame: sys.exit(128 + got))
    try:
        needs_extra("the command line", "cli", "click", "rich")
    except ConfigurationError as error:
        print(f"sprocketmq: {error}", file=sys.stderr)
        sys.exit(2)
    from sprocketmq.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
