# SPDX-License-Identifier: Apache-2.0
"""Apache's proxy on this machine, for remoting clients (`ApacheProxy`) and for gRPC clients (`LocalProxy`); it listens on every address."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from interop.apache_cluster import BROKER_HEAP, ApacheCluster, ServerJvm, free_ports
from interop.child import poll_until
from interop.remoting import can_send, has_route

_PROXY: Final = "org.apache.rocketmq.proxy.ProxyStartup"
READY_TOPIC: Final = "ProxyIsReady"
_HEAP: Final = ("-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m")
# 20 s each: how long it remembers a route or that there is none, and until brokers know of a new producer of transactions.
_EAGER: Final = {"topicRouteServiceCacheRefreshSeconds": 1, "transactionHeartbeatPeriodSecond": 1}
_AUTH: Final = "org.apache.rocketmq.auth"
# A proxy in CLUSTER mode asks the brokers for users and policies, as their first user.
_ACCOUNTS: Final = {
    "enableAclRpcHookForClusterMode": True,
    "authenticationEnabled": True,
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider",
    "authorizationEnabled": True,
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthorizationMetadataProvider",
}


class ApacheProxy:
    """A proxy in CLUSTER mode before running brokers: to a client `namesrv_addr` is the name server and every broker at once.

    It answers what it does not know yet from a cache for up to 20 s (topicRouteServiceCacheRefreshSeconds; in tests 1 s): make a topic
    before a client asks for it. It checks the type of a topic (enableTopicMessageTypeCheck), and wants the broker's name in each request.

    Args:
        clusters: of one version at one name server; more than one makes several brokers with one address. The caller ends them.
        tls: plain connections are refused.
        jvm_flags: e.g. -Drocketmq.serialize.type=ROCKETMQ.
        proxy_conf: further keys of rmq-proxy.json (ProxyConfig, AuthConfig).
    """

    def __init__(
        self,
        *clusters: ApacheCluster,
        tls: bool = False,
        jvm_flags: tuple[str, ...] = (),
        **proxy_conf: str | int | bool,
    ) -> None:
        self.clusters = clusters
        self.version = clusters[0].version
        self.keys = clusters[0].keys
        self.home = Path(tempfile.mkdtemp(prefix=f"apache-proxy-{self.version}-"))
        self.namesrv_addr = ""
        self._tls = tls
        self._jvm_flags = jvm_flags
        self._proxy_conf = proxy_conf
        self._jvm: ServerJvm | None = None

    @property
    def pid(self) -> int:
        assert self._jvm is not None, "the proxy is not started"
        return self._jvm.pid

    def start(self) -> ApacheProxy:
        """Return when a message can be sent through it to each broker; same port after a `kill`.

        Raises:
            TimeoutError, RuntimeError: it did not come up; its last words are in the message.
        """
        port = int(self.namesrv_addr.rsplit(":", 1)[1]) if self.namesrv_addr else free_ports(1)
        self.namesrv_addr = f"127.0.0.1:{port}"
        conf = self.home / "rmq-proxy.json"
        conf.write_text(json.dumps(self._keys_of_configuration(port)), "utf-8")
        flags = (*_HEAP, *(("-Dtls.server.mode=enforcing",) if self._tls else ()), *self._jvm_flags)
        quickly = ApacheCluster.starts_quickly
        java = self.clusters[0].java
        for cluster in self.clusters:
            cluster.create_topic(READY_TOPIC, 1)
        self._jvm = ServerJvm(java, "proxy", _PROXY, "-pc", str(conf), flags=flags, home=self.home, quickly=quickly)
        try:
            self._jvm.wait_until(self._is_ready, "messages can be sent through the proxy")
        except BaseException:
            self.stop()
            raise
        return self

    def _keys_of_configuration(self, port: int) -> dict[str, Any]:
        keys: dict[str, Any] = {
            "proxyMode": "CLUSTER",
            "rocketMQClusterName": "DefaultCluster",
            "namesrvAddr": self.clusters[0].namesrv_addr,
            "localServeAddr": "127.0.0.1",
            "remotingListenPort": port,
            "grpcServerPort": port + 1,
            **(_EAGER if ApacheCluster.starts_quickly else {}),
        }
        if self.keys is not None:
            inner = {"accessKey": self.keys.access, "secretKey": self.keys.secret}
            keys |= {**_ACCOUNTS, "innerClientAuthenticationCredentials": json.dumps(inner)}
        return keys | self._proxy_conf

    def _is_ready(self) -> bool:
        return self.has_route(READY_TOPIC) and all(
            can_send(self.namesrv_addr, READY_TOPIC, cluster.broker_name, keys=self.keys, tls=self._tls)
            for cluster in self.clusters
        )

    def has_route(self, topic: str) -> bool:
        return has_route(self.namesrv_addr, topic, keys=self.keys, tls=self._tls)

    def create_topic(self, topic: str, queues: int = 8, message_type: str = "NORMAL", **header: str) -> None:
        """Create a topic at every broker, as an administrator does, and wait until clients find it.

        Args:
            message_type: NORMAL, FIFO, DELAY, TRANSACTION or MIXED: what may be sent to it.
            header: overrides fields of the request.
        """
        for cluster in self.clusters:
            cluster.create_topic(topic, queues, **{"attributes": f"+message.type={message_type}", **header})
        poll_until(lambda: self.has_route(topic), f"the proxy finds topic {topic}")

    def kill(self) -> None:
        """Kill it as a crash would; `start` starts anew."""
        assert self._jvm is not None, "the proxy is not started"
        self._jvm.kill()
        self._jvm = None

    def stop(self) -> None:
        """End it, not the brokers."""
        if self._jvm is not None:
            self._jvm.stop(60.0 if self._jvm.makes_archive else 0.0)
            self._jvm = None
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> ApacheProxy:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.stop()


class LocalProxy(ApacheCluster):
    """A name server, and a proxy in LOCAL mode: one process that is a broker to remoting clients and a proxy to gRPC clients.

    Remoting clients use `namesrv_addr` and the broker's own port, as without a proxy. The proxy's remoting port (`proxy_addr`) is of no
    use to them, at 5.4.0 and 5.5.0 alike: its routes name the gRPC port as the broker (LocalTopicRouteService), which speaks HTTP/2 only
    (MultiProtocolRemotingServer lets gRPC in at the remoting port, not the other way round), and who sends, pulls or asks for offsets at
    the remoting port itself is told "request is not implemented in LocalMessageService" (code 1).

    Args:
        broker_conf: as of ApacheCluster.
    """

    def __init__(self, version: str, **broker_conf: Any) -> None:
        super().__init__(version, **broker_conf)
        self.endpoints = ""
        self.proxy_addr = ""

    def _start_broker(self, conf: Path) -> ServerJvm:
        port = free_ports(1)
        self.endpoints, self.proxy_addr = f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
        keys = {
            "proxyMode": "LOCAL",
            "rocketMQClusterName": "DefaultCluster",
            "namesrvAddr": self.namesrv_addr,
            "localServeAddr": "127.0.0.1",
            "grpcServerPort": port,
            "remotingListenPort": port + 1,
        }
        proxy_conf = self.home / "rmq-proxy.json"
        proxy_conf.write_text(json.dumps(keys), "utf-8")
        return self._jvm("local-proxy", _PROXY, "-bc", str(conf), "-pc", str(proxy_conf), heap=BROKER_HEAP)
