# SPDX-License-Identifier: Apache-2.0
"""Who a Spark job is: keys from options or a file, TLS; a mistake is one sentence, a secret is in none."""

from __future__ import annotations

import pickle
import platform
from pathlib import Path

import pytest
from pyspark.cloudpickle import dumps
from pyspark.sql.types import BinaryType, StructField, StructType

from sprocketmq.client.settings.key_file import KeyFile
from sprocketmq.errors import ConfigurationError
from sprocketmq.spark import foreach_batch
from sprocketmq.spark.options.access import Access
from sprocketmq.spark.options.read_options import read_options
from sprocketmq.spark.options.sink_options import sink_options
from sprocketmq.spark.source import RocketMQDataSource

BASE = {"namesrvaddr": "127.0.0.1:9876", "topic": "flights"}
SECRET = "sesame-open-77"


def access(**options: str) -> Access:
    return read_options({**BASE, **options}, streaming=False).access


def test_without_options_nothing_is_signed_and_nothing_encrypted() -> None:
    assert (access(), access().credentials, access().ssl_context) == (Access(), None, None)
    assert set(access().client_options().values()) == {None}


def test_reader_and_sink_sign_with_the_same_keys() -> None:
    keys = {"accessKey": "Worker77", "secretKey": SECRET, "securityToken": "token-77"}
    for found in (access(**keys), sink_options({**BASE, **keys}).access):
        assert found.credentials is not None
        assert (found.credentials.access_key, found.credentials.secret_key) == ("Worker77", SECRET)
        assert found.credentials.security_token == "token-77"
        assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("content", "given"),
    [
        (f"{SECRET}\n", {"accessKey": "Worker77"}),
        (f"accessKey: Worker77\nsecretKey: {SECRET}\n", {}),
        (f"# of mqadmin\naccessKey: 'Somebody'\nsecretKey: \"{SECRET}\"\n", {"accessKey": "Worker77"}),
    ],
)
def test_a_file_holds_the_secret_or_both_keys_as_apaches_tools_yml(
    tmp_path: Path, content: str, given: dict[str, str]
) -> None:
    (tmp_path / "keys").write_text(content)
    credentials = access(secretKeyFile=str(tmp_path / "keys"), **given).credentials
    assert credentials is not None
    keys = credentials.current() if isinstance(credentials, KeyFile) else credentials
    assert (keys.access_key, keys.secret_key) == ("Worker77", SECRET)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"accessKey": "Worker77"}, "accessKey is given without secretKey; a signature needs both"),
        ({"secretKey": SECRET}, "secretKey is given without accessKey"),
        ({"securityToken": SECRET}, "securityToken is given without accessKey and secretKey"),
        (
            {"secretKeyFile": "/nowhere"},
            f"secretKeyFile is '/nowhere', which cannot be read on host {platform.node()} (No such file",
        ),
        ({"tlsTrustCertPath": "ca.pem"}, "tlsTrustCertPath is given and tls is not true"),
        ({"tls": "true", "tlsKeyPath": "k.pem"}, "tlsKeyPath is given without tlsCertPath; name the certificate"),
        ({"tls": "true", "tlsKeyPassword": SECRET}, "tlsKeyPassword is given without tlsCertPath"),
    ],
)
def test_a_mistake_is_one_sentence_without_the_secret(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        _ = access(**options).credentials
    assert sentence in str(error.value)
    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_holds_something_else_is_refused_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"my secret is {SECRET}")
    with pytest.raises(ConfigurationError, match="holds neither one secret nor lines") as error:
        _ = access(accessKey="Worker77", secretKeyFile=str(tmp_path / "keys")).credentials
    assert SECRET not in str(error.value)


def test_certificates_that_cannot_be_used_are_named_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"TLS cannot be set up with .*ca.pem: .*every machine"):
        _ = access(tls="true", tlsTrustCertPath=str(tmp_path / "ca.pem")).ssl_context
    context = access(tls="true", tlsAuthServer="false").ssl_context
    assert context is not None
    assert context.check_hostname is False


def test_secrets_are_in_no_repr() -> None:
    keys = {
        "accessKey": SECRET + "a",
        "secretKey": SECRET,
        "securityToken": SECRET,
        "tls": "true",
        "tlsCertPath": "cert.pem",
        "tlsKeyPassword": SECRET,
    }
    read = read_options({**BASE, **keys}, streaming=True)
    source = RocketMQDataSource({**BASE, **keys})
    retry = foreach_batch(
        lambda rows, batch_id: rows, write=lambda good, batch_id: None, group="delays", options={**BASE, **keys}
    )
    shown = [read, read.access, sink_options({**BASE, **keys}), source, source.streamReader(source.schema()), retry]
    assert SECRET not in " ".join(map(repr, shown))


@pytest.mark.parametrize("is_in_file", [True, False])
def test_what_is_sent_to_executors_holds_the_path_of_the_file_and_no_secret(tmp_path: Path, is_in_file: bool) -> None:
    """Spark sends these by cloudpickle. The plain option travels, as its text says: that the search finds it shows that it would."""
    (tmp_path / "keys").write_text(f"accessKey: Worker77\nsecretKey: {SECRET}\nsecurityToken: token-{SECRET}\n")
    keys = {"secretKeyFile": str(tmp_path / "keys")} if is_in_file else {"accessKey": "Worker77", "secretKey": SECRET}
    source = RocketMQDataSource({**BASE, **keys})
    transactional = RocketMQDataSource({**BASE, **keys, "delivery": "transactional", "group": "exact"})
    schema = StructType([StructField("body", BinaryType())])
    retry = foreach_batch(
        lambda rows, batch_id: rows, write=lambda good, batch_id: None, group="delays", options={**BASE, **keys}
    )
    for sent in (
        source,
        source.reader(source.schema()),
        source.streamReader(source.schema()),
        source.writer(schema, overwrite=False),
        source.streamWriter(schema, overwrite=False),
        transactional.streamWriter(schema, overwrite=False),
        retry,
    ):
        content = dumps(sent)
        assert (SECRET.encode() in content) is not is_in_file, sent
        assert (str(tmp_path / "keys").encode() in content) is is_in_file, sent
        assert pickle.loads(content) is not None


def test_a_table_of_the_catalog_takes_no_secret_but_the_name_of_a_file(tmp_path: Path) -> None:
    keys = {"accessKey": "Worker77", "secretKey": SECRET}
    table = {f"option.{name}": value for name, value in {**BASE, **keys}.items()}
    with pytest.raises(ConfigurationError, match="is among the options of a table.*give secretKeyFile") as error:
        RocketMQDataSource({**table, **BASE, **keys}).schema()
    assert SECRET not in str(error.value)
    (tmp_path / "keys").write_text(f"accessKey: Worker77\nsecretKey: {SECRET}\n")
    in_file = {**BASE, "secretKeyFile": str(tmp_path / "keys")}
    schema = RocketMQDataSource({**in_file, **{f"option.{name}": value for name, value in in_file.items()}}).schema()
    assert SECRET not in schema.json()
