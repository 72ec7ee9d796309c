"""Messages that are sent again and again: when, how often, and that a restart makes no copy of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from broker.core.address import RECURRING, Routing
from broker.core.commands import Act, Manage, Publish
from broker.core.errors import Code, RefusedError
from broker.core.message import DURABLE
from broker.engine.messages.runs import copy
from broker.engine.publishing import recurrence
from broker.engine.publishing.recurrence import FOR_EVER, Recurrence, split, tick
from broker.engine.publishing.recurring import PIECE

from .world import ANYCAST, INDIVIDUAL, MULTICAST, World, done, refused, run_of


def rest(world, body=b"x", expires=0, seq=0, due=0, **fields):
    """One SEND that comes again and again, for queue `q`."""
    again = Recurrence(**{"address": "q", "routing": ANYCAST, "durable": True, **fields})
    run = run_of(b"\n" + body + b"\0", lines=again.lines(), durable=True, expires=expires)
    run.due = due or again.first(world.now)
    return world.do(Publish(7, 1, seq, RECURRING + again.address, ANYCAST, run))


def resting(world):
    return world.queue(f"{RECURRING}q")["scheduled"] if f"{RECURRING}q" in names(world) else 0


def names(world):
    return [queue.name for queue in world.engine.queues()]


def bodies(effects):
    runs = [effect.run for effect in effects if hasattr(effect, "run")]
    return [(run.lines + record).partition(b"\n\n")[2][:-1] for run in runs for record in run.records]


def ms(*args):
    return int(datetime(*args, tzinfo=UTC).timestamp() * 1000)


def test_it_comes_as_often_as_it_says_and_is_one_message_meanwhile():
    world = World()
    world.subscribe(1)
    rest(world, delay=100, period=50, left=2)
    assert bodies(world.tick(99)) == []
    for left in (1, 1, 0):
        assert (bodies(world.tick(1)), resting(world)) == ([b"x"], left)
        world.tick(49)
    assert bodies(world.tick(10_000)) == []
    assert f"{RECURRING}q" not in names(world)


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_one_for_ever_survives_restarts_and_nothing_of_it_piles_up(clean, durable):
    world = World()
    rest(world, delay=1, period=100, left=FOR_EVER, durable=durable)
    for _ in range(5):
        world.restart(clean)
        assert resting(world) == 1
        world.subscribe(1)
        assert bodies(world.tick(100)) == [b"x"]
    assert resting(world) == 1


def test_a_crash_before_the_log_has_it_sends_it_once():
    world = World(auto_commit=False)
    rest(world, delay=10, period=100, left=FOR_EVER)
    world.commit()
    world.tick(10)
    world.commit()
    world.serve()  # on its way, and the next one with it: neither is in the log
    world.restart(clean=False)
    world.auto_commit = True
    world.settle_down()
    assert bodies(world.subscribe(1)) == [b"x"]
    assert (bodies(world.tick(99)), bodies(world.tick(1)), resting(world)) == ([], [b"x"], 1)


def test_what_was_missed_comes_once():
    world = World()
    rest(world, delay=100, period=100, left=FOR_EVER)
    world.now += 1050
    world.restart()
    world.subscribe(1)
    assert bodies(world.tick(0)) == [b"x"]
    assert (bodies(world.tick(49)), bodies(world.tick(1))) == ([], [b"x"])


def test_whoever_is_subscribed_then_gets_it():
    world = World()
    rest(world, routing=MULTICAST, delay=100, period=100, left=FOR_EVER)
    world.tick(100)
    world.subscribe(1, routing=MULTICAST)
    assert bodies(world.tick(100)) == [b"x"]
    world.subscribe(2, routing=MULTICAST)
    assert bodies(world.tick(100)) == [b"x", b"x"]


def test_it_is_as_durable_as_it_was_sent():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL)
    rest(world, durable=False, period=10, left=1)
    [run] = [effect.run for effect in world.tick(10) if hasattr(effect, "run")]
    assert not run.flags & DURABLE
    assert run.records[0].startswith(b"scheduledJobId:7-1\n\nx")


def test_what_cron_says_with_a_burst_each_time():
    world = World()
    world.now = ms(2026, 3, 1, 8, 30)
    world.subscribe(1)
    rest(world, cron="0 * * * *", delay=1000, period=1000, left=2)
    assert bodies(world.tick(30 * 60_000)) == []
    assert resting(world) == 2  # the next hour, and this burst
    assert [bodies(world.tick(1000)) for _ in range(4)] == [[b"x"], [b"x"], [b"x"], []]
    assert resting(world) == 1
    assert bodies(world.tick(60 * 60_000 - 4000)) == []
    assert bodies(world.tick(1000)) == [b"x"]


def test_it_ends_when_it_expires():
    world = World()
    world.subscribe(1)
    rest(world, period=100, left=FOR_EVER, expires=world.now + 250)
    assert [bodies(world.tick(100)) for _ in range(4)] == [[b"x"], [b"x"], [], []]
    assert resting(world) == 0


def test_an_operator_stops_it_and_ends_it():
    world = World()
    world.subscribe(1)
    rest(world, period=100, left=FOR_EVER)
    name = f"{RECURRING}q"
    world.do(Manage(7, 1, 0, Act.PAUSE, name, name))
    assert bodies(world.tick(1000)) == []
    before = len(world.effects)
    world.do(Manage(7, 1, 0, Act.RESUME, name, name))
    assert bodies(world.effects[before:]) == [b"x"]
    world.do(Manage(7, 1, 0, Act.PURGE, name, name))
    assert bodies(world.tick(1000)) == []


@pytest.mark.parametrize("restart", [False, True])
def test_one_is_taken_back_and_stays_away(restart):
    world = World()
    world.subscribe(1)
    for body in (b"a", b"b", b"c"):
        rest(world, body, delay=100, period=100, left=FOR_EVER)
    name = f"{RECURRING}q"
    world.do(Manage(7, 1, 5, Act.CANCEL, name, name, selector="2 99 1_0 ² +1"))
    assert done(world.effects)[-1] == 5
    if restart:
        world.restart(clean=False)
        world.subscribe(1)
    assert resting(world) == 2
    assert bodies(world.tick(100)) == [b"a", b"c"]
    before = len(world.effects)
    world.do(Manage(7, 1, 6, Act.CANCEL, name, name, selector="2"))
    assert refused(world.effects[before:]) == []
    rest(world, b"d", period=100, left=FOR_EVER)
    world.do(Manage(7, 1, 7, Act.CANCEL, name, name, selector=" ".join(str(run.ids[0]) for run in world.runs.values())))
    assert (resting(world), bodies(world.tick(1000))) == (0, [])
    assert name not in names(world)


def test_what_is_taken_back_makes_room():
    world = World()
    for _ in range(3):
        rest(world, period=1000, left=FOR_EVER)
    name = f"{RECURRING}q"
    usage = next(queue for queue in world.engine.queues() if queue.name == name).usage
    world.do(Manage(7, 1, 0, Act.CANCEL, name, name, selector="1 2"))
    assert (usage.messages, usage.quota.messages) == (1, 1)


def test_a_browser_sees_what_is_not_due_and_takes_nothing():
    world = World()
    for body, delay in ((b"b", 200), (b"a", 100), (b"c", 300)):
        rest(world, body, delay=delay, period=1000, left=FOR_EVER)
    name = f"{RECURRING}q"
    effects = world.subscribe(1, address=name, queue=name, browse=True)
    assert bodies(effects) == [b"a", b"b", b"c"]
    world.subscribe(2)
    assert bodies(world.tick(300)) == [b"a", b"b", b"c"]


def test_other_queues_have_nothing_to_cancel():
    world = World()
    world.publish("q", b"x", durable=True)
    world.do(Manage(7, 1, 1, Act.CANCEL, "q", "q", selector="1"))
    assert refused(world.effects) == [Code.NOT_ALLOWED]


@pytest.mark.parametrize("taken_back", [False, True])
def test_one_that_is_on_its_way_is_seen_and_does_not_come_again(taken_back):
    world = World(auto_commit=False)
    name = f"{RECURRING}q"
    rest(world, delay=10, period=100, left=FOR_EVER)
    world.commit()
    world.tick(10)
    world.commit()
    fetch, turn = world.fetches.pop(0), world.turn()
    world.engine.fetched(fetch.queue, [copy(world.runs[at]) for at in fetch.positions], turn)
    world.engine.flush(turn)
    moves, turn.moves = turn.moves, []
    world.finish(turn)
    assert bodies(world.subscribe(1, address=name, queue=name, browse=True)) == [b"x"]
    if taken_back:
        world.do(Manage(7, 1, 1, Act.CANCEL, name, name, selector="1"))
    world.auto_commit = True
    late = world.turn()
    late.moves += moves
    world.finish(late)
    assert bodies(world.subscribe(2)) == [b"x"]
    assert (resting(world), bodies(world.tick(100))) == ((0, []) if taken_back else (1, [b"x"]))


def test_one_that_is_due_is_taken_back():
    world = World(auto_commit=False)
    name = f"{RECURRING}q"
    world.subscribe(1)
    rest(world, delay=10, period=100, left=FOR_EVER)
    world.commit()
    world.tick(10)  # the log is asked
    world.commit()  # and its page
    world.do(Manage(7, 1, 1, Act.CANCEL, name, name, selector="1"))
    world.auto_commit = True
    world.settle_down()
    world.tick(1000)
    assert (bodies(world.effects), resting(world)) == ([], 0)


def test_there_are_so_many_of_an_address_and_no_more():
    world = World()
    again = Recurrence("q", Routing.ANYCAST, period=1000, left=FOR_EVER)
    run = run_of(*[b"\nx\0"] * 10_000, lines=again.lines(), durable=True)
    run.due = world.now + 1000
    world.do(Publish(7, 1, 1, f"{RECURRING}q", ANYCAST, run))
    rest(world, period=10, left=FOR_EVER, seq=2)
    assert refused(world.effects) == [Code.ADDRESS_FULL]


def test_many_at_once_are_a_piece_at_a_time():
    world = World()
    world.subscribe(1)
    for _ in range(3 * PIECE):
        rest(world, due=world.now + 100, period=1000, left=FOR_EVER)
    before = len(world.log)
    world.tick(100)
    turns = {}
    for number, _ in world.log[before:]:
        turns[number] = turns.get(number, 0) + 1
    assert len(bodies(world.effects)) == 3 * PIECE
    assert max(turns.values()) <= 4 * PIECE


# when


def test_what_many_messages_say_is_looked_for_once(monkeypatch):
    """A read of 37 that come on the fifth Monday of a February was a step of 41 ms."""
    looked = []
    monkeypatch.setattr(
        recurrence, "CronSim", lambda *args: looked.append(args) or iter([datetime(2044, 2, 29, tzinfo=UTC)])
    )
    start = ms(2026, 1, 1)
    for n in range(100):
        assert tick("0 0 */28 2 MON#5", "Asia/Tokyo", start + n) == ms(2044, 2, 29)
    assert len(looked) == 1
    recurrence._tick.cache_clear()


def test_a_minute_that_has_begun_is_not_its_next_time():
    for after in (0, 1, 59_999):
        assert tick("* * * * *", "", ms(2026, 1, 1, 8, 30) + after) == ms(2026, 1, 1, 8, 31)


def test_cron_by_the_clock_of_its_zone():
    summer, winter = ms(2026, 7, 1), ms(2026, 12, 1)
    assert tick("0 9 * * *", "Europe/Berlin", summer) == ms(2026, 7, 1, 7)
    assert tick("0 9 * * *", "Europe/Berlin", winter) == ms(2026, 12, 1, 8)
    assert tick("0 9 * * *", "", winter) == ms(2026, 12, 1, 9)
    # 2:30 is skipped that night, and comes once when there are two of it
    assert tick("30 2 * * *", "Europe/Berlin", ms(2026, 3, 29)) == ms(2026, 3, 29, 1)
    first = tick("30 2 * * *", "Europe/Berlin", ms(2026, 10, 24, 22))
    assert tick("30 2 * * *", "Europe/Berlin", first) - first == 25 * 3_600_000


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "* * * * * *", "60 * * * *", "0 0 31 2 *", "x" * 300, "0 0 */31 2 MON#5"]
)
def test_what_cron_does_not_know(cron):
    with pytest.raises(RefusedError, match="AMQ_SCHEDULED_CRON"):
        tick(cron, "", 0)


@pytest.mark.parametrize("zone", ["Mars", "../etc/passwd", "/etc/passwd", "Europe"])
def test_what_is_no_zone(zone):
    with pytest.raises(RefusedError, match="time zone"):
        tick("* * * * *", zone, 0)


def test_a_line_is_read_as_it_was_written():
    again = Recurrence("a:b\n=&\\", Routing.MULTICAST, "q%", True, False, "0 9 * * 1", "Asia/Kolkata", 1, 2, -1, "7-9")
    line = again.lines()
    assert line.count(b"\n") == 1 and b"\\" not in line
    assert split(line + b"a:b\n\nbody") == (again, b"a:b\n\nbody")
    assert split(b"a:b\n\n") == (None, b"a:b\n\n")


def test_a_cron_expression_that_never_comes_is_looked_for_once(monkeypatch) -> None:
    """50 years are looked through for it, 1 ms: a read may bring hundreds of the same."""
    looked = []
    look = recurrence._next

    def counted(cron, zone, after):
        looked.append(cron)
        return look(cron, zone, after)

    monkeypatch.setattr(recurrence, "_next", counted)
    for _ in range(100):
        with pytest.raises(RefusedError, match="no time of the next 50 years"):
            recurrence.tick("7 7 */31 2 MON#5", "Europe/Berlin", 1_700_000_000_000)
    assert len(looked) == 1
