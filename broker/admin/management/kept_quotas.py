"""What owners keep of users and virtual hosts, for edge.quotas: owners tell nobody, so they are asked.

    LOOK_S after an answer      all owners: what is kept of each host, of each user whose commands have made queues, and
                                the durable subscriptions of each who was here and has a limit
    the sum                     to the quotas of this process, and of its edge processes where it has some
    with the next question      to all owners: users whose queues hold as much as they may. Owners refuse what is sent
                                there, whichever client sends it, at whatever edge. An edge that has never had a whole
                                answer says nothing of it, or its start would have owners forget what others told

So a limit is of the whole cluster, with and without Redis, and may be passed by what is made or sent within about a
second, or two where owners refuse.

Rule: nobody is asked where no entry limits what owners keep; a look takes one SPARE-th of the time at most. An answer
that is not whole changes nothing: what was known before counts on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, Final, Protocol

from broker.seams.clock import Clock
from broker.seams.read_turns import in_portions

from ..api.ports import Answer, Owners

log = logging.getLogger("stampede.admin")

LOOK_S: Final = 1.0
SPARE: Final = 20
MOST_USERS: Final = 20_000
"""Users of one question; those beyond have no limit, and the log says so."""
MOST_FULL: Final = 1_000
"""Users of whom owners are told that they may keep no more."""
HOLDS: Final = 4
"""So many looks long that is so, unless told otherwise."""
PIECE: Final = 8
"""Users or rows gone through in one piece (loop_watchdog.portion)."""
KeptCounts = Mapping[str, Sequence[int]]
"""user:NAME or host:NAME → what is kept of it, by KeptResource (edge/quotas/quotas.py)."""


class KeptCounting(Protocol):
    """Whose limits these are (edge/quotas/quotas.py)."""

    @property
    def asks_owners(self) -> bool:
        """Is anything limited that owners keep."""
        ...

    @property
    def full_makers(self) -> Collection[str]:
        """Users whose queues may keep no more."""
        ...

    def counted_users(self) -> Sequence[str]: ...
    def keeps(self, kept: KeptCounts) -> Generator[None, None, None]:
        """In pieces."""
        ...


class Apart(Protocol):
    """Processes of this broker that have clients of their own (app/edges)."""

    async def counted_users(self) -> Sequence[str]: ...
    def keeps(self, kept: KeptCounts) -> None: ...


class KeptQuotas:
    """See the head of this file. fronts   what names of durable subscriptions of a user begin with."""

    def __init__(
        self, owners: Owners, counting: KeptCounting, clock: Clock, fronts: Callable[[str], Iterable[str]],
        apart: Apart | None = None,
    ) -> None:  # fmt: skip
        self._owners = owners
        self._counting = counting
        self._clock = clock
        self._fronts = fronts
        self._apart = apart
        self._told: set[str] = set()
        self._heard = False
        """Is it known who is full: was there a whole answer since anything is limited."""
        self._took = 0.0
        """Seconds that the last look took."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Looks from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="kept quotas")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            began = self._clock.monotonic()
            if self._counting.asks_owners:
                try:
                    await self.look()
                except Exception:
                    log.exception("asking owners for what edge.quotas limits: internal error")
            else:
                self._heard = False
            self._took = self._clock.monotonic() - began
            await asyncio.sleep(self._pause)

    @property
    def _pause(self) -> float:
        return max(LOOK_S, SPARE * self._took)

    async def look(self) -> None:
        """Once."""
        fronts = await self._fronts_of(await self._users())
        question: dict[str, Any] = {"kind": "kept", "fronts": fronts}
        if self._heard:
            question |= {"full": self._full(), "holds": HOLDS * self._pause}
        answers, missing = await self._owners.ask(question)
        if missing:
            who = ", ".join(sorted(each.owner for each in missing)[:5])
            self._warn("missing", f"edge.quotas goes on with what was kept before: {who} did not say what is kept now")
            return
        self._told.discard("missing")
        if untold := sum(answer.get("untold", 0) for answer in answers):
            self._warn("untold", f"edge.quotas does not count what {untold} users have made: there are too many")
        else:
            self._told.discard("untold")
        sums = await in_portions(_summed(answers), self._clock.monotonic)
        await in_portions(self._counting.keeps(sums), self._clock.monotonic)
        self._heard = True
        if self._apart is not None:
            self._apart.keeps(sums)

    def _full(self) -> list[str]:
        full = self._counting.full_makers
        if len(full) > MOST_FULL:
            told = f"the queues of {len(full)} users hold as much as edge.quotas says; {MOST_FULL} get no more"
            self._warn("full", told)
        else:
            self._told.discard("full")
        # By name, or each edge would choose others among as many as owners answer in whatever order.
        return nsmallest(MOST_FULL, full)

    async def _users(self) -> Sequence[str]:
        users = set(self._counting.counted_users())
        if self._apart is not None:
            users.update(await self._apart.counted_users())
        if len(users) > MOST_USERS:
            told = f"{len(users)} users have a max_durable_subscriptions of edge.quotas; it holds for {MOST_USERS}"
            self._warn("users", told)
        else:
            self._told.discard("users")
        return sorted(users)[:MOST_USERS]

    async def _fronts_of(self, users: Sequence[str]) -> dict[str, str]:
        def work() -> Generator[None, None, dict[str, str]]:
            found: dict[str, str] = {}
            for seen, user in enumerate(users, 1):
                found.update(dict.fromkeys(self._fronts(user), user))
                if not seen % PIECE:
                    yield
            return found

        fronts: dict[str, str] = await in_portions(work(), self._clock.monotonic)
        return fronts

    def _warn(self, what: str, text: str) -> None:
        """Once, until it is over."""
        if what not in self._told:
            self._told.add(what)
            log.warning("%s", text)


def _summed(answers: Sequence[Answer]) -> Generator[None, None, dict[str, list[int]]]:
    """What all owners keep together."""
    sums: dict[str, list[int]] = {}
    for answer in answers:
        for seen, (who, counts) in enumerate(answer["kept"].items(), 1):
            had = sums.get(who)
            sums[who] = counts if had is None else [one + more for one, more in zip(had, counts, strict=True)]
            if not seen % PIECE:
                yield
    return sums
