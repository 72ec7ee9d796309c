"""When a message is sent again: after a period, or when a cron expression says so; and how that stands in its header.

Rule: values, and time as it is given; pure. A line is read back as it was written, by this release and by later ones.
"""

# Example. AMQ_SCHEDULED_CRON `0 8 * * *`, a delay of 10 s, a period of 60 s and 2 repeats, in Europe/Berlin:
#     8:00:00   by cron: a recurrence without cron comes out, for 10 s later; the one with cron waits for the next day
#     8:00:10   the message itself; 8:01:10 and 8:02:10: again, each time with one less left
# Nobody was there from Friday to Monday: one message at once, then tomorrow's. Missed times are not made up for.

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from broker.core.address import Routing
from broker.core.creation import Creation, maker_of
from broker.core.errors import Code, RefusedError

FOR_EVER: Final = -1
"""Times that are left."""
LONGEST: Final = 256
"""Characters of a cron expression, and of a zone."""
LONGEST_BURST_MS: Final = 3_600_000
"""From a time that cron says to the last message of it: so that few of them are under way together."""
_FRONT: Final = b"stampede-recurrence:"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Recurrence(NamedTuple):
    """Where a message is for, and when.

    durable, create   of the messages that come out; this one is durable, whatever they are. create: see
                      core.creation.Creation.
    cron, zone        when it comes out; empty: after a period. With a period or a delay as well, what comes out each
                      time is a recurrence without them.
    delay             milliseconds from the time that cron says.    period   milliseconds between two.
    left              how often it comes again after the next time; FOR_EVER: always.
    job               by which name it is known; empty: by its first number."""

    address: str = ""
    routing: Routing = Routing.UNSET
    queue: str | None = None
    durable: bool = False
    create: Creation = True
    cron: str = ""
    zone: str = ""
    delay: int = 0
    period: int = 0
    left: int = 0
    job: str = ""

    @property
    def bursts(self) -> bool:
        """Is what comes out each time to come out later, or several times."""
        return bool(self.cron and (self.delay or self.left))

    def first(self, now: int) -> int:
        """Epoch milliseconds of the first time. Raises RefusedError(BAD_HEADER)."""
        return tick(self.cron, self.zone, now) if self.cron else now + (self.delay or self.period)

    def following(self, due: int, now: int) -> int:
        """The time after the one that was due then; 0: that was the last. What was missed while nobody was there is not
        made up for: there is one for all of it."""
        if self.cron:
            return tick(self.cron, self.zone, max(due, now))
        if not self.left:
            return 0
        # The next multiple behind now, counted from when it was due: it stays on its own minute, however late each
        # one is.
        return due + self.period * (max(now - due, 0) // self.period + 1)

    def lines(self) -> bytes:
        """The header line that it is."""
        fields = {
            "address": self.address, "routing": int(self.routing), "durable": int(self.durable),
            "create": int(bool(self.create)), "cron": self.cron, "zone": self.zone, "delay": self.delay,
            "period": self.period, "left": self.left, "job": self.job,
        }  # fmt: skip
        if self.queue is not None:
            fields["queue"] = self.queue
        if maker := maker_of(self.create):
            fields["maker"] = maker
        return b"%b%b\n" % (_FRONT, urlencode(fields).encode())


def split(message: bytes) -> tuple[Recurrence | None, bytes]:
    """What a message begins with, and the message without it. None: it is no recurrence."""
    if not message.startswith(_FRONT):
        return None, message
    line, _, rest = message.partition(b"\n")
    has = dict(parse_qsl(line[len(_FRONT) :].decode(), keep_blank_values=True))
    found = Recurrence(
        has["address"], Routing(int(has["routing"])), has.get("queue"), has["durable"] == "1",
        has["create"] == "1" and (has.get("maker") or True),
        has["cron"], has["zone"], int(has["delay"]), int(has["period"]), int(has["left"]), has["job"],
    )  # fmt: skip
    return found, rest


def tick(cron: str, zone: str, after: int) -> int:
    """The next time, in epoch milliseconds, that five fields of cron say in that zone. Raises
    RefusedError(BAD_HEADER)."""
    found = _tick(cron, zone, after // 60_000)
    if isinstance(found, int):
        return found
    raise RefusedError(found.code, found.detail)


@lru_cache(1024)
def _tick(cron: str, zone: str, after: int) -> int | RefusedError:
    """The same, or why there is none; after: in minutes, as cron counts. A read brings dozens of messages that say the
    same, and some of what cron says comes once in 28 years, or never: to look for that takes 1 ms."""
    try:
        return _next(cron, zone, after)
    except RefusedError as refused:
        return RefusedError(refused.code, refused.detail)


def _next(cron: str, zone: str, after: int) -> int:
    """Raises RefusedError(BAD_HEADER)."""
    if len(cron) > LONGEST or len(cron.split()) != 5:
        raise _bad(cron, "it is five fields: minute, hour, day of the month, month, day of the week")
    try:
        found = next(CronSim(cron, datetime.fromtimestamp(after * 60, UTC).astimezone(_zone(zone))))
    except CronSimError as error:
        raise _bad(cron, str(error)) from None
    except (StopIteration, OverflowError):
        raise _bad(cron, "no time of the next 50 years is like that") from None
    return (found.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


@lru_cache(256)
def _zone(name: str) -> tzinfo:
    """Raises RefusedError(BAD_HEADER)."""
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise RefusedError(
            Code.BAD_HEADER, f"there is no time zone '{name[:50]}'; one is called Europe/Berlin, or UTC"
        ) from None


def _bad(cron: str, why: str) -> RefusedError:
    return RefusedError(Code.BAD_HEADER, f"AMQ_SCHEDULED_CRON:{cron[:50]}: {why}")
