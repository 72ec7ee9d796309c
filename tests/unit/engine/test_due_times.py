"""What is not due comes out in the order of time, then of ids, and what the log knows of it is asked once."""

from __future__ import annotations

from random import Random

from broker.core.message import Run
from broker.engine.queue.due_times import Agenda, moment


def run(first: int, due: int, count: int = 1, expires: int = 0, position: int = 0) -> Run:
    ids = range(first, first + count)
    return Run(ids, b"", [b"x" * 10] * count, 10 * count, expires=expires, position=position, due=due)


def test_it_says_what_a_sorted_list_says():
    random = Random(3)
    agenda, model, first = Agenda(), [], 1
    for _ in range(600):
        if random.random() < 0.6:
            count, due = random.randint(1, 3), random.randint(1, 50)
            agenda.add(run(first, due, count, position=7 * first))
            model.append((due, first, 7 * first, count))
            first += count
        elif model:
            model.sort()
            until, most = random.randint(1, 50), random.randint(1, 4)
            assert agenda.first() == model[0][0]
            expected = [entry for entry in model if entry[0] <= until][:most]
            taken = agenda.pop(until, most)
            assert [(position, count) for position, count, _ in taken] == [entry[2:] for entry in expected]
            assert sum(nbytes for *_, nbytes in taken) == 10 * sum(entry[3] for entry in expected)
            model = [entry for entry in model if entry not in expected]
        total = sum(entry[3] for entry in model)
        assert (len(agenda), agenda.count, agenda.nbytes) == (len(model), total, 10 * total)
    assert agenda.positions() == [position for _, _, position, _ in sorted(model)]


def test_what_expires_before_it_is_due_comes_out_then():
    assert moment(run(1, due=50)) == 50 and moment(run(1, due=50, expires=20)) == 20
    agenda = Agenda()
    agenda.add(run(1, due=50, expires=20))
    agenda.add(run(2, due=60, expires=90))
    assert agenda.expires == 20 and agenda.first() == 20
    assert agenda.pop(19, 9) == []


def test_single_messages_are_taken_back_by_their_ids_and_runs_of_several_stay():
    agenda = Agenda()
    for first, count in ((1, 1), (2, 3), (9, 1)):
        agenda.add(run(first, 10, count))
    assert agenda.cancel({9, 1, 3, 77}) == ([1, 9], 20)
    assert (len(agenda), agenda.count, agenda.nbytes) == (1, 3, 30)
    assert agenda.cancel({1}) == ([], 0)


def test_the_log_opens_it_and_an_end_without_notice_is_doubted_once():
    agenda = Agenda()
    agenda.ask(100)
    assert (agenda.opened, agenda.asked) == (0, 100)
    agenda.open()
    assert (agenda.opened, agenda.asked) == (100, 0)
    assert agenda.doubt() and agenda.suspect == 100 and not agenda.doubt()
    agenda.restore(150, 120)
    agenda.restore(140, 130)
    assert (agenda.opened, agenda.suspect) == (150, 130) and agenda.doubt()
