"""The engine against a naive model that knows every message by name: nothing lost, doubled, reordered or unmarked,
with delayed commits, crashes, credits, priorities and paging."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from broker.core.address import Outcome
from broker.core.commands import UNLIMITED, Hold
from broker.core.effects import Deliver
from broker.core.message import REDELIVERED

from .machine import Machine
from .world import AUTO, CLIENT, INDIVIDUAL, World

MOST = 4
LOST = -1


class Message:
    """published, settled: commit numbers (0: not). attempts: (commit number, deliveries so far) in time order."""

    def __init__(self, number, durable, priority, published):
        self.number, self.durable, self.priority, self.published = number, durable, priority, published
        self.settled = 0
        self.attempts = [(0, 0)]
        self.holder = None
        self.seen = self.back = False
        self.id = 0


class EngineModel(Machine):
    def __init__(self):
        super().__init__()
        self.world = World(
            False, queue_memory_bytes=120, page_bytes=60, mark_messages=4, max_delivery_attempts=MOST, auto_delete=False
        )
        self.messages: list[Message] = []
        self.consumers: dict[int, dict] = {}
        self.next_consumer = 1
        self.dead = 0
        self.life = 0

    # ── what the engine tells ──────────────────────────────────────────────────────────────────────

    def watch(self, effects):
        """Books deliveries; checks that they may happen."""
        fresh: dict[int, list[Message]] = {}
        for effect in effects:
            if not isinstance(effect, Deliver):
                continue
            consumer = self.consumers[effect.consumer]
            run = effect.run
            assert effect.cost == run.nbytes + len(run) * 3
            previous: dict[int, int] = {}
            for i, record in zip(run.ids, run.records, strict=True):
                message = self.messages[int(record)]
                assert message.holder is None and not message.settled, "delivered while held or gone"
                if message.durable:
                    assert message.published <= self.world.committed, "told before it was durable"
                assert run.attempts == message.attempts[-1][1]
                if message.seen:
                    assert run.attempts or run.flags & REDELIVERED, "came again unmarked"
                assert previous.get(message.priority, -1) < message.number
                previous[message.priority] = message.number
                assert consumer["ack"] is AUTO or consumer["credit"] > 0
                consumer["credit"] -= 1
                message.seen, message.id = True, i
                if consumer["ack"] is AUTO:
                    message.settled = self.world.open
                else:
                    message.holder = effect.consumer
                    consumer["held"][i] = message
                fresh.setdefault(message.priority, []).append(message)
        for priority, delivered in fresh.items():
            newest = max(m.number for m in delivered)
            skipped = [m.number for m in self.ready() if m.priority == priority and m.number < newest]
            assert not skipped, f"{skipped} overtaken by {newest}"

    def ready(self):
        committed = self.world.committed
        return [
            m
            for m in self.messages
            if m.holder is None and not m.settled and (not m.durable or m.published <= committed)
        ]

    def back(self, messages, failed=True):
        """They were not consumed. Where nobody failed, nothing is counted."""
        for message in messages:
            message.holder = None
            message.back = True
            count = message.attempts[-1][1] + failed
            message.attempts.append((self.world.open, count))
            if count >= MOST:
                message.settled = self.world.open
                self.dead += 1

    # ── what happens ───────────────────────────────────────────────────────────────────────────────

    @rule(count=st.integers(1, 5), durable=st.booleans(), priority=st.sampled_from([4, 4, 4, 9]))
    def publish(self, count, durable, priority):
        bodies = []
        for _ in range(count):
            self.messages.append(Message(len(self.messages), durable, priority, self.world.open))
            bodies.append(b"%08d" % (len(self.messages) - 1))
        self.watch(self.world.publish("q", *bodies, durable=durable, priority=priority))

    @precondition(lambda self: len(self.consumers) < 3)
    @rule(ack=st.sampled_from([AUTO, CLIENT, INDIVIDUAL]), credit=st.sampled_from([1, 3, UNLIMITED]))
    def subscribe(self, ack, credit):
        number, self.next_consumer = self.next_consumer, self.next_consumer + 1
        self.consumers[number] = {"ack": ack, "credit": UNLIMITED if ack is AUTO else credit, "held": {}}
        self.watch(self.world.subscribe(number, "q", ack, overhead=3, credit_messages=credit))

    @precondition(lambda self: any(c["held"] for c in self.consumers.values()))
    @rule(data=st.data(), outcome=st.sampled_from(list(Outcome)), hold=st.booleans())
    def settle(self, data, outcome, hold):
        number = data.draw(st.sampled_from([n for n, c in self.consumers.items() if c["held"]]))
        consumer = self.consumers[number]
        named = data.draw(st.sampled_from(list(consumer["held"])))
        taken = list(consumer["held"])
        alone = consumer["ack"] is not CLIENT or outcome is Outcome.UNREADABLE  # which is said of one body
        taken = [named] if alone else taken[: taken.index(named) + 1]
        messages = [consumer["held"].pop(i) for i in taken]
        consumer["credit"] += len(messages)
        if hold and outcome is Outcome.RETURN:
            self.watch(self.world.do(Hold(7, number, 0, number, [named])))
        if outcome is Outcome.ACK:
            for message in messages:
                message.settled, message.holder = self.world.open, None
        elif outcome in (Outcome.REJECT, Outcome.UNREADABLE):
            for message in messages:
                message.settled, message.holder = self.world.open, None
            self.dead += len(messages)
        else:
            self.back(messages)
        self.watch(self.world.settle(number, named, outcome=outcome))

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), politely=st.booleans())
    def leave(self, data, politely):
        number = data.draw(st.sampled_from(list(self.consumers)))
        self.back(self.consumers.pop(number)["held"].values(), failed=not politely)
        self.watch(self.world.unsubscribe(number) if politely else self.world.disconnect(number))

    @rule()
    def everything_goes_out_if_somebody_takes_it(self):
        world = self.world
        self.settle_down()
        if any(c["credit"] > 0 for c in self.consumers.values()):
            assert not self.ready(), "left lying although a consumer waits"
        queue = world.queue() or {"ready": 0, "paged": 0, "delivering": 0}
        assert queue["delivering"] == sum(len(c["held"]) for c in self.consumers.values())
        if not self.life:
            assert queue["ready"] + queue["paged"] == len(self.ready())
            assert (world.queue("DLQ") or {"ready": 0, "paged": 0})["ready"] <= self.dead

    @rule(snapshot=st.booleans())
    def crash(self, snapshot):
        world = self.world
        while snapshot and world.log and world.log[-1][0] > world.committed:
            self.commit()  # a snapshot stands behind what was appended before it
        committed = world.committed
        if snapshot:
            world.log = [(0, r) for r in world.engine.snapshot()] + [
                (n, r) for n, r in world.log if type(r).__name__ != "MetaRecord"
            ]
        for message in self.messages:
            message.holder = None
            if message.settled > committed:
                message.settled = 0
            message.attempts = [(n, a) for n, a in message.attempts if n <= committed]
            if not message.durable or message.published > committed:
                message.settled = message.settled or LOST
            message.published = min(message.published, committed)
        self.consumers.clear()
        self.life += 1
        world.restart()

    @invariant()
    def memory_is_bounded(self):
        for queue in self.world.engine._slot.queues.values():
            if queue.name == "q" and not any(c["ack"] is not AUTO for c in self.consumers.values()):
                assert queue.nbytes <= 120 + 60 + 40 + 8 * sum(m.back for m in self.messages)


EngineModel.TestCase.settings = settings(
    max_examples=250, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
TestEngineModel = EngineModel.TestCase
