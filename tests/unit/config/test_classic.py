"""What ActiveMQ Classic's activemq.xml becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.foreign.foreign_files import read

FOUND = read((Path(__file__).parent / "foreign_files" / "activemq.xml").read_bytes())
TOLD = [(note.what, note.why) for note in FOUND.notes]


def test_policies_destinations_and_redelivery():
    addresses = FOUND.tables["engine.addresses"]
    assert addresses["#"] == {
        "max_size_bytes": 5 << 20, "full_policy": "BLOCK", "auto_create_dead_letter_resources": True,
        "dead_letter_queue_prefix": "DLQ.",
    }  # fmt: skip
    assert addresses["prices.#"] == {"retroactive_messages": 7}
    assert addresses["rates.#"] == {"retroactive_messages": 1000, "retroactive_ms": 30_000}
    assert addresses["news.#"] == {"retroactive_messages": 1000, "retroactive_bytes": 65_536}
    assert addresses["orders"]["max_delivery_attempts"] == 5 and addresses["orders"]["redelivery_multiplier"] == 3.0
    assert FOUND.tables["engine.queues"] == {"orders": {"address": "orders"}}


def test_what_a_topics_policy_drops_is_not_dropped_from_queues():
    assert "ring_size" not in FOUND.tables["engine.addresses"]["#"]
    assert any(what.startswith("ring_size of topic") for what, _ in TOLD)


def test_ports_virtual_topics_and_composites():
    stomp = FOUND.tables["acceptors"]["stomp"]
    assert (stomp["port"], stomp["connections_allowed"], stomp["dialect"]) == (61613, 50, "activemq")
    assert stomp["virtual_topic_consumers"] == "App.*.Events.>;2"
    assert FOUND.tables["acceptors"]["ws"]["transport"] == "websocket" and "openwire" not in FOUND.tables["acceptors"]
    assert FOUND.tables["engine.diverts"]["all-2"] == {
        "address": "all", "forward": "big", "exclusive": False, "routing": "MULTICAST", "selector": "n > 1",
    }  # fmt: skip
    assert FOUND.values["memory.limit_bytes"] == 64 << 20


def test_an_entry_that_cannot_be_here_leaves_nothing_to_a_wider_one():
    assert FOUND.tables["edge.permissions"]["#"] == {}
    assert FOUND.tables["edge.permissions"]["orders"]["send"] == "clerks,shops"
    assert any("a*b" in what for what, _ in TOLD)


def test_what_matters_comes_first_and_nothing_is_dropped_in_silence():
    assert [what for what, _ in TOLD[:2]] == ["<networkConnectors>", "<simpleAuthenticationPlugin>"]
    assert "ada (clerks)" in TOLD[1][1]
    for what in ("<unheardOf>", "trace of 'stomp'", "queuePrefetch of policyEntry '#'", "<storeUsage>",
                 "transportConnector 'openwire'", "advisorySupport of <broker>"):  # fmt: skip
        assert what in [told for told, _ in TOLD], what


@pytest.mark.parametrize(("given", "attempts"), [("4", 5), ("-1", -1), ("--5", None), ("²", None), ("1_0", None)])
def test_what_is_no_number_of_redeliveries_is_left_out(given, attempts):
    text = (Path(__file__).parent / "foreign_files" / "activemq.xml").read_text()
    found = read(text.replace('maximumRedeliveries="4"', f'maximumRedeliveries="{given}"').encode())
    assert found.tables["engine.addresses"]["orders"].get("max_delivery_attempts") == attempts
