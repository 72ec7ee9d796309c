"""Transactions over slots of different owners, and dead letters to another owner: all or nothing, exactly once, also
when owners are killed at any moment."""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import suppress
from uuid import uuid4

import pytest

from tests.harness import Client
from tests.harness.cluster import Cluster
from tests.harness.stomp import ClosedByBroker, Frame

from .slots import leader_of, led_by

pytestmark = pytest.mark.timeout(180)

SETTINGS = {"engine.addresses.dead.#.max_delivery_attempts": 1}


def joined(cluster: Cluster, edge: int = 0) -> Client:
    client = Client(cluster.edges[edge].port, timeout=60)
    client.connect()
    return client


def one_of_each(cluster: Cluster, prefix: str) -> list[str]:
    """Addresses of which each is led by another owner."""
    return [next(led_by(cluster, owner, prefix)) for owner in cluster.owners]


def drained(cluster: Cluster, address: str, edge: int = 1) -> list[Frame]:
    """All that is in the queue; taken out."""
    end = uuid4().bytes
    with joined(cluster, edge) as client:
        client.subscribe(f"/queue/{address}", ack="client", prefetch_count=1_000_000)
        client.publish(f"/queue/{address}", end, persistent="true")
        got: list[Frame] = []
        while not got or got[-1].body != end:  # the queue has a leader again, and everything in it has come
            got.append(client.expect("MESSAGE"))
        with suppress(TimeoutError):  # what was still on its way there
            while True:
                got.append(client.expect("MESSAGE", timeout=1.5))
        client.ack(got[-1], receipt="all")
        client.expect("RECEIPT")
        client.ask("DISCONNECT")
    return [frame for frame in got if frame.body != end]


