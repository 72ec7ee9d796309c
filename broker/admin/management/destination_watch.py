"""What addresses come and go, for notifications: owners tell nobody, so they are asked for their names, and the answer
is compared with the one before.

Rule: one edge of a cluster asks, LOOK_S after the last answer and for a SPARE-th of the time at most. An answer that is
not whole says nothing; the first one is what there was. What is a broker's own (`$…`) is not told of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from broker.core.notices import ADVISORIES, NOTIFICATIONS, Notice, NoticeKind, Notify
from broker.core.virtual_host import VirtualHost, whose
from broker.seams.clock import Clock

from ..api.ports import Owners

log = logging.getLogger("stampede.admin")

LOOK_S: Final = 1.0
"""An address that has come is told of within about so long."""
SPARE: Final = 20
ROWS: Final = 500
"""Names of one answer."""
MOST: Final = 10_000
"""Addresses: where there are more, none is told of."""
Known = dict[str, bool]
"""Address → is it a topic."""


class DestinationWatch:
    """asks   is it this edge that looks.    delimiter   between the words of addresses."""

    def __init__(self, owners: Owners, clock: Clock, delimiter: str, notify: Notify, asks: Callable[[], bool]) -> None:
        self._owners = owners
        self._clock = clock
        self._delimiter = delimiter
        self._notify = notify
        self._asks = asks
        self._known: Known | None = None
        self._many = False

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            began = self._clock.monotonic()
            try:
                await self.look()
            except Exception:
                log.exception("looking for addresses: internal error")
            await asyncio.sleep(max(LOOK_S, SPARE * (self._clock.monotonic() - began)))

    async def look(self) -> None:
        """Tells what is other than at the last look."""
        found = await self._names() if self._asks() else None
        if found is None:
            self._known = None if not self._asks() else self._known
            return
        before, self._known = self._known, found
        if before is not None:
            self._notify(self._changes(before, found))

    def _changes(self, before: Known, found: Known) -> Iterator[Notice]:
        for known, other, kind in (
            (before, found, NoticeKind.ADDRESS_REMOVED), (found, before, NoticeKind.ADDRESS_ADDED),
        ):  # fmt: skip
            for name, topic in known.items():
                if other.get(name) is not topic:
                    yield Notice(kind, 0, "", "", address=name, topic=topic,
                                 host=VirtualHost(whose(name).host, self._delimiter))  # fmt: skip

    async def _names(self) -> Known | None:
        """None: nobody can say."""
        found: Known = {}
        after: object = None
        while True:
            answers, missing = await self._owners.ask(
                {"kind": "addresses", "sort": "name", "descending": False, "limit": ROWS, "names": True, "after": after}
            )
            if missing or len(found) > MOST:
                self._tell_many(len(found) > MOST)
                return None
            rows = [row for answer in answers for row in answer["rows"]]
            ends = [answer["rows"][-1]["at"] for answer in answers if answer["more"]]
            after = min(ends, default=None)
            for row in rows:
                if (after is None or row["at"] <= after) and _told(row["name"]):
                    found[row["name"]] = "ANYCAST" not in row["routing"]
            if after is None:
                self._many = False
                return found
            await asyncio.sleep(0)

    def _tell_many(self, many: bool) -> None:
        if many and not self._many:
            log.warning("there are more than %d addresses: edge.notifications tells of none that comes or goes", MOST)
        self._many = many or self._many


def _told(name: str) -> bool:
    local = whose(name).local
    return not local.startswith(("$", ADVISORIES, NOTIFICATIONS))
