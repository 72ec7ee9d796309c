"""A run that several queues have, cut into what each set of them still holds."""

from __future__ import annotations

from random import Random

from broker.core.message import Run
from broker.journal.compaction.split import by_queues, part_of


def run(count: int) -> Run:
    return Run(range(1, count + 1), b"a:b\n", [b"\n%d\0" % n for n in range(count)], 7 * count)


def test_every_live_message_is_in_one_part_and_no_queue_gets_them_in_another_order():
    random = Random(4)
    for _ in range(300):
        whole = run(random.randint(1, 12))
        holders = {
            i: tuple(sorted(random.sample((1, 2, 3), random.randint(0, 3)))) for i in whole.ids if random.random() < 0.9
        }
        parts = by_queues(whole, holders)
        live = [i for i in whole.ids if holders.get(i)]
        assert sorted(whole.ids[at] for _, indices in parts for at in indices) == live
        for queue in (1, 2, 3):
            order = [whole.ids[at] for queues, indices in parts if queue in queues for at in indices]
            assert order == [i for i in live if queue in holders[i]]
        assert all({holders[whole.ids[at]] for at in indices} == {queues} for queues, indices in parts)


def test_a_part_is_of_its_messages_alone():
    whole = run(3)
    part = part_of(whole, [0, 2])
    assert (part.ids, part.records, part.lines) == ([1, 3], [b"\n0\0", b"\n2\0"], b"a:b\n")
    assert part.nbytes == sum(map(len, part.records)) + 2 * len(part.lines)
    assert part_of(whole, [0, 1, 2]) is whole
