"""Clients of a whole shard on a simulated disk: one seed, one history of several lives.

The world plays the edge: it submits what sessions ask for, grants room, reads large bodies, and tells the model
what it saw. Each history has its own habits (swarm): tiny limits, expiry, priorities, delays, faults.
"""

from __future__ import annotations

from functools import partial
from random import Random

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Barrier, Disconnect, Grant, Hold, Publish, Settle, Subscribe, Transact, Unsubscribe
from broker.core.effects import ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.ids import slot_of
from broker.core.message import BLOB, DURABLE, Blob, Run
from broker.link.owner_port import BodyWriter
from tests.sim.checker import Violation
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.sim.shard_model import ASKED, Copy, Group, Holder, Message, Model

QUEUES = ("q.a", "q.b", "q.c")
TOPICS = ("t.a", "t.b")
SUBS = {"c.one": "t.a", "c.two": "t.b", "c.three": "t.a"}
DEAD, EXPIRED = "DLQ", "EXP"
EXPECTED = {Code.DISK_FULL, Code.NO_SUCH_DELIVERY, Code.OWNER_STOPPED}


class Request:
    """Somebody waits for the answer."""

    def __init__(self, sent=(), settled=(), sub: str = "", barrier: bool = False) -> None:
        self.sent, self.settled, self.sub, self.barrier = list(sent), list(settled), sub, barrier


class Open:
    """A transaction between BEGIN and COMMIT."""

    def __init__(self) -> None:
        self.parts: list[Publish | Settle] = []
        self.messages: list[tuple[Publish, list[Message]]] = []
        self.held: list[Copy] = []
        self.shares: list[tuple[Holder, int]] = []
        """Consumer, how many of its messages are held."""


class Session:
    def __init__(self, number: int) -> None:
        self.number = number
        self.seq = 0
        self.holders: list[Holder] = []
        self.open: list[Open] = []
        self.bodies: list[BodyWriter] = []
        self.loose: list[Request] = []
        """Requests nobody waits for (seq 0)."""


