# SPDX-License-Identifier: Apache-2.0
"""The templates. All values are escaped, and an undefined variable is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from sprocketmq.console.show.values import FILTERS
from sprocketmq.version import __version__

_FOLDER: Final = Path(__file__).parent.parent / "templates"


class Templates:
    def __init__(self, **everywhere: Any) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(FILTERS)
        self._environment.globals.update(everywhere, version=__version__)

    def response(self, template: str, *, code: int = 200, **context: Any) -> HTMLResponse:
        return HTMLResponse(self._environment.get_template(template).render(context), status_code=code)
