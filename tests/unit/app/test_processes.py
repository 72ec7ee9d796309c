"""How many processes serve clients: by settings and cores."""

from __future__ import annotations

import pytest

from broker.app.process import process, processes
from broker.app.process.process import SPARE_FILES, within
from broker.app.process.processes import processes_of, serving
from broker.config.settings import EdgeSettings, Settings
from broker.core.errors import ConfigError


def edge(**values) -> Settings:
    return Settings(edge=EdgeSettings(**values))


def test_how_many(monkeypatch):
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert [processes_of(edge(processes=said)) for said in ("0", "5", "auto")] == [0, 5, 4]
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert processes_of(edge(processes="auto")) == 0, "with few cores more processes cost, and bring nothing"
    for wrong in ("-1", "many", "65", ""):
        with pytest.raises(ConfigError, match=r"edge\.processes"):
            processes_of(edge(processes=wrong))


def test_open_files_bound_each_process_and_not_all_together(caplog):
    assert [serving(edge(processes=said)) for said in ("0", "3")] == [1, 3]
    files, wanted = 10_000, 50_000
    alone, three = [within(files, edge(max_connections=wanted), n).edge.max_connections for n in (1, 3)]
    assert (alone, three) == (files - SPARE_FILES, 3 * (files - SPARE_FILES))
    assert "each process may have 10000 files open" in caplog.text


def test_the_files_of_all_processes_are_asked_for_at_the_start(monkeypatch, capsys):
    monkeypatch.setattr(process, "open_file_limit", lambda: 10_000)
    seen: list[int] = []

    def make(settings: Settings):
        seen.append(settings.edge.max_connections)
        raise ConfigError("enough")

    assert process.run(make, edge(processes="3", max_connections=50_000), serving) == 2
    assert seen == [3 * (10_000 - SPARE_FILES)]
    assert process.run(make, edge(processes="some"), serving) == 2
    assert "edge.processes" in capsys.readouterr().err
