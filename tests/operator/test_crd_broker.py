"""What a StompBroker may say: what would lose messages or cannot be changed later is refused, with what to do."""

from __future__ import annotations

import re

from broker_operator.crds.crd_broker import COLUMNS, spec, status

from broker.config.settings import ClusterSettings

PROPERTIES = spec()["properties"]
CLUSTER = PROPERTIES["settings"]["properties"]["cluster"]


def rules(schema: dict) -> str:
    return " ".join(f"{one['rule']} | {one['message']}" for one in schema["x-kubernetes-validations"])


def test_rules_count_with_the_defaults_of_the_settings():
    """A field that is left out is the default; a rule that took another number for it would refuse what is fine."""
    said = re.findall(r"has\(self\.(\w+)\) \? self\.\w+ : (\d+)", rules(CLUSTER))
    own = ClusterSettings()
    assert {name: int(value) for name, value in said} == {
        "deadAfterMs": own.dead_after_ms, "promiseMs": own.promise_ms, "pingMs": own.ping_ms,
    }  # fmt: skip


def test_what_the_operator_says_itself_cannot_be_said_in_the_settings():
    assert not {"id", "zone", "host", "port", "advertise", "replicas", "minInSync"} & set(CLUSTER["properties"])
    reads = PROPERTIES["settings"]["properties"]["logReads"]["properties"]
    assert "port" in reads and not {"host", "certFile", "keyFile"} & set(reads)
    assert "image" not in PROPERTIES["owners"]["properties"], "all owners have the image of the broker"


def test_what_says_where_messages_are_is_fixed():
    storage = PROPERTIES["owners"]["properties"]["storage"]
    assert "may only grow" in rules(storage["properties"]["size"])
    assert "cannot be set or taken out later" in rules(PROPERTIES["etcd"])
    assert "no message could be confirmed" in rules(PROPERTIES["replication"])


def test_every_column_shows_a_field_that_is_there():
    there = {"spec": PROPERTIES, "status": status()}
    for name, kind, path, _ in COLUMNS:
        if "conditions" in path:
            continue
        top, *parts = path.removeprefix(".").split(".")
        schema: dict = {"properties": there[top]}
        for part in parts:
            schema = schema["properties"][part]
        assert schema["type"] == kind, name
