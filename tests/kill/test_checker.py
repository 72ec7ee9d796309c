"""The checker is only worth what it catches: each promise is broken once, in a history planted for it."""

from __future__ import annotations

from .checker import check, check_moves, unanswered
from .history import History, Kind


def good() -> History:
    """A crash in the middle of everything, and no promise broken."""
    h = History()
    for n in range(6):
        h.add(Kind.SENT, f"q/p/{n}", 1)
    for n in range(4):
        h.add(Kind.RECEIPTED, f"q/p/{n}", 1)
    h.add(Kind.DELIVERED, "q/p/0", 1, who="a")
    h.add(Kind.SETTLED, "q/p/0", 1)
    h.add(Kind.DELIVERED, "q/p/1", 1, who="a")  # its ACK has no receipt: it may come again
    # life 2: the broker was killed; 4 had no receipt and survived, 5 had none and is gone
    h.add(Kind.DELIVERED, "q/p/1", 2, who="b", redelivered=True)
    for n in (2, 3, 4):
        h.add(Kind.DELIVERED, f"q/p/{n}", 2, who="b")
    for n in (1, 2, 3, 4):
        h.add(Kind.SETTLED, f"q/p/{n}", 2)
    for tx, state in (("t1", Kind.COMMITTED), ("t2", Kind.ABORTED), ("t3", None)):
        for n in range(2):
            h.add(Kind.SENT, f"x/{tx}/{n}", 2, tx=tx)
        if state is not Kind.ABORTED:
            h.add(Kind.COMMIT_SENT, tx, 2)
        if state is not None:
            h.add(state, tx, 2)
    for n in range(2):
        h.add(Kind.DELIVERED, f"x/t1/{n}", 2, who="c")
        h.add(Kind.ACK_SENT, f"x/t1/{n}", 2)  # and the broker was killed before the receipt
    return h


def test_history_that_keeps_every_promise_passes():
    assert check(good()) == []


def test_loss_of_a_receipted_message_is_found():
    h = good()
    h.events = [e for e in h.events if not (e.kind is Kind.DELIVERED and e.key == "q/p/3")]
    assert check(h) == ["lost: q/p/3 was receipted and never delivered"]


def test_loss_of_a_committed_transaction_is_found():
    h = good()
    h.events = [e for e in h.events if not (e.kind is Kind.DELIVERED and e.key.startswith("x/t1/"))]
    assert [line.split(" was")[0] for line in check(h)] == ["lost: x/t1/0", "lost: x/t1/1"]


def test_half_a_transaction_without_receipt_is_found():
    h = good()
    h.add(Kind.DELIVERED, "x/t3/1", 3, who="c")
    assert check(h) == ["torn: ['x/t3/0'] of transaction t3 are missing, ['x/t3/1'] came"]


def test_message_of_an_aborted_transaction_is_found():
    h = good()
    h.add(Kind.DELIVERED, "x/t2/0", 2, who="c")
    assert check(h) == ["uncommitted: ['x/t2/0'] of transaction t2 came, which was never committed"]


def test_delivery_that_was_never_acknowledged_and_never_came_again_is_found():
    h = good()
    h.events = [e for e in h.events if not (e.kind is Kind.ACK_SENT and e.key == "x/t1/0")]
    assert check(h) == ["abandoned: x/t1/0 was delivered in life 2, not acknowledged, and never came again"]


def test_ack_without_receipt_is_found_in_a_life_that_was_not_killed():
    h = good()
    assert [line.split(" in ")[0] for line in unanswered(h, 2)] == [
        f"unanswered: the ACK of x/t1/{n}" for n in range(2)
    ]
    assert unanswered(h, 1) == []


def test_message_nobody_sent_is_found():
    h = good()
    h.add(Kind.DELIVERED, "q/p/77", 2, who="b")
    assert check(h) == ["ghost: q/p/77 was delivered and never sent"]


def test_changed_body_is_found():
    h = good()
    h.add(Kind.CORRUPT, "q/p/2", 2)
    assert check(h) == ["corrupt: q/p/2 came with another body"]


def test_delivery_after_the_receipt_of_its_ack_is_found_even_if_marked():
    h = good()
    h.add(Kind.DELIVERED, "q/p/0", 3, who="b", redelivered=True)
    assert check(h) == ["resurrected: q/p/0 came to b in life 3 after its ACK's receipt"]


def test_second_delivery_without_the_mark_is_found():
    h = good()
    h.events = [
        e if e.key != "q/p/1" or e.kind is not Kind.DELIVERED else type(e)(e.kind, e.key, e.life, False, e.who)
        for e in h.events
    ]
    assert check(h) == ["unmarked: q/p/1 came again in life 2 without redelivered:true"]


def test_order_of_one_producer_at_one_consumer_is_checked():
    h = good()
    h.add(Kind.SENT, "q/p/6", 2)
    h.add(Kind.SENT, "q/p/7", 2)
    for n in (7, 6):
        h.add(Kind.DELIVERED, f"q/p/{n}", 2, who="b")
    assert check(h) == ["reordered: q/p/6 came to b after q/p/7"]


def test_bytes_of_a_dead_broker_read_late_are_no_violation():
    """Consumer a reads what life 1 left in its socket after b has settled the message in life 2."""
    h = good()
    h.add(Kind.DELIVERED, "q/p/2", 1, who="a")
    h.events = [
        type(e)(e.kind, e.key, e.life, True, e.who) if (e.kind, e.key, e.life) == (Kind.DELIVERED, "q/p/2", 2) else e
        for e in h.events
    ]
    assert check(h) == []


def moves() -> History:
    h = History()
    for n in range(2):
        h.add(Kind.RECEIPTED, f"in/{n}", 1)
        h.add(Kind.DELIVERED, f"out/first/{n}", 1)
    return h


def test_move_that_happened_once_each_passes():
    assert check_moves(moves(), "in", "out") == []


def test_message_moved_twice_is_found():
    h = moves()
    h.add(Kind.DELIVERED, "out/second/1", 2)
    assert check_moves(h, "in", "out") == ["moved twice: ['out/first/1', 'out/second/1']"]


def test_message_lost_in_a_move_is_found():
    h = moves()
    h.add(Kind.RECEIPTED, "in/2", 1)
    assert check_moves(h, "in", "out") == ["lost in a move: in/2 is in neither queue"]
