"""Steps of a broker's loop that were too long, by what its watchdog has said (docs/adr/0009-work-is-bounded.md).

Rule: what counts is what a step has computed, never how long it took: on a machine that does other things besides any
step may take any time. Of tests/abuse and most of tests/conformance none has computed for 50 ms, at a load of 25 on two
cores; the limit is three times that, so that a slower machine, or one that shares its caches, does not make a test fail
now and then: it finds loops whose length a client has chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT_MS = 150
_SAID = re.compile(r"a \w+ took \d+ ms \((\d+) ms of them computing\), everybody else has waited.*")

_seen: dict[Path, int] = {}
_found: list[str] = []


def look(log_file: Path) -> None:
    """Reads on in a broker's log. Call it before the log may be gone."""
    if not log_file.exists():
        return
    with log_file.open("rb") as log:
        start = _seen.get(log_file, 0)
        log.seek(start if start <= log_file.stat().st_size else 0)
        text = log.read()
        _seen[log_file] = log.tell()
    _found.extend(f"{log_file.name}: {said}" for said in too_long(text.decode(errors="replace")))


def too_long(text: str) -> list[str]:
    """What a log says of them."""
    return [said[0] for said in _SAID.finditer(text) if int(said[1]) > LIMIT_MS]


def found() -> list[str]:
    """All of them since it was asked last."""
    here = _found[:]
    _found.clear()
    return here


@pytest.fixture(scope="package", autouse=True)
def no_long_steps() -> Iterator[None]:
    """For the conftest of a folder: its brokers may take no step that computes for long. Fails at the folder's end."""
    found()
    yield
    long = found()
    assert not long, "steps of a broker's loop that were too long (tests/harness/steps.py):\n" + "\n".join(long)
