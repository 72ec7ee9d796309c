"""edge.permissions over TCP, as users with different groups meet them; standalone and in a cluster, where permissions
and groups also change while clients are connected."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from broker.config.permissions import OPERATIONS
from broker.core.errors import Code
from tests.harness import Broker, Client, scratch
from tests.harness.cluster import Cluster
from tests.harness.servers import needs_etcdctl, running

from .checks import error

PASSCODE = "open-sesame"
USERS = {"boss": ["admins"], "shop": ["shop"], "guest": []}
PERMISSIONS = {
    **{f"#.{operation}": "admins" for operation in OPERATIONS},
    "*.shown.#.consume": "*",
    "*.shown.#.create_non_durable_queue": "*",
    "*.shown.#.create_address": "*",
    "*.shown.#.send": "admins",
    "news.#.send": "admins",
    "news.#.consume": "*",
    "news.#.create_address": "*",
    "news.#.create_non_durable_queue": "*",
    "news.secret.#.consume": "admins",
    "orders.send": "shop",
    "orders.browse": "shop",
    "live.#.send": "shop",
    "live.#.consume": "shop",
    "live.#.create_address": "shop",
    "live.#.create_durable_queue": "shop",
    "live.safe::live.safe.consume": "admins",
    "live.news::shop-c.inbox.consume": "admins",
    "store.eu::audit.consume": "shop",
    "store.eu::audit.send": "admins",
    "store.eu::audit.create_address": "admins",
    "store.eu::audit.create_durable_queue": "admins",
}
SETTINGS = {f"edge.permissions.{name}": groups for name, groups in PERMISSIONS.items()}
CALM = {"cluster.lease_s": 20, "cluster.dead_after_ms": 10_000, "cluster.replicas": 1, "cluster.min_in_sync": 1}


class Site:
    """A broker with these users, somewhere to connect to, and its administrator's command line."""

    def __init__(self, port: int, groups: Callable[..., None], cluster: Cluster | None) -> None:
        self.port = port
        self.groups = groups
        """groups(user, *names): belongs to these from now on."""
        self.cluster = cluster
        self._stack = ExitStack()

    def join(self, user: str) -> Client:
        client = self._stack.enter_context(Client(self.port, timeout=30))
        client.connect({"login": user, "passcode": PASSCODE, "client-id": f"{user}-c"})
        return client

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module", params=["standalone", "cluster"])
def place(request) -> Iterator[tuple[int, Callable[..., None], Cluster | None]]:
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(request, "permissions"))
        if request.param == "standalone":
            broker = Broker(folder, SETTINGS, level="DEBUG")

            def set_groups(user: str, *names: str) -> None:
                line = [sys.executable, "-m", "broker.app.cli", "user", "groups", user, *names]
                subprocess.run([*line, "--data", str(broker.data)], env=broker.environment(), check=True)

            for user, names in USERS.items():
                broker.add_user(user, PASSCODE)
                set_groups(user, *names)
            stack.enter_context(broker)
            yield broker.port, set_groups, None
            assert PASSCODE not in broker.log() and "Traceback" not in broker.log()
            return
        needs_etcdctl()
        etcd = stack.enter_context(running("etcd", folder / "etcd", ours=True))
        cluster = Cluster(folder, etcd.port, owners=1, edges=1, settings={**SETTINGS, **CALM})
        for user, names in USERS.items():
            options = [option for name in names for option in ("--group", name)]
            cluster.cluster("users", "set", user, "--passcode-stdin", *options, stdin=PASSCODE + "\n")
        stack.enter_context(cluster)
        yield cluster.edges[0].port, lambda user, *names: cluster.cluster("users", "groups", user, *names), cluster
        log = "".join(process.log() for process in cluster.processes)
        assert PASSCODE not in log and "Traceback" not in log


@pytest.fixture
def site(place) -> Iterator[Site]:
    found = Site(*place)
    yield found
    found.close()


