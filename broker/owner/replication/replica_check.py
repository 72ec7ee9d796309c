"""Do all replicas of a slot have the same? The leader and its followers look at the same point of the log and compare.

Rule: a look takes nothing away and changes nothing. One at a time in a process, a piece of the log at a time, at a
bounded rate, in the thread that reads copies; what an answer says is of the moment of the question. Must not know which
owners are in sync, nor which one asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from broker.core.records import MetaRecord, RunRecord
from broker.journal.replica.digest import QueueSums, alive
from broker.rpc.v1 import replica_pb2 as pb

from ..commit.io_thread import Io
from ..slots.standby import Settled, joined

PIECE_BYTES: Final = 256 * 1024
"""Of messages, looked at in one go."""
PIECE_RUNS: Final = 2_000
"""Of the memory, in one go."""
PAUSE_S: Final = 0.01
"""Between two pieces: at most 25 MB/s of the disk and some tenths of a core."""
ANSWER_S: Final = 300.0
"""How long the followers' answers are waited for: some gigabytes per slot."""

Kept = Sequence[tuple[RunRecord, Settled]]


class QueueState(NamedTuple):
    """A queue at one replica. name: "" = its small state knows no such queue. messages, ids, content: in the log (see
    journal/replica/digest.py). kept, kept_ids: in the memory that would lead."""

    queue: int
    name: str
    messages: int
    ids: int
    content: int
    kept: int
    kept_ids: int


@dataclass(frozen=True, slots=True)
class SlotCheck:
    """What the replicas of a slot have at one point of its log. failed: replicas that were not looked at, and why."""

    slot: int
    epoch: int
    lsn: int
    leader: str
    found: dict[str, list[QueueState]]
    failed: dict[str, str]

    def told(self) -> dict[str, Any]:
        """For programs."""
        return {
            "slot": self.slot, "epoch": self.epoch, "lsn": self.lsn, "leader": self.leader,
            "messages": sum(state.messages for state in self.found.get(self.leader, ())),
            "looked_at": sorted(self.found), "failed": self.failed,
            "differences": differences(self.leader, self.found) if self.leader in self.found else [],
        }  # fmt: skip


Answer = Callable[[SlotCheck | None], None]
Found = Callable[["list[QueueState] | None", str], None]
"""found(queues, ""), or found(None, why not)."""


class Digest(Protocol):
    """Of the journal (journal/replica/digest.py)."""

    queues: dict[int, QueueSums]

    def read(self, budget: int) -> bool: ...
    def settled(self, record: RunRecord) -> Settled | None: ...
    def close(self) -> None: ...


class DigestLog(Protocol):
    def digest(self, slot: int) -> Digest: ...


class Inspector:
    """Looks at slots of this process, one after the other."""

    def __init__(
        self,
        journal: DigestLog,
        io: Io,
        later: Callable[[float, Callable[[], None]], Any],
        durable: Callable[[Callable[[], None]], None],
    ) -> None:
        self._journal = journal
        self._io = io
        self._later = later
        self._durable = durable
        self._look: _Look | None = None

    def look(self, slot: int, metas: Iterable[MetaRecord], kept: Kept | None, found: Found) -> None:
        """At the slot as it is now. `metas`: its small state. `kept`: what a follower has in memory; None: it is led
        here."""
        # One look reads a slot's log; two would double the load on a disk that has clients.
        if self._look is not None:
            found(None, "it is looking at another slot; try again")
            return

        def over(queues: list[QueueState] | None, why: str) -> None:
            self._look = None
            found(queues, why)

        names = {meta.data["id"]: meta.data["name"] for meta in metas if meta.kind == "queue"}
        self._look = _Look(self._journal.digest(slot), names, kept, self._io, self._later, over)
        self._durable(self._look.log)


class _Look:
    """One slot being looked at: its log, then the memory."""

    def __init__(
        self, reader: Digest, names: dict[int, str], kept: Kept | None, io: Io,
        later: Callable[[float, Callable[[], None]], Any], over: Found,
    ) -> None:  # fmt: skip
        self._reader = reader
        self._names = names
        self._kept = kept
        self._io = io
        self._later = later
        self._over = over
        self._memory: dict[int, QueueSums] = {}
        self._at = 0

    def log(self) -> None:
        self._io.submit(partial(self._reader.read, PIECE_BYTES), self._log_read)

    def _log_read(self, more: bool, error: BaseException | None) -> None:
        if error is not None:
            self._end(error)
        elif more:
            self._later(PAUSE_S, self.log)
        elif self._kept is None:
            # Led here: what is in memory changes with every turn, and is not what a promotion would find.
            self._end()
        else:
            self._recall()

    def _recall(self) -> None:
        assert self._kept is not None
        piece = self._kept[self._at : self._at + PIECE_RUNS]
        self._at += PIECE_RUNS
        self._io.submit(partial(_count, self._reader, piece, self._memory), self._recalled)

    def _recalled(self, _: None, error: BaseException | None) -> None:
        assert self._kept is not None
        if error is not None or self._at >= len(self._kept):
            self._end(error)
        else:
            self._later(PAUSE_S, self._recall)

    def _end(self, error: BaseException | None = None) -> None:
        self._reader.close()
        if error is None:
            log = self._reader.queues
            self._over(_states(self._names, log, log if self._kept is None else self._memory), "")
        else:
            self._over(None, f"{type(error).__name__}: {error}")


