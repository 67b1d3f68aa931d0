# SPDX-License-Identifier: Apache-2.0
"""A broker with accounts, and the file with the keys of one of them, to be renewed while clients run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

import sprocketmq as rmq
from sprocketmq.broker import Broker, BrokerConfig, NameServer

ADMIN = {"accessKey": "Admin777", "secretKey": "admin-secret", "admin": True}
USER = {"accessKey": "Spark777", "secretKey": "secret-0", "admin": True}
GUEST = {"accessKey": "Guest777", "secretKey": "secret-0", "defaultTopicPerm": "DENY", "defaultGroupPerm": "SUB"}


@dataclass
class Secured:
    """A broker with accounts, and the file with the keys of Spark777."""

    namesrv_addr: str
    file: Path

    @property
    def options(self) -> dict[str, str]:
        return {"namesrvAddr": self.namesrv_addr, "topic": "flights", "secretKeyFile": str(self.file)}

    def renew_file(self, secret: str) -> None:
        new = self.file.with_name("new")
        new.write_text(f"accessKey: Spark777\nsecretKey: {secret}\n")
        new.rename(self.file)

    def renew_account(self, secret: str) -> None:
        with self.admin() as admin:
            admin.update_account("Spark777", secret, admin=True)

    def admin(self) -> rmq.Admin:
        return rmq.Admin(namesrv_addr=self.namesrv_addr, access_key="Admin777", secret_key="admin-secret")


@contextmanager
def secured_broker(tmp_path: Path) -> Iterator[Secured]:
    """It knows Spark777, whose secret is secret-0, and Guest777, who may nothing."""
    (tmp_path / "acl.yml").write_text(yaml.safe_dump({"accounts": [ADMIN, USER, GUEST]}))
    asks_soon = {"transactionTimeOut": "2000", "transactionCheckInterval": "300"}
    config = BrokerConfig.from_properties({"aclEnable": "true", "aclFile": f"{tmp_path}/acl.yml", **asks_soon})
    with NameServer(port=0) as namesrv, Broker(namesrv.address, port=0, config=config):
        secured = Secured(namesrv.address, tmp_path / "keys.yml")
        secured.renew_file("secret-0")
        with secured.admin() as admin:
            admin.create_topic("flights", queues=1)
        yield secured
