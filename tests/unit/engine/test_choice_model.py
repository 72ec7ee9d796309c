"""Selectors, groups and no-local against a naive model that knows every message by name: nobody gets what he did not
ask for, nothing is lost, doubled or overtaken, and nothing is left lying that somebody could take; with paging, delayed
commits, credits, priorities and consumers that come and go."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from broker.core.address import Outcome
from broker.core.commands import UNLIMITED, Publish
from broker.core.effects import Deliver
from broker.core.message import DURABLE, GROUPED, NO_IDS, REDELIVERED, Run

from .machine import Machine
from .world import ANYCAST, AUTO, CLIENT, INDIVIDUAL, World

LOST = -1

SELECTORS = {
    None: lambda m: True,
    "color = 'red'": lambda m: m.color == "red",
    "color IN ('red', 'blue')": lambda m: m.color in ("red", "blue"),
    "color = 'blue' AND size > 5": lambda m: m.color == "blue" and m.size > 5,
    "size BETWEEN 3 AND 6": lambda m: 3 <= m.size <= 6,
    "NOT color = 'red'": lambda m: m.color not in (None, "red"),
    "nothing IS NOT NULL": lambda m: False,
}


class Message:
    def __init__(self, number, color, size, group, priority, durable, session, published):
        self.number, self.color, self.size, self.group = number, color, size, group
        self.priority, self.durable, self.session, self.published = priority, durable, session, published
        self.holder = None
        self.gone = 0
        self.back = self.failed = 0
        self.seen = False

    def record(self):
        head = f"n:{self.number}\nsize:{self.size}\n"
        if self.color:
            head += f"color:{self.color}\n"
        if self.group:
            head += f"JMSXGroupID:{self.group}\n"
        return f"{head}\n{self.number}\0".encode()


class Who:
    def __init__(self, number, selector, local, ack, credit, priority):
        self.number, self.selector, self.local, self.ack, self.credit = number, selector, local, ack, credit
        self.priority = priority
        self.held = {}
        self.since = 0

    def wants(self, message):
        return SELECTORS[self.selector](message) and not (self.local and message.session == self.number)


class ChoiceModel(Machine):
    exclusive = False

    def __init__(self):
        super().__init__()
        self.world = World(
            False,
            queue_memory_bytes=400,
            page_bytes=200,
            mark_messages=4,
            max_delivery_attempts=-1,
            auto_delete=False,
            exclusive=self.exclusive,
        )
        self.messages: list[Message] = []
        self.consumers: dict[int, Who] = {}
        self.owners: dict[tuple, int] = {}
        self.next_consumer = 1
        self.crashed = False

    # ── what the engine tells ──────────────────────────────────────────────────────────────────────

    def watch(self, effects):
        """Books deliveries; checks that they may happen."""
        fresh: list[tuple[Who, Message]] = []
        for effect in effects:
            if not isinstance(effect, Deliver):
                continue
            who, run, previous = self.consumers[effect.consumer], effect.run, {}
            for i, record in zip(run.ids, run.records, strict=True):
                message = self.messages[int(record.partition(b"\n\n")[2].rstrip(b"\0"))]
                assert message.holder is None and not message.gone, "delivered while held or gone"
                assert message.priority == run.priority
                assert bool(run.attempts) == bool(message.failed)
                if message.seen or message.back:
                    assert run.flags & REDELIVERED, "came again unmarked"
                message.seen = True
                if message.durable:
                    assert message.published <= self.world.committed, "told before it was durable"
                assert who.wants(message), "not what it asked for"
                assert who.credit > 0
                assert previous.get(message.priority, -1) < message.number
                previous[message.priority] = message.number
                fresh.append((who, message))
                if message.group:
                    self.check_group(who, message)
                who.credit -= 1
                if who.ack is AUTO:
                    message.gone = self.world.open
                else:
                    message.holder = who.number
                    who.held[i] = message
        left = self.ready() if fresh else []
        for who, message in fresh:
            older = [m for m in left if m.priority == message.priority and m.number < message.number]
            overtaken = [m.number for m in older if who.wants(m) and self.may(who, m)]
            assert not overtaken, f"{overtaken} overtaken by {message.number}"

    def check_group(self, who, message):
        """Without no-local and with one selector a group has one owner."""
        if self.alike():
            owner = self.owners.get(message.group)
            assert owner in (None, who.number) or owner not in self.consumers, "a group has two owners"
            self.owners[message.group] = who.number
        else:
            self.owners.clear()

    def may(self, who, message):
        """Could this ready message have been his before. Whose a group is among unequal consumers is not modelled."""
        return not message.group or (self.alike() and self.owners.get(message.group) == who.number)

    def alike(self):
        return len({(who.selector, who.local and who.number) for who in self.consumers.values()}) == 1

    def ready(self):
        committed = self.world.committed
        return [
            m for m in self.messages if m.holder is None and not m.gone and (not m.durable or m.published <= committed)
        ]

    # ── what happens ───────────────────────────────────────────────────────────────────────────────

    @rule(
        data=st.data(),
        count=st.integers(1, 6),
        durable=st.booleans(),
        priority=st.sampled_from([4, 4, 4, 9]),
        grouped=st.sampled_from([False, False, True]),
        own=st.booleans(),
    )
    def publish(self, data, count, durable, priority, grouped, own):
        session = data.draw(st.sampled_from(sorted(self.consumers))) if own and self.consumers else 99
        fresh = [
            Message(
                len(self.messages) + n, data.draw(st.sampled_from([None, "red", "blue"])), data.draw(st.integers(0, 9)),
                data.draw(st.sampled_from([None, "g", "h", "i"])) if grouped else None, priority, durable, session,
                self.world.open,
            )
            for n in range(count)
        ]  # fmt: skip
        self.messages += fresh
        records = [message.record() for message in fresh]
        flags = (DURABLE if durable else 0) | (GROUPED if any(m.group for m in fresh) else 0)
        run = Run(NO_IDS, b"", records, sum(map(len, records)), flags, priority)
        self.watch(self.world.do(Publish(7, session, 0, "q", ANYCAST, run)))

    @precondition(lambda self: len(self.consumers) < 4)
    @rule(
        selector=st.sampled_from(list(SELECTORS)),
        local=st.sampled_from([False, False, True]),
        ack=st.sampled_from([AUTO, CLIENT, INDIVIDUAL]),
        credit=st.sampled_from([1, 3, UNLIMITED]),
        priority=st.sampled_from([0, 0, 5]),
    )
    def subscribe(self, selector, local, ack, credit, priority):
        number, self.next_consumer = self.next_consumer, self.next_consumer + 1
        self.consumers[number] = Who(number, selector, local, ack, UNLIMITED if ack is AUTO else credit, priority)
        self.watch(
            self.world.subscribe(
                number, "q", ack, credit_messages=credit, selector=selector, no_local=local, priority=priority
            )
        )

    @precondition(lambda self: any(c.held for c in self.consumers.values()))
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.ACK, Outcome.ACK, Outcome.NACK]))
    def settle(self, data, outcome):
        who = self.consumers[data.draw(st.sampled_from([n for n, c in self.consumers.items() if c.held]))]
        named = data.draw(st.sampled_from(list(who.held)))
        taken = list(who.held)
        taken = taken[: taken.index(named) + 1] if who.ack is CLIENT else [named]
        for i in taken:
            message = who.held.pop(i)
            message.holder = None
            message.gone = self.world.open if outcome is Outcome.ACK else 0
            message.back = message.back or self.world.open
            message.failed = message.failed or self.world.open
        who.credit += len(taken)
        self.watch(self.world.settle(who.number, named, outcome=outcome))

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), politely=st.booleans())
    def leave(self, data, politely):
        number = data.draw(st.sampled_from(list(self.consumers)))
        for message in self.consumers.pop(number).held.values():
            message.holder, message.back = None, message.back or self.world.open
            if not politely:
                message.failed = message.failed or self.world.open
        self.watch(self.world.unsubscribe(number) if politely else self.world.disconnect(number))

    @precondition(lambda self: self.world.committed)
    @rule()
    def crash(self):
        """The log as far as it was committed is all that is left."""
        world = self.world
        for message in self.messages:
            message.holder = None
            if message.gone > world.committed:
                message.gone = 0
            if message.back > world.committed:
                message.back = 0
            if message.failed > world.committed:
                message.failed = 0
            if not message.durable or message.published > world.committed:
                message.gone = message.gone or LOST
            message.published = min(message.published, world.committed)
        self.consumers.clear()
        self.owners.clear()
        self.crashed = True
        world.restart()

    @rule()
    def everything_goes_out_if_somebody_takes_it(self):
        world = self.world
        self.settle_down()
        if not self.exclusive:
            for who in self.consumers.values():
                left = [m.number for m in self.ready() if who.credit > 0 and who.wants(m) and not m.group]
                assert not left, f"{left} left lying although {who.number} waits"
            if all(who.credit > 0 for who in self.consumers.values()):
                assert not [m for m in self.ready() for who in self.consumers.values() if who.wants(m)]
        queue = world.queue() or {"ready": 0, "paged": 0, "delivering": 0}
        assert queue["delivering"] == sum(len(c.held) for c in self.consumers.values())
        if not self.crashed:
            assert queue["ready"] + queue["paged"] == len(self.ready())


LIMITS = settings(max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
TestChoice = ChoiceModel.TestCase
TestChoice.settings = LIMITS


class ExclusiveModel(ChoiceModel):
    exclusive = True

    def watch(self, effects):
        assert len({e.consumer for e in effects if isinstance(e, Deliver)}) <= 1
        super().watch(effects)


TestExclusive = ExclusiveModel.TestCase
TestExclusive.settings = settings(LIMITS, max_examples=10)
