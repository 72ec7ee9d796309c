"""Thousands of patterns are asked at once: what the trie finds is what each pattern says of itself."""

from __future__ import annotations

from random import Random

import pytest

from broker.engine.address.address_settings import matches
from broker.engine.address.trie import Trie


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


def test_a_name_of_ours_stands_for_who_names_it() -> None:
    trie: Trie[str] = Trie()
    for pattern in ("#", "*.a", "$x.*", "$x.#", "$x.#.a", "#.a"):
        trie.add(pattern.split("."), pattern)
    assert sorted(trie.find(["$x", "a"])) == ["$x.#", "$x.#.a", "$x.*"]
    assert sorted(trie.find(["$y", "a"])) == []


def test_what_is_not_there_cannot_be_taken_out():
    trie: Trie[int] = Trie()
    trie.add(["a", "*"], 1)
    with pytest.raises(KeyError):
        trie.remove(["a", "*"], 2)
    with pytest.raises(KeyError):
        trie.remove(["a", "b"], 1)
    assert trie.find(["a", "x"]) == [1]


def test_the_steps_are_those_of_the_words_not_of_the_patterns():
    trie: Trie[int] = Trie()
    for n in range(20_000):
        trie.add([f"w{n}", "#"], n)

    class Counted(dict):
        asked = 0

        def get(self, *key):
            Counted.asked += 1
            return super().get(*key)

    trie._root.children = Counted(trie._root.children)
    assert trie.find(["w7", "a", "b"]) == [7]
    assert Counted.asked <= 2
