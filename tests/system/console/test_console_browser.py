# SPDX-License-Identifier: Apache-2.0
"""The console in a real browser: every page and action, at each size and in both colours, by keyboard, with hostile names and bodies.

Also with a broker that is frozen: what is known is shown, and what is missing is said.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

import sprocketmq as rmq
from console_server import RunningConsole
from sprocketmq.testing import EmbeddedRocketMQ
from sprocketmq.wire.bodies import TopicConfig

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

FIRST = rmq.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
HOSTILE = "<script>window.hit=1</script><img src=x onerror=window.hit=2>\"'><svg onload=window.hit=3>{{7*7}}"
HOSTILE_NAME = "<img src=x onerror=alert(1)>"
LETTERS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRocketMQ]:
    with EmbeddedRocketMQ(clock="system") as mq:
        yield mq


@pytest.fixture(scope="module")
def console(server: EmbeddedRocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    audit = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    with RunningConsole(server.namesrv_addr, allow_changes=True, audit_file=audit) as running:
        yield running


@pytest.fixture(scope="module")
def trouble(server: EmbeddedRocketMQ, console: RunningConsole) -> Iterator[dict[str, rmq.SendResult]]:
    """A stuck listener, a failing one, a group that nobody is online for, dead letters, and names and bodies that mean harm."""
    stored: dict[str, rmq.SendResult] = {}
    gate = threading.Event()

    def hold_up(message: rmq.MessageExt) -> None:
        gate.wait(200)

    with server.admin() as admin:
        for topic in ("orders", "payments", "large"):
            admin.create_topic(topic, queues=2 if topic == "orders" else 1)
        for group in ("billing", "invoicing", "nobody"):
            admin.create_group(group)
    server._engine.run(server._create(TopicConfig(HOSTILE_NAME, 1, 1)))
    with server.producer(max_message_bytes=5 << 20, compress_msg_body_over_bytes=10 << 20) as producer:
        for number in range(20):
            body = json.dumps({"order": number, "note": HOSTILE}).encode()
            order = rmq.Message("orders", body, tags=HOSTILE, keys=f"order-{number}", properties={HOSTILE: HOSTILE})
            stored["order"] = producer.send(order)
        for number in range(LETTERS):
            producer.send(rmq.Message("payments", b"payment %d" % number, keys=f"pay-{number}"))
        stored["text"] = producer.send(rmq.Message("large", HOSTILE.encode()))
        stored["large"] = producer.send(rmq.Message("large", b"0123456789abcdef" * ((4 << 16) - 8)))
    stuck = server.push_consumer("billing", consume_from_where=FIRST, instance_name="billing-1")
    stuck.subscribe("orders")
    stuck.on_message(hold_up)
    failing = server.push_consumer("invoicing", consume_from_where=FIRST, instance_name=HOSTILE)
    failing.subscribe("payments")

    @failing.on_message
    def give_up(message: rmq.MessageExt) -> None:
        raise rmq.DeadLetter(HOSTILE)

    with server.pull_consumer("nobody") as pulling:
        (queue,) = pulling.fetch_message_queues("payments")
        pulling.assign([queue])
        pulling.seek(queue, 1)
        pulling.commit({queue: 1})
    with stuck, failing:
        server.wait_until(lambda: len(server.messages("%DLQ%invoicing")) == LETTERS)
        yield stored
        gate.set()


@pytest.fixture
def signed_in(tab: Page, console: RunningConsole) -> Page:
    tab.goto(console.server.link)
    tab.wait_for_url(f"{console.base}/")
    return tab


def place(result: rmq.SendResult, topic: str | None = None) -> str:
    queue = result.message_queue
    return urlencode(
        {
            "topic": topic or queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "offset": result.queue_offset,
        }
    )


def all_pages(stored: dict[str, rmq.SendResult]) -> list[str]:
    letter = urlencode({"topic": "%DLQ%invoicing", "broker": "broker-a", "queue": 0, "offset": 0})
    return [
        "/", "/group?name=billing", "/group?name=invoicing", "/group?name=nobody", f"/group?{urlencode({'name': HOSTILE})}",
        "/topics?all=1", "/topic?name=orders", f"/topic?{urlencode({'name': HOSTILE_NAME})}", "/messages",
        "/messages?topic=orders&q=order-3&by=key", f"/message?{place(stored['order'])}", f"/message?{place(stored['order'])}&form=hex",
        f"/message?{place(stored['large'])}", "/dead-letters", "/dead-letters?group=invoicing", f"/dead-letter?{letter}", "/brokers",
        "/broker?name=broker-a&id=0", "/access",
    ]  # fmt: skip


FAULTS = """() => {
  const faults = [];
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const short = (one) => one.outerHTML.slice(0, 90);
  const named = (one) => one.labels && one.labels.length || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby");
  const refer = ["aria-labelledby", "aria-describedby", "aria-controls"];
  faults.push(...all("input:not([type=hidden]), select, textarea").filter((one) => !named(one)).map((one) => "no label: " + short(one)));
  faults.push(...all("button, a[href]").filter((one) => !one.textContent.trim()).map((one) => "no name: " + short(one)));
  faults.push(...all("img:not([alt]), th:not([scope]):not([role=img] th)").map((one) => "says too little: " + short(one)));
  const ids = all("[id]").map((one) => one.id);
  faults.push(...ids.filter((id, number) => ids.indexOf(id) !== number).map((id) => "twice: " + id));
  for (const name of refer)
    for (const one of all("[" + name + "]"))
      for (const id of one.getAttribute(name).split(" "))
        if (!document.getElementById(id)) faults.push("names nothing: " + short(one));
  if (all("h1").length !== 1 || all("main").length !== 1) faults.push("one h1 and one main are wanted");
  if (document.documentElement.scrollWidth > innerWidth) faults.push("wider than the window: " + document.documentElement.scrollWidth);
  if (window.hit !== undefined) faults.push("a script of a message ran");
  if (all("img[src=x], svg[onload], main script").length) faults.push("markup of a message is markup of the page");
  return faults;
}"""


@pytest.mark.parametrize(("width", "colours"), [(1280, "light"), (375, "dark")])
def test_every_page_at_each_size_and_in_both_colours(signed_in, console, trouble, width, colours):
    """No script fails, no file is refused, nothing is wider than the window, everything has a name; no text of a message is markup."""
    signed_in.set_viewport_size({"width": width, "height": 800})
    signed_in.emulate_media(color_scheme="dark" if colours == "dark" else "light")
    for path in all_pages(trouble):
        signed_in.goto(console.base + path)
        expect(signed_in.locator(".loading")).to_have_count(0)
        assert signed_in.evaluate(FAULTS) == [], path
        dark = signed_in.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        shade = signed_in.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (int(re.findall(r"\d+", shade)[0]) < 100) is dark


def test_the_overview_begins_with_what_is_red_and_keeps_up(signed_in, console, trouble):
    red = signed_in.locator(".card.bad")
    expect(signed_in.locator("#live")).to_contain_text("no member online")
    expect(red.filter(has_text="has finished no")).to_have_count(1, timeout=60_000)
    expect(signed_in.locator("#announce")).to_contain_text("attention")
    signed_in.get_by_role("link", name="billing").first.click()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("billing")
    expect(signed_in.locator("#verdict")).to_contain_text("What to do:")
    expect(signed_in.locator("#figures .big").first).to_have_text("20")
    expect(signed_in.locator(".chart canvas")).to_have_count(1)
    expect(signed_in.locator("#lag-words")).to_contain_text("In the last")
    signed_in.get_by_role("button", name="Stack of").first.click()
    expect(signed_in.locator("#stack")).to_contain_text("TID:")
    signed_in.get_by_role("button", name="Look again").click()
    expect(signed_in.locator("#verdict")).to_contain_text("needs attention")


def test_what_a_reader_does_is_not_undone_by_an_update(signed_in, trouble):
    link = signed_in.locator("#g-billing")
    link.focus()
    before = signed_in.locator("#live .note").first.text_content()
    expect(signed_in.locator("#live .note").first).not_to_have_text(before or "")
    expect(link).to_be_focused()
    signed_in.get_by_label("Pause updates").check()
    updates: list[str] = []
    signed_in.on("request", lambda request: updates.append(request.url) if "/overview/live" in request.url else None)
    signed_in.wait_for_timeout(1_500)  # three looks of the console, and nothing to wait for
    assert updates == []
    with signed_in.expect_request("**/overview/live**"):
        signed_in.get_by_label("Pause updates").uncheck()


def test_the_console_works_with_the_keyboard(signed_in):
    signed_in.keyboard.press("Tab")
    skip = signed_in.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    signed_in.keyboard.press("Enter")
    expect(signed_in.locator("#main")).to_be_focused()
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        expect(signed_in.get_by_role(landmark)).to_have_count(1)
    signed_in.keyboard.press("Tab")
    expect(signed_in.locator("#q")).to_be_focused()
    assert signed_in.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    signed_in.keyboard.type("billing")
    signed_in.keyboard.press("Enter")
    signed_in.wait_for_url("**q=billing**")


def test_a_topic_is_followed_and_a_message_sent(signed_in, console, server, trouble):
    signed_in.goto(f"{console.base}/topic?name=large")
    follow = signed_in.get_by_role("button", name="Follow")
    follow.click()
    lines = signed_in.locator("#tail-list li")
    expect(lines.filter(has_text="window.hit=1")).to_have_count(1)
    signed_in.get_by_label("Body").fill(f"sent\nby hand {HOSTILE}")
    signed_in.get_by_label("Tag").fill("by-hand")
    signed_in.get_by_text("Properties").click()
    signed_in.get_by_label("NAME=VALUE").fill("region=eu")
    signed_in.get_by_role("button", name="Send").click()
    expect(signed_in.locator("#sent")).to_contain_text("stored in large/broker-a/0")
    expect(lines.filter(has_text="by-hand")).to_have_count(1)
    message = server.messages("large")[-1]
    assert message.body == f"sent\nby hand {HOSTILE}".encode()
    assert message.properties["region"] == "eu"
    signed_in.get_by_role("button", name="Stop").click()
    expect(signed_in.locator("#tail-status")).to_have_text("Stopped.")
    lines.filter(has_text="by-hand").get_by_role("link").click()
    expect(signed_in.locator("pre").first).to_contain_text("by hand <script>")
    assert signed_in.evaluate(FAULTS) == []


def test_letters_are_sent_again(signed_in, console, server, trouble):
    before = len(server.messages("payments"))
    signed_in.goto(f"{console.base}/dead-letters")
    signed_in.get_by_role("link", name="invoicing").click()
    signed_in.get_by_label("Select all that are shown").check()
    expect(signed_in.locator("input[name=letter]:checked")).to_have_count(LETTERS)
    signed_in.get_by_role("button", name="Dry run").click()
    outcome = signed_in.locator("#replayed")
    expect(outcome).to_contain_text("A dry run: nothing was sent.")
    expect(outcome.locator("li.done")).to_have_count(LETTERS)
    assert len(server.messages("payments")) == before
    signed_in.get_by_role("button", name="Send again").click()
    expect(outcome.locator("li").filter(has_text="sent to payments/broker-a/0")).to_have_count(LETTERS)
    assert len(server.messages("payments")) == before + LETTERS


def test_signing_out_and_in(signed_in, console, errors):
    signed_in.get_by_role("button", name="Sign out").click()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Sign in")
    signed_in.get_by_label("Token").fill("wrong")
    signed_in.get_by_role("button", name="Sign in").click()
    expect(signed_in.get_by_role("alert")).to_be_visible()
    assert all("401" in line for line in errors), errors
    errors.clear()
    signed_in.get_by_label("Token").fill(console.server.link.partition("token=")[2])
    signed_in.get_by_role("button", name="Sign in").click()
    signed_in.wait_for_url(f"{console.base}/")


# -- a broker that is frozen ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def frozen(server: EmbeddedRocketMQ) -> Iterator[None]:
    """A second broker, which has a queue of ``shared`` and then answers nothing: its connections stay open, as of a machine that hangs."""
    options = ["-n", server.namesrv_addr, "--port", "0", "--set", "brokerName=broker-b"]
    command = [sys.executable, "-m", "sprocketmq.cli", "broker", "run", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        with server.admin() as admin:
            admin.create_topic("shared", queues=1)
            admin.create_group("everywhere")
        with server.producer() as producer:
            for queue in sorted(producer.publish_queues("shared")):
                producer.send(rmq.Message("shared", b"one"), queue=queue)
                producer.send(rmq.Message("shared", b"two"), queue=queue)
        with server.pull_consumer("everywhere") as consumer:
            queues = consumer.fetch_message_queues("shared")
            assert len(queues) == 2
            consumer.assign(queues)
            for queue in queues:
                consumer.seek(queue, 1)
            consumer.commit(dict.fromkeys(queues, 1))
        os.kill(process.pid, signal.SIGSTOP)
        yield
    finally:
        process.kill()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


def test_a_broker_that_does_not_answer_affects_only_its_own_results(tab, server, frozen):
    with RunningConsole(server.namesrv_addr, limit_ms=1_000) as console:
        tab.goto(console.server.link)
        tab.wait_for_url(f"{console.base}/")
        expect(tab.locator(".card.bad").filter(has_text="does not answer at")).to_contain_text("broker-b")
        expect(tab.locator("#summary")).to_contain_text("1 broker does not answer")
        expect(tab.get_by_role("row").filter(has_text="everywhere")).to_contain_text("at least 1")

        tab.goto(f"{console.base}/group?name=everywhere")
        expect(tab.locator("#figures")).to_contain_text("at least 1")
        expect(tab.locator("#members")).to_contain_text("broker-b: it does not answer")
        expect(tab.locator("#verdict .card")).to_have_count(1)

        tab.goto(f"{console.base}/topic?name=shared")
        expect(tab.get_by_role("main")).to_contain_text("at least 2")
        expect(tab.locator(".missing").first).to_contain_text("broker-b")
        tab.get_by_role("button", name="Follow").click()
        expect(tab.locator("#tail-list li").filter(has_text="broker-a/0")).to_have_count(2)

        for path in (
            "/topics",
            "/messages?topic=shared&q=x&by=key",
            "/brokers",
            "/broker?name=broker-b&id=0",
            "/access",
        ):
            tab.goto(console.base + path)
            expect(tab.locator("body")).to_contain_text("broker-b")
            assert tab.evaluate(FAULTS) == [], path