def _count(reader: Digest, kept: Kept, sums: dict[int, QueueSums]) -> None:
    """Adds up what of these runs is alive, as a promotion would find it (standby.py)."""
    for record, before in kept:
        now = reader.settled(record)
        if now is None or (gone := joined(before, now, record)) is None:
            continue
        for queue in record.queues:
            for _, id in alive(record.run, gone.get(queue, [])):
                sums.setdefault(queue, QueueSums()).count(id)


def _states(
    names: Mapping[int, str], log: Mapping[int, QueueSums], memory: Mapping[int, QueueSums]
) -> list[QueueState]:
    nothing = QueueSums()
    states = []
    for queue in sorted({*names, *log, *memory}):
        one, kept = log.get(queue, nothing), memory.get(queue, nothing)
        name = names.get(queue, "")
        states.append(QueueState(queue, name, one.messages, one.ids, one.content, kept.messages, kept.ids))
    return states


def differences(leader: str, replicas: Mapping[str, Sequence[QueueState]]) -> list[str]:
    """What is not the same at every replica as at the leader, in words."""
    found: list[str] = []
    truth = {state.queue: state for state in replicas[leader]}
    for member, states in sorted(replicas.items()):
        theirs = {state.queue: state for state in states}
        for queue in sorted({*truth, *theirs}):
            nothing = QueueState(queue, "", 0, 0, 0, 0, 0)
            one, other = truth.get(queue, nothing), theirs.get(queue, nothing)
            name = f"queue {one.name or other.name or queue}"
            if other.name != one.name:
                calls = f"{member} calls it {other.name or 'nothing'}"
                found.append(f"{name}: {calls}, {leader} (leader) {one.name or 'nothing'}")
            if other.messages != one.messages:
                found.append(f"{name}: {member} has {other.messages} messages, {leader} (leader) {one.messages}")
            elif other.ids != one.ids:
                found.append(f"{name}: {member} has other messages than {leader} (leader), {one.messages} each")
            elif other.content != one.content:
                found.append(f"{name}: messages have other bytes at {member} than at {leader} (leader)")
            # The follower's log may be right and its memory wrong: it would lead with the memory (I5).
            if (other.kept, other.kept_ids) != (other.messages, other.ids):
                found.append(f"{name}: {member} would lead with {other.kept} messages, its log has {other.messages}")
    return found


@dataclass(slots=True)
class _Check:
    """One question. missing: replicas that have not answered."""

    missing: set[str]
    done: Callable[[dict[str, list[QueueState]], dict[str, str]], None]
    found: dict[str, list[QueueState]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Checks:
    """The leader's questions that are not answered by everybody yet."""

    def __init__(self, later: Callable[[float, Callable[[], None]], Any]) -> None:
        self._later = later
        self._open: dict[int, _Check] = {}
        self._last = 0

    def begin(self, members: Iterable[str], done: Callable[[dict[str, list[QueueState]], dict[str, str]], None]) -> int:
        """A new question; its number. done(member → what it has, member → why it was not looked at)."""
        self._last = number = self._last + 1
        self._open[number] = _Check(set(members), done)
        self._later(ANSWER_S, partial(self._late, number))
        return number

    def answered(self, number: int, member: str, queues: list[QueueState] | None, why: str) -> None:
        check = self._open.get(number)
        if check is None or member not in check.missing:
            return
        check.missing.discard(member)
        if queues is None:
            check.failed[member] = why
        else:
            check.found[member] = queues
        if not check.missing:
            del self._open[number]
            check.done(check.found, check.failed)

    def down(self, member: str) -> None:
        """Its stream broke."""
        for number in list(self._open):
            self.answered(number, member, None, "its stream broke")

    def _late(self, number: int) -> None:
        check = self._open.get(number)
        for member in list(check.missing) if check is not None else ():
            self.answered(number, member, None, f"no answer for {ANSWER_S:g} s")


def packed(number: int, queues: list[QueueState] | None, why: str) -> pb.ToLeader:
    """A follower's answer, as it travels."""
    states = [pb.QueueDigest(**state._asdict()) for state in queues or ()]
    return pb.ToLeader(checked=pb.Checked(number=number, why=why, queues=states))


def unpacked(checked: pb.Checked) -> list[QueueState] | None:
    if checked.why:
        return None
    return [QueueState(*(getattr(one, name) for name in QueueState._fields)) for one in checked.queues]
