"""The tools of the cluster's simulation: the loop repeats itself, the network keeps and breaks its promises as told."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.address import AckMode, Routing
from broker.core.commands import Publish
from broker.core.effects import Deliver
from broker.core.message import Run
from tests.sim.checker import Violation
from tests.sim.cluster_checkers import Holder, Message, Model
from tests.sim.cluster_watchers import Watch, Watcher
from tests.sim.cluster_wild import WildWatch, WildWatcher
from tests.sim.network import DIAL_TIMEOUT_S, KEEPALIVE_S, Network, SimDialer
from tests.sim.virtual_loop import HERE, Place, Stalled, VirtualLoop


class Recorder:
    """A StreamEnd, and an Acceptor that uses itself."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.heard: list[bytes] = []
        self.why: list[str] = []
        self.stream = None

    def accept(self, service, stream):
        self.stream = stream
        return self

    def on_message(self, message):
        assert not self.why
        self.heard.append(message)

    def on_closed(self, why):
        self.why.append(str(why))


@pytest.fixture
def loop():
    loop = VirtualLoop(1)
    with loop.running():
        yield loop


def pair(loop, seed=1):
    network = Network(loop, seed)
    a, b = loop.place("a"), loop.place("b")
    near, far = Recorder(loop), Recorder(loop)
    network.listen(b, "b:1", far)
    near.stream = a.run(SimDialer(network, a).dial, "b:1", "edge", near)
    return network, a, b, near, far


def test_time_jumps_and_every_place_has_a_clock_of_its_own(loop):
    slow, fast = loop.place("slow", 100.0, 0.5), loop.place("fast", 0.0, 2.0)
    seen = {}

    async def sleeper(name):
        await asyncio.sleep(1)
        seen[name] = (loop.now, loop.time())

    slow.spawn(sleeper("slow"))
    fast.spawn(sleeper("fast"))
    assert loop.run_until(lambda: len(seen) == 2, 10)
    assert seen["slow"] == pytest.approx((2.0, 101.0), abs=1e-4)
    assert seen["fast"] == pytest.approx((0.5, 1.0), abs=1e-4)


def test_one_seed_one_history_and_another_seed_another():
    def history(seed):
        loop = VirtualLoop(seed)
        log = []

        async def worker(name):
            for n in range(10):
                log.append((name, n))
                await asyncio.sleep(0)

        with loop.running():
            for name in "abc":
                loop.place(name).spawn(worker(name))
            loop.run_until(lambda: len(log) == 30, 1)
        return log

    assert history(1) == history(1) != history(2)
    assert [n for name, n in history(2) if name == "a"] == list(range(10))


def test_a_frozen_place_goes_on_late_and_a_dead_one_never(loop):
    frozen, dead = loop.place("frozen"), loop.place("dead")
    seen = []
    for place in (frozen, dead):
        place.run(loop.call_later, 1, lambda place=place: seen.append((place.name, loop.now)))
    frozen.frozen = True
    loop.run_for(0.5)
    dead.die()
    loop.run_for(2.5)
    assert not seen
    frozen.frozen = False
    loop.run_for(1)
    assert seen == [("frozen", pytest.approx(3.0, abs=1e-4))]


def test_an_error_in_a_callback_and_in_a_task_nobody_waits_for_end_the_history(loop):
    async def faulty():
        raise ValueError("planted")

    loop.place("a").spawn(faulty())
    with pytest.raises(ValueError, match="planted"):
        loop.run_for(1)
        loop.run_for(1)


def test_who_spins_and_who_waits_for_nothing_is_found(loop):
    with pytest.raises(Stalled, match="nothing is left"):
        loop.run_until(lambda: False, 1)

    def spin():
        loop.call_soon(spin)

    spin()
    with pytest.raises(Stalled, match="time stands still"):
        loop.run_for(1)


def test_timeouts_and_threads(loop):
    result = []

    async def patient():
        try:
            async with asyncio.timeout(2):
                await asyncio.Event().wait()
        except TimeoutError:
            result.append(loop.now)
        result.append(await asyncio.to_thread(lambda: "done"))

    loop.place("a").spawn(patient())
    assert loop.run_until(lambda: len(result) == 2, 5)
    assert result == [pytest.approx(2.0, abs=1e-4), "done"]


