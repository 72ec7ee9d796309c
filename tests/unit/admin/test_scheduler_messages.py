"""Classic's scheduler messages: jobs told, and taken back until none is seen twice."""

from __future__ import annotations

from typing import Any

import pytest

from broker.admin.api.access import Who
from broker.admin.management import scheduler_messages
from broker.admin.management.scheduler_messages import ScheduledJob, SchedulerMessages, _cancel, _time, _told
from broker.core.address import RECURRING, Routing
from broker.core.commands import Manage
from broker.core.errors import Code, RefusedError
from broker.core.management import ManagementRequest, ReplyTo
from broker.engine.publishing.recurrence import Recurrence

WHO = Who("ada", "::1", None, True)
TO = ReplyTo(3, "answers", Routing.ANYCAST, "answers", True)


def job(id: int, due: int = 50, name: str = "") -> ScheduledJob:
    message = b"destination:/queue/a\nreply-to:/queue/never\nk:v\n\nbody\0"
    return ScheduledJob(1, "q", id, due, Recurrence(job=name, period=9, left=2), message)


class Rests:
    """Jobs at rest, and what is asked of the owners about them."""

    def __init__(self, *jobs: ScheduledJob) -> None:
        self.jobs = list(jobs)
        self.asked: list[Any] = []
        self.missing: list[Any] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def errand(self):
        return self

    async def ask(self, make: Any) -> None:
        command = make(5, 6)
        self.asked.append(command)
        if isinstance(command, Manage):
            gone = {int(id) for id in command.selector.split()}
            self.jobs = [it for it in self.jobs if it.id not in gone]


@pytest.fixture
def carry(monkeypatch):
    async def at_once(_: float) -> None:
        pass

    monkeypatch.setattr(scheduler_messages.asyncio, "sleep", at_once)

    async def carried(rests: Rests, reply: ReplyTo | None = TO, **headers: str) -> None:
        async def run(who, operation, path, query):
            assert (operation, query["q"]) == ("queues", RECURRING)
            rows = [{"address": RECURRING + name, "slot": 1, "name": "q"} for name in ("$host/shop.x", "x")]
            if "page" not in query:
                return {"items": [*rows[:1], {"address": "x"}], "next": "more", "missing": []}
            return {"items": rows[1:], "next": None, "missing": rests.missing}

        async def of(errand, slot, queue):
            for it in list(rests.jobs):
                yield it

        monkeypatch.setattr(scheduler_messages, "_of", of)
        request = ManagementRequest("ada", "::1", {"reply-to": "/queue/answers", **headers}, b"", reply)
        await SchedulerMessages(run, rests).carry(WHO, request)  # type: ignore[arg-type]

    return carried


async def test_each_job_between_the_times_is_told_where_its_answer_goes(carry):
    rests = Rests(job(1, 49), job(2, 50, "mine"), job(3, 60), job(4, 61))
    await carry(rests, AMQ_SCHEDULER_ACTION="BROWSE", ACTION_START_TIME="50", ACTION_END_TIME="60")
    assert [command.run.records[0].split(b"\n")[1] for command in rests.asked] == [
        b"scheduledJobId:mine", b"scheduledJobId:1-3",
    ]  # fmt: skip
    assert {(command.slot, command.address) for command in rests.asked} == {(3, "answers")}
    assert len(rests.jobs) == 4, "a look takes nothing"
    rests.asked.clear()
    await carry(rests, AMQ_SCHEDULER_ACTION="BROWSE", ACTION_START_TIME="61", ACTION_END_TIME=str((1 << 63) - 1))
    assert len(rests.asked) == 1, "Long.MAX_VALUE: to the end"


async def test_one_or_all_are_taken_back(carry):
    rests = Rests(job(1), job(2, name="mine"), job(3))
    await carry(rests, AMQ_SCHEDULER_ACTION="REMOVE", scheduledJobId="mine")
    assert [it.id for it in rests.jobs] == [1, 3]
    await carry(rests, AMQ_SCHEDULER_ACTION="REMOVE", scheduledJobId="nobody's")
    await carry(rests, AMQ_SCHEDULER_ACTION="REMOVEALL", ACTION_END_TIME="9")
    assert [it.id for it in rests.jobs] == [1, 3]
    await carry(rests, None, AMQ_SCHEDULER_ACTION="REMOVEALL")
    assert rests.jobs == []


