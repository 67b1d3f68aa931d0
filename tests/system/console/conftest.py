# SPDX-License-Identifier: Apache-2.0
"""One browser for the tests of the console."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, sync_playwright

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[BrowserContext]:
    """A browser with a profile of its own. Of a module, as playwright's loop must not run beside tests with loops of theirs."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no chromium; scripts/setup-tests installs it on Debian and Ubuntu")
    with tempfile.TemporaryDirectory(prefix="sprocketmq-browser-") as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=path, headless=True, args=list(ARGUMENTS), env={**os.environ, "HOME": profile}
        )
        context.set_default_timeout(30_000)
        yield context
        context.close()


@pytest.fixture
def errors() -> list[str]:
    """What pages of this test complained about: scripts that failed, files that were refused, dialogs."""
    return []


@pytest.fixture
def tab(chromium: BrowserContext, errors: list[str]) -> Iterator[Page]:
    """A page that is watched. A test fails if anything on it went wrong, or a script that is not the console's ran."""
    page = chromium.new_page()
    page.on("pageerror", lambda error: errors.append(f"error: {error}"))
    page.on(
        "console",
        lambda line: errors.append(f"{line.type}: {line.text}") if line.type in ("error", "warning") else None,
    )

    def dialog(shown: Dialog) -> None:
        errors.append(f"a dialog: {shown.message}")
        shown.dismiss()

    page.on("dialog", dialog)
    yield page
    page.close()
    assert errors == []