def test_messages_arrive_whole_in_order_and_a_close_behind_them(loop):
    _, a, _, near, far = pair(loop)
    sent = [b"%d" % n for n in range(100)]
    for message in sent:
        a.run(near.stream.send, message)
    a.run(near.stream.close, "bye")
    loop.run_for(1)
    assert far.heard == []  # given up before the connection stood
    assert near.why == ["bye"]
    near.stream = a.run(SimDialer(near.stream._connection.network, a).dial, "b:1", "edge", near)
    near.why.clear()
    loop.run_for(0.5)
    for message in sent:
        a.run(near.stream.send, message)
    a.run(near.stream.close, "bye")
    loop.run_for(1)
    assert (far.heard, far.why, near.why) == (sent, ["bye"], ["bye"])


@pytest.mark.parametrize("seed", range(30))
def test_a_cut_loses_a_tail_and_both_ends_hear_of_it_once(loop, seed):
    network, a, _, near, far = pair(loop, seed)
    sent = [b"%d" % n for n in range(100)]
    for n, message in enumerate(sent):
        loop.at(n * 0.001, a, near.stream.send, message)
    loop.run_for(0.02 + seed / 1000)
    network.cut(near.stream)
    loop.run_for(3)
    assert far.heard == sent[: len(far.heard)]
    assert len(far.heard) < 100
    assert len(near.why) == len(far.why) == 1


def test_nobody_listens_and_nobody_is_there(loop):
    network, a, b, near, _ = pair(loop)
    network.unlisten("b:1")
    loop.run_for(0.1)
    assert near.why == ["refused: nobody listens"]
    network.ended(b, silent=True)
    lost = Recorder(loop)
    a.run(SimDialer(network, a).dial, "b:1", "edge", lost)
    loop.run_for(DIAL_TIMEOUT_S - 0.5)
    assert not lost.why
    loop.run_for(1)
    assert lost.why == ["lost: no answer in time"]


def test_a_short_block_delays_and_a_long_one_ends(loop):
    network, a, b, near, far = pair(loop)
    loop.run_for(0.1)
    network.block("a", "b")
    a.run(near.stream.send, b"late")
    loop.run_for(0.3)
    assert not far.heard
    network.unblock("a", "b")
    loop.run_for(0.5)
    assert far.heard == [b"late"]
    network.block("b", "a")
    a.run(near.stream.send, b"one way")
    b.run(far.stream.send, b"never")
    loop.run_for(KEEPALIVE_S[1])
    assert (far.heard, near.heard) == ([b"late", b"one way"], [])
    assert near.why == far.why == ["lost: keep-alive"]


def test_a_killed_process_resets_and_a_dead_machine_is_silent(loop):
    for silent, least, most in ((False, 0, 0.2), (True, *KEEPALIVE_S)):
        network, _, b, near, _ = pair(loop)
        loop.run_for(0.1)
        b.die()
        network.ended(b, silent)
        before = loop.now
        assert loop.run_until(lambda near=near: bool(near.why), 10)
        assert least <= loop.now - before <= most


def test_a_frozen_process_reads_everything_after_it_goes_on(loop):
    network, a, b, near, far = pair(loop)
    loop.run_for(0.1)
    b.frozen = True
    network.freeze_seen(b)
    a.run(near.stream.send, b"waits in the kernel")
    loop.run_for(KEEPALIVE_S[1])
    assert near.why == ["lost: keep-alive"]
    assert not far.heard
    b.frozen = False
    loop.run_for(1)
    assert far.heard == [b"waits in the kernel"]
    assert far.why == ["lost: connection reset"]


def test_the_place_of_code_is_the_place_of_what_it_schedules(loop):
    _, _, _, near, far = pair(loop)
    seen: list[Place] = []
    far.on_message = lambda message: loop.call_later(0.1, lambda: seen.append(HERE.get()))
    near.stream.send(b"x")
    loop.run_for(1)
    assert [place.name for place in seen] == ["b"]


