"""A selector's tree as functions over a message.

Rule: a test gives True, False or None (unknown), and never raises. All that can be decided before the first message
is decided here. Must not know the language's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker.core.errors import Code, RefusedError
from broker.core.message import DURABLE, Run

from .heads import body_of, key, plain, text
from .syntax import And, Compare, In, IsNull, Like, Literal, Name, Negative, Node, Not, Or, Sum, XPath
from .values import ORDER, Mode, beside, compute, equal, like_weight, liker, operand, ordered
from .xpath import matcher

Getter = Callable[[bytes, Run, int, str], Any]
"""(head, run, index, address) → value."""
Test = Callable[[bytes, Run, int, str], bool | None]

ALIASES: Final = {
    "AMQGroupID": "JMSXGroupID",
    "AMQUserID": "JMSXUserID",
    "JMSType": "type",
    "JMSCorrelationID": "correlation-id",
    "JMSReplyTo": "reply-to",
}
"""Headers that go by other names in JMS."""

NAME_WEIGHT: Final = 2
"""To find a header among others, and to take its value."""

OWN: Final[dict[str, Getter]] = {
    "AMQDurable": lambda head, run, index, address: "DURABLE" if run.flags & DURABLE else "NON_DURABLE",
    "JMSDeliveryMode": lambda head, run, index, address: "PERSISTENT" if run.flags & DURABLE else "NON_PERSISTENT",
    "AMQPriority": lambda head, run, index, address: run.priority,
    "AMQExpiration": lambda head, run, index, address: run.expires,
    "AMQTimestamp": lambda head, run, index, address: run.time,
    "AMQSize": lambda head, run, index, address: run.size_of(index),
    "AMQMessageID": lambda head, run, index, address: run.ids[index] if len(run.ids) else 0,
    "AMQAddress": lambda head, run, index, address: address,
    "priority": lambda head, run, index, address: run.priority,
    "JMSPriority": lambda head, run, index, address: run.priority,
    "JMSTimestamp": lambda head, run, index, address: run.time,
    "JMSExpiration": lambda head, run, index, address: run.expires,
}
"""Names that are not headers."""

CONSTANTS: Final = {
    "AMQDurable": frozenset({"DURABLE", "NON_DURABLE"}),
    "JMSDeliveryMode": frozenset({"PERSISTENT", "NON_PERSISTENT"}),
}
"""All that these can be: beside anything else they would match nothing, or all, in silence."""


def header_of(node: Node) -> bytes | None:
    """The header a node names, as it is looked for; None: it is something else."""
    if not isinstance(node, Name) or node.name in OWN:
        return None
    return key(ALIASES.get(node.name, node.name))


def single(node: Node) -> bool:
    """Does the result depend on more than the run and its headers, so that every message has to be looked at."""
    match node:
        case Name():
            return node.name in ("AMQSize", "AMQMessageID")
        case XPath():
            return True
        case Negative() | IsNull() | Like() | In():
            return single(node.value)
        case Not():
            return single(node.condition)
        case Compare():
            return single(node.left) or single(node.right)
        case Sum():
            return single(node.first) or any(single(value) for _, value in node.rest)
        case And() | Or():
            return any(single(part) for part in node.conditions)
        case _:
            return False


def weight(node: Node) -> int:
    """About nanoseconds for each byte of a message's headers, at worst. Not what a body costs (XPATH)."""
    match node:
        case Name():
            return NAME_WEIGHT
        case Negative() | IsNull() | In():
            return weight(node.value)
        case Like():
            return weight(node.value) + like_weight(node.pattern, node.escape)
        case Not():
            return weight(node.condition)
        case Compare():
            return weight(node.left) + weight(node.right)
        case Sum():
            return weight(node.first) + sum([weight(value) for _, value in node.rest])
        case And() | Or():
            return sum([weight(part) for part in node.conditions])
        case _:
            return 0


def reads_bodies(node: Node) -> bool:
    """Is there an XPATH in it."""
    match node:
        case XPath():
            return True
        case Negative() | IsNull() | Like() | In():
            return reads_bodies(node.value)
        case Not():
            return reads_bodies(node.condition)
        case Compare():
            return reads_bodies(node.left) or reads_bodies(node.right)
        case Sum():
            return reads_bodies(node.first) or any(reads_bodies(value) for _, value in node.rest)
        case And() | Or():
            return any(reads_bodies(part) for part in node.conditions)
        case _:
            return False


def test_of(node: Node, mode: Mode) -> Test:
    """A condition. Raises RefusedError (XPATH that cannot be, a constant that a name never is)."""
    match node:
        case And():
            return _joined([test_of(part, mode) for part in node.conditions], False)
        case Or():
            return _joined([test_of(part, mode) for part in node.conditions], True)
        case Not():
            return _opposite(test_of(node.condition, mode))
        case Compare():
            return _comparison(node, mode)
        case IsNull():
            return _null(node.value, mode)
        case Like():
            return _like(node, mode)
        case In():
            return _in(node)
        case XPath():
            return _xpath(node)
        case _:
            return _truth(getter_of(node, mode), mode)


def getter_of(node: Node, mode: Mode) -> Getter:
    """A value."""
    match node:
        case Literal():
            value = node.value
            return lambda head, run, index, address: value
        case Name():
            wanted = header_of(node)
            return OWN[node.name] if wanted is None else _header(wanted)
        case Negative():
            return _negative(getter_of(node.value, mode), mode)
        case Sum():
            return _sum(node, mode)
        case _:
            return test_of(node, mode)


