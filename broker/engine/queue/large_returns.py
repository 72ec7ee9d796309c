"""What consumers give back, or acknowledge, and what becomes of it: what a consumer held that has ended, what one ACK
or NACK is about. Much of it goes piece by piece; some has to be read back first, or goes to another address.

Rule: in the order in which it was handed out; how it goes on with each message is decided in routing/returns.py.
Nobody's commands wait meanwhile: what it is about is in no ledger any more, and who waits for that is told later.
"""

# Example. Consumer 7 of session 2 holds 100,000 messages of a, and says NACK of the last one (seq 5), SEND (seq 6),
# UNSUBSCRIBE (seq 7) in one read. Done 6 is told as ever. The NACK was carried out when it came: 7 holds nothing, and
# a hands out nothing before all is back. 64 runs come back in this turn, 64 in the next one, … with the last ones
# Done 5, and Done 7 behind it, wait for the log. Had the owner died before: nobody was told anything, what had not come
# back yet is in the log as handed out, and comes again.

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping
from itertools import islice
from typing import Final

from broker.core.address import Outcome
from broker.core.commands import Settle
from broker.core.effects import Done, Effect, Turn
from broker.core.message import Run
from broker.core.spans import Span, count_of, inside, within

BACK = 64
"""Runs that come back in one turn, or _LONG times as many messages of long ones: a client may hold as many as it likes,
and give all of them back with one frame, or by going."""
_LONG = 32
_SHORT = 128
LIGHT = BACK * _SHORT
"""Messages that are settled for good in one turn, however short their runs: a tenth of what it takes to bring back."""
WHOLE: Final = 1 << 40
"""A piece that is all of it."""
_PASSED: Final = 4


