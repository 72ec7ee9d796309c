"""A transaction's non-durable messages are not seen before its commit is durable: else a crash could undo the
acknowledgements whose results consumers have already got."""

from broker.config.settings import EngineSettings
from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Subscribe
from broker.core.effects import Deliver, Turn
from broker.core.message import NO_IDS, Run
from broker.engine.engine import Engine


def publish(body, atomic=False):
    command = Publish(0, 1, 0, "a", Routing.ANYCAST, Run(NO_IDS, b"", [b"\n" + body + b"\0"], len(body) + 2))
    command.atomic = atomic
    return command


def delivered(turn):
    return [record for effect in turn.effects if isinstance(effect, Deliver) for record in effect.run.records]


def test_an_atomic_message_and_what_comes_behind_it_wait_for_the_commit():
    engine, first = Engine(0, EngineSettings()), Turn(1, 1)
    engine.handle(Subscribe(0, 2, 0, 7, "a", Routing.ANYCAST, AckMode.AUTO), first)
    engine.handle(publish(b"1"), first)
    engine.handle(publish(b"2", atomic=True), first)
    engine.handle(publish(b"3"), first)
    engine.flush(first)
    assert delivered(first) == [b"\n1\0"] and engine.pending
    second = Turn(2, 2)
    engine.release(1, second)
    engine.flush(second)
    assert delivered(second) == [b"\n2\0", b"\n3\0"] and not engine.pending
