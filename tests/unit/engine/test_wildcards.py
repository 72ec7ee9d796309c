"""Wildcards of all slots of a process: one entry each, and in a slot a consumer with the first message only."""

from __future__ import annotations

from random import Random

from broker.core.address import AckMode, Routing
from broker.core.commands import Subscribe, SubscribeAll
from broker.engine.matching import matches
from broker.engine.trie import Trie
from broker.engine.wildcards import PIECE, Wildcards, slots_in

DOT = "."


def subscribed(wildcards: Wildcards, consumer: int, address: str, session: int = 1) -> None:
    model = Subscribe(0, session, 0, consumer, address, Routing.MULTICAST, AckMode.AUTO)
    wildcards.add(SubscribeAll(model), DOT)


def due(wildcards: Wildcards, slot: int, address: str) -> list[int]:
    found = wildcards.due(slot, address, DOT)
    assert {command.slot for command in found} <= {slot}
    return [command.consumer for command in found]


def test_a_trie_says_what_matches_says() -> None:
    random = Random(14)
    words = ("", "a", "b", "*", "#")
    for _ in range(300):
        trie: Trie[int] = Trie()
        patterns = {n: random.choices(words, k=random.randint(1, 4)) for n in range(random.randint(1, 12))}
        for number, pattern in patterns.items():
            trie.add(pattern, number)
        for number in random.sample(sorted(patterns), len(patterns) // 2):
            trie.remove(patterns.pop(number), number)
        for _ in range(20):
            address = random.choices(words, k=random.randint(1, 5))
            expected = [number for number, pattern in patterns.items() if matches(pattern, address)]
            assert sorted(trie.find(address)) == expected, (patterns, address)
        for number, pattern in patterns.items():
            trie.remove(pattern, number)
        assert not trie._root.children and not trie._root.rest and not trie._root.here


def test_who_is_due_in_a_slot_is_due_there_once() -> None:
    wildcards = Wildcards()
    subscribed(wildcards, 512, "a.*")
    subscribed(wildcards, 256, "a.#")
    assert due(wildcards, 7, "b.x") == [] == due(wildcards, 7, "$a.x")
    assert due(wildcards, 7, "a.x") == [256 + 7, 512 + 7]
    assert due(wildcards, 7, "a.x") == due(wildcards, 7, "a.y") == []
    assert due(wildcards, 8, "a") == [256 + 8]
    subscribed(wildcards, 768, "#")
    assert due(wildcards, 7, "a.x") == [768 + 7], "a later one counts for addresses that were asked for before"
    assert due(wildcards, 7, "b.x") == []


def test_the_end_of_one_tells_where_it_was_awake_and_leaves_nothing() -> None:
    wildcards = Wildcards()
    subscribed(wildcards, 256, "a.*")
    subscribed(wildcards, 512, "a.*", session=2)
    due(wildcards, 3, "a.x")
    due(wildcards, 200, "a.y")
    assert wildcards.end(256, session=2) is None and wildcards.end(512, session=1) is None
    awake = wildcards.end(256, session=1)
    assert awake is not None and list(slots_in(awake)) == [3, 200]
    assert wildcards.end(256, session=1) is None
    assert due(wildcards, 4, "a.x") == [512 + 4] and wildcards.some == 1
    assert wildcards.end(512, session=2) is not None and not wildcards.some and not wildcards._sessions


def test_a_session_ends_in_pieces_and_nothing_of_it_is_due_meanwhile() -> None:
    wildcards = Wildcards()
    for number in range(1, 5 * PIECE):
        subscribed(wildcards, number * 256, f"a{number}.#")
    subscribed(wildcards, 5 * PIECE * 256, "#", session=2)
    due(wildcards, 9, "a1.x")
    assert list(slots_in(wildcards.end_session(1))) == [9]
    assert due(wildcards, 10, "a2.x") == [5 * PIECE * 256 + 10]
    pieces = 1
    while wildcards.tidy():
        pieces += 1
        assert wildcards.some > 5 * PIECE - pieces * PIECE - 1, "a piece was larger than PIECE"
    assert pieces >= 4 and wildcards.some == 1
    assert wildcards.end_session(1) == 0 == wildcards.end_session(3)