class World:
    machine: Machine

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.alone = Random(f"alone {seed}")
        self.at_once = 0
        """Messages that had a turn of their own, beside whatever waited."""
        self.disk_id = f"{random.getrandbits(128):032x}"
        self.disk = SimDisk(seed)
        self.clock = HandClock()
        pick = random.choice
        self.tiny = pick((True, False))
        self.ttl, self.priorities, self.large = (random.random() < 0.3 for _ in range(3))
        self.durable = pick((1.0, 0.9, 0.9, 0.5))
        address = AddressSettings(
            max_delivery_attempts=pick((3, 10, -1)), redelivery_delay_ms=pick((0, 0, 50)),
            dead_letter_address=pick((DEAD, DEAD, DEAD, "")), expiry_address=pick((EXPIRED, "")),
            auto_delete=pick((True, False)), record_deliveries=seed % 2 == 1,
        )  # fmt: skip
        memory, page, mark = (300, 200, 2) if self.tiny else (pick((2000, 1 << 20)), 1000, pick((4, 16_384)))
        never = {"max_delivery_attempts": -1}
        self.settings = Settings(
            engine=EngineSettings(memory, page, mark, address, {DEAD: never, EXPIRED: never}),
            journal=JournalSettings(
                segment_bytes=4096 if self.tiny else pick((4096, 32_768)), min_free_bytes=pick((0, 0, 4096)),
                max_inflight_bytes=pick((400, 1 << 20)), compact_below=pick((0.25, 0.5)),
            ),
        )  # fmt: skip
        self.limit = memory + page
        self.biggest = 0
        self.returned = 0
        self.model = Model(address.expiry_address, address.dead_letter_address)
        self.next_session = self.next_consumer = self.next_message = 1
        self.sessions: dict[int, Session] = {}
        self.known: dict[int, Session] = {}
        self.holders: dict[int, Holder] = {}
        self.pending: dict[tuple[int, int], Request] = {}
        self.subs = dict.fromkeys(SUBS, "no")
        self.dead = ""
        self.found: Violation | None = None
        self.reading = 0
        self.unsure = False
        """Something was refused, and nobody can tell what."""

    # ── what the shard tells (link.port.EffectListener) ────────────────────────────────────────────

    def on_effects(self, effects) -> None:
        try:
            self._on_effects(effects)
        except Violation as found:
            self.found = self.found or found  # the shard takes it for a fault of its own
            raise

    def _on_effects(self, effects) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Deliver:
                self._on_deliver(effect)
            elif kind is Done:
                self._answer(effect.session, effect.seq)
            elif kind is Refused:
                self._on_refused(effect)
            elif kind is ConsumerClosed:
                raise Violation(f"consumer closed: {effect.reason}")

    def on_relief(self) -> None:
        if self.machine.shard.congested:
            raise Violation("relief while congested")

    def on_stopped(self, why: str) -> None:
        if self.found is not None:
            raise self.found
        if not why.startswith("journal: cannot") and "simulated" not in why:
            raise Violation(f"stopped: {why}")
        self.dead = why

    def _on_deliver(self, effect: Deliver) -> None:
        holder = self.holders[effect.consumer]
        copies = self.model.delivered(holder, effect, self.clock.now)
        holder.owed += effect.cost
        if copies[0].message.large and not holder.ended:
            reader = self.machine.port.read_body(holder.slot, effect.run.blob)
            self.reading += 1
            self._read(reader, copies[0].message.large, b"", None, "")

    def _read(self, reader, expected: bytes, have: bytes, data: bytes | None, why: str) -> None:
        if why:
            self.reading -= 1
            if "cannot" not in why:
                raise Violation(f"large body: {why}")
            return
        have += data or b""
        if len(have) < len(expected):
            if data == b"":
                raise Violation("large body is too short")
            reader.read(self.random.choice((300, 5000)), partial(self._read, reader, expected, have))
            return
        self.reading -= 1
        reader.close()
        if have != expected:
            raise Violation("large body differs")

    def _answer(self, session: int, seq: int) -> None:
        request = self.pending.pop((session, seq), None)
        if request is None:
            raise Violation(f"request {session}/{seq} answered twice, or never made")
        self.model.confirm(request.sent, request.settled)

    def _on_refused(self, effect: Refused) -> None:
        if effect.code not in EXPECTED:
            raise Violation(f"refused: {effect.code.name} {effect.detail}")
        session = self.known[effect.session]
        if effect.seq:
            request = self.pending.pop((effect.session, effect.seq), None)
            if request is None:
                raise Violation(f"request {effect.session}/{effect.seq} refused twice, or never made")
            if not request.barrier:
                self.model.refuse(request.sent, request.settled)
            if request.sub:
                self.subs[request.sub] = "maybe"
        else:
            self.unsure = True
            for request in session.loose:  # one of them, nobody can tell which
                for copy in request.sent:
                    copy.void = True
                for copy in request.settled:
                    copy.asked, copy.settled_in = -1, None
                    copy.failures += 1
        if session.number in self.sessions and not self.machine.shard.stopped:
            self.disconnect(session)

    # ── sessions ───────────────────────────────────────────────────────────────────────────────────

    def submit(self, *commands) -> None:
        self.machine.port.submit(list(commands))

    def send(self, command: Publish) -> None:
        """As an edge does whose read has brought this alone, or together with others."""
        if self.alone.random() < 0.8 and not command.run.flags & DURABLE and self.machine.port.at_once(command):
            self.at_once += 1
        else:
            self.submit(command)

    def ask(self, session: Session, request: Request, often: float = 0.8) -> int:
        """A number for the request; 0: nobody waits."""
        if self.random.random() > often:
            session.loose.append(request)
            return 0
        session.seq += 1
        self.pending[session.number, session.seq] = request
        return session.seq

    def session(self) -> Session:
        if not self.sessions or (len(self.sessions) < 3 and self.random.random() < 0.2):
            session = self.sessions[self.next_session] = self.known[self.next_session] = Session(self.next_session)
            self.next_session += 1
            return session
        return self.random.choice(list(self.sessions.values()))

    def disconnect(self, session: Session) -> None:
        del self.sessions[session.number]
        calm = self.random.random() < 0.5
        for slot in sorted({holder.slot for holder in session.holders}):
            self.submit(Disconnect(slot, session.number, calm))
        for holder in session.holders:
            self._end(holder, failed=not calm)
        for transaction in session.open:
            self._give_back(transaction.held, failed=not calm)
        for writer in session.bodies:
            writer.abort()

    def _end(self, holder: Holder, failed: bool) -> None:
        holder.ended, holder.failed = True, failed
        self._give_back(holder.ledger.values(), failed)
        holder.ledger.clear()
        if not holder.kept:
            for copy in self.model.copies.values():
                if copy.queue == holder.queue:
                    copy.void = True

    def _give_back(self, copies, failed: bool = True) -> None:
        for copy in copies:
            copy.holder = None
            copy.failures += failed
            self.returned += copy.message.size

    # ── subscribing ────────────────────────────────────────────────────────────────────────────────

    def subscribe(self, session: Session, queue: str = "", generous: bool = False) -> None:
        random = self.random
        number, self.next_consumer = self.next_consumer, self.next_consumer + 1
        queue = queue or random.choice((*QUEUES, *QUEUES, *TOPICS, *SUBS, DEAD))
        address = SUBS.get(queue, queue)
        routing = Routing.ANYCAST if address == queue and queue not in TOPICS else Routing.MULTICAST
        ack = random.choice(list(AckMode))
        key = f"{queue}::{number}" if queue in TOPICS else queue
        holder = Holder(number, slot_of(address), key, address, ack, queue not in TOPICS)
        holder.overhead = random.choice((0, 7))
        if not generous and random.random() < (0.8 if self.tiny else 0.3):
            holder.room = random.choice((1, 100, 400))
            holder.messages = random.choice((1, 2, 5))
            holder.nbytes = random.choice((1 << 62, 1 << 62, 150))
        request = Request(sub=queue if queue in SUBS else "")
        if request.sub:
            if any(other.queue == queue for other in self.holders.values() if not other.ended):
                return
            self.subs[queue] = "yes"
        seq = self.ask(session, request, 1.0 if request.sub else 0.7)
        self.holders[number] = holder
        session.holders.append(holder)
        self.submit(
            Subscribe(
                holder.slot, session.number, seq, number, address, routing, ack,
                queue=request.sub or None, durable=bool(request.sub), credit_messages=holder.messages,
                credit_bytes=holder.nbytes, room=holder.room, overhead=holder.overhead,
                priority=random.choice((0, 0, 1)),
            )
        )  # fmt: skip

    def unsubscribe(self, session: Session, delete: bool) -> None:
        if not session.holders:
            return
        holder = self.random.choice(session.holders)
        request = Request()
        doomed = holder.queue if delete and holder.queue in SUBS else None
        self._end(holder, failed=False)
        session.holders.remove(holder)
        if doomed:
            request = Request(settled=[c for c in self.model.copies.values() if c.queue == doomed], sub=doomed)
            self.model.purge(request.settled)
            self.subs[doomed] = "no"
        seq = self.ask(session, request, 1.0 if doomed else 0.6)
        self.submit(Unsubscribe(holder.slot, session.number, seq, holder.number, holder.address, doomed))

    # ── publishing ─────────────────────────────────────────────────────────────────────────────────

    def compose(self, address: str) -> tuple[Run, list[Message]]:
        random = self.random
        durable = random.random() < self.durable
        priority = random.choice((4, 4, 4, 9, 0)) if self.priorities else 4
        expires = self.clock.now + random.choice((1, 50, 3000)) if self.ttl and random.random() < 0.4 else 0
        lines = random.choice((b"", b"a:b\n", b"a:b\n\n"))
        records = []
        messages = []
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            number = self._number()
            size = random.choice((0, 10, 10, 40, 170)) if random.random() < 0.97 else 900
            record = (b"" if lines.endswith(b"\n\n") else b"\n") + b"#%d#" % number + b"x" * size + b"\0"
            records.append(record)
            messages.append(Message(number, lines + record, b"", durable, priority, expires))
        nbytes = sum(map(len, records)) + len(records) * len(lines)
        self.biggest = max(self.biggest, nbytes)
        run = Run(range(0), lines, records, nbytes, DURABLE if durable else 0, priority, expires)
        return run, messages

    def _number(self) -> int:
        number, self.next_message = self.next_message, self.next_message + 1
        return number

    def _where(self) -> tuple[str, Routing]:
        address = self.random.choice((*QUEUES, *TOPICS))
        if address in TOPICS:
            return address, Routing.MULTICAST
        return address, self.random.choice((Routing.ANYCAST, Routing.UNSET))

    def _sent(self, address: str, messages: list[Message], group: Group | None = None) -> list[Copy]:
        """Tells the model which queues get them."""
        if address in QUEUES:
            targets = [(address, True, True)]
        else:
            targets = [(name, True, self.subs[name] == "yes") for name in SUBS if SUBS[name] == address]
            targets = [t for t in targets if self.subs[t[0]] != "no"]
            tied = [h for h in self.holders.values() if not h.ended and h.address == address and not h.kept]
            targets += [(holder.queue, False, True) for holder in tied]
        return [self.model.sent(m, queue, kept, sure, group) for m in messages for queue, kept, sure in targets]

    def publish(self, session: Session) -> None:
        if self.machine.shard.congested and self.random.random() < 0.8:
            return
        address, routing = self._where()
        run, messages = self.compose(address)
        seq = self.ask(session, request := Request())
        request.sent = self._sent(address, messages)
        self.send(Publish(slot_of(address), session.number, seq, address, routing, run))

    def publish_large(self, session: Session) -> None:
        address, routing = self._where()
        number = self._number()
        body = b"%d" % number * self.random.choice((200, 700))
        data = b"a:b\ncontent-length:%d\nn:#%d#\n\n" % (len(body), number)
        durable = self.random.random() < self.durable
        expires = self.clock.now + 3000 if self.ttl and self.random.random() < 0.3 else 0
        message = Message(number, data, body, durable, 4, expires)
        writer = self.machine.port.write_body(slot_of(address), lambda: None)
        for at in range(0, len(body), 1000):
            writer.write(body[at : at + 1000])
        if self.random.random() < 0.1:
            writer.abort()
            return
        session.bodies.append(writer)

        def complete(blob: Blob | None, _: str) -> None:
            if session.number not in self.sessions:
                return  # aborted when it went, like the edge does
            session.bodies.remove(writer)
            if blob is None:
                return
            run = Run(range(0), b"a:b\n", [data[4:]], message.size, BLOB | (DURABLE if durable else 0), 4, expires)
            run.blob = blob
            self.biggest = max(self.biggest, message.size)
            seq = self.ask(session, request := Request())
            request.sent = self._sent(address, [message])
            self.send(Publish(slot_of(address), session.number, seq, address, routing, run))

        writer.finish(durable, complete)

    # ── settling ───────────────────────────────────────────────────────────────────────────────────

    def _choose(self, session: Session) -> tuple[Holder, list[int], list[Copy]] | None:
        """A consumer, ids to settle, and what these cover; taken out of its ledger, credit given back."""
        holders = [holder for holder in session.holders if holder.ledger]
        if not holders:
            return None
        random = self.random
        holder = random.choice(holders)
        held = list(holder.ledger)
        if holder.ack is AckMode.INDIVIDUAL:
            ids = random.sample(held, random.randint(1, len(held)))
            covered = ids
        else:
            last = random.randrange(len(held))
            covered = held[: last + 1]
            ids = sorted(random.sample(range(last), random.randint(0, last))) if random.random() < 0.3 else []
            ids = [held[n] for n in ids] + [held[last]]
        copies = [holder.ledger.pop(i) for i in covered]
        holder.messages += len(copies)
        holder.nbytes += sum(self._cost(holder, copy) for copy in copies)
        return holder, ids, copies

    def _cost(self, holder: Holder, copy: Copy) -> int:
        """At least what it cost: a dead letter has some headers more."""
        return copy.message.size + holder.overhead + (300 if "|" in copy.queue else 0)

    def settle(self, session: Session) -> None:
        choice = self._choose(session)
        if choice is None:
            return
        holder, ids, copies = choice
        outcome = self.random.choice((Outcome.ACK, Outcome.ACK, Outcome.ACK, Outcome.NACK, Outcome.REJECT))
        if holder.address in (DEAD, EXPIRED) and outcome is Outcome.REJECT:
            outcome = Outcome.NACK
        request = Request()
        if outcome is Outcome.ACK:
            request.settled = copies
            self.model.ask(copies)
        else:
            self._give_back(copies)
        seq = self.ask(session, request)
        delay = self.random.choice((-1, -1, 0, 40))
        self.submit(Settle(holder.slot, session.number, seq, holder.number, ids, outcome, delay))

    def barrier(self, session: Session) -> None:
        """Everything this session has asked for is durable when it is answered."""
        asked = [request for key, request in self.pending.items() if key[0] == session.number] + session.loose
        copies = [c for r in asked for c in r.settled if c.gone == ASKED and c.asked == self.model.life]
        sent = [c for r in asked for c in r.sent]
        copies += [c for h in session.holders for c in h.sent_auto]
        seq = self.ask(session, Request(sent, copies, barrier=True), 1.0)
        self.submit(Barrier(self.random.choice((0, slot_of(QUEUES[0]))), session.number, seq))

    def misbehave(self, session: Session) -> None:
        """An ACK for what it does not hold: refused, and the connection is closed as the edge does."""
        if session.holders:
            holder = self.random.choice(session.holders)
            seq = self.ask(session, Request())
            self.submit(Settle(holder.slot, session.number, seq, holder.number, [1 << 40]))

    def accept(self, session: Session, holder: Holder) -> None:
        """Acknowledges all it holds and grants all room."""
        if holder.ledger:
            copies = list(holder.ledger.values())
            ids = list(holder.ledger) if holder.ack is AckMode.INDIVIDUAL else [next(reversed(holder.ledger))]
            holder.ledger.clear()
            self.model.ask(copies)
            seq = self.ask(session, Request(settled=copies))
            self.submit(Settle(holder.slot, session.number, seq, holder.number, ids))

    def grant(self) -> None:
        """Some of what was delivered has left for the sockets."""
        for holder in self.holders.values():
            if holder.owed and not holder.ended and self.random.random() < 0.7:
                holder.room += holder.owed
                self.submit(Grant(holder.slot, holder.number, holder.owed))
                holder.owed = 0

    # ── transactions ───────────────────────────────────────────────────────────────────────────────

    def transact(self, session: Session) -> None:
        random = self.random
        if not session.open or random.random() < 0.2:
            session.open.append(Open())
        transaction = random.choice(session.open)
        luck = random.random()
        if luck < 0.4:
            address, routing = self._where()
            run, messages = self.compose(address)
            publish = Publish(slot_of(address), session.number, 0, address, routing, run)
            transaction.parts.append(publish)
            transaction.messages.append((publish, messages))
        elif luck < 0.7:
            self._hold(session, transaction)
        elif luck < 0.95:
            self._commit(session, transaction)
        else:
            session.open.remove(transaction)
            parts = [part for part in transaction.parts if type(part) is Settle]
            self.submit(*[Settle(p.slot, p.session, 0, p.consumer, p.ids, Outcome.RETURN) for p in parts])
            self._give_back(transaction.held)

    def _hold(self, session: Session, transaction: Open) -> None:
        choice = self._choose(session)
        if choice is not None:
            holder, ids, copies = choice
            transaction.held += copies
            transaction.shares.append((holder, len(copies)))
            transaction.parts.append(Settle(holder.slot, session.number, 0, holder.number, ids))
            self.submit(Hold(holder.slot, session.number, 0, holder.number, ids))

    def _commit(self, session: Session, transaction: Open) -> None:
        session.open.remove(transaction)
        group = Group()
        self.model.groups.append(group)
        dead = {holder.number for holder in self.holders.values() if holder.ended}
        doomed = any(type(part) is Settle and part.consumer in dead for part in transaction.parts)
        held = [] if doomed else transaction.held  # it will be refused: what a consumer held went with its end
        request = Request(settled=held)
        seq = self.ask(session, request)
        for publish, messages in transaction.messages:
            request.sent += self._sent(publish.address, messages, group)
        self.model.ask(held, group)
        slot = transaction.parts[0].slot if transaction.parts else 0
        self.submit(Transact(slot, session.number, seq, transaction.parts))
