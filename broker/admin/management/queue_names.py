"""What queues there are, for wildcards of queues (edge/subscribing/queue_wildcards.py): names by pattern, of all
owners; and what the last message of one is, for those who read it from there (edge/subscribing/stream_ends.py).

Rule: all patterns are looked for together, SOME at a time, so that a look costs what there is and what is found, not
how many ask. An answer that is not whole is given all the same: what lacks is found at the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from broker.core.errors import Code, RefusedError
from broker.engine.address.named_by import NamedBy

from ..api.ports import Owners

log = logging.getLogger("stampede.admin")

ROWS: Final = 1000
"""Names of one answer."""
SOME: Final = 500
"""Patterns of one question."""
PIECE: Final = 500
"""Names that are gone through in one step: a millisecond."""
Found = Callable[[Mapping[str, Sequence[str]]], None]
Answer = Callable[[RefusedError | None], None]


class KnownQueues:
    """delimiter   between the words of addresses."""

    def __init__(self, owners: Owners, delimiter: str) -> None:
        self._owners = owners
        self._delimiter = delimiter
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, patterns: Iterable[str], most: int, done: Found) -> None:
        """edge.subscribing.queue_wildcards.Find."""
        self._begin(self._tell(list(patterns), most, done), "queue names")

    def find_end(self, address: str, found: Callable[[int], None], done: Answer) -> None:
        """edge.subscribing.stream_ends.FindEnd."""
        self._begin(self._tell_end(address, found, done), "end of a stream")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell_end(self, address: str, found: Callable[[int], None], done: Answer) -> None:
        refusal: RefusedError | None = None
        try:
            answers, missing = await self._owners.ask({"kind": "queue", "name": address, "address": address})
            ends = [row["last_message"] for answer in answers for row in answer["rows"]]
            if ends or not missing:
                found(max(ends, default=0))
            else:
                refusal = RefusedError(Code.OWNER_UNAVAILABLE, f"where '{address[:100]}' ends: {missing[0].why}")
        except Exception:
            log.exception("looking for the end of a stream: internal error")
            refusal = RefusedError(Code.OWNER_UNAVAILABLE, f"nobody says where '{address[:100]}' ends")
        done(refusal)

    async def _tell(self, patterns: Sequence[str], most: int, done: Found) -> None:
        found: dict[str, Sequence[str]] = {}
        for at in range(0, len(patterns), SOME):
            names: dict[str, list[str]] = {pattern: [] for pattern in patterns[at : at + SOME]}
            try:
                await self._look(names, most)
            except Exception:
                log.exception("looking for the queues of wildcards: internal error")
            found.update(names)
        done(found)

    async def _look(self, names: dict[str, list[str]], most: int) -> None:
        """Names of each pattern, in order, `most` at most."""
        after: object = None
        while wanted := [pattern for pattern, found in names.items() if len(found) < most]:
            # Who has enough is not looked for any more: `#` would have all queues there are told for `a.*`.
            known = NamedBy(self._delimiter)
            for pattern in wanted:
                known.add(pattern)
            answers, _ = await self._owners.ask(self._question(wanted, after))
            rows = [
                row for answer in answers for row in answer["rows"] if row.get("address", row["name"]) == row["name"]
            ]
            # Up to here all owners have told all they have; what one of them has told beyond it comes again.
            ends = [answer["rows"][-1]["at"] for answer in answers if answer["more"]]
            after = min(ends, default=None)
            whole = sorted({row["name"] for row in rows if after is None or row["at"] <= after})
            for looked, name in enumerate(whole, 1):
                if not looked % PIECE:
                    await asyncio.sleep(0)
                for pattern in known.find(name):
                    if (found := names[pattern])[-1:] != [name] and len(found) < most:
                        found.append(name)
            if after is None:
                return

    def _question(self, patterns: Sequence[str], after: object) -> dict[str, Any]:
        # An owner of an earlier release doesn't know `patterns`, and tells more than was asked.
        return {
            "kind": "queues", "sort": "name", "descending": False, "limit": ROWS, "routing": "ANYCAST",
            "patterns": patterns, "delimiter": self._delimiter, "after": after,
        }  # fmt: skip
