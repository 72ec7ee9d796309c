"""How values of a selector are compared and computed: null, bool, int, float and text.

Rule: None is unknown, and whatever unknown takes part in is unknown. Every function is total: no value of a header may
raise. Must not know messages.

Headers are texts. What a text is worth beside a number or a boolean is said by the mode:
    STRICT   nothing: texts differ from numbers                                   (Artemis without prefix)
    CONVERT  it is parsed as the type of the other side, "21.5" is no int         (Artemis' convert_string_expressions:)
    AUTO     it is the number or boolean that it looks like, blanks around it do not count
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import IntEnum
from operator import ge, gt, le, lt
from typing import Any, Final

Value = Any
"""None, bool, int, float or str."""


class Mode(IntEnum):
    """See the head of this file."""

    STRICT = 0
    CONVERT = 1
    AUTO = 2


MAX_DIGITS: Final = 64
"""Characters of a text that may be a number."""
MAX_JOINED: Final = 64 * 1024
"""Characters of texts joined by +. Why: each + copies what it has so far; a long sum of a long header took seconds."""
MAX_COST: Final = 1 << 23
"""Of one evaluation, in about nanoseconds: 8 ms, of which no more than this holds the loop. Why no setting: what one
subscriber may cost all others is not to be traded."""
_INT: Final = re.compile(r"[+-]?[0-9]{1,18}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


class TooCostlyError(Exception):
    """This evaluation would cost more than MAX_COST; the text says because of what."""


def whole(text: str) -> int | None:
    """A text as an int, or None."""
    return int(text) if _INT.fullmatch(text) else None


def number(text: str) -> int | float | None:
    """A text as the number it looks like, or None."""
    found = whole(text)
    if found is not None:
        return found
    if len(text) > MAX_DIGITS or not _FLOAT.fullmatch(text):
        return None
    return float(text)


def beside(text: str, other: Value, mode: Mode) -> Value:
    """What a text is worth beside a bool or a number; a str: nothing."""
    if mode is Mode.STRICT:
        return text
    if isinstance(other, bool):
        lowered = text.strip().lower() if mode is Mode.AUTO else text.lower()
        return True if lowered == "true" else False if mode is Mode.CONVERT or lowered == "false" else text
    if mode is Mode.AUTO:
        found: int | float | None = number(text.strip())
    elif isinstance(other, int):
        found = whole(text)
    else:
        found = number(text)
    return text if found is None else found


def _matched(left: Value, right: Value, mode: Mode) -> tuple[Value, Value]:
    """Both sides as one type, if that can be."""
    if isinstance(left, str):
        if not isinstance(right, str):
            left = beside(left, right, mode)
    elif isinstance(right, str):
        right = beside(right, left, mode)
    return left, right


def equal(left: Value, right: Value, mode: Mode) -> bool | None:
    """=: values of different types differ."""
    if left is None or right is None:
        return None
    left, right = _matched(left, right, mode)
    if isinstance(left, str) is not isinstance(right, str) or isinstance(left, bool) is not isinstance(right, bool):
        return False
    return bool(left == right)


def ordered(operator: str) -> Callable[[Value, Value, Mode], bool | None]:
    """< <= > >=: numbers by value, two texts by their characters; anything else is false."""
    order = ORDER[operator]

    def compare(left: Value, right: Value, mode: Mode) -> bool | None:
        if left is None or right is None:
            return None
        left, right = _matched(left, right, mode)
        if isinstance(left, bool) or isinstance(right, bool) or isinstance(left, str) is not isinstance(right, str):
            return False
        return order(left, right)

    return compare


def compute(operator: str, left: Value, right: Value, mode: Mode) -> Value:
    """+ - * / %: None where a side is no number. A text on the left of + is joined with what stands on the right,
    unless both look like numbers (AUTO); None: longer than MAX_JOINED."""
    if left is None or right is None:
        return None
    if operator == "+" and isinstance(left, str) and not (mode is Mode.AUTO and _numbers(left, right)):
        joined = left + _shown(right)
        return joined if len(joined) <= MAX_JOINED else None
    first, second = operand(left, mode), operand(right, mode)
    if first is None or second is None:
        return None
    if operator in "/%":
        return _divide(float(first), float(second), operator)
    result = first + second if operator == "+" else first - second if operator == "-" else first * second
    # Beyond 64 bits a double: numbers that grow with the selector would take ever longer.
    return result if isinstance(result, float) or -(1 << 63) <= result < 1 << 63 else float(result)


def _numbers(text: str, other: Value) -> bool:
    """Do both look like numbers."""
    if number(text.strip()) is None:
        return False
    return number(other.strip()) is not None if isinstance(other, str) else not isinstance(other, bool)


def operand(value: Value, mode: Mode) -> int | float | None:
    """A value as a number to compute with, or None."""
    if isinstance(value, str):
        return None if mode is Mode.STRICT else number(value.strip() if mode is Mode.AUTO else value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _divide(left: float, right: float, operator: str) -> float:
    if right == 0.0 or math.isinf(left):
        return math.copysign(math.inf, left) * math.copysign(1.0, right) if operator == "/" and left else math.nan
    return left / right if operator == "/" else math.fmod(left, right)


def _shown(value: Value) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def like_weight(pattern: str, escape: str) -> int:
    """About nanoseconds for each byte of what is matched with it, at worst."""
    long = sum([len(piece) for piece in _pieces(pattern, escape) if None in piece and len(piece) > SHORT])
    return 4 + (80 if "_" in pattern else 0) + (100 + long // 30 if long else 0)


def liker(pattern: str, escape: str) -> Callable[[str], bool]:
    """LIKE: `%` any text, `_` any character, `escape` takes the meaning of those two and of itself.

    The pieces between the `%` are looked for one behind the other: leftmost is always good enough, so there is no
    going back, whatever the pattern: no part of the text is looked at for two of them."""
    pieces = _pieces(pattern, escape)
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return lambda text: len(text) == len(first) and _at(first, text, 0)

    def like(text: str) -> bool:
        end = len(text) - len(last)
        if end < len(first) or not _at(first, text, 0) or not _at(last, text, end):
            return False
        at = len(first)
        for piece in middle:
            found = piece(text, at, end)
            if found < 0:
                return False
            at = found
        return True

    middle = [_finder(piece) for piece in pieces[1:-1] if piece]
    return like


Piece = list[str | None]
"""Characters; None: any."""


def _pieces(pattern: str, escape: str) -> list[Piece]:
    if not escape or escape not in pattern:
        return [[None if char == "_" else char for char in piece] for piece in pattern.split("%")]
    pieces: list[Piece] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        behind = pattern[at + 1 : at + 2]
        if escape and char == escape and behind and (behind in "%_" or behind == escape):
            pieces[-1].append(behind)
            at += 1
        elif char == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if char == "_" else char)
        at += 1
    return pieces


def _at(piece: Piece, text: str, at: int) -> bool:
    return all(char is None or char == text[at + n] for n, char in enumerate(piece))


SHORT: Final = 32
"""Characters of a piece with `_` in it which is tried at each place, one behind the other: a constant factor."""


def _finder(piece: Piece) -> Callable[[str, int, int], int]:
    """(text, from, to) → behind the first place where the piece stands, or -1."""
    length = len(piece)
    if None not in piece:
        exact = "".join([char for char in piece if char is not None])

        def find(text: str, at: int, end: int) -> int:
            found = text.find(exact, at, end)
            return found + length if found >= 0 else -1

        return find
    if length > SHORT:
        return _wide_finder(piece)
    # No repetition in it: the engine tries each place once.
    compiled = re.compile("".join(["." if char is None else re.escape(char) for char in piece]), re.DOTALL)

    def search(text: str, at: int, end: int) -> int:
        match = compiled.search(text, at, end)
        return match.end() if match else -1

    return search


def _wide_finder(piece: Piece) -> Callable[[str, int, int], int]:
    """All places of a window are tried at once: a number has a bit per place, and each character of the piece leaves
    those where it stands so far behind. One operation of the machine is 30 places or more, and what lies behind the
    window of the first match is not looked at: linear in the text, whatever text and piece are."""
    length = len(piece)
    wanted = [(n, char) for n, char in enumerate(piece) if char is not None]
    chars = {char for _, char in wanted}
    if not wanted:
        return lambda text, at, end: at + length if at + length <= end else -1

    def search(text: str, at: int, end: int) -> int:
        while at + length <= end:
            stop = min(at + 8 * length, end)
            places = _places(text[at:stop], chars)
            left = (1 << (stop - at - length + 1)) - 1
            for n, char in wanted:
                left &= places.get(char, 0) >> n
                if not left:
                    break
            else:
                return at + (left & -left).bit_length() - 1 + length
            at = stop - length + 1
        return -1

    return search


def _places(text: str, chars: set[str]) -> dict[str, int]:
    """Character → a bit for each place where it stands."""
    size = len(text) // 8 + 1
    found: dict[str, bytearray] = {}
    for at, char in enumerate(text):
        if char in chars:
            bits = found.get(char)
            if bits is None:
                bits = found[char] = bytearray(size)
            bits[at >> 3] |= 1 << (at & 7)
    return {char: int.from_bytes(bits, "little") for char, bits in found.items()}