# ── conditions ─────────────────────────────────────────────────────────────────────────────────────────


def _joined(tests: list[Test], decisive: bool) -> Test:
    """AND is decided by the first False, OR by the first True."""

    def test(head: bytes, run: Run, index: int, address: str) -> bool | None:
        result: bool | None = not decisive
        for part in tests:
            found = part(head, run, index, address)
            if found is decisive:
                return decisive
            if found is None:
                result = None
        return result

    return test


def _opposite(condition: Test) -> Test:
    def test(head: bytes, run: Run, index: int, address: str) -> bool | None:
        found = condition(head, run, index, address)
        return None if found is None else not found

    return test


def _truth(value: Getter, mode: Mode) -> Test:
    """A name, or TRUE, FALSE, NULL, alone."""

    def test(head: bytes, run: Run, index: int, address: str) -> bool | None:
        found = value(head, run, index, address)
        if isinstance(found, str):
            found = beside(found, True, mode)
        return None if found is None else found is True

    return test


def _comparison(node: Compare, mode: Mode) -> Test:
    operator, left, right = node.operator, node.left, node.right
    for name, other in ((left, right), (right, left)):
        if isinstance(name, Name) and isinstance(other, Literal):
            _check_constants(name, [other.value])
    if isinstance(left, Literal) and operator in ("=", "<>"):
        left, right = right, left
    wanted = header_of(left)
    if wanted is not None and isinstance(right, Literal) and isinstance(right.value, str):
        exact = plain(right.value)
        if exact is not None:
            return _header_is(wanted, exact + b"\n", operator == "=")
    orders = operator not in ("=", "<>") and mode is not Mode.STRICT
    if wanted is not None and orders and isinstance(right, Literal) and isinstance(right.value, int):
        return _digits(wanted, operator, right.value, mode)
    compare = equal if operator in ("=", "<>") else ordered(operator)
    first, second = getter_of(left, mode), getter_of(right, mode)

    def test(head: bytes, run: Run, index: int, address: str) -> bool | None:
        return compare(first(head, run, index, address), second(head, run, index, address), mode)

    return _opposite(test) if operator == "<>" else test


def _check_constants(name: Name, values: Iterable[str | float | bool | None]) -> None:
    """Raises RefusedError(BAD_SELECTOR): it is never one of the values."""
    known = CONSTANTS.get(name.name, ())
    for value in values:
        if known and value is not None and value not in known:
            raise RefusedError(
                Code.BAD_SELECTOR,
                f"{name.name} is never {str(value)[:100]!r}: compare it with {' or '.join(map(repr, sorted(known)))}",
            )


def _header_is(wanted: bytes, line: bytes, same: bool) -> Test:
    """The short cut of name = 'text': no value is taken out of the bytes."""
    length, other = len(wanted), not same

    def test(head: bytes, run: Run, index: int, address: str) -> bool | None:
        at = head.find(wanted)
        if at < 0:
            return None
        return same if head.startswith(line, at + length) else other

    return test


def _digits(wanted: bytes, operator: str, literal: int, mode: Mode) -> Test:
    """The short cut of name > 5: most values are plain digits."""
    compare, order, length = ordered(operator), ORDER[operator], len(wanted)

    def test(head: bytes, run: Run, index: int, address: str) -> bool | None:
        at = head.find(wanted)
        if at < 0:
            return None
        at += length
        value = head[at : head.index(b"\n", at)]
        if value.isdigit() and len(value) < 19:
            return order(int(value), literal)
        return compare(text(value), literal, mode)

    return test


def _null(value: Node, mode: Mode) -> Test:
    getter = getter_of(value, mode)
    return lambda head, run, index, address: getter(head, run, index, address) is None


def _like(node: Like, mode: Mode) -> Test:
    getter, like = getter_of(node.value, mode), liker(node.pattern, node.escape)

    def test(head: bytes, run: Run, index: int, address: str) -> bool | None:
        found = getter(head, run, index, address)
        if found is None:
            return None
        return isinstance(found, str) and like(found)

    return test


def _in(node: In) -> Test:
    _check_constants(node.value, sorted(node.values))
    getter, values = getter_of(node.value, Mode.STRICT), node.values

    def test(head: bytes, run: Run, index: int, address: str) -> bool | None:
        found = getter(head, run, index, address)
        return found in values if isinstance(found, str) else None

    return test


def _xpath(node: XPath) -> Test:
    matches = matcher(node.expression)

    def test(head: bytes, run: Run, index: int, address: str) -> bool | None:
        body = body_of(run, index)
        return body is not None and matches(body)

    return test


# ── values ─────────────────────────────────────────────────────────────────────────────────────────────


def _header(wanted: bytes) -> Getter:
    length = len(wanted)

    def getter(head: bytes, run: Run, index: int, address: str) -> str | None:
        at = head.find(wanted)
        if at < 0:
            return None
        at += length
        return text(head[at : head.index(b"\n", at)])

    return getter


def _negative(value: Getter, mode: Mode) -> Getter:
    def getter(head: bytes, run: Run, index: int, address: str) -> int | float | None:
        found = operand(value(head, run, index, address), mode)
        return None if found is None else -found

    return getter


def _sum(node: Sum, mode: Mode) -> Getter:
    first = getter_of(node.first, mode)
    rest = [(operator, getter_of(value, mode)) for operator, value in node.rest]

    def getter(head: bytes, run: Run, index: int, address: str) -> Any:
        result = first(head, run, index, address)
        for operator, value in rest:
            if result is None:
                return None
            result = compute(operator, result, value(head, run, index, address), mode)
        return result

    return getter
