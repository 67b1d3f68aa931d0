# SPDX-License-Identifier: Apache-2.0
"""The mqadmin commands of all versions, in the order in which they are run: what each is given, or why it is not run.

`<word>` is filled in: addresses, the topic, the group, a message id. Commands that ask for ever are given the option that ends them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from interop.java_peers import ALL_VERSIONS, APACHE_4, APACHE_5, APACHE_55


class Command(NamedTuple):
    """One line for mqadmin. `reason`: why its output is not Apache's, empty when it is. `rates`: its small numbers are
    measurements. `fails`: why it ends with an exception at Apache's too.
    """

    words: str
    versions: tuple[str, ...] = ALL_VERSIONS
    reason: str = ""
    rates: bool = False
    fails: str = ""

    @property
    def name(self) -> str:
        return self.words.split(" ", 1)[0]


_5: Final = (APACHE_5, APACHE_55)
_4: Final = (APACHE_4,)

_NO_ACCOUNTS: Final = "no accounts in this run (aclEnable=false); tests/interop/test_access.py runs it with accounts"
_SYSTEM_TOPICS: Final = (
    "the system topics of 5.x that are needed here; Apache's for RocksDB, POP and controllers are not made"
)
_MARKS: Final = "messages keep MSG_REGION and TRACE_ON, as 5.4.0 stores them"
_SETTINGS: Final = "the settings that there are here"
_RUNNING: Final = (
    "latencies of puts are not kept; each delay level has a line, and two lines are there under older names too"
)

COMMANDS: Final = (
    Command("updateTopic -n <namesrv> -b <broker> -t <topic>-made -r 3 -w 3"),
    Command("updateTopicPerm -n <namesrv> -b <broker> -t <topic>-made -p 4"),
    Command("updateTopicList -n <namesrv> -b <broker> -f <folder>/topics.json", _5),
    Command("updateSubGroup -n <namesrv> -b <broker> -g made -r 3 -q 2"),
    Command("updateSubGroupList -n <namesrv> -b <broker> -f <folder>/groups.json", _5),
    Command("setConsumeMode -n <namesrv> -b <broker> -t <topic> -g made -m PULL", _5),
    Command("updateBrokerConfig -n <namesrv> -b <broker> -k maxMessageSize -v 4194303"),
    Command("clusterList -n <namesrv>", rates=True),
    Command("clusterList -n <namesrv> -m", rates=True),
    Command("topicList -n <namesrv>", reason=_SYSTEM_TOPICS),
    Command("topicList -n <namesrv> -c", reason=_SYSTEM_TOPICS),
    Command("topicRoute -n <namesrv> -t <topic>"),
    Command("topicStatus -n <namesrv> -t <topic>"),
    Command("topicClusterList -n <namesrv> -t <topic>"),
    Command("allocateMQ -n <namesrv> -t <topic> -i 10.0.0.1,10.0.0.2"),
    Command("brokerStatus -n <namesrv> -b <broker>", reason=_RUNNING, rates=True),
    Command("getBrokerConfig -n <namesrv> -b <broker>", reason=_SETTINGS),
    Command("getNamesrvConfig -n <namesrv>", reason=_SETTINGS),
    Command("updateNamesrvConfig -n <namesrv> -k serverChannelMaxIdleTimeSeconds -v 121"),
    Command("getConsumerConfig -n <namesrv> -g <group>"),
    Command("queryMsgById -n <namesrv> -t <topic> -i <message>", _5),
    Command("queryMsgById -n <namesrv> -i <message>", _4, reason=_MARKS),
    Command("queryMsgByKey -n <namesrv> -t <topic> -k key-1"),
    Command("queryMsgByUniqueKey -n <namesrv> -t <topic> -i <unique>", reason=_MARKS),
    Command("queryMsgByOffset -n <namesrv> -t <topic> -b broker-a -i 0 -o 0", reason=_MARKS),
    Command("queryMsgTraceById -n <namesrv> -i <unique> -t <topic>", fails="the topic holds no traces"),
    Command("queryCq -n <namesrv> -t <topic> -q 0 -i 0 -c 3 -b <broker>", reason=_MARKS),
    Command("printMsg -n <namesrv> -t <topic> -d true", reason=_MARKS),
    Command("printMsgByQueue -n <namesrv> -t <topic> -a broker-a -i 0 -p true -d true", reason=_MARKS),
    Command("sendMessage -n <namesrv> -t <topic> -p hello -k sent -c A -b broker-a -i 1"),
    Command("consumeMessage -n <namesrv> -t <topic> -b broker-a -i 0 -o 0 -c 2 -g tool-readers", reason=_MARKS),
    Command("sendMsgStatus -n <namesrv> -b broker-a -s 128 -c 2"),
    Command("checkMsgSendRT -n <namesrv> -t <topic> -a 2 -s 128", rates=True),
    Command("brokerConsumeStats -n <namesrv> -b <broker>"),
    Command("producerConnection -n <namesrv> -g <producers> -t <topic>"),
    Command("consumerConnection -n <namesrv> -g <group>"),
    Command("consumerProgress -n <namesrv> -g <group>"),
    Command("consumerProgress -n <namesrv>"),
    Command("consumerStatus -n <namesrv> -g <group> -i member@compared"),
    Command("producer -n <namesrv> -b <broker>"),
    Command("statsAll -n <namesrv> -t <topic>", rates=True),
    Command("cloneGroupOffset -n <namesrv> -s <group> -d made -t <topic> -o true"),
    Command("resetOffsetByTime -n <namesrv> -g <group> -t <topic> -s -1 -f true"),
    Command("skipAccumulatedMessage -n <namesrv> -g <group> -t <topic>"),
    Command("updateKvConfig -n <namesrv> -s compared -k k -v v"),
    Command("deleteKvConfig -n <namesrv> -s compared -k k"),
    Command("updateOrderConf -n <namesrv> -t <topic> -m put -v broker-a:4"),
    Command("updateOrderConf -n <namesrv> -t <topic> -m get"),
    Command("wipeWritePerm -n <namesrv> -b broker-a", reason=_SYSTEM_TOPICS),
    Command("addWritePerm -n <namesrv> -b broker-a", reason=_SYSTEM_TOPICS),
    Command("cleanExpiredCQ -n <namesrv> -b <broker>"),
    Command("cleanUnusedTopic -n <namesrv> -b <broker>"),
    Command("deleteExpiredCommitLog -n <namesrv> -b <broker>"),
    Command("haStatus -n <namesrv> -b <broker>", _5),
    Command("exportMetadata -n <namesrv> -b <broker> -f <folder>"),
    Command("exportConfigs -n <namesrv> -c DefaultCluster -f <folder>"),
    Command("exportMetrics -n <namesrv> -c DefaultCluster -f <folder>"),
    Command("updateAclConfig -n <namesrv> -b <broker> -a compared -s compared-secret", _4, fails=_NO_ACCOUNTS),
    Command("updateGlobalWhiteAddr -n <namesrv> -b <broker> -g 127.0.0.9", _4, fails=_NO_ACCOUNTS),
    Command("clusterAclConfigVersion -n <namesrv> -b <broker>", _4, fails=_NO_ACCOUNTS),
    Command("getAclConfig -n <namesrv> -b <broker>", _4, fails=_NO_ACCOUNTS),
    Command("deleteAclConfig -n <namesrv> -b <broker> -a compared", _4, fails=_NO_ACCOUNTS),
    Command("createUser -n <namesrv> -b <broker> -u compared -p compared-password -t Normal", _5),
    Command("updateUser -n <namesrv> -b <broker> -u compared -p another", _5),
    Command("getUser -n <namesrv> -b <broker> -u compared", _5),
    Command("listUser -n <namesrv> -b <broker>", _5),
    Command("createAcl -n <namesrv> -b <broker> -s User:compared -r Topic:<topic> -a Pub -d Allow", _5),
    Command("updateAcl -n <namesrv> -b <broker> -s User:compared -r Topic:<topic> -a Sub -d Allow", _5),
    Command("getAcl -n <namesrv> -b <broker> -s User:compared", _5),
    Command("listAcl -n <namesrv> -b <broker>", _5),
    Command("copyUser -n <namesrv> -f <broker> -t <broker> -u compared", _5),
    Command("copyAcl -n <namesrv> -f <broker> -t <broker> -s User:compared", _5),
    Command("deleteAcl -n <namesrv> -b <broker> -s User:compared", _5),
    Command("deleteUser -n <namesrv> -b <broker> -u compared", _5),
    Command("deleteSubGroup -n <namesrv> -b <broker> -g made"),
    Command("deleteTopic -n <namesrv> -c DefaultCluster -t <topic>-made"),
)

_CONTROLLER: Final = "controllers are not there"
_CONTAINER: Final = "broker containers are not there"
_ROCKSDB: Final = "nothing is kept in RocksDB"
_COLD: Final = "cold data flow control is not there"
_STATIC: Final = "static topics are not there"
_LITE: Final = "lite topics are not there"

SKIPPED: Final = {
    "addBroker": _CONTAINER,
    "removeBroker": _CONTAINER,
    "resetMasterFlushOffset": _CONTROLLER,
    "getBrokerEpoch": _CONTROLLER,
    "getSyncStateSet": _CONTROLLER,
    "getControllerMetaData": _CONTROLLER,
    "getControllerConfig": _CONTROLLER,
    "updateControllerConfig": _CONTROLLER,
    "electMaster": _CONTROLLER,
    "cleanBrokerMetadata": _CONTROLLER,
    "getColdDataFlowCtrInfo": _COLD,
    "updateColdDataFlowCtrGroupConfig": _COLD,
    "removeColdDataFlowCtrGroupConfig": _COLD,
    "setCommitLogReadAheadMode": _COLD,
    "updateStaticTopic": _STATIC,
    "remappingStaticTopic": _STATIC,
    "switchTimerEngine": _ROCKSDB,
    "rocksDBConfigToJson": _ROCKSDB,
    "exportMetadataInRocksDB": _ROCKSDB,
    "checkRocksdbCqWriteProgress": _ROCKSDB,
    **dict.fromkeys(("getBrokerLiteInfo", "getLiteClientInfo", "getLiteGroupInfo", "getLiteTopicInfo"), _LITE),
    "getParentTopicInfo": _LITE,
    "triggerLiteDispatch": _LITE,
    "exportPopRecord": "POP consumption is not there",
    "dumpCompactionLog": "reads files of a compaction store, asks no server",
    "clusterRT": "sends for ever, until it is killed",
    "startMonitoring": "watches for ever, until it is killed",
}
