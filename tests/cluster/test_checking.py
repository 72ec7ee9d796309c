"""`stampede cluster check` against real owners: quiet while all have the same, and loud when one has not."""

from __future__ import annotations

import json
import subprocess
import sys

from broker.journal import format as f
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
    slots = [slot_of(f"load{number}") for number in range(4)]
    load = Load(cluster.edges[0].port, *persistent(6, 500))
    status, under_load = check(cluster, *slots)
    assert status == 0, under_load
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
