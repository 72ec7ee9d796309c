"""Receipts that are waited for: each future gets one answer, from its RECEIPT, its ERROR, or the end."""

from __future__ import annotations

import pytest

from broker.client.errors import ClientError, ConnectionLost
from broker.client.receipts import Receipts


async def test_each_receipt_has_an_id_of_its_own_and_answers_only_its_own_call():
    receipts = Receipts()
    (name, first), one = receipts.expect()
    (_, second), two = receipts.expect()
    assert name == "receipt" and first != second
    receipts.confirm(second)
    assert two.done() and two.result() is None and not one.done()
    receipts.confirm("nobody's")
    receipts.confirm(first)
    receipts.confirm(first)
    assert await one is None


async def test_an_error_answers_whoever_waits_and_says_whether_anybody_did():
    receipts = Receipts()
    (_, id), answer = receipts.expect()
    assert receipts.refuse(id, ClientError("no"))
    with pytest.raises(ClientError, match="no"):
        await answer
    assert not receipts.refuse(id, ClientError("again"))
    assert not receipts.refuse("nobody's", ClientError("no"))


async def test_who_has_stopped_waiting_is_not_answered():
    receipts = Receipts()
    ids = []
    for _ in range(3):
        (_, id), answer = receipts.expect()
        answer.cancel()
        ids.append(id)
    receipts.confirm(ids[0])
    assert not receipts.refuse(ids[1], ClientError("no"))
    receipts.lose("over")


async def test_the_end_of_the_connection_answers_all_of_them_once():
    receipts = Receipts()
    (_, first), one = receipts.expect()
    _, two = receipts.expect()
    receipts.confirm(first)
    receipts.lose("over")
    assert one.result() is None
    with pytest.raises(ConnectionLost, match="over"):
        await two
    receipts.lose("over")
    assert not receipts.refuse("r2", ClientError("late"))
