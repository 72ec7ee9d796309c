"""A message that makes the engine of whoever leads its slot throw, or come to no end: its slot goes out of service, and
no other one."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.harness.broker import ROOT
from tests.harness.cluster import Cluster
from tests.harness.stomp import Client, Frame

from .slots import slot_of

pytestmark = [pytest.mark.timeout(600), pytest.mark.alone]  # owners end: what is slow beside that is told apart badly

PLANT = """
import os, sys
sys.path.insert(0, {root!r})
from broker.engine.at_work import stated
from broker.engine.engine import Engine

flush = Engine.flush

def poisoned(self, turn):
    if os.path.exists({file!r}):
        what, _, slot = open({file!r}).read().rpartition(" ")
        if slot == str(self.number) and what == "throw":
            raise KeyError("planted")
        while slot == str(self.number):
            pass
    return flush(self, turn)

Engine.flush = stated(poisoned)
"""
POISON = "poison"
OTHERS = [f"sound.{number}" for number in range(12)]


class Tended:
    """A cluster whose owners are started again when they end, as whatever looks after them would."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ends: list[str] = []

    def look(self) -> None:
        for owner in self.cluster.owners:
            if not owner.running:
                self.ends.append(owner.id)
                owner.start()

    def until(self, condition, why: str, seconds: float = 90.0) -> None:
        def done() -> bool:
            self.look()
            return bool(condition())

        self.cluster.wait(done, seconds, lambda: f"{why}; ended: {self.ends}\n{self.cluster.owners[0].log()[-3000:]}")

    def record(self) -> dict:
        return self.cluster.records()[slot_of(POISON)]

    def unnoted(self) -> int:
        """Ends without a note of the slot: etcd had half a second for it (quarantine.NOTE_S), and nothing is promised
        of them but that the next end tries again."""
        said = "that it has stopped this owner could not be noted"
        return sum(owner.log().count(said) for owner in self.cluster.owners)

    def calm(self) -> bool:
        """All other slots go on, with all owners. False while one is down: the next look starts it."""
        records = [one for number, one in self.cluster.records().items() if number != slot_of(POISON)]
        led = all(one["leader"] and len(one["isr"]) == len(self.cluster.owners) for one in records)
        return led and all(owner.ready() for owner in self.cluster.owners)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch) -> Path:
    """`throw 12` in this file: slot 12 throws as long as it stands there; `hang 12`: it has no end."""
    file = tmp_path / "poisoned"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(PLANT.format(root=str(ROOT), file=str(file)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    return file


def send(cluster: Cluster, address: str, body: bytes, edge: int = 0) -> Frame:
    """One persistent message; its RECEIPT, or the ERROR."""
    with Client(cluster.edges[edge].port, timeout=60) as client:
        client.connect()
        client.send("SEND", {"destination": f"/queue/{address}", "persistent": "true", "receipt": "1"}, body)
        return client.read()


def test_one_poisoned_slot_stops_two_owners_and_then_itself(cluster_of, planted):
    cluster = cluster_of()
    tended, slot = Tended(cluster), slot_of(POISON)
    assert slot not in map(slot_of, OTHERS)
    assert send(cluster, POISON, b"before").command == "RECEIPT"
    with Client(cluster.edges[1].port, timeout=60) as waiting:
        waiting.connect()
        planted.write_text(f"throw {slot}")
        waiting.send("SEND", {"destination": f"/queue/{POISON}", "persistent": "true", "receipt": "1"}, b"poison")
        tended.until(lambda: tended.record().get("shelved"), "not shelved")
        error = waiting.read()
    assert (error.command, error["error-code"]) == ("ERROR", "1609"), error

    tended.until(tended.calm, "the others are not led again, or owners wait for what nobody leads")
    # One leaves a note, the next one finds it. Nobody leads between the throw and what is noted of it.
    ends = len(tended.ends)
    assert 2 <= ends <= 2 + tended.unnoted(), tended.ends
    for address in OTHERS:
        assert send(cluster, address, b"sound").command == "RECEIPT"
    began = time.monotonic()
    again = send(cluster, POISON, b"again")
    assert again["error-code"] == "1609" and time.monotonic() - began < 20, "refused at once"
    told = json.loads(cluster.cluster("status", "--json", status=1))
    assert list(told["shelved"]) == [str(slot)] and "KeyError" in told["shelved"][str(slot)]
    assert told["slots"]["offline"] == told["slots"]["shelved"] == 1
    assert f"Slot {slot} is shelved" in cluster.cluster("status", status=1)

    # Mended, it has everything that anybody was told of.
    planted.unlink()
    cluster.cluster("unshelve", str(slot))
    cluster.wait_balanced()
    with Client(cluster.edges[0].port, timeout=60) as client:
        client.connect()
        client.send("SUBSCRIBE", {"destination": f"/queue/{POISON}", "id": "1", "ack": "client-individual"})
        assert client.read().body == b"before"
    assert send(cluster, POISON, b"after").command == "RECEIPT"
    tended.look()
    assert len(tended.ends) == ends and all("Traceback" not in edge.log() for edge in cluster.edges)


def test_one_that_hangs_whoever_leads_it_goes_out_of_service_as_well(cluster_of, planted):
    """Its owners stand still until it is found out: others lead all else meanwhile, and nothing hangs at the end."""
    cluster = cluster_of()
    tended, slot = Tended(cluster), slot_of(POISON)
    with Client(cluster.edges[0].port, timeout=200) as waiting:
        waiting.connect()
        planted.write_text(f"hang {slot}")
        waiting.send("SEND", {"destination": f"/queue/{POISON}", "persistent": "true", "receipt": "1"}, b"poison")
        tended.until(lambda: tended.record().get("shelved"), "not shelved", 200)
        assert "NoEnd" in tended.record()["shelved"]
        assert waiting.read().command == "ERROR"

    tended.until(tended.calm, "the others are not led again", 200)
    # The first that ends leaves a note. The next that ends takes the slot out of service, whoever leads it: by then
    # others may have been made its leader and hang already, each owner once, the first one in its second life.
    assert len(tended.ends) <= 1 + len(cluster.owners) + tended.unnoted(), tended.ends
    for address in OTHERS:
        assert send(cluster, address, b"sound").command == "RECEIPT"
    planted.unlink()
    cluster.cluster("unshelve", str(slot))
    cluster.wait_balanced()
    assert send(cluster, POISON, b"after").command == "RECEIPT"
