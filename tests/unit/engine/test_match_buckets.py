"""Messages that wait, sorted by who may have them: near ones in memory, far ones as numbers, ids ascending in both."""

from __future__ import annotations

from random import Random

from broker.core.message import REDELIVERED, Run
from broker.engine.consumers.match_buckets import Far, MatchBucket, dress

KEY = (1, 1, 0, 4, 0, False)


def run(*ids: int) -> Run:
    return Run(list(ids), b"", [b"\n%d\0" % i for i in ids], 3 * len(ids))


def ids(bucket: MatchBucket) -> list[int]:
    return [i for part in bucket.near for i in part.ids]


def test_far_says_what_a_sorted_list_says():
    random = Random(2)
    far, model = Far(), {}
    for step in range(400):
        choice = random.random()
        if choice < 0.5:
            new = sorted({random.randint(1, 900) for _ in range(random.randint(1, 4))} - set(model))
            new = [i for i in new if not model or i > min(model)]  # what was taken never comes back before the rest
            far.add(new, step)
            model |= dict.fromkeys(new, step)
        elif choice < 0.8:
            count = random.randint(1, 3)
            expected = sorted(model.items())[:count]
            assert far.pop(count) == expected
            for i, _ in expected:
                del model[i]
        else:
            low = random.randint(1, 900)
            spans = [(low, low + 20), (low + 40, low + 60)]
            gone = [entry for entry in sorted(model.items()) if any(a <= entry[0] <= b for a, b in spans)]
            assert far.withdraw(spans) == gone
            for i, _ in gone:
                del model[i]
        assert list(far.all()) == sorted(model.items()) and len(far) == len(model)
        if model:
            assert far.first() == min(model)


def test_taken_entries_do_not_stay_in_memory():
    far = Far()
    far.add(range(1, 20_001), 7)
    far.pop(15_000)
    assert len(far) == 5000 <= sum(len(ids) for ids, _ in far._pieces) < 5000 + 1024


def test_runs_come_in_any_order_and_stand_by_their_ids():
    for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1), (2, 1, 3)):
        bucket = MatchBucket(KEY)
        runs = {1: run(1, 5), 2: run(2, 3), 3: run(4, 9)}
        for n in order:
            bucket.add(runs[n])
        assert ids(bucket) == [1, 2, 3, 4, 5, 9] and bucket.first() == 1


def test_the_first_message_may_be_a_far_one():
    bucket = MatchBucket(KEY)
    assert not bucket
    bucket.far.add([3], 100)
    assert bucket and bucket.beyond() and bucket.first() == 3
    bucket.add(run(1))
    assert not bucket.beyond() and bucket.first() == 1
    other = MatchBucket(KEY)
    other.add(run(2))
    other.far.add([7], 200)
    bucket.merge(other)
    assert ids(bucket) == [1, 2] and list(bucket.far.all()) == [(3, 100), (7, 200)]


def test_a_selector_that_is_gone_is_part_of_no_key():
    bucket = MatchBucket((0b11, 0b10, 0, 4, 2, True))
    bucket.forget(0b10)
    assert bucket.key == (0b01, 0, 0, 4, 2, True)
    read_back = dress(run(1), bucket)
    assert read_back.attempts == 2 and read_back.flags & REDELIVERED
