"""Any frames in any order, cut anywhere: what an owner is asked for and what the client reads is the same.

The owner here keeps a ledger: what each frame came to, message by message and id by id, so that frames which travelled
as one command and frames which travelled alone read alike. It answers between reads. Each program is drawn from its
seed, and is carried out in one read, in two, in pieces, and byte by byte.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.config.settings import EdgeSettings, Settings, WireSettings
from broker.core.commands import Command, Disconnect, Hold, Publish, Settle, Subscribe, Transact, Unsubscribe
from broker.core.effects import Deliver, Done, Effect
from broker.core.message import DURABLE, TEXT, Blob, Run
from broker.edge.access.auth import TableAuthenticator
from broker.edge.destinations.directory import Directory, LocalClientIds, LocalNames
from broker.edge.destinations.directory import Done as Told
from broker.edge.edge import Edge
from broker.edge.transport.channel import Channel
from tests.harness import build

from .bench import Port, Wire
from .clocked import Time

HELD = 6
"""Messages each of the first three subscriptions holds before the program begins."""
MODES = ("auto", "client", "client-individual")


class Ledger(Port):
    """An owner that writes down what it was asked for, and answers in turn()."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[Any, ...]] = []
        self.live: set[int] = set()
        self._left: set[int] = set()
        """Unsubscribed: a transaction may hold what they had."""
        self._open: list[tuple[int, int]] = []

    def submit(self, commands: list[Any]) -> None:
        for command in commands:
            self._book(command)
            if seq := getattr(command, "seq", 0):
                self._open.append((command.session, seq))

    def answers(self) -> list[Effect]:
        done, self._open = self._open, []
        return [Done(session, seq) for session, seq in done]

    def _book(self, command: Command) -> None:
        log, live = self.log.append, self.live
        if isinstance(command, Publish):
            run = command.run
            for record in run.records:
                flags = run.flags & (DURABLE | TEXT)
                times = run.priority, run.expires, run.due
                log(("publish", command.slot, command.address, command.queue, run.lines + record, flags, times))
        elif isinstance(command, Settle | Hold):
            outcome = "hold" if isinstance(command, Hold) else (command.outcome, command.delay)
            state = "held" if command.consumer in live else "left" if command.consumer in self._left else "LOST"
            for id in command.ids:
                log(("settle", command.consumer, id, outcome, state))
        elif isinstance(command, Transact):
            log(("commit", command.slot))
            for part in command.parts:
                self._book(part)
            log(("committed", command.slot))
        elif isinstance(command, Subscribe):
            live.add(command.consumer)
            log(("subscribe", command.slot, command.consumer, command.address, command.queue, command.ack))
        elif isinstance(command, Unsubscribe):
            live.discard(command.consumer)
            self._left.add(command.consumer)
            log(("unsubscribe", command.slot, command.consumer, command.address, command.delete_queue))
        elif isinstance(command, Disconnect):
            # Said once or twice, by slot: what counts is whom it ends. One session here: all of them are its own.
            if live:
                log(("gone", sorted(live), command.calm))
            live.clear()


