"""The process's own client of the owners: one session an errand, whose end gives back whatever it still holds."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from broker.admin.desk import desk as desk_module
from broker.admin.desk.desk import FIRST, WINDOW_BYTES, Desk
from broker.core.address import AckMode
from broker.core.commands import UNLIMITED, Command, Disconnect, Grant, Subscribe
from broker.core.effects import BrowseEnd, ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code, RefusedError
from broker.core.message import Run
from broker.core.reasons import Reason

RUN = Run([1], b"", [b"\nx\0"], 3)


class Owners:
    """Done at once to whatever is asked, unless told otherwise."""

    def __init__(self) -> None:
        self.got: list[Command] = []
        self.silent = False
        self.refuse = False
        self.desk = Desk(self.submit, count(100).__next__, count(500).__next__)

    def submit(self, commands: list[Command]) -> bool:
        self.got += commands
        for command in commands:
            if isinstance(command, Subscribe) and not self.silent:
                answer = (
                    Refused(command.session, command.seq, Code.BAD_SELECTOR, "no")
                    if self.refuse
                    else Done(command.session, command.seq)
                )
                self.desk.on_effect(answer)
        return True


async def test_its_end_is_told_to_each_slot_it_was_in_once():
    owners = Owners()
    with owners.desk.errand() as errand:
        for slot in (7, 3, 7):
            await errand.subscribe(slot, "a", "q", None, browse=False)
        errand.visits(5)
    errand.close()
    ends = [command for command in owners.got if isinstance(command, Disconnect)]
    assert [(end.slot, end.session, end.calm) for end in ends] == [(slot, 100, True) for slot in (3, 5, 7)]
    assert owners.desk.errands == {} == owners.desk.feeds


async def test_a_browser_asks_for_so_much_at_a_time_and_a_consumer_is_first_of_all():
    owners = Owners()
    errand = owners.desk.errand()
    feed = await errand.subscribe(1, "a", "q", "n > 1", browse=True)
    await errand.subscribe(1, "a", "q", None, browse=False)
    browse, consume = (command for command in owners.got if isinstance(command, Subscribe))
    assert (browse.ack, browse.room, browse.credit_bytes, browse.selector) == (
        AckMode.AUTO, WINDOW_BYTES, UNLIMITED, "n > 1",
    )  # fmt: skip
    assert (consume.ack, consume.room, consume.credit_bytes, consume.priority, consume.create) == (
        AckMode.INDIVIDUAL, UNLIMITED, WINDOW_BYTES, FIRST, False,
    )  # fmt: skip
    owners.desk.on_effect(Deliver(feed.command.consumer, RUN, 9))
    assert await feed.next() is RUN
    grant = owners.got[-1]
    assert isinstance(grant, Grant) and (grant.slot, grant.consumer) == (1, feed.command.consumer)
    feed.put_back(RUN)
    before = len(owners.got)
    assert await feed.next() is RUN and len(owners.got) == before, "what was put back was paid for"


async def test_a_feed_gives_all_that_came_before_it_ended():
    owners = Owners()
    errand = owners.desk.errand()
    feed = await errand.subscribe(1, "a", "q", None, browse=True)
    waiting = asyncio.create_task(feed.next())
    await asyncio.sleep(0)
    owners.desk.on_effect(Deliver(feed.command.consumer, RUN, 0))
    owners.desk.on_effect(BrowseEnd(feed.command.consumer))
    assert await waiting is RUN
    assert await feed.next() is None and feed.ended and not feed.why


async def test_a_feed_that_was_ended_says_why_and_one_that_is_left_gets_nothing():
    owners = Owners()
    errand = owners.desk.errand()
    feed = await errand.subscribe(1, "a", "q", None, browse=False)
    owners.desk.on_effect(ConsumerClosed(feed.command.consumer, next(iter(Reason)), "the queue is gone"))
    assert feed.ended and feed.why == "the queue is gone"
    other = await errand.subscribe(1, "a", "q", None, browse=False)
    owners.desk.on_effect(Deliver(other.command.consumer, RUN, 0))
    assert other.ready() == [RUN] and other.ready() == []
    errand.end(other)
    owners.desk.on_effect(Deliver(other.command.consumer, RUN, 0))
    assert await other.next(0.01) is None and not other.ended


async def test_what_is_refused_is_raised_and_what_is_not_answered_may_still_happen(monkeypatch):
    owners = Owners()
    errand = owners.desk.errand()
    owners.refuse = True
    with pytest.raises(RefusedError) as refused:
        await errand.subscribe(1, "a", "q", "(", browse=True)
    assert (refused.value.code, refused.value.detail) == (Code.BAD_SELECTOR, "no")
    owners.silent = True
    monkeypatch.setattr(desk_module, "PATIENCE_S", 0.01)
    with pytest.raises(RefusedError, match="may still happen"):
        await errand.subscribe(1, "a", "q", None, browse=True)
    owners.desk.on_effect(Done(errand.session, 2))
    owners.desk.on_effect(Done(999, 1))


async def test_who_waits_for_an_errand_that_is_closed_waits_no_more():
    owners = Owners()
    owners.silent = True
    errand = owners.desk.errand()
    waiting = asyncio.create_task(errand.subscribe(1, "a", "q", None, browse=True))
    await asyncio.sleep(0)
    errand.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
