"""An owner and a journal for one engine, without disk, threads or clock: tests turn the crank themselves."""

from __future__ import annotations

import json

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings
from broker.core.address import AckMode, Routing
from broker.core.commands import Confirm, Disconnect, Grant, Publish, Resume, Settle, Subscribe, Unsubscribe
from broker.core.effects import BrowseEnd, ConsumerClosed, Deliver, Done, Refused, Turn
from broker.core.message import BLOB, DURABLE, HELD, REDELIVERED, TRANSIENT, Blob, Run
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.engine.engine import Engine
from broker.engine.messages.runs import copy
from broker.engine.state.log_group import grouped
from tests.harness.queues import stats

from .watched import Watched

ANYCAST, MULTICAST, UNSET = Routing.ANYCAST, Routing.MULTICAST, Routing.UNSET
AUTO, CLIENT, INDIVIDUAL = AckMode.AUTO, AckMode.CLIENT, AckMode.INDIVIDUAL


def run_of(
    *bodies: bytes,
    lines: bytes = b"",
    durable: bool = False,
    priority: int = 4,
    expires: int = 0,
    blob: Blob | None = None,
) -> Run:
    records = list(bodies)
    nbytes = sum(map(len, records)) + len(records) * len(lines)
    flags = (DURABLE if durable else 0) | (0 if blob is None else BLOB)
    return Run((), lines, records, nbytes, flags, priority, expires, blob=blob)


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%03d" % n for n in range(start, start + count)]


class World:
    """now: the wall clock. effects of the last turns pile up in `effects` until taken."""

    def __init__(self, auto_commit: bool = True, addresses: dict | None = None, **settings: object) -> None:
        fields = EngineSettings.__dataclass_fields__
        own = {k: v for k, v in settings.items() if k in fields}
        address = AddressSettings(**{k: v for k, v in settings.items() if k not in fields})
        self.settings = EngineSettings(address=address, addresses=addresses or {}, **own)
        self.auto_commit = auto_commit
        self.in_pieces = False
        """A turn hands out one piece only; finish() again."""
        self.engine = Engine(7, self.settings)
        self.now = 1_000_000
        self.ahead = 0
        self.open = 1
        self.committed = 0
        self.log: list[tuple[int, object]] = []
        self.runs: dict[int, Run] = {}
        self.fetches: list = []
        self.effects: list = []
        self.appended: list = []
        self.seq = 0
        self.pieces = 0
        """Of a decision whose messages had to be read back, in a turn of its own."""
        self.reads = 0
        """Positions read back since the last start."""
        self.watched = Watched()

    # ── turning the crank ──────────────────────────────────────────────────────────────────────────

    def turn(self) -> Turn:
        return Turn(self.now, self.open, ahead=self.ahead)

    def do(self, *commands) -> list:
        """One turn; its effects."""
        turn = self.turn()
        for command in commands:
            self.engine.handle(command, turn)
        return self.finish(turn)

    def finish(self, turn: Turn) -> list:
        before = len(self.effects)
        self.engine.flush(turn)
        while self.engine.unfinished and not self.in_pieces:
            self._go_on(turn)
        while turn.decisions:
            command = turn.decisions.pop(0)
            self.pieces = sum(1 for _ in self.engine.in_pieces(command, turn))
            self.engine.flush(turn)
        while turn.moves:
            moves, turn.moves = turn.moves, []
            for move in moves:
                group = Turn(turn.now, turn.number)
                self.engine.handle(Publish(7, 0, 0, move.address, move.routing, move.run, move.to), group)
                self.engine.moved(move, group)
                turn.appends += grouped(7, group.appends)
                turn.effects += group.effects
                turn.fetches += group.fetches
                turn.moves += group.moves
                self.engine.flush(turn)
        for record in turn.appends:
            for part in record.records if isinstance(record, GroupRecord) else [record]:
                if isinstance(part, RunRecord):
                    part.run.position = len(self.runs) + 1
                    self.runs[part.run.position] = copy(part.run)
                    assert not part.run.attempts
                self.log.append((turn.number, part))
        self.appended += turn.appends
        self.fetches += turn.fetches
        self.effects += turn.effects
        self.watched.check(self.engine)
        if self.auto_commit:
            self.settle_down()
        return self.effects[before:]

    def _go_on(self, turn: Turn) -> None:
        """The next turn, as if it were a part of this one."""
        more = Turn(turn.now, turn.number)
        self.engine.flush(more)
        turn.appends += more.appends
        turn.effects += more.effects
        turn.fetches += more.fetches
        turn.moves += more.moves
        turn.decisions += more.decisions

    def commit(self) -> list:
        """What was appended is durable now."""
        self.committed = self.open
        self.open += 1
        turn = self.turn()
        self.engine.release(self.committed, turn)
        return self.finish(turn)

    def serve(self) -> None:
        """Answers the oldest fetch."""
        fetch = self.fetches.pop(0)
        self.reads += len(fetch.positions)
        runs, total = [], 0
        for position in fetch.positions:
            run = copy(self.runs[position])
            total += run.nbytes
            if runs and total > self.settings.page_bytes:
                break
            runs.append(run)
        turn = self.turn()
        self.engine.fetched(fetch.queue, runs, turn)
        self.finish(turn)

    def settle_down(self) -> None:
        """Commits and serves until nothing is under way."""
        while self.engine.pending or self.fetches:
            if self.engine.pending:
                was, self.auto_commit = self.auto_commit, False
                self.commit()
                self.auto_commit = was
            if self.fetches:
                was, self.auto_commit = self.auto_commit, False
                self.serve()
                self.auto_commit = was

    def tick(self, ms: int) -> list:
        self.now += ms
        turn = self.turn()
        if 0 < self.engine.due <= self.now:
            self.engine.tick(turn)
        return self.finish(turn)

    def restart(self, clean: bool = False, first_id: int = 0) -> None:
        """A new engine from what the log had committed; with `first_id` it is another leader's."""
        if clean:
            self.settle_down()
        log = [(n, r) for n, r in self.log if n <= self.committed or clean]
        self.engine = Engine(7, self.settings, first_id=first_id)
        self.fetches.clear()
        self.effects.clear()
        self.reads = 0
        gone: dict[int, list[tuple[int, int]]] = {}
        for _, record in log:
            if isinstance(record, SettleRecord) and record.durable:
                gone.setdefault(record.queue, []).extend(record.spans)
        for _, record in log:
            if isinstance(record, MetaRecord):
                self.engine.restore_meta(MetaRecord(7, record.kind, json.loads(json.dumps(record.data))))
        for _, record in log:
            if isinstance(record, RunRecord) and record.dedup is not None:
                self.engine.restore_dedup(*record.dedup)
            if not isinstance(record, RunRecord) or record.run.flags & TRANSIENT:
                continue
            settled = {q: sorted(gone.get(q, [])) for q in record.queues}
            if all(any(a <= i <= b for a, b in spans) for spans in settled.values() for i in record.run.ids):
                continue
            bare = copy(record.run)
            bare.records = []
            self.engine.restore_run(RunRecord(7, record.address, record.queues, bare, record.dispatched), settled)
        self.log = log
        self.open += 1
        turn = self.turn()
        list(self.engine.restore_ending(clean, turn))
        self.finish(turn)

    # ── short hands ────────────────────────────────────────────────────────────────────────────────

    def publish(self, address: str, *bodies: bytes, routing=ANYCAST, queue=None, create=True, seq=0, **kinds) -> list:
        return self.do(Publish(7, 1, seq, address, routing, run_of(*bodies, **kinds), queue, create))

    def subscribe(self, consumer: int, address: str = "q", ack=AUTO, routing=ANYCAST, session=0, seq=0, **more) -> list:
        return self.do(Subscribe(7, session or consumer, seq, consumer, address, routing, ack, **more))

    def attach(
        self, consumer: int, held=(), taken=(), ack=AUTO, address="q", routing=ANYCAST, seq=0, tries=(), firm=(), **more
    ) -> list:
        """What an edge does for each of its consumers when it finds a new leader, or the old one again."""
        command = Subscribe(7, consumer, seq, consumer, address, routing, ack, **more)
        command.confirm = command.bodies = ack is AUTO
        command.resume = Resume(list(held), list(taken), dict(tries), list(firm))
        return self.do(command)

    def confirm(self, consumer: int, count: int) -> list:
        return self.do(Confirm(7, consumer, count))

    def settle(self, consumer: int, *ids: int, session=0, seq=0, **more) -> list:
        return self.do(Settle(7, session or consumer, seq, consumer, list(ids), **more))

    def grant(self, consumer: int, nbytes: int) -> list:
        return self.do(Grant(7, consumer, nbytes))

    def unsubscribe(self, consumer: int, session=0, seq=0, address="q", delete=None) -> list:
        return self.do(Unsubscribe(7, session or consumer, seq, consumer, address, delete))

    def disconnect(self, session: int) -> list:
        return self.do(Disconnect(7, session))

    def stats(self) -> list[dict]:
        return stats(self.engine)

    def queue(self, name: str = "q") -> dict | None:
        return next((q for q in self.stats() if q["name"] == name), None)


