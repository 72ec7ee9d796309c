"""Consumers of an edge at an owner: what concerns one session looks at no other, what concerns many comes in pieces."""

from __future__ import annotations

import random
import time

import pytest

from broker.core.address import AckMode, Routing
from broker.core.commands import Disconnect, Subscribe
from broker.core.errors import Code
from broker.link.owner_side import edge_peer, session_ends
from broker.link.owner_side.attachments import Attached, Attachments
from broker.link.owner_side.link_server import SWEEP_S
from broker.link.owner_side.session_ends import CONGESTED_S
from tests.unit.link.world import Edge, Owner, World, make_settings


def attached(slot: int, session: int, number: int, epoch: int = 1) -> Attached:
    return Attached(Subscribe(slot, session, 0, number, "q", Routing.ANYCAST, AckMode.AUTO), epoch, 1)


@pytest.mark.parametrize("seed", range(20))
def test_against_a_plain_table(seed):
    draw = random.Random(seed)
    mine, plain = Attachments(), {}
    epochs = dict.fromkeys(range(3), 1)
    for number in range(400):
        luck = draw.random()
        slot, session = draw.randrange(3), draw.randrange(5)
        if luck < 0.6:
            number = draw.randrange(60)
            one = attached(slot, session, number, epochs[slot])
            mine.add(number, one)
            plain = {n: each for n, each in plain.items() if each.slot != slot or each.epoch == epochs[slot]}
            plain[number] = one
        elif luck < 0.8:
            mine.end(number := draw.randrange(60))
            plain.pop(number, None)
        elif luck < 0.9:
            mine.end_session(slot, session)
            plain = {n: each for n, each in plain.items() if (each.slot, each.session) != (slot, session)}
        elif luck < 0.95:
            epochs[slot] += 1
        else:
            led = dict(draw.sample(sorted(epochs.items()), 2))
            while not mine.keep(led, 2):
                pass
            plain = {n: each for n, each in plain.items() if led.get(each.slot) == each.epoch}
        assert {n: mine.get(n) for n in range(60) if mine.get(n)} == plain and len(mine) == len(plain)
    led = {slot: epoch for slot, epoch in epochs.items() if slot}
    assert set(mine.sessions(led)) == {(e.slot, e.session) for e in plain.values() if led.get(e.slot) == e.epoch}
    assert len(mine) == sum(led.get(e.slot) != e.epoch for e in plain.values()) and list(mine.sessions(led)) == []


def test_the_end_of_a_session_does_not_look_at_the_others():
    """20,000 of them took 5 s, up to 0.5 ms each."""
    mine = Attachments()
    for number in range(20_000):
        mine.add(number, attached(1, number, number))
    began = time.process_time()
    for session in range(20_000):
        mine.end_session(1, session)
    assert time.process_time() - began < 1 and len(mine) == 0


def test_slots_that_are_led_elsewhere_are_forgotten_in_pieces():
    mine = Attachments()
    for number in range(1000):
        mine.add(number, attached(number % 10, number, number))
    left = []
    while not mine.keep({0: 1}, 150):
        left.append(len(mine))
    assert left == [800, 600, 400, 200] and len(mine) == 100


class Place:
    """An owner that leads two slots, and an edge with 12 sessions in each."""

    def __init__(self):
        self.world, settings = World(), make_settings()
        self.owner = Owner(self.world, "a", settings)
        self.edge = Edge(self.world, settings)
        for slot in (1, 2):
            self.owner.server.serve(slot, 1)
            self.edge.port.route(slot, 1, "a", "a:1")
            for n in range(1, 13):
                number = 100 * slot + n
                self.edge.port.submit([Subscribe(slot, n, 9, number, "q", Routing.ANYCAST, AckMode.CLIENT)])
        self.world.run()
        self.peer = next(iter(self.owner.server._peers.values()))
        assert len(self.peer.consumers) == 24


def test_the_sessions_of_an_edge_that_is_gone_end_in_pieces(monkeypatch):
    monkeypatch.setattr(session_ends, "ENDED", 10)
    place = Place()
    batches = []
    submit = place.owner.server._submit
    place.owner.server._submit = lambda commands: (batches.append(len(commands)), submit(commands))[1]
    place.owner.server._bury(place.peer)
    assert batches == [10]
    place.world.run()
    assert batches == [10, 10, 4]
    assert len({(end.slot, end.session) for end in place.owner.shard.of(Disconnect)}) == 24


