# SPDX-License-Identifier: Apache-2.0
"""What was deleted and acknowledged stays deleted: each road by which it could come back while the broker runs, or with its next start."""

from __future__ import annotations

import concurrent.futures
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from inproc.broker.test_broker_access import BOSS, FILE, WORKER, signing, with_accounts
from inproc.broker.test_broker_replies import asker_of, reply
from inproc.broker.test_broker_transactions import producer
from inproc.broker.test_undeliverable import arrived, end_halves, let_time_pass, store, waiting
from sprocketmq.core.resource_names import UNDELIVERABLE_TOPIC
from sprocketmq.store import config_files
from sprocketmq.wire import requests
from sprocketmq.wire.codes import RequestCode, ResponseCode
from sprocketmq.wire.headers import CreateTopicRequestHeader, DeleteTopicRequestHeader


def create(client, topic, queues=4):
    return client.begin(
        RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopicRequestHeader(topic, "TBW102", queues, queues, 6)
    )


def delete(client, topic):
    return client.begin(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic))


# -- while the broker runs ---------------------------------------------------------------------------------------------------------


def test_a_reply_whose_topic_is_deleted_while_it_is_pushed_is_stored_nowhere(disk_cluster):
    """Its record would make a queue without a topic, which the next start takes for a topic whose configuration was lost."""
    cluster, client = disk_cluster, disk_cluster.client()
    create(client, "replies").result(10)
    asker = asker_of(cluster, code=None)
    pushing = reply(client, topic="replies", begin=True)
    cluster.eventually(lambda: asker.pushed)
    assert delete(cluster.client(), "replies").result(10).code == 0
    asker.close()
    assert pushing.result(20).code == ResponseCode.SYSTEM_ERROR
    assert [queue for queue in cluster.broker.store.queues() if queue[0] == "replies"] == []
    cluster.restart_broker()
    assert cluster.broker.topics.get("replies") is None


def test_a_waiting_pull_does_not_create_its_deleted_group_again(cluster, client):
    client.send("flights")
    waits = client.begin_pull("g", "flights", 0, 1, suspend_ms=15_000)
    cluster.eventually(lambda: len(cluster.broker.parked))
    assert cluster.client().delete_group("g").code == 0
    cluster.clock.advance(15_000)
    assert waits.result(10).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "g" not in cluster.broker.groups


@pytest.mark.parametrize("kind", ["delay level", "timer", "half asked for", "half put back"])
def test_what_waits_for_a_topic_whose_configuration_a_kill_took_is_delivered_and_can_be_read(
    disk_cluster, tmp_path, kind
):
    """A send made the topic, and is acknowledged before ``topics.json`` is on the disk: nobody deleted it."""
    cluster = disk_cluster
    store(cluster, waiting(kind, cluster.clock.now_ms(), key="late"))
    cluster.kill()
    client = producer(cluster, cluster.client())
    let_time_pass(cluster, kind)
    end_halves(cluster, client)
    assert arrived(client, "flights") == ["late"]


def test_a_timer_message_that_is_to_wait_on_for_a_deleted_topic_is_set_aside(disk_cluster):
    """A deletion is remembered until the log has nothing from before it; what waits on would be stored anew, and outlive that."""
    cluster, client = disk_cluster, disk_cluster.client()
    client.send("flights")
    store(cluster, waiting("timer far away", cluster.clock.now_ms(), key="late"))
    assert delete(client, "flights").result(10).code == 0
    let_time_pass(cluster, "timer far away")
    assert arrived(client, UNDELIVERABLE_TOPIC) == ["late"]


