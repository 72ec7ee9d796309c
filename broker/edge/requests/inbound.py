"""What comes in on one connection: events of a read become commands, which leave in one batch.

Rule: one submit per read, and nothing behind the session's end; frames are taken in order, one after another, and
none while something before it is not finished (`park`). The socket is read only while nobody holds it. A frame that
is refused ends the session, with its receipt. Must not know what the frames mean (publishing, acking, control,
connecting), nor how they are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from broker.core.commands import Command, Publish
from broker.core.errors import RefusedError
from broker.core.message import DURABLE
from broker.wire.events import IMPLIED, Acks, BodyData, BodyEnd, BodyStart, Event, Frame, Sends, Violation

from ..session.session import Session
from ..subscriptions.rate_limits import Rates
from ..transport import framelog
from ..transport.fair_reading import Lane, ReadSize
from ..transport.timers import Handle
from . import acks, connecting, control
from .publishing import LargeSend, Publisher

GOES_ON = {"park", "memory"}
"""Who may hold the socket while frames that have come are carried out: what waits here is in memory already."""

BEGUN, BEGUN_SHORT = 48, 12
"""Subscriptions that one session begins in a turn, of 50 to 100 µs each, and while others send little, who wait for
turns (fair_reading.SHORT_ROUND_S); one with a selector counts twice."""
RESTS_S = 0.25
"""So long at most a frame waits for the answer to the one before: what had been asked before that may have none for
hours, where a slot has too few copies, and answers are told in their order."""


class Inbound:
    """The reading half of a session.

    batch   commands of this read; each frame that is carried out adds to it.
    publisher   the sending part; made with the first SEND."""

    __slots__ = (
        "_begun", "_breathing", "_edge", "_holds", "_late", "_parked", "_rests", "_session", "batch", "publisher",
    )  # fmt: skip

    def __init__(self, session: Session) -> None:
        self._session = session
        self._edge = session.edge
        self.batch: list[Command] = []
        self.publisher: Publisher | None = None
        self._parked: list[Event] | None = None
        self._late: list[Event] | None = None
        self._holds: set[str] | None = None
        self._breathing = False
        self._rests: Handle | None = None
        """… but not before something is answered; ends that wait."""
        self._begun = 0

    def handle(self, events: list[Event], fresh: bool = True) -> None:
        """What a read has brought. Not fresh: it has waited here, and its turn has come."""
        session, edge = self._session, self._edge
        if fresh:
            if edge.log_frames:
                framelog.received(session, events)
            if edge.rates is not None:
                events = self._admitted(edge.rates, events)
            if self._parked is not None:
                self._parked += events
                return
            if not events:
                return
        counters = edge.counters
        if edge.changes.busy:
            edge.changes.meets(session)
            if session.closed or session.leaving:
                events = []
        self._begun = 0
        for position, event in enumerate(events):
            try:
                kind = type(event)
                if kind is Sends:
                    counters.frames_in += len(event.records)  # type: ignore[union-attr]
                    publisher = self.publisher
                    if publisher is None:
                        publisher = self.publisher = Publisher(session, self)
                    publisher.sends(event)  # type: ignore[arg-type]
                elif kind is Acks:
                    counters.frames_in += len(event.ids)  # type: ignore[union-attr]
                    acks.acks(session, event)  # type: ignore[arg-type]
                else:
                    self._other(event)
            except RefusedError as refused:
                if not session.survives(event, refused):
                    session.fail(refused.code, refused.detail, _receipt_of(event), about=refused.about)
            if session.closed or session.leaving:
                break
            if self._parked is not None:
                self._parked += events[position + 1 :]
                break
        if session.closed:
            self.batch = []
        if session.blocked is not None:
            self._leave()
        elif batch := self.batch:
            # _leave() in line. One message that is not to be stored is carried out, and what comes of it told, before
            # this returns; not in the middle of what owners tell: it would be told in between.
            self.batch, port = [], edge.port
            if self.publisher is not None:
                self.publisher.last = None
            if len(batch) == 1 and type(lone := batch[0]) is Publish and not lone.run.flags & DURABLE and (
                (at_once := port.at_once) is not None and not edge.dispatching and at_once(lone)
            ):  # fmt: skip
                pass
            elif port.submit(batch) and not session.closed:
                edge.pause(session)
        if session.outbound.out:
            session.outbound.flush()

    def _other(self, event: Event) -> None:
        kind = type(event)
        if kind is Frame:
            assert isinstance(event, Frame)
            self._edge.counters.came()
            if event.command in ("CONNECT", "STOMP", IMPLIED):
                connecting.connect(self._session, event)
            else:
                control.CONTROL[event.command](self._session, event)
        elif kind is BodyData:
            assert isinstance(event, BodyData) and self.large
            self.large.data(event.data)
        elif kind is BodyStart:
            assert isinstance(event, BodyStart)
            self._edge.counters.came()
            if self.publisher is None:
                self.publisher = Publisher(self._session, self)
            self.publisher.body_start(event)
        elif kind is BodyEnd:
            assert self.large
            self.large.end()
        else:
            assert isinstance(event, Violation)
            self._session.fail(event.code, event.detail, event.receipt, about=event.about)

    def last(self, ends: list[Command]) -> None:
        """The session ends, perhaps in the middle of a read: what its frames have asked for leaves in front of what
        ends its consumers, in the same batch. An owner that heard of the end first would drop the ACKs, and a SUBSCRIBE
        behind it would leave a consumer for ever; so nothing leaves behind it either (submit)."""
        self.batch += ends
        self._leave()

    def submit(self) -> None:
        """Sends the batch of this read on its way; pauses the socket when the owner cannot keep up."""
        if self._session.closed:
            self.batch = []
        self._leave()

    def _leave(self) -> None:
        if self.publisher is not None:
            self.publisher.left()
        if self.batch:
            session, port = self._session, self._edge.port
            batch, self.batch = self.batch, []
            if session.blocked is not None:
                batch = session.blocked.sift(batch)
            if port.submit(batch) and not session.closed:
                self._edge.pause(session)

    @property
    def large(self) -> LargeSend | None:
        """The large body that is coming in."""
        return None if self.publisher is None else self.publisher.large

    # ── waiting ────────────────────────────────────────────────────────────────────────────────────

    @property
    def parked(self) -> bool:
        """Something is not finished: frames wait behind it, or for the rate of their user."""
        return self._parked is not None or self._late is not None

    def _admitted(self, rates: Rates, events: list[Event], again: bool = False) -> list[Event]:
        """What of these its rates let in now; the rest waits, and everything behind it."""
        if self._late is not None:
            self._late += events
            return []
        events, late = rates.admit(self._session, events, self.go_on, again)
        if late:
            self._late = late
            self.pause_reading("rate")
        return events

    def go_on(self) -> None:
        """The turn of what waits for a rate has come."""
        late, self._late = self._late, None
        rates = self._edge.rates
        if late is None or rates is None or (session := self._session).closed or session.leaving:
            return
        try:
            events = self._admitted(rates, late, True)
            if self._late is None:
                self.resume_reading("rate")
            if self._parked is not None:
                self._parked += events
            elif events:
                self.handle(events, fresh=False)
        except Exception:
            session.fault()
        if session.ended and not self.parked:
            session.eof()  # it came while frames waited

    def park(self) -> None:
        """Later frames wait until unpark(): something before them is not finished yet."""
        if self._parked is None:
            self._parked = []
            self.pause_reading("park")
            self._edge.holding.note(self._session)

    def unpark(self) -> None:
        session = self._session
        events, self._parked = self._parked, None
        self._breathing = False
        self._rests_no_more()
        self.resume_reading("park")
        if session.closed:
            return
        try:
            held_back = session.wire.receive(b"")
            if self._edge.rates is not None:
                held_back = self._admitted(self._edge.rates, held_back)
            self.handle([] if session.leaving else (events or []) + held_back, fresh=False)
            if session.wire.more and not session.closed and not session.leaving:
                self.breathe()
        except Exception:
            session.fault()
        if session.ended and not self.parked:
            session.eof()  # it came while frames waited

    def begins(self, units: int) -> None:
        """A frame has begun something that takes much longer than most frames do: after so many such units everybody
        else has a turn."""
        self._begun += units
        if self._begun >= (BEGUN_SHORT if self._edge.rounds.short else BEGUN):
            self._begun = 0
            self.breathe()

    def breathe(self) -> None:
        """What the frame before has asked for was much: everybody else has a turn before the next one."""
        if self._parked is None:
            self.park()
            self._breathing = True
            rounds = self._edge.rounds
            rounds.left(self._session.wire.held)
            rounds.wait(self)

    def rest(self) -> Callable[[], None]:
        """As breathe(), and what the frame before has asked for is much for owners, too: the next one has its turn when
        that is answered, which is told by what is returned, or after RESTS_S. Of who has hung up nothing more comes: it
        need not."""
        if self._session.ended:
            self.breathe()
        elif self._parked is None:
            self.park()
            self._breathing = True
            self._rests = self._edge.beats.deadline(self._edge.clock.monotonic() + RESTS_S, self._rested)
            self._edge.rounds.left(self._session.wire.held)
        return self._rested

    def hung_up(self) -> bool:
        """Its client has sent its last byte: what waits for an answer need not, as nothing comes behind it. Does
        something still wait."""
        self._rested()
        return self.parked

    def _rests_no_more(self) -> bool:
        """Did it rest."""
        handle, self._rests = self._rests, None
        if handle is not None:
            self._edge.beats.cancel(handle)
        return handle is not None

    def _rested(self) -> None:
        if self._rests_no_more() and self._may_breathe():
            self._edge.rounds.wait(self)

    def read_portion(self) -> None:
        """See fair_reading.ReadsInTurns. Nothing, when the owner has no room meanwhile: resume_reading() asks again."""
        if not self._may_breathe():
            return
        session, edge = self._session, self._edge
        waited, reads = session.wire.held, edge.reads
        began, at = edge.rounds.began(), reads.begin()
        self.unpark()
        edge.rounds.used(began)
        if reads.took(at):
            reads.tell(f"some of {waited} bytes of {session.told} that had waited")

    @property
    def lane(self) -> Lane:
        """See fair_reading.ReadsInTurns."""
        return self._session.whose, ReadSize.LARGE

    def _may_breathe(self) -> bool:
        return self._breathing and self._rests is None and self._holds is not None and self._holds <= GOES_ON

    @property
    def waits(self) -> bool:
        """See fair_reading.ReadsInTurns: what is left has its turn in the next one."""
        return False

    def finish(self) -> None:
        """The connection is gone: what came before that and has only waited for its turn counts. In one step, however
        much it is: no more than a read brought, and nobody is there to wait for the next turn."""
        while self._breathing and not (self._session.closed or self._session.leaving):
            self.unpark()

    def pause_reading(self, why: str) -> None:
        """Stops reading the socket until every holder has released it."""
        if self._holds is None:
            self._holds = set()
        self._holds.add(why)
        self._session.channel.pause_reading()

    def resume_reading(self, why: str) -> None:
        if self._holds is not None and why in self._holds:
            self._holds.discard(why)
            if self._may_breathe():
                self._edge.rounds.wait(self)
            session = self._session
            if not self._holds and not session.closed:
                self._holds = None
                session.heard()
                session.channel.resume_reading()

    @property
    def held_by(self) -> Collection[str]:
        """Why the socket is not read."""
        return self._holds or ()

    @property
    def reading(self) -> bool:
        """False while it is us who are not reading: silence is not the client's fault then. Nor is it while what came
        waits for its turn (fair_reading.py): a heart-beat may be among it."""
        channel = self._session.channel
        return not self._holds and channel.held() <= channel.buffered()

    # ── the end ────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """The session has ended: what has come of a large body is nothing, nor is what waits for a rate."""
        self._late = None
        self._breathing = False
        self._rests_no_more()
        if self.large is not None:
            self.large.abort()

    def over(self) -> None:
        """The connection is over: no rings of objects."""
        self.publisher = None
        self._holds = None
        del self._session


def _receipt_of(event: Event) -> bytes | None:
    """The receipt id an ERROR about this event carries (C63)."""
    if isinstance(event, Frame | BodyStart):
        return event.receipt
    if isinstance(event, Sends | Acks):
        return event.receipts[0] if event.receipts else None
    return None
