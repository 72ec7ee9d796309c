"""Two virtual hosts in one broker: the same names, and nothing crosses. Also through a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.harness import Broker, Client, scratch
from tests.harness.broker import free_ports
from tests.harness.cluster import Cluster
from tests.harness.servers import needs_etcdctl, running

pytestmark = pytest.mark.xdist_group("virtual-hosts")
ALL = ("send", "consume", "browse", "create_address", "create_durable_queue", "create_non_durable_queue")
SETTINGS: dict[str, object] = {
    "edge.virtual_hosts.shop.names": "shop.example.com",
    "edge.virtual_hosts.bank.max_connections": 100,
    "edge.unknown_hosts": "refuse",
    "engine.addresses.$host/shop.small.max_size_messages": 1,
    "engine.addresses.$host/shop.small.full_policy": "FAIL",
    "engine.addresses.$host/shop.once.max_delivery_attempts": 1,
    **{f"edge.permissions.$host/shop.#.{each}": "clerks" for each in (*ALL, "manage")},
    **{f"edge.permissions.$host/bank.#.{each}": "clerks" for each in ALL},
    **{f"edge.permissions.#.{each}": "staff" for each in ALL},
}
CALM: dict[str, object] = {"cluster.lease_s": 20, "cluster.dead_after_ms": 10_000}
USERS = {"ada": ("one", "staff"), "$host/shop.ada": ("two", "clerks"), "$host/bank.ada": ("three", "clerks,admin")}


class Place(NamedTuple):
    """Where clients of each dialect connect."""

    ports: dict[str, int]


@pytest.fixture(scope="module", params=["standalone", "cluster"])
def broker(request: pytest.FixtureRequest) -> Iterator[Place]:
    port, classic = free_ports(2)
    settings = SETTINGS | {
        "acceptors.rabbit.port": port, "acceptors.rabbit.dialect": "rabbitmq",
        "acceptors.classic.port": classic, "acceptors.classic.dialect": "activemq",
    }  # fmt: skip
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(request, "hosts"))
        ports = {"rabbit": port, "classic": classic}
        if request.param == "standalone":
            broker = Broker(folder, settings)
            for name, (passcode, group) in USERS.items():
                broker.add_user(name, passcode)
                line = [sys.executable, "-m", "broker.app.cli", "user", "groups", name, *group.split(",")]
                subprocess.run([*line, "--data", str(broker.data)], env=broker.environment(), check=True)
            stack.enter_context(broker)
            yield Place(ports | {"": broker.port})
            assert "Traceback" not in broker.log()
            return
        needs_etcdctl()
        etcd = stack.enter_context(running("etcd", folder / "etcd", ours=True))
        cluster = Cluster(folder, etcd.port, owners=2, edges=1, settings=settings | CALM)
        for name, (passcode, group) in USERS.items():
            groups = [word for each in group.split(",") for word in ("--group", each)]
            cluster.cluster("users", "set", name, "--passcode-stdin", *groups, stdin=passcode + "\n")
        stack.enter_context(cluster)
        yield Place(ports | {"": cluster.edges[0].port})
        assert "Traceback" not in "".join(process.log() for process in cluster.processes)


PASSCODES = {"": "one", "shop": "two", "bank": "three"}


def join(broker: Place, host: str, dialect: str = "", **headers: object) -> Client:
    client = Client(broker.ports[dialect], "1.2")
    named = {"accept-version": "1.2", "host": host or "/", "login": "ada", "passcode": PASSCODES[host]}
    client.send("CONNECT", named | headers)
    client.expect("CONNECTED")
    return client


def test_the_same_queue_of_two_hosts_is_two_queues(broker: Place) -> None:
    for host in PASSCODES:
        with join(broker, host) as client:
            client.publish("/queue/orders", host.encode() or b"-", persistent="true")
    for host, dialect in (("shop", "rabbit"), ("bank", "classic"), ("", "rabbit")):
        with join(broker, host, dialect) as client:
            client.subscribe("/queue/orders")
            (message,) = client.messages(1)
            assert (message.body, message["destination"]) == (host.encode() or b"-", "/queue/orders")
            client.nothing()


def test_wildcards_exchanges_and_answers_stay_in_their_host(broker: Place) -> None:
    with join(broker, "shop", "rabbit") as mine, join(broker, "bank", "rabbit") as theirs, join(broker, "") as other:
        for client in (mine, theirs):
            client.subscribe("/topic/#", "all")
            client.subscribe("/exchange/amq.fanout", "fan")
        other.subscribe("/topic/#", "all")
        mine.publish("/topic/news.eu", b"1")
        mine.publish("/exchange/amq.fanout", b"2")
        assert [(m["subscription"], m.body) for m in mine.messages(2)] == [("all", b"1"), ("fan", b"2")]
        mine.subscribe("/queue/service", "s")
        mine.publish("/queue/service", b"?", **{"reply-to": "/temp-queue/x"})
        (asked,) = mine.messages(1)
        theirs.publish(asked["reply-to"], b"forged")
        other.publish(asked["reply-to"], b"forged")
        mine.publish(asked["reply-to"], b"!")
        (answer,) = mine.messages(1)
        assert answer.body == b"!"
        for client in (theirs, other):
            client.nothing()


def refused(broker: Place, host: str, login: str, passcode: str) -> bytes:
    with Client(broker.ports[""], "1.2") as client:
        client.send("CONNECT", {"accept-version": "1.2", "host": host, "login": login, "passcode": passcode})
        body = client.expect("ERROR").body
        client.ended()
        return body


def test_users_of_a_host_are_its_own(broker: Place) -> None:
    for host, passcode in (("shop", "one"), ("", "two"), ("bank", "two"), ("shop.example.com", "three")):
        refused(broker, host or "/", "ada", passcode)
    refused(broker, "/", "$host/shop.ada", "two")


def test_a_host_that_is_not_there_is_refused(broker: Place) -> None:
    assert b"Virtual host 'nowhere' access denied" in refused(broker, "nowhere", "ada", "one")


def test_errors_name_things_as_their_clients_do(broker: Place) -> None:
    with join(broker, "bank") as bank:
        for body in (b"1", b"2"):
            bank.publish("/queue/small", body)  # the limit is the shop's
    with join(broker, "shop") as client:
        client.publish("/queue/small", b"1")
        client.send("SEND", {"destination": "/queue/small", "receipt": "r"}, b"2")
        error = client.expect("ERROR")
        assert b"small" in error.body and b"$host" not in error.body + error["message"].encode()
        client.ended()


def test_dead_letters_stay_and_say_where_they_were(broker: Place) -> None:
    named = {"client-id": "ada"}
    with join(broker, "shop", **named) as client, join(broker, "bank") as bank, join(broker, "") as other:
        for each in (bank, other, client):
            each.subscribe("/queue/DLQ", "dead")
        client.subscribe("/queue/once", "1", "client-individual")
        client.publish("/queue/once", b"_AMQ_ORIG_ADDRESS:$host/shop.x\n\n", persistent="true")
        (message,) = client.messages(1)
        client.nack(message)
        (dead,) = client.messages(1)
        assert (dead["_AMQ_ORIG_ADDRESS"], dead["_AMQ_ORIG_QUEUE"], dead.body[:20]) == (
            "once", "once", b"_AMQ_ORIG_ADDRESS:$h",
        )  # fmt: skip
        bank.nothing()
        other.nothing()
        client.subscribe("/topic/t", "d", **{"durable-subscription-name": "s"})
        client.publish("/topic/t::ada.s", b"by name")
        assert client.messages(1)[0].body == b"by name"


def managed(client: Client, resource: str, *arguments: object, **what: str) -> tuple[bool, object]:
    """Whether it was carried out, and the answer."""
    named = {f"_AMQ_{name}": value for name, value in what.items()}
    headers = {"_AMQ_ResourceName": resource, "reply-to": "/temp-queue/told", **named}
    client.send("SEND", {"destination": "activemq.management", **headers}, json.dumps(arguments).encode())
    answer = client.expect("MESSAGE", {"subscription": "/temp-queue/told"})
    assert b"$host" not in answer.body or "$host" in resource
    return answer["_AMQ_OperationSucceeded"] == "true", json.loads(answer.body)[0]


def test_management_by_messages_is_about_the_own_host(broker: Place) -> None:
    with join(broker, "shop") as shop, join(broker, "bank") as bank, join(broker, "") as other:
        for client, body in ((shop, b"s1"), (shop, b"s2"), (other, b"o")):
            client.publish("/queue/managed", body, persistent="true")
            client.sync()
        assert managed(shop, "queue.managed", Attribute="messageCount") == (True, 2)
        names = managed(shop, "broker", Attribute="queueNames")[1]
        assert "managed" in names and not [name for name in names if "$" in name and not name.startswith("$temp")]
        assert managed(shop, "queue.managed", None, "moved", OperationName="moveMessages") == (True, 2)
        assert managed(shop, "queue.moved", Attribute="address") == (True, "moved")
        assert managed(shop, "queue.$host/bank.x", Attribute="messageCount")[0] is False
        assert managed(shop, "broker", Attribute="connectionCount")[0] is False
        assert managed(shop, "broker", "made", "made", OperationName="createQueue")[0] is True
        assert managed(shop, "broker", "made", OperationName="destroyQueue")[0] is True
        # The bank's Ada is in the administrators' group, of which a host knows nothing, and nobody manages the bank.
        assert managed(bank, "queue.managed", Attribute="messageCount")[0] is False
        other.subscribe("/queue/managed", "left")
        assert [message.body for message in other.messages(1)] == [b"o"]


def test_schedules_and_statistics_are_those_of_the_own_host(broker: Place) -> None:
    never = {"AMQ_SCHEDULED_DELAY": 3_600_000, "AMQ_SCHEDULED_PERIOD": 1000, "AMQ_SCHEDULED_REPEAT": -1}
    jobs = {"destination": "/queue/ActiveMQ.Scheduler.Management", "reply-to": "/temp-queue/told"}
    with join(broker, "shop", "classic") as shop, join(broker, "bank", "classic") as bank:
        for client, body in ((shop, b"s"), (bank, b"b")):
            client.ask("SEND", {"destination": "/queue/later", **never}, body)
        shop.ask("SEND", {**jobs, "AMQ_SCHEDULER_ACTION": "BROWSE"})
        (job,) = shop.sync()
        assert (job.body, job["original-destination"]) == (b"s", "/queue/later")
        shop.ask("SEND", {**jobs, "AMQ_SCHEDULER_ACTION": "REMOVEALL"})
        shop.ask("SEND", {**jobs, "AMQ_SCHEDULER_ACTION": "BROWSE"})
        assert shop.sync() == []
        shop.publish("/queue/counted", b"1")
        shop.sync()
        numbers = {"destination": "/queue/ActiveMQ.Statistics.Destinationcounted", "reply-to": "/temp-queue/told"}
        shop.ask("SEND", numbers)
        (answer,) = shop.messages(1)
        assert b'{"string":"size","long":1}' in answer.body and b"queue://counted" in answer.body
        shop.send("SEND", {**numbers, "destination": "/queue/ActiveMQ.Statistics.Broker", "receipt": "r"})
        assert b"default" in shop.expect("ERROR").body
