"""When a large body begins, and when it begins anew: with whoever leads its slot, from what is kept of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.errors import Code
from broker.core.message import Blob, Run
from broker.link.edge_side.uploads import AGAIN_S, Uploads
from broker.link.owner_port import Away


class Edge:
    """One slot's channel, and what is asked of everything around it."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.link = SimpleNamespace(bodies="hub", add=lambda *what: self.log.append(("add", *what)))
        self.channel = SimpleNamespace(
            slot=7, refusing=False, opened=True, waiting=[], asked=None, link=self.link,
            start_bodies=lambda: self.log.append("start"), take_waiting=self._take,
        )  # fmt: skip
        self.routes = SimpleNamespace(closed=False, channel=lambda _: self.channel, begin_bodies=lambda _: None)
        self.stats = SimpleNamespace(sent_body=lambda: self.log.append("again"))
        self.uploads = Uploads(
            self.routes, None, lambda call: call(), lambda seconds, _: self.log.append(seconds), self.stats,  # type: ignore[arg-type]
            lambda: self.log.append("watch"), lambda _: (Code.SLOT_SHELVED, "out of service"),
            lambda _, entry, refused: self.log.append((refused.code, refused.detail)),
        )  # fmt: skip

    def _take(self) -> list[Any]:
        taken, self.channel.waiting = self.channel.waiting, []
        return taken


@pytest.fixture
def edge() -> Edge:
    return Edge()


def test_a_body_begins_at_once_where_the_slot_is_open_and_else_is_watched(edge):
    body = edge.uploads.write(7, lambda: None)
    assert (edge.channel.waiting, edge.log) == ([body], ["start"])
    edge.channel.opened = False
    edge.uploads.write(7, lambda: None)
    assert edge.log == ["start", "watch"] and len(edge.channel.waiting) == 2


def test_a_slot_that_is_refused_says_so_at_the_first_byte_unless_it_is_open(edge):
    edge.channel.refusing, edge.channel.opened = True, False
    body = edge.uploads.write(7, lambda: None)
    assert isinstance(body._failed, Away) and (body._failed.code, str(body._failed)) == (
        Code.SLOT_SHELVED, "out of service",
    )  # fmt: skip
    assert edge.channel.waiting == [] and edge.log == []
    edge.channel.opened = True
    assert not edge.uploads.write(7, lambda: None)._failed


def test_who_has_waited_long_enough_is_told_why(edge):
    edge.channel.opened = False
    bodies = [edge.uploads.write(7, lambda: None) for _ in range(2)]
    edge.uploads.give_up(edge.channel)
    assert [body._failed for body in bodies] == ["out of service"] * 2 and edge.channel.waiting == []


@pytest.mark.parametrize(("opened", "then"), [(True, AGAIN_S), (False, "watch")])
def test_a_body_whose_owner_is_gone_begins_anew(edge, opened, then):
    body = edge.uploads.write(7, lambda: None)
    edge.channel.waiting, edge.log, edge.channel.opened = [], [], opened
    edge.uploads._lost(body)
    assert (edge.channel.waiting, edge.log) == ([body], ["again", then]) and not body._failed


def test_but_not_at_an_edge_that_stops(edge):
    body = edge.uploads.write(7, lambda: None)
    edge.channel.waiting, edge.routes.closed = [], True
    edge.uploads._lost(body)
    assert body._failed == "the edge is stopping" and edge.channel.waiting == []


def entry(can: bool = True) -> Any:
    said: list[Any] = []
    body = SimpleNamespace(again=lambda hub, done: bool(said.append((hub, done)) or can), said=said)
    run = Run([1], b"", [b"a:b\n\n"], 5, blob=Blob(3, 9))
    return SimpleNamespace(body=body, command=Publish(7, 1, 1, "a", Routing.ANYCAST, run, None, True), nbytes=11)


def test_only_the_message_that_the_replay_stopped_at_gets_its_body_again(edge):
    it = entry()
    assert not edge.uploads.missing(edge.channel, it)
    edge.channel.asked = it
    assert edge.uploads.missing(edge.channel, it) and edge.log == ["again"]
    ((hub, _),) = it.body.said
    assert hub == "hub"
    nothing_kept = edge.channel.asked = entry(can=False)
    assert not edge.uploads.missing(edge.channel, nothing_kept) and edge.log == ["again"]
    edge.channel.link = None
    edge.channel.asked = it
    assert not edge.uploads.missing(edge.channel, it)


def test_when_it_is_there_the_message_goes_on_with_the_number_it_has_at_this_owner(edge):
    it = edge.channel.asked = entry()
    edge.uploads.missing(edge.channel, it)
    ((_, there),) = it.body.said
    there(Blob(44, 9), "")
    assert edge.log[1:] == [("add", 7, it.command, 11)] and it.command.run.blob.id == 44


@pytest.mark.parametrize(
    ("why", "code"), [(Away("moved", Code.OWNER_MOVED), Code.OWNER_MOVED), ("no room", Code.DISK_FULL)]
)
def test_when_it_cannot_be_there_the_message_is_refused_with_whose_fault_that_is(edge, why, code):
    it = edge.channel.asked = entry()
    edge.uploads.missing(edge.channel, it)
    ((_, there),) = it.body.said
    there(None, why)
    assert edge.log[1:] == [(code, why)]


def test_what_comes_late_is_asked_for_anew_elsewhere(edge):
    it = edge.channel.asked = entry()
    edge.uploads.missing(edge.channel, it)
    ((_, there),) = it.body.said
    edge.channel.asked = None
    there(Blob(44, 9), "")
    there(None, "no room")
    assert edge.log == ["again"]
