"""Names of temporary destinations: unguessable, each connection's own, and put in place of what the client wrote."""

from __future__ import annotations

import pytest

from broker.config.settings import EngineSettings
from broker.core.address import TEMPORARY, Routing
from broker.core.errors import Code, RefusedError
from broker.core.ids import SLOTS, slot_of
from broker.edge.destinations.dialect import Dialect
from broker.edge.destinations.temporary import Private, Temporaries, address_of, private_of
from broker.edge.destinations.zone_affinity import ZoneAffinity
from broker.engine.address.address_settings import Matcher
from broker.wire.events import Head

PUBLIC = Dialect.public


def opened(name: str = "/temp-queue/x", most: int = 10) -> tuple[Temporaries, str]:
    names = Temporaries(PUBLIC, most)
    address, _ = names.subscribed(name)
    return names, address


def test_an_address_has_128_bits_that_nobody_can_guess_and_one_public_name():
    names, address = opened()
    opaque = address.removeprefix(TEMPORARY)
    assert len(opaque) == 32 and opened()[1] != address
    assert address_of(f"/reply-queue/{opaque}") == address == names.address("/temp-queue/x")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (b"reply-to:/temp-queue/x\na:b\n\nbody\0", 0),
        (b"a:b\nreply-to:/temp-queue/x\n\nreply-to:no\0", 4),
        (b"a:b\nreply-to:/temp-queue/x\nreply-to:second\n", 4),
    ],
)
def test_the_first_reply_to_of_the_header_lines_is_the_public_name(text, at):
    names, address = opened()
    wanted = b"reply-to:/reply-queue/" + address.removeprefix(TEMPORARY).encode()
    assert names.record(text, "/temp-queue/x") == text[:at] + wanted + text[text.index(b"\n", at) :]


@pytest.mark.parametrize("text", [b"", b"a:b\n", b"a:b\n\n\nreply-to:body\0", b"\n\nreply-to:body\n\0"])
def test_a_body_is_never_touched(text):
    names, _ = opened()
    assert names.record(text, "/temp-queue/x") == text


def test_a_head_is_rewritten_once():
    names, _ = opened()
    head = Head(b"reply-to:/temp-queue/x\n", {"reply-to": "/temp-queue/x"}, 0, False)
    assert names.head(head, "/temp-queue/x") is names.head(head, "/temp-queue/x")


def test_a_queue_has_one_subscription_and_a_topic_any_number():
    names, _ = opened("/temp-topic/x")
    names.subscribed("/temp-topic/x")
    with pytest.raises(RefusedError) as refused:
        opened()[0].subscribed("/temp-queue/x")
    assert refused.value.code is Code.DUPLICATE_SUBSCRIPTION


def test_the_name_is_free_with_its_last_subscription():
    names, address = opened("/temp-topic/x")
    names.subscribed("/temp-topic/x")
    names.unsubscribed(address)
    assert names.known("/temp-topic/x")
    names.unsubscribed(address)
    assert not names.known("/temp-topic/x")
    assert names.subscribed("/temp-topic/x")[0] != address


def test_names_are_bounded():
    names, _ = opened(most=2)
    names.subscribed("/temp-queue/y")
    with pytest.raises(RefusedError) as refused:
        names.subscribed("/temp-queue/z")
    assert refused.value.code is Code.SUBSCRIPTION_LIMIT


def test_who_waits_is_called_once():
    names = Temporaries(PUBLIC, 10)
    called: list[int] = []
    _, ready = names.subscribed("/temp-queue/x")
    assert names.when_ready("/temp-queue/x", lambda: called.append(1))
    ready()
    ready()
    assert called == [1] and not names.when_ready("/temp-queue/x", lambda: called.append(2))


def test_100_000_made_and_gone_leave_nothing():
    names = Temporaries(PUBLIC, 10)
    for number in range(100_000):
        address, ready = names.subscribed(f"/temp-queue/{number}")
        ready()
        names.unsubscribed(address)
    assert names._entries == names._names == {}


def test_what_a_send_says_by_names_of_its_own():
    assert private_of({"destination": "/queue/a", "reply-to": "/queue/b"}) is None
    assert private_of({"destination": "/queue/a", "reply-to": "/temp-queue/b"}) == Private(reply="/temp-queue/b")
    assert private_of({"destination": "/temp-topic/a"}) == Private(own="/temp-topic/a")


def test_settings_of_others_are_not_about_them():
    settings = EngineSettings(addresses={"#": {"auto_create": False, "partitions": 4, "routing_types": "ANYCAST"}})
    found = Matcher(settings)(TEMPORARY + "0" * 32)
    assert found.auto_create and found.partitions == 1 and found.routing_types == Routing.MULTICAST.name


def test_a_temporary_destination_lies_in_the_zone_of_its_edge_if_a_few_draws_give_that():
    near = ZoneAffinity()
    for slot in range(0, SLOTS, 3):
        near.led(slot, True)
    names = Temporaries(PUBLIC, 400, near=near)
    slots = [slot_of(names.subscribed(f"/temp-queue/{n}")[0]) for n in range(300)]
    assert sum(slot in near.slots for slot in slots) >= 290, "one in 600 does not"
    assert len({names.address(f"/temp-queue/{n}") for n in range(300)}) == 300
