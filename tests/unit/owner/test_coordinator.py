"""Two phases from the coordinator's side: decided once, told until heard, and nobody acts for a leader that is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings
from broker.core.address import AckMode, Routing
from broker.core.commands import Decide, Inquire, Prepare, Publish, Settle, Subscribe, Transact
from broker.core.effects import Done, Move, Refused, Turn
from broker.core.errors import Code
from broker.core.message import DURABLE, Blob, Run
from broker.core.records import GroupRecord, MetaRecord
from broker.engine.engine import Engine
from broker.engine.publishing.prepared import CHECKED
from broker.owner.transactions.coordinator import ANSWERED_S, LAST_RETRY_S, RETRY_S, SESSION, Coordinator
from broker.owner.transactions.cross_slot_tx import AGAIN_MOST
from tests.unit.engine.world import run_of

HERE, THERE, ELSEWHERE = 7, 8, 9
CLIENT = 50
SETTINGS = EngineSettings(address=AddressSettings(max_delivery_attempts=1))


class Body:
    """A large body of this owner; the other end takes it, or not."""

    def __init__(self, world):
        self.world = world
        self.pending = 0
        self.left = [b"x" * 100]

    def read(self, n, done):
        if self.world.damaged:
            self.world.later.append((0, lambda: done(None, "it is damaged")))
        else:
            self.world.later.append((0, lambda: done(self.left.pop() if self.left else b"", "")))

    def close(self): ...

    def abort(self):
        self.world.aborted += 1

    def write(self, data): ...

    def finish(self, sync, done):
        there = self.world.body_there
        self.world.later.append((0, lambda: done(there, "" if there else "nobody there")))


class World:
    """Shard, port and clock: turns are run by hand, commits count at once unless `held`."""

    def __init__(self):
        self.engines = {HERE: Engine(HERE, SETTINGS)}
        self.full = False
        self.journal = self
        self.held = False
        self.now = 1_000_000
        self.steps, self.watchers, self.sent, self.later = [], [], [], []
        self.effects, self.log, self.number = [], [], 1
        self.body_there = None
        self.damaged = False
        self.aborted = 0
        self.coordinator = Coordinator(
            self, self._submit, "boot", lambda: self.now, lambda s, then: self.later.append((s, then)),
            lambda slot, blob: Body(self), lambda slot, on_drain: Body(self),
        )  # fmt: skip

    def _submit(self, commands):
        self.sent += commands
        return False

    def epoch(self, slot):
        return 3

    def in_turn(self, slot, step):
        self.steps.append((slot, step))

    def when_ready(self, slot, callback):
        self.watchers.append((slot, callback))

    def engine(self, slot):
        return self.engines[slot]

    # ── the crank ──────────────────────────────────────────────────────────────────────────────────

    def run(self):
        """Turns until nothing is left to do."""
        while self.steps or (self.watchers and not self.held):
            steps, self.steps = self.steps, []
            for slot, step in steps:
                if slot in self.engines:
                    self.turn(lambda turn, slot=slot, step=step: list(step(self.engines[slot], turn) or ()), slot)
            if not self.held:
                watchers, self.watchers = self.watchers, []
                for slot, callback in watchers:
                    if slot in self.engines:
                        callback()

    def turn(self, act, slot=HERE):
        turn = Turn(self.now, self.number)
        act(turn)
        engine = self.engines[slot]
        engine.flush(turn)
        for record in turn.appends:
            self.log += record.records if isinstance(record, GroupRecord) else [record]
        self.effects += turn.effects
        if not self.held:
            after = Turn(self.now, self.number)
            engine.release(self.number, after)
            engine.flush(after)
            self.effects += after.effects
        self.number += 1

    def wait(self):
        later, self.later = self.later, []
        for _, then in later:
            then()
        self.run()

    def fail_over(self, back=True):
        """The slot is led elsewhere for a while, and here again."""
        self.engines.pop(HERE)
        self.watchers = [each for each in self.watchers if each[0] != HERE]
        self.run()
        if back:
            self.engines[HERE] = Engine(HERE, SETTINGS, first_id=1 << 40)

    def commit(self, *slots, key=(5, 1), seq=3):
        parts = [Publish(slot, CLIENT, 0, f"a{slot}", Routing.ANYCAST, run_of(b"m", durable=True)) for slot in slots]
        command = Transact(HERE, CLIENT, seq, parts, key)
        self.turn(lambda turn: list(self.coordinator.transact(command, turn)))
        self.run()

    def answer(self, kind, slot=None, code=None):
        """The oldest command of this kind is answered; what it was."""
        command = next(c for c in self.sent if type(c) is kind and slot in (None, c.slot))
        self.sent.remove(command)
        effect = Done(SESSION, command.seq) if code is None else Refused(SESSION, command.seq, code)
        self.coordinator.on_effects([effect])
        self.run()
        return command

    def asked(self, kind):
        return [(c.slot, getattr(c, "commit", None)) for c in self.sent if type(c) is kind]

    def kinds(self):
        return [record.kind for record in self.log if isinstance(record, MetaRecord)]

    def told(self):
        return [e.code if isinstance(e, Refused) else e.seq for e in self.effects if getattr(e, "session", 0) == CLIENT]


@pytest.fixture
def world():
    return World()


# ── commit ─────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_decided_when_all_are_prepared_and_answered_and_forgotten_when_all_have_heard(world):
    """What the session sends next to a participant would overtake it, were it answered earlier."""
    world.commit(HERE, THERE, ELSEWHERE)
    assert world.asked(Prepare) == [(THERE, None), (ELSEWHERE, None)] and world.told() == []
    assert world.answer(Prepare).epoch == 3
    assert "decided" not in world.kinds()
    world.held = True
    world.answer(Prepare)
    assert "decided" in world.kinds() and world.told() == [] and world.asked(Decide) == []
    world.held = False
    world.turn(lambda turn: None)
    world.run()
    assert world.told() == [] and world.asked(Decide) == [(THERE, True), (ELSEWHERE, True)]
    world.answer(Decide)
    assert "told" not in world.kinds()
    world.answer(Decide, code=Code.OWNER_UNAVAILABLE)
    world.wait()
    assert world.told() == []
    world.answer(Decide, ELSEWHERE)
    assert world.kinds()[-1] == "told" and world.engines[HERE].undecided() == [] and world.told() == [3]


def test_a_replay_while_it_is_under_way_is_answered_once(world):
    world.commit(HERE, THERE)
    world.commit(HERE, THERE)
    world.answer(Prepare)
    world.commit(HERE, THERE)
    assert world.told() == [] and world.asked(Prepare) == []
    world.answer(Decide)
    assert world.told() == [3] and world.asked(Prepare) == []
    world.commit(HERE, THERE)
    assert world.told() == [3, 3] and world.asked(Prepare) == []


def test_numbers_are_a_slots_own(world):
    """The cluster's history 1051: one edge's COMMITs in two slots had the same number, the second one passed for the
    first, and a replay of that was carried out beside it."""
    world.commit(HERE, THERE)
    world.engines[ELSEWHERE] = Engine(ELSEWHERE, SETTINGS)
    other = Transact(ELSEWHERE, CLIENT, 4, [publish_to(ELSEWHERE), publish_to(THERE)], (5, 1))
    world.turn(lambda turn: list(world.coordinator.transact(other, turn)), ELSEWHERE)
    world.run()
    world.commit(HERE, THERE)
    assert len(world.asked(Prepare)) == 2
    for kind in (Prepare, Prepare, Decide, Decide):
        world.answer(kind)
    assert sorted(world.told()) == [3, 4]


def test_a_new_leader_tells_what_the_log_has_decided(world):
    world.commit(HERE, THERE)
    world.answer(Prepare)
    world.sent.clear()
    old = world.engines[HERE].snapshot()
    world.fail_over()
    for meta in old:
        world.engines[HERE].restore_meta(meta)
    list(world.engines[HERE].restore_ending(False, Turn(1, 1)))
    world.coordinator.resume(world.engines[HERE])
    assert world.asked(Decide) == [(THERE, True)]
    world.commit(HERE, THERE)
    assert world.told() == [], "a replay is answered no earlier than the first one"
    world.answer(Decide)
    assert world.told() == [3]


# ── rollback ───────────────────────────────────────────────────────────────────────────────────────


def test_a_no_is_in_the_log_before_a_participant_hears_it(world):
    """Else the slot's next leader, to whom the COMMIT is replayed, finds it prepared, and commits what is undone
    a moment later."""
    world.commit(HERE, THERE, ELSEWHERE)
    world.answer(Prepare, THERE)
    world.held = True
    world.answer(Prepare, ELSEWHERE, Code.NO_SUCH_DELIVERY)
    assert world.told() == [Code.NO_SUCH_DELIVERY] and world.asked(Decide) == [] and world.kinds()[-1] == "aborted"
    world.held = False
    world.run()
    assert world.asked(Decide) == [(THERE, False)]


def test_a_leader_that_is_gone_says_nothing_to_participants(world):
    world.commit(HERE, THERE, ELSEWHERE)
    world.answer(Prepare, THERE)
    world.fail_over(back=False)
    world.answer(Prepare, ELSEWHERE, Code.OWNER_UNAVAILABLE)
    assert world.asked(Decide) == [] and world.told() == []


def test_when_nobody_holds_anything_nothing_is_logged(world):
    world.commit(HERE, THERE)
    world.answer(Prepare, code=Code.NO_SUCH_DELIVERY)
    assert world.told() == [Code.NO_SUCH_DELIVERY] and world.log == [] and world.asked(Decide) == []


def test_what_was_inquired_meanwhile_is_refused(world):
    world.commit(HERE, THERE)
    tx = world.sent[0].tx
    engine = world.engines[HERE]
    world.turn(lambda turn: engine.abandon(tx))
    world.turn(lambda turn: engine.handle(Inquire(HERE, 9, 9, tx), turn))
    world.answer(Prepare)
    assert world.told() == [Code.NO_SUCH_TRANSACTION] and world.asked(Decide) == [(THERE, False)]


@pytest.mark.parametrize(
    ("code", "calm"),
    [
        (Code.DISK_FULL, True), (Code.OWNER_STOPPED, True), (Code.ADDRESS_FULL, False),
        (Code.NO_SUCH_DELIVERY, False),
    ],
)  # fmt: skip
def test_who_is_told_no_hears_whether_the_client_has_failed(world, code, calm):
    """Each COMMIT that a full disk refused counted as an attempt of all that it acknowledges elsewhere: a dead letter
    after ten."""
    world.commit(HERE, THERE, ELSEWHERE)
    world.answer(Prepare, THERE)
    world.answer(Prepare, ELSEWHERE, code=code)
    told = [(command.commit, command.calm) for command in world.sent if type(command) is Decide]
    assert set(told) == {(False, calm)} and world.told() == [code]


def test_a_disk_that_is_full_by_the_time_everybody_has_prepared_is_no_failure_either(world):
    world.commit(HERE, THERE)
    world.full = True
    world.answer(Prepare)
    assert [command.calm for command in world.sent if type(command) is Decide] == [True]
    assert world.told() == [Code.DISK_FULL]


def test_its_own_part_is_looked_at_some_hundred_at_a_time(world, monkeypatch):
    """1,000 parts were one step, when it came and when all had prepared."""
    parts = [Publish(HERE, CLIENT, 0, f"a{n}", Routing.ANYCAST, run_of(b"m", durable=True)) for n in range(1000)]
    parts.append(Publish(THERE, CLIENT, 0, "t", Routing.ANYCAST, run_of(b"m", durable=True)))
    asked = []
    real = Engine.check
    monkeypatch.setattr(Engine, "check", lambda *given: asked.append(1) or real(*given))

    def pieces(step, turn):
        """How many are looked at in each."""
        counts, before = [], len(asked)
        for _ in step(turn):
            counts.append(len(asked) - before)
            before = len(asked)
        return [*counts, len(asked) - before]

    def all_are(found):
        return sum(found) == 1000 and max(found) <= CHECKED

    turn = Turn(world.now, world.number)
    command = Transact(HERE, CLIENT, 3, parts, (5, 1))
    assert all_are(pieces(lambda turn: world.coordinator.transact(command, turn), turn))
    (prepare,) = world.sent
    world.coordinator.on_effects([Done(SESSION, prepare.seq)])
    ((_, decide),) = world.steps
    assert all_are(pieces(lambda turn: decide(world.engines[HERE], turn), turn))


def test_a_full_disk_takes_no_commit(world):
    world.full = True
    world.commit(HERE, THERE)
    assert world.told() == [Code.DISK_FULL] and world.sent == []


# ── led again ──────────────────────────────────────────────────────────────────────────────────────


def test_a_replay_to_a_leader_that_led_the_slot_before_is_carried_out(world):
    """It was taken for the one of long ago, and never answered."""
    world.commit(HERE, THERE)
    world.fail_over()
    world.commit(HERE, THERE)
    first, second = world.sent
    assert (first.slot, first.tx) == (second.slot, second.tx)
    world.answer(Prepare)
    assert world.told() == []
    world.answer(Prepare)
    world.answer(Decide)
    assert world.told() == [3]


def test_what_an_engine_began_goes_with_it(world):
    world.commit(HERE, THERE)
    world.fail_over()
    world.answer(Prepare)
    assert world.told() == [] and world.log == []
    world.coordinator.poll()
    assert world.coordinator._active == {}


# ── dead letters ───────────────────────────────────────────────────────────────────────────────────


def dead_letter(world, blob=None):
    """A message of queue 1 on its way to another slot."""
    run = Run(range(1, 2), b"", [b"m"], 1, DURABLE, blob=blob)
    move = Move(HERE, 1, range(1, 2), "DLQ", run)
    world.coordinator.move(move, THERE)
    return move


def test_a_dead_letter_is_tried_again_while_nobody_serves_its_address(world):
    dead_letter(world)
    world.answer(Prepare, code=Code.OWNER_UNAVAILABLE)
    assert world.asked(Decide) == [(THERE, False)] and [s for s, _ in world.later] == [RETRY_S] and world.log == []
    world.wait()
    world.answer(Prepare)
    assert "decided" in world.kinds()


def heard_dead_letter(world, heard):
    move = Move(HERE, 1, range(1, 2), "DLQ", Run(range(1, 2), b"", [b"m"], 1, DURABLE))
    move.is_heard_by(lambda turn: heard.append(turn))
    world.coordinator.move(move, THERE)


@pytest.mark.parametrize("code", [Code.ADDRESS_FULL, Code.DISK_FULL])
def test_who_rejected_it_does_not_wait_for_room(world, code):
    heard = []
    heard_dead_letter(world, heard)
    world.answer(Prepare, code=code)
    assert len(heard) == 1
    world.wait()
    world.answer(Prepare)
    assert "decided" in world.kinds() and len(heard) == 1


def test_who_rejected_it_waits_some_seconds_for_an_owner_that_says_nothing(world):
    heard = []
    heard_dead_letter(world, heard)
    assert [seconds for seconds, _ in world.later] == [ANSWERED_S / 2]
    world.wait()
    heard_dead_letter(world, heard)
    assert heard == []
    world.wait()
    assert len(heard) == 1, "the other one has waited for half of it"
    world.wait()
    assert len(heard) == 2 and world.later == []


@pytest.mark.parametrize("code", [Code.ADDRESS_FULL, Code.DISK_FULL])
def test_what_nobody_takes_is_tried_ever_more_rarely_and_told(world, code, caplog):
    """It was tried each second, for ever, without a word."""
    dead_letter(world)
    waits = []
    while len(waits) < 7:
        world.answer(Prepare, code=code)
        waits += [seconds for seconds, _ in world.later]
        world.wait()
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, LAST_RETRY_S, LAST_RETRY_S]
    assert [record.message.partition(":")[0] for record in caplog.records if record.levelname == "WARNING"] == [
        "messages for DLQ wait, and are tried again"
    ]
    world.answer(Prepare)
    assert "decided" in world.kinds()


def test_a_large_one_that_nobody_takes_is_tried_ever_more_rarely_too(world, caplog):
    """Its body was read and carried again each second, for ever, without a word."""
    world.body_there = Blob(33, 100)
    dead_letter(world, Blob(1, 100))
    waits = []
    while len(waits) < 7:
        if not [command for command in world.sent if isinstance(command, Prepare)]:
            world.wait()
            continue
        world.answer(Prepare, code=Code.ADDRESS_FULL)
        waits += [seconds for seconds, _ in world.later]
        world.wait()
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, LAST_RETRY_S, LAST_RETRY_S]
    told = [record.message.partition(":")[0] for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["messages for DLQ wait, and are tried again"]


@pytest.mark.parametrize("policy", ["FAIL", "BLOCK"])
def test_a_full_address_takes_a_dead_letter_from_another_slot_and_refuses_a_client(world, policy):
    dead_letter(world)
    asked = world.answer(Prepare)
    full = replace(SETTINGS, addresses={"DLQ": {"full_policy": policy, "max_size_messages": 1}})
    target = Engine(THERE, full)

    def takes(publish):
        turn = Turn(0, 1)
        target.handle(Prepare(THERE, SESSION, 8, f"tx{len(turn.appends)}{publish.session}", HERE, [publish], 3), turn)
        return not [effect for effect in turn.effects if isinstance(effect, Refused)]

    turn = Turn(0, 1)
    target.handle(Publish(THERE, CLIENT, 0, "DLQ", Routing.ANYCAST, run_of(b"m")), turn)
    (letter,) = asked.parts
    assert takes(letter)
    assert not takes(Publish(THERE, CLIENT, 0, "DLQ", Routing.ANYCAST, run_of(b"m", durable=True)))


def test_a_dead_letter_of_an_earlier_leadership_is_not_tried_again(world):
    """The engine of now has the message in its queue, and its own idea of it."""
    dead_letter(world)
    world.answer(Prepare, code=Code.OWNER_UNAVAILABLE)
    world.fail_over()
    world.wait()
    assert world.asked(Prepare) == [] and world.log == []


def test_a_large_dead_letter_goes_ahead_of_its_message(world):
    dead_letter(world, Blob(1, 100))
    while world.later and world.later[0][0] == 0:
        world.wait()
    assert world.sent == [] and [s for s, _ in world.later] == [RETRY_S]
    world.body_there = Blob(33, 100)
    while world.later:
        world.wait()
    (prepare,) = world.sent
    assert prepare.parts[0].run.blob.id == 33


def test_a_large_dead_letter_that_cannot_be_read_is_tried_ever_more_rarely(world):
    """And stays where it was: whoever leads next may have a good copy of it."""
    world.damaged = True
    dead_letter(world, Blob(5, 10))
    waits = []
    while len(waits) < 7:
        waits += [seconds for seconds, _ in world.later if seconds]
        world.wait()
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, LAST_RETRY_S, LAST_RETRY_S]
    assert world.sent == []


def test_a_large_copy_goes_again_when_its_leader_leads_no_more(world):
    """The cluster's history 104: its body was complete, and nobody was left to publish it."""
    world.body_there = Blob(33, 100)
    dead_letter(world, Blob(1, 100))
    world.fail_over()
    while world.later:
        world.wait()
    assert world.sent == [] and world.aborted == 1


