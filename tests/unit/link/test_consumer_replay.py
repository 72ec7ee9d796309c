"""What an edge knows of a consumer: what is told to the next owner of its slot, and what is not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import UNLIMITED, Hold, Publish, Settle, Subscribe, Transact
from broker.core.ledger import covered
from broker.core.message import BLOB, DURABLE, Blob, Run
from broker.core.spans import append_ids
from broker.link.edge_side import consumer_replay
from broker.link.edge_side.consumer_replay import PendingCommand, ReplayedConsumer, held, size_of


def consumer(ack: AckMode = AckMode.INDIVIDUAL, room: int = UNLIMITED, browse: bool = False) -> ReplayedConsumer:
    return ReplayedConsumer(Subscribe(3, 1, 9, 7, "a", Routing.ANYCAST, ack, room=room, browse=browse))


def give(
    to: ReplayedConsumer, *ids: int, durable: bool = True, attempts: int = 0, cost: int = 10, blob: bool = False
) -> Run:
    flags = (DURABLE if durable else 0) | (BLOB if blob else 0)
    run = Run(list(ids), b"", [b"\n\0"] * len(ids), 2 * len(ids), flags, attempts=attempts)
    to.delivered(run, cost)
    return run


numbers = count(1)


def settle(of: ReplayedConsumer, *ids: int, outcome: Outcome = Outcome.ACK) -> PendingCommand:
    entry = PendingCommand(next(numbers), Settle(3, 1, 0, 7, ids, outcome), 0, 0)
    of.set_aside(entry, ids)
    return entry


def hold(of: ReplayedConsumer, *ids: int) -> PendingCommand:
    entry = PendingCommand(next(numbers), Hold(3, 1, 0, 7, ids), 0, 0)
    of.set_aside(entry, ids)
    return entry


def told(of: ReplayedConsumer) -> list[tuple[int, int]]:
    """Messages that the next owner hears it has."""
    command = of.again(1)
    assert command.resume is not None
    return command.resume.held


def firm(of: ReplayedConsumer) -> list[tuple[int, int]]:
    command = of.again(1)
    assert command.resume is not None
    return command.resume.firm


def test_what_the_client_has_is_told_until_its_settlement_is_answered() -> None:
    known = consumer()
    give(known, 4, 5, 6)
    assert told(known) == [(4, 6)]
    entry = settle(known, 5)
    assert told(known) == [(5, 5), (4, 4), (6, 6)], "what was settled before comes first, as the commands do"
    known.forget(entry)
    assert told(known) == [(4, 4), (6, 6)] and known.given


def test_a_cumulative_ack_covers_what_came_before_it() -> None:
    known = consumer(AckMode.CLIENT)
    give(known, 4, 5, 6, 7)
    first = settle(known, 5)
    assert known.aside[first] == [4, 5] and list(known.ids) == [6, 7]
    last = settle(known, 7)
    assert known.aside[last] == [6, 7] and not known.ids
    known.forget(first)
    known.forget(last)
    assert told(known) == []
    give(known, 8)
    assert known.ids == {8: True}


def test_many_cumulative_acks_leave_what_is_behind_them_in_order() -> None:
    known = consumer(AckMode.CLIENT)
    give(known, *range(20))
    for i in range(18):
        known.forget(settle(known, i))
    assert list(known.ids) == [18, 19] and told(known) == [(18, 19)]


def test_one_that_cannot_be_read_covers_nothing_before_it() -> None:
    known = consumer(AckMode.CLIENT)
    give(known, 4, 5)
    entry = settle(known, 5, outcome=Outcome.UNREADABLE)
    assert known.aside[entry] == [5] and list(known.ids) == [4]


def test_what_is_settled_of_others_concerns_nobody() -> None:
    known = consumer()
    give(known, 4)
    assert settle(known, 99) not in known.aside and list(known.ids) == [4]


def test_a_hold_is_firm_when_all_it_covers_is_durable() -> None:
    known = consumer()
    give(known, 1, 2)
    give(known, 3, durable=False)
    sure, mixed = hold(known, 1), hold(known, 2, 3)
    assert (sure.firm, mixed.firm) == (True, False) and firm(known) == [(1, 1)]
    assert sure.claimed and mixed.claimed, "a new owner was told of them"
    plain = settle(consumer(), 1)
    assert not plain.firm and not plain.claimed


def test_what_the_client_has_and_nobody_settles_is_firm_when_it_is_durable() -> None:
    """`make chaos --seed 20261133`: its edge was late with a new leader, another consumer got and settled what it had;
    the COMMITs of its client, which named that only then, were receipted."""
    known = consumer()
    give(known, 1, 2, 3, 5)
    give(known, 4, durable=False)
    settle(known, 2)
    assert told(known) == [(2, 2), (1, 1), (3, 3), (5, 5), (4, 4)]
    assert firm(known) == [(1, 1), (3, 3), (5, 5)], "of what an ACK names nobody knows whether it has happened"


def test_a_cumulative_hold_is_firm_by_all_that_it_covers() -> None:
    for durable in (True, False):
        known = consumer(AckMode.CLIENT)
        give(known, 1, durable=durable)
        give(known, 2, 3)
        assert hold(known, 2).firm is durable
        known = consumer(AckMode.CLIENT)
        give(known, 1, durable=durable)
        give(known, 2)
        assert hold(known, 2).firm is durable, "the newest one, too"


def test_a_commit_takes_its_holds_along() -> None:
    known = consumer()
    give(known, 1, 2)
    held = hold(known, 1)
    entry = settle(known, 1)
    assert entry.holds == [held] and not known.holds and known.aside == {held: [1]}
    assert entry.end_holds() == [held] and entry.holds == []
    known.forget(held)
    assert told(known) == [(2, 2)]


def test_a_nack_whose_message_came_again_has_happened() -> None:
    known = consumer()
    give(known, 1, 2)
    back = settle(known, 1, outcome=Outcome.NACK)
    other = settle(known, 2, outcome=Outcome.NACK)
    give(known, 1, attempts=1)
    assert back.happened and not other.happened and known.ids == {1: True} and list(known.aside) == [other]
    known.let_go()
    assert other.happened and told(known) == [(1, 1)], "it may be another consumer's by now"


def test_a_reject_is_told_again_since_it_gives_nothing_back() -> None:
    known = consumer()
    give(known, 1)
    entry = settle(known, 1, outcome=Outcome.REJECT)
    known.let_go()
    assert not entry.happened and told(known) == [(1, 1)]


def test_who_leaves_claims_nothing_again() -> None:
    known = consumer()
    give(known, 1, 2, 3)
    held, acked = hold(known, 1), settle(known, 2)
    known.leaves()
    known.set_aside(acked, [3])
    assert known.aside[acked] == [2], "what comes behind its end concerns nothing"
    assert told(known) == [(1, 2)], "what it holds still goes back with its end"
    known.let_go()
    assert held.happened and not acked.happened and told(known) == [(2, 2)]


def test_attempts_are_told_as_long_as_the_messages_are_known() -> None:
    known = consumer()
    give(known, 1, attempts=2)
    give(known, 2)
    assert known.again(1).resume.tries == {1: 2}  # type: ignore[union-attr]
    give(known, 1, attempts=0)
    assert known.tries == {}, "counted anew: its leader lost the counts"
    give(known, 3, attempts=1)
    known.forget(settle(known, 3))
    assert known.again(1).resume.tries == {}  # type: ignore[union-attr]
    give(known, 4, 5, attempts=1)
    settled = settle(known, 4)
    assert known.again(1).resume.tries == {4: 1, 5: 1}, "nobody has answered yet"  # type: ignore[union-attr]
    known.forget(settled)
    assert known.tries == {5: 1}


def test_room_is_what_the_client_has_not_been_given() -> None:
    known = consumer(room=100)
    give(known, 1, cost=30)
    assert known.again(1).room == 70
    known.granted(20)
    assert known.again(1).room == 90 and known.command.room == 100
    known.closes()
    assert known.again(1).room == 0, "its end is on its way: it gets nothing more"
    assert consumer().again(1).room == UNLIMITED


def test_what_it_was_let_create_once_it_may_create_again() -> None:
    known = consumer()
    known.command.create = False
    assert not known.again(1).create
    known.begins()
    assert known.again(5).create and known.again(5).seq == 5 and known.command.seq == 9


def test_auto_deliveries_are_told_until_a_barrier_behind_them_is_answered() -> None:
    known = consumer(AckMode.AUTO)
    give(known, 1, 2)
    give(known, 3)
    assert known.again(1).resume.taken == [(1, 3)] and known.given  # type: ignore[union-attr]
    known.mark()
    give(known, 7)
    assert known.again(1).resume.taken == [(1, 3), (7, 7)]  # type: ignore[union-attr]
    known.settled()
    assert known.again(1).resume.taken == [(7, 7)] and not known.ids  # type: ignore[union-attr]


def test_a_browser_that_began_anew_is_shown_what_it_has_not_seen() -> None:
    known = consumer(AckMode.AUTO, browse=True)
    give(known, 2, 3)
    new = Run([1, 2, 3, 4], b"h\n", [b"1\0", b"22\0", b"3\0", b"444\0"], 20)
    fresh = known.unseen(new)
    assert fresh is not None and list(fresh.ids) == [1, 4] and fresh.records == [b"1\0", b"444\0"]
    assert fresh.nbytes == len(b"1\0") + len(b"444\0") + 2 * len(b"h\n")
    assert known.unseen(Run([2, 3], b"", [b"\0"] * 2, 2)) is None
    all_new = Run([8, 9], b"", [b"\0"] * 2, 2)
    assert known.unseen(all_new) is all_new
    assert known.again(1).resume.taken == []  # type: ignore[union-attr]


def test_what_a_browser_has_seen_is_known_wherever_it_stood() -> None:
    known = consumer(AckMode.AUTO, browse=True)
    give(known, 5, 9)
    give(known, 2, 7)  # began anew: 5 was taken out
    give(known, 11)
    fresh = known.unseen(Run([1, 2, 5, 6, 7, 9, 11, 12], b"", [b"\0"] * 8, 8))
    assert fresh is not None and list(fresh.ids) == [1, 6, 12]


def test_a_browser_is_not_asked_for_all_that_it_has_seen_with_every_message() -> None:
    """Ids of one queue are scattered where its slot has others, or it has a selector."""
    compared = 0

    class Id(int):
        def __lt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) < int(other)

        def __le__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) <= int(other)

        def __gt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) > int(other)

        def __ge__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) >= int(other)

    known = consumer(AckMode.AUTO, browse=True)
    for again in (False, True):
        for number in range(1000):
            run = Run([Id(2 * number)], b"", [b"\0"], 1)
            assert known.unseen(run) is (None if again else run)
            if not again:
                known.delivered(run, 1)
    assert compared < 100_000


@pytest.mark.parametrize(
    ("before", "ids", "after"),
    [
        ([], [1, 2, 4], [(1, 2), (4, 4)]),
        ([(1, 2)], [3], [(1, 3)]),
        ([(1, 2)], [4], [(1, 2), (4, 4)]),
        ([(1, 2)], range(3, 6), [(1, 5)]),
        ([(1, 2)], range(4, 6), [(1, 2), (4, 5)]),
        ([], range(4, 6), [(4, 5)]),
        ([(5, 5)], [4], [(5, 5), (4, 4)]),
        ([], range(0, 5, 2), [(0, 0), (2, 2), (4, 4)]),
    ],
)
def test_ids_become_spans_in_their_order(
    before: list[tuple[int, int]], ids: Iterable[int], after: list[tuple[int, int]]
) -> None:
    append_ids(before, ids)
    assert before == after


def test_who_closes_holds_nothing() -> None:
    known = consumer()
    give(known, 4)
    assert held({7: known}, 0, 7) == [4] and held({}, 0, 7) == []
    known.closes()
    assert held({7: known}, 0, 7) == []


def test_a_settlement_that_happened_has_ended_its_holds_too() -> None:
    known = consumer()
    give(known, 1, 2, 3)
    held, other, over = hold(known, 1), hold(known, 2), hold(known, 3)
    back = settle(known, 1, 3, outcome=Outcome.NACK)
    assert back.holds == [held, over]
    known.forget(over)  # its own answer came
    give(known, 1, attempts=1)
    assert (back.happened, held.happened, over.happened, other.happened) == (True, True, False, False)
    assert list(known.aside) == [other] and known.holds == {2: other}


def test_a_hold_that_is_forgotten_leaves_the_others() -> None:
    known = consumer()
    give(known, 1, 2)
    first, second = hold(known, 1), hold(known, 2)
    known.forget(first)
    assert known.holds == {2: second} and list(known.aside) == [second]


@pytest.mark.parametrize(("bodies", "blob"), [(True, True), (True, False), (False, True), (False, False)])
def test_only_a_large_body_that_its_edge_settles_is_held_in_auto_mode(bodies: bool, blob: bool) -> None:
    known = consumer(AckMode.AUTO)
    known.command.bodies = bodies
    give(known, 1, blob=blob)
    assert known.may_read_body(1) is (bodies and blob) and bool(known.spans) is not (bodies and blob)


def test_room_without_a_bound_stays_so() -> None:
    known = consumer()
    give(known, 1, cost=30)
    assert known.again(1).room == UNLIMITED


def test_what_becomes_of_a_command_is_said_by_its_methods() -> None:
    entry = PendingCommand(1, Hold(3, 1, 9, 7, [1]), 9, 0)
    assert not (entry.answered or entry.delayed or entry.resume or entry.turn or entry.own)
    entry.answer()
    assert entry.answered and entry.seq == 0
    entry.delay()
    assert entry.delayed
    entry.may_leave()
    assert not entry.delayed and entry.alone_in(4) == entry.turn == 4
    known = consumer()
    again = PendingCommand(2, known.command, 0, 0)
    again.attaches_again(known)
    assert again.resume and again.consumer is known
    give(known, 5)
    own = PendingCommand(3, Settle(3, 1, 0, 7, [5], Outcome.ACK), 0, 0)
    own.of_port(known, 77)
    assert own.own and own.consumer is known and own.command.seq == 77 and known.aside == {own: [5]}
    assert not known.ended
    known.ends()
    assert known.ended


def test_a_command_weighs_what_it_has_of_messages_and_ids() -> None:
    publish = Publish(0, 1, 0, "a", Routing.ANYCAST, Run([], b"", [b"x\0"], 1000))
    assert size_of(publish) == 1096
    publish.run.blob = Blob(1, 900)
    assert size_of(publish) == 196, "its body goes another way"
    three = Settle(3, 1, 0, 7, [1, 2, 3], Outcome.ACK)
    assert size_of(three) == 96 + 18
    assert size_of(Transact(0, 1, 0, [publish, three])) == 96 + 196 + 114


def test_a_nack_that_is_answered_is_nobodys_any_more() -> None:
    known = consumer()
    give(known, 1)
    back = settle(known, 1, outcome=Outcome.NACK)
    known.forget(back)
    assert not known.backs
    give(known, 1, attempts=1)
    known.let_go()
    assert not back.happened and told(known) == [(1, 1)]


def test_what_comes_again_is_looked_up_among_many_that_were_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind 20,000 NACKs that waited for their answers each delivery looked at all of them: an edge stood still for
    2.5 s at a time."""

    class Walked(dict[PendingCommand, None]):
        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("all of them are looked at")

    known = consumer()
    give(known, *range(1, 1001))
    entries = [settle(known, i, outcome=Outcome.NACK) for i in range(1, 1001)]
    known.backs = Walked(known.backs)
    for i in range(1, 1001):
        give(known, i, attempts=1)
    assert all(entry.happened for entry in entries) and len(known.backs) == 0
    assert told(known) == [(1, 1000)]


