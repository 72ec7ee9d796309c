"""Many clients doing everything at once, ending in every way: nothing is lost, nothing settled comes back.

Seeded and single threaded: the order of what the clients do is the same in every run of a seed.
"""

from __future__ import annotations

import itertools
import random

import pytest

from tests.harness import Client, Frame
from tests.harness.stomp import ClosedByBroker

SETTINGS = {
    "engine.address.max_delivery_attempts": -1,
    "engine.queue_memory_bytes": 16_384,
    "engine.page_bytes": 4096,
    "journal.segment_bytes": 1 << 20,
    "edge.consumer_room_bytes": 8192,
}
STEPS = 250


class World:
    """What was sent, seen and settled, by message number."""

    def __init__(self, port: int, name: str, seed: int) -> None:
        self.port = port
        self.rng = random.Random(seed)
        self.queues = [f"/queue/{name}.{n}" for n in range(3)]
        self.numbers = itertools.count()
        self.sent: set[bytes] = set()
        self.seen: set[bytes] = set()
        self.settled: set[bytes] = set()
        self.clients: list[Client] = []

    def body(self) -> bytes:
        return b"%d %s" % (next(self.numbers), b"." * self.rng.choice([0, 10, 300, 3000]))

    def saw(self, frame: Frame) -> None:
        """A delivery: never of something settled, and marked when it is not the first."""
        assert frame.body not in self.settled, f"came back: {frame}"
        assert frame.body in self.sent, f"never sent: {frame}"
        if frame.body in self.seen:
            assert frame.get("redelivered") == "true", f"unmarked: {frame}"
        self.seen.add(frame.body)


class Actor:
    """One connection that sends, consumes, settles and goes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.held: list[Frame] = []
        self.client: Client | None = None
        self.join()

    def join(self) -> None:
        rng = self.world.rng
        self.client = Client(self.world.port, rng.choice(["1.1", "1.2"]))
        self.world.clients.append(self.client)
        self.client.connect()
        self.mode = rng.choice(["client-individual", "client"])
        window = rng.choice([{"prefetch-count": 1}, {"prefetch-count": 20}, {"consumer-window-size": 2000}, {}])
        self.client.ask(
            "SUBSCRIBE", {"id": "s", "destination": rng.choice(self.world.queues), "ack": self.mode} | window
        )
        self.held = []

    def step(self) -> None:
        rng = self.world.rng
        action = rng.choice([self.send, self.send_together, self.take, self.take, self.settle, self.settle, self.go])
        action()

    def send(self, together: str = "") -> list[bytes]:
        assert self.client is not None
        rng, bodies = self.world.rng, []
        for _ in range(rng.randrange(1, 8)):
            bodies.append(self.world.body())
            if not together:
                self.world.sent.add(bodies[-1])
            extra = {"transaction": together} if together else {}
            self.client.publish(
                rng.choice(self.world.queues), bodies[-1], persistent=rng.choice(["true", "false"]), **extra
            )
        return bodies

    def send_together(self) -> None:
        """A transaction of sends, and of an ACK when there is something to acknowledge."""
        assert self.client is not None
        self.client.ask("BEGIN", {"transaction": "t"})
        bodies = self.send("t")
        acked = self.pick()
        for frame in acked[-1:]:
            self.client.ack(frame, transaction="t")
        if self.world.rng.random() < 0.3:
            self.client.ask("ABORT", {"transaction": "t"})
            self.drop(acked)
            return
        self.world.sent.update(bodies)
        self.client.ask("COMMIT", {"transaction": "t"})
        self.done(acked)

    def take(self) -> None:
        assert self.client is not None
        for frame in self.client.sync():
            self.world.saw(frame)
            self.held.append(frame)

    def pick(self) -> list[Frame]:
        """What one ACK now would settle: one, or everything up to one."""
        if not self.held:
            return []
        index = self.world.rng.randrange(len(self.held))
        return self.held[: index + 1] if self.mode == "client" else [self.held[index]]

    def settle(self) -> None:
        assert self.client is not None
        picked = self.pick()
        if picked and self.world.rng.random() < 0.3:
            self.client.nack(picked[-1])
            self.drop(picked)
        elif picked:
            self.client.ack(picked[-1])
            self.done(picked)

    def done(self, frames: list[Frame]) -> None:
        self.take()  # a barrier: the settling is carried out
        self.world.settled.update(frame.body for frame in frames)
        self.drop(frames)

    def drop(self, frames: list[Frame]) -> None:
        gone = {frame["message-id"] for frame in frames}
        self.held = [frame for frame in self.held if frame["message-id"] not in gone]

    def go(self) -> None:
        """DISCONNECT, a broken frame, or nothing at all; then a new connection."""
        assert self.client is not None
        how = self.world.rng.choice(["disconnect", "error", "close", "unsubscribe"])
        if how == "disconnect":
            self.client.ask("DISCONNECT")
        elif how == "unsubscribe":
            self.client.ask("UNSUBSCRIBE", {"id": "s"})
        elif how == "error":
            self.client.send("NONSENSE")
            with pytest.raises(ClosedByBroker):
                while True:
                    self.client.read()
        self.client.close()
        self.join()


@pytest.fixture
def worlds(broker, name):
    made = []

    def make(seed):
        made.append(World(broker.port, name, seed))
        return made[-1]

    yield make
    for client in made[-1].clients:
        client.close()


@pytest.mark.parametrize("seed", range(4))
def test_disorder(broker, worlds, seed):
    world = worlds(seed)
    actors = [Actor(world) for _ in range(5)]
    for _ in range(STEPS):
        world.rng.choice(actors).step()
    for actor in actors:
        assert actor.client is not None
        actor.client.ask("DISCONNECT")
        actor.client.close()
    with Client(broker.port) as last:
        last.connect()
        for number, destination in enumerate(world.queues):
            last.subscribe(destination, id=str(number))
        left = world.sent - world.settled
        for _ in range(len(left)):
            frame = last.read()
            world.saw(frame)
            assert frame.body in left
            left.discard(frame.body)
        last.nothing()
    assert len(world.settled) > 50 and len(world.sent) > 200
