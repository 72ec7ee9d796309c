"""What must be true of a journal after any crash: the checker of the simulations.

Knows the promises only: told = durable; settled and told = never again; nothing that was not sent; order;
groups whole. Feed it what was appended and told, then show it what recovery brought back.
"""

from __future__ import annotations

from broker.core.message import TRANSIENT
from broker.core.records import GroupRecord, LogRecord, MetaRecord, RunRecord, SettleRecord
from broker.journal.journal import Journal

Ref = tuple[int, int, int]
"""slot, queue, message id"""


class Violation(AssertionError):
    """The journal broke a promise; the text names which."""


class Sent:
    __slots__ = ("body", "durable", "group", "settle")

    def __init__(self, body: bytes, group: int) -> None:
        self.body = body
        self.group = group
        self.durable = False
        self.settle = 0
        """0 = live, 1 = settled, 2 = settled and told."""


class Checker:
    def __init__(self) -> None:
        self.sent: dict[Ref, Sent] = {}
        self.counters: dict[tuple[int, str], list[int]] = {}
        """(slot, key) → [told value, appended value]"""
        self.settled_for_good: set[Ref] = set()
        self._untold: list[LogRecord] = []
        self._groups = 0

    # ── what happened ──────────────────────────────────────────────────────────────────────────────

    def appended(self, record: LogRecord) -> None:
        self._untold.append(record)
        if isinstance(record, GroupRecord):
            self._groups += 1
            for member in record.records:
                self._appended(member, self._groups)
        else:
            self._appended(record, 0)

    def _appended(self, record: RunRecord | SettleRecord | MetaRecord, group: int) -> None:
        if isinstance(record, RunRecord):
            if record.run.flags & TRANSIENT:
                return
            for queue in record.queues:
                for i, body in zip(record.run.ids, record.run.records, strict=True):
                    self.sent[record.slot, queue, i] = Sent(record.run.lines + body, group)
        elif isinstance(record, SettleRecord):
            for ref in self._refs(record):
                if (sent := self.sent.get(ref)) is not None:
                    sent.settle = max(sent.settle, 1)
        else:
            for key, value in record.data.items():
                self.counters.setdefault((record.slot, key), [0, 0])[1] = value

    def sealed(self) -> list[LogRecord]:
        """What the next `told` is about."""
        records, self._untold = self._untold, []
        return records

    def told(self, records: list[LogRecord]) -> None:
        """write() has returned."""
        for record in records:
            for member in record.records if isinstance(record, GroupRecord) else [record]:
                self._told(member)

    def _told(self, record: RunRecord | SettleRecord | MetaRecord) -> None:
        if isinstance(record, RunRecord):
            for queue in record.queues:
                for i in record.run.ids:
                    if (sent := self.sent.get((record.slot, queue, i))) is not None:
                        sent.durable = True
        elif isinstance(record, SettleRecord):
            for ref in self._refs(record):
                if (sent := self.sent.get(ref)) is not None:
                    sent.settle = 2
        else:
            for key, value in record.data.items():
                self.counters[record.slot, key][0] = value

    @staticmethod
    def _refs(record: SettleRecord) -> list[Ref]:
        return [(record.slot, record.queue, i) for a, b in record.spans for i in range(a, b + 1)]

    # ── what came back ─────────────────────────────────────────────────────────────────────────────

    def check(self, journal: Journal) -> None:
        """Raises Violation. Afterwards the model is what recovery said."""
        found = self._found(journal)
        for ref, body in found.items():
            sent = self.sent.get(ref)
            if sent is None:
                raise Violation(f"ghost or resurrected: {ref}")
            if sent.body != body:
                raise Violation(f"bytes differ: {ref}")
            if sent.settle == 2:
                raise Violation(f"settled message came back: {ref}")
        for ref, sent in self.sent.items():
            if sent.durable and not sent.settle and ref not in found:
                raise Violation(f"lost: {ref}")
        self._check_groups(found)
        self._check_counters(journal)
        self.sent = {ref: self.sent[ref] for ref in found}
        for sent in self.sent.values():
            sent.durable, sent.settle, sent.group = True, 0, 0
        self._untold = []

    def _found(self, journal: Journal) -> dict[Ref, bytes]:
        found: dict[Ref, bytes] = {}
        tops: dict[int, int] = {}
        records = list(journal.recovered.runs())
        for record, settled in records:
            run = record.run
            if run.ids[0] < tops.get(record.slot, 0):
                raise Violation(f"order: run {run.ids!r} behind {tops[record.slot]}")
            tops[record.slot] = run.ids[0]
            back = {
                i: b.lines + body
                for b in journal.read([run.position], 1)
                for i, body in zip(b.ids, b.records, strict=True)
            }
            for queue in record.queues:
                gone = settled.get(queue, [])
                for i in run.ids:
                    if any(a <= i <= b for a, b in gone):
                        continue
                    if (record.slot, queue, i) in found:
                        raise Violation(f"twice: {record.slot, queue, i}")
                    found[record.slot, queue, i] = back[i]
        return found

    def _check_groups(self, found: dict[Ref, bytes]) -> None:
        groups: dict[int, set[bool]] = {}
        for ref, sent in self.sent.items():
            if sent.group and not sent.settle:
                groups.setdefault(sent.group, set()).add(ref in found)
        torn = [group for group, seen in groups.items() if len(seen) > 1]
        if torn:
            raise Violation(f"groups came back in part: {torn}")

    def _check_counters(self, journal: Journal) -> None:
        state: dict[tuple[int, str], int] = {}
        for meta in journal.recovered.metas:
            for key, value in meta.data.items():
                state[meta.slot, key] = value
        for key, (told, last) in self.counters.items():
            value = state.get(key, 0)
            if not told <= value <= last:
                raise Violation(f"small state {key}: {value}, told {told}, last {last}")
            self.counters[key] = [value, value]
