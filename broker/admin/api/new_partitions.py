"""Durable subscriptions that nobody uses get their queue in partitions that an address is given while the cluster runs.

Who subscribes gives himself parts in them (edge/subscribing/growing.py); who is away cannot. So before this edge sends
anything to a new partition it asks all owners for the durable subscriptions there are, and has those made that are
missing there: by a SUBSCRIBE with their name and selector that takes nothing, as their own client would. Each edge does
that for itself; what is there already stays as it is.

Rule: nothing is sent to a new partition before all owners have answered and all queues are made, however long that
takes. Must not know what an address's partitions are: slots come with the question.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from broker.admin.desk.desk import Desk, Errand
from broker.core.address import AckMode, Routing
from broker.core.commands import Command, Subscribe
from broker.core.errors import RefusedError

from .ports import Answer, Owners

log = logging.getLogger("stampede.edge")

RETRY_S = 1.0
ROWS = 1000
"""Subscriptions of one answer."""

Grown = Callable[[str], Sequence[int]]
"""All slots of an address that has new ones; none, if it has not."""
Where = dict[tuple[str, str], set[int]]
"""(name, address) → slots that have the queue."""


class NewPartitions:
    """address_of(name): whose a durable subscription is, None = it is no more."""

    def __init__(self, owners: Owners, desk: Desk, address_of: Callable[[str], str | None]) -> None:
        self._owners = owners
        self._desk = desk
        self._address_of = address_of
        self._task: asyncio.Task[None] | None = None

    def follow(self, grown: Grown, then: Callable[[], None]) -> None:
        """Calls back when every durable subscription is in every slot. A later call takes the place of this one."""
        self.stop()
        self._task = asyncio.get_running_loop().create_task(self._until(grown, then))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _until(self, grown: Grown, then: Callable[[], None]) -> None:
        while why := await self._tried(grown):
            log.warning("messages do not go to new partitions yet, durable subscriptions may lack there: %s", why)
            await asyncio.sleep(RETRY_S)
        then()

    async def _tried(self, grown: Grown) -> str:
        """Empty, or why not all are known to be there."""
        try:
            there = await self._all(grown)
            for (name, address), slots in there.items():
                missing = [slot for slot in grown(address) if slot not in slots]
                if missing and self._address_of(name) == address:
                    await self._make(name, address, missing)
        except _IncompleteError as incomplete:
            return str(incomplete)
        except RefusedError as refused:
            return f"{refused.code.name} {refused.detail}"
        return ""

    async def _all(self, grown: Grown) -> Where:
        there: Where = {}
        after: object = None
        while True:
            question = {"kind": "queues", "type": "subscription", "sort": "name", "descending": False, "limit": ROWS}
            answers = await self._ask({**question, "after": after})
            for row in (row for answer in answers for row in answer["rows"]):
                if grown(row["address"]):
                    there.setdefault((row["name"], row["address"]), set()).add(row["slot"])
            # Up to here all owners have told all they have; what one of them has told beyond it comes again.
            ends = [answer["rows"][-1]["at"] for answer in answers if answer["more"]]
            if not ends:
                return there
            after = min(ends)

    async def _make(self, name: str, address: str, slots: list[int]) -> None:
        answers = await self._ask({"kind": "queue", "name": name, "address": address})
        rows = [row for answer in answers for row in answer["rows"]]
        if not rows:
            return  # deleted meanwhile
        with self._desk.errand() as errand:
            for slot in slots:
                await _subscribe(errand, slot, address, name, rows[0]["selector"], self._desk.consumer())

    async def _ask(self, question: dict[str, object]) -> list[Answer]:
        answers, missing = await self._owners.ask(question)
        if missing:
            raise _IncompleteError(f"{missing[0].owner}: {missing[0].why}")
        return answers


class _IncompleteError(Exception):
    """An owner has not answered."""


async def _subscribe(errand: Errand, slot: int, address: str, name: str, selector: str | None, consumer: int) -> None:
    """Without room it is given nothing; its end comes with the errand's."""

    def make(session: int, seq: int) -> Command:
        return Subscribe(
            slot, session, seq, consumer, address, Routing.MULTICAST, AckMode.INDIVIDUAL,
            queue=name, durable=True, selector=selector, credit_messages=1, room=0,
        )  # fmt: skip

    errand.visits(slot)
    await errand.ask(make)