def test_what_a_doubtful_consumer_touched_may_be_lost_until_somebody_surely_has_it():
    model = Model(lambda: 0)
    message = Message(1, b"#1#", durable=True, producer=None)
    copy = model.sent(message, "q", True, None)
    model.confirm([copy], [], ())
    copy.void = True
    model.finished()
    holder = Holder(1, 0, "q", "q", AckMode.INDIVIDUAL, "edge")
    model.delivered(holder, Deliver(1, Run([1], b"", [b"#1#"], 3), 3))
    with pytest.raises(Violation, match="lost"):
        model.finished()


class Watched:
    """A subscriber of slot 3 by edge-0, and messages that it gets or does not."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.watcher = Watcher(1, 3, "t.a", AckMode.AUTO, "edge-0")
        self.watcher.ready = True
        self.watch.watchers.append(self.watcher)
        self.sent = 0

    def send(self):
        self.sent += 1
        record = b"#%d#" % self.sent
        message = Message(self.sent, record, durable=False, producer=None)
        run = Run([0], b"", [record], len(record))
        return self.watch.sent(None, Publish(3, 1, 1, "t.a", Routing.MULTICAST, run), [message])

    def answer(self, sent):
        self.watch.answered(None, sent)


@pytest.fixture
def watched():
    return Watched()


def test_who_was_left_out_may_miss_what_was_under_way_before_its_edge_came_back(watched):
    before = watched.send()
    watched.watch.left_out("edge-0", 3, 7)
    meanwhile = watched.send()
    watched.watch.told("edge-0", 3, 7)
    watched.answer(before)
    watched.answer(meanwhile)
    watched.watch.check()


def test_who_was_left_out_misses_nothing_that_is_sent_when_its_edge_is_back(watched):
    watched.watch.left_out("edge-0", 3, 7)
    watched.watch.told("edge-0", 3, 7)
    watched.answer(watched.send())
    with pytest.raises(Violation, match="missed"):
        watched.watch.check()


@pytest.mark.parametrize(("edge", "slot"), [("edge-0", 2), ("edge-1", 3)])
def test_who_was_not_left_out_is_not_excused(watched, edge, slot):
    watched.watch.left_out(edge, slot, 7)
    watched.answer(watched.send())
    with pytest.raises(Violation, match="missed"):
        watched.watch.check()


def test_what_was_answered_before_is_no_excuse(watched):
    watched.answer(watched.send())
    watched.watch.left_out("edge-0", 3, 7)
    with pytest.raises(Violation, match="missed"):
        watched.watch.check()


def test_that_an_earlier_leader_was_told_says_nothing_to_the_next(watched):
    watched.watch.left_out("edge-0", 3, 7)
    watched.watch.told("edge-0", 3, 6)
    watched.answer(watched.send())
    watched.watch.check()


class WildWatched(Watched):
    """The subscriber takes part in all slots; what it gets or does not is in slot 3."""

    def __init__(self) -> None:
        super().__init__()
        self.watch = WildWatch()
        self.watcher = WildWatcher(1, 1024, "t.*", AckMode.AUTO, "edge-0")
        self.watcher.ready = True
        self.watch.watchers.append(self.watcher)


def test_of_a_wildcard_that_was_left_out_in_a_slot_is_excused_what_was_under_way_there():
    """Wild history 304 of 2026-11-28: its edge had not reached the store, so that its registration had run out."""
    watched = WildWatched()
    before = watched.send()
    watched.watch.left_out("edge-0", 3, 7)
    meanwhile = watched.send()
    watched.watch.told("edge-0", 3, 7)
    watched.answer(before)
    watched.answer(meanwhile)
    watched.watch.check()
    watched.answer(watched.send())
    with pytest.raises(Violation, match="missed"):
        watched.watch.check()


def test_a_wildcard_that_was_left_out_in_a_slot_misses_nothing_in_others():
    watched = WildWatched()
    before = watched.send()
    watched.watch.left_out("edge-0", 2, 7)
    watched.answer(before)
    with pytest.raises(Violation, match="missed"):
        watched.watch.check()
    watched.answer(watched.send())
    watched.watch.told("edge-0", 2, 7)
    with pytest.raises(Violation, match="missed"):
        watched.watch.check()
