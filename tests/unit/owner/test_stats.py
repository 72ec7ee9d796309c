"""Numbers of queues are gathered in slices; what a scrape shows is one complete survey."""

from __future__ import annotations

from types import SimpleNamespace

from broker.config.settings import EngineSettings
from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Subscribe
from broker.core.effects import Turn
from broker.core.message import Run
from broker.engine.engine import Engine
from broker.owner.stats import SLICE, ShardStats

JOURNAL = SimpleNamespace(inflight_bytes=0, disk_bytes=int, live_bytes=int)


def families(stats: ShardStats, engine: Engine) -> dict[tuple[str, str, str], float]:
    (queues,) = [m for m in stats.metrics([engine], JOURNAL) if m.name == "stomp_queue_messages"]
    return {(s["address"], s["queue"], s["state"]): value for s, value in queues.samples if value}


def test_queues_of_subscribers_are_one_series_and_no_step_looks_at_too_many():
    engine, turn = Engine(3, EngineSettings()), Turn(1, 1)
    for n in range(1, SLICE * 2):
        engine.handle(Subscribe(3, 1, 0, n, "t", Routing.MULTICAST, AckMode.AUTO, room=0), turn)
    engine.handle(Publish(3, 2, 0, "t", Routing.MULTICAST, Run((), b"", [b"x"], 1)), turn)
    engine.handle(Publish(3, 2, 0, "q", Routing.ANYCAST, Run((), b"", [b"x", b"y"], 2)), turn)
    stats = ShardStats()
    survey = stats.survey([engine])
    assert len(list(survey)) == 2
    wanted = {("t", "(subscribers)", "ready"): SLICE * 2 - 1, ("q", "q", "ready"): 2}
    assert families(stats, engine) == wanted
    assert families(stats, engine) == wanted  # without a survey before it, it makes its own


def test_a_queue_that_goes_in_the_middle_of_a_survey_does_no_harm():
    engine, turn = Engine(3, EngineSettings()), Turn(1, 1)
    for n in range(1, SLICE * 2):
        engine.handle(Subscribe(3, n, 0, n, f"t{n}", Routing.MULTICAST, AckMode.AUTO), turn)
    stats = ShardStats()
    survey = stats.survey([engine])
    next(survey)
    engine.discard()
    assert list(survey) == []
    assert families(stats, engine) == {}
