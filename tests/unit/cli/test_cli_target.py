# SPDX-License-Identifier: Apache-2.0
"""Where a command goes and as whom: options, contexts, environment; and that keys never go to another cluster."""

from __future__ import annotations

import itertools
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from sprocketmq.cli.frame.contexts import Context, Contexts
from sprocketmq.cli.frame.target import DEFAULT_NAMESRV, Target, resolve
from sprocketmq.errors import ConfigurationError

PROD = Context("prod:1", "prod-key", "/prod/secret", tls_ca="/prod/ca.pem")
ENVIRONMENT = {
    "NAMESRV_ADDR": "env:1",
    "ROCKETMQ_ACCESS_KEY": "env-key",
    "ROCKETMQ_SECRET_KEY": "env-secret",
    "ROCKETMQ_TLS_CA": "/env/ca.pem",
}


def contexts(tmp_path: Path, current: str | None = None) -> Contexts:
    return Contexts(tmp_path / "contexts.json", current, {"prod": PROD, "dev": Context("dev:1")})


def test_the_order_of_precedence_of_targets(tmp_path):
    known = contexts(tmp_path, "dev")
    with_context = {**ENVIRONMENT, "SPROCKETMQ_CONTEXT": "prod"}
    for given, environment, address in (
        ({"namesrv_addr": "given:1", "context": "prod"}, with_context, "given:1"),
        ({"namesrv_addr": "given:1"}, with_context, "given:1"),
        ({"context": "prod"}, {**ENVIRONMENT, "SPROCKETMQ_CONTEXT": "dev"}, "prod:1"),
        ({}, with_context, "prod:1"),
        ({}, ENVIRONMENT, "env:1"),
        ({}, {}, "dev:1"),
    ):
        assert resolve(given, environment, lambda: known).namesrv_addr == address
    assert resolve({}, {}, lambda: contexts(tmp_path)).namesrv_addr == DEFAULT_NAMESRV


def test_keys_of_a_context_and_of_the_environment_do_not_meet(tmp_path):
    """Whatever is given: who goes to the context's cluster has the context's keys, who goes elsewhere has not."""
    known = contexts(tmp_path, "prod")
    names: dict[str, tuple[Any, ...]] = {
        "namesrv_addr": (None, "given:1"),
        "context": (None, "prod"),
        "access_key": (None, "given-key"),
    }
    for values, with_variables, with_context in itertools.product(
        itertools.product(*names.values()), (True, False), (True, False)
    ):
        given = dict(zip(names, values, strict=True))
        environment = dict(ENVIRONMENT) if with_variables else {}
        if with_context:
            environment["SPROCKETMQ_CONTEXT"] = "prod"
        made = resolve(given, environment, lambda: known)
        chosen = made.namesrv_addr == "prod:1" or given["context"] == "prod"
        assert (made.secret_key_file == "/prod/secret") is chosen, (given, environment)
        assert (made.secret_key == "env-secret") is (with_variables and not chosen), (given, environment)
        assert made.access_key in (
            {"given-key"} if given["access_key"] else {"prod-key"} if chosen else {"env-key", None}
        )


def test_a_secret_that_is_given_replaces_the_file_of_a_context(tmp_path):
    made = resolve({"context": "prod", "secret_key": "given"}, {}, lambda: contexts(tmp_path))
    assert (made.secret_key, made.secret_key_file) == ("given", None)
    made = resolve({"secret_key_file": "/given"}, ENVIRONMENT, lambda: contexts(tmp_path))
    assert (made.secret_key, made.secret_key_file) == (None, "/given")
    assert "env-secret" not in repr(resolve({}, ENVIRONMENT, lambda: contexts(tmp_path)))


def test_authorities_that_cannot_be_read_are_one_sentence(tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")
    for file in ("ca.pem", "absent.pem"):
        with pytest.raises(ConfigurationError, match="--tls-ca is .* cannot be read as certificates"):
            Target("h:1", tls_ca=str(tmp_path / file)).options()
    assert Target("h:1", tls=True).options()["tls"] is True


def test_contexts_are_written_and_read_back(tmp_path):
    known = contexts(tmp_path / "new", "prod")
    known.save()
    again = Contexts.load(known.path)
    assert (again.current, again.by_name) == ("prod", known.by_name)
    if sys.platform != "win32":
        assert stat.S_IMODE(known.path.stat().st_mode) == 0o600
    assert [path.name for path in known.path.parent.iterdir()] == ["contexts.json"]
    assert Contexts.load(tmp_path / "absent.json").by_name == {}


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"contexts": 1}',
        '{"contexts": {"a": {}}}',
        '{"contexts": {"a": {"namesrv_addr": "h:1", "secret_key": "s"}}}',
    ],
)
def test_a_file_that_holds_something_else_is_one_sentence(content, tmp_path):
    path = tmp_path / "contexts.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match="the file of contexts .* cannot be read"):
        Contexts.load(path)


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        Contexts(tmp_path / "file" / "contexts.json").save()


def test_a_context_that_is_unknown_names_the_nearest_one(tmp_path):
    known = contexts(tmp_path)
    with pytest.raises(ConfigurationError, match="there is no context 'prd'; did you mean 'prod'"):
        known.get("prd")
    with pytest.raises(ConfigurationError, match="there are: dev, prod"):
        known.get("something-else")
    with pytest.raises(ConfigurationError, match="none yet"):
        Contexts(tmp_path).get("prod")