async def test_many_are_taken_back_in_pieces_and_no_more_than_so_many(carry, monkeypatch):
    monkeypatch.setattr(scheduler_messages, "PIECE", 2)
    rests = Rests(*map(job, range(5)))
    await carry(rests, AMQ_SCHEDULER_ACTION="REMOVEALL")
    assert [command.selector for command in rests.asked] == ["0 1", "2 3", "4"]
    monkeypatch.setattr(scheduler_messages, "MOST", 3)
    rests = Rests(*map(job, range(5)))
    await carry(rests, AMQ_SCHEDULER_ACTION="BROWSE")
    assert len(rests.asked) == 3


async def test_one_that_never_gets_there_is_said(carry):
    class Stuck(Rests):
        async def ask(self, make: Any) -> None:
            pass

    with pytest.raises(RefusedError, match="2 are on their way") as refused:
        await carry(Stuck(job(1), job(2)), AMQ_SCHEDULER_ACTION="REMOVEALL")
    assert refused.value.code is Code.OWNER_UNAVAILABLE


@pytest.mark.parametrize(
    ("headers", "reply", "code"),
    [
        ({}, TO, Code.BAD_HEADER),
        ({"AMQ_SCHEDULER_ACTION": "browse"}, TO, Code.BAD_HEADER),
        ({"AMQ_SCHEDULER_ACTION": "BROWSE"}, None, Code.MISSING_HEADER),
        ({"AMQ_SCHEDULER_ACTION": "REMOVE"}, TO, Code.MISSING_HEADER),
        ({"AMQ_SCHEDULER_ACTION": "BROWSE", "ACTION_START_TIME": "now"}, TO, Code.BAD_HEADER),
    ],
)
async def test_what_cannot_be_meant_is_refused_by_name(carry, headers, reply, code):
    with pytest.raises(RefusedError) as refused:
        await carry(Rests(job(1)), reply, **headers)
    assert refused.value.code is code


async def test_the_last_one_of_an_address_may_just_have_gone():
    class Gone:
        def __init__(self, code: Code) -> None:
            self.code = code

        async def ask(self, make: Any) -> None:
            raise RefusedError(self.code)

    await _cancel(Gone(Code.NO_SUCH_DESTINATION), 1, "q", [1])  # type: ignore[arg-type]
    with pytest.raises(RefusedError):
        await _cancel(Gone(Code.DISK_FULL), 1, "q", [1])  # type: ignore[arg-type]


def test_what_is_told_of_a_job_is_its_message_and_when_it_comes():
    headers, body = _told(job(7, 50, "mine"), {"reply-to": "/queue/answers", "correlation-id": "c"})
    assert body == b"body"
    assert headers == {
        "destination": "/queue/answers", "scheduledJobId": "mine", "AMQ_SCHEDULED_TIME": "50",
        "AMQ_SCHEDULED_PERIOD": "9", "AMQ_SCHEDULED_REPEAT": "2", "correlation-id": "c",
        "original-destination": "/queue/a", "k": "v",
    }  # fmt: skip


@pytest.mark.parametrize("value", ["-1", "1.0", "", "٣", "1" * 20])
def test_times_are_milliseconds(value):
    with pytest.raises(RefusedError, match="epoch milliseconds"):
        _time({"t": value}, "t", 0)
    assert (_time({"t": " 5 "}, "t", 0), _time({}, "t", 7)) == (5, 7)


async def test_nothing_is_said_while_an_owner_is_missing(carry):
    """A REMOVEALL that had left some would have had its receipt."""
    rests = Rests(job(1))
    rests.missing = [{"owner": "o2"}]
    with pytest.raises(RefusedError) as refused:
        await carry(rests, AMQ_SCHEDULER_ACTION="REMOVEALL")
    assert refused.value.code is Code.OWNER_UNAVAILABLE
