"""The custom resources say what the settings say, and the files are those that are made of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml
from broker_operator.crds import crds
from broker_operator.crds.crd_acceptor import OPENING
from broker_operator.spec import model, names
from broker_operator.spec.model import AcceptorSpec, AddressSpec, BrokerSpec, UserSpec
from broker_operator.spec.names import ACCEPTOR, ADDRESS, BROKER, USER
from broker_operator.spec.schema import camel, entry_settings, group_settings

from broker.config.catalogue import entry_leaves

from .builders import rules_of

TYPES = {BROKER: BrokerSpec, ACCEPTOR: AcceptorSpec, ADDRESS: AddressSpec, USER: UserSpec}


def spec_of(kind: str) -> dict[str, Any]:
    return crds.schema_of(kind)["properties"]["spec"]["properties"]


@pytest.mark.parametrize(
    ("table", "properties"),
    [
        ("engine.addresses", spec_of(ADDRESS)["settings"]["properties"]),
        ("engine.queues", spec_of(ADDRESS)["queues"]["items"]["properties"]),
        ("engine.diverts", spec_of(ADDRESS)["diverts"]["items"]["properties"]),
        ("edge.permissions", spec_of(ADDRESS)["permissions"]["properties"]),
        ("acceptors", spec_of(ACCEPTOR)["listeners"]["items"]["properties"]),
    ],
)
def test_every_setting_of_an_entry_can_be_said(table, properties):
    said_otherwise = {
        "address",
        "url",
        "host",
        "tls",
        *(name for name in entry_leaves(table) if name.startswith("tls_")),
        *OPENING,
    }
    for name, leaf in entry_leaves(table).items():
        if name in said_otherwise:
            continue
        found = properties[camel(name)]
        assert found["description"], name
        if leaf.kind is bool:
            assert found["type"] == "boolean"
        elif leaf.unit == "bytes":
            assert found["x-kubernetes-int-or-string"] and found["minimum"] == leaf.least
        elif "|" in leaf.unit:
            assert set(found["enum"]) == set(leaf.unit.split("|")), name
        elif leaf.kind is int and name != "port":
            assert (found["type"], found.get("minimum"), found.get("maximum")) == ("integer", leaf.least, leaf.most)


def test_an_acceptor_cannot_open_a_port_to_everybody():
    """Who may write a StompAcceptor would be any StompUser otherwise, without its passcode."""
    assert set(OPENING) <= set(entry_leaves("acceptors"))
    listener = spec_of(ACCEPTOR)["listeners"]["items"]["properties"]
    assert not {"defaultUser", "implicitConnect"} & set(listener)


@pytest.mark.parametrize("kind", list(TYPES))
def test_the_operator_reads_every_field_of_a_spec(kind):
    compare(spec_of(kind), TYPES[kind], kind)


def compare(properties: dict[str, Any], type_: type[msgspec.Struct], where: str) -> None:
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    assert set(properties) == set(fields), where
    for name, found in fields.items():
        for inner in getattr(found, "__args__", (found,)):
            if isinstance(inner, type) and issubclass(inner, model._Spec):
                there = properties[name].get("items", properties[name])
                compare(there["properties"], inner, f"{where}.{name}")


def test_defaults_of_the_schema_are_those_of_the_operator():
    acceptor = msgspec.convert({"listeners": []}, AcceptorSpec)
    assert spec_of(ACCEPTOR)["drain"]["properties"]["delaySeconds"]["default"] == acceptor.drain.delay_seconds
    assert spec_of(ACCEPTOR)["maxUnavailable"]["default"] == acceptor.max_unavailable
    broker = msgspec.convert({"etcd": {"endpoints": []}}, BrokerSpec)
    assert spec_of(BROKER)["replication"]["default"] == {
        "factor": broker.replication.factor, "minInSync": broker.replication.min_in_sync,
    }  # fmt: skip
    assert spec_of(BROKER)["owners"]["properties"]["replicas"]["default"] == broker.owners.replicas
    user = UserSpec()
    assert spec_of(USER)["rotationGraceSeconds"]["default"] == user.rotation_grace_seconds


def test_rules_are_many_and_say_what_to_do():
    rules = [rule for kind in names.PLURALS for rule in rules_of(crds.schema_of(kind))]
    assert len(rules) >= 25
    for rule in rules:
        assert len(rule["message"]) >= 15, rule


def test_columns_and_scale():
    for kind in names.PLURALS:
        version = crds.crd(kind)["spec"]["versions"][0]
        shown = [column for column in version["additionalPrinterColumns"] if not column.get("priority")]
        assert 4 <= len(shown) <= 7 and shown[-1]["name"] == "Age"
        assert "status" in version["subresources"]
    for kind in (BROKER, ACCEPTOR):
        assert "scale" in crds.crd(kind)["spec"]["versions"][0]["subresources"]


def test_the_template_of_the_chart_is_guarded():
    text = crds.template(ADDRESS)
    assert text.count("{{- if") == text.count("{{- end }}") >= 2 and "helm.sh/resource-policy: keep" in text
    plain = "\n".join(line for line in text.splitlines() if "{{" not in line)
    assert yaml.safe_load(plain)["spec"] == yaml.safe_load(crds.manifest(ADDRESS))["spec"]


def test_what_is_said_becomes_settings():
    given = {"maxSizeBytes": "10MiB", "routingTypes": ["ANYCAST", "MULTICAST"], "name": "x", "lastValue": True}
    assert entry_settings("engine.addresses", given) == {
        "max_size_bytes": "10MiB", "routing_types": "ANYCAST,MULTICAST", "last_value": True,
    }  # fmt: skip
    assert group_settings("journal", {"segmentBytes": 5, "else": 1}) == {"segment_bytes": 5}
