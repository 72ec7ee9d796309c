"""Randomness. Rule: nobody else asks for it, so a simulation can be repeated from its seed."""

from __future__ import annotations

import secrets


def token(nbytes: int) -> str:
    """A fresh unguessable lower-case hex text of 2 × nbytes characters."""
    return secrets.token_hex(nbytes)


def number(bits: int) -> int:
    """A fresh unguessable number from 1 to 2**bits - 1."""
    return secrets.randbelow((1 << bits) - 1) + 1
