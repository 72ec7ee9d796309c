"""A compiled selector.

Rule: equal texts are one object while a consumer holds it, so that consumers with the same question can be told; and
for a while longer (Recent), since a SUBSCRIBE passes through several modules that ask. Must not know how it was
compiled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final
from weakref import WeakValueDictionary

from broker.core.errors import RefusedError
from broker.core.message import Run

from .compiling import Test, reads_bodies, single, test_of, weight
from .heads import head_of, shared
from .parser import MAX_LENGTH, parse
from .terms import terms_of
from .tokens import MAX_WORDS
from .values import MAX_COST, Mode, TooCostlyError

_SMALL: Final = MAX_COST // (64 * 1024)
"""What weighs less cannot cost too much, whatever headers a message has (wire.max_header_block_bytes)."""


class CostMeter:
    """Ends evaluations that would cost too much.    why   one was given up; empty: none was."""

    __slots__ = ("why",)

    def __init__(self) -> None:
        self.why = ""

    def overran(self) -> str:
        """Why one was given up since the last time that this was asked; empty: none was."""
        why, self.why = self.why, ""
        return why

    def watch(self, test: Test, heavy: int) -> Test:
        """The same test; what would cost too much is unknown instead. heavy: compiling.weight() of it."""

        def watched(head: bytes, run: Run, index: int, address: str) -> bool | None:
            if heavy * len(head) > MAX_COST:
                self.why = f"a message with {len(head)} bytes of headers"
                return None
            try:
                return test(head, run, index, address)
            except TooCostlyError as error:
                self.why = str(error)
                return None

        return watched


class Predicate:
    """text    as it was given.
    test     (head, run, index, address) → True, False or None: for callers that have the head of the message already.
    each     it may differ between messages with the same headers (size, body).
    terms    what it needs of single headers; none: no header decides.    exact   it is true when they hold.
    heavy    about nanoseconds for each byte of a message's headers.
    meter    the caller must ask afterwards whether it cost too much; None: it never does.
    xpath    it reads bodies."""

    __slots__ = ("__weakref__", "each", "exact", "heavy", "meter", "terms", "test", "text", "xpath")

    def __init__(self, text: str, words: int = MAX_WORDS) -> None:
        """words: it has no more.    Raises RefusedError(BAD_SELECTOR)."""
        parsed = parse(text, words)
        mode = Mode.AUTO if parsed.convert is None else Mode.CONVERT if parsed.convert else Mode.STRICT
        self.text = text
        self.test = test_of(parsed.node, mode)
        self.xpath = reads_bodies(parsed.node)
        self.heavy = heavy = weight(parsed.node)
        self.meter = CostMeter() if self.xpath or heavy > _SMALL else None
        if self.meter is not None:
            self.test = self.meter.watch(self.test, heavy)
        self.each = single(parsed.node)
        self.terms, self.exact = terms_of(parsed.node, mode)

    def __call__(self, run: Run, index: int, address: str) -> bool:
        """Is message `index` wanted; `address`: where it was sent to, for AMQAddress."""
        return self.test(head_of(run, index), run, index, address) is True

    def select(self, run: Run, address: str) -> Sequence[int]:
        """The indices of all wanted messages of the run, ascending; `address` as above."""
        count = len(run.records)
        if not self.each and shared(run):
            return range(count if count and self(run, 0, address) else 0)
        test = self.test
        return [at for at in range(count) if test(head_of(run, at), run, at, address) is True]

    def __repr__(self) -> str:
        return f"Predicate({self.text!r})"


class Recent:
    """Those that were compiled last, up to RECENT characters of their texts.

    An edge looks whether a SUBSCRIBE can be carried out, then the engine, then its queue has it: none of them holds
    it in between, and compiling is most of what a SUBSCRIBE costs."""

    __slots__ = ("_kept", "_length")

    def __init__(self) -> None:
        self._kept: deque[Predicate] = deque()
        self._length = 0

    def keep(self, predicate: Predicate) -> None:
        """The one that was compiled now; those that have been here longest go for it."""
        # A text of more words than a new one may have is taken where it is stored already, and nowhere else (words).
        if len(predicate.text) > MAX_WORDS:
            return
        self._kept.append(predicate)
        self._length += len(predicate.text)
        while self._length > RECENT:
            self._length -= len(self._kept.popleft().text)


RECENT: Final = 32 * 1024
"""Characters. Of each some 60 to 100 bytes are held, so 3 MB; hundreds of SUBSCRIBEs may be between an edge and its
owner."""
_known: WeakValueDictionary[str, Predicate] = WeakValueDictionary()
_recent: Final = Recent()


WORDS: Final = MAX_LENGTH
"""Of a text that was taken elsewhere, perhaps by an earlier release: no text has as many."""


def compile(text: str, words: int = MAX_WORDS) -> Predicate:
    """words: it has no more.    Raises RefusedError(BAD_SELECTOR) that names the text, the place and the reason."""
    found = _known.get(text)
    if found is None:
        found = _known[text] = Predicate(text, words)
        _recent.keep(found)
    return found


NOTHING: Final = compile("FALSE")


def stored(text: str) -> Predicate:
    """One that was taken once, of a subscription that lasts: where it cannot be carried out any more (lxml is gone, or
    it is an XPATH of a kind that is not taken today), NOTHING. A broker must start all the same. It may be longer than
    what is taken today."""
    try:
        return compile(text, WORDS)
    except RefusedError:
        return NOTHING
