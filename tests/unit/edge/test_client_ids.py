"""Whose client-ids and durable subscriptions are: by the pattern of the acceptor."""

from __future__ import annotations

from typing import Any

import pytest

from broker.config.checks import check
from broker.config.settings import EdgeSettings, Settings
from broker.core.errors import Code, ConfigError, RefusedError
from broker.edge.access.client_ids import check_client_id, check_durable, fronts
from broker.edge.access.users import User
from broker.edge.transport.in_process_channel import InProcessChannel

from .bench import Bench, Wire

DEFAULT = EdgeSettings().client_ids
USERS = {"ada", "bob", "ada.eu"}


def refused(patterns: str, user: str, client_id: str) -> str:
    try:
        check_client_id(patterns, user, client_id, USERS.__contains__)
    except RefusedError as error:
        assert error.code is Code.NOT_ALLOWED
        return error.detail
    return ""


@pytest.mark.parametrize("client_id", ["ada", "ada.phone", "ada-1", "ada_x", "ada:1", "ada/x", "ada.europe"])
def test_a_user_has_the_client_ids_that_begin_with_his_name(client_id: str) -> None:
    assert not refused(DEFAULT, "ada", client_id)


@pytest.mark.parametrize("user", ["*", "a*", "*da"])
def test_a_star_in_the_name_of_a_user_is_one(user: str) -> None:
    assert refused(DEFAULT, user, "ada") and refused(DEFAULT, user, "ada.phone")
    assert not refused(DEFAULT, user, user) and not refused(DEFAULT, user, f"{user}.phone")


@pytest.mark.parametrize("client_id", ["bob", "bob.phone", "c", "adam", "xada", "ada.", "ADA", "%u", "*", "ad*"])
def test_no_other_and_the_refusal_says_what_to_do(client_id: str) -> None:
    told = refused(DEFAULT, "ada", client_id)
    assert f"client-id:{client_id}" in told and "'ada'" in told
    assert "take ada or ada.*" in told and "edge.client_ids" in told


def test_what_fits_two_users_is_the_one_with_the_longer_name() -> None:
    assert "'ada.eu'" in refused(DEFAULT, "ada", "ada.eu") and "'ada.eu'" in refused(DEFAULT, "ada", "ada.eu.phone")
    assert not refused(DEFAULT, "ada.eu", "ada.eu.phone")
    with pytest.raises(RefusedError, match=r"'ada\.eu'"):
        check_durable(DEFAULT, "ada", "ada.eu.inbox", USERS.__contains__)
    check_durable(DEFAULT, "ada", "ada.eu", USERS.__contains__)  # a queue of the other has a point behind it
    check_durable(DEFAULT, "ada", "ada.inbox", USERS.__contains__)
    check_durable("*", "ada", "ada.eu.inbox", USERS.__contains__)


def test_patterns() -> None:
    assert not refused("*", "ada", "whatever")
    assert not refused("app-%u-*", "ada", "app-ada-7") and refused("app-%u-*", "ada", "app-bob-7")
    assert not refused("*@%u", "ada", "x@ada") and refused("*@%u", "ada", "@ada")


@pytest.mark.parametrize("pattern", ["app-*", "%u.*.*", "%u,x"])
def test_a_pattern_that_is_anybodys_by_mistake_is_refused_at_the_start(pattern: str) -> None:
    with pytest.raises(ConfigError, match="client_ids"):
        check(Settings(edge=EdgeSettings(client_ids=pattern)))


def joined(bench: Bench, user: str, client_id: str, host: str = "h", port: str = "tcp") -> tuple[Any, bytes]:
    wire = Wire()
    wire.transport_name = port
    session = bench.edge.open(wire)  # type: ignore[arg-type]
    session.receive(
        f"CONNECT\naccept-version:1.2\nhost:{host}\nlogin:{user}\npasscode:x\nclient-id:{client_id}\n\n\0".encode()
    )
    return session, wire.take()


def house(acceptors: dict[str, Any] | None = None, **edge: Any) -> Bench:
    """ada, bob, and bob of the host shop, who all may log in with any passcode."""
    bench = Bench(acceptors, **edge)
    auth: Any = bench.edge.auth
    names = ("ada", "bob", "$host/shop.bob", "$host/shop.ada.eu")
    auth.replace({name: User(name, "$argon2id$x") for name in names})
    auth.try_now = lambda login, passcode, peer="": auth.trusted(login)
    return bench


async def test_nobody_comes_in_with_anothers() -> None:
    bench = house(client_id_in_use="takeover")
    mine, told = joined(bench, "ada", "ada.phone")
    assert told.startswith(b"CONNECTED")
    _, told = joined(bench, "bob", "ada.phone")
    assert told.startswith(b"ERROR") and b"error-code:1203" in told and b"not one of user 'bob'" in told
    assert not mine.closed  # nothing was taken over


async def test_hosts_have_users_of_their_own() -> None:
    bench = house(virtual_hosts={"shop": {}})
    assert joined(bench, "bob", "bob.x", "shop")[1].startswith(b"CONNECTED")
    assert b"error-code:1203" in joined(bench, "bob", "ada.x", "shop")[1]
    assert joined(bench, "ada", "ada.eu", "h")[1].startswith(b"CONNECTED")  # that user is the host's


async def test_an_acceptor_has_a_pattern_of_its_own_and_without_users_anything_goes() -> None:
    bench = house({"old": {"port": 1, "client_ids": "*"}, "new": {"port": 2}})
    assert joined(bench, "bob", "ada", port="old")[1].startswith(b"CONNECTED")
    assert b"error-code:1203" in joined(bench, "bob", "ada", port="new")[1]
    assert joined(Bench(), "bob", "ada")[1].startswith(b"CONNECTED")


async def test_a_bridge_is_called_as_it_is_whoever_its_user_is() -> None:
    channel = InProcessChannel(house().edge, "eu", "ada")  # type: ignore[arg-type]
    await channel.pipe.send(b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:bridge.eu\n\n\0")
    assert (await channel.pipe.read()).startswith(b"CONNECTED")


async def test_a_durable_name_does_not_reach_into_the_names_of_another() -> None:
    bench = house(virtual_hosts={"shop": {}})
    auth: Any = bench.edge.auth
    auth.replace({name: User(name, "$argon2id$x") for name in ("ada", "ada.eu")})
    session, _ = joined(bench, "ada", "ada")
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/news\ndurable-subscription-name:eu.inbox\n\n\0")
    assert session.closed
    other, _ = joined(bench, "ada", "ada")
    other.receive(b"SUBSCRIBE\nid:1\ndestination:/topic/news\ndurable-subscription-name:inbox\n\n\0")
    assert not other.closed


def test_fronts_are_what_names_of_durable_subscriptions_begin_with() -> None:
    assert fronts("%u,%u.*,%u-*,%u_*,%u:*,%u/*", "ada") == ["ada"]
    assert fronts("app-%u-*,x.%u,*", "ada") == ["app-ada", "x.ada"]
