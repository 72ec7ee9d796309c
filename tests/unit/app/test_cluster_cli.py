"""`stampede cluster …` against a store in memory: what operators read and what they may break."""

from __future__ import annotations

import http.server
import json
import threading
from typing import ClassVar

import pytest
from click.testing import CliRunner

from broker.app.commands import cluster_cli
from broker.app.commands.etcd import cluster_copies_cli
from broker.cluster.keys import Keys
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Delete, Put
from tests.harness.metadata import MemoryMetadata, MemoryStore

KEYS = Keys("/stampede/default")


@pytest.fixture
def store(monkeypatch):
    """Three owners at rest, one edge."""
    store = MemoryStore()
    monkeypatch.setattr(cluster_cli, "connect", lambda settings: MemoryMetadata(store))
    for name in "abc":
        register(store, name)
    edge = Member("e0", "edge", "e0:1", "boot", zone="z")
    store.commit([], [Put(KEYS.member("edge", "e0"), edge.encode())])
    for slot in range(256):
        put(store, SlotRecord(slot, 1, "abc"[slot % 3], ("a", "b", "c"), ("a", "b", "c")))
    return store


def register(store, name, **more):
    member = Member(name, "owner", f"{name}:1", f"boot-{name}", **more)
    store.commit([], [Put(KEYS.member("owner", name), member.encode())])


def put(store, record):
    store.commit([], [Put(KEYS.slot(record.slot), record.encode())])


def read(store, slot):
    item = store.keys[KEYS.slot(slot)]
    return SlotRecord.decode(slot, item.value, item.revision)


def run(*args, status=0, stdin=None):
    """The command's stdout (stderr when it fails)."""
    done = CliRunner().invoke(cluster_copies_cli.cluster, args, input=stdin, catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done.stdout if status == 0 else done.output


def test_status_of_a_cluster_at_rest(store):
    text = run("status")
    assert "a      up        86       ?       256      256" in text
    assert "e0    up" in text and "Slots: 256, online 256, offline 0" in text and "Left to do: nothing" in text
    seen = json.loads(run("status", "--json"))
    assert seen["slots"]["online"] == 256 and seen["left_to_move"] == {}
    assert [owner["leads"] for owner in seen["owners"]] == [86, 85, 85]


def test_status_tells_of_trouble_and_fails_when_a_slot_is_offline(store):
    put(store, SlotRecord(7, 3, "x", ("x",), ("x",)))
    text = run("status", status=1)
    assert "offline 1" in text and "x      dead" in text


def test_status_names_what_of_the_configuration_cannot_be_read_and_its_own_words_mend_it(store):
    key = KEYS.permission("orders")
    store.commit([], [Put(key, b'{"send": '), Put(KEYS.permission("#"), b'{"send": "*"}')])
    text = run("status")
    assert f"{key} cannot be read" in text and "`stampede cluster permissions set orders NAME=VALUE`" in text
    assert list(json.loads(run("status", "--json"))["unreadable"]) == [key]
    assert json.loads(run("permissions", "get")) == {"#": {"send": "*"}, "orders": {}}
    run("permissions", "set", "orders", "send=shop")
    assert "cannot be read" not in run("status")
    store.commit([], [Put(KEYS.user("ada"), b"[]")])
    assert "`stampede cluster users remove ada`" in run("status")
    run("users", "remove", "ada")
    assert json.loads(run("status", "--json"))["unreadable"] == {}


def test_status_says_which_owners_edges_cannot_reach(store):
    edge = Member("e0", "edge", "", "boot", unreached=("b", "gone"))
    store.commit([], [Put(KEYS.member("edge", "e0"), edge.encode())])
    assert "b is not reached by 1 of 1 edges: e0; its slots go to others" in run("status")
    seen = json.loads(run("status", "--json"))
    assert seen["unreached"] == {"b": ["e0"]} and seen["left_to_move"] == {"transfer": 85}
    other = Member("e1", "edge", "", "boot")
    store.commit([], [Put(KEYS.member("edge", "e1"), other.encode())])
    assert "b is not reached by 1 of 2 edges: e0\n" in run("status")


class Answers(http.server.BaseHTTPRequestHandler):
    """An owner's admin port."""

    told: ClassVar[dict[str, object]] = {}

    def do_GET(self):
        assert self.path == "/api/slots"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.told).encode())

    def log_message(self, *_): ...


