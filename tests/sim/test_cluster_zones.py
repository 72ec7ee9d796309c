"""A zone is lost: two of six owners and an edge at once, with their disks. What had its receipt is there, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Settle, Subscribe
from broker.core.effects import Deliver, Done, Refused
from broker.core.ids import slot_of
from broker.core.message import DURABLE, Run
from tests.scaling.growth import Cluster

QUEUES = [f"orders.{n}" for n in range(48)]
ROUNDS = 40


class Client:
    """Of one edge: sends with receipts, and takes what it is given."""

    def __init__(self, cluster: Cluster, edge: str) -> None:
        self.host, self.port = cluster.world.hosts[edge], cluster.ports[edge]
        self.port.attach(self)
        self.sent: dict[int, bytes] = {}
        self.confirmed: list[bytes] = []
        self.got: Counter[bytes] = Counter()
        self.slots: dict[int, int] = {}

    def submit(self, *commands: Any) -> None:
        assert self.host.place is not None
        self.host.place.run(self.port.submit, list(commands))

    def send(self, queue: str, text: bytes) -> None:
        number = len(self.sent) + 1
        self.sent[number] = text
        record = b"\n" + text + b"\0"
        run = Run(range(0), b"", [record], len(record), DURABLE)
        self.submit(Publish(slot_of(queue), 1, number, queue, Routing.ANYCAST, run))

    def consume(self, queue: str, consumer: int) -> None:
        self.slots[consumer] = slot_of(queue)
        self.submit(Subscribe(slot_of(queue), 2, 0, consumer, queue, Routing.ANYCAST, AckMode.CLIENT, room=1 << 20))

    def on_effects(self, effects: list[Any]) -> None:
        for effect in effects:
            if type(effect) is Done and effect.seq in self.sent:
                self.confirmed.append(self.sent[effect.seq])
            elif type(effect) is Refused:
                raise AssertionError(effect)
            elif type(effect) is Deliver:
                self.got.update(record.strip(b"\n\0") for record in effect.run.records)
                self.port.submit([Settle(self.slots[effect.consumer], 2, 0, effect.consumer, list(effect.run.ids))])

    def on_relief(self, sessions: object = None) -> None: ...
    def on_stopped(self, why: str) -> None: ...


def zone_of(name: str) -> int:
    return int(name.rpartition("-")[2]) % 3


def test_each_slot_has_a_copy_in_each_of_three_zones_and_edges_know_what_is_near():
    with Cluster(owners=6, edges=3, zones=3) as cluster:
        for record in cluster.records.values():
            assert {zone_of(one) for one in record.isr} == {0, 1, 2}
        for host in cluster.world.of("edge"):
            own = {slot for slot, record in cluster.records.items() if zone_of(record.leader) == zone_of(host.name)}
            assert host.process.process.near.slots == own and len(own) > 50


def test_a_zone_is_lost_and_no_message_that_had_its_receipt():
    with Cluster(owners=6, edges=3, zones=3) as cluster:
        clients = [Client(cluster, "edge-0"), Client(cluster, "edge-1")]
        lost = [host for host in cluster.world.hosts.values() if zone_of(host.name) == 2]
        assert [host.kind for host in lost] == ["owner", "owner", "edge"]
        number = 0
        for turn in range(ROUNDS):
            for queue in QUEUES:
                number += 1
                clients[number % 2].send(queue, b"%d" % number)
            cluster.loop.run_for(0.02)
            if turn == ROUNDS // 2:
                early = sum(len(client.confirmed) for client in clients)
                for host in lost:
                    host.kill(power=True)  # and its disk is never read again
        assert 0 < early < number
        took = cluster.until(lambda: sum(len(client.confirmed) for client in clients) == number, 30.0, "all confirmed")
        assert took < 10.0, "longest wait for a receipt, seconds of the cluster's own clock"
        assert all(zone_of(record.leader) != 2 for record in cluster.records.values())
        for consumer, queue in enumerate(QUEUES, 1):
            clients[0].consume(queue, consumer)
        cluster.until(lambda: len(clients[0].got) == number, 30.0, "all are there")
        assert set(clients[0].got.values()) == {1}
