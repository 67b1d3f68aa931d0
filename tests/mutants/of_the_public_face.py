"""What the public face promises to type checkers, editors and ``help()``, broken on purpose."""

from __future__ import annotations

from typing import Final

from mutant import Mutant

CLIENT: Final = "src/sprocketmq/client"
FACE: Final = "tests/unit/client/test_public_face.py"
TYPES: Final = "tests/system/client/test_public_types.py"

FACE_MUTANTS = [
    Mutant(
        "public face",
        "an option has another type than the struct that checks it",
        f"{CLIENT}/keyword_options.py",
        "    send_msg_timeout_ms: int\n",
        "    send_msg_timeout_ms: str\n",
        f"{TYPES}::test_the_types_of_the_options_are_what_the_structs_say",
    ),
    Mutant(
        "public face",
        "one message at a time: any function will do",
        f"{CLIENT}/consume/push_consumer.py",
        'OneListener = TypeVar("OneListener", bound=Callable[[MessageExt], object])',
        'OneListener = TypeVar("OneListener", bound=Callable[..., object])',
        f"{TYPES}::test_mypy_refuses_what_is_misspelt_or_mistyped_and_nothing_else",
    ),
    Mutant(
        "public face",
        "an exception that is chosen by a code is not exported",
        "src/sprocketmq/__init__.py",
        "GroupNotExist NetworkError NoPermission ",
        "GroupNotExist NetworkError ",
        f"{FACE}::test_the_whole_tree_of_exceptions_is_exported",
    ),
    Mutant(
        "public face",
        "None is no timeout when a send waits for its turn",
        f"{CLIENT}/produce/async_producer.py",
        "        limit_ms = sender.settings.send_msg_timeout_ms if given_ms is None else given_ms\n",
        '        limit_ms = how.get("timeout_ms", sender.settings.send_msg_timeout_ms)\n',
        "tests/inproc/client/test_client_back_pressure.py::test_no_timeout_is_the_default_one",
    ),
]