def test_they_wait_while_the_shard_has_too_much_and_none_is_lost(monkeypatch):
    """50,000 sessions were in its inbox 100 turns after an edge had gone, whatever it had said of that."""
    monkeypatch.setattr(session_ends, "ENDED", 10)
    place = Place()
    server, shard = place.owner.server, place.owner.shard
    shard.congested = True
    server._bury(place.peer)
    place.world.run()
    assert len(shard.of(Disconnect)) == 10
    place.world.pass_time(CONGESTED_S * 1.5)
    assert len(shard.of(Disconnect)) == 20, "what makes room may be what they give back"
    shard.congested = False
    server.on_relief()
    place.world.run()
    assert len({(end.slot, end.session) for end in shard.of(Disconnect)}) == 24 and not server._farewells._ends
    place.world.pass_time(1.0)
    assert len(shard.of(Disconnect)) == 24


def test_the_edges_hear_that_the_ends_of_others_are_too_much(monkeypatch):
    monkeypatch.setattr(session_ends, "ENDED", 10)
    place = Place()
    other = Edge(place.world, make_settings(), "edge-1", token=8)
    for slot in (1, 2):
        other.port.route(slot, 1, "a", "a:1")
    place.world.run()
    place.owner.shard.congested = True
    place.owner.server._bury(place.peer)
    place.world.run()
    assert all(link.congested for link in other.port._routes.links.values())


def test_an_edge_that_comes_back_in_the_middle_of_its_end_has_its_new_consumers_behind_it(monkeypatch):
    """What was left of the end ended what it had just attached again, and nobody told its clients."""
    monkeypatch.setattr(session_ends, "ENDED", 10)
    place = Place()
    farewell, later = place.owner.server._farewells, []
    schedule, some = farewell._schedule, farewell._end_some
    farewell._schedule = lambda call: (later.append if getattr(call, "func", None) == some else schedule)(call)
    place.world.cut()
    place.owner.server._bury(place.peer)
    place.world.pass_time(1.0)
    for call in later:
        call()
    place.world.run()
    last = {(each.slot, each.session): type(each) for each in place.owner.shard.commands if hasattr(each, "session")}
    assert len(last) == 24 and set(last.values()) == {Subscribe}


def test_the_rest_of_that_end_is_no_single_step(monkeypatch):
    """However early it comes back, and whatever it says meanwhile."""
    monkeypatch.setattr(session_ends, "ENDED", 2)
    place = Place()
    server = place.owner.server
    farewell, pieces, ends = server._farewells, [], []
    schedule, some = farewell._schedule, farewell._end_some
    farewell._schedule = lambda call: (pieces.append if getattr(call, "func", None) == some else schedule)(call)

    def submit(commands, before=server._submit):
        ends.append(sum(isinstance(command, Disconnect) for command in commands))
        return before(commands)

    server._submit = submit
    place.world.cut()
    server._bury(place.peer)
    place.world.pass_time(1.0)
    assert ends == [2] and farewell._early and not server._peers, "it has come back, and waits"
    while pieces:
        pieces.pop(0)()
    place.world.run()
    assert [n for n in ends if n] == [2] * 12 and not farewell._early and not farewell._ends
    last = {(each.slot, each.session): type(each) for each in place.owner.shard.commands if hasattr(each, "session")}
    assert len(last) == 24 and set(last.values()) == {Subscribe}


def test_who_is_refused_while_it_waits_is_not_welcomed_afterwards(monkeypatch):
    monkeypatch.setattr(session_ends, "ENDED", 2)
    place = Place()
    server = place.owner.server
    farewell, pieces = server._farewells, []
    schedule, some = farewell._schedule, farewell._end_some
    farewell._schedule = lambda call: (pieces.append if getattr(call, "func", None) == some else schedule)(call)
    place.world.cut()
    server._bury(place.peer)
    place.world.pass_time(1.0)
    ((end, _),) = next(iter(farewell._early.values()))
    server._refuse(end, Code.COMPONENT_MESSAGE_TOO_LARGE, "said before its stream has ended")
    while pieces:
        pieces.pop(0)()
    assert end.peer is None and not server._peers and not farewell._early


def test_a_sweep_goes_on_until_all_is_forgotten(monkeypatch):
    monkeypatch.setattr(edge_peer.EdgePeer.sweep, "__defaults__", (1,))
    place = Place()
    for slot in (1, 2):
        place.owner.server.unserve(slot, over=True)
    place.world.pass_time(SWEEP_S + 0.1)
    assert len(place.peer.consumers) == 0
