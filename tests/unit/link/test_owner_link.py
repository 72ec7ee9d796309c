"""One batch under way, a cap, equal shares, signs of life."""

from __future__ import annotations

from itertools import pairwise

import pytest

from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Subscribe
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from broker.rpc.v1 import link_pb2 as pb
from tests.unit.link.world import Edge, Owner, World, make_settings, run_of

TOKEN = 7
PERIOD = make_settings().cluster.ping_ms / 1000


class One:
    """One edge, one owner that leads slots 0 to 9."""

    def __init__(self, **cluster):
        self.world = World()
        self.settings = make_settings(**cluster)
        self.owner = Owner(self.world, "a", self.settings)
        self.edge = Edge(self.world, self.settings, token=TOKEN)
        self.port = self.edge.port
        for slot in range(10):
            self.owner.server.serve(slot, 1)
            self.port.route(slot, 1, "a", "a:1")
        self.world.run()

    @property
    def up(self):
        """The edge's end of the present stream."""
        return self.world.pairs[-1][0]

    @property
    def down(self):
        return self.world.pairs[-1][1]

    def ups(self):
        return [pb.Up.FromString(data) for data in self.up.sent]

    def downs(self):
        return [pb.Down.FromString(data) for data in self.down.sent]


@pytest.fixture
def one():
    return One()


def publish(slot=1, size=1, session=1, seq=0):
    return Publish(slot, session, seq, f"a{slot}", Routing.ANYCAST, run_of(b"x" * size))


def test_only_one_batch_is_untaken_and_what_gathers_goes_as_one(one):
    one.down.held = []
    sent = len(one.up.sent)
    for _ in range(50):
        one.port.submit([publish()])
        one.world.run()
    batches = [up for up in one.ups()[sent:] if up.batch]
    assert [len(up.commands) for up in batches] == [1]
    one.down.release()
    one.world.run()
    batches = [up for up in one.ups()[sent:] if up.batch]
    assert [len(up.commands) for up in batches] == [1, 49]
    assert len(one.owner.shard.of(Publish)) == 50


def test_a_delivery_that_reached_nobody_is_noted_without_looking_through_the_others(one):
    """A session with 10,000 subscriptions ends while a message for all of them is on its way."""
    looked = 0

    class Consumer(int):
        __hash__ = int.__hash__

        def __eq__(self, other):
            nonlocal looked
            looked += 1
            return int(self) == int(other)

    link = one.port._make_link("a", "a:1")
    for _ in range(2):
        for number in range(2000):
            link.gone(Consumer(number))
    assert looked < 10_000


def test_what_is_submitted_in_one_turn_of_the_loop_is_one_batch(one):
    sent = len(one.up.sent)
    for session in range(20):
        one.port.submit([publish(session=session)])
    one.world.run()
    assert [len(up.commands) for up in one.ups()[sent:] if up.batch] == [20]


def test_a_batch_is_at_most_its_cap_and_closed_when_sent():
    one = One(batch_bytes=10_000)
    one.down.held = []
    sent = len(one.up.sent)
    for _ in range(100):
        one.port.submit([publish(size=1000)])
        one.world.run()
    one.down.release()
    one.world.run()
    sizes = [up.ByteSize() for up in one.ups()[sent:] if up.batch]
    assert sum(len(up.commands) for up in one.ups()[sent:]) == 100
    assert all(9_000 < size < 12_000 for size in sizes[1:-1]), sizes


def test_slots_share_a_batch():
    """A flood to one slot does not hold back the others."""
    one = One(batch_bytes=10_000)
    one.down.held = []
    one.port.submit([publish(1)])
    one.world.run()
    one.port.submit([publish(1, 1000) for _ in range(500)])
    one.port.submit([publish(2, 1000), publish(3, 10), publish(2, 1001)])
    sent = len(one.up.sent)
    one.down.release()
    one.world.run()
    first, second, *_ = [up for up in one.ups()[sent:] if up.batch]
    assert {command.publish.slot for command in first.commands} == {1, 2, 3}, "each has a share of each batch"
    slots = [command.publish.slot for command in [*first.commands, *second.commands]]
    assert slots.count(2) == 2 and slots.count(3) == 1
    order = [len(c.run.records[0]) for c in one.owner.shard.of(Publish) if c.slot == 2]
    assert order == sorted(order), "within a slot nothing is overtaken"
    assert len(one.owner.shard.of(Publish)) == 504