def whole(effects: list) -> list[bytes]:
    """The messages that consumers got, with all their header lines."""
    runs = [effect.run for effect in effects if isinstance(effect, Deliver)]
    return [run.lines + record for run in runs for record in run.records]


def got(effects: list, consumer: int | None = None) -> list[bytes]:
    """Bodies delivered, in order."""
    return [
        record
        for effect in effects
        if isinstance(effect, Deliver) and consumer in (None, effect.consumer) and not effect.run.flags & HELD
        for record in effect.run.records
    ]


def ids(effects: list, consumer: int | None = None) -> list[int]:
    return [
        i
        for e in effects
        if isinstance(e, Deliver) and consumer in (None, e.consumer) and not e.run.flags & HELD
        for i in e.run.ids
    ]


def again(effects: list) -> list[tuple[bytes, int, bool]]:
    """(body, attempts, redelivered) of what was delivered."""
    return [
        (record, e.run.attempts, bool(e.run.attempts or e.run.flags & REDELIVERED))
        for e in effects
        if isinstance(e, Deliver)
        for record in e.run.records
    ]


def done(effects: list) -> list[int]:
    return [e.seq for e in effects if isinstance(e, Done)]


def refused(effects: list) -> list:
    return [e.code for e in effects if isinstance(e, Refused)]


def closed(effects: list) -> list[int]:
    return [e.consumer for e in effects if isinstance(e, ConsumerClosed)]


def browse_ends(effects: list) -> int:
    return sum(isinstance(e, BrowseEnd) for e in effects)