class LateNames(LocalNames):
    """Another process is asked: it answers in turn()."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[Callable[[], None]] = []

    def claim(self, name: str, address: str, done: Told) -> None:
        self.late.append(lambda: super(LateNames, self).claim(name, address, done))

    def release(self, name: str, address: str, done: Told) -> None:
        self.late.append(lambda: super(LateNames, self).release(name, address, done))


class Trial:
    """One client and its owner. `late`: names of durable subscriptions are asked for elsewhere."""

    def __init__(self, late: bool) -> None:
        self.port = Ledger()
        time: Any = Time()
        names = LateNames() if late else LocalNames()
        self.late = names.late if isinstance(names, LateNames) else []
        settings = Settings(edge=EdgeSettings(), wire=WireSettings(large_body_bytes=1000))
        directory = Directory(LocalClientIds("refuse"), names)
        self.edge = Edge(
            settings, self.port, time, time, TableAuthenticator({}, time, open_when_empty=True), "boot", directory
        )
        self.wire = Wire()
        self.wire.id = 1
        channel: Channel = self.wire  # type: ignore[assignment]
        self.session = self.edge.open(channel)

    def turn(self) -> None:
        """Owners and others answer, until nobody has anything to say."""
        while any([self._owner(), self._names(), self._disk()]):
            pass

    def _owner(self) -> bool:
        effects = self.port.answers()
        if effects:
            self.edge.on_effects(effects)
        return bool(effects)

    def _names(self) -> bool:
        late, self.late[:] = list(self.late), []
        for answer in late:
            answer()
        return bool(late)

    def _disk(self) -> bool:
        ready = [writer for writer in self.port.writers if writer.finished is not None]
        self.port.writers = [writer for writer in self.port.writers if writer.finished is None]
        for writer in ready:
            self.port.log.append(("body", writer.data))
            assert writer.finished is not None
            writer.finished(Blob(1, len(writer.data)), "")
        return bool(ready)

    def prepare(self, version: str) -> None:
        """Three subscriptions that hold messages."""
        self.session.receive(connect(version))
        for n, mode in enumerate(MODES, 1):
            self.session.receive(build("SUBSCRIBE", {"id": f"s{n}", "destination": f"/queue/q{n}", "ack": mode}))
        self.turn()
        for consumer in (1, 2, 3):
            records = [b"%d\0" % n for n in range(HELD)]
            run = Run(range(1, HELD + 1), b"\n", records, sum(map(len, records)))
            self.edge.on_effects([Deliver(consumer, run, run.nbytes)])
        self.wire.take()

    def outcome(self) -> tuple[Any, ...]:
        return self.port.log, self.port.live, self.wire.sent, self.wire.closed


def connect(version: str) -> bytes:
    return build("CONNECT", {"accept-version": version, "host": "h", "client-id": "me"})


class Program:
    """Frames drawn from a seed: mostly such as a client sends, some that are refused."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.version = rng.choice(["1.0", "1.1", "1.2"])
        self.late = rng.random() < 0.3
        self.prepared = rng.random() < 0.7
        self._subscribed = ["s1", "s2", "s3"] if self.prepared else []
        self._held = [(c, n) for c in (2, 3) for n in range(1, HELD + 1)] if self.prepared else []
        self._transactions: list[str] = []
        frames = [] if self.prepared else [connect(self.version)]
        frames += [self._draw() for _ in range(rng.randrange(1, 14))]
        if rng.random() < 0.85:
            frames.append(self._disconnect())
            frames += [self._draw() for _ in range(rng.randrange(3))]
        self.data = b"".join(frames)

    def _draw(self) -> bytes:
        make = self.rng.choices(
            [
                self._send, self._ack, self._subscribe, self._unsubscribe, self._begin, self._end, self._large,
                self._blank, self._wrong, self._disconnect,
            ],
            [30, 30, 8, 8, 12, 14, 3, 4, 1, 1],
        )  # fmt: skip
        return make[0]()

    def _receipt(self, headers: dict[str, object]) -> dict[str, object]:
        if self.rng.random() < 0.3:
            headers["receipt"] = f"r{self.rng.randrange(1000)}"
        return headers

    def _within(self, headers: dict[str, object]) -> dict[str, object]:
        if self._transactions and self.rng.random() < 0.5:
            headers["transaction"] = self.rng.choice(self._transactions)
        return self._receipt(headers)

    def _send(self) -> bytes:
        rng = self.rng
        headers: dict[str, object] = {"destination": rng.choice(["/queue/a", "/queue/b", "/topic/t", "/queue/q1"])}
        if rng.random() < 0.3:
            headers["persistent"] = "true"
        if rng.random() < 0.2:
            headers["n"] = rng.randrange(3)
        if rng.random() < 0.1:
            headers["expires"] = 1 << 50
        return b"".join(build("SEND", dict(headers), b"x" * rng.randrange(9)) for _ in range(rng.randrange(3))) + build(
            "SEND", self._within(headers), b"y"
        )

    def _large(self) -> bytes:
        body = b"b" * self.rng.randrange(1000, 1500)
        headers = self._receipt({"destination": "/queue/a", "content-length": len(body)})
        return build("SEND", headers, body)

    def _ack(self) -> bytes:
        rng = self.rng
        if not self._held:
            return b"\n"
        frames = []
        for _ in range(rng.randrange(1, 4)):
            if not self._held:
                break
            consumer, number = self._held.pop(rng.randrange(len(self._held)) if rng.random() < 0.3 else 0)
            id = f"boot-{consumer}-{number}"
            headers: dict[str, object] = {"id": id}
            if self.version != "1.2":
                headers = {"message-id": id}
            if self.version == "1.1":
                headers["subscription"] = f"s{consumer}"
            nack = self.version != "1.0" and rng.random() < 0.2
            frames.append(build("NACK" if nack else "ACK", self._within(headers)))
        return b"".join(frames)

    def _subscribe(self) -> bytes:
        rng = self.rng
        id = f"n{rng.randrange(50)}"
        headers: dict[str, object] = {"id": id, "destination": f"/queue/{id}", "ack": rng.choice(MODES)}
        if rng.random() < 0.4:
            headers |= {"destination": f"/topic/{id}", "durable-subscription-name": id}
        self._subscribed.append(id)
        return build("SUBSCRIBE", self._receipt(headers))

    def _unsubscribe(self) -> bytes:
        if not self._subscribed:
            return b"\n"
        id = self._subscribed.pop(self.rng.randrange(len(self._subscribed)))
        # What it holds goes back: an ACK of it would be refused.
        self._held = [(c, n) for c, n in self._held if id != f"s{c}"]
        headers: dict[str, object] = {"id": id}
        if id.startswith("n") and self.rng.random() < 0.3:
            headers |= {"durable-subscription-name": id, "destination": f"/topic/{id}"}
        return build("UNSUBSCRIBE", self._receipt(headers))

    def _begin(self) -> bytes:
        self._transactions.append(f"t{self.rng.randrange(1000)}")
        return build("BEGIN", self._receipt({"transaction": self._transactions[-1]}))

    def _end(self) -> bytes:
        if not self._transactions:
            return b"\n"
        name = self._transactions.pop(self.rng.randrange(len(self._transactions)))
        return build(self.rng.choice(["COMMIT", "ABORT"]), self._receipt({"transaction": name}))

    def _blank(self) -> bytes:
        return b"\n" * self.rng.randrange(1, 3)

    def _wrong(self) -> bytes:
        return self.rng.choice(
            [
                b"NONSENSE\n\n\0",
                build("SEND", {"receipt": "none"}),
                build("COMMIT", {"transaction": "never", "receipt": "c"}),
                build("ACK", {"id": "boot-9-9", "message-id": "boot-9-9", "subscription": "s1", "receipt": "a"}),
                build("UNSUBSCRIBE", {"id": "never", "receipt": "u"}),
                build("SUBSCRIBE", {"id": "s1", "destination": "/queue/q", "selector": "a ="}),
            ]
        )

    def _disconnect(self) -> bytes:
        return build("DISCONNECT", {} if self.rng.random() < 0.6 else {"receipt": "bye"})

    def run(self, cuts: list[int], hang_up: bool) -> tuple[Any, ...]:
        """What it comes to when its bytes are read in these pieces."""
        trial = Trial(self.late)
        if self.prepared:
            trial.prepare(self.version)
        for start, end in zip([0, *cuts], [*cuts, len(self.data)], strict=True):
            trial.session.receive(self.data[start:end])
            trial.turn()
        if hang_up:
            trial.session.eof()
            trial.turn()
        return trial.outcome()

    def cuts(self) -> Iterator[list[int]]:
        """In two, in pieces, byte by byte."""
        size, rng = len(self.data), self.rng
        for _ in range(4):
            yield [rng.randrange(size + 1)]
        for _ in range(3):
            yield sorted(rng.randrange(size + 1) for _ in range(rng.randrange(2, 20)))
        yield list(range(1, size))


@pytest.mark.parametrize("block", range(10))
async def test_any_cut_of_any_frames_comes_to_the_same(block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        program = Program(seed)
        hang_up = program.rng.random() < 0.5
        whole = program.run([], hang_up)
        log, live, _, closed = whole
        if closed is not None or hang_up:
            assert not live, f"seed {seed}: consumers stay for ever"
        assert not [entry for entry in log if "LOST" in entry], f"seed {seed}: acknowledged after the end"
        for cuts in program.cuts():
            assert program.run(cuts, hang_up) == whole, f"seed {seed}, cut at {cuts}: {program.data!r}"


def test_the_programs_say_everything() -> None:
    """Else the test above would prove little."""
    said = b"".join(Program(seed).data for seed in range(600))
    for command in ("SEND", "ACK", "NACK", "SUBSCRIBE", "UNSUBSCRIBE", "BEGIN", "COMMIT", "ABORT", "DISCONNECT"):
        assert said.count(b"\0%b\n" % command.encode()) > 40, command
