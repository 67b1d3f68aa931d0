# SPDX-License-Identifier: Apache-2.0
"""Sphinx: Markdown guides and the reference generated from docstrings."""

from sprocketmq.version import __version__

project = "SprocketMQ"
author = "The SprocketMQ authors"
copyright = "The SprocketMQ authors, Apache License 2.0"
release = version = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
autosummary_generate = True
autosummary_generate_overwrite = True
html_theme = "furo"
html_title = f"SprocketMQ {__version__}"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
nitpicky = False
suppress_warnings = ["myst.xref_missing"]  # links from the guides to the repository's own files
