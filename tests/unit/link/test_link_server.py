"""Who may speak to an owner, and what becomes of an edge that goes."""

from __future__ import annotations

import logging

import pytest

from broker.core.address import AckMode, Routing
from broker.core.commands import Barrier, Disconnect, Publish, Subscribe
from broker.core.effects import Done
from broker.core.errors import Code
from broker.link.owner_side.flood_guard import FLOOD
from broker.rpc.v1 import link_pb2 as pb
from broker.seams.stream import EDGE_SERVICE
from tests.unit.link.world import Edge, Owner, World, make_settings, run_of


class Stranger:
    """A raw peer."""

    def __init__(self, world, address="a:1"):
        self.world = world
        self.downs = []
        self.why = None
        self.stream = world.dial(address, EDGE_SERVICE, self)

    def on_message(self, message):
        self.downs.append(pb.Down.FromString(message))

    def on_closed(self, why):
        self.why = str(why)

    def say(self, message):
        self.stream.send(message if isinstance(message, bytes) else message.SerializeToString())
        self.world.run()

    @property
    def refusal(self):
        (refusal,) = [down.refusal for down in self.downs if down.HasField("refusal")]
        return next(code for code in Code if code.number == refusal.code), refusal.detail


def hello(**more):
    values = {"cluster": "/stampede/test", "version": 1, "edge": "e", "boot": "b", "token": 9, **more}
    return pb.Up(hello=pb.Hello(**values))


@pytest.fixture
def world():
    return World()


@pytest.fixture
def owner(world):
    owner = Owner(world, "a", make_settings())
    owner.server.serve(5, 1)
    return owner


def edge_of(world, name="edge-0", boot="b", token=7):
    edge = Edge(world, make_settings(), name, boot, token)
    edge.port.route(5, 1, "a", "a:1")
    world.run()
    return edge


def publish():
    return Publish(5, 1, 3, "a", Routing.ANYCAST, run_of(b"x"))


@pytest.mark.parametrize(
    ("first", "code", "says"),
    [
        (hello(cluster="/stampede/other"), Code.WRONG_CLUSTER, "etcd.prefix"),
        (hello(version=2), Code.WRONG_RELEASE, "link version 2"),
        (hello(token=0), Code.BAD_COMPONENT_MESSAGE, "Hello"),
        (hello(token=1 << 63), Code.BAD_COMPONENT_MESSAGE, "Hello"),
        (pb.Up(ping=True), Code.BAD_COMPONENT_MESSAGE, "Hello"),
        (b"CONNECT\naccept-version:1.2\n\n\0", Code.BAD_COMPONENT_MESSAGE, "Stampede component"),
    ],
    ids=lambda value: str(value)[:25],
)
def test_who_cannot_be_right_is_refused_by_name(world, owner, first, code, says):
    stranger = Stranger(world)
    stranger.say(first)
    assert stranger.refusal[0] is code and says in stranger.refusal[1]
    assert stranger.why is not None
    edge = edge_of(world)
    edge.port.submit([publish()])
    world.run()
    assert len(edge.of(Done)) == 1


@pytest.mark.parametrize(("name", "comes_in"), [("edge-1", True), ("Edge-1", True), ("edge-2", False)])
def test_an_edge_has_the_name_that_its_certificate_says(world, owner, name, comes_in):
    stranger = Stranger(world)
    world.run()
    (end,) = owner.server._strangers
    end.stream.names = frozenset({"edge-1"})
    stranger.say(hello(edge=name))
    if not comes_in:
        assert stranger.refusal[0] is Code.DUPLICATE_IDENTITY and "edge-1" in stranger.refusal[1]
    assert (stranger.why is None) is comes_in


def test_garbage_in_the_middle_ends_the_stream_and_nothing_of_it_happens(world, owner):
    stranger = Stranger(world)
    stranger.say(hello())
    up = pb.Up(batch=1)
    up.commands.add().open.CopyFrom(pb.Open(slot=5, epoch=1))
    up.commands.add().disconnect.CopyFrom(pb.Disconnect(slot=5, session=1))
    up.commands.add()
    stranger.say(up)
    assert stranger.refusal[0] is Code.BAD_COMPONENT_MESSAGE
    assert owner.shard.commands == []