def test_a_deletion_is_answered_when_no_older_registration_is_under_way(cluster, client):
    """Else name servers get to know the topic once more, after it was deleted there too, and the next send makes it again."""
    held, is_held = [], True

    def hold(connection, command, handler):
        if is_held and command.code == RequestCode.REGISTER_BROKER:
            held.append((connection, command, handler))
            return None
        return handler(connection, command)

    def let_go():
        nonlocal is_held
        is_held = False
        for connection, command, handler in held:
            connection.send(handler(connection, command))

    def delete_at_the_name_server():
        asker.do(requests.name_servers.DELETE_TOPIC_IN_NAMESRV, "flights")

    asker = cluster.namesrv_client()
    create(client, "flights").result(10)
    cluster.on_loop(lambda: setattr(cluster.namesrv, "intercept", hold))
    create(client, "trains")
    cluster.eventually(lambda: held)
    deleting = delete(cluster.client(), "flights")
    concurrent.futures.wait([deleting], 0.5)
    too_early = deleting.done()
    if too_early:
        delete_at_the_name_server()
    cluster.on_loop(let_go)
    assert deleting.result(20).code == 0
    if not too_early:
        delete_at_the_name_server()
    cluster.engine.run(cluster.broker.registered())
    route = asker.do(requests.name_servers.GET_ROUTEINFO_BY_TOPIC, "flights")
    assert route.code == ResponseCode.TOPIC_NOT_EXIST


@with_accounts
def test_an_account_that_is_in_two_files_is_deleted_in_both(disk_cluster):
    """The one in the second file, with its own secret, would count from then on."""
    cluster = disk_cluster
    default = cluster.broker.plain_access.default_file
    further = default.parent / "acl" / "more.yml"
    further.parent.mkdir()
    further.write_text(json.dumps({"accounts": [{**FILE["accounts"][0], "secretKey": "another-secret"}]}))
    default.write_text(json.dumps(FILE))
    cluster.clock.advance(1_000)
    boss = signing(cluster.client(), BOSS)
    assert signing(cluster.client(), (WORKER[0], "another-secret")).send("orders").code == 0
    assert boss.do(requests.accounts.DELETE_ACL_CONFIG, WORKER[0]).code == 0
    for secret in (WORKER[1], "another-secret"):
        assert signing(cluster.client(), (WORKER[0], secret)).send("orders").code == ResponseCode.NO_PERMISSION
    cluster.restart_broker()
    assert list(cluster.broker.plain_access._acl.accounts) == [BOSS[0]]


# -- with the next start -----------------------------------------------------------------------------------------------------------


def test_deleting_an_unknown_group_deletes_its_forbidden_topics_for_good(disk_cluster, tmp_path):
    client = disk_cluster.client()
    assert client.do(requests.topics.UPDATE_AND_GET_GROUP_FORBIDDEN, "g", "flights", readable=False).code == 0
    assert client.delete_group("g").code == 0
    disk_cluster.kill()
    assert disk_cluster.broker.groups.may_read("g", "flights")


@pytest.mark.parametrize("made_by", ["an administrator", "a send"])
def test_a_topic_that_a_java_broker_deleted_has_none_of_its_old_messages_when_it_is_made_again(disk_cluster, made_by):
    """A Java broker takes it out of ``topics.json`` and removes its queues, and notes nothing."""
    cluster, client = disk_cluster, disk_cluster.client()
    for topic in ("trains", "flights"):  # the start reads the last record again
        client.send(topic, b"first life")
    cluster.broker.stop()
    store_dir = Path(cluster.store_dir)
    shutil.rmtree(store_dir / "consumequeue/flights")
    for file in (store_dir / "config").glob("topics.json*"):
        topics = json.loads(file.read_bytes())
        topics["topicConfigTable"].pop("flights", None)
        file.write_text(json.dumps(topics))
    (store_dir / "lock").write_bytes(b"lock")
    cluster.restart_on(store_dir)
    client = cluster.client()
    second = [b"second life"] if made_by == "a send" else []
    if second:
        client.send("flights", *second)
    else:
        create(client, "flights", 1).result(10)
    cluster.kill()
    assert cluster.client().bodies("flights") == second
    assert cluster.client().bodies("trains") == [b"first life"]


