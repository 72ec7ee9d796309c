"""What a change of settings, permissions or users means for those who are connected. They are looked at in pieces.

As a whole it would be a step as long as there are subscriptions, and everybody else would wait.

Rule: what counts from now on is swapped before a round begins, so nobody gets by it: who sends something before the
round has come to it is judged first (meets). A round goes over those who were there when it began; who comes later is
judged as it logs in. The same change once more has all looked at once more when its round is over: a round always comes
to its end, however often something is changed. Must not know what frames mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol

from broker.core.certificates import Issued
from broker.core.errors import Code
from broker.core.reasons import Reason
from broker.seams.loop_watchdog import StepKindStats

from ..access.auth import ANONYMOUS, Authenticator
from ..access.external_logins import ExternalLogins
from ..authorising import keeps
from ..session.session import Session
from ..subscribing.growing import follow
from ..subscriptions.subscription import SlotSubscription
from ..transport.timers import TimerWheel

PIECE = 200
"""Units in one turn of the loop: a session that is looked at is one, each of its subscriptions another."""
END = 10
"""What the end of a connection counts in that: 0.1 ms."""
FEW = 8
"""So many parts of a subscription in slots are one; one that is new is two, and so many new ones a step
(growing.PIECE)."""

_Look = Callable[[Session], Iterator[int]]
"""What is to be done with one session, in units."""


class Changing(Protocol):
    """The edge whose connections these are."""

    @property
    def sessions(self) -> Mapping[int, Session]: ...
    @property
    def auth(self) -> Authenticator: ...
    @property
    def outside(self) -> ExternalLogins | None: ...
    @property
    def beats(self) -> TimerWheel: ...
    def flush(self) -> None:
        """Writes every touched connection once."""
        ...


class _Round:
    """One change. left: sessions it has not come to. again: there was another one of its kind since it began."""

    __slots__ = ("again", "at", "left", "look", "then", "under_way")

    def __init__(self, sessions: Iterable[Session], look: _Look, then: Callable[[], None] | None) -> None:
        self.left = deque(sessions)
        self.look = look
        self.then = then
        self.again = False
        self.at: Session | None = None
        self.under_way: Iterator[int] = iter(())
        """What is left of the session it is at."""

    def once_more(self, then: Callable[[], None] | None) -> None:
        """Another change of its kind: who has been looked at is so again, behind all others."""
        self.again, self.then = True, then

    def go_on(self, units: int) -> int:
        """So many units at most. Returns how many are left; 0: there may be more to do."""
        while units > 0:
            try:
                step = next(self.under_way, None)
            except Exception:
                step = END
                if self.at is not None:
                    self.at.fault()
            if step is not None:
                units -= step
                continue
            if not self.left:
                break
            self.at = self.left.popleft()
            self.under_way = self.look(self.at)
        return max(units, 0)


class LiveChanges:
    """Of one edge. busy: a session is not judged yet; then call meets()
    before a session acts."""

    __slots__ = ("_edge", "_gone", "_rounds", "_running", "_soon", "_steps", "_taken_back", "busy")

    def __init__(self, edge: Changing, steps: StepKindStats) -> None:
        self._edge = edge
        self._soon: Callable[[Callable[[], None]], None] = lambda callback: edge.beats.soon(callback)
        self._steps = steps
        self._rounds: dict[str, _Round] = {}
        self._taken_back: dict[str, frozenset[Issued]] = {}
        """Acceptor → certificates that do not count there any more."""
        self._gone: set[str] = set()
        """Users whose sessions are being ended."""
        self._running = False
        self.busy = False

    # ── the changes ────────────────────────────────────────────────────────────────────────────────

    def users(self, changed: Collection[str]) -> None:
        """Of these users those that are gone, or logged in with what is no passcode any more: their connections end."""
        if changed:
            self._gone.update(changed)
            self._begin("users", self._expelled, self._gone.clear)

    def logins(self) -> None:
        """Logins that were proven elsewhere may not hold any more."""
        self._begin("users", self._expelled, self._gone.clear)

    def certificates(self, acceptors: frozenset[str], revoked: frozenset[Issued]) -> None:
        """These certificates do not count any more at these acceptors."""
        self._taken_back.update(dict.fromkeys(acceptors, revoked))
        self._begin("certificates", self._disowned, self._taken_back.clear)

    def rights(self) -> None:
        """There are other permissions, or groups: a subscription ends that its user would not get any more."""
        self._begin("rights", self._judged)

    def partitions(self, then: Callable[[], None]) -> None:
        """There are other settings of addresses: subscriptions get parts where there are new partitions."""
        self._begin("partitions", _grown, then)

    def quotas(self) -> None:
        """There are other limits: what everybody uses counts where they say."""
        self._begin("quotas", _counted)

    def stop(self, then: Callable[[], None]) -> None:
        """All are cut off."""
        self._begin("stop", _cut, then)

    def meets(self, session: Session) -> None:
        """It is about to do something while others have not been judged: it is judged by what counts now."""
        if session.connected and not session.closed:
            if "users" in self._rounds and not self._still_valid(session):
                _expel(session)
            elif "rights" in self._rounds:
                session.authorised()

    # ── one session ────────────────────────────────────────────────────────────────────────────────

    def _still_valid(self, session: Session) -> bool:
        if session.groups is not None:
            return (outside := self._edge.outside) is None or outside.still_valid(session.login_mark)
        return session.principal not in self._gone or self._edge.auth.still_valid(session.principal, session.login_mark)

    def _expelled(self, session: Session) -> Iterator[int]:
        yield 1
        if session.connected and not self._still_valid(session):
            _expel(session)
            yield END

    def _disowned(self, session: Session) -> Iterator[int]:
        yield 1
        certificate, revoked = session.channel.certificate, self._taken_back.get(session.entrance.name)
        if certificate is not None and revoked is not None and certificate.issued in revoked and not session.closed:
            session.fail(Code.LOGIN_EXPIRED, "its certificate is revoked: connect with another one")
            yield END

    def _judged(self, session: Session) -> Iterator[int]:
        yield 1
        if not session.connected or session.closed:
            return
        session.authorised()
        for whole in list(session.subscriptions.values()) if session.rights is not None else ():
            yield _parts(whole) // FEW
            for part in whole.addresses():
                if session.closed or session.leaving:
                    return
                if not keeps(session, part):
                    yield END
                    return
                yield 1

    # ── rounds ─────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, change: str, look: _Look, then: Callable[[], None] | None = None) -> None:
        if (under_way := self._rounds.get(change)) is not None:
            under_way.once_more(then)
        else:
            self._rounds[change] = _Round(self._edge.sessions.values(), look, then)
        self.busy = True
        if not self._running:
            self._piece()

    def _go_on(self) -> None:
        self._running = False
        self._piece()

    def _piece(self) -> None:
        began = self._steps.begin()
        units, names = PIECE, ", ".join(self._rounds)
        try:
            while self._rounds:
                change, first = next(iter(self._rounds.items()))
                units = first.go_on(units)
                if not units:
                    break
                self._ends(change, first)
        finally:  # whatever went wrong: the others are come to
            self._edge.flush()
            self.busy = bool(self._rounds)
            if self.busy and not self._running:
                self._running = True
                self._soon(self._go_on)
        if self._steps.took(began):
            self._steps.tell(f"what other {names} mean for those who are connected")

    def _ends(self, change: str, over: _Round) -> None:
        """It has come to all. Once more: behind the rounds of other changes."""
        del self._rounds[change]
        if over.again:
            self._rounds[change] = _Round(self._edge.sessions.values(), over.look, over.then)
        elif over.then is not None:
            over.then()


def _expel(session: Session) -> None:
    if session.groups is not None:
        session.fail(Code.LOGIN_EXPIRED, "whoever proved it does not stand for it as it was: log in again")
        return
    why = "this user has been removed, or has another passcode: connect with that"
    if session.principal == ANONYMOUS.name:
        why = "there are users now: connect with login and passcode"
    session.fail(Code.NOT_ALLOWED, why)


def _counted(session: Session) -> Iterator[int]:
    """Who waits for a rate of before is judged by that of now: it may have been a day's wait."""
    yield 1
    session.counts()
    if session.closed or session.edge.rates is None:
        return
    session.inbound.go_on()
    for sub in list(session.handles.values()):
        if session.closed:
            return
        if sub.owed:
            session.edge.grant(sub)
        yield 1
    session.edge.submit_grants()


def _grown(session: Session) -> Iterator[int]:
    yield 1
    for key, sub in list(session.subscriptions.items()):
        if session.closed or session.leaving:
            return
        if session.subscriptions.get(key) is not sub:
            continue  # it has ended meanwhile
        yield 1 + _parts(sub) // FEW
        for new in follow(session, key, sub):
            yield 2 * new


def _parts(sub: SlotSubscription) -> int:
    return 1 if sub.split is None else len(sub.split.parts)


def _cut(session: Session) -> Iterator[int]:
    session.abort(Reason.SHUTDOWN)
    yield END
