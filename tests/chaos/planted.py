"""Bugs that were there once, planted again into a copy of the code, so that a chaos run proves that it is not blind.

Rule: one bug is some texts of the present code, each of which stands there once (test_planted.py), and what they
become; the copy differs in nothing else. `faults`: what it takes to meet it; a run does nothing else then.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.harness.broker import ROOT


@dataclass(frozen=True)
class Bug:
    """`changes`: (text, what stands there instead). `found`: how a finding of it may begin.
    `hold_s`: each fault lasts so long at least. `together`: all of them each time, in this order."""

    faults: tuple[str, ...]
    found: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]
    hold_s: float = 0.0
    together: bool = False


BUGS = {
    "disconnect-first": Bug(  # what stands before a DISCONNECT in the same read is dropped
        ("grow", "slow-disk"), ("forgotten", "resurrected"),
        (("        self.batch += ends\n        self._leave()",
          "        batch, self.batch = self.batch, ends\n        self._leave()\n        self.batch = batch"),
         ("        if self._session.closed:\n            self.batch = []\n", "")),
    ),
    "repeat-answered-at-once": Bug(  # the ACK's first try was not replicated
        ("switch-fails",), ("resurrected",),
        (("    if command.seq and consumer.haunted and (not taken or any(",
          "    if False and (not taken or any("),), 3.0,
    ),
    "strangers-ghosts": Bug(  # an edge that was given up: its ACKs and COMMITs of what others have are receipted
        ("freeze-edge", "cut-edge"), ("resurrected", "moved twice", "torn"),
        (("    if theirs:\n", "    if False and theirs:\n"),), 8.0,
    ),
    "stale-deliveries": Bug(  # an edge that stood still hands on what waits in its buffers
        ("suspend-edge",), ("stale", "unmarked"),
        (("        if seconds <= self._grace:\n",
          "        if seconds <= self._grace or True:\n"),), 12.0,
    ),
    "lost-wake-up": Bug(  # a slot answers nothing until its next write
        ("slow-disk", "reset-peers"), ("stuck", "thrown out", "lost"),
        (("            for lead in touched:\n", "            for lead in touched:\n"
          "                if lead.needed:\n                    continue\n"),), together=True,
    ),
    "leaders-stay": Bug(  # leaders do not go to where the edges can reach them
        ("cut-edges",), ("stuck", "thrown out"),
        (("        self._reach_leaders()\n", ""),),
    ),
    "edges-clock": Bug(  # a delay is computed by the edge's clock
        ("clock-step",), ("early", "lost"),
        (("            self.delay = delay\n            self.run.due_at(now + delay)\n",
          "            self.run.due_at(now + delay)\n"),),
    ),
    "no-followers": Bug(  # receipts do not wait for followers
        ("cut-among-owners", "kill-owner"), ("lost", "resurrected"),
        (("        return 0 if lead is None else lead.ready(self._committed)\n",
          "        return self._committed\n"),),
    ),
    "unmarked": Bug(  # what comes again says nothing of it
        ("kill-edge",), ("unmarked",),
        (('        return b"%bredelivered:true\\n%b%b" % ',
          '        return b"%b%b%b" % '),),
    ),
    "watch-for-ever": Bug(  # a watch whose connection is given up before it has begun (found by a run of these)
        ("freeze-store", "cut-store", "kill-store"), ("stuck", "thrown out", "does not come back"),
        (("    call.add_done_callback(lambda _: writing.cancel())\n", ""),),
    ),
    "backup-late": Bug(  # a copy says that it is of a later moment than it is
        ("backup",), ("backup",), (("batch=appender.number,\n            taken_ms=taken,",
                                    "batch=appender.number,\n            taken_ms=now_ms(),"),),
    ),
    "salvage-stops": Bug(  # what stands behind the damage in its segment is left out, without a word
        ("backup",), ("salvage", "backup"),
        (("    for start, end in piece.stretches:\n        for at, _, kind, flags, slot, _, _ in",
          "    for start, end in piece.stretches[:1]:\n        for at, _, kind, flags, slot, _, _ in"),),
    ),
    "body-unchecked": Bug(  # a large body is taken for what it is, whatever its checksum says
        ("backup",), ("salvage", "backup"),
        (("            if self._extend(0, piece) != self._crcs[(offset + at) // PIECE]:",
          "            if False and self._extend(0, piece) != self._crcs[(offset + at) // PIECE]:"),),
    ),
    "low-disk-unsaid": Bug(  # nothing is said before the disk is full (--disks)
        ("low-disk",), ("low disk",),
        (("        return Space.NEAR if self._store.free < near else Space.ENOUGH",
          "        return Space.ENOUGH"),), 10.0,
    ),
    "eio-is-full": Bug(  # a broken disk is taken for a full one
        ("broken-disk",), ("EIO", "full"),
        (("_FULL: Final = {errno.ENOSPC, ", "_FULL: Final = {errno.EIO, errno.ENOSPC, "),), 3.0,
    ),
}  # fmt: skip


def place(text: str, within: Path) -> Path:
    """The file that has this text, wherever it was moved to."""
    found = [file for file in sorted(within.rglob("*.py")) for _ in range(file.read_text().count(text))]
    if len(found) != 1:
        raise ValueError(f"{len(found)} times in the code: {text!r}")
    return found[0]


def copy(bug: str, folder: Path) -> Path:
    """The code with this bug, made in that folder, which must not be there yet."""
    shutil.copytree(ROOT / "broker", folder / "broker", ignore=shutil.ignore_patterns("__pycache__"))
    for text, instead in BUGS[bug].changes:
        file = place(text, folder / "broker")
        file.write_text(file.read_text().replace(text, instead))
    return folder