def test_of_a_rollback_one_that_comes_again_ends_all_of_it() -> None:
    known = consumer()
    give(known, 1, 2, 3)
    first, second = hold(known, 1), hold(known, 2, 3)
    rollback = settle(known, 1, 2, 3, outcome=Outcome.RETURN)
    give(known, 3)
    assert rollback.happened and first.happened and second.happened
    assert told(known) == [(3, 3)] and not known.backs and not known.holds


def test_what_came_again_and_is_given_back_again_is_another_ones() -> None:
    known = consumer()
    give(known, 1, 2)
    once = settle(known, 1, outcome=Outcome.NACK)
    give(known, 1)
    twice = settle(known, 1, outcome=Outcome.NACK)
    known.forget(once)
    assert not twice.happened
    give(known, 1)
    assert once.happened and twice.happened


def calls_of(work: Callable[[], object]) -> int:
    """Calls and resumptions, also of what is written in C: whatever has a line of code for each message has one."""
    counted = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.parametrize("outcome", [Outcome.ACK, Outcome.NACK, None], ids=["ack", "nack", "hold"])
@pytest.mark.parametrize("last", [0, 1], ids=["all", "all but one"])
def test_what_one_word_covers_costs_no_line_of_code_for_each(outcome: Outcome | None, last: int) -> None:
    """100,000 of them were a step of the edge of 33 ms, with seven other processes on two cores."""
    calls = []
    for many in (1000, 4000):
        known = consumer(AckMode.CLIENT)
        give(known, *range(many), attempts=1)
        named = [many - 1 - last]
        word = Settle(3, 1, 0, 7, named, outcome) if outcome is not None else Hold(3, 1, 0, 7, named)
        entry = PendingCommand(1, word, 0, 0)
        said = calls_of(partial(known.set_aside, entry, word.ids))
        again = give_again(known, many - 2) if outcome is Outcome.NACK else 0
        calls.append((said, again, calls_of(partial(known.forget, entry))))
        assert known.ids.keys() <= {many - 1, many - 2}
    assert calls[0] == calls[1]


