"""Connections that have not logged in give way to newcomers: the longest waiting of who has the most."""

from __future__ import annotations

from types import SimpleNamespace

from broker.core.reasons import Reason
from broker.edge.access.login_places import Strangers


class Stranger:
    def __init__(self, peer: str) -> None:
        self.channel = SimpleNamespace(peer=peer)
        self.ended: list[Reason] = []

    def abort(self, reason: Reason, detail: str = "") -> None:
        assert detail
        self.ended.append(reason)


def came(strangers: Strangers, *peers: str) -> list[Stranger]:
    made = [Stranger(peer) for peer in peers]
    for one in made:
        strangers.come(one)
    return made


def test_the_oldest_of_the_address_with_the_most_gives_way():
    strangers = Strangers()
    alone, first, second = came(strangers, "10.0.0.9:1", "10.0.0.1:1", "10.0.0.1:2")
    assert len(strangers) == 3 and strangers.give_way()
    assert first.ended == [Reason.CONNECTION_LIMIT] and not alone.ended and not second.ended


def test_who_has_logged_in_never_gives_way():
    strangers = Strangers()
    (one,) = came(strangers, "10.0.0.1:1")
    strangers.leave(one)
    strangers.leave(one)
    assert len(strangers) == 0 and not strangers.give_way() and not one.ended


def test_of_an_address_only_its_own_give_way():
    strangers = Strangers()
    other, own = came(strangers, "[2001:db8::1]:5", "10.0.0.1:5")
    assert not strangers.give_way_of("10.0.0.2:9")
    assert strangers.give_way_of("10.0.0.1:9") and own.ended
    assert not strangers.give_way_of("[2001:db8::2]:5"), "its network, but not its address"
    assert strangers.give_way_of("[2001:db8::1]:9") and other.ended
