"""What messages match is found before they are published, and found anew when that has changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.commands import Subscribe

from .test_filters import expected, message, publish, subscriber
from .world import AUTO, MULTICAST, World


@given(st.lists(subscriber, min_size=1, max_size=12), st.lists(st.lists(message, min_size=1, max_size=6), max_size=3),
       st.data())  # fmt: skip
def test_each_gets_what_it_asks_for(subscribers, reads, data) -> None:
    world = World()
    there = dict(enumerate(subscribers, 1))
    for number, (selector, address) in there.items():
        world.do(Subscribe(7, number, 0, number, address, MULTICAST, AUTO, selector=selector))
    for records in reads:
        got = publish(world, records)
        for number, (selector, _) in there.items():
            assert sorted(got.get(number, [])) == sorted(expected(selector, records)), (number, selector)
        for number in data.draw(st.sets(st.sampled_from(sorted(there)), max_size=3)) if there else ():
            del there[number]
            world.unsubscribe(number)
