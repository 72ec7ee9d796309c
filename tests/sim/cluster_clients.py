"""Virtual clients of a cluster: what sessions ask of their edge's OwnerPort, at random, and what they are told.

Rule: knows the port and the model, nothing of owners or links. `Clients` are those of one life of one edge: they end
with it. Each does only what a STOMP session could: sends with and without receipts, all ack modes, NACK, windows,
durable subscriptions, transactions over any slots, messages for later, large bodies (cluster_bodies.py),
split addresses and wildcards (cluster_fans.py), groups of messages, subscriptions that nothing keeps
(cluster_watchers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Disconnect, Grant, Hold, Publish, Settle, Subscribe, Transact, Unsubscribe
from broker.core.effects import ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.message import Run
from broker.edge.destinations.send_route import Split
from broker.edge.subscriptions.split_subscription import share
from broker.link.owner_port import OwnerPort
from tests.sim.checker import Violation
from tests.sim.cluster_bodies import Receiving, Sending
from tests.sim.cluster_checkers import DEAD, HERE, OFTEN, Claim, Copy, Group, Holder, Message
from tests.sim.cluster_fans import SplitSubscription
from tests.sim.cluster_watchers import SESSIONS, Watched, Watcher, Watching
from tests.sim.cluster_work import TOPICS, Workload

Settled = tuple[Holder, list[int], list[Copy], list[Claim]]
EXCUSABLE = (Code.NO_SUCH_DELIVERY, Code.NO_SUCH_TRANSACTION, Code.OWNER_MOVED)


class Request:
    """Somebody waits for the answer.

    holders    of what it settles: gone, or given up, they excuse a refusal.
    parts      of the durable subscription `sub`: it stands when all of them are answered.
    crossing   a COMMIT over several slots: it may be rolled back when it takes too long.
    group      the transaction that it commits.
    large      a message whose body went ahead: to an owner that may lead no longer.
    claims     all that it settles, also what is not its client's own any more.
    watched    the same as `sent`, for subscribers without a durable name.    watcher: who subscribes so."""

    def __init__(
        self,
        sent: list[Copy],
        settled: list[Copy],
        holders: list[Holder],
        sub: str = "",
        parts: list[Holder] | None = None,
    ) -> None:
        self.sent, self.settled, self.holders, self.sub, self.parts = sent, settled, holders, sub, parts
        self.crossing = self.large = self.atomic = False
        self.claims: list[Claim] = []
        self.group: Group | None = None
        self.watched: list[Watched] = []
        self.watcher: Watcher | None = None


class Open:
    """A transaction between BEGIN and COMMIT."""

    def __init__(self) -> None:
        self.parts: list[Publish | Settle] = []
        self.messages: list[tuple[Publish, list[Message]]] = []
        self.held: list[tuple[Holder, list[Copy]]] = []
        self.claims: list[Claim] = []


class Session:
    def __init__(self, number: int) -> None:
        self.number = number
        self.seq = 0
        self.holders: list[Holder] = []
        self.open: Open | None = None
        self.sending: Sending | None = None
        self.paused = False
        self.loose: list[Request] = []
        """Requests nobody waits for."""


class Clients:
    """link.port.EffectListener of one life of one edge."""

    def __init__(self, name: str, work: Workload, port: OwnerPort, fail: Callable[[BaseException], None]) -> None:
        self.name = name
        self.work = work
        self.model = work.model
        self.random = work.random
        self.port = port
        self.alive = True
        self.thrown_out = False
        """A session was ended because it was refused something."""
        self.sessions: dict[int, Session] = {}
        self.known: dict[int, Session] = {}
        self.holders: dict[int, Holder] = {}
        self.pending: dict[tuple[int, int], Request] = {}
        self.receiving: dict[Receiving, None] = {}
        self._splits: dict[str, Split] = {}
        self.watching = Watching(self)
        self.wall_ms: Callable[[], int] | None = None
        """The clock of the edge, where it makes delays of what is due later; None: a point of time it stays."""
        self._fail = fail
        self._sessions = self._consumers = 0
        port.attach(self)

    # ── what the port tells ────────────────────────────────────────────────────────────────────────

    def on_effects(self, effects: list[Any]) -> None:
        try:
            for effect in effects:
                kind = type(effect)
                if kind is Deliver:
                    self._on_deliver(effect)
                elif kind is Done:
                    self._on_done(effect)
                elif kind is Refused:
                    self._on_refused(effect)
                elif kind is ConsumerClosed:
                    raise Violation(f"{self.name}: consumer closed: {effect.reason} {effect.detail}")
        except Violation as found:
            self._fail(found)  # who called might take it for a fault of its own
            raise

    def on_relief(self, sessions: Collection[int] | None = None) -> None:
        for session in self.sessions.values():
            if sessions is None or session.number in sessions:
                session.paused = False

    def on_stopped(self, why: str) -> None:
        self._fail(Violation(f"{self.name}: stopped: {why}"))

    def _on_deliver(self, effect: Deliver) -> None:
        if (watcher := self.watching.watchers.get(effect.consumer)) is not None:
            self.work.watch.delivered(watcher, effect)
            return
        holder = self.holders.get(effect.consumer)
        if holder is None:
            raise Violation(f"{self.name}: delivery for consumer {effect.consumer}, which never was")
        self.model.delivered(holder, effect)
        if holder.ended:
            return
        if holder.split is not None:
            holder.split.arrived(holder, effect)
        else:
            self.receive(holder, effect.run)

    def receive(self, holder: Holder, run: Run) -> None:
        """The client begins to get it."""
        if run.blob is not None:
            session = next(each for each in self.sessions.values() if holder in each.holders)
            body = self.model.body(run)
            self.receiving[Receiving(self, session, holder, body, run, self.receiving.pop)] = None

    def _on_done(self, effect: Done) -> None:
        request = self.pending.pop((effect.session, effect.seq), None)
        if request is None:
            raise Violation(f"{self.name}: request {effect.session}/{effect.seq} answered twice, or never made")
        self.work.receipts += 1
        self.model.confirm(request.sent, request.settled, request.holders)
        self.model.effective(request.claims, request.atomic)
        if request.sub and not any(each.parts is request.parts for each in self.pending.values()):
            self.work.subs[request.sub] = "yes"
        if request.group is not None:
            request.group.yes.append("its receipt")
        for each in request.watched:
            self.work.watch.answered(self.port, each)
        if request.watcher is not None:
            request.watcher.ready = True
        self.work.on_done(request.sent)

    def _on_refused(self, effect: Refused) -> None:
        if effect.session > SESSIONS and effect.code is Code.NO_SUCH_DELIVERY:
            return  # what it acknowledges may have gone with a leader
        session = self.known[effect.session]
        requests = session.loose
        if effect.seq:
            request = self.pending.pop((effect.session, effect.seq), None)
            if request is None:
                raise Violation(f"{self.name}: request {effect.session}/{effect.seq} refused twice, or never made")
            requests = [request]
        excused = any(holder.ended or holder.doubtful for request in requests for holder in request.holders)
        excused |= effect.code is Code.NO_SUCH_TRANSACTION and any(request.crossing for request in requests)
        if effect.code is Code.OWNER_MOVED and not self.model.calm and not self.work.kept:
            excused = any(request.large for request in requests)
        if effect.code not in EXCUSABLE or not excused:
            raise Violation(f"{self.name}: refused: {effect.code.name} {effect.detail} (request {effect.seq})")
        if effect.seq:
            self.model.refuse(request.sent, request.settled, request.holders)
        else:
            for request in requests:  # one of them, nobody can tell which
                for copy in request.sent:
                    copy.void = True
                for copy in request.settled:
                    copy.asker = None
        if session.number in self.sessions:
            self.disconnect(session)
            self.thrown_out = True

    def found(self, what: str) -> None:
        """Raises Violation, and sees to it that whoever catches it does not hide it."""
        violation = Violation(f"{self.name}: {what}")
        self._fail(violation)
        raise violation

    def busy(self) -> bool:
        """Is anything under way that must end by itself."""
        return bool(self.pending or self.receiving or any(each.sending for each in self.sessions.values()))

    # ── ends ───────────────────────────────────────────────────────────────────────────────────────

    def die(self) -> None:
        """The edge is gone, and its clients with it."""
        self.alive = False
        self.model.fail(self.holders.values())
        for session in list(self.sessions.values()):
            self._forget(session)
        for request in self.pending.values():
            self.model.unanswered(request.sent)
            if request.sub and self.work.subs[request.sub] == "no":
                self.work.subs[request.sub] = "maybe"
        for session in self.known.values():
            for request in session.loose:
                self.model.unanswered(request.sent)
        self.pending.clear()
        self.receiving.clear()
        self.watching.void()

    def doubt(self, slot: int | None = None) -> None:
        """The edge was away for so long that owners may have given its sessions up; slot: of this one only."""
        holders = [holder for holder in self.holders.values() if slot is None or holder.slot == slot]
        self.model.fail(holders, OFTEN)
        for holder in holders:
            holder.doubtful = True
            holder.given_up = self.model.wall_ms()
            self.model.left.add(holder.queue)  # what was on its way to it counts as delivered
        if slot is None:
            self.watching.void()

    def _forget(self, session: Session) -> None:
        self.sessions.pop(session.number, None)
        for holder in session.holders:
            self._end(holder)
        if session.open is not None:
            self._give_back(session.open)
            session.open = None

    def _end(self, holder: Holder) -> None:
        holder.ended = True
        self.model.left.add(holder.queue)
        for copy in (*holder.ledger.values(), *holder.bodies.values()):
            if copy.holder is holder:
                copy.holder = None
        holder.ledger.clear()
        holder.bodies.clear()
        if self.work.taken.get(holder.queue) is holder:
            del self.work.taken[holder.queue]

    @staticmethod
    def _give_back(transaction: Open) -> None:
        for holder, copies in transaction.held:
            for copy in copies:
                if copy.holder is holder:
                    copy.holder = None

    # ── sessions ───────────────────────────────────────────────────────────────────────────────────

    def submit(self, *commands: Any) -> None:
        if self.port.submit(list(commands)) and (session := self.sessions.get(getattr(commands[0], "session", 0))):
            session.paused = True

    def ask(self, session: Session, request: Request, often: float = 0.8) -> int:
        """A number for the request; 0: nobody waits."""
        if self.random.random() > often:
            session.loose.append(request)
            for copy in request.settled:
                copy.unheard = True
            for holder, copy in request.claims:  # another one has it, and may give it back before its edge comes back
                copy.late |= holder.doubtful and copy.gone == HERE
            return 0
        session.seq += 1
        self.pending[session.number, session.seq] = request
        return session.seq

    def session(self) -> Session:
        if not self.sessions or (len(self.sessions) < 3 and self.random.random() < 0.2):
            self._sessions += 1
            session = self.sessions[self._sessions] = self.known[self._sessions] = Session(self._sessions)
            return session
        return self.random.choice(list(self.sessions.values()))

    def expect(self, number: int, watcher: Watcher) -> None:
        """It asks once, in a session of its own."""
        request = self.pending[number, 1] = Request([], [], [])
        request.watcher = watcher

    def disconnect(self, session: Session) -> None:
        slots = sorted({holder.slot for holder in session.holders})
        calm = self.work.goes_in_order()
        if not calm:
            self.model.fail(session.holders)
        if session.sending is not None:
            sending, session.sending = session.sending, None
            sending.abort()
        self._forget(session)
        self.submit(*[Disconnect(slot, session.number, calm) for slot in slots])

    # ── what they do ───────────────────────────────────────────────────────────────────────────────

    def act(self) -> None:
        """Somebody asks for something."""
        if self.work.watched:
            self.watching.act()
        session, luck = self.session(), self.random.random()
        if session.sending is not None:
            session.sending.step()
            self.grant()
        elif luck < 0.35:
            if not session.paused:
                self.publish(session)
        elif luck < 0.50:
            self.subscribe(session)
        elif luck < 0.70:
            self.settle(session)
        elif luck < 0.70 + self.work.transactions:
            self.transact(session)
        elif luck < 0.97:
            self.grant()
        elif luck < 0.985:
            self.unsubscribe(session)
        else:
            self.disconnect(session)

    def subscribe(self, session: Session, queue: str = "", generous: bool = False) -> None:
        random, work = self.random, self.work
        queue = queue or random.choice((*work.taps, *work.taps, *work.bound, DEAD))
        if queue in work.taken:
            return
        address = work.bound.get(queue, queue)
        slots = work.slots(address)
        ack = random.choice(list(AckMode))
        overhead = random.choice((0, 7))
        room = window = 1 << 62
        if not generous and random.random() < 0.6:
            room = share(random.choice((1, 100, 400)), len(slots))
            if ack is not AckMode.AUTO:
                window = random.choice((1, 2, 5))
        parts = [self._holder(slot, queue, address, ack) for slot in slots]
        if queue in work.bound:
            work.taken[queue] = parts[0]
        if len(parts) > 1:
            SplitSubscription(parts, window, self.receive)
        for holder in parts:
            holder.overhead, holder.room, holder.window = overhead, room, window
            session.holders.append(holder)
        self.submit(*[self._subscription(session, holder, parts) for holder in parts])

    def _holder(self, slot: int, queue: str, address: str, ack: AckMode) -> Holder:
        self._consumers += 1
        holder = self.holders[self._consumers] = Holder(self._consumers, slot, queue, address, ack, self.name)
        return holder

    def _subscription(self, session: Session, holder: Holder, parts: list[Holder]) -> Subscribe:
        durable = holder.queue in self.work.bound
        sub = holder.queue if durable else ""
        seq = self.ask(session, Request([], [], [], sub, parts), 1.0 if durable else 0.7)
        return Subscribe(
            holder.slot, session.number, seq, holder.number, holder.address,
            Routing.MULTICAST if durable else Routing.ANYCAST, holder.ack,
            queue=sub or None, durable=durable, credit_messages=holder.window,
            room=holder.room, overhead=holder.overhead,
        )  # fmt: skip

    def unsubscribe(self, session: Session) -> None:
        if session.holders:
            chosen = session.holders[self.random.randrange(len(session.holders))]
            for holder in chosen.split.parts if chosen.split is not None else [chosen]:
                session.holders.remove(holder)
                self._end(holder)
                seq = self.ask(session, Request([], [], []), 0.6)
                self.submit(Unsubscribe(holder.slot, session.number, seq, holder.number, holder.address))

    def _place(self, address: str, message: Message) -> int:
        """The slots of a split address take turns; a group stays in one."""
        slots = self.work.slots(address)
        if len(slots) == 1:
            return slots[0]
        split = self._splits.setdefault(address, Split(slots))
        return split.of(message.group) if message.group else split.next()

    def publish(self, session: Session) -> None:
        address = self.random.choice((*self.work.queues, *TOPICS))
        routing = Routing.MULTICAST if address in TOPICS else Routing.ANYCAST
        if self.work.large and self.random.random() < self.work.large:
            self.publish_large(session, address, routing)
            return
        run, messages = self.work.compose(address, (self.name, session.number))
        request = Request(self.work.sent(address, messages), [], [])
        seq = self.ask(session, request)
        publish = Publish(self._place(address, messages[0]), session.number, seq, address, routing, run)
        self._delay(publish)
        request.watched = [self.work.watch.sent(self.port, publish, messages)]
        self.submit(publish)

    def _delay(self, publish: Publish) -> None:
        """As an edge takes a SEND with a delay (edge/requests/publishing.py)."""
        if publish.run.due and self.wall_ms is not None:
            publish.lives(0, publish.run.due - self.model.wall_ms(), 0, self.wall_ms())

    def publish_large(self, session: Session, address: str, routing: Routing) -> None:
        run, message = self.work.compose_large((self.name, session.number))
        publish = Publish(self._place(address, message), session.number, 0, address, routing, run)
        session.sending = Sending(self, session, publish, message)

    def publish_stored(self, session: Session, publish: Publish, message: Message) -> None:
        """Its body is with the owner."""
        request = Request(self.work.sent(publish.address, [message]), [], [])
        request.large = True
        request.watched = [self.work.watch.sent(self.port, publish, [message], whole=True)]
        publish.seq = self.ask(session, request)
        self.submit(publish)

    def finish_sending(self) -> None:
        for session in list(self.sessions.values()):
            if session.sending is not None:
                session.sending.end()

    def _choose(self, session: Session) -> list[Settled]:
        """Something that the client has: whose it is, ids to settle, and what these cover; taken out of the ledgers."""
        holders = [holder for holder in session.holders if self._here(holder)]
        if not holders:
            return []
        random = self.random
        holder = random.choice(holders)
        held = self._here(holder)
        if holder.ack is AckMode.INDIVIDUAL:
            return self._take(holder, random.sample(held, random.randint(1, len(held))))
        return self._take(holder, held[: random.randrange(len(held)) + 1])

    @staticmethod
    def _here(holder: Holder) -> list[int]:
        return holder.here() if holder.split is None else [i for part, i in holder.split.here() if part is holder]

    def _take(self, holder: Holder, ids: list[int]) -> list[Settled]:
        """The client acknowledges these. Of a subscription with several parts that may cover what others delivered."""
        parts = [(holder, ids)] if holder.split is None else holder.split.settle(holder, ids)
        taken: list[Settled] = []
        for part, covered in parts:
            copies = [part.ledger.pop(i) for i in covered]
            named = covered if part.ack is AckMode.INDIVIDUAL else covered[-1:]
            taken.append((part, named, self._own(part, copies), [(part, copy) for copy in copies]))
        return taken

    @staticmethod
    def _own(holder: Holder, copies: list[Copy]) -> list[Copy]:
        """What of these is its own. Whether the rest is settled, nobody can tell."""
        for copy in copies:
            copy.void |= copy.holder is not holder
        return [copy for copy in copies if copy.holder is holder]

    def settle(self, session: Session) -> None:
        if choice := self._choose(session):
            holder = choice[0][0]
            outcome = Outcome.ACK
            if self.random.random() < 0.25:
                outcome = self.random.choice((Outcome.NACK, Outcome.REJECT if holder.queue != DEAD else Outcome.NACK))
            if self.work.polite and outcome is Outcome.NACK:
                outcome = Outcome.ACK
            self._settle(session, choice, outcome)

    def _settle(self, session: Session, choice: list[Settled], outcome: Outcome, often: float = 0.8) -> None:
        if outcome is Outcome.NACK:
            self.model.fail([holder for holder, *_ in choice])
        for holder, ids, copies, claims in choice:
            request = Request([], [], [holder])
            if outcome is Outcome.ACK:
                request.settled, request.claims = copies, claims
                self.model.ask(holder, copies)
            else:
                for copy in copies:
                    copy.holder = None
            seq = self.ask(session, request, often)
            self.submit(Settle(holder.slot, session.number, seq, holder.number, ids, outcome, 0))
        self._flow(choice)

    @staticmethod
    def _flow(choice: list[Settled]) -> None:
        if (split := choice[0][0].split) is not None:
            split.flow()

    def accept(self, session: Session, holder: Holder) -> None:
        """Acknowledges all that has arrived."""
        if (here := self._here(holder)) and not holder.ended:
            self._settle(session, self._take(holder, here), Outcome.ACK, 1.0)

    def grant(self, always: bool = False) -> None:
        """Some of what was delivered has left for the sockets."""
        for holder in self.holders.values():
            if holder.owed and not holder.ended and (always or self.random.random() < 0.7):
                owed, holder.owed = holder.owed - holder.withheld, holder.withheld
                self.submit(Grant(holder.slot, holder.number, owed))

    # ── transactions ───────────────────────────────────────────────────────────────────────────────

    def transact(self, session: Session) -> None:
        random = self.random
        if session.open is None:
            session.open = Open()
        transaction, luck = session.open, random.random()
        if luck < 0.4:
            address = random.choice((*self.work.queues, *TOPICS))
            routing = Routing.MULTICAST if address in TOPICS else Routing.ANYCAST
            run, messages = self.work.compose(address, (self.name, session.number))
            publish = Publish(self._place(address, messages[0]), session.number, 0, address, routing, run)
            self._delay(publish)
            transaction.parts.append(publish)
            transaction.messages.append((publish, messages))
        elif luck < 0.65:
            if choice := self._choose(session):
                for holder, ids, copies, claims in choice:
                    transaction.held.append((holder, copies))
                    transaction.claims += claims
                    transaction.parts.append(Settle(holder.slot, session.number, 0, holder.number, ids))
                    self.submit(Hold(holder.slot, session.number, 0, holder.number, ids))
                self._flow(choice)
        elif luck < 0.92:
            self._commit(session, transaction)
        else:
            session.open = None
            parts = [part for part in transaction.parts if type(part) is Settle]
            self._give_back(transaction)
            self.model.fail([holder for holder, _ in transaction.held])
            if parts:
                self.submit(*[Settle(p.slot, p.session, 0, p.consumer, p.ids, Outcome.RETURN) for p in parts])

    def _commit(self, session: Session, transaction: Open) -> None:
        if not transaction.parts:
            return
        session.open = None
        group = Group()
        self.model.groups.append(group)
        holders = [holder for holder, _ in transaction.held]
        request = Request([], [], holders)
        request.crossing = group.crossing = len({part.slot for part in transaction.parts}) > 1
        # In one slot it will be refused: what an ended one held went with its end. Over several it is carried out if
        # that is in its queue again (_own: of those nobody can tell whether they are settled).
        if request.crossing or not any(holder.ended for holder in holders):
            request.claims, request.atomic = transaction.claims, True
            for holder, copies in transaction.held:
                own = self._own(holder, copies)
                request.settled += own
                self.model.ask(holder, own, group)
        request.group = group if group.crossing else None
        # Refused, it gives back what it held; over slots it may be begun and rolled back again and again.
        self.model.fail(holders, OFTEN if request.crossing else 1)
        for publish, messages in transaction.messages:
            request.sent += self.work.sent(publish.address, messages, group)
            request.watched.append(self.work.watch.sent(self.port, publish, messages, request.crossing))
        seq = self.ask(session, request)
        self.submit(Transact(transaction.parts[0].slot, session.number, seq, transaction.parts))
