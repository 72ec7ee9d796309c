"""Numbers in what others write: clients, peers, files, keys of the store. The one place where such texts are read.

Rule: ASCII digits, and no more of them than all who carry the number on have room for; anything else is no number, and
is refused by the reader of the setting or header. No sign, no blank, no underscore.
"""

# Why not int() alone: it takes "1_0", "+5" and " 5", and str.isdigit() lets through "٣", which int() reads as 3, and
# "²", at which int() throws. Two readers who disagree about a number disagree about a message: an ACK of 1_0 was one
# of message 10.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

DIGITS: Final = 18
"""Below 2^63 whatever they are: no field on a wire, in the log or in a column is too small for it."""
_BEYOND: Final = 10**DIGITS
AGES: Final[Mapping[str, int]] = {
    "Y": 365 * 86_400, "M": 30 * 86_400, "D": 86_400, "h": 3600, "m": 60, "s": 1,
}  # fmt: skip
"""Unit of an age, as RabbitMQ has it in x-max-age → seconds."""


def natural(text: str | bytes, digits: int = DIGITS) -> int | None:
    """0, 1, 2, … of at most `digits` digits; None for anything else."""
    return int(text) if text.isdigit() and text.isascii() and len(text) <= digits else None


def naturals(texts: Sequence[bytes]) -> list[int] | None:
    """All of them, in one step; None where one is no number."""
    # One look at all bytes: what int() takes beyond digits is in none of them. A text without any, and one of
    # thousands, int() refuses.
    if not b"".join(texts).isdigit():
        return None
    try:
        numbers = list(map(int, texts))
    except ValueError:
        return None
    return numbers if max(numbers) < _BEYOND else None


def integer(text: str, digits: int = DIGITS) -> int | None:
    """The same, perhaps with a minus in front."""
    found = natural(text.removeprefix("-"), digits)
    return -found if found is not None and text.startswith("-") else found


def age_ms(text: str) -> int | None:
    """The milliseconds of an age as RabbitMQ writes it, `7D` or `12h`; None for anything else."""
    number, unit = natural(text[:-1], 9), text[-1:]
    return None if number is None or unit not in AGES else 1000 * number * AGES[unit]
