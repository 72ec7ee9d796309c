"""Producers and consumers that outlive the broker and write down what they saw.

Rule: an event is added before a frame leaves and after one has come, so that the history never claims more than
was true. Nothing is sent twice: what had no receipt stays unknown.

Queues: `kill.plain` (individual ACKs with receipts, some NACKs), `kill.topic` (two durable subscriptions),
`kill.a` + `kill.b` (written together in transactions), `kill.in` → `kill.out` (moved by ACK + SEND in one
transaction).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from tests.harness import Frame

from .connection import Connection, Gone
from .history import Kind
from .world import World, body_of, key_in

WINDOW = 24
"""Receipts a producer leaves open."""
SUBSCRIBERS = ("s1", "s2")


async def forever(world: World, session: Callable[[Connection], Awaitable[None]], **headers: object) -> None:
    """Runs `session` on one connection after the other until the run is over."""
    while not world.over:
        try:
            connection = await Connection.opened(world, **headers)
        except Gone:
            await asyncio.sleep(0.02)
            continue
        try:
            await session(connection)
        except Gone:
            pass
        finally:
            await connection.close()


async def _sender(
    world: World, connection: Connection, send_one: Callable[[Connection, str], Callable[[], None]]
) -> None:
    """Calls `send_one(connection, receipt)` as fast as the window allows; what it returns is called on the receipt."""
    open_: dict[str, Callable[[], None]] = {}
    window = asyncio.Semaphore(WINDOW)

    async def sends() -> None:
        for number in itertools.count():
            await window.acquire()
            if world.stopping:
                return
            # Nothing can come in between: send_one only writes into the socket's buffer.
            open_[f"r{number}"] = send_one(connection, f"r{number}")
            await connection.room()
            await asyncio.sleep(0.001)

    sending = asyncio.ensure_future(sends())
    try:
        while True:  # until the connection ends, which also ends sends()
            frame = await connection.read()
            assert frame.command == "RECEIPT", frame
            world.touch()
            open_.pop(frame["receipt-id"])()
            window.release()
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def producer(world: World, name: str, queue: str, *, subscribers: tuple[str, ...] = ()) -> None:
    """Numbered messages with receipts. With `subscribers`: one key per durable subscription, all or nothing."""
    numbers = itertools.count()

    def send_one(connection: Connection, receipt: str) -> Callable[[], None]:
        key = f"{queue}/{name}/{next(numbers)}"
        copies = [f"{subscriber}:{key}" for subscriber in subscribers] or [key]
        for copy in copies:
            world.history.add(Kind.SENT, copy, connection.life, tx=f"fan {key}" if subscribers else "")
        if subscribers:
            world.history.add(Kind.COMMIT_SENT, f"fan {key}", connection.life)
        body = body_of(key)
        prefix = "/topic/" if subscribers else "/queue/"
        headers = {"destination": prefix + queue, "persistent": "true", "content-length": len(body), "receipt": receipt}
        connection.send("SEND", headers, body)

        def receipted() -> None:
            for copy in copies:
                world.history.add(Kind.RECEIPTED, copy, connection.life)

        return receipted

    await forever(world, lambda connection: _sender(world, connection, send_one))


async def transactional_producer(world: World, name: str, queues: tuple[str, ...]) -> None:
    """Transactions of one message to each queue and one more to the first; every sixth is aborted."""
    numbers = itertools.count()
    transactions = itertools.count()

    def send_one(connection: Connection, receipt: str) -> Callable[[], None]:
        tx = f"{name}-{next(transactions)}"
        connection.send("BEGIN", {"transaction": tx})
        for queue in (*queues, queues[0]):
            key = f"{queue}/{name}/{next(numbers)}"
            world.history.add(Kind.SENT, key, connection.life, tx=tx)
            body = body_of(key)
            connection.send(
                "SEND",
                {
                    "destination": f"/queue/{queue}",
                    "transaction": tx,
                    "persistent": "true",
                    "content-length": len(body),
                },
                body,
            )
        if world.random.randrange(6) == 0:
            world.history.add(Kind.ABORTED, tx, connection.life)
            connection.send("ABORT", {"transaction": tx, "receipt": receipt})
            return lambda: None
        world.history.add(Kind.COMMIT_SENT, tx, connection.life)
        connection.send("COMMIT", {"transaction": tx, "receipt": receipt})
        return lambda: world.history.add(Kind.COMMITTED, tx, connection.life)

    await forever(world, lambda connection: _sender(world, connection, send_one))


def _delivered(world: World, connection: Connection, frame: Frame, who: str, subscriber: str = "") -> str:
    """Writes a MESSAGE down; returns its key."""
    assert frame.command == "MESSAGE", frame
    world.touch()
    plain = key_in(frame.body)
    key = f"{subscriber}:{plain}" if subscriber else plain
    redelivered = frame.get("redelivered") == "true"
    world.history.add(Kind.DELIVERED, key, connection.life, redelivered=redelivered, who=who)
    if frame.body != body_of(plain):
        world.history.add(Kind.CORRUPT, key, connection.life)
    return key


async def consumer(world: World, name: str, queue: str, *, prefetch: int = 0, durable: bool = False) -> None:
    """Acknowledges each message with a receipt; gives one in fifty back first (NACK)."""
    receipts = itertools.count()

    async def session(connection: Connection) -> None:
        who = f"{name}@{connection.life}"
        headers: dict[str, object] = {"id": "1", "ack": "client-individual"}
        headers["destination"] = f"/topic/{queue}" if durable else f"/queue/{queue}"
        if durable:
            headers["durable-subscription-name"] = "durable"
        if prefetch:
            headers["prefetch-count"] = prefetch
        connection.send("SUBSCRIBE", headers)
        settling: dict[str, str] = {}
        while True:
            frame = await connection.read()
            if frame.command == "RECEIPT":
                world.touch()
                key = settling.pop(frame["receipt-id"])
                if key:
                    world.history.add(Kind.SETTLED, key, connection.life)
                continue
            key = _delivered(world, connection, frame, who, name if durable else "")
            receipt = f"{name}-{next(receipts)}"
            if world.random.randrange(50) == 0:
                settling[receipt] = ""
                connection.send("NACK", {"id": frame["ack"], "receipt": receipt})
            else:
                settling[receipt] = key
                world.history.add(Kind.ACK_SENT, key, connection.life)
                connection.send("ACK", {"id": frame["ack"], "receipt": receipt})
            await connection.room()

    await forever(world, session, **({"client-id": name} if durable else {}))


async def mover(world: World, source: str, target: str) -> None:
    """Takes from one queue and puts into another in one transaction; every eighth is aborted and comes again."""
    attempts = itertools.count()

    async def session(connection: Connection) -> None:
        who = f"mover@{connection.life}"
        connection.send("SUBSCRIBE", {"id": "1", "ack": "client-individual", "destination": f"/queue/{source}"})
        committing: dict[str, str] = {}
        while True:
            frame = await connection.read()
            if frame.command == "RECEIPT":
                world.touch()
                tx = frame["receipt-id"]
                if tx in committing:
                    world.history.add(Kind.SETTLED, committing[tx], connection.life)
                    world.history.add(Kind.COMMITTED, tx, connection.life)
                continue
            taken = _delivered(world, connection, frame, who)
            tx = f"move-{next(attempts)}"
            made = f"{target}/{tx}/{taken.rpartition('/')[2]}"
            body = body_of(made)
            world.history.add(Kind.SENT, made, connection.life, tx=tx)
            connection.send("BEGIN", {"transaction": tx})
            connection.send("ACK", {"id": frame["ack"], "transaction": tx})
            to = {"destination": f"/queue/{target}", "transaction": tx, "persistent": "true"}
            connection.send("SEND", {**to, "content-length": len(body)}, body)
            if world.random.randrange(8) == 0:
                world.history.add(Kind.ABORTED, tx, connection.life)
                connection.send("ABORT", {"transaction": tx, "receipt": tx})
            else:
                committing[tx] = taken
                world.history.add(Kind.ACK_SENT, taken, connection.life)
                world.history.add(Kind.COMMIT_SENT, tx, connection.life)
                connection.send("COMMIT", {"transaction": tx, "receipt": tx})
            await connection.room()

    await forever(world, session)


def tasks(world: World) -> list[Awaitable[None]]:
    """The whole workload."""
    return [
        producer(world, "p1", "kill.plain"),
        producer(world, "p2", "kill.plain"),
        producer(world, "p3", "kill.topic", subscribers=SUBSCRIBERS),
        producer(world, "p4", "kill.in"),
        transactional_producer(world, "t1", ("kill.a", "kill.b")),
        consumer(world, "c1", "kill.plain", prefetch=40),
        consumer(world, "c2", "kill.plain"),
        *(consumer(world, subscriber, "kill.topic", durable=True) for subscriber in SUBSCRIBERS),
        consumer(world, "c3", "kill.a"),
        consumer(world, "c4", "kill.b"),
        mover(world, "kill.in", "kill.out"),
        consumer(world, "c5", "kill.out"),
    ]
