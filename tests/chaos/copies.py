"""A copy of an owner that is at work, restored, and looked at message by message; then damaged, and salvaged.

Rule: commands that an operator has (backup, restore, journal dump, journal salvage), and the history of the clients.
A finding is certain: what may be on its way just then is not asked for.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .history import History, Kind
from .world import body_of, key_of

PATIENCE_S = 300
SALVAGED = (0, 3)
"""Exit statuses of a salvage: nothing is lost, something is, and said."""
ELSEWHERE = ("chaos.in/", "chaos.out/", "chaos.a/", "chaos.b/", "chaos.leave/", "chaos.left/", "chaos.grown/", "s3:")
"""Of several slots: a copy of one owner may have the decision and not yet what came of it, or a message on its way."""
UNSURE = ("chaos.auto/", "chaos.brief/", "expired:")
"""Gone without a word to anybody: on arrival, or by time."""
PARKED = "$tx."
"""The queue of a transaction that is not decided. What moves from one slot to another is there, and where it was."""
UNNAMED = 8
"""Records that one damaged place may take with it, and of which nothing that is left says that they were there."""
_LOST = re.compile(r"^LOST: .*", re.MULTILINE)
_MANY = re.compile(r"\((\d+):")


@dataclass
class Copy:
    """What lives in a journal. messages: (queue, slot, id) → the key by its body. bad: keys with another body."""

    messages: dict[tuple[str, int, int], str] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)

    def keys(self, parked: bool = True) -> list[str]:
        """As the history has them, once for each time that it is there. Dead letters are messages of their own.
        parked: with those of transactions that are not decided."""
        return [
            _full(queue, key)
            for (queue, _, _), key in self.messages.items()
            if queue != "DLQ" and (parked or not queue.startswith(PARKED))
        ]


def _full(queue: str, key: str) -> str:
    if queue == "chaos.expired":
        return f"expired:{key}"
    return f"{queue.partition('.')[0]}:{key}" if queue.endswith(".mine") else key


def read(rows: Iterable[str]) -> Copy:
    """Of what `journal dump --live` has printed."""
    copy, runs, names = Copy(), [], {}
    bodies: dict[str, bytes] = {}
    for line in rows:
        row = json.loads(line)
        if "body" in row:
            bodies[row["body"]] = bodies.get(row["body"], b"") + b64decode(row["data"])
        elif "run" in row:
            runs.append(row["run"])
        elif row.get("meta") in ("queue", "estate"):
            names[row["slot"], row["data"]["id"]] = row["data"]["name"]
    for run in runs:
        ids = [id for first, last in run["ids"] for id in range(first, last + 1)]
        for id, record in zip(ids, run["records"], strict=True):
            body = bodies[run["blob"][0]] if "blob" in run else _body(run["lines"] + record)
            key = key_of(body)
            if body != body_of(key):
                copy.bad.append(key)
            for queue in run["queues"]:
                copy.messages[names.get((run["slot"], queue), str(queue)), run["slot"], id] = key
    return copy


def _body(frame: str) -> bytes:
    return frame.encode("latin-1").partition(b"\n\n")[2].removesuffix(b"\0")


def compare(copy: Copy, history: History, sure_by: float, over: float) -> list[str]:
    """sure_by: what had its receipt by then is on the disk. over: the copy was complete then (epoch seconds)."""
    keys = copy.keys()
    there, times = set(keys), Counter(copy.keys(parked=False))
    events = list(history.events)
    alone = {event.key for event in events if event.kind is Kind.SENT and (not event.tx or event.tx.startswith("fan "))}
    before = {event.key for event in events if event.kind is Kind.RECEIPTED and event.at < sure_by}
    seen = {event.key for event in events if event.kind is Kind.DELIVERED}
    settled = {event.key for event in events if event.kind is Kind.SETTLED and event.at < sure_by}
    later = {event.key for event in events if event.kind is Kind.SENT and event.at > over}
    excused = (*ELSEWHERE, *UNSURE)
    missing = sorted(key for key in (before & alone) - seen - there if not key.startswith(excused))
    back = sorted(key for key in settled & there if not key.startswith(excused))
    return [
        *(f"backup: {key} had its receipt before, and is not in it" for key in missing),
        *(f"backup: {key} was settled before, and is in it" for key in back),
        *(f"backup: {key} is in it {many} times" for key, many in sorted(times.items()) if many > 1),
        *(f"backup: {key} has another body in it" for key in sorted(copy.bad)),
        *(f"backup: {key} is in it, and was sent later" for key in sorted(there & later)),
    ]


def damage(journal: Path, draws: random.Random) -> str:
    """One place of it, in words. Never at the end, where it could not be told from a write that was under way."""
    segments = sorted(journal.glob("*.log"))
    bodies = sorted(file for file in journal.glob("blobs/*") if file.stat().st_size > 1000)
    *inner, last = segments
    kind = draws.choice(["body", "byte", "byte", "gone", "short"])
    if kind == "body" and bodies:
        file = draws.choice(bodies)
        return f"body {file.name} at {_flip(file, draws.randrange(500))}"
    file = draws.choice(inner) if inner else last
    used = len(file.read_bytes().rstrip(b"\0"))
    if kind == "gone" and inner:
        file.unlink()
        return f"gone {file.name}"
    if kind == "short" and inner:
        end = draws.randrange(100, used)
        with file.open("r+b") as out:
            out.truncate(end)
        return f"short {file.name} from {end} of {used} on"
    return f"byte {file.name} at {_flip(file, draws.randrange(100, max(used // 2, 101)))}"


def _flip(file: Path, at: int) -> int:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)
    return at


def salvaged(before: Copy, after: Copy, said: str, what: str) -> list[str]:
    """What became of a copy that was damaged in one place: what is gone is said, and what is there is as it was."""
    gone = before.messages.keys() - after.messages.keys()
    told = [int(many[1]) if (many := _MANY.search(line)) else 1 for line in _LOST.findall(said)]
    found = [f"salvage: {key} has another body ({what})" for key in sorted(set(after.bad) - set(before.bad))]
    if gone and not told:
        found.append(f"salvage: {len(gone)} messages are gone and nothing says so ({what})")
    elif what.startswith(("byte", "body")) and len(gone) > sum(told) + UNNAMED:
        found.append(f"salvage: {len(gone)} messages are gone, and {sum(told)} records are named ({what})")
    if not told and (more := after.messages.keys() - before.messages.keys()):
        found.append(f"salvage: {len(more)} messages came back, and no loss is named ({what})")
    return found


def examine(
    copying: Copying, history: History, draws: random.Random, sure_by: Callable[[float], float]
) -> tuple[list[str], int]:
    """Findings, and how many messages the copy had. sure_by: of the time that the copy states, that by which a receipt
    means that its message is in it; 0.0: nothing is asked for."""
    if bad := copying.take():
        return bad, 0
    over, sure, copy = time.time(), sure_by(copying.taken()), copying.read()
    found = compare(copy, history, sure, over) if sure else []
    return found + copying.salvage(copy, draws), len(copy.messages)


class Copying:
    """In a folder of its own, which is gone afterwards. `code`: where the commands are, if not here."""

    def __init__(self, folder: Path, data: Path, code: Path | None) -> None:
        self.folder = folder
        self.restored = folder / "restored"
        self._data = data
        self._code = code

    def __enter__(self) -> Copying:
        self.folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder)

    def take(self) -> list[str]:
        """Findings: none, and it is restored."""
        tar = self.folder / "copy.tar"
        for line in (["backup", str(tar), "--data", str(self._data)],
                     ["restore", str(tar), "--data", str(self.restored)]):  # fmt: skip
            done = self._stampede(*line)
            if done.returncode:
                return [f"backup: {line[0]} ended with {done.returncode}: {done.stderr.decode()[-300:]}"]
        return []

    def taken(self) -> float:
        """When, as it says; epoch seconds."""
        return float(json.loads((self.restored / "journal/backup.json").read_text())["taken_ms"]) / 1000

    def read(self) -> Copy:
        return self._dumped(self.restored)

    def salvage(self, before: Copy, draws: random.Random) -> list[str]:
        what = damage(self.restored / "journal", draws)
        done = self._stampede("journal", "salvage", "--data", str(self.restored))
        if done.returncode not in SALVAGED:
            return [f"salvage: it ended with {done.returncode} ({what}): {done.stderr.decode()[-300:]}"]
        return salvaged(before, self._dumped(self.restored), done.stdout.decode(), what)

    def _dumped(self, data: Path) -> Copy:
        done = self._stampede("journal", "dump", "--live", "--data", str(data))
        assert done.returncode == 0, done.stderr[-300:]
        return read(done.stdout.decode().splitlines())

    def _stampede(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        line = [sys.executable, "-m", "broker.app.cli", *arguments]
        return subprocess.run(line, capture_output=True, timeout=PATIENCE_S, cwd=self._code, check=False)