def test_a_lost_queue_is_noticed_after_a_java_broker_also_when_topics_have_been_created_since(disk_cluster, tmp_path):
    cluster, client = disk_cluster, disk_cluster.client()
    for topic in ("trains", "flights"):
        client.send(topic, b"first life")
    cluster.broker.stop()
    store_dir = Path(cluster.store_dir)
    (store_dir / "lock").write_bytes(b"lock")
    cluster.restart_on(store_dir)
    create(cluster.client(), "ships", 1).result(10)
    cluster.copy_as_killed(tmp_path / "killed")
    shutil.rmtree(tmp_path / "killed/consumequeue/trains")
    cluster.restart_on(tmp_path / "killed")
    assert cluster.client().bodies("trains") == [b"first life"]


def test_a_deletion_that_a_kill_cut_off_between_its_files_leaves_nothing_for_the_next_life(
    disk_cluster, tmp_path, monkeypatch
):
    """A topic that ``topics.json`` has no more, and whose deletion is noted nowhere: it is made again, and the log is read anew."""
    cluster, client, let_go, save = disk_cluster, disk_cluster.client(), threading.Event(), config_files.save_config

    def held(path, raw, **options):
        if os.path.basename(path) == "deletedTopics.json":
            assert let_go.wait(60)
        save(path, raw, **options)

    client.send("flights", b"first life")
    cluster.restart_broker()
    client = cluster.client()
    client.send("trains")  # the next start begins here
    monkeypatch.setattr(config_files, "save_config", held)
    deleting = delete(client, "flights")
    create(cluster.client(), "ships")
    concurrent.futures.wait([deleting], 1)
    cluster.copy_as_killed(tmp_path / "between")
    let_go.set()
    assert deleting.result(10).code == 0
    monkeypatch.undo()
    cluster.restart_on(tmp_path / "between")
    client = cluster.client()
    if cluster.broker.topics.get("flights") is not None:
        assert delete(client, "flights").result(10).code == 0
    assert create(client, "flights").result(10).code == 0
    cluster.copy_as_killed(tmp_path / "again")
    shutil.rmtree(tmp_path / "again/consumequeue")
    (tmp_path / "again/checkpoint").unlink()
    cluster.restart_on(tmp_path / "again")
    assert cluster.client().messages("flights") == []


def test_offsets_of_a_topic_whose_deletion_was_cut_off_are_off_the_disk_before_it_is_made_again(
    disk_cluster, tmp_path, monkeypatch
):
    cluster, client, save = disk_cluster, disk_cluster.client(), config_files.save_config

    def slow(path, raw, **options):
        if os.path.basename(path) == "consumerOffset.json":
            threading.Event().wait(0.5)
        save(path, raw, **options)

    client.send("flights")
    client.pull("g", "flights")
    assert client.commit("g", "flights", 0, 1).code == 0
    offsets = Path(cluster.store_dir) / "config/consumerOffset.json"
    cluster.clock.advance(5_000)
    cluster.eventually(lambda: offsets.exists() and b'"flights@g":{0:1}' in offsets.read_bytes())
    before = offsets.read_bytes()
    assert delete(client, "flights").result(10).code == 0
    copy = tmp_path / "cut-off"
    cluster.copy_as_killed(copy)
    (copy / "config/consumerOffset.json").write_bytes(before)
    monkeypatch.setattr(config_files, "save_config", slow)
    cluster.restart_on(copy)
    assert b"flights@g" not in (copy / "config/consumerOffset.json").read_bytes()


