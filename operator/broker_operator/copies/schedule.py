"""When a backup is due.

Rule: pure. A time of the schedule that was missed (no operator, an outage) is made up for once, never twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from broker.core.errors import ConfigError

_LOOKED_BACK = timedelta(days=8)
"""What was missed longer ago is not looked for: a week's schedule has one time in it."""
_MOST = 20_000
"""Times that are gone through: eight days of every minute are 11,520."""


class Schedule:
    """Times of a schedule, seconds since the epoch."""

    def __init__(self, text: str, zone: str) -> None:
        """Raises ConfigError."""
        try:
            self._zone = ZoneInfo(zone)
        except (ValueError, OSError, KeyError):
            raise ConfigError(f"spec.timeZone {zone!r} is no time zone; write it like Europe/Berlin") from None
        self._text = text
        self._from(0.0)

    def _from(self, seconds: float) -> Iterator[datetime]:
        try:
            return CronSim(self._text, datetime.fromtimestamp(seconds, self._zone))
        except CronSimError as error:
            raise ConfigError(f"spec.schedule {self._text!r}: {error}; write it like 0 2 * * *") from None

    def after(self, seconds: float) -> float | None:
        """The first time after it; None: there is none (30 February)."""
        return next((found.timestamp() for found in self._from(seconds)), None)

    def due(self, since: float, now: float) -> float | None:
        """The last time after `since` and not after `now`; None: there was none."""
        begin = max(since, (datetime.fromtimestamp(now, UTC) - _LOOKED_BACK).timestamp())
        found = None
        for count, each in enumerate(self._from(begin)):
            if each.timestamp() > now or count > _MOST:
                break
            found = each.timestamp()
        return found
