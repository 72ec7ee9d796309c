"""A subscription with several parts: one consumer in each slot that has a share of what was subscribed to.

To its client it is one subscription. Every part has a handle of its own, so an acknowledgement finds its part by the
message-id alone; only two things need to know of the other parts, and only for them is there an Order:
  - ACK in `client` mode covers everything this subscription delivered before, whichever part delivered it;
  - a window of messages that is not divided among the parts (there are more parts than messages, or most of them will
    never have any: wildcards) may be exceeded by what they deliver together; what is too much waits here.

Rule: nothing here is used for a subscription with one part. Must not know slots, queues or frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

from broker.core.address import AckMode
from broker.core.commands import UNLIMITED
from broker.core.effects import Deliver
from broker.core.errors import Code, RefusedError

from .subscription import DeliverySink, SlotSubscription, Subscriber


class SplitSubscription:
    """The parts of one SUBSCRIBE."""

    __slots__ = ("_browsing", "parts")

    def __init__(self) -> None:
        self.parts: list[SlotSubscription] = []
        self._browsing = 0

    @property
    def whole(self) -> bool:
        """Is it in all slots, also those without a part."""
        return False

    def join(self, part: SlotSubscription) -> None:
        part.join(self)
        self.parts.append(part)
        self._browsing += 1

    def browsed(self) -> bool:
        """A part has shown everything it has. True: it was the last one."""
        self._browsing -= 1
        return not self._browsing


class Order:
    """What the client has of a subscription with several parts and has not acknowledged, in the order it got it.

    `free`: messages it may still get; what waits is bounded by the parts' windows and rooms, which are given back when
    it is shown. What waits when the subscription ends goes back to its queue as redelivered."""

    __slots__ = ("_cumulative", "_held", "_session", "_shown", "_sink", "_waiting", "free")

    def __init__(self, session: Subscriber, limit: int, cumulative: bool) -> None:
        self._session = session
        self._sink: DeliverySink = session.outbound
        self._cumulative = cumulative
        self._shown: deque[tuple[SlotSubscription, Sequence[int]]] = deque()
        """Only kept when an ACK may cover it."""
        self._held: dict[SlotSubscription, int] = {}
        """… else how many of each part."""
        self._waiting: deque[tuple[SlotSubscription, Deliver]] = deque()
        self.free = limit

    def note_held(self, sub: SlotSubscription, ids: Sequence[int]) -> None:
        """The client has these already, in this order: it got them before its edge kept count."""
        self.free -= len(ids)
        if not self._cumulative:
            self._held[sub] = len(ids)
        elif ids:
            self._shown.append((sub, ids))

    def deliver(self, sub: SlotSubscription, effect: Deliver) -> None:
        rest = self._show_some(sub, effect)
        if rest is not None:
            self._waiting.append((sub, rest))

    def _show_some(self, sub: SlotSubscription, effect: Deliver) -> Deliver | None:
        """As much as the client may get now; returns the rest."""
        run, free = effect.run, self.free
        if free >= len(run):
            self._show(sub, effect)
            return None
        if free <= 0:
            return effect
        first, rest = run.cut(slice(free)), run.cut(slice(free, None))
        cost = first.nbytes + free * sub.overhead
        self._show(sub, Deliver(effect.consumer, first, cost))
        return Deliver(effect.consumer, rest, effect.cost - cost)

    def _show(self, sub: SlotSubscription, effect: Deliver) -> None:
        run = effect.run
        self.free -= len(run)
        if self._cumulative:
            self._shown.append((sub, run.ids))
        else:
            self._held[sub] = self._held.get(sub, 0) + len(run)
        self._sink.deliver(sub, effect)

    def settle(self, sub: SlotSubscription, numbers: Sequence[int]) -> list[tuple[SlotSubscription, Sequence[int]]]:
        """What an acknowledgement of these messages of `sub` means: per part, the ids to settle there.

        Raises RefusedError(NO_SUCH_DELIVERY). Call flow() when the frame is dealt with."""
        if not self._cumulative:
            self.free += len(numbers)
            self._held[sub] = self._held.get(sub, 0) - len(numbers)
            return [(sub, numbers)]
        last: dict[SlotSubscription, int] = {}
        for number in numbers:
            last.update(self._cover(sub, number))
        return [(part, [number]) for part, number in last.items()]

    def _cover(self, sub: SlotSubscription, number: int) -> dict[SlotSubscription, int]:
        """Takes out everything up to this message; the last one of each part."""
        shown = self._shown
        if not any(part is sub and number in ids for part, ids in shown):
            raise RefusedError(
                Code.NO_SUCH_DELIVERY, f"message {number} is not held unacknowledged by this subscription"
            )
        last: dict[SlotSubscription, int] = {}
        while True:
            part, ids = shown.popleft()
            if part is sub and number in ids:
                break
            last[part] = ids[-1]
            self.free += len(ids)
        at = ids.index(number) + 1
        if at < len(ids):
            shown.appendleft((part, ids[at:]))
        last[part] = number
        self.free += at
        return last

    def lost(self, part: SlotSubscription) -> None:
        """A part has ended by itself: what the client has of it takes nobody's place any more."""
        if self._cumulative:
            self.free += sum(len(ids) for sub, ids in self._shown if sub is part)
            self._shown = deque([each for each in self._shown if each[0] is not part])
        else:
            self.free += max(self._held.pop(part, 0), 0)
        self._waiting = deque([each for each in self._waiting if each[0] is not part])
        self.flow()

    def flow(self) -> None:
        """Shows what waits, as far as it may be shown now."""
        waiting = self._waiting
        if not waiting:
            return
        while waiting and self.free > 0:
            rest = self._show_some(*waiting[0])
            if rest is None:
                waiting.popleft()
            else:
                waiting[0] = (waiting[0][0], rest)
        # Nothing else might come from the owners that would give their room back.
        self._session.edge.submit_grants()


