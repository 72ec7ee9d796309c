"""The bound of a process's memory, and buffers that fit into it."""

from __future__ import annotations

import pytest

from broker.app.process import memory_bounds
from broker.app.process.memory_bounds import fitted, memory_of
from broker.config.settings import MIB, MemorySettings, Settings


@pytest.mark.parametrize(("said", "there", "limit"), [(100 * MIB, 8 * MIB, 100 * MIB), (0, 64 * MIB, 32 * MIB)])
def test_the_bound_is_what_was_said_or_half_of_what_there_is(monkeypatch, caplog, said, there, limit):
    monkeypatch.setattr(memory_bounds, "available", lambda: there)
    caplog.set_level("INFO")
    assert memory_of(Settings(memory=MemorySettings(limit_bytes=said))).limit == limit
    assert f"may take {limit >> 20} MiB" in caplog.text


def test_where_nobody_knows_there_is_no_bound_and_that_is_said(monkeypatch, caplog):
    monkeypatch.setattr(memory_bounds, "available", lambda: 0)
    caplog.set_level("INFO")
    assert memory_of(Settings()).limit == type(memory_of(Settings()))().limit
    assert "no bound for messages" in caplog.text


def test_buffers_take_an_eighth_each_at_most_and_are_never_made_larger():
    settings = Settings()
    small, large = fitted(settings, 8 * MIB), fitted(settings, 1 << 50)
    assert (small.journal.max_inflight_bytes, small.edge.park_total_bytes) == (MIB, MIB)
    assert large == settings
    assert fitted(settings, 0).journal.max_inflight_bytes == 1
