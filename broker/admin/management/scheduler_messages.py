"""Classic's messages to `ActiveMQ.Scheduler.Management`: what is sent again and again, listed and taken back.

  AMQ_SCHEDULER_ACTION   BROWSE: each goes to reply-to as a message; REMOVE: the one of scheduledJobId; REMOVEALL
  ACTION_START_TIME, ACTION_END_TIME   only those whose next time is between these (epoch milliseconds)

Rule: a client of the owners like any other (desk.py), for those who may manage the queues where it rests, and of the
virtual host that the request comes from; all of a request is looked at in pieces, MOST of it at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from broker.core.address import RECURRING
from broker.core.commands import Act, Command, Manage, Publish
from broker.core.errors import Code, RefusedError
from broker.core.management import ManagementRequest
from broker.core.strict_numbers import natural
from broker.core.virtual_host import VirtualHost, whose
from broker.engine.publishing.recurrence import Recurrence, split
from broker.selector.heads import text

from ..api import audit
from ..api.access import Who
from ..desk import shown_messages
from ..desk.desk import Desk, Errand

ACTION, JOB, START, END = "AMQ_SCHEDULER_ACTION", "scheduledJobId", "ACTION_START_TIME", "ACTION_END_TIME"
MOST: Final = 10_000
"""Messages that one request lists or takes back."""
QUEUES: Final = 500
"""Of one look at where they rest."""
PIECE: Final = 200
"""Messages of one command."""
ON_ITS_WAY_S: Final = 0.02
"""Until it is looked again, ever more rarely."""
PATIENCE_S: Final = 3.0
"""Longest pause between two looks: about nine seconds in all."""
_ALWAYS: Final = 1 << 62
Run = Callable[[Who, str, dict[str, str], Mapping[str, Any]], Awaitable[Any]]
"""Who, operation, path, query → its answer. Raises Problem."""


class ScheduledJob(NamedTuple):
    """One of them: where it rests, when it comes next, and what it is."""

    slot: int
    queue: str
    id: int
    due: int
    again: Recurrence
    message: bytes

    @property
    def name(self) -> str:
        return self.again.job or f"{self.slot}-{self.id}"


class SchedulerMessages:
    """run: an operation of the API."""

    def __init__(self, run: Run, desk: Desk) -> None:
        self._run = run
        self._desk = desk

    async def carry(self, who: Who, request: ManagementRequest) -> None:
        """Raises RefusedError or Problem."""
        headers = request.headers
        action = headers.get(ACTION, "")
        first, last = _time(headers, START, 0), _time(headers, END, _ALWAYS)
        if action == "BROWSE":
            await self._browse(who, request, first, last)
        elif action in ("REMOVE", "REMOVEALL"):
            wanted = headers.get(JOB)
            if action == "REMOVE" and not wanted:
                raise RefusedError(Code.MISSING_HEADER, f"{ACTION}:REMOVE needs {JOB}", JOB)
            count = await self._remove(who, request.host, wanted if action == "REMOVE" else None, first, last)
            audit.note(
                who.name, who.peer, f"scheduler-{action.lower()}", wanted or "all", f"done: {count}", by="message"
            )
        else:
            raise RefusedError(Code.BAD_HEADER, f"{ACTION}:{action[:50]} must be BROWSE, REMOVE or REMOVEALL")

    async def _browse(self, who: Who, request: ManagementRequest, first: int, last: int) -> None:
        to = request.reply
        if to is None:
            raise RefusedError(Code.MISSING_HEADER, f"{ACTION}:BROWSE needs reply-to", "reply-to")
        with self._desk.errand() as errand:
            async for job in self._jobs(who, request.host, first, last):
                run = shown_messages.made(*_told(job, request.headers), durable=False, priority=4)

                def publish(session: int, seq: int, run: Any = run) -> Command:
                    return Publish(to.slot, session, seq, to.address, to.routing, run, to.queue, to.create)

                await errand.ask(publish)

    async def _remove(self, who: Who, host: VirtualHost, name: str | None, first: int, last: int) -> int:
        """Until none is seen, twice: one that is due or on its way goes when it has got there. That there is none is no
        mistake of who asks: the last one may just have come."""
        taken: set[tuple[int, int]] = set()
        unseen, wait = 0, ON_ITS_WAY_S
        while unseen < 2:
            found: dict[tuple[int, str], list[int]] = {}
            async for job in self._jobs(who, host, first, last):
                if name is None or job.name == name:
                    found.setdefault((job.slot, job.queue), []).append(job.id)
                    taken.add((job.slot, job.id))
            unseen = 0 if found else unseen + 1
            if found and wait > PATIENCE_S:
                raise RefusedError(
                    Code.OWNER_UNAVAILABLE, f"{sum(map(len, found.values()))} are on their way and do not get there"
                )
            with self._desk.errand() as errand:
                for (slot, queue), ids in found.items():
                    for at in range(0, len(ids), PIECE):
                        await _cancel(errand, slot, queue, ids[at : at + PIECE])
            await asyncio.sleep(wait)
            wait *= 1.5
        return len(taken)

    async def _jobs(self, who: Who, host: VirtualHost, first: int, last: int) -> AsyncIterator[ScheduledJob]:
        """Those between these times."""
        seen = 0
        async for row in self._rests(who, host):
            with self._desk.errand() as errand:
                async for job in _of(errand, row["slot"], row["name"]):
                    if first <= job.due <= last:
                        seen += 1
                        if seen > MOST:
                            return
                        yield job

    async def _rests(self, who: Who, host: VirtualHost) -> AsyncIterator[dict[str, Any]]:
        """Queues, or their parts, where such messages rest. Raises RefusedError when an owner does not say."""
        asked = {"q": RECURRING + host.root, "limit": str(QUEUES)}
        after = None
        while True:
            page = await self._run(who, "queues", {}, asked if after is None else {**asked, "page": after})
            if page["missing"]:
                raise RefusedError(Code.OWNER_UNAVAILABLE, "an owner does not say what rests there; ask again")
            for row in page["items"]:
                if row["address"].startswith(RECURRING) and whose(row["address"]).host == host.name:
                    yield row
            if (after := page["next"]) is None:
                return


async def _of(errand: Errand, slot: int, queue: str) -> AsyncIterator[ScheduledJob]:
    feed = await errand.subscribe(slot, queue, queue, None, browse=True)
    while (run := await feed.next()) is not None:
        for at, id in enumerate(run.ids):
            again, message = split(shown_messages.stored(run, at))
            if again is not None:
                yield ScheduledJob(slot, queue, id, run.due, again, message)
        await asyncio.sleep(0)


async def _cancel(errand: Errand, slot: int, queue: str, ids: list[int]) -> None:
    some = " ".join(map(str, ids))
    try:
        await errand.ask(lambda session, seq: Manage(slot, session, seq, Act.CANCEL, queue, queue, selector=some))
    except RefusedError as refused:
        if refused.code is not Code.NO_SUCH_DESTINATION:  # the last one of its address has just gone
            raise


def _told(job: ScheduledJob, request: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    """Headers and body of the message that tells of one."""
    head, _, body = job.message.partition(b"\n\n")
    headers = {"destination": request["reply-to"], JOB: job.name, "AMQ_SCHEDULED_TIME": str(job.due)}
    again = job.again
    values = {
        "CRON": again.cron,
        "ZONE": again.zone,
        "DELAY": again.delay,
        "PERIOD": again.period,
        "REPEAT": again.left,
    }
    headers |= {f"AMQ_SCHEDULED_{name}": str(value) for name, value in values.items() if value}
    if "correlation-id" in request:
        headers["correlation-id"] = request["correlation-id"]
    for line in head.split(b"\n"):
        raw, _, value = line.partition(b":")
        name = "original-destination" if raw == b"destination" else text(raw)
        if name and name != "reply-to":
            headers.setdefault(name, text(value))
    return headers, body[:-1]


def _time(headers: Mapping[str, str], name: str, default: int) -> int:
    value = headers.get(name, "").strip()
    # 19 digits: Java clients who mean "to the end" say Long.MAX_VALUE.
    found = natural(value, 19) if name in headers else default
    if found is None:
        raise RefusedError(Code.BAD_HEADER, f"{name}:{value[:50]} must be epoch milliseconds")
    return found
