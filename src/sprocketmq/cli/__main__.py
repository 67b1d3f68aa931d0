"""The script ``sprocketmq``, and ``python -m sprocketmq.cli`` where it is not on the path."""

from __future__ import annotations

import sys

from sprocketmq.errors import ConfigurationError
from sprocketmq.extras import needs_extra

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what it lacks: pip installs the script without the libraries that it needs, too."""
    try:
        needs_extra("the command line", "cli", "click", "rich")
    except ConfigurationError as error:
        print(f"sprocketmq: {error}", file=sys.stderr)
        sys.exit(2)
    from sprocketmq.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
