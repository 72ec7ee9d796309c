"""Effects on their way from an owner to an edge.

Rule: a run that several consumers get travels once per message; the order of effects is kept. Must not know streams.
"""

# Example. A message of a topic goes to 1,000 consumers of one edge: one Run in the message, and three arrays of 1,000
# numbers (consumer, run, cost). The Run's bytes travel once, and the edge's 1,000 Deliver effects share one object.

from __future__ import annotations

from broker.core.effects import AddressBlocked, BrowseEnd, ConsumerClosed, Deliver, Done, Effect, Refused
from broker.core.errors import CODES, Code
from broker.core.message import Run
from broker.core.reasons import Reason
from broker.rpc.v1 import link_pb2 as pb

from .codec import NUMBER_MASK, SlotState, check_slot, malformed, put_run, read_run

LinkEffect = Effect | SlotState

REASONS = {reason.value: reason for reason in Reason}


class DownBuilder:
    """Gathers effects for one Down message. `nbytes`: of its runs, about; `count`: of its effects."""

    __slots__ = ("_costs", "_index", "_keys", "_numbers", "_open", "_runs", "count", "down", "nbytes")

    def __init__(self) -> None:
        self.down = pb.Down()
        self.nbytes = 0
        self.count = 0
        self._index: dict[int, int] = {}
        self._runs: list[Run] = []
        """Keeps them alive: the index is by address."""
        self._open = ""
        self._keys: list[int] = []
        self._numbers: list[int] = []
        self._costs: list[int] = []

    def deliver(self, consumer: int, run: Run, cost: int) -> None:
        # Neighbours of a kind share an entry; a change of kind closes it. So order is kept, and a turn is a few
        # entries.
        if self._open != "deliveries":
            if self._open:
                self.finish()
            self._open = "deliveries"
        # By identity: equal runs that are two objects are rare, and comparing them would cost more than sending both.
        index = self._index.get(id(run))
        if index is None:
            index = self._index[id(run)] = len(self._runs)
            self._runs.append(run)
            put_run(run, self.down.runs.add())
            self.nbytes += run.nbytes
        self._keys.append(consumer & NUMBER_MASK)
        self._numbers.append(index)
        self._costs.append(cost)
        self.count += 1

    def done(self, session: int, seq: int) -> None:
        if self._open != "dones":
            if self._open:
                self.finish()
            self._open = "dones"
        self._keys.append(session & NUMBER_MASK)
        self._numbers.append(seq)
        self.count += 1

    def other(self, effect: Refused | ConsumerClosed | BrowseEnd | AddressBlocked | SlotState) -> None:
        self.finish()
        self.count += 1
        self.down.effects.append(effect_message(effect))

    def flat(self) -> bytes:
        """What stands in front of it (flat.py): nothing."""
        return b""

    def finish(self) -> pb.Down:
        """Writes out the neighbours gathered so far. The message, as it stands."""
        if not self._open:
            return self.down
        out = self.down.effects.add()
        if self._open == "deliveries":
            deliveries = out.deliveries
            deliveries.consumer.extend(self._keys)
            deliveries.run.extend(self._numbers)
            deliveries.cost.extend(self._costs)
            self._costs = []
        else:
            out.dones.session.extend(self._keys)
            out.dones.seq.extend(self._numbers)
        self._open = ""
        self._keys = []
        self._numbers = []
        return self.down


def effect_message(effect: Refused | ConsumerClosed | BrowseEnd | AddressBlocked | SlotState) -> pb.Effect:
    """Of what is rare."""
    if isinstance(effect, Refused):
        session, code = effect.session & NUMBER_MASK, effect.code.number
        return pb.Effect(refused=pb.Refused(session=session, seq=effect.seq, code=code, detail=effect.detail))
    if isinstance(effect, ConsumerClosed):
        consumer, reason = effect.consumer & NUMBER_MASK, effect.reason.value
        return pb.Effect(closed=pb.ConsumerClosed(consumer=consumer, reason=reason, detail=effect.detail))
    if isinstance(effect, BrowseEnd):
        return pb.Effect(browse_end=effect.consumer & NUMBER_MASK)
    if isinstance(effect, AddressBlocked):
        session = effect.session & NUMBER_MASK
        return pb.Effect(
            address_blocked=pb.AddressBlocked(
                session=session, slot=effect.slot, address=effect.address, full=effect.full, passing=effect.passing
            )
        )
    return pb.Effect(
        slot=pb.SlotState(
            slot=effect.slot,
            epoch=effect.epoch,
            state=pb.SlotState.State.Name(effect.state),
            opening=effect.opening,
        )
    )


def read_effects(down: pb.Down) -> list[LinkEffect]:
    """All effects of the message, in order; deliveries of one run share the object. Raises ProtocolViolation."""
    effects: list[LinkEffect] = []
    runs = list(map(read_run, down.runs))
    try:
        for effect in down.effects:
            kind = effect.WhichOneof("kind")
            if kind == "deliveries":
                some = effect.deliveries
                # An index out of range raises here as well, before any effect is used.
                for consumer, index, cost in zip(some.consumer, some.run, some.cost, strict=True):
                    run = runs[index]
                    if not run.ids:
                        raise malformed("a delivery without ids")
                    effects.append(Deliver(consumer, run, cost))
            elif kind == "dones":
                effects += map(Done, effect.dones.session, effect.dones.seq)
                if len(effect.dones.session) != len(effect.dones.seq):
                    raise malformed("answers without sessions")
            else:
                effects.append(_rare(effect, kind))
    except (IndexError, KeyError, ValueError) as error:
        raise malformed(f"effects that contradict each other: {error}") from error
    return effects


def _rare(effect: pb.Effect, kind: str | None) -> LinkEffect:
    if kind == "refused":
        refused = effect.refused
        # A newer owner may know codes that we do not.
        return Refused(refused.session, refused.seq, CODES.get(refused.code, Code.INTERNAL), refused.detail)
    if kind == "closed":
        closed = effect.closed
        return ConsumerClosed(closed.consumer, REASONS.get(closed.reason, Reason.INTERNAL), closed.detail)
    if kind == "browse_end":
        return BrowseEnd(effect.browse_end)
    if kind == "address_blocked":
        said = effect.address_blocked
        return AddressBlocked(said.session, check_slot(said.slot), said.address, said.full, said.passing)
    if kind == "slot":
        said = effect.slot
        return SlotState(check_slot(said.slot), said.epoch, said.state, said.opening)
    raise malformed("an unknown kind of effect")
