"""`ingress-timestamp`: where it stands, and that sizes still add up."""

from __future__ import annotations

from broker.core.effects import Deliver

from .world import World

STAMPED = {"stamped.#": {"ingress_timestamp": True}}


def delivered(effects) -> list[bytes]:
    runs = [effect.run for effect in effects if isinstance(effect, Deliver)]
    for run in runs:
        assert run.nbytes == sum(run.size_of(at) for at in range(len(run)))
    return [run.lines + record for run in runs for record in run.records]


def test_messages_say_when_they_were_taken():
    world = World(addresses=STAMPED)
    world.subscribe(1, "stamped.q")
    came = delivered(world.publish("stamped.q", b"a", b"b", lines=b"foo:1\n"))
    assert [message.split(b"\n", 1)[0] for message in came] == [b"ingress-timestamp:%d" % world.now] * 2
    assert all(b"\nfoo:1\n" in message for message in came)


def test_others_do_not():
    world = World(addresses=STAMPED)
    world.subscribe(1, "plain")
    assert b"ingress-timestamp" not in delivered(world.publish("plain", b"a"))[0]