def test_one_message_tells_what_a_turn_brought(one):
    sent = len(one.down.sent)
    one.port.submit([publish(1, seq=1), publish(2, seq=2)])
    one.world.run()
    (down,) = one.downs()[sent:]
    assert down.taken and len(down.effects[0].dones.seq) == 2
    assert [done.seq for done in one.edge.of(Done)] == [1, 2]


def test_taken_is_told_when_answers_are_late(one):
    one.owner.shard.answers = False
    for _ in range(3):
        one.port.submit([publish()])
        one.world.run()
    assert len(one.owner.shard.of(Publish)) == 3


def deliver(one, n, size=1):
    one.owner.effects(Deliver(TOKEN << 40 | 3, run_of(b"x" * size, ids=[n]), 1))
    one.world.run()


def takens(one, sent):
    return [up.taken for up in one.ups()[sent:] if up.taken]


def test_what_the_edge_took_is_told_after_eight_messages_or_64_kib_or_20_ms(one):
    one.port.submit([Subscribe(1, 1, 0, 3, "a", Routing.ANYCAST, AckMode.AUTO)])
    one.world.pass_time(0.05)
    sent = len(one.up.sent)
    for n in range(7):
        deliver(one, n + 1)
    assert takens(one, sent) == []
    deliver(one, 8)
    assert len(takens(one, sent)) == 1
    deliver(one, 9, 70_000)
    assert len(takens(one, sent)) == 2
    deliver(one, 10)
    one.world.pass_time(0.021)
    assert len(takens(one, sent)) == 3
    deliver(one, 11)
    one.port.submit([publish()])
    one.world.run()
    assert len(takens(one, sent)) == 4, "with a batch it costs nothing"


def test_a_turn_with_more_than_a_batch_is_split(one):
    one.port.submit(
        [Subscribe(1, 1, 0, consumer, "a", Routing.MULTICAST, AckMode.INDIVIDUAL) for consumer in range(1, 41)]
    )
    one.world.run()
    sent = len(one.down.sent)
    one.owner.effects(*[Deliver(TOKEN << 40 | c, run_of(b"x" * 20_000, ids=[c]), 1) for c in range(1, 41)])
    one.world.run()
    assert max(map(len, one.down.sent[sent:])) < 300_000
    assert [each.consumer for each in one.edge.of(Deliver)] == list(range(1, 41))


def test_idle_streams_live_by_pings(one):
    one.world.pass_time(10)
    assert len(one.world.pairs) == 1 and one.port.stats.lost == 0


def test_at_rest_each_end_speaks_every_second_period_and_both_wake_up_for_nothing_else(one):
    """What an idle cluster costs is these messages and looks."""
    one.world.pass_time(1)
    ups, downs = len(one.up.sent), len(one.down.sent)
    one.world.pass_time(16)
    assert len(one.up.sent) - ups == pytest.approx(16 / (2 * PERIOD), abs=1)
    assert len(one.down.sent) - downs == pytest.approx(16 / (2 * PERIOD), abs=1)


def test_a_silent_owner_is_left_after_dead_after_ms(one):
    one.down.held = []
    one.world.pass_time(0.45)
    assert one.port.stats.lost == 0
    one.world.pass_time(0.3)
    assert one.port.stats.lost == 1 and len(one.world.pairs) == 2


def test_a_silent_edge_is_cut_off(one):
    one.up.held = []
    one.world.pass_time(0.7)
    assert one.owner.server.stats.lost >= 1


def test_an_edge_that_stood_still_itself_does_not_blame_the_owner(one):
    """For so long the owner has not given it up (test_patience.py)."""
    one.world.now += 2.5
    one.world.pass_time(0.3)
    assert one.port.stats.lost == 0 and one.owner.server.stats.lost == 0