def refused(client: Client, operation: str, name: str, receipt: str = "r") -> None:
    said = error(client, Code.NOT_ALLOWED, receipt).body.decode()
    assert f"lacks {operation} at '{name}'" in said and "edge.permissions" in said


def test_groups_decide_who_sends_and_who_consumes(site):
    shop, boss = site.join("shop"), site.join("boss")
    boss.publish("/queue/orders.all", b"created")
    refused_by_shop = site.join("shop")
    refused_by_shop.send("SEND", {"destination": "/queue/orders.all", "receipt": "r"}, b"x")
    refused(refused_by_shop, "send", "orders.all")
    guest = site.join("guest")
    guest.send("SUBSCRIBE", {"destination": "/queue/orders.all", "id": "1", "receipt": "r"})
    refused(guest, "consume", "orders.all")
    boss.subscribe("/queue/orders.all")
    assert boss.expect("MESSAGE").body == b"created"
    shop.send("SUBSCRIBE", {"destination": "/queue/orders", "id": "1", "receipt": "r"})
    refused(shop, "consume", "orders")


def test_who_may_send_but_not_create_needs_somebody_who_does(site):
    shop = site.join("shop")
    shop.send("SEND", {"destination": "/queue/orders", "receipt": "r"}, b"x")
    said = error(shop, Code.NOT_ALLOWED, "r").body
    assert b"create_address" in said and b"user 'shop'" in said and b"does not exist" in said
    boss = site.join("boss")
    # `orders` has an entry of its own, and what it does not say is for nobody.
    boss.send("SEND", {"destination": "/queue/orders", "receipt": "r"}, b"x")
    refused(boss, "send", "orders")


def test_topics_and_patterns_show_what_may_be_consumed(site):
    guest, boss = site.join("guest"), site.join("boss")
    guest.subscribe("/topic/news.eu")
    guest.subscribe("/topic/news.sport.*", id="2")
    boss.publish("/topic/news.eu", b"1")
    assert guest.expect("MESSAGE").body == b"1"
    boss.subscribe("/topic/news.#", id="3")
    guest.send("SUBSCRIBE", {"destination": "/topic/news.#", "id": "9", "receipt": "r"})
    refused(guest, "consume", "news.#")
    boss.publish("/topic/news.eu", b"2")
    assert boss.expect("MESSAGE").body == b"2"
    boss.send("SUBSCRIBE", {"destination": "/topic/#", "id": "4", "receipt": "r"})
    said = error(boss, Code.NOT_ALLOWED, "r").body
    assert b'edge.permissions."' in said and b"lacks consume at '#'" in said, "some entries leave admins out"


def test_a_transaction_is_refused_at_its_send(site):
    boss, guest = site.join("boss"), site.join("guest")
    guest.send("BEGIN", {"transaction": "t"})
    guest.send("SEND", {"destination": "/queue/tx", "transaction": "t", "receipt": "r"}, b"x")
    refused(guest, "send", "tx")
    boss.subscribe("/queue/tx")
    boss.publish("/queue/tx", b"fine")
    assert boss.expect("MESSAGE").body == b"fine"


def test_a_queue_with_an_entry_of_its_own(site):
    boss, shop = site.join("boss"), site.join("shop")
    boss.publish("/queue/store.eu::audit", b"seen")
    shop.subscribe("store.eu::audit")
    assert shop.expect("MESSAGE").body == b"seen"
    shop.send("SUBSCRIBE", {"destination": "store.eu::other", "id": "2", "receipt": "r"})
    refused(shop, "consume", "store.eu::other")