class SharedOrder(Order):
    """The same where others may wait for what waits here: queues that everybody consumes.

    waits, eased   called when something begins to wait, and when more may be shown."""

    __slots__ = ("eased", "waits")

    def __init__(self, session: Subscriber, limit: int, cumulative: bool) -> None:
        super().__init__(session, limit, cumulative)
        self.waits: Callable[[], None] = _nothing
        self.eased: Callable[[], None] = _nothing

    def heard_by(self, waits: Callable[[], None], eased: Callable[[], None]) -> None:
        """What hears of it."""
        self.waits, self.eased = waits, eased

    def deliver(self, sub: SlotSubscription, effect: Deliver) -> None:
        super().deliver(sub, effect)
        if self._waiting:
            self.waits()

    def flow(self) -> None:
        super().flow()
        if self.free > 0:
            self.eased()

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def unshown(self) -> list[SlotSubscription]:
        """Parts of which something waits and the client has nothing."""
        has = {part for part, _ in self._shown} | {part for part, held in self._held.items() if held > 0}
        return [part for part in dict.fromkeys(part for part, _ in self._waiting) if part not in has]

    def drop(self, parts: Collection[SlotSubscription]) -> None:
        """What waits of these is shown to nobody here."""
        self._waiting = deque([each for each in self._waiting if each[0] not in parts])


def _nothing() -> None: ...


def order_for(session: Subscriber, ack: AckMode, window: int, together: int, kind: type[Order] = Order) -> Order | None:
    """The Order a subscription with several parts needs, if any. `window`: messages it may hold unacknowledged;
    `together`: how many its parts' own windows allow."""
    if ack is AckMode.AUTO:
        return None
    scarce = window < UNLIMITED and window < together
    if not scarce and ack is not AckMode.CLIENT:
        return None
    return kind(session, window if scarce else UNLIMITED, ack is AckMode.CLIENT)


def share(total: int, parts: int) -> int:
    """A part's share of a window or a room; never nothing."""
    return total if total >= UNLIMITED else max(total // parts, 1)
