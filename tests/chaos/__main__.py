"""`make chaos ARGS="--minutes 30 --seed 7"`: run after run, a line each; exit status 1 when a promise broke."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import time
from pathlib import Path

from . import faults, planted
from .promises import SLOW_S
from .run import Build, Verdict, run, standalone
from .world import PAUSE_S

PLANTED_MINUTES = 1.0
PART_MINUTES = 5.0
"""One run: a history that is judged in seconds, and a folder that a person can read."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="of faults (default 30)")
    parser.add_argument("--seed", type=int, default=None, help="of the first run (default: drawn, and printed)")
    parser.add_argument("--owners", type=int, default=3, help="0: one standalone broker, and no faults")
    parser.add_argument("--edges", type=int, default=2)
    parser.add_argument("--etcd", type=int, default=1, help="members of etcd (default 1)")
    parser.add_argument("--tls", action="store_true", help="mutual TLS among the components")
    parser.add_argument("--disks", action="store_true", help="a small disk for each owner, which can be full (as root)")
    parser.add_argument("--release", default="", help="what all processes are at first: a revision of git; see upgrade")
    parser.add_argument("--pause", type=float, default=PAUSE_S, help="seconds between a producer's messages")
    parser.add_argument("--redis", action="store_true", help="a Redis that the edges share, and its faults")
    parser.add_argument("--planted", default="", metavar="BUG", choices=["", *planted.BUGS],
                        help=f"until this bug is found (else exit status 1): {', '.join(planted.BUGS)}")  # fmt: skip
    parser.add_argument("--only", default="", help=f"comma list of {', '.join(faults.ALL)}")
    parser.add_argument("--folder", type=Path, default=Path(".chaos"), help="what is left to look at (default .chaos)")
    given = parser.parse_args()
    only = [name for name in given.only.split(",") if name]
    if unknown := set(only) - faults.ALL.keys():
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    seed = random.SystemRandom().randrange(1 << 30) if given.seed is None else given.seed
    build = Build(
        given.owners, given.edges, given.etcd, given.tls, given.disks, given.release, given.pause, given.redis,
        given.planted,
    )  # fmt: skip
    if given.planted:
        return _until_found(given, planted.BUGS[given.planted], build, seed, only)
    end, bad = time.monotonic() + 60 * given.minutes, 0
    while (left := (end - time.monotonic()) / 60) > 0:
        verdict, folder = _part(given.folder, seed, min(PART_MINUTES, left), build, only)
        if verdict.broken:
            bad += 1
            print(f"  to look at: {folder}", flush=True)
        elif max(verdict.longest, verdict.beside) > SLOW_S:
            print(f"  a long wait: {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        seed += 1
    return 1 if bad else 0


def _part(within: Path, seed: int, minutes: float, build: Build, only: list[str]) -> tuple[Verdict, Path]:
    folder = within / f"seed-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if build.owners:
        verdict = asyncio.run(run(folder.absolute(), seed=seed, minutes=minutes, build=build, only=only))
    else:
        plain = standalone(folder.absolute(), seed=seed, minutes=minutes, bug=build.bug, pause_s=build.pause_s)
        verdict = asyncio.run(plain)
    print(verdict.line(), flush=True)
    for line in verdict.broken[:20]:
        print(f"  {line}", flush=True)
    return verdict, folder


def _until_found(given: argparse.Namespace, bug: planted.Bug, build: Build, seed: int, only: list[str]) -> int:
    """Short runs of what it takes to meet the bug."""
    begun, faults_done = time.monotonic(), 0
    while time.monotonic() - begun < 60 * given.minutes:
        verdict, _ = _part(given.folder, seed, min(PLANTED_MINUTES, given.minutes), build, only or list(bug.faults))
        faults_done += len(verdict.faults)
        if found := [line for line in verdict.broken if line.startswith(bug.found)]:
            took = time.monotonic() - begun
            print(f"planted: {given.planted} is found after {took:.0f} s, {faults_done} faults: {found[0]}")
            return 0
        seed += 1
    print(f"planted: {given.planted} is not found")
    return 1


if __name__ == "__main__":
    sys.exit(main())
