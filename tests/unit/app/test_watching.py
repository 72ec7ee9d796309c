"""stampede top: two requests a look, and rates of what was done between two."""

from __future__ import annotations

import json
from typing import Any

from broker.app.commands import watching
from broker.app.commands.watching import watch


class Api:
    """Each look finds ten more of everything."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.done = 0

    def get(self, path: str) -> Any:
        self.asked.append(path)
        self.done += 10
        since = {"accepted": self.done, "delivered": 2 * self.done, "acked": 0}
        return {
            "id": "b", "version": "1", "clients": {"connections": 3},
            "messaging": {"queues": 4, "messages": 5, "since_start": since},
        }  # fmt: skip

    def rows(self, path: str, most: int, sort: str) -> Any:
        self.asked.append((path, most, sort))
        return iter([{"name": "q", "messages": 5}])


def looks(monkeypatch, capsys, count: int, output: str) -> tuple[Api, str]:
    times = iter(range(0, 100, 2))
    monkeypatch.setattr(watching.SystemClock, "monotonic", lambda _: float(next(times)))
    api = Api()
    watch(api, 0.0, "-messages", count, 7, ("name", "messages"), output)  # type: ignore[arg-type]
    return api, capsys.readouterr().out


def test_rates_are_of_the_time_between_two_looks(monkeypatch, capsys):
    api, out = looks(monkeypatch, capsys, 2, "json")
    assert api.asked == ["/overview", ("/queues", 7, "-messages")] * 2
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(out.rstrip()):
        value, at = decoder.raw_decode(out, at)
        found.append(value["rates"])
        at += len(out[at:]) - len(out[at:].lstrip())
    assert found == [
        {"accepted": 0.0, "delivered": 0.0, "acked": 0.0}, {"accepted": 5.0, "delivered": 10.0, "acked": 0.0},
    ]  # fmt: skip


def test_a_table_says_what_there_is(monkeypatch, capsys):
    _, out = looks(monkeypatch, capsys, 1, "table")
    assert "b 1   3 connections   4 queues   5 messages" in out and "accepted 0/s" in out


def test_ctrl_c_is_an_end_and_no_failure(monkeypatch, capsys):
    class Pressed:
        def wait(self, _: float) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(watching.threading, "Event", Pressed)
    api, _ = looks(monkeypatch, capsys, 0, "json")
    assert len(api.asked) == 2
