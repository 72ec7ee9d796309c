"""Artemis' broker.xml: what becomes settings, what becomes notes, and what is no broker.xml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from broker.config.addressing import AddressSettings, DivertSettings, QueueSettings
from broker.config.artemis.artemis_names import (
    ADDRESS,
    ADDRESS_WITHOUT,
    BROKER_WITHOUT,
    DIVERT,
    PERMISSION,
    PERMISSION_WITHOUT,
    QUEUE,
    QUEUE_WITHOUT,
)
from broker.config.artemis.import_text import as_toml
from broker.config.artemis.importing import SECTIONS, convert
from broker.config.load import from_tree
from broker.config.permissions import OPERATIONS
from broker.core.errors import ConfigError

FOLDER = Path(__file__).parent / "broker_xml"


def core(inner: str) -> bytes:
    return f"<configuration><core>{inner}</core></configuration>".encode()


def address_setting(inner: str, match: str = "a") -> dict[str, object]:
    settings = f'<address-settings><address-setting match="{match}">{inner}</address-setting></address-settings>'
    return convert(core(settings)).tables.get("engine.addresses", {}).get(match, {})


def acceptor(url: str, more: str = ""):
    return convert(core(f'<acceptors><acceptor name="x">{url}</acceptor></acceptors>{more}'))


def test_the_stock_file_becomes_three_acceptors_and_two_queues():
    found = convert((FOLDER / "stock.xml").read_bytes())
    acceptors = found.tables["acceptors"]
    assert {name: table["port"] for name, table in acceptors.items()} == {
        "artemis": 61616, "stomp": 61613, "hornetq": 5445,
    }  # fmt: skip
    assert acceptors["hornetq"]["anycast_prefix"] == "jms.queue."
    assert acceptors["stomp"]["anycast_prefix"] == acceptors["stomp"]["multicast_prefix"] == ""
    assert (found.values["edge.port"], found.values["edge.ws_port"]) == (-1, -1)
    assert found.values["journal.segment_bytes"] == 10 << 20
    everywhere = found.tables["engine.addresses"]["#"]
    assert (everywhere["dead_letter_address"], everywhere["expiry_address"]) == ("DLQ", "ExpiryQueue")
    assert everywhere["auto_delete"] is False
    assert set(found.tables["engine.queues"]) == {"DLQ", "ExpiryQueue"}


def test_addresses_do_what_they_did_where_the_file_says_nothing():
    found = convert(core(""))
    assert found.values["engine.address.default_routing"] == "MULTICAST"
    assert found.values["engine.address.dead_letter_address"] == ""


def test_the_file_with_everything():
    found = convert((FOLDER / "everything.xml").read_bytes())
    tables = found.tables
    assert found.values["engine.wildcard_delimiter"] == "/"
    assert found.values["engine.address.id_cache_size"] == 500
    assert found.values["journal.min_free_bytes"] == 500 << 20
    assert found.values["journal.sync"] is False
    assert tables["acceptors"]["plain"]["anycast_prefix"] == "queue/,q/"
    assert tables["acceptors"]["plain"]["connection_ttl_ms"] == 20_000
    assert tables["acceptors"]["web"]["connection_ttl_ms"] == 45_000, "connection-ttl-override"
    assert all(table["validated_user"] for table in tables["acceptors"].values())
    orders = tables["engine.addresses"]["orders/*"]
    assert (orders["full_policy"], orders["max_size_bytes"], orders["slow_consumer_unit"]) == (
        "BLOCK", 10 << 20, "MINUTE",
    )  # fmt: skip
    assert orders["redelivery_jitter"] == 0.15
    assert tables["engine.addresses"]["orders"] == {"declared": True, "routing_types": "ANYCAST,MULTICAST"}
    assert tables["engine.queues"]["myclientid.mysubscription"] == {"address": "orders", "routing": "MULTICAST"}
    assert tables["engine.queues"]["orders/big"]["selector"] == "amount > 1000"
    assert tables["engine.queues"]["legacy"]["address"] == "legacy/address"
    assert tables["engine.diverts"]["copy"] == {
        "address": "orders", "forward": "audit,archive", "selector": "amount > 10", "exclusive": True,
        "routing": "ANYCAST",
    }  # fmt: skip


def test_every_element_with_a_counterpart_is_used_and_every_other_one_is_told():
    """Of the file with everything, which holds each name of an address-setting."""
    text = (FOLDER / "everything.xml").read_text()
    found = convert(text.encode())
    told = " ".join(note.what for note in found.notes)
    taken = {key for table in found.tables["engine.addresses"].values() for key in table}
    for name, ours in ADDRESS.items():
        assert f"<{name}>" in text
        assert ours in taken, name
    for name in ADDRESS_WITHOUT:
        assert f"<{name}> of address-setting" in told, name
    for name in (
        "ha-policy",
        "bridges",
        "cluster-connections",
        "broker-plugins",
        "made-up-element",
    ):
        assert f"<{name}>" in told
    for what in ("<role-mapping>", "<security-setting-plugin>"):
        assert what in told


def test_notes_name_the_line_and_no_secret():
    data = (FOLDER / "everything.xml").read_bytes()
    found = convert(data)
    lines = data.decode().splitlines()
    for note in found.notes:
        if note.what.startswith("<") and " of " not in note.what and note.what != "<include>":
            assert note.what.strip("<>") in lines[note.line - 1]
    assert b"secret" in data
    assert "secret" not in as_toml(found, "x")


@pytest.mark.parametrize("table", [ADDRESS, QUEUE, DIVERT])
def test_names_lead_to_fields_that_exist(table):
    kind = {id(ADDRESS): AddressSettings, id(QUEUE): QueueSettings, id(DIVERT): DivertSettings}[id(table)]
    assert set(table.values()) <= set(kind.__dataclass_fields__)


def test_a_name_is_something_here_or_nothing_never_both():
    assert not set(ADDRESS) & set(ADDRESS_WITHOUT)
    assert not set(QUEUE) & set(QUEUE_WITHOUT)
    assert not set(SECTIONS) & set(BROKER_WITHOUT)
    assert not set(PERMISSION) & set(PERMISSION_WITHOUT) and set(PERMISSION.values()) == set(OPERATIONS) - {"read"}


@pytest.mark.parametrize(
    ("text", "size"),
    [("10M", 10 << 20), ("10Mb", 10 << 20), ("10MiB", 10 << 20), ("1g", 1 << 30), ("-1", -1), ("7", 7)],
)
def test_sizes_are_powers_of_1024(text, size):
    assert address_setting(f"<max-size-bytes>{text}</max-size-bytes>") == {"max_size_bytes": size}


def test_a_cap_of_minus_one_means_ten_times_the_delay():
    assert address_setting("<max-redelivery-delay>-1</max-redelivery-delay>") == {"max_redelivery_delay_ms": 0}


def test_a_value_that_would_be_refused_becomes_a_note():
    xml = "<max-delivery-attempts>many</max-delivery-attempts><redelivery-delay>5</redelivery-delay>"
    assert address_setting(xml) == {"redelivery_delay_ms": 5}


def test_settings_that_contradict_each_other_become_a_note():
    xml = "<redelivery-delay>5000</redelivery-delay><max-redelivery-delay>10</max-redelivery-delay>"
    assert address_setting(xml) == {}


def test_a_filter_that_is_no_selector_costs_its_queue():
    queues = '<queue name="q"><filter string="a ="/></queue><queue name="r"/>'
    found = convert(core(f'<addresses><address name="a"><multicast>{queues}</multicast></address></addresses>'))
    assert set(found.tables["engine.queues"]) == {"r"}
    assert ["selector" in note.why for note in found.notes] == [True]


@pytest.mark.parametrize("port", ["99999", "http", "-5"])
def test_an_acceptor_whose_port_is_none_is_named_with_the_reason(port):
    found = acceptor(f"tcp://0.0.0.0:{port}?protocols=STOMP;connectionTtl=5000")
    assert "acceptors" not in found.tables
    (note,) = found.notes
    assert port in note.why and "none of its protocols" not in note.why


def test_acceptors_without_stomp_are_left_out():
    found = acceptor("tcp://0.0.0.0:5672?protocols=AMQP")
    assert "acceptors" not in found.tables
    assert "edge.port" not in found.values, "our own ports stay when nothing takes their place"
    assert [note.what for note in found.notes] == ["acceptor 'x'"]


def test_an_unknown_parameter_costs_that_parameter_only():
    found = acceptor("tcp://0.0.0.0:1000?connectionTtl=5000;noSuch=1")
    assert found.tables["acceptors"]["x"]["connection_ttl_ms"] == 5000
    assert ["noSuch" in note.why for note in found.notes] == [True]


def test_an_acceptor_of_its_own_time_to_live_keeps_it():
    found = acceptor("tcp://h:1?connectionTtl=5000", "<connection-ttl-override>-1</connection-ttl-override>")
    assert found.tables["acceptors"]["x"]["connection_ttl_ms"] == 5000


def test_a_system_property_is_replaced_by_its_default():
    found = acceptor("tcp://${host:127.0.0.1}:${port:1000}")
    assert (found.tables["acceptors"]["x"]["host"], found.tables["acceptors"]["x"]["port"]) == ("127.0.0.1", 1000)
    assert sorted(note.what for note in found.notes) == ["${host}", "${port}"]


def test_two_acceptors_on_one_port_are_told_in_the_first_lines():
    xml = '<acceptors><acceptor name="a">tcp://:1000</acceptor><acceptor name="b">tcp://:1000</acceptor></acceptors>'
    assert "to be mended before use" in as_toml(convert(core(xml)), "x")


LAUGHS = (
    b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><configuration><core><name>&b;</name></core></configuration>'
)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no element found"),
        (b"<configuration><core></configuration>", "mismatched tag"),
        (b"not xml", "syntax error"),
        (b"<beans/>", "no <core>"),
        (LAUGHS, "entities"),
        (b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><core>&a;</core>', "entities"),
        (b'<?xml version="1.0" encoding="no-such"?><core/>', "encoding"),
        (b"<core>" + b"<a>" * 100 + b"</a>" * 100 + b"</core>", "too deep"),
    ],
)
def test_what_is_no_broker_xml_is_refused(data, why):
    with pytest.raises(ConfigError, match=why):
        convert(data)


def test_security_settings_become_permissions_and_say_no_more_than_they_did():
    found = convert((FOLDER / "everything.xml").read_bytes())
    assert found.tables["edge.permissions"] == {
        "orders/#": {"send": "shop", "consume": "shop,audit", "manage": "shop"},
        "closed": {},
        "orders/::audit": {"browse": "audit"},
    }
    loaded = tomllib.loads(as_toml(found, "x"))
    assert from_tree(loaded, "x").edge.permissions["closed"] == {}, "an entry that says nothing is for nobody"


def test_what_was_not_in_use_is_not_put_in_use():
    text = (FOLDER / "stock.xml").read_text()
    everything = convert(text.encode()).tables["edge.permissions"]["#"]
    assert set(everything) == set(OPERATIONS) - {"read"} and set(everything.values()) == {"amq"}
    off = text.replace("<security-settings>", "<security-enabled>false</security-enabled><security-settings>", 1)
    found = convert(off.encode())
    assert "edge.permissions" not in found.tables
    assert any("security-enabled is false" in note.why for note in found.notes)


def test_a_permission_that_would_be_refused_becomes_a_note():
    found = convert(
        core(
            "<security-settings><security-setting match='a.#.b'><permission type='send' roles='x'/>"
            "</security-setting></security-settings>"
        )
    )
    why = " ".join(note.why for note in found.notes)
    assert "comes last" in why and "lets nobody do anything" in why
    assert found.tables["edge.permissions"] == {"a.#": {}}


@pytest.mark.parametrize(
    ("match", "closed"),
    [
        ("a.#.b", "a.#"),
        ("#.secret", "#"),
        ("a.b.#.c.#", "a.b.#"),
        ("", "#"),
        ("a::", "#"),
        ("x.a::", "x.#"),
        ("a..#.b", "#"),
    ],
)
def test_a_security_setting_that_cannot_be_here_leaves_nothing_to_a_wider_one(match, closed):
    """It disappeared, and the entry for # granted what it had kept to others; whatever the order in the file."""
    wide = "<security-setting match='#'><permission type='send' roles='all'/></security-setting>"
    own = f"<security-setting match='{match}'><permission type='send' roles='boss'/></security-setting>"
    for settings in (wide + own, own + wide):
        found = convert(core(f"<security-settings>{settings}</security-settings>"))
        permissions = found.tables["edge.permissions"]
        assert permissions[closed] == {} and set(permissions) == {"#", closed}
        text = as_toml(found, "x")
        assert "lets nobody do anything there" in " ".join(text.replace("#", "").split())
        assert from_tree(tomllib.loads(text), "x").edge.permissions[closed] == {}


