# SPDX-License-Identifier: Apache-2.0
"""Who gets in, and what is refused before a page is asked."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from console_server import RunningConsole
from sprocketmq.testing import EmbeddedRocketMQ

PAGES = (
    "/", "/overview/live", "/events", "/groups", "/groups/live",
    "/group?name=g", "/group/live?name=g", "/group/verdict?name=g", "/group/members?name=g",
    "/group/stack?name=g&client=c&broker=broker-a", "/group/history?name=g", "/topics", "/topic?name=t", "/topic/traffic?name=t",
    "/topic/tail?name=t", "/messages", "/message?topic=t&broker=b&queue=0&offset=0", "/message/fate?topic=t&broker=b&queue=0&offset=0",
    "/message/body?topic=t&broker=b&queue=0&offset=0", "/dead-letters", "/dead-letters?group=g",
    "/dead-letter?topic=t&broker=b&queue=0&offset=0", "/brokers", "/broker?name=b", "/access", "/no-such-page",
)  # fmt: skip
CHANGES = (
    "/group/reset", "/group/enable", "/group/create", "/topic/create", "/topic/send", "/dead-letters/replay", "/sign-out",
)  # fmt: skip


@pytest.fixture(scope="module")
def reader(server: EmbeddedRocketMQ) -> Iterator[RunningConsole]:
    """A console that changes nothing."""
    with RunningConsole(server.namesrv_addr) as running:
        yield running


def test_all_addresses_are_in_the_list(console):
    """A page that is added is tested for strangers, too."""
    routes = {route.path for route in console.server._server.config.app.routes}
    listed = {page.partition("?")[0] for page in PAGES + CHANGES}
    assert routes - listed == {"/static", "/sign-in"}


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_only_the_sign_in_form_is_shown(console, path):
    answer = console.stranger.get(path)
    assert answer.status_code == 401
    assert 'name="token"' in answer.text
    assert "broker-a" not in answer.text


@pytest.mark.parametrize("path", CHANGES)
def test_without_a_session_nothing_can_be_changed(console, path):
    assert console.stranger.post(path, data={"topic": "t"}).status_code == 401


def test_the_link_signs_in_once_and_the_token_leaves_the_address(console):
    with httpx.Client(base_url=console.base) as browser:
        answer = browser.get(console.server.link)
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert 'http-equiv="refresh" content="0; url=/"' in answer.text
        assert browser.get("/").status_code == 200
        key = answer.cookies
        assert len(key) == 1
    assert console.stranger.get("/?token=wrong").status_code == 401
    assert console.stranger.post("/sign-in", data={"token": "wrong"}).status_code == 401


def test_the_form_signs_in_and_out(reader):
    with httpx.Client(base_url=reader.base) as browser:
        token = reader.server.link.partition("token=")[2]
        assert browser.post("/sign-in", data={"token": token}).status_code == 200
        text = browser.get("/").text
        key = text.partition('name="form_key" value="')[2].partition('"')[0]
        assert browser.post("/sign-out", data={"form_key": "wrong"}).status_code == 403
        assert browser.get("/").status_code == 200
        assert browser.post("/sign-out", data={"form_key": key}).status_code == 303
        assert browser.get("/").status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9877", "127.0.0.1.evil.example", ""])
def test_another_name_is_refused(console, host):
    for path in ("/", "/static/console.css"):
        answer = console.browser.get(path, headers={"Host": host})
        assert answer.status_code in (400, 421)
        assert "broker-a" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_form_of_another_site_is_refused(console, headers):
    fields = {"form_key": console.form_key, "topic": "t", "body": "x"}
    answer = console.browser.post("/topic/send", data=fields, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text


@pytest.mark.parametrize("path", CHANGES)
def test_a_form_without_the_key_is_refused(console, path):
    for fields in ({}, {"form_key": ""}, {"form_key": "wrong"}):
        answer = console.browser.post(path, data={"topic": "t", "body": "x", **fields})
        assert answer.status_code == 403
        assert "not from this session" in answer.text


def test_a_read_only_console_says_how_to_change_that(reader):
    for path in ("/topic/send", "/dead-letters/replay"):
        answer = reader.post(path, topic="t", body="x", letter="broker-a/0/0", group="g")
        assert answer.status_code == 403
        assert "--allow-changes" in answer.text
    assert "read-only" in reader.page("/")
    assert "Send a message" not in reader.page("/topic", name="TBW102")


def test_a_form_that_is_too_large_is_refused(console):
    answer = console.post("/topic/send", topic="t", body="x" * (3 << 20))
    assert answer.status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(48):
            yield b"body=" + b"x" * 65_536

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert console.browser.post("/topic/send", content=chunks(), headers=headers).status_code in (400, 413)


@pytest.mark.parametrize("charset", ["undefined", "utf-7", "utf-8"])
def test_other_content_types_are_refused(console, charset):
    part = b'--b\r\nContent-Disposition: form-data; name="token"\r\n\r\n+2AA-\r\n--b--\r\n'
    for browser in (console.browser, console.stranger):
        for kind in (f"multipart/form-data; boundary=b; charset={charset}", "text/plain", "application/json"):
            for path in ("/sign-in", *CHANGES):
                assert browser.post(path, content=part, headers={"Content-Type": kind}).status_code == 415


@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 30, "²", "-1"])
def test_a_number_that_is_none_is_refused_and_not_a_failure(console, number):
    for path in ("/message", "/message/body", "/message/fate", "/dead-letter"):
        where = {"topic": "%DLQ%g", "broker": "broker-a", "queue": "0", "offset": number}
        assert console.browser.get(path, params=where).status_code == 404
    answer = console.post("/dead-letters/replay", group="g", letter=f"broker-a/0/{number}", dry_run="1")
    assert "is no place of a letter" in answer.text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(console, method):
    assert console.browser.request(method, "/").status_code == 405


@pytest.mark.parametrize("path", [*PAGES[:2], "/static/console.css", "/no-such-page"])
def test_every_answer_has_its_headers(console, path):
    for client in (console.browser, console.stranger):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "server" not in headers
        if not path.startswith("/static"):
            assert headers["cache-control"] == "no-store"


def test_nothing_is_loaded_from_elsewhere(console):
    for path in ("/", "/topics", "/brokers", "/messages"):
        text = console.page(path)
        assert "<style" not in text
        assert " style=" not in text
        assert "onclick" not in text
        for part in text.split("src=")[1:] + text.split('rel="stylesheet" href=')[1:]:
            assert part.startswith('"/static/'), part[:80]


def test_two_consoles_of_one_host_have_cookies_of_their_own(console, reader):
    with httpx.Client() as browser:
        for one in (console, reader):
            browser.get(one.server.link)
        for one in (console, reader):
            assert browser.get(one.base + "/").status_code == 200
