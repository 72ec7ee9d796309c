"""Passcodes and their argon2id hashes: here, because a hash has a random salt in it.

Rule: passcodes come in, hashes go out; nothing is kept. Both functions take about 40 ms: callers on an event loop use a
thread. Must not know whose passcode it is.
"""

from __future__ import annotations

TIME_COST, MEMORY_KIB, PARALLELISM = 2, 19 * 1024, 1
"""OWASP's argon2id minimum: about 40 ms and 19 MiB per check, so that guessing is dear and logging in is not."""


SHORT = 8
"""Characters: NIST SP 800-63B §5.1.1.1 wants as many at least."""


def weakness(passcode: str) -> str:
    """What to tell the user who has chosen it; empty: nothing."""
    if len(passcode) >= SHORT:
        return ""
    return f"Warning: {len(passcode)} characters can be guessed; take {SHORT} or more, 20 random ones for programs."


def hash_passcode(passcode: str) -> str:
    """A fresh salted hash."""
    from argon2 import PasswordHasher  # 30 ms and 4 MB: only those who need it

    return PasswordHasher(TIME_COST, MEMORY_KIB, PARALLELISM).hash(passcode)


def verify(hash: str, passcode: str) -> bool:
    """Whether `passcode` belongs to `hash`; False as well for a hash that argon2 cannot read. Any thread."""
    from argon2 import PasswordHasher
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return PasswordHasher().verify(hash, passcode)
    except (VerificationError, InvalidHashError):
        return False
