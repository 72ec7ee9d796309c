"""Which ports `make cluster` takes: its usual ones, free ones in a row, those it runs with, or those asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy" / "local"))  # as the command has it

from cluster import FIRST, PORTS, STEP, choose, row

ALL = [port for ports in PORTS.values() for port in ports]


def busy(*taken: int) -> Callable[[str, int], bool]:
    return lambda name, port: port in taken


def test_the_usual_ones_are_taken_where_they_are_free() -> None:
    assert choose(0, {}, busy()) == PORTS


@pytest.mark.parametrize("taken", [ALL[0], ALL[-1]])
def test_where_one_of_them_is_not_all_are_free_ones_in_a_row(taken: int) -> None:
    """A broker on 61613 kept the whole cluster from starting."""
    found = choose(0, {}, busy(taken))
    assert [port for ports in found.values() for port in ports] == list(range(FIRST, FIRST + len(ALL)))
    assert {name: len(ports) for name, ports in found.items()} == {name: len(ports) for name, ports in PORTS.items()}
    assert choose(0, {}, busy(taken, FIRST + 3)) == row(FIRST + STEP)


def test_those_asked_for_and_those_it_runs_with_are_those_or_none() -> None:
    assert choose(20_000, {}, busy()) == row(20_000)
    assert choose(0, row(30_000), busy()) == choose(20_000, row(30_000), busy()) == row(30_000)
    for asked, before in ((20_000, {}), (0, row(20_000))):
        with pytest.raises(SystemExit, match=r"20003 is in use .*--ports N"):
            choose(asked, before, busy(20_003))


def test_when_no_row_is_free_that_is_said() -> None:
    with pytest.raises(SystemExit, match=r"free ports in a row .*--ports N"):
        choose(0, {}, lambda name, port: True)