# ── in doubt ───────────────────────────────────────────────────────────────────────────────────────


def prepared(world):
    part = Publish(HERE, 0, 0, "a", Routing.ANYCAST, run_of(b"m", durable=True))
    world.turn(lambda turn: world.engines[HERE].handle(Prepare(HERE, 9, 0, "8.x.1", THERE, [part]), turn))
    world.now += 2000
    world.coordinator.poll()


@pytest.mark.parametrize(("code", "left"), [(None, 1), (Code.NO_SUCH_TRANSACTION, 0)])
def test_who_hears_nothing_asks(world, code, left):
    prepared(world)
    world.coordinator.poll()
    assert world.asked(Inquire) == [(THERE, None)]
    world.answer(Inquire, code=code)
    engine = world.engines[HERE]
    world.turn(lambda turn: engine.handle(Subscribe(HERE, 1, 1, 1, "a", Routing.ANYCAST, AckMode.AUTO), turn))
    assert world.kinds()[-1] != "prepared" and engine.in_doubt(1 << 50) == []
    assert engine.counters()["delivered"] == left


def test_what_its_coordinator_forgot_with_its_leader_is_no_failure_of_a_client(world, monkeypatch):
    prepared(world)
    engine, told = world.engines[HERE], []
    real = type(engine).in_pieces
    monkeypatch.setattr(
        type(engine), "in_pieces", lambda self, command, turn: told.append(command) or real(self, command, turn)
    )
    world.answer(Inquire, code=Code.NO_SUCH_TRANSACTION)
    assert [(command.tx, command.commit, command.calm) for command in told] == [("8.x.1", False, True)]


