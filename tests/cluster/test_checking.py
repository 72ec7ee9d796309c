"""`stampede cluster check` against real owners: quiet while all have the same, and loud when one has not."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys

from broker.journal.log import format as f
from tests.cluster.load import Load, persistent
from tests.cluster.slots import slot_of
from tests.harness.cluster import Cluster, Process

MARK, OTHER = b"every replica has this", b"every replica has that"


def check(cluster: Cluster, *slots: int) -> tuple[int, list[dict]]:
    line = [sys.executable, "-m", "broker.app.cli", "cluster", "check", "--json", *map(str, slots)]
    line += ["--set", f"etcd.endpoints=127.0.0.1:{cluster.etcd_port}", "--set", "etcd.prefix=/stampede/test"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, [json.loads(text) for text in done.stdout.splitlines()]


def send(cluster: Cluster, queue: str, body: bytes) -> None:
    line = [sys.executable, "-m", "broker.app.cli", "send", f"/queue/{queue}", body.decode()]
    line += ["--url", f"stomp://127.0.0.1:{cluster.edges[0].port}", "--persistent"]
    subprocess.run(line, check=True, capture_output=True, timeout=60)


def beside(address: str) -> str:
    """Another address in the same slot."""
    names = (f"{address}.beside.{number}" for number in itertools.count())
    return next(name for name in names if slot_of(name) == slot_of(address))


def accepted(cluster: Cluster) -> int:
    """How many messages the owners have taken so far."""
    found = (re.search(r"^stomp_messages_accepted_total (\S+)", owner.metrics(), re.M) for owner in cluster.owners)
    return sum(int(float(match[1])) for match in found if match)


def tamper(owner: Process) -> None:
    """Changes a message on this owner's disk, checksum and all: what no checksum can find."""
    for path in sorted((owner.data / "journal").glob("*.log")):
        data = bytearray(path.read_bytes())
        place = data.find(MARK)
        if place < 0:
            continue
        checksum = f.CHECKSUMS[f.PREFERRED]
        for start in range(place, 0, -1):
            crc, length = f.PREFIX.unpack_from(data, start)
            stop = start + f.RECORD.size + length
            if place < stop <= len(data) and checksum(bytes(data[start + 4 : stop])) == crc:
                data[place : place + len(MARK)] = OTHER
                f.PREFIX.pack_into(data, start, checksum(bytes(data[start + 4 : stop])), length)
                path.write_bytes(data)
                return
    raise AssertionError("the message is nowhere")


def test_replicas_are_compared_under_load_and_a_changed_message_is_found(cluster_of):
    cluster = cluster_of(edges=1)
    loads = [f"load{number}" for number in range(4)]
    slots = [slot_of(load) for load in loads]
    for load in loads:
        send(cluster, beside(load), b"stays")  # the load itself may be consumed whenever somebody looks
    load = Load(cluster.edges[0].port, *persistent(6, 500))
    cluster.wait(lambda: accepted(cluster) > 100, 30, lambda: "no load")
    status, under_load = check(cluster, *slots)
    assert load.running(), "the check took longer than the load"
    assert status == 0, under_load
    assert sorted(one["slot"] for one in under_load) == sorted(slots)
    for one in under_load:
        assert one["replicas"] == [owner.id for owner in cluster.owners] and one["messages"] >= 1, one
    assert load.result()["errors"] == 0
    send(cluster, "kept", MARK)
    victim = next(o for o in cluster.owners if o.id != cluster.records()[slot_of("kept")]["leader"])
    assert victim.stop() == 0
    tamper(victim)
    victim.start()
    victim.wait_ready()
    status, (found,) = check(cluster, slot_of("kept"))
    assert status == 1 and victim.id in found["replicas"], found
    odd = [text for text in found["differences"] if "other bytes" in text]
    assert odd and all(victim.id in text for text in odd), "it may lead by now: then the others differ from it"
    assert found["messages"] == 1
