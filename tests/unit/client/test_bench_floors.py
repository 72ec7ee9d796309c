"""The floors under our figures: short runs say something that can be."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"


@pytest.fixture
def floors(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import floors

    monkeypatch.setattr(floors, "ROUNDS_PER_S", 2)
    monkeypatch.setattr(floors, "PER_S", 20)
    return floors


def test_sockets(floors):
    assert 0.1 < floors.sockets() < 10_000


def test_grpc(floors):
    both, asks, p50 = floors.grpc_echo()
    assert 0 < asks < both and p50 > 10


def test_an_unknown_floor_is_refused(floors, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["floors.py", "ceiling"])
    with pytest.raises(SystemExit):
        floors.main()
