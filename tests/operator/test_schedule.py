"""When a backup is due: by the clock of the zone, made up for once, never twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from broker_operator.copies.schedule import Schedule

from broker.core.errors import ConfigError


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_the_next_one():
    assert Schedule("0 2 * * *", "UTC").after(at("2026-11-27T01:59:59")) == at("2026-11-27T02:00:00")
    assert Schedule("0 2 * * *", "UTC").after(at("2026-11-27T02:00:00")) == at("2026-11-28T02:00:00")


def test_the_zone_counts_and_its_summer():
    night = Schedule("0 2 * * *", "Europe/Berlin")
    assert night.after(at("2026-01-01T00:00:00")) == at("2026-01-01T01:00:00")
    assert night.after(at("2026-07-01T00:00:00")) == at("2026-07-02T00:00:00")


def test_what_was_missed_is_due_once():
    hourly = Schedule("0 * * * *", "UTC")
    now = at("2026-11-27T10:30:00")
    assert hourly.due(at("2026-11-27T02:00:00"), now) == at("2026-11-27T10:00:00")
    assert hourly.due(at("2026-11-27T10:00:00"), now) is None


def test_years_without_an_operator_are_not_gone_through_minute_by_minute():
    assert Schedule("* * * * *", "UTC").due(0.0, at("2026-11-27T10:30:30")) == at("2026-11-27T10:30:00")


@pytest.mark.parametrize(
    ("text", "zone", "said"), [("0 25 * * *", "UTC", "spec.schedule"), ("0 2 * * *", "Mars/X", "timeZone")]
)
def test_what_is_none_is_said(text, zone, said):
    with pytest.raises(ConfigError, match=said):
        Schedule(text, zone)