@pytest.fixture
def admin():
    """Where it listens."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_status_says_what_owners_themselves_say_they_serve(store, admin):
    """The table says that all slots are online; their leader knows better."""
    register(store, "a", admin=admin)
    register(store, "b", admin="127.0.0.1:1")
    late = {"why": "takes over; waits for c (silent)", "since_s": 3.4}
    Answers.told = {"serves": 84, "not_served": {"3": late, "6": {**late, "since_s": 7.6}, "1": late}}
    text = run("status")
    assert "Slots: 256, online 256" in text
    assert "a      up        86      84" in text and "b      up        85       ?" in text
    assert "Not served for 8 s: 2 slots (3, 6): a takes over; waits for c (silent)\n" in text, "1 is not its own"
    seen = json.loads(run("status", "--json"))
    assert seen["not_served"][0] == {"slot": 3, "leader": "a", **late}
    assert [owner["serves"] for owner in seen["owners"]] == [84, None, None]


def test_status_says_which_owner_does_not_know_that_it_leads(store, admin):
    """One that followed the slot table no more led 85 slots, served none, and nothing was said."""
    register(store, "a", admin=admin)
    Answers.told = {"serves": 0, "not_served": {"0": {"why": "takes over", "since_s": 3.4}}}
    text = run("status")
    assert "Not served for 3 s: 1 slot (0): a takes over" in text
    assert "Not served: 85 slots (3, 6, 9, " in text and "a serves none and has no reason" in text


def test_status_says_why_slots_have_no_leader(store):
    put(store, SlotRecord(7, 3, "x", ("x",), ("x",)))
    put(store, SlotRecord(8, 3, "", ("x",), ("x",)))
    text = run("status", status=1)
    assert "Not served: 1 slot (7): x is not registered" in text
    assert "Not served: 1 slot (8): no in-sync replica lives" in text


def test_status_names_slots_that_are_out_of_service_and_unshelve_has_them_tried_again(store):
    put(store, SlotRecord(7, 3, "", ("a", "b"), ("a", "b"), shelved="a, b stopped because of it"))
    text = run("status", status=1)
    assert "Slot 7 is shelved: a, b stopped because of it; `stampede cluster unshelve 7`" in text
    done = CliRunner().invoke(cluster_cli.cluster, ["status", "--json"])
    assert json.loads(done.stdout)["shelved"] == {"7": "a, b stopped because of it"}
    assert run("unshelve", "7") == "Slot 7 is tried again.\n"
    assert read(store, 7).shelved == ""
    assert "not shelved" in run("unshelve", "7", status=1)


def test_status_shows_how_far_a_drain_is(store):
    register(store, "d")
    assert run("drain", "c") == "c is being drained.\n"
    assert run("drain", "c") == "c already is being drained.\n"
    text = run("status")
    assert "c      up, draining" in text and "256 × add, 256 × drop" in text
    steps = json.loads(run("plan", "--json"))
    assert sum(step["kind"] == "drop" and step["owner"] == "c" for step in steps) == 256
    assert "slot 0: add replica on d" in run("plan")
    assert run("undrain", "c") == "c may have slots again.\n"
    assert "c was not drained" in run("undrain", "c")


def test_a_dead_owner_is_drained_but_a_slip_of_the_pen_is_not(store):
    assert "There is no owner 'd', dead or alive" in run("drain", "d", status=1)
    assert "drain" not in run("status")
    store.commit([], [Delete(KEYS.member("owner", "c"))])
    assert run("drain", "c") == "c is being drained.\n"
    assert "c      dead, draining" in run("status", status=1)


def test_plan_uses_the_policy_of_the_controller(store):
    holder = {"id": "a", "boot": "boot-a", "replicas": 2, "min_in_sync": 1, "max_moves": 8}
    store.commit([], [Put(KEYS.controller, json.dumps(holder).encode())])
    assert sum(step["kind"] == "drop" for step in json.loads(run("plan", "--json"))) in range(256, 265)


def test_move_asks_the_leader_to_hand_over(store):
    run("move", "0", "b", "--wait", "0")
    assert read(store, 0).target == "b"
    assert "still handing over" in run("move", "0", "b", "--wait", "0.3", status=1)
    put(store, SlotRecord(0, 2, "b", ("a", "b", "c"), ("a", "b", "c")))
    assert run("move", "0", "b") == "b leads slot 0.\n"


def test_move_makes_a_replica_first(store):
    register(store, "d")
    run("move", "0", "d", "--wait", "0")
    assert read(store, 0).replicas == ("a", "b", "c", "d") and read(store, 0).target == ""


@pytest.mark.parametrize(
    "args, text",
    [
        (("move", "0", "x"), "There is no live owner 'x'"),
        (("move", "256", "a"), "slots are 0 to 255"),
        (("force", "0", "a", "--accept-data-loss"), "has a live in-sync replica on a, nothing needs to be lost"),
    ],
)
def test_refusals_say_what_would_help(store, args, text):
    before = store.revision
    assert text in run(*args, status=1)
    assert store.revision == before


def test_force_wants_to_hear_that_data_may_be_lost(store):
    put(store, SlotRecord(7, 3, "x", ("x", "a"), ("x",)))
    assert "say --accept-data-loss" in run("force", "7", "a", status=2)
    assert run("force", "7", "a", "--accept-data-loss") == "a leads slot 7 in epoch 4.\n"
    record = read(store, 7)
    assert (record.leader, record.isr, record.replicas) == ("a", ("a",), ("a",))


def test_settings_are_checked_before_they_are_written(store):
    assert json.loads(run("settings", "set", "orders.#", "max_delivery_attempts=3", "auto_create=no")) == {
        "max_delivery_attempts": 3, "auto_create": False
    }  # fmt: skip
    assert json.loads(run("settings", "set", "orders.#", "auto_create=")) == {"max_delivery_attempts": 3}
    assert json.loads(run("settings", "get")) == {"orders.#": {"max_delivery_attempts": 3}}
    before = store.revision
    assert "Did you mean max_delivery_attempts" in run("settings", "set", "a", "max_delivery_attemps=3", status=1)
    assert "it must be yes or no" in run("settings", "set", "a", "auto_create=perhaps", status=1)
    assert "must be NAME=VALUE" in run("settings", "set", "a", "auto_create", status=2)
    assert store.revision == before
    run("settings", "set", "orders.#", "max_delivery_attempts=")
    assert KEYS.setting("orders.#") not in store.keys


def test_addresses(store):
    run("addresses", "set", "orders", "partitions=4")
    assert json.loads(run("addresses", "get", "orders")) == {"partitions": 4}


def test_partitions_only_grow(store):
    run("addresses", "set", "orders", "partitions=4")
    before = store.revision
    for less in (["set", "orders", "partitions=3"], ["set", "orders", "partitions="], ["delete", "orders"]):
        assert "orders has 4 partitions" in run("addresses", *less, status=1)
    assert store.revision == before
    run("addresses", "set", "orders", "partitions=6", "auto_create=no")
    assert json.loads(run("addresses", "set", "orders", "auto_create=")) == {"partitions": 6}
    run("settings", "set", "#", "partitions=2")
    assert "may only grow" in run("settings", "set", "#", "partitions=1", status=1)


def test_queues_and_diverts_are_checked_as_in_a_config_file(store):
    run("queues", "set", "me.news", "address=news.#", "routing=multicast")
    assert json.loads(run("queues", "set", "me.news", "ring_size=100")) == {
        "address": "news.#", "routing": "MULTICAST", "ring_size": 100
    }  # fmt: skip
    before = store.revision
    assert "routing must be MULTICAST" in run("queues", "set", "me.news", "routing=ANYCAST", status=1)
    assert "Invalid selector" in run("queues", "set", "q", "selector=a = ", status=1)
    assert "a divert needs" in run("diverts", "set", "copy", "address=a", status=1)
    assert "diverted to itself" in run("diverts", "set", "copy", "address=a", "forward=b,a", status=1)
    assert store.revision == before
    run("diverts", "set", "copy", "address=a", "forward=b,c")
    assert json.loads(run("diverts", "get")) == {"copy": {"address": "a", "forward": "b,c"}}
    assert run("diverts", "delete", "copy") == "Removed copy.\n"
    assert "There is no entry copy" in run("diverts", "delete", "copy", status=1)
    assert KEYS.divert("copy") not in store.keys


def test_permissions_are_checked_as_in_a_config_file(store):
    run("permissions", "set", "orders.#", "send=shop", "consume=warehouse, audit")
    run("permissions", "set", "orders::audit", "consume=audit")
    assert json.loads(run("permissions", "get", "orders.#")) == {"send": "shop", "consume": "warehouse, audit"}
    before = store.revision
    assert "Did you mean send" in run("permissions", "set", "a", "sends=x", status=1)
    assert "empty name of a group" in run("permissions", "set", "a", "send=x,,y", status=1)
    assert "comes last" in run("permissions", "set", "a.#.b", "send=x", status=1)
    assert store.revision == before
    run("permissions", "delete", "orders::audit")
    assert list(json.loads(run("permissions", "get"))) == ["orders.#"]
    run("permissions", "set", "#", "send=*")
    run("permissions", "set", "orders.#", "send=", "consume=")
    assert list(json.loads(run("permissions", "get"))) == ["#"]
    done = CliRunner().invoke(cluster_cli.cluster, ("permissions", "delete", "#"), catch_exceptions=False)
    assert done.exit_code == 0 and "the last entry" in done.output and json.loads(run("permissions", "get")) == {}


def test_a_store_that_cannot_be_asked_is_one_line(store, monkeypatch):
    store.stop()
    monkeypatch.setattr(cluster_cli, "connect", lambda settings: MemoryMetadata(store, timeout_s=0.05))
    assert run("status", status=1) == "stampede: the metadata store does not answer\n"


def test_an_empty_cluster(store):
    store.commit([], [Delete(key) for key in [KEYS.member("owner", n) for n in "abc"]])
    for slot in range(256):
        store.commit([], [Delete(KEYS.slot(slot))])
    store.commit([], [Delete(KEYS.member("edge", "e0"))])
    assert "No owners." in run("status") and "Nothing to do" in CliRunner().invoke(cluster_cli.cluster, ["plan"]).output
    assert "no owner has ever been started" in run("move", "0", "a", status=1)
