"""What RabbitMQ's exported definitions become."""

from __future__ import annotations

from pathlib import Path

from broker.config.foreign.foreign_files import read

FOUND = read((Path(__file__).parent / "foreign_files" / "definitions.json").read_bytes())
TOLD = [note.what for note in FOUND.notes]


def test_queues_with_arguments_and_the_policy_that_fits():
    addresses = FOUND.tables["engine.addresses"]
    assert addresses["orders"] == {
        "expiry_delay_ms": 60000, "max_size_messages": 1000, "full_policy": "FAIL",
        "dead_letter_address": "$exchange/dlx/dead",
    }  # fmt: skip
    assert addresses["dead"] == {"max_delivery_attempts": 6}
    assert addresses["$host/shop.orders"] == {"exclusive": True}
    assert list(FOUND.tables["engine.queues"]) == ["orders", "dead", "$host/shop.orders"]


def test_exchanges_and_bindings():
    assert FOUND.tables["edge.exchanges"] == {"dlx": {"type": "direct"}, "logs.all": {"type": "topic"}}
    bound = [(each["address"], each["forward"]) for each in FOUND.tables["engine.diverts"].values()]
    assert bound == [("$exchange/dlx/dead", "dead"), ("$exchange/logs%2Eall.a.b", "orders"), ("news", "orders")]


def test_virtual_hosts_and_who_may_do_everything():
    assert FOUND.tables["edge.virtual_hosts"] == {"shop": {"max_connections": 20}, "a-b": {"names": "a b"}}
    assert FOUND.values["edge.unknown_hosts"] == "refuse"
    assert FOUND.tables["edge.permissions"]["#"]["send"] == "guest"
    assert FOUND.tables["edge.permissions"]["$host/shop.#"] == {"consume": "ada", "browse": "ada"}


def test_users_permissions_and_shovels_come_first_and_the_rest_is_named():
    assert TOLD[:3] == ["users", "write of 'ada' in 'shop'", "shovel 's'"]
    for what in ("exchange 'x'", "queue 'tmp'", "queue 'log'", "policy 'none' ('^zzz')"):
        assert what in TOLD
