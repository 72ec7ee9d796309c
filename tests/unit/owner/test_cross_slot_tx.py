"""One transaction over several slots at its coordinator: who has answered, who may hold it, and that it ends once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.core.address import Outcome, Routing
from broker.core.commands import Publish, Settle
from broker.core.effects import Refused
from broker.core.errors import Code
from broker.core.states import IllegalMove
from broker.owner.transactions.cross_slot_tx import AGAIN_MOST, CrossSlotState, CrossSlotTx
from tests.unit.engine.world import run_of

GONE = Refused(0, 0, Code.OWNER_UNAVAILABLE, "")


def begun(done=lambda *_: None):
    others = {8: [Settle(8, 1, 0, 7, [1], Outcome.ACK)], 9: [Publish(9, 1, 0, "a", Routing.UNSET, run_of(b"x"))]}
    return CrossSlotTx("tx", SimpleNamespace(number=7), others, None, None, done, None, 3)


def test_all_have_answered_when_the_last_one_has():
    tx = begun()
    assert not tx.answered(8, None, False)
    assert tx.answered(9, GONE, True)
    assert tx.holding == [8, 9] and tx.failed is GONE


def test_who_refused_for_good_holds_nothing():
    tx = begun()
    tx.answered(8, Refused(0, 0, Code.NO_SUCH_DELIVERY, ""), False)
    assert tx.holding == []


@pytest.mark.parametrize("first", [8, 9])
def test_why_it_cannot_be_carried_out_is_told_whoever_is_not_there_besides(first):
    """Else a client hears that an owner is away, sends the same again, and hears the same again."""
    why = Refused(0, 0, Code.NO_SUCH_DELIVERY, "")
    answers = {8: (why, False), 9: (GONE, True)}
    tx = begun()
    tx.answered(first, *answers.pop(first))
    for slot, answer in answers.items():
        assert tx.answered(slot, *answer)
    assert tx.failed is why and tx.holding == [9]


def test_only_who_settles_is_asked_again_and_not_for_ever():
    tx = begun()
    assert not tx.may_wait(9) and tx.again == AGAIN_MOST
    assert all(tx.may_wait(8) for _ in range(AGAIN_MOST)) and not tx.may_wait(8)
    other = begun()
    other.answered(9, GONE, True)
    assert not other.may_wait(8), "it is refused already"


def test_it_ends_once():
    told = []
    tx = begun(lambda led, turn: told.append(turn))
    tx.is_decided()
    with pytest.raises(IllegalMove):
        tx.is_aborted(Refused(0, 0, Code.DISK_FULL))
    tx.is_done(None, "turn")
    assert told == ["turn"] and tx.state is CrossSlotState.DONE
    with pytest.raises(IllegalMove):
        tx.is_done(None, "again")
    refused = begun()
    refused.is_aborted(Refused(0, 0, Code.DISK_FULL))
    with pytest.raises(IllegalMove):
        refused.is_decided()
    assert told == ["turn"]