def test_what_only_a_newer_edge_knows_is_refused_by_name_and_its_stream_goes_on(world, owner):
    newer = Stranger(world)
    newer.say(hello())
    up = pb.Up(batch=1)
    up.commands.add().open.CopyFrom(pb.Open(slot=5, epoch=1))
    up.commands.add().manage.CopyFrom(pb.Manage(slot=5, session=1, seq=261, act="polish", address="a", queue="a"))
    up.commands.add().barrier.CopyFrom(pb.Barrier(slot=5, session=1, seq=517))
    newer.say(up)
    assert newer.why is None and not any(down.HasField("refusal") for down in newer.downs)
    (refused,) = [each.refused for down in newer.downs for each in down.effects if each.HasField("refused")]
    assert (refused.session, refused.seq, refused.code) == (1, 261, Code.WRONG_RELEASE.number)
    assert "act 'polish'" in refused.detail and "upgrade" in refused.detail
    assert [type(command) for command in owner.shard.commands] == [Barrier]
    elsewhere = pb.Up(batch=2)
    elsewhere.commands.add().manage.CopyFrom(pb.Manage(slot=6, session=1, seq=262, act="polish"))
    newer.downs.clear()
    newer.say(elsewhere)
    (effect,) = [each for down in newer.downs for each in down.effects]
    assert effect.slot.slot == 6 and effect.slot.state == pb.SlotState.MOVED, "who leads it may know"


@pytest.mark.parametrize("up", [pb.Up(batch=2), pb.Up(taken=5), hello()], ids=["batch", "taken", "hello"])
def test_numbers_that_cannot_be_are_refused(world, owner, up):
    stranger = Stranger(world)
    stranger.say(hello())
    stranger.say(up)
    assert stranger.refusal[0] is Code.BAD_COMPONENT_MESSAGE


def test_a_message_that_is_too_large_is_refused(world, owner):
    stranger = Stranger(world)
    stranger.say(hello())
    stranger.say(b"\0" * (63 * 1024 * 1024))
    assert stranger.refusal[0] is Code.COMPONENT_MESSAGE_TOO_LARGE


def test_a_second_process_of_the_same_name_is_refused_while_the_first_lives(world, owner, caplog):
    first = edge_of(world)
    with caplog.at_level(logging.ERROR, "stampede.link"):
        second = edge_of(world, boot="other", token=8)
        world.pass_time(2.5)
    told = [record for record in caplog.records if "refuses this process" in record.getMessage()]
    assert len(told) == 1 and "cluster.id" in told[0].getMessage()
    first.port.submit([publish()])
    world.run()
    assert len(first.of(Done)) == 1 and second.effects == []
    first.port.close()
    second.port.submit([publish()])
    world.pass_time(1.5)
    assert len(second.of(Done)) == 1


def test_a_flood_of_streams_is_refused(world, owner):
    strangers = []
    for _ in range(FLOOD + 1):
        strangers.append(Stranger(world))
        strangers[-1].say(hello())
    assert strangers[-1].refusal[0] is Code.COMPONENT_FLOOD
    for _ in range(20):  # who is refused and tries again does not prolong it
        world.pass_time(0.5)
        Stranger(world).say(hello())
    other = Stranger(world)
    other.say(hello(edge="f", token=10))
    assert other.why is None
    world.pass_time(1)
    again = Stranger(world)
    again.say(hello())
    assert again.why is None


def test_a_flood_of_bad_greetings_is_called_one_and_harms_nobody_else(world, owner, caplog):
    for _ in range(FLOOD):
        Stranger(world).say(b"\xff\xff")
    caplog.clear()
    last = Stranger(world)
    last.say(b"\xff\xff")
    assert last.refusal[0] is Code.COMPONENT_FLOOD and caplog.records == []
    good = Stranger(world)
    good.say(hello())
    assert good.why is None