def give_again(to: ReplayedConsumer, i: int) -> int:
    run = Run([i], b"", [b"\n\0"], 2, DURABLE, attempts=1)
    return calls_of(partial(to.delivered, run, 10))


def test_what_comes_again_is_not_looked_for_in_all_that_nobody_has_answered() -> None:
    """The attempts of what was settled were looked through at each of these deliveries."""
    known = consumer(AckMode.CLIENT)
    give(known, *range(4000), attempts=1)
    settle(known, 3999)
    assert sum(give_again(known, i) for i in range(5000, 5010)) < 200
    assert len(known.tries) == 4010 == len(known.again(1).resume.tries)  # type: ignore[union-attr]


def test_words_pass_over_few_places_of_what_was_settled_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dict emptied from its front is walked from its first place: 1,000 words of one command were 15 ms, and each of
    thousands of commands 50 µs."""
    passed: list[int] = []

    def counted(ledger: dict[int, bool], last: int) -> list[int]:
        passed.append(known._removed)
        return covered(ledger, last)

    monkeypatch.setattr(consumer_replay, "up_to", counted)
    known = consumer(AckMode.CLIENT)
    give(known, *range(20_000))
    entry = settle(known, *range(1000))
    assert len(passed) == 1 and known.aside == {entry: list(range(1000))}
    for i in range(1000, 11_000):
        known.forget(hold(known, i))
    assert list(known.ids) == list(range(11_000, 20_000))
    assert max(passed) < 2500


def test_words_of_one_command_mean_what_they_mean_one_by_one() -> None:
    for ids in ([2, 4], [4, 2], [4, 4], [2, 9]):
        known, single = consumer(AckMode.CLIENT), consumer(AckMode.CLIENT)
        for each in (known, single):
            give(each, 1, 2, 3, 4, 5)
        entry = hold(known, *ids)
        one_by_one = [i for word in ids for i in single.aside.get(hold(single, word), ())]
        assert known.aside[entry] == one_by_one and known.ids == single.ids


def test_attempts_of_what_came_again_while_a_transaction_held_it_stay_known():
    """Its edge was given up for a while, somebody else had it and failed. Else the next leader takes it for lost."""
    one = consumer(AckMode.CLIENT)
    give(one, 1, 2, 3, 4, 5)
    hold = PendingCommand(next(numbers), Hold(3, 1, 0, 7, [5]), 1, 100)
    one.set_aside(hold, [5])
    give(one, 5, attempts=1)
    one.forget(hold)  # its transaction has ended
    resume = one.again(9).resume
    assert resume is not None and (resume.held, resume.tries) == ([(5, 5)], {5: 1})