def test_who_is_told_that_it_is_being_decided_asks_again(world):
    prepared(world)
    world.answer(Inquire, code=Code.OWNER_UNAVAILABLE)
    world.coordinator.poll()
    assert world.asked(Inquire) == [(THERE, None)]


# ── a participant's new leader ─────────────────────────────────────────────────────────────────────


def settling(world, *slots):
    """slots: of its sends; it acknowledges in THERE."""
    settle = Settle(THERE, CLIENT, 0, 1, [4])
    command = Transact(HERE, CLIENT, 3, [settle, *map(publish_to, slots or (HERE,))], (5, 1))
    world.turn(lambda turn: list(world.coordinator.transact(command, turn)))
    world.run()


def publish_to(slot):
    return Publish(slot, CLIENT, 0, f"a{slot}", Routing.ANYCAST, run_of(b"m", durable=True))


def test_a_participant_is_asked_again_until_the_consumers_edge_has_come(world):
    """The cluster's histories 123, 150, 284: the Prepare was faster than the edge's Resume at the new leader."""
    settling(world)
    world.answer(Prepare, code=Code.OWNER_UNAVAILABLE)
    assert world.asked(Prepare) == [] and world.told() == []
    world.wait()
    assert world.asked(Prepare) == [(THERE, None)]
    world.answer(Prepare)
    world.answer(Decide)
    assert world.told() == [3]


