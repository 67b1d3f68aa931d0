# SPDX-License-Identifier: Apache-2.0
"""The script ``sprocketmq``; ``python -m sprocketmq.cli`` does the same."""

from __future__ import annotations

import sys

from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import needs_extra

__all__ = ["main"]


def main() -> None:
    """Run the command line, or name the extra to install: pip also installs the script when its libraries are missing."""
    try:
        needs_extra("the command line", "cli", "click", "rich")
    except ConfigurationError as error:
        print(f"sprocketmq: {error}", file=sys.stderr)
        sys.exit(2)
    from sprocketmq.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
