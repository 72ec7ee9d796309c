"""What hornetq-configuration.xml becomes."""

from __future__ import annotations

from pathlib import Path

from broker.config.foreign.foreign_files import read

FOUND = read((Path(__file__).parent / "foreign_files" / "hornetq.xml").read_bytes())


def test_queues_are_queues_and_topics_are_topics_under_their_whole_names():
    assert FOUND.values["engine.address.default_routing"] == "ANYCAST"
    assert FOUND.tables["engine.addresses"]["jms.topic.#"] == {"default_routing": "MULTICAST"}
    assert FOUND.tables["engine.queues"]["jms.queue.orders"] == {"address": "jms.queue.orders", "routing": "ANYCAST"}


def test_parameters_of_acceptors_are_those_of_ours():
    stomp = FOUND.tables["acceptors"]["stomp"]
    assert (stomp["port"], stomp["connection_ttl_ms"], stomp["anycast_prefix"]) == (61613, 20000, "")


def test_what_artemis_kept_is_read_as_its_own():
    assert FOUND.tables["engine.addresses"]["#"]["max_size_bytes"] == 10 << 20
    assert FOUND.tables["edge.permissions"]["jms.queue.#"] == {"send": "a", "consume": "a,b"}


def test_bridges_come_first():
    assert [note.what for note in FOUND.notes] == ["<bridges>", "<paging-directory>", "<connectors>"]
