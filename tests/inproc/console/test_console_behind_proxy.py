# SPDX-License-Identifier: Apache-2.0
"""Each page of the console at a proxy: it shows what can be known, and says why the rest cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from console_server import RunningConsole
from proxy_shop import PAGES, Shop
from sprocketmq.console.app import make_app

# Files, streams and changes; tests below have some of them.
OTHERS = {
    "/events",
    "/groups/live",
    "/group/live",
    "/group/history",
    "/topic/tail",
    "/topic/send",
    "/topic/create",
    "/group/create",
    "/group/enable",
    "/group/reset",
    "/message/body",
    "/dead-letter",
    "/dead-letters/replay",
    "/broker",
    "/sign-in",
    "/sign-out",
    "/static",
}


@pytest.fixture(scope="module")
def console(shop: Shop) -> Iterator[RunningConsole]:
    with RunningConsole(shop.proxy_addr, allow_changes=True) as running:
        running.until("no such account", "/dead-letters", group="billing")
        yield running


def test_each_page_is_in_the_table(shop, console):
    app = make_app(console.server._parts)
    assert {route.path for route in app.routes} == {path for path, _, _ in PAGES} | OTHERS


@pytest.mark.parametrize(("path", "parameters", "shown"), PAGES)
def test_a_page_shows_what_is_known_and_says_why_the_rest_is_not(shop, console, path, parameters, shown):
    shop.check_page(console, path, parameters, shown)


def test_the_lag_of_an_opened_group_is_watched(shop, console):
    console.page("/group", name="billing")
    console.until('<dd class="big">4</dd>', "/group/live", name="billing")  # queues, those of both brokers once
    console.page("/group", name="idle")
    console.until("so name the topic", "/group/live", name="idle")
    console.page("/group", name="idle", topic="orders")
    console.until('Queues with progress</dt><dd class="big">4</dd>', "/group/live", name="idle")
    overview = console.until(f"no member of group idle is connected to the proxy at {shop.proxy_addr}", "/")
    assert "billing" in overview
    assert "In the last" in console.page("/group/history", name="idle")


def test_messages_are_sent_and_dead_letters_sent_again(shop, console):
    letters = console.page("/dead-letters", group="billing")
    letter = re.search(r'name="letter" value="([^"]+)"', letters)
    assert letter is not None
    assert "sent to orders" in console.post("/dead-letters/replay", group="billing", letter=letter[1]).text
    assert "stored in" in console.post("/topic/send", topic="orders", body="by hand").text


def test_the_page_of_a_broker_says_why_there_is_none(shop, console):
    answer = console.browser.get("/broker", params={"name": "broker-a"})
    assert answer.status_code == 504
    assert "does not serve GET_BROKER_CLUSTER_INFO" in answer.text