def test_a_dead_address_is_dialed_ever_more_seldom(one):
    one.owner.stop_listening()
    one.world.cut()
    dials = []
    dial, one.world.dial = one.world.dial, lambda *args: dials.append(one.world.now) or dial(*args)
    one.port._dialer.dial = one.world.dial
    one.world.pass_time(10)
    gaps = [b - a for a, b in pairwise(dials)]
    assert gaps[0] < 0.05 and max(gaps) <= 1.0 and 10 <= len(dials) <= 20
    one.owner.start()
    for slot in range(10):
        one.owner.server.serve(slot, 1)
    one.port.submit([publish(seq=4)])
    one.world.pass_time(1.1)
    assert [done.seq for done in one.edge.of(Done)] == [4]


def test_a_slot_without_a_leader_holds_up_nobody(one):
    one.port.offline(4)
    one.port.submit([publish(4, seq=1), publish(5, seq=2)])
    one.world.run()
    assert [done.seq for done in one.edge.of(Done)] == [2]


def test_who_waits_too_long_for_an_owner_is_refused():
    one = One(unavailable_after_s=3)
    one.port.offline(4)
    one.port.submit([publish(4, seq=1), publish(4), Subscribe(4, 2, 5, 9, "a", Routing.ANYCAST, AckMode.AUTO)])
    one.world.pass_time(2.5)
    assert one.edge.of(Refused) == []
    one.world.pass_time(2.1)
    refused = one.edge.of(Refused)
    assert [(each.session, each.seq) for each in refused] == [(1, 1), (1, 0), (2, 5)]
    assert {each.code for each in refused} == {Code.OWNER_UNAVAILABLE}
    one.port.submit([publish(4, seq=2)])
    assert len(one.edge.of(Refused)) == 3, "never from within the call"
    one.world.run()
    assert one.edge.of(Refused)[3].seq == 2
    one.owner.server.serve(4, 2)
    one.port.route(4, 2, "a", "a:1")
    one.world.run()
    one.port.submit([publish(4, seq=3)])
    one.world.run()
    assert [done.seq for done in one.edge.of(Done)] == [3]
    assert len(one.owner.shard.of(Publish)) == 1, "what was refused does not happen"


def test_a_slot_that_is_out_of_service_is_refused_at_once_and_no_other_one():
    one = One()
    one.owner.shard.answers = False
    one.port.submit([publish(4, seq=1)])
    one.world.run()
    one.owner.shard.answers = True
    one.port.offline(4, "its leaders stopped one after the other")
    one.port.submit([publish(4, seq=2), publish(5, seq=3)])
    one.world.run()
    refused = one.edge.of(Refused)
    assert [(each.seq, each.code) for each in refused] == [(1, Code.SLOT_SHELVED), (2, Code.SLOT_SHELVED)]
    assert "slot 4" in refused[0].detail and "stampede cluster status" in refused[0].detail
    assert [done.seq for done in one.edge.of(Done)] == [3]
    one.port.offline(4)
    one.port.submit([publish(4, seq=4)])
    one.port.route(4, 2, "a", "a:1")
    one.world.run()
    assert len(one.edge.of(Refused)) == 2, "it is tried again: who asks now waits for its leader"
    one.owner.server.serve(4, 2)
    one.world.run()
    assert [done.seq for done in one.edge.of(Done)] == [3, 4]


def test_an_owner_that_never_answers_the_dial_counts_as_none():
    one = One(unavailable_after_s=3)
    one.owner.stop_listening()
    one.world.cut()
    one.port.submit([publish(4, seq=1)])
    one.world.pass_time(5)
    assert [each.code for each in one.edge.of(Refused)] == [Code.OWNER_UNAVAILABLE]


def test_producers_pause_for_an_owner_that_holds_too_much_and_for_no_other():
    one = One(edge_pending_bytes=100_000)
    other = Owner(one.world, "b", one.settings)
    other.server.serve(20, 1)
    one.port.route(20, 1, "b", "b:1")
    one.world.run()
    one.owner.shard.answers = False
    assert not one.port.submit([publish(1, 60_000, session=1)])
    assert one.port.submit([publish(1, 60_000, session=2)])
    assert not one.port.submit([publish(20, 10, session=3)])
    one.world.run()
    first, second = one.owner.shard.of(Publish)
    one.owner.effects(Done(first.session, first.seq))
    one.world.run()
    assert one.edge.relieved == []
    one.owner.effects(Done(second.session, second.seq))
    one.world.run()
    assert one.edge.relieved == [{2}]


