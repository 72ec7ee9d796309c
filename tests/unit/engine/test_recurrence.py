"""When a message is sent again, and how that stands in its header: by this release and by later ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.engine.publishing.recurrence import FOR_EVER, Recurrence, split, tick


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_it_is_read_back_as_it_was_written():
    for one in (
        Recurrence(
            "orders", Routing.ANYCAST, "a queue", True, False, "*/5 * * * *", "Europe/Berlin", 7, 9, FOR_EVER, "j"
        ),
        Recurrence("a=b&c\nd", Routing.MULTICAST, None, False, True, period=1000, left=3),
        Recurrence("ö", queue=""),
    ):
        found, rest = split(one.lines() + b"x:y\n\nbody\0")
        assert found == one and rest == b"x:y\n\nbody\0"
    assert split(b"x:y\n\nbody\0") == (None, b"x:y\n\nbody\0")


def test_a_period_that_was_missed_is_not_made_up_for():
    one = Recurrence(period=1000, left=3)
    assert one.first(500) == 1500 and Recurrence(period=1000, delay=20).first(500) == 520
    assert one.following(1500, now=1500) == 2500
    assert one.following(1500, now=9700) == 10_500, "eight were missed, one comes"
    assert Recurrence(period=1000).following(1500, 1500) == 0, "that was the last"


def test_cron_goes_by_its_zone():
    noon = at("2026-03-28T11:30:00")
    assert tick("0 12 * * *", "", noon) == at("2026-03-28T12:00:00")
    assert tick("0 12 * * *", "Europe/Berlin", noon) == at("2026-03-29T10:00:00"), "summer time begins that night"
    assert Recurrence(cron="0 12 * * *").following(at("2026-03-28T12:00:00"), noon) == at("2026-03-29T12:00:00")


@pytest.mark.parametrize(
    ("cron", "zone", "says"),
    [
        ("* * * *", "", "five fields"),
        ("61 * * * *", "", "Bad minute"),
        ("0 0 30 2 *", "", "Bad day-of-month"),
        ("* " * 200 + "*", "", "five fields"),
        ("0 0 * * *", "Atlantis", "no time zone 'Atlantis'"),
        ("0 0 * * *", "../../etc/passwd", "no time zone"),
    ],
)
def test_what_cannot_be_is_refused_by_name(cron, zone, says):
    with pytest.raises(RefusedError) as refused:
        tick(cron, zone, 0)
    assert refused.value.code is Code.BAD_HEADER and says in refused.value.detail


def test_only_cron_with_more_behind_it_bursts():
    assert Recurrence(cron="* * * * *", left=2).bursts and Recurrence(cron="* * * * *", delay=5).bursts
    assert not Recurrence(cron="* * * * *").bursts and not Recurrence(period=5, left=2).bursts
