"""Offsets of a stream: in front of each message, for its consumers alone."""

from __future__ import annotations

from broker.config.settings import EngineSettings
from broker.core.effects import Deliver
from broker.core.message import Run
from broker.edge.subscriptions.stream_offsets import numbered

from .bench import Bench


def test_each_message_says_where_it_stands_in_front_of_what_its_sender_said() -> None:
    forged = Run([7], b"destination:/queue/s\nx-stream-offset:1\n", [b"\nbody\0"], 9)
    assert numbered(forged).records == [b"x-stream-offset:7\ndestination:/queue/s\nx-stream-offset:1\n\nbody\0"]
    assert numbered(forged).lines == b"" and numbered(forged).ids == [7]


async def test_a_consumer_of_a_stream_is_told_the_offsets_and_one_of_a_queue_is_not() -> None:
    bench = Bench(dialect="rabbitmq", engine=EngineSettings(addresses={"s": {"non_destructive": True}}))
    session, wire = bench.session()
    for name in ("s", "q"):
        session.receive(f"SUBSCRIBE\nid:{name}\ndestination:/queue/{name}\n\n\0".encode())
    stream, queue = bench.port.commands
    assert stream.selector.startswith("AMQTimestamp >= ") and queue.selector is None
    assert stream.overhead > queue.overhead + len("x-stream-offset:")
    for command in (stream, queue):
        bench.edge.on_effects([Deliver(command.consumer, Run([7], b"", [b"\nbody\0"], 9), 9)])
    told, plain = wire.take().split(b"\0")[:2]
    assert b"\nx-stream-offset:7\n" in told and b"x-stream-offset" not in plain


async def test_who_says_that_he_is_no_browser_is_none() -> None:
    bench = Bench(dialect="rabbitmq", engine=EngineSettings(addresses={"s": {"non_destructive": True}}))
    session, _ = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/s\nbrowser:false\nx-stream-offset:first\n\n\0")
    (command,) = bench.port.commands
    assert not command.browse and not session.closed
