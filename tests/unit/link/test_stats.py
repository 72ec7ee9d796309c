"""Numbers of the link: each event under one name, of the side it was counted on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.link.stats import COUNTERS, LinkStats, of_channels


def told(stats: LinkStats) -> dict[str, float]:
    metrics = stats.metrics("edge")
    assert {tuple(labels.items()) for metric in metrics for labels, _ in metric.samples} == {(("side", "edge"),)}
    assert all(metric.help for metric in metrics)
    return {m.name.removeprefix("stomp_link_").removesuffix("_total"): v for m in metrics for _, v in m.samples if v}


@pytest.mark.parametrize(
    ("event", "arguments", "counted"),
    [
        ("sent", (7,), {"batches_out": 1, "bytes_out": 7}),
        ("received", (7,), {"batches_in": 1, "bytes_in": 7}),
        ("sent_body", (), {"bodies": 1}),
        ("lost_stream", (), {"lost": 1}),
        ("found_moved", (), {"moved": 1}),
        ("paused", (), {"pauses": 1}),
        ("refused_peer", (), {"refused": 1}),
        ("replay", (3,), {"replayed": 3}),
        ("dropped_stale", (), {"stale": 1}),
    ],
)
def test_each_event_is_counted_under_its_own_name_alone(event, arguments, counted):
    stats = LinkStats()
    getattr(stats, event)(*arguments)
    assert told(stats) == counted
    getattr(stats, event)(*arguments)
    assert told(stats) == {name: 2 * number for name, number in counted.items()}


def test_everything_that_is_counted_is_told():
    assert set(COUNTERS) == set(LinkStats.__slots__) - {"far_in", "far_out"}


def test_what_crosses_zones_is_told_by_direction():
    stats = LinkStats()
    stats.sent(10)
    stats.received(20)
    stats.sent(3, True)
    stats.received(4, True)
    stats.received(5, True)
    metric = stats.across_zones()
    assert metric.name == "stampede_link_cross_zone_bytes_total" and metric.help
    assert metric.samples == [({"direction": "in"}, 9.0), ({"direction": "out"}, 3.0)]
    assert (stats.bytes_in, stats.bytes_out) == (29, 13)


def test_what_waits_for_owners_is_the_sum_and_those_away_are_counted():
    channels = [SimpleNamespace(opened=up, nbytes=n) for up, n in ((True, 5), (False, 7), (False, 0))]
    down, pending = of_channels(iter(channels))
    assert (down.samples, pending.samples) == ([({}, 2.0)], [({}, 12.0)])