class LargeReturn:
    """What comes back, as far as it is not back yet.

    outcome, delay   what becomes of it: RETURN, REJECT, ACK, or NACK with its delay.
    light     it is settled for good, and nothing else: what is handed out meanwhile overtakes nothing.
    failed    whether that was an attempt in vain.
    open      dead letters of it that are on their way to their address, and messages that are being read back.
    command   who has asked for it, and is told of its end; None: nobody.
    heard     called at its end, for what a transaction has decided; None: nobody is.
    again     it may be about what was settled before under the same name: told behind what its session began before.
    behind    what else it is told then.
    before, after    what its session has begun last before it, and next, of what is not all back.
    turn      the last one in which some came."""

    __slots__ = (
        "_messages", "after", "again", "before", "behind", "command", "delay", "failed", "heard", "light", "open",
        "outcome", "turn",
    )  # fmt: skip

    def __init__(
        self,
        messages: dict[int, Run],
        failed: bool,
        outcome: Outcome = Outcome.RETURN,
        light: bool = False,
        delay: int | None = None,
        command: Settle | None = None,
        again: bool = False,
    ) -> None:
        self._messages = messages  # nobody else knows these
        self.open = 0
        self.failed = failed
        self.outcome = outcome
        self.light = light
        self.delay = delay
        self.command = command
        self.again = again
        self.behind: deque[Effect] = deque()
        self.before: LargeReturn | None = None
        self.after: LargeReturn | None = None
        self.turn: Turn | None = None
        self.heard: Callable[[Turn], None] | None = None

    @property
    def session(self) -> int:
        """Whose it is; 0: nobody's."""
        return 0 if self.command is None else self.command.session

    @property
    def awaited(self) -> bool:
        """Somebody is told of its end."""
        return self.heard is not None or self.session != 0

    def is_heard_by(self, heard: Callable[[Turn], None]) -> None:
        """That is called at its end."""
        self.heard = heard

    @property
    def left(self) -> int:
        """Messages that are not back."""
        return len(self._messages)

    @property
    def done(self) -> bool:
        """All of it has happened."""
        return not (self.open or self._messages)

    @property
    def messages(self) -> Mapping[int, Run]:
        """What is not back; to be looked at only."""
        return self._messages

    def found(self, ids: set[int]) -> list[tuple[int, Run]]:
        """Which of these are to come again, and are not back."""
        if self.light or self.outcome in (Outcome.ACK, Outcome.REJECT):
            return []
        return [(i, self._messages[i]) for i in ids & self._messages.keys()]

    def withdraw(self, spans: list[Span]) -> dict[int, Run]:
        """Takes out what of these spans is to come again, and is not back."""
        if self.light or self.outcome in (Outcome.ACK, Outcome.REJECT):
            return {}
        messages, count = self._messages, count_of(spans)
        if count >= len(messages) > 0 and within((min(messages), max(messages)), spans):
            self._messages = {}
            return messages
        # An edge has named them, and may have named any number: whichever is shorter is walked. To look for one number
        # in all of them takes as long as to pass some.
        if count > _PASSED * len(messages):
            taken = {i: run for i, run in messages.items() if inside(spans, i)}
        else:
            taken = {i: messages[i] for first, last in spans for i in range(first, last + 1) if i in messages}
        if len(taken) == len(messages):
            self._messages = {}
        else:
            deque(map(messages.pop, taken), 0)
        return taken

    def only(self, ids: Container[int]) -> None:
        """Of the rest nothing becomes."""
        self._messages = {i: run for i, run in self._messages.items() if i in ids}

    def came(self, turn: Turn) -> bool:
        """A piece comes back in this turn. False: one has already."""
        if self.turn is turn:
            return False
        # The Turn itself, not its number: one queue may be dispatched several times in a turn, and gets one piece.
        self.turn = turn
        return True

    def pop(self, most: int = BACK) -> tuple[dict[int, Run], int]:
        """Takes out the next piece, which counts as so many runs: `most`, or a little more."""
        piece: dict[int, Run] = {}
        if self.light:
            piece = dict(islice(self._messages.items(), most * _SHORT))
            cost = len(piece) // _SHORT
        else:
            cost = self._next(piece, most)
        if len(piece) == len(self._messages):
            self._messages = {}
        else:
            # From the front of a dict: to pass those that are gone costs a nanosecond each.
            for i in piece:
                del self._messages[i]
        return piece, cost

    def _next(self, piece: dict[int, Run], most: int) -> int:
        runs, last = 0, None
        for i, run in self._messages.items():
            piece[i] = run
            # Runs as they are handed out are neighbours in a ledger: a change of run is a run to be cut and sorted
            # in, or sent on.
            runs += run is not last
            last = run
            if runs + len(piece) // _LONG >= most:
                break
        return runs + len(piece) // _LONG

    def opens(self, count: int) -> None:
        """So many dead letters of it have left, or messages of it are being read back."""
        self.open += count

    def closes(self, count: int = 1) -> None:
        """So many of these are where they go."""
        self.open -= count

    # ── among what its session gives back ──────────────────────────────────────────────────────────

    def follows(self, before: LargeReturn | None) -> None:
        """Its session has begun it behind that one."""
        self.before = before
        if before is not None:
            before.after = self

    def ends(self) -> list[Effect]:
        """Its session waits no more for it. What may be told: all that waited, unless something before it is open."""
        before, after = self.before, self.after
        self.before = self.after = None
        if after is not None:
            after.before = before
        if before is None:
            return [*self.behind]
        before.after = after
        # The shorter one joins the longer one: a session may end a thousand of these from the last one on.
        if len(before.behind) < len(self.behind):
            self.behind.extendleft(reversed(before.behind))
            before.behind = self.behind
        else:
            before.behind.extend(self.behind)
        return []


class ReturningSessions:
    """By session, what it gives back that is not all back, in the order in which it began: who waits for that, and
    waits no more."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[int, LargeReturn] = {}

    def begins(self, returning: LargeReturn) -> None:
        """Its session gives that back."""
        if returning.session:
            returning.follows(self._last.get(returning.session))
            self._last[returning.session] = returning

    def tells_later(self, session: int, effect: Effect) -> bool:
        """The effect stands for all that its session has asked for: it is told behind that. False: now, for all of it
        is back."""
        # What the session gives back later is not for it to wait for: it might never end.
        known = self._last.get(session)
        if known is not None:
            known.behind.append(effect)
        return known is not None

    def ends(self, returning: LargeReturn) -> list[Effect]:
        """It is all back, or its queue is gone. What may be told when that is in the log."""
        if not returning.session:
            return []
        if self._last.get(returning.session) is returning:
            del self._last[returning.session]
            if returning.before is not None:
                self._last[returning.session] = returning.before
        command = returning.command
        own = [Done(command.session, command.seq)] if command is not None and command.seq else []
        if not returning.again:
            return [*own, *returning.ends()]
        # Asked again, of this very leader: all of it may be with its first try, and that one is not all back.
        returning.behind.extendleft(own)
        return returning.ends()