def test_other_wildcard_words_become_ours():
    """Matches with them became names of addresses that nobody has."""
    found = convert(
        core(
            "<wildcard-addresses><single-word>+</single-word><any-words>&gt;</any-words><delimiter>/</delimiter>"
            "</wildcard-addresses><address-settings>"
            + "".join(
                f"<address-setting match='{match}'><max-delivery-attempts>3</max-delivery-attempts></address-setting>"
                for match in ("a/+/&gt;", "a+b", "b/#")
            )
            + "</address-settings><security-settings>"
            + "".join(
                f"<security-setting match='{match}'><permission type='send' roles='x'/></security-setting>"
                for match in ("&gt;", "a/b::+", "c/#")
            )
            + "</security-settings><addresses><address name='a/+'><multicast><queue name='n'/></multicast></address>"
            "</addresses>"
        )
    )
    assert list(found.tables["engine.addresses"]) == ["a/*/#", "a+b", "a/*"]
    assert found.tables["edge.permissions"] == {"#": {"send": "x"}, "a/b::+": {"send": "x"}, "c/#": {}}
    assert found.tables["engine.queues"]["n"]["address"] == "a/*"
    assert len([n for n in found.notes if "were rewritten, and clients have to" in n.why]) == 2


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ("<Wildcards>Yes</Wildcards>", "unknown to this importer"),
        ("<any-words>**</any-words>", "it is always # here"),
        ("<delimiter/>", "must be one character"),
        ("<delimiter>::</delimiter>", "must be one character"),
    ],
)
def test_wildcards_that_cannot_be_as_they_were_are_noted(inner, why):
    queue = '<addresses><address name="a"><anycast><queue name="q"/></anycast></address></addresses>'
    found = convert(core(f"<wildcard-addresses>{inner}</wildcard-addresses>{queue}"))
    assert [note.why for note in found.notes if why in note.why] and len(found.notes) == 1
    assert "q" in found.tables["engine.queues"] and "to be mended" not in as_toml(found, "x")
