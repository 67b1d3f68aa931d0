# SPDX-License-Identifier: Apache-2.0
"""Keys in a file: what it may hold, when it is read again, and what is said when it cannot be used."""

from __future__ import annotations

import os
import pickle
import platform
from pathlib import Path

import pytest

from sprocketmq.client.settings.key_file import KeyFile
from sprocketmq.client.settings.options import ClientOptions
from sprocketmq.errors import ConfigurationError
from sprocketmq.wire.frames.acl_signature import Credentials

BOTH = "accessKey: Worker77\nsecretKey: {}\n"


def replaced(file: Path, content: str) -> None:
    """As a mounted secret is renewed: another file takes the name."""
    new = file.with_name("new")
    new.write_text(content)
    new.rename(file)


def test_the_next_request_is_signed_with_the_new_keys(tmp_path):
    file = tmp_path / "keys"
    file.write_text(BOTH.format("secret-1"))
    keys = KeyFile(str(file))
    assert keys.current() == Credentials("Worker77", "secret-1")
    replaced(file, BOTH.format("secret-2"))
    assert keys.current() == Credentials("Worker77", "secret-2")
    replaced(file, "accessKey: Worker78\nsecretKey: secret-3\nsecurityToken: token-3\n")
    assert keys.current() == Credentials("Worker78", "secret-3", "token-3")


@pytest.mark.parametrize("change", ["time", "size", "file"])
def test_each_sign_of_a_change_is_enough(tmp_path, change):
    file = tmp_path / "keys"
    file.write_text("secret-1")
    keys = KeyFile(str(file), "Worker77")
    before = file.stat()
    if change == "file":
        replaced(file, "secret-2")
    else:
        file.write_text("secret-2" if change == "time" else "secret-22")
    after_ns = before.st_mtime_ns + (1 if change == "time" else 0)
    os.utime(file, ns=(after_ns, after_ns))
    assert keys.current().secret_key == file.read_text()


def test_a_file_that_did_not_change_is_not_read_again(tmp_path):
    file = tmp_path / "keys"
    file.write_text("secret-1")
    keys = KeyFile(str(file), "Worker77")
    before = file.stat()
    file.write_text("secret-2")  # of the same size, within one tick of the file system's clock
    os.utime(file, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert keys.current().secret_key == "secret-1"
    keys.reread()  # as a refused signature has it done
    assert keys.current().secret_key == "secret-2"


@pytest.mark.parametrize("meanwhile", [None, "", "accessKey: Worker77\nsecr", "my secret is secret-2"])
def test_known_keys_stay_in_use_while_the_file_is_away_or_half_written(tmp_path, meanwhile):
    file = tmp_path / "keys"
    file.write_text(BOTH.format("secret-1"))
    keys = KeyFile(str(file))
    if meanwhile is None:
        file.unlink()
    else:
        file.write_text(meanwhile)
    keys.reread()
    assert keys.current().secret_key == "secret-1"
    file.write_text(BOTH.format("secret-2"))
    assert keys.current().secret_key == "secret-2"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, r"cannot be read on host {host} \(No such file or directory\); put the file there"),
        (b"\xff\xfe", r"cannot be read on host {host} \(it is not text\)"),
        (b"my secret is secret-1", r"holds neither one secret nor lines accessKey: and secretKey: on host {host}"),
        (b"", "holds neither one secret nor lines"),
        (b"accessKey: Worker77\n", "holds no secretKey on host {host}, and a signature needs both keys; add a line"),
        (b"secret-1", "holds no accessKey on host {host}"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence_with_the_host_and_no_secret(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "keys").write_bytes(content)
    options = ClientOptions(namesrv_addr="127.0.0.1:9876", secret_key_file=str(tmp_path / "keys"))
    with pytest.raises(ConfigurationError, match=sentence.format(host=platform.node())) as error:
        _ = options.credentials
    assert f"secret_key_file is '{tmp_path}/keys', which" in str(error.value)
    assert "secret-1" not in str(error.value)
    assert "\n" not in str(error.value)


def test_options_come_before_the_file_and_a_secret_beside_it_is_refused(tmp_path):
    (tmp_path / "keys").write_text("accessKey: Worker77\nsecretKey: secret-1\nsecurityToken: token-1\n")
    given = {"namesrv_addr": "127.0.0.1:9876", "secret_key_file": str(tmp_path / "keys")}
    credentials = ClientOptions(**given, access_key="Other78", security_token="token-2").credentials
    assert isinstance(credentials, KeyFile)
    assert credentials.current() == Credentials("Other78", "secret-1", "token-2")
    with pytest.raises(ConfigurationError):
        ClientOptions(**given, access_key="Other78", secret_key="secret-2")


def test_a_key_file_shows_no_secret_and_cannot_be_pickled(tmp_path):
    (tmp_path / "keys").write_text(BOTH.format("secret-1"))
    keys = KeyFile(str(tmp_path / "keys"))
    assert repr(keys) == f"KeyFile('{tmp_path}/keys')"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(keys)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_place_of_the_file_does_not_block(tmp_path):
    file = tmp_path / "keys"
    file.write_text("secret-1")
    keys = KeyFile(str(file), "Worker77")
    file.unlink()
    os.mkfifo(file)
    assert keys.current().secret_key == "secret-1"
    with pytest.raises(ConfigurationError):
        KeyFile(str(file), "Worker77")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = tmp_path / "keys"
    with file.open("wb") as opened:
        opened.truncate(1 << 40)
    with pytest.raises(ConfigurationError):
        KeyFile(str(file), "Worker77")


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfaccessKey: Worker77\nsecretKey: secret-1",
        b"accessKey: Worker77 # of the pipeline\nsecretKey: secret-1 # since May",
        b"accessKey: 'Worker77'\nsecretKey: \"secret-1\"",
    ],
    ids=["byte order mark", "comments", "quotes"],
)
def test_forms_that_editors_and_yaml_know(tmp_path, content):
    file = tmp_path / "keys"
    file.write_bytes(content)
    keys = KeyFile(str(file)).current()
    assert (keys.access_key, keys.secret_key) == ("Worker77", "secret-1")


def test_an_error_holds_nothing_of_what_was_read(tmp_path):
    file = tmp_path / "keys"
    file.write_bytes("my secret".encode("utf-16"))
    with pytest.raises(ConfigurationError) as raised:
        KeyFile(str(file), "Worker77")
    assert raised.value.__context__ is None