def test_an_edge_that_never_comes_is_not_waited_for_for_ever(world):
    settling(world)
    for _ in range(AGAIN_MOST):
        world.answer(Prepare, code=Code.OWNER_UNAVAILABLE)
        world.wait()
    world.answer(Prepare, code=Code.OWNER_UNAVAILABLE)
    assert world.told() == [Code.OWNER_UNAVAILABLE] and world.asked(Prepare) == []


def test_a_commit_is_refused_for_what_stands_against_it_and_not_for_an_edge_that_is_late(world):
    """The cluster's history 306 of edges that come back: one participant said that its client holds nothing of that any
    more, and the other one, which nobody asks again then, that the client's edge was not there yet."""
    settling(world, ELSEWHERE)
    world.answer(Prepare, code=Code.OWNER_UNAVAILABLE)
    world.answer(Prepare, ELSEWHERE, Code.ADDRESS_FULL)
    world.wait()
    world.answer(Prepare, code=Code.OWNER_UNAVAILABLE)
    assert world.told() == [Code.ADDRESS_FULL] and world.asked(Prepare) == []


def test_a_leader_that_is_deposed_meanwhile_does_not_ask_again(world):
    settling(world)
    world.answer(Prepare, code=Code.OWNER_UNAVAILABLE)
    world.fail_over()
    world.wait()
    assert world.asked(Prepare) == []
