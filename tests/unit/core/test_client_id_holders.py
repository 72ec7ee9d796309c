"""Of two connections that want a client-id, one has it, and the other is told."""

from __future__ import annotations

import pytest

from broker.core.client_id_holders import ClientIdHolders


class Connection:
    def __init__(self, id: int) -> None:
        self.id = id
        self.taken = 0

    def taken_over(self) -> None:
        self.taken += 1


def taken(policy: str) -> tuple[ClientIdHolders, Connection, Connection, list[bool]]:
    ids, first, second = ClientIdHolders(policy), Connection(1), Connection(2)
    return ids, first, second, [ids.claim("ada", first), ids.claim("ada", second)]


@pytest.mark.parametrize(
    ("policy", "got", "told", "has"), [("allow", True, 0, []), ("refuse", False, 0, [1]), ("takeover", True, 1, [2])]
)
def test_of_two(policy: str, got: bool, told: int, has: list[int]) -> None:
    ids, first, second, answers = taken(policy)
    assert answers == [True, got] and (first.taken, second.taken) == (told, 0)
    assert [holder.id for _, holder in ids.all()] == has


def test_who_has_lost_it_gives_nothing_back() -> None:
    ids, first, second, _ = taken("takeover")
    assert not ids.drop("ada", first) and not ids.drop("bob", second)
    assert ids.drop("ada", second) and ids.all() == []


def test_a_word_about_the_one_before_ends_nobody() -> None:
    ids, first, second, _ = taken("takeover")
    ids.lose("ada", first.id)
    assert second.taken == 0
    ids.lose("ada", second.id)
    ids.lose("ada", second.id)
    assert second.taken == 1 and ids.claim("ada", first)
