"""Many selectors asked of a message at once.

Selectors that need a certain value of one header, `type = 'a'`, `rank = 5` or `type IN (…)`, are found by that value: a
hundred of them cost one look at the header. The others are asked one by one.

Rule: each selector has a bit; the answer is the sum of the bits that match. Must not know consumers.
"""

from __future__ import annotations

from broker.core.message import Run
from broker.selector import Key, Predicate
from broker.selector.heads import head_of, raw, shared, text
from broker.selector.values import number


class Table:
    """Selectors that need a certain value of one header: raw value, or the number that it looks like → bits that match,
    and those still to be asked. numbers: there are such."""

    __slots__ = ("asked", "certain", "name", "numbers")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.numbers = False
        self.certain: dict[bytes | int | float, int] = {}
        self.asked: dict[bytes | int | float, list[tuple[int, Predicate]]] = {}

    def add(self, bit: int, selector: Predicate, key: Key) -> None:
        self.numbers = self.numbers or bool(key.numbers)
        for value in (*key.values, *key.numbers):
            if key.exact:
                self.certain[value] = self.certain.get(value, 0) | bit
            else:
                self.asked.setdefault(value, []).append((bit, selector))


class Sieve:
    """asked: bits of all its selectors.    overran   bits of those that would have cost too much, and over what."""

    __slots__ = ("_address", "_each", "_others", "_tables", "_watched", "asked", "overran")

    def __init__(self, selectors: list[tuple[int, Predicate]], address: str) -> None:
        """`address`: of the messages, for AMQAddress."""
        self.asked = 0
        self.overran: list[tuple[int, str]] = []
        self._watched = [(bit, selector.meter) for bit, selector in selectors if selector.meter is not None]
        self._address = address
        self._tables: list[Table] = []
        self._others: list[tuple[int, Predicate]] = []
        self._each = any(selector.each for _, selector in selectors)
        tables: dict[bytes, Table] = {}
        for bit, selector in selectors:
            self.asked |= bit
            if selector.key is None:
                self._others.append((bit, selector))
                continue
            name = selector.key.name
            if name not in tables:
                tables[name] = Table(name)
                self._tables.append(tables[name])
            tables[name].add(bit, selector, selector.key)

    def bits(self, run: Run, index: int, head: bytes) -> int:
        """Of message `index`; head: heads.head_of() of it."""
        found, address = 0, self._address
        for table in self._tables:
            value = raw(head, table.name)
            if value is None:
                continue
            found |= table.certain.get(value, 0)
            others = table.asked.get(value, ())
            if table.numbers and (amount := number(text(value).strip())) is not None:
                found |= table.certain.get(amount, 0)
                others = (*others, *table.asked.get(amount, ()))
            for bit, selector in others:
                if selector.test(head, run, index, address) is True:
                    found |= bit
        for bit, selector in self._others:
            if selector.test(head, run, index, address) is True:
                found |= bit
        return found

    def sift(self, run: Run) -> dict[int, list[int]] | int:
        """Bits → indices of the messages they match, in the order of their first one; an int: all match these."""
        if not self.asked:
            return 0
        found = self._sift(run)
        for bit, meter in self._watched:
            if why := meter.overran():
                self.overran.append((bit, why))
        return found

    def _sift(self, run: Run) -> dict[int, list[int]] | int:
        if shared(run) and not self._each:
            return self.bits(run, 0, head_of(run, 0))
        result: dict[int, list[int]] = {}
        for at in range(len(run.records)):
            result.setdefault(self.bits(run, at, head_of(run, at)), []).append(at)
        if len(result) == 1:
            return next(iter(result))
        return result