def test_who_sends_little_does_not_pause_for_what_others_have_sent():
    """A flood held everybody of its owner up for 0.3 s at a time, until half of it was answered."""
    one = One(edge_pending_bytes=1_000_000)
    one.owner.shard.answers = False
    assert one.port.submit([publish(1, 1_100_000, session=1)])
    assert not one.port.submit([publish(2, 100, session=2)]) and not one.port.submit([publish(2, 100, session=2)])
    assert one.port.submit([publish(1, 100, session=1)]), "it has sent most"
    assert one.port.submit([publish(2, 70_000, session=3)]), "that is not little"
    go_on = [not one.port.submit([publish(3, 40_000, session=n)]) for n in range(10, 20)]
    assert go_on == [True] * 3 + [False] * 7, "so much together"
    one.world.run()
    one.owner.effects(*[Done(sent.session, sent.seq) for sent in one.owner.shard.of(Publish)])
    one.world.run()
    assert one.edge.relieved == [{1, 3, *range(13, 20)}]
    assert one.port.submit([publish(1, 1_100_000, session=1)])
    assert not one.port.submit([publish(2, 60_000, session=2)]), "counted anew"


def test_producers_pause_for_a_slot_that_nobody_leads():
    one = One(edge_pending_bytes=100_000)
    one.port.offline(4)
    assert one.port.submit([publish(4, 120_000, session=5)])
    assert not one.port.submit([publish(5, 10, session=6)])
    one.port.route(4, 1, "a", "a:1")
    one.world.run()
    assert one.edge.relieved == [{5}]


def test_producers_pause_while_the_owner_says_that_its_disk_is_behind(one):
    one.owner.shard.congested = True
    one.port.submit([publish(1)])
    one.world.run()
    assert one.port.submit([publish(1, session=3)])
    one.owner.shard.congested = False
    one.owner.server.on_relief()
    one.world.run()
    assert one.edge.relieved == [{3}]
    assert not one.port.submit([publish(1, session=3)])


def test_what_is_queued_leaves_before_the_stream_is_closed(one):
    """A client that has left before the edge ends has sent it: nobody else could send it again."""
    one.down.held = []
    one.port.submit([publish()])
    one.world.run()
    for _ in range(50):
        one.port.submit([publish()])
    sent = len(one.up.sent)
    one.port.close()
    assert sum(len(up.commands) for up in one.ups()[sent:]) == 50


def test_so_does_the_word_that_deliveries_were_taken(one):
    """Else they would be given to others, though their client has them."""
    one.port.submit([Subscribe(1, 1, 0, 3, "a", Routing.ANYCAST, AckMode.AUTO)])
    one.world.pass_time(0.05)
    sent = len(one.up.sent)
    deliver(one, 1)
    assert takens(one, sent) == []
    one.port.close()
    assert takens(one, sent) == [one.downs()[-1].batch]


def test_bytes_to_and_from_an_owner_of_another_zone_are_counted_by_themselves(one):
    port = one.port
    port.submit([publish(seq=1)])
    one.world.run()
    assert (port.stats.far_in, port.stats.far_out) == (0, 0), "no zones are known"
    port.far(frozenset({"a"}))
    sent, took = port.stats.bytes_out, port.stats.bytes_in
    port.submit([publish(seq=2)])
    one.world.run()
    assert port.stats.far_out == port.stats.bytes_out - sent > 0
    assert port.stats.far_in == port.stats.bytes_in - took > 0
    told = {metric.name: metric.samples for metric in port.metrics()}["stampede_link_cross_zone_bytes_total"]
    assert dict((way["direction"], nbytes) for way, nbytes in told) == {
        "in": port.stats.far_in, "out": port.stats.far_out,
    }  # fmt: skip
    port.far(frozenset())
    before = port.stats.far_out
    port.submit([publish(seq=3)])
    one.world.run()
    assert port.stats.far_out == before, "it has moved into ours"
