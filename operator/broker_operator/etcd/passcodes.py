"""Passcodes of StompUsers: verifiers, rotation with grace, made-up passcodes.

Rule: passcodes come in, verifiers stay. decide() is pure but for the salt; argon2 takes 40 ms, so callers use a thread.
What must be remembered stands in the key's marker, so that a new operator knows it without checking every passcode.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from broker.seams.entropy import token
from broker.seams.passcodes import hash_passcode, verify

from ..spec.conditions import rfc3339, seconds_of

MOST_PREVIOUS = 3
"""Passcodes from before that are valid at once: each costs an edge another check of a wrong one."""
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
"""Those that nobody takes for one another."""


def made_up(length: int) -> str:
    """A passcode of `length` characters, about 5.8 bits each."""
    found = ""
    while len(found) < length:
        # Bytes above the largest multiple are dropped: every letter is equally likely.
        most = 256 - 256 % len(_LETTERS)
        found += "".join(_LETTERS[byte % len(_LETTERS)] for byte in bytes.fromhex(token(64)) if byte < most)
    return found[:length]


class Verifier(NamedTuple):
    """value: of the user's key.   memory: for its marker.   rotated: when the passcode last changed, RFC 3339.
    next: when one from before ends (seconds since the epoch), None = there is none."""

    value: dict[str, Any]
    memory: dict[str, Any]
    rotated: str
    next: float | None


def fingerprint(hash: str) -> str:
    return hashlib.sha256(hash.encode()).hexdigest()[:32]


def foreign(current: Mapping[str, Any], memory: Mapping[str, Any]) -> bool:
    """The user's key does not hold what we once wrote there."""
    known = str(memory.get("hash", ""))
    return bool(known) and not hmac.compare_digest(known, fingerprint(str(current.get("hash", ""))))


def decide(
    passcode: str,
    secret: str,
    groups: list[str],
    grace_s: float,
    current: dict[str, Any],
    memory: dict[str, Any],
    now: float,
    hasher: Callable[[str], str] = hash_passcode,
    checker: Callable[[str, str], bool] = verify,
) -> Verifier:
    """secret    which version of the Secret the passcode is from; the same as remembered: nothing is checked.
    current   the user's key as it is, {} = none.      memory   what the marker remembers, {} = nothing."""
    hash = str(current.get("hash", ""))
    ours = bool(hash) and bool(memory.get("hash")) and not foreign(current, memory)
    previous = [
        (one["hash"], one["until"]) for one in memory.get("previous", []) if (seconds_of(one["until"]) or 0) > now
    ]
    rotated = str(memory.get("rotated") or rfc3339(now))
    if not (ours and memory.get("secret") == secret) and not (hash and checker(hash, passcode)):
        if ours and grace_s > 0:
            previous.insert(0, (hash, rfc3339(now + grace_s)))
        hash, rotated = hasher(passcode), rfc3339(now)
    previous = previous[:MOST_PREVIOUS]
    value: dict[str, Any] = {"hash": hash, "groups": groups}
    if previous:
        value["previous"] = [one for one, _ in previous]
    return Verifier(
        value,
        {
            "secret": secret,
            "hash": fingerprint(hash),
            "rotated": rotated,
            "previous": [{"hash": one, "until": until} for one, until in previous],
        },
        rotated,
        min((seconds_of(until) or now for _, until in previous), default=None),
    )
