# SPDX-License-Identifier: Apache-2.0
"""mqadmin's three ways to find a message, of both versions, against our broker."""

from __future__ import annotations


def test_mqadmin_finds_a_message_by_id_by_unique_key_and_by_key(server, java_version, topic, start, tools):
    with start("Producer", topic=topic, count=3, tags="UA", keys=3) as producer:
        sent = producer.read_rest("sent")[1]
    mqadmin = tools(java_version).run
    namesrv = ("-n", server.namesrv_addr)
    questions = [
        ("queryMsgById", *namesrv, "-t", topic, "-i", sent["offsetMsgId"]),
        ("queryMsgByUniqueKey", *namesrv, "-t", topic, "-i", sent["msgId"]),
    ]
    if java_version == "4.9.7":  # which does not ask for a topic there
        questions[0] = ("queryMsgById", *namesrv, "-i", sent["offsetMsgId"])
    for question in questions:
        printed = mqadmin(*question)
        assert "Exception" not in printed, printed
        for field in (topic, "[UA]", "[key-1]", sent["msgId"], f"Queue Offset:        {sent['queueOffset']}"):
            assert field in printed, printed
    printed = mqadmin("queryMsgByKey", *namesrv, "-t", topic, "-k", "key-1")
    assert "Exception" not in printed, printed
    assert sent["msgId"] in printed or sent["offsetMsgId"] in printed, printed
