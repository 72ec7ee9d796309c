"""Hashes of passcodes: salted anew each time, dear to check, and nothing that is stored can make a check raise."""

from __future__ import annotations

import pytest
from argon2 import extract_parameters

from broker.seams.passcodes import MEMORY_KIB, PARALLELISM, SHORT, TIME_COST, hash_passcode, verify, weakness


def test_only_the_passcode_itself_belongs_to_its_hash():
    hash = hash_passcode("pässcode")
    assert verify(hash, "pässcode")
    for other in ("", "passcode", "pässcode ", "Pässcode"):
        assert not verify(hash, other)
    assert "pässcode" not in hash
    assert hash_passcode("pässcode") != hash, "a salt of its own: equal passcodes cannot be told by their hashes"


def test_a_hash_costs_what_owasp_asks_for():
    cost = extract_parameters(hash_passcode("x"))
    assert (cost.time_cost, cost.memory_cost, cost.parallelism) == (TIME_COST, MEMORY_KIB, PARALLELISM)
    assert cost.type.name == "ID" and TIME_COST >= 2 and MEMORY_KIB >= 19 * 1024


@pytest.mark.parametrize(
    "hash",
    ["", "plain", "$argon2id$", "$2b$12$abcdefghijklmnopqrstuv", "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$",
     "$argon2id$v=19$m=19456,t=2,p=1$!!$!!"],
)  # fmt: skip
def test_what_is_no_hash_belongs_to_nobody(hash):
    assert verify(hash, "") is False and verify(hash, hash) is False


def test_a_short_passcode_is_told_with_what_to_take_instead():
    assert weakness("x" * SHORT) == ""
    told = weakness("x" * (SHORT - 1))
    assert told.startswith(f"Warning: {SHORT - 1} characters") and f"{SHORT} or more" in told
    assert weakness("")
