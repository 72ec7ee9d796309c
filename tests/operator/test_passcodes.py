"""Verifiers: made once, rotated with grace, never left to whoever edits etcd."""

from __future__ import annotations

from broker_operator.etcd.passcodes import Verifier, decide, made_up

NOW = 1_800_000_000.0


def hasher(passcode: str) -> str:
    return "$argon2id$" + passcode


def checker(hash: str, passcode: str) -> bool:
    return hash == hasher(passcode)


def never(hash: str, passcode: str) -> bool:
    raise AssertionError("a check costs 40 ms")


def step(
    passcode: str, secret: str, before: Verifier | None = None, now: float = NOW, check=checker, **current
) -> Verifier:
    return decide(
        passcode, secret, ["g"], 600, current or (before.value if before else {}), before.memory if before else {}, now,
        hasher, check,
    )  # fmt: skip


def test_the_same_secret_costs_nothing():
    first = step("one", "s/1")
    assert first.value == {"hash": "$argon2id$one", "groups": ["g"]} and first.next is None
    assert step("one", "s/1", first, NOW + 5, never) == first


def test_another_version_of_the_secret_with_the_same_passcode_is_no_rotation():
    first = step("one", "s/1")
    second = step("one", "s/2", first, NOW + 5)
    assert second.value == first.value and second.rotated == first.rotated and second.memory["secret"] == "s/2"


def test_the_passcode_from_before_stays_valid_for_a_while():
    second = step("two", "s/2", step("one", "s/1"), NOW + 10)
    assert second.value == {"hash": "$argon2id$two", "groups": ["g"], "previous": ["$argon2id$one"]}
    assert second.next == NOW + 610 and second.rotated > step("one", "s/1").rotated
    still = step("two", "s/2", second, NOW + 609, never)
    assert "previous" in still.value
    over = step("two", "s/2", second, NOW + 611, never)
    assert "previous" not in over.value and over.next is None


def test_there_are_never_many_of_them():
    found = step("0", "s/0")
    for n in range(1, 9):
        found = step(str(n), f"s/{n}", found, NOW + n)
    assert found.value["previous"] == ["$argon2id$7", "$argon2id$6", "$argon2id$5"]


def test_a_hash_that_somebody_else_wrote_is_replaced_and_gets_no_grace():
    first = step("one", "s/1")
    found = step("one", "s/1", first, NOW + 5, hash="$argon2id$foreign", groups=[])
    assert found.value == {"hash": "$argon2id$one", "groups": ["g"]}
    unmarked = step("one", "s/1", None, hash="$argon2id$foreign")
    assert unmarked.value == {"hash": "$argon2id$one", "groups": ["g"]}, "nothing says that it was ever ours"
    adopted = step("one", "s/1", None, hash="$argon2id$one")
    assert adopted.value["hash"] == "$argon2id$one", "a user that had been set by hand to the same passcode"


def test_made_up_passcodes():
    found = {made_up(32) for _ in range(50)}
    assert len(found) == 50 and {len(one) for one in found} == {32}
    assert not set("".join(found)) & set("0O1lI")
