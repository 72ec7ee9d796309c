"""What users of a cluster do: stomp.py at two edges while owners die, a durable subscription that goes on at the other
edge, settings and users that change without a restart."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

import pytest

from broker.core.errors import Code
from tests.clients.stomppy import Client as StompPy
from tests.harness import Client
from tests.harness.cluster import Cluster


@pytest.fixture(autouse=True)
def everybody(shared: Cluster) -> Iterator[None]:
    yield
    shared.start_again()


def joined(cluster: Cluster, edge: int, **headers: object) -> Client:
    client = Client(cluster.edges[edge].port, timeout=60)
    client.connect({name.replace("_", "-"): value for name, value in headers.items()})
    return client


class Producer(threading.Thread):
    """stomp.py: numbered persistent messages, at most 50 without a receipt, until told to stop."""

    def __init__(self, port: int, destination: str) -> None:
        super().__init__(daemon=True)
        self.client = StompPy(port)
        self.destination = destination
        self.sent = 0
        self.confirmed: set[str] = set()
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.is_set():
            headers = {"receipt": f"n{self.sent}", "persistent": "true"}
            self.client.stomp.send(self.destination, str(self.sent), headers=headers)
            self.sent += 1
            while self.sent - len(self.confirmed) > (50 if not self.stop.is_set() else 0):
                try:
                    self.confirmed.add(self.client.box.receipts.get(timeout=30))
                except queue.Empty:
                    return  # the test counts
            time.sleep(0.005)
        while len(self.confirmed) < self.sent:
            try:
                self.confirmed.add(self.client.box.receipts.get(timeout=30))
            except queue.Empty:
                return


@pytest.mark.timeout(400)  # three restarts of owners and what they take on a starved machine
def test_stomp_py_at_both_edges_while_every_owner_is_killed_once(shared):
    """No client notices: every message confirmed, none lost, those delivered twice are marked, no connection ends."""
    destinations = ["/queue/py.0", "/queue/py.1"]
    consumers = [StompPy(shared.edges[1 - n].port) for n in range(2)]
    for consumer, destination in zip(consumers, destinations, strict=True):
        consumer.subscribe(destination, ack="client-individual")
    producers = [Producer(shared.edges[n].port, destinations[n]) for n in range(2)]
    for producer in producers:
        producer.start()
    for owner in shared.owners:
        time.sleep(1)
        owner.kill()
        time.sleep(1)
        owner.start()
        owner.wait_ready()
        shared.wait_balanced()
    for producer in producers:
        producer.stop.set()
    for producer, consumer in zip(producers, consumers, strict=True):
        producer.join(60)
        assert len(producer.confirmed) == producer.sent > 100
        fresh: list[int] = []
        while len(fresh) < producer.sent:
            frame = consumer.box.messages.get(timeout=30)
            if int(frame.body) not in fresh[-2000:]:
                fresh.append(int(frame.body))
            else:
                assert frame.headers.get("redelivered") == "true", f"{frame.body} came twice, unmarked"
            consumer.stomp.ack(frame.headers["ack"])
        assert sorted(fresh) == list(range(producer.sent))
    for client in [*consumers, *(producer.client for producer in producers)]:
        assert not client.box.gone.is_set() and client.box.errors.empty()
        client.close()


def test_a_durable_subscription_goes_on_at_the_other_edge(shared):
    """The edge it was consumed at is killed; what was not acknowledged and what came meanwhile is there."""
    name = {"durable_subscription_name": "news"}
    writer = joined(shared, 1)
    first = joined(shared, 0, client_id="reader")
    first.subscribe("/topic/durable", ack="client", **name)
    for number in range(10):
        writer.publish("/topic/durable", b"%d" % number, persistent="true")
    got = first.messages(10)
    first.ack(got[4], receipt="acked")
    first.expect("RECEIPT")
    shared.edges[0].kill()
    first.close()
    for number in range(10, 15):
        writer.publish("/topic/durable", b"%d" % number, persistent="true")
    with joined(shared, 1, client_id="reader") as second:
        second.subscribe("/topic/durable", ack="client", **name)
        rest = second.messages(10, timeout=30)
        assert [int(frame.body) for frame in rest] == list(range(5, 15))
        # The later ones may have been on their way to the edge that was dead already.
        assert [frame.get("redelivered") for frame in rest[:5]] == ["true"] * 5
        second.ack(rest[-1], receipt="all")
        second.expect("RECEIPT")
        second.ask("UNSUBSCRIBE", {"id": "1", "durable-subscription-name": "news"})
    writer.close()


def test_settings_take_effect_without_a_restart(shared):
    """One delivery attempt instead of ten; taken back, ten again."""

    def attempts(address: str) -> int:
        """Deliveries until the message goes to the dead letters."""
        count = 0
        with joined(shared, 0) as client:
            client.subscribe("/queue/DLQ", id="dead")
            client.subscribe(f"/queue/{address}", ack="client-individual")
            client.publish(f"/queue/{address}", address.encode())
            while (message := client.expect("MESSAGE"))["subscription"] != "dead":
                client.nack(message)
                count += 1
            assert message.body == address.encode()
        return count

    assert attempts("live.before") == 10
    shared.cluster("settings", "set", "live.#", "max_delivery_attempts=1")
    Cluster.wait(lambda: attempts("live.x") == 1, 40, lambda: "the setting has no effect")
    assert attempts("live.y") == 1
    shared.cluster("settings", "set", "live.#", "max_delivery_attempts=")
    Cluster.wait(lambda: attempts("live.z") == 10, 40, lambda: "the setting was not taken back")


@pytest.mark.timeout(400)
def test_an_address_is_split_while_clients_subscribe_to_it(shared):
    """Nobody is thrown out, nothing is missed, and every partition has its part in the end."""
    with joined(shared, 0) as writer, joined(shared, 1) as worker, joined(shared, 1, client_id="split") as reader:
        with joined(shared, 0, client_id="away") as away:
            away.subscribe("/topic/grow.news", id="1", durable_subscription_name="it", selector="wanted = 'yes'")
        worker.subscribe("/queue/grow", id="1", ack="client")
        reader.subscribe("/topic/grow.news", id="1", ack="client", durable_subscription_name="it")
        for address in ("grow", "grow.news"):
            shared.cluster("addresses", "set", address, "partitions=4")
        for client, destination in ((worker, "/queue/grow"), (reader, "/topic/grow.news")):
            parts: set[str] = set()
            end = time.monotonic() + 90
            number, last = 0, -1
            while number != last:
                assert time.monotonic() < end, parts
                writer.publish(destination, b"%d" % number, persistent="true", wanted="yes" if number % 2 else "no")
                frame = client.expect("MESSAGE", timeout=30)
                assert frame.body == b"%d" % number
                parts.add(frame["message-id"].rpartition("-")[0])
                number += 1
                if len(parts) == 4 and last < 0:
                    last = number + 20
                elif number % 500 == 0:  # a window has 1,000, and a fast broker sends more before it is split
                    client.ack(frame)
            client.ack(frame, receipt="all")  # whichever part delivered it: all before it are acknowledged
            client.expect("RECEIPT")
        reader.ask("UNSUBSCRIBE", {"id": "1", "durable-subscription-name": "it"})
    with joined(shared, 0, client_id="away") as away:
        away.subscribe("/topic/grow.news", id="1", durable_subscription_name="it", selector="wanted = 'yes'")
        missed = {int(away.expect("MESSAGE", timeout=30).body) for _ in range(number // 2)}
        assert missed == set(range(1, number, 2)), "each of every partition, and what its selector says"
        away.nothing()
        away.ask("UNSUBSCRIBE", {"id": "1", "durable-subscription-name": "it"})
    with joined(shared, 0) as late:
        late.subscribe("/queue/grow", id="1", ack="client")
        late.nothing()


def test_users_may_log_in_at_every_edge_and_nobody_else(shared):
    """Made while the cluster runs; wrong passcodes and removed users are refused everywhere."""
    login = {"login": "ann", "passcode": "secret:word"}

    def answer(edge: int, **headers: str) -> str:
        """CONNECTED, or the error code."""
        with Client(shared.edges[edge].port, timeout=30) as client:
            client.send("CONNECT", {"accept-version": "1.2", "host": "x", **headers})
            frame = client.read()
            return frame.command if frame.command == "CONNECTED" else frame["error-code"]

    refused = str(Code.LOGIN_FAILED.number)
    for name, passcode in (("ann", "secret:word"), ("eve", "other")):
        shared.cluster("users", "set", name, "--passcode-stdin", stdin=passcode + "\n")
    assert shared.cluster("users", "list").split() == ["ann", "eve"]
    for edge in range(2):
        Cluster.wait(lambda edge=edge: answer(edge) == refused, 60, lambda: "anybody is still let in")
        assert answer(edge, **login) == "CONNECTED"
        assert answer(edge, login="ann", passcode="wrong") == refused
        assert answer(edge, login="bob", passcode="secret:word") == refused
    shared.cluster("users", "set", "ann", "--passcode-stdin", stdin="new\n")
    for edge in range(2):
        Cluster.wait(lambda edge=edge: answer(edge, **login) == refused, 60, lambda: "the old passcode is still good")
        assert answer(edge, login="ann", passcode="new") == "CONNECTED"
    shared.cluster("users", "remove", "ann")
    for edge in range(2):
        Cluster.wait(
            lambda edge=edge: answer(edge, login="ann", passcode="new") == refused, 60, lambda: "ann is still let in"
        )
        assert answer(edge, login="eve", passcode="other") == "CONNECTED"
