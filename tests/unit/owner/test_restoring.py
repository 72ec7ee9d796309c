"""What the journal brought back goes to its engines: queues before messages, settings last, never much in one step."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from broker.config.settings import EngineSettings
from broker.core.ids import slot_of
from broker.core.records import MetaRecord, Stretch
from broker.owner.shard.restoring import PIECE, naming, restoring


class Engines:
    """What happened, in order; `steps` counts the steps it took."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.work = self.longest = self.steps = 0

    def __call__(self, slot: int) -> Any:
        self.calls.append(("slot", slot))

        def note(what: str, cost: Callable[..., int]) -> Callable[..., None]:
            def call(*args: Any) -> None:
                self.calls.append((what, slot))
                self.work += cost(*args)

            return call

        return SimpleNamespace(
            restore_meta=note("meta", lambda record: 1),
            restore_run=note("run", lambda record, settled: 1),
            restore_stretch=note("stretch", lambda queue, rows: len(rows)),
        )

    def run(self, metas: list[Any], runs: list[Any], settings: EngineSettings | None = None) -> None:
        recovered: Any = SimpleNamespace(metas=metas, stretches=lambda: iter(runs))
        for _ in restoring(settings or EngineSettings(), recovered, self):
            self.longest, self.work = max(self.longest, self.work), 0
            self.steps += 1
        self.longest = max(self.longest, self.work)


def meta(slot: int) -> MetaRecord:
    return MetaRecord(slot, "queue", {})


def run(slot: int) -> Any:
    return SimpleNamespace(slot=slot), {}


def test_queues_are_there_before_their_messages_and_settings_come_last():
    engines = Engines()
    settings = EngineSettings(queues={"named": {}})
    engines.run([meta(1), meta(2)], [run(2), Stretch(1, 5, [])], settings)
    done = [call for call in engines.calls if call[0] != "slot"]
    assert done == [("meta", 1), ("meta", 2), ("run", 2), ("stretch", 1)]
    assert engines.calls[-1] == ("slot", slot_of("named"))


def test_no_step_is_longer_than_a_piece():
    """A stretch is a page of one queue, and counts what is in it."""
    for metas, runs in (
        ([meta(1)] * 3 * PIECE, []),
        ([], [run(1)] * 3 * PIECE),
        ([], [Stretch(1, 5, [None] * 100)] * 50),
    ):
        engines = Engines()
        engines.run(metas, runs)
        assert engines.longest <= PIECE + 100 and engines.steps < 20, "and each has a piece"


def test_many_empty_queues_are_work_too():
    engines = Engines()
    engines.run([], [Stretch(1, 5, [])] * PIECE)
    steps = sum(1 for _ in restoring(EngineSettings(), _recovered([Stretch(1, 5, [])] * PIECE), engines))
    assert steps >= 4


def _recovered(runs: list[Any]) -> Any:
    return SimpleNamespace(metas=[], stretches=lambda: iter(runs))


def test_names_of_the_settings_are_read_in_steps():
    many = EngineSettings(queues={f"q{n}": {} for n in range(5 * PIECE)})
    assert sum(1 for _ in naming(many)) >= 4