def test_who_says_nothing_is_closed(world, owner):
    stranger = Stranger(world)
    world.pass_time(1)
    assert stranger.why is not None


def consuming(world, owner, session=1):
    edge = edge_of(world)
    edge.port.submit([Subscribe(5, session, 1, 3, "a", Routing.ANYCAST, AckMode.INDIVIDUAL)])
    world.run()
    return edge


def test_an_edge_that_comes_back_in_time_keeps_its_consumers(world, owner):
    consuming(world, owner)
    world.cut()
    world.pass_time(20)
    assert owner.shard.of(Disconnect) == []
    assert len(owner.shard.of(Subscribe)) == 2


def test_sessions_of_an_edge_that_does_not_come_back_end_after_the_grace(world, owner):
    edge = consuming(world, owner)
    edge.port.close()
    world.pass_time(4)
    assert owner.shard.of(Disconnect) == []
    world.pass_time(1.5)
    assert [(end.slot, end.session) for end in owner.shard.of(Disconnect)] == [(5, 7 << 40 | 1)]


def test_sessions_of_an_edge_that_is_dead_for_sure_end_at_once(world, owner):
    edge = consuming(world, owner)
    edge.port.close()
    world.run()
    owner.server.edge_gone("edge-0", "another boot")
    world.run()
    assert owner.shard.of(Disconnect) == []
    owner.server.edge_gone("edge-0", "b")
    world.run()
    assert len(owner.shard.of(Disconnect)) == 1


def test_an_edge_that_cannot_reach_the_store_keeps_its_sessions(world, owner):
    """Its lease has run out, but it talks to us: what its clients hold is not given to others."""
    consuming(world, owner)
    owner.server.edge_gone("edge-0", "b")
    world.pass_time(10)
    assert owner.shard.of(Disconnect) == []


def test_nothing_is_asked_of_slots_that_are_led_elsewhere_now(world, owner):
    edge = consuming(world, owner)
    owner.server.unserve(5)
    edge.port.close()
    world.run()
    owner.server.edge_gone("edge-0", "b")
    world.run()
    assert owner.shard.of(Disconnect) == []


@pytest.mark.parametrize("sweep_s", [0, 60])
@pytest.mark.parametrize(("over", "epoch", "ended"), [(False, 1, 1), (False, 2, 0), (True, 1, 0)])
def test_an_edge_that_ends_while_a_slot_rests_leaves_nobody_behind_in_it(world, owner, over, epoch, ended, sweep_s):
    """Its owner was taken for dead, or was handing it over, and goes on in the same epoch."""
    edge = consuming(world, owner)
    assert owner.server.served[5] == 1
    owner.server.unserve(5)
    world.pass_time(sweep_s)
    edge.port.close()
    world.run()
    owner.server.edge_gone("edge-0", "b")
    world.run()
    if over:
        owner.server.unserve(5, over=True)
    assert owner.shard.of(Disconnect) == []
    owner.server.serve(5, epoch)
    world.run()
    assert len(owner.shard.of(Disconnect)) == ended


def test_effects_of_our_own_sessions_go_nowhere(world, owner):
    edge = consuming(world, owner)
    owner.effects(Done(1, 44))
    world.run()
    assert len(edge.of(Done)) == 1


def test_an_owner_that_stops_ends_its_streams(world, owner):
    consuming(world, owner)
    owner.server.on_stopped("disk")
    world.run()
    assert "disk" in str(world.pairs[-1][1].closed) or world.pairs[-1][1].closed
    late = Stranger(world)
    world.run()
    assert late.why is not None


def test_metrics_have_help_and_no_family_twice(world, owner):
    edge = consuming(world, owner)
    families = [*edge.port.metrics(), *owner.server.metrics()]
    assert all(family.help for family in families)
    values = {family.name: family.samples[0][1] for family in owner.server.metrics()}
    assert values["stomp_link_edges"] == 1 and values["stomp_link_slots_served"] == 1