class Killer:
    """Kills the leaders of these addresses one after another, each when the one before is back and in sync."""

    def __init__(self, cluster: Cluster, addresses: list[str], pause: float = 1.0) -> None:
        self._cluster = cluster
        self._addresses = addresses
        self._pause = pause
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for address in self._addresses:
                time.sleep(self._pause)
                victim = leader_of(self._cluster, address)
                victim.kill()
                time.sleep(self._pause)
                victim.start()
                victim.wait_ready()
                self._cluster.wait_balanced()
        except BaseException as failure:  # told by join()
            self._failure = failure

    @property
    def busy(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(150)
        assert self._failure is None, self._failure


class Worker:
    """Transactions of one message to each address, every third one aborted, until `killer` has done its work."""

    def __init__(self, cluster: Cluster, name: str, addresses: list[str], killer: Killer) -> None:
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self.unknown: set[str] = set()
        """The client got an ERROR for it, or lost its connection: all or nothing."""
        self.failure: BaseException | None = None
        self._cluster = cluster
        self._name = name
        self._addresses = addresses
        self._killer = killer
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        number, client = 0, joined(self._cluster)
        try:
            while self._killer.busy or number < 10:
                number += 1
                if not self._one(client, f"{self._name}-{number}", abort=number % 3 == 0):
                    client.close()
                    client = joined(self._cluster)
                time.sleep(0.005)
        except BaseException as failure:  # told by the test
            self.failure = failure
        finally:
            client.close()

    def _one(self, client: Client, id: str, abort: bool) -> bool:
        """False: the connection has ended. Whatever happens is told to the client: a RECEIPT or an ERROR."""
        client.send("BEGIN", {"transaction": id})
        for address in self._addresses:
            client.send(
                "SEND", {"destination": f"/queue/{address}", "transaction": id, "persistent": "true"}, id.encode()
            )
        client.send("ABORT" if abort else "COMMIT", {"transaction": id, "receipt": id})
        self.unknown.add(id)
        try:
            frame = client.read(timeout=60)
        except ClosedByBroker:
            raise AssertionError(f"{id}: closed without an ERROR") from None
        if frame.command == "ERROR":
            return False
        assert (frame.command, frame["receipt-id"]) == ("RECEIPT", id)
        self.unknown.discard(id)
        (self.aborted if abort else self.committed).add(id)
        return True


def test_all_or_nothing_while_owners_are_killed(shared):
    """The coordinator is the owner of one of the three addresses, the others take part; each is killed once."""
    addresses = one_of_each(shared, "tx")
    killer = Killer(shared, addresses)
    workers = [Worker(shared, f"w{number}", addresses, killer) for number in range(4)]
    killer.join()
    for worker in workers:
        worker.thread.join(90)
        assert not worker.thread.is_alive() and worker.failure is None, worker.failure
    committed = set().union(*(worker.committed for worker in workers))
    aborted = set().union(*(worker.aborted for worker in workers))
    unknown = set().union(*(worker.unknown for worker in workers))
    assert len(committed) > 40, "too few to tell anything"
    found = [[frame.body.decode() for frame in drained(shared, address)] for address in addresses]
    for address, ids in zip(addresses, found, strict=True):
        assert len(ids) == len(set(ids)), f"{address} has duplicates"
        assert committed <= set(ids), f"{address} lacks {sorted(committed - set(ids))[:5]}"
        assert not aborted & set(ids), f"{address} has what was aborted"
        assert set(ids) <= committed | unknown
    assert set(found[0]) == set(found[1]) == set(found[2]), "a transaction was carried out in part"


def test_messages_are_moved_exactly_once_while_owners_are_killed(shared):
    """ACK at one owner and SEND to another in one transaction: whatever dies, no message is lost or doubled."""
    source, target, _ = one_of_each(shared, "move")
    count = 300
    with joined(shared) as writer:
        for number in range(count):
            writer.send("SEND", {"destination": f"/queue/{source}", "persistent": "true"}, b"%d" % number)
        writer.sync()
    killer = Killer(shared, [source, target], pause=0.5)
    moved, errors = 0, 0
    while moved < count and errors < count:
        with joined(shared, errors % 2) as client:
            client.subscribe(f"/queue/{source}", ack="client-individual", prefetch_count=1)
            early: list[Frame] = []
            try:
                while moved < count:
                    message = early.pop() if early else client.expect("MESSAGE", timeout=20)
                    early += _move(client, message, f"/queue/{target}")
                    moved += 1
                    time.sleep(0.005)
            except ClosedByBroker:
                errors += 1  # the message comes again, unless it was moved
            except TimeoutError:
                break  # some of those were
    killer.join()
    assert drained(shared, source) == []
    assert sorted(int(frame.body) for frame in drained(shared, target)) == list(range(count))


def _move(client: Client, message: Frame, destination: str) -> list[Frame]:
    """Returns the next message if it came before the receipt. Raises ClosedByBroker behind an ERROR."""
    client.send("BEGIN", {"transaction": "t"})
    client.ack(message, transaction="t")
    client.send("SEND", {"destination": destination, "transaction": "t", "persistent": "true"}, message.body)
    client.send("COMMIT", {"transaction": "t", "receipt": "done"})
    early: list[Frame] = []
    while (frame := client.read(timeout=60)).command != "RECEIPT":
        if frame.command == "MESSAGE":
            early.append(frame)
    return early


def test_dead_letters_cross_to_another_owner_exactly_once(shared):
    """Large ones too; the owner of the dead letters is killed while they are on their way."""
    home = leader_of(shared, "DLQ")
    source = next(led_by(shared, next(owner for owner in shared.owners if owner is not home), "dead"))
    bodies = [b"%d" % number for number in range(60)]
    bodies[10:10] = [bytes([65 + number]) * (200 * 1024) for number in range(4)]
    with joined(shared) as writer:
        for body in bodies:
            writer.publish(f"/queue/{source}", body, persistent="true")
    killer = Killer(shared, ["DLQ"], pause=0.2)
    with joined(shared, 1) as client:
        client.subscribe(f"/queue/{source}", ack="client-individual", prefetch_count=4)
        for _ in bodies:
            client.nack(client.expect("MESSAGE", timeout=60))
            time.sleep(0.02)
        client.ask("DISCONNECT")
    killer.join()
    got = drained(shared, "DLQ")
    assert sorted(map(digest, [frame.body for frame in got])) == sorted(map(digest, bodies))
    assert drained(shared, source) == []


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