@pytest.mark.parametrize("sent_again", [[], [1], [0, 1], [0, 0, 0, 1, 1, 1]])
@pytest.mark.parametrize("made_again", [False, True])
def test_queues_of_a_deleted_topic_that_a_power_cut_brought_back_hold_no_deleted_message(
    disk_cluster, tmp_path, made_again, sent_again
):
    """Each of its queues, whole or empty, whatever the topic's other queues hold by now."""
    if sent_again and not made_again:
        return
    cluster, client = disk_cluster, disk_cluster.client()
    for number in range(6):
        client.send("flights", b"first life", queue_id=number % 3)
    cluster.on_loop(lambda: cluster.broker.store.flush())
    folder = Path(cluster.store_dir) / "consumequeue/flights"
    shutil.copytree(folder, tmp_path / "flights")
    for file in (tmp_path / "flights/2").iterdir():  # its length is there, its data is not
        file.write_bytes(bytes(file.stat().st_size))
    assert delete(client, "flights").result(10).code == 0
    if made_again:
        assert create(client, "flights").result(10).code == 0
    for number, queue_id in enumerate(sent_again):
        client.send("flights", b"%d" % number, queue_id=queue_id)
    cluster.on_loop(lambda: cluster.broker.store.flush())
    copy = tmp_path / "after-the-cut"
    cluster.copy_as_killed(copy)
    for queue in (tmp_path / "flights").iterdir():
        if int(queue.name) not in sent_again:
            shutil.copytree(queue, copy / "consumequeue/flights" / queue.name)
    cluster.restart_on(copy)
    client = cluster.client()
    assert (cluster.broker.topics.get("flights") is not None) == made_again
    for queue_id in range(3):
        expected = [b"%d" % number for number, queue in enumerate(sent_again) if queue == queue_id]
        assert client.bodies("flights", queue_id) == expected
        if made_again:
            offset = client.send("flights", b"next", queue_id=queue_id).ext_fields["queueOffset"]
            assert offset == str(len(expected))
    cluster.kill()
    assert (cluster.broker.topics.get("flights") is not None) == made_again


@pytest.mark.parametrize("code", [RequestCode.CLEAN_UNUSED_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER])
def test_queues_without_a_topic_that_were_deleted_stay_deleted(disk_cluster, tmp_path, code):
    cluster, client = disk_cluster, disk_cluster.client()
    client.send("flights")
    client.send("trains")
    cluster.on_loop(
        lambda: cluster.broker.store.flush()
    )  # a start after a kill compares the queues with the checkpoint
    cluster.on_loop(lambda: cluster.broker.topics.table.pop("flights"))
    assert client.ask(code, DeleteTopicRequestHeader("flights")).code == 0
    cluster.kill()
    assert {topic for topic, _ in cluster.broker.store.queues()} == {"trains"}
    assert cluster.broker.topics.get("flights") is None


# -- a log that is shorter than what was noted ---------------------------------------------------------------------------------------


def test_a_deletion_counts_no_longer_than_the_log_in_which_it_happened(disk_cluster):
    """The log's end at a deletion says nothing about another log: an administrator removed it, or a power cut took its tail."""
    cluster, client = disk_cluster, disk_cluster.client()
    create(client, "flights", 1).result(10)
    for _ in range(5):
        client.send("flights", b"first life")
    for _ in range(30):
        client.send("others", b"what makes the log long")
    assert delete(client, "flights").result(10).code == 0
    create(client, "flights", 1).result(10)
    store_dir = Path(cluster.store_dir)
    assert json.loads((store_dir / "config/deletedTopics.json").read_bytes()) == {
        "flights": cluster.broker.store.max_physical_offset
    }
    cluster.broker.stop()
    for name in ("commitlog", "consumequeue", "index"):
        shutil.rmtree(store_dir / name)
    (store_dir / "checkpoint").unlink()
    cluster.restart_on(store_dir)
    assert json.loads((store_dir / "config/deletedTopics.json").read_bytes()) == {}
    client = cluster.client()
    for _ in range(10):
        assert client.send("flights", b"second life").code == 0
    cluster.restart_broker()
    assert cluster.broker.store.max_offset("flights", 0) == 10
