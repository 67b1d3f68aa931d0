# SPDX-License-Identifier: Apache-2.0
"""Paths that contain names from outside: a topic, a group, a client id. Every such path is made here.

The broker already checks the names in a request. This last check is independent of it and refuses any name that would lead out of
its folder, on any operating system.
"""

from __future__ import annotations

import os
import shutil

from sprocketmq.core.resource_names import harmful_name_problem
from sprocketmq.errors import ConfigurationError

_MAX_NAME_BYTES = 255  # NAME_MAX of every usual file system


def path_below(folder: str | os.PathLike[str], *names: str) -> str:
    """Each name is one step down and nothing else. Raises ConfigurationError: a name is empty, ``.``, ``..`` or longer than 255
    bytes, has a separator, a drive, a control character, or is not text that can be encoded."""
    for name in names:
        problem = _problem(name)
        if problem is not None:
            raise ConfigurationError(problem)
    return os.path.join(folder, *names)


def is_folder_name(name: str) -> bool:
    return _problem(name) is None


def remove_below(folder: str | os.PathLike[str], name: str) -> None:
    """Delete ``folder/name`` with its content; of a link, only the link itself. Raises as ``path_below``."""
    path = path_below(folder, name)
    if os.path.islink(path):
        os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _problem(name: str) -> str | None:
    if not name:
        return "the name of a folder is empty, 1 to 255 bytes are needed"
    if os.path.splitdrive(name)[0]:
        return f"the name of a folder is {name[:80]!r}, a name without a drive is allowed"
    problem = harmful_name_problem("the name of a folder", name)
    if problem is None and len(name.encode()) > _MAX_NAME_BYTES:
        return f"the name of a folder has {len(name.encode())} bytes, at most {_MAX_NAME_BYTES} are allowed"
    return problem
