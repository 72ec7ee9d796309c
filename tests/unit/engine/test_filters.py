"""Subscriptions of a topic with selectors: each gets what its own selector lets in, however many there are."""

from __future__ import annotations

from hypothesis import strategies as st

from broker.core.commands import Publish, Subscribe
from broker.core.effects import Deliver
from broker.core.message import NO_IDS, Run
from broker.selector import compile

from .world import AUTO, MULTICAST, World

SELECTORS = [
    None, "color = 'red'", "color = 'blue'", "color IN ('red', 'green')", "size BETWEEN 3 AND 6", "size > 4",
    "color = 'red' AND size > 4", "color IS NULL", "color LIKE 'r%'", "NOT color = 'red'", "color <> 'red' OR size = 1",
    "AMQSize > 40", "AMQAddress = 'q.a'",
]  # fmt: skip
message = st.builds(
    lambda color, size: (f"color:{color}\n" if color else "") + f"size:{size}\n",
    st.sampled_from(["", "red", "blue", "green"]),
    st.integers(0, 8),
).map(lambda head: f"{head}\nbody\0".encode())
subscriber = st.tuples(st.sampled_from(SELECTORS), st.sampled_from(["q.a", "q.a", "q.*", "#"]))


def run_of(records: list[bytes]) -> Run:
    return Run(NO_IDS, b"", list(records), sum(map(len, records)))


def publish(world: World, records: list[bytes]) -> dict[int, list[bytes]]:
    """Consumer → what it got."""
    got: dict[int, list[bytes]] = {}
    for effect in world.do(Publish(7, 99, 0, "q.a", MULTICAST, run_of(records))):
        if isinstance(effect, Deliver):
            got.setdefault(effect.consumer, []).extend(effect.run.lines + record for record in effect.run.records)
    return got


def expected(selector: str | None, records: list[bytes]) -> list[bytes]:
    run = run_of(records)
    return [record for at, record in enumerate(records) if selector is None or compile(selector)(run, at, "q.a")]


def test_a_selector_that_nothing_matches_is_not_asked(monkeypatch) -> None:
    """2,000 subscriptions, of which one matches: it alone is looked at."""
    world = World()
    for number in range(1, 301):
        world.do(Subscribe(7, number, 0, number, "q.a", MULTICAST, AUTO, selector=f"color = 'c{number}'"))
    filters = world.engine._slot.addresses["q.a"].filters
    assert filters is not None
    got = publish(world, [b"color:c7\n\nbody\0"] * 10)
    assert {number: len(bodies) for number, bodies in got.items()} == {7: 10}
    assert filters.index.work < 10_000
    for number in range(1, 301):
        world.unsubscribe(number)
    assert world.engine._slot.filtered == 0 and not filters
