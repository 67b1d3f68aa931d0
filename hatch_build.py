# SPDX-License-Identifier: Apache-2.0
"""What an index shows of README.md: without its pictures, whose addresses lead nowhere there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeWithoutPictures(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text("utf-8")
        text = re.sub(r"^!\[.*\n\n", "", text, flags=re.MULTILINE)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
