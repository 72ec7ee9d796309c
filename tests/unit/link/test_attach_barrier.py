"""A new leader that waits for its edges lets in who consumes; what is sent stays outside until it says so."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Prepare, Publish, Settle, Subscribe, Unsubscribe
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from broker.link.owner_side.link_server import LET_IN
from tests.unit.link.bodies_world import Place
from tests.unit.link.test_edge_bodies import large, stored
from tests.unit.link.two import SLOT, TOKEN, bodies, publish
from tests.unit.link.world import Edge, make_settings

OTHER = 8


@pytest.fixture
def news():
    return []


@pytest.fixture
def gathering(two, news):
    """Slot 5 is led by b, which waits for edges; edge-1 has come, edge-0 (with a consumer) does not know of b yet."""
    two.subscribe(3, AckMode.INDIVIDUAL)
    two.other = Edge(two.world, make_settings(), "edge-1", "b", OTHER)
    two.a.server.unserve(SLOT)
    two.b.server.serve(SLOT, 2, lambda: news.append(two.b.server.attached(SLOT)))
    two.other.port.route(SLOT, 2, "b", two.b.address)
    two.other.port.submit([publish(1, b"first")])
    two.world.run()
    return two


def come(two):
    two.port.route(SLOT, 2, "b", two.b.address)
    two.world.run()


def let_in(two):
    two.b.server.let_in(SLOT)
    two.world.run()


def test_a_message_waits_for_the_subscriptions_of_edges_that_come_later(gathering, news):
    assert gathering.b.shard.commands == [] and gathering.other.of(Done) == []
    come(gathering)
    assert news == [{"edge-1"}, {"edge-0", "edge-1"}]
    let_in(gathering)
    assert [type(command) for command in gathering.b.shard.commands] == [Subscribe, Publish]
    assert [done.seq for done in gathering.other.of(Done)] == [1]
    gathering.other.port.submit([publish(2, b"second")])
    gathering.world.run()
    assert bodies(gathering.b.shard) == [b"first", b"second"]


def test_the_news_comes_behind_what_was_told(gathering, news):
    """Whoever then lets everything in must not do so before the consumers are with the shard."""
    seen = []
    server = gathering.b.server
    server.unserve(SLOT)
    server.serve(SLOT, 3, lambda: (seen.append(len(gathering.b.shard.batches)), server.let_in(SLOT)))
    gathering.port.route(SLOT, 3, "b", gathering.b.address)
    gathering.submit(publish(2, b"mine"))
    assert seen == [1]
    assert [type(command) for command in gathering.b.shard.commands] == [Subscribe, Publish]


def test_what_waited_is_asked_for_anew_on_a_new_stream_and_happens_once(gathering):
    gathering.world.cut()
    gathering.world.pass_time(0.5)
    come(gathering)
    let_in(gathering)
    assert bodies(gathering.b.shard) == [b"first"]


def test_what_waited_goes_to_the_next_leader(gathering):
    gathering.b.server.unserve(SLOT)
    gathering.a.server.serve(SLOT, 3)
    gathering.other.port.route(SLOT, 3, "a", gathering.a.address)
    gathering.world.run()
    let_in(gathering)
    assert bodies(gathering.a.shard) == [b"first"] and gathering.b.shard.commands == []


def test_nothing_of_an_edge_overtakes_what_waits(gathering):
    """The end of a durable subscription, and its next beginning: the other way round the end would be refused."""
    gathering.a.shard.answers = False
    gathering.submit(
        Unsubscribe(SLOT, 1, 4, 3, "a", "c.sub"),
        Subscribe(SLOT, 1, 5, 4, "a", Routing.MULTICAST, AckMode.AUTO, queue="c.sub", durable=True),
    )
    come(gathering)
    let_in(gathering)
    assert [type(command) for command in gathering.b.shard.commands] == [Subscribe, Publish, Unsubscribe, Subscribe]


def test_what_the_consumers_of_an_edge_held_comes_before_it_is_settled_by_another_owner(gathering):
    coordinator = Edge(gathering.world, make_settings(), "owner-c", "b", 9)
    coordinator.port.route(SLOT, 2, "b", gathering.b.address)
    me = TOKEN << 40

    def prepare(seq):
        settle = Settle(SLOT, me | 1, 0, me | 3, [1])
        coordinator.port.submit([Prepare(SLOT, 1, seq, "tx", 6, [settle, publish()])])
        gathering.world.run()

    prepare(1)
    assert [refused.code for refused in coordinator.of(Refused)] == [Code.OWNER_UNAVAILABLE]
    gathering.submit(Settle(SLOT, 1, 0, 3, [2], Outcome.REJECT))
    come(gathering)
    prepare(2)
    let_in(gathering)
    kinds = [type(command) for command in gathering.b.shard.commands]
    assert kinds == [Subscribe, Publish, Settle, Prepare]


def test_a_large_body_waits_with_its_message():
    """That an edge has told everything means that nobody will publish what else is stored: this one waits outside."""
    place = Place()
    place.a.server.unserve(SLOT)
    place.b.server.serve(SLOT, 2, lambda: None)
    place.edge.port.route(SLOT, 2, "b", place.b.address)
    place.world.run()
    place.edge.port.submit([large(stored(place))])
    place.world.run()
    place.world.cut()
    place.world.pass_time(0.5)
    assert place.b.server.attached(SLOT) and not place.files.writers[-1].aborted
    place.b.server.let_in(SLOT)
    place.world.run()
    assert len(place.b.shard.of(Publish)) == 1 and place.edge.of(Refused) == []


def test_deliveries_are_heard_meanwhile(gathering):
    come(gathering)
    gathering.deliver(gathering.b, 3, [7])
    assert [effect.run.ids for effect in gathering.edge.of(Deliver)] == [[7]]


def test_what_waited_is_let_in_in_pieces_in_its_order_and_before_what_comes_meanwhile(gathering):
    """An edge may bring megabytes of them behind a fail-over: their admission was one step."""
    many = 3 * LET_IN
    gathering.other.port.submit([publish(seq, b"%d" % seq) for seq in range(2, many + 1)])
    gathering.world.run()
    gathering.b.server.let_in(SLOT)
    gathering.other.port.submit([publish(many + 1, b"%d" % (many + 1))])
    gathering.world.run()
    assert bodies(gathering.b.shard) == [b"first", *[b"%d" % seq for seq in range(2, many + 2)]]
    assert max(map(len, gathering.b.shard.batches)) <= LET_IN


def test_the_pieces_of_all_slots_together_are_no_longer(gathering):
    """After an owner has died, dozens of slots are opened at one moment."""
    others = range(SLOT + 1, SLOT + 9)
    for slot in others:
        gathering.b.server.serve(slot, 2, lambda: None)
        gathering.other.port.route(slot, 2, "b", gathering.b.address)
        gathering.other.port.submit([publish(seq, slot=slot) for seq in range(1, LET_IN // 2)])
    gathering.world.run()
    for slot in others:
        gathering.b.server.let_in(slot)
    assert len(gathering.b.shard.commands) <= LET_IN
    gathering.world.run()
    assert len(gathering.b.shard.of(Publish)) == len(others) * (LET_IN // 2 - 1)


def test_the_rest_waits_for_its_next_leader_when_the_slot_is_given_up_half_way(gathering):
    many = 2 * LET_IN
    gathering.other.port.submit([publish(seq) for seq in range(2, many + 1)])
    gathering.world.run()
    gathering.b.server.let_in(SLOT)
    gathering.b.server.unserve(SLOT)
    gathering.b.server.serve(SLOT, 3, lambda: None)
    gathering.world.run()
    entered = len(gathering.b.shard.of(Publish))
    assert LET_IN - 2 <= entered <= LET_IN  # the Open that ends the replay is one, too
    gathering.other.port.route(SLOT, 3, "b", gathering.b.address)
    gathering.world.run()
    assert len(gathering.b.shard.of(Publish)) == entered
    gathering.b.server.let_in(SLOT)
    gathering.world.run()
    assert len(gathering.b.shard.of(Publish)) >= many