def test_durable_subscriptions_are_made_and_deleted_by_who_may(site):
    boss, guest = site.join("boss"), site.join("guest")
    durable = {"destination": "/topic/news.eu", "durable-subscriber-name": "d", "id": "1"}
    guest.send("SUBSCRIBE", {**durable, "receipt": "r"})
    assert b"create_durable_queue" in error(guest, Code.NOT_ALLOWED, "r").body
    guest = site.join("guest")
    guest.send("UNSUBSCRIBE", {**durable, "receipt": "r"})
    refused(guest, "delete_durable_queue", "news.eu::guest-c.d")
    durable["destination"] = "/topic/plain"
    boss.ask("SUBSCRIBE", durable)
    boss.ask("UNSUBSCRIBE", durable)


def test_an_empty_word_is_no_word(site):
    """`*.shown.#` is for everybody, and `.shown.plans` is not one of these."""
    guest, boss = site.join("guest"), site.join("boss")
    for pattern in ("/topic/.shown.#", "/topic/.#", "/topic/.shown.plans"):
        stranger = site.join("guest")
        stranger.send("SUBSCRIBE", {"destination": pattern, "id": "1", "receipt": "r"})
        refused(stranger, "consume", pattern.removeprefix("/topic/"))
    guest.subscribe("/topic/x.shown.#")
    boss.publish("/topic/.shown.plans", b"secret")
    boss.publish("/topic/x.shown.plans", b"open")
    assert guest.expect("MESSAGE").body == b"open", "and not the one before it"


def test_a_queue_is_closed_whatever_it_is_called(site):
    boss, shop = site.join("boss"), site.join("shop")
    shop.publish("/queue/live.safe", b"secret")
    durable = {"destination": "/topic/live.news", "durable-subscriber-name": "inbox", "id": "1"}
    for headers, queue in (
        ({"destination": "/queue/live.safe", "id": "1"}, "live.safe::live.safe"),
        ({"destination": "live.safe", "id": "1"}, "live.safe::live.safe"),
        ({"destination": "live.safe::live.safe", "id": "1"}, "live.safe::live.safe"),
        (durable, "live.news::shop-c.inbox"),
        ({"destination": "/topic/live.news::shop-c.inbox", "id": "1"}, "live.news::shop-c.inbox"),
    ):
        shop = site.join("shop")
        shop.send("SUBSCRIBE", {**headers, "receipt": "r"})
        refused(shop, "consume", queue)
    boss.subscribe("/queue/live.safe")
    assert boss.expect("MESSAGE").body == b"secret"


def test_other_groups_count_for_connections_that_are_open(site):
    shop, sender = site.join("shop"), site.join("shop")
    shop.subscribe("/queue/live.1")
    sender.publish("/queue/live.1", b"x")
    assert shop.expect("MESSAGE").body == b"x"
    began = time.monotonic()
    site.groups("shop", "others")
    try:
        frame = shop.expect("ERROR")
        assert frame["error-code"] == str(Code.NOT_ALLOWED.number) and b"lacks consume at 'live.1'" in frame.body
        assert time.monotonic() - began < 10
        sender.send("SEND", {"destination": "/queue/live.1", "receipt": "r"}, b"x")
        refused(sender, "send", "live.1")
    finally:
        site.groups("shop", "shop")


def test_permissions_of_a_cluster_change_while_it_runs(site):
    if site.cluster is None:
        pytest.skip("a standalone broker reads its settings at its start")
    change = site.cluster.cluster
    guest, boss = site.join("guest"), site.join("boss")
    guest.subscribe("/topic/news.eu")
    change("permissions", "set", "news.eu", "consume=admins", "send=admins")
    frame = guest.expect("ERROR")
    assert b"user 'guest' lacks consume at 'news.eu'" in frame.body
    boss.subscribe("/topic/news.us")
    change("permissions", "delete", "news.eu")
    end = time.monotonic() + 30
    while True:  # the edge hears of it a moment later
        guest = site.join("guest")
        guest.send("SUBSCRIBE", {"destination": "/topic/news.eu", "id": "1", "receipt": "r"})
        if guest.read().command == "RECEIPT":
            break
        assert time.monotonic() < end
    metrics = site.cluster.edges[0].metrics()
    assert 'stomp_denied_total{operation="consume"}' in metrics
