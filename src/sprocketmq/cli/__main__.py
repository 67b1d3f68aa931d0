"""``python -m sprocketmq.cli``: the command line where the script is not on the path."""

from sprocketmq.cli.main import main

main()
