"""What queues there are, for wildcards of queues (edge/requests/queue_wildcards.py): names by pattern, of all owners.

Rule: an answer that is not whole is given all the same: what lacks is found at the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from broker.core.virtual_host import whose
from broker.engine.address.address_settings import first_said

from ..api.ports import Owners

log = logging.getLogger("stampede.admin")

ROWS: Final = 1000
"""Names of one answer."""
Found = Callable[[Mapping[str, Sequence[str]]], None]


class KnownQueues:
    """delimiter   between the words of addresses."""

    def __init__(self, owners: Owners, delimiter: str) -> None:
        self._owners = owners
        self._delimiter = delimiter
        self._task: asyncio.Task[None] | None = None

    def find(self, patterns: Iterable[str], most: int, done: Found) -> None:
        """edge.requests.queue_wildcards.Find."""
        self._task = asyncio.get_running_loop().create_task(self._tell(list(patterns), most, done), name="queue names")

    async def _tell(self, patterns: Sequence[str], most: int, done: Found) -> None:
        found: dict[str, Sequence[str]] = {}
        for pattern in patterns:
            try:
                found[pattern] = await self._of(pattern, most)
            except Exception:
                log.exception("looking for the queues of a wildcard: internal error")
                found[pattern] = ()
        done(found)

    async def _of(self, pattern: str, most: int) -> list[str]:
        # An owner of an earlier release doesn't know `pattern` and `names`, and tells more than was asked.
        stands_for = first_said([(pattern, True)], self._delimiter)
        question: dict[str, Any] = {
            "kind": "queues", "sort": "name", "descending": False, "limit": ROWS, "routing": "ANYCAST", "names": True,
            "pattern": pattern, "delimiter": self._delimiter,
        }  # fmt: skip
        names: set[str] = set()
        after: object = None
        while len(names) < most:
            answers, _ = await self._owners.ask({**question, "after": after})
            rows = [row for answer in answers for row in answer["rows"]]
            for row in rows:
                name = row["name"]
                if name == row["address"] and stands_for(name) and not whose(name).local.startswith("$"):
                    names.add(name)
            # Up to here all owners have told all they have; what one of them has told beyond it comes again.
            ends = [answer["rows"][-1]["at"] for answer in answers if answer["more"]]
            if not ends:
                break
            after = min(ends)
        return sorted(names)[:most]
