"""A history of a cluster: clients at work while everything that can go wrong does, then peace, then the reckoning.

Safety phase: seeded faults; nothing promised may break. Liveness phase: everything is healed, and within HEAL_S virtual
seconds every question must be answered, every queue drained, every replica in step.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from contextlib import ExitStack
from random import Random

from tests.sim.checker import Violation
from tests.sim.cluster_checkers import DEAD, SKEW_MS, Copy
from tests.sim.cluster_clients import Clients
from tests.sim.cluster_work import Workload
from tests.sim.cluster_world import STORE, Alarms, Host, World

HEAL_S = 30.0


class Habits:
    """What this history is prone to (swarm): most have few kinds of faults, so that each kind is met alone, too."""

    def __init__(self, world: World) -> None:
        random = world.random
        kinds = ("kill", "power", "freeze", "cut", "partition", "one way", "store", "outage", "wipe", "slow", "edge",
                 "compact", "stop", "transfer")  # fmt: skip
        count = random.choice((0, 1, 1, 2, 3, 5, len(kinds)))
        self.faults = sorted(random.sample(kinds, count))
        self.seconds = random.choice((1.0, 1.5, 2.5))
        """How long the safety phase lasts."""
        self.pause = random.choice((0.1, 0.3, 0.8))
        """Between two faults."""
        self.pace = random.choice((0.004, 0.01, 0.02, 0.04))
        """Between two acts of the clients of one edge."""
        self.most_down = 1
        """Owners that are harmed at a time: what the replication promises to bear."""


class History:
    """One seed. Subclasses say what runs on the hosts (`build`), how it is driven (`transfer`), when it is at rest
    (`at_rest`) and what is true then (`check_rest`)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self.random = self.world.random
        self.loop = self.world.loop
        self.habits = Habits(self.world)
        self.work = Workload(self.random, Random(f"traits of {seed}"), self.world.wall_ms)
        if self.work.scheduled:
            self.world.skews_ms = (0, 0, -SKEW_MS, SKEW_MS)
        self.model = self.work.model
        self.clients: dict[str, Clients] = {}
        """By edge, of its present life."""
        self.everybody: list[Clients] = []
        self.safety = True
        self.trouble_until = 0.0
        """When everything that is under way against the cluster will have ended by itself."""
        self.world.died = self._died  # type: ignore[method-assign]
        self.work.on_done = self.receipted

    # ── for subclasses ─────────────────────────────────────────────────────────────────────────────

    def build(self, stack: ExitStack) -> None:
        """Makes the hosts; patches on the stack are taken back at the end."""
        raise NotImplementedError

    def at_rest(self) -> bool:
        """Nothing is under way inside."""
        return True

    def check_rest(self) -> None:
        """Raises Violation."""

    def transfer(self) -> None:
        """An operator moves something."""

    def receipted(self, copies: list[Copy]) -> None:
        """A receipt for these has just arrived."""

    def spare(self, host: Host) -> bool:
        """Everything on its disk is on another one as well."""
        return True

    def taken_out(self, host: Host) -> None:
        """Its disk is about to be replaced by an empty one."""

    # ── a history ──────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Raises Violation, or whatever else was found."""
        alarms = Alarms(self.world)
        logger = logging.getLogger("stampede")
        logger.addHandler(alarms)
        level = logger.level
        logger.setLevel(logging.ERROR)  # what Alarms wants to hear: nothing else is even put into words
        gc.disable()  # collections at odd moments would end generators at odd moments: no history would repeat
        try:
            with ExitStack() as stack:
                self.build(stack)
                stack.enter_context(self.loop.running())
                self._live()
        except BaseException as error:
            error.add_note(self.story())
            raise
        finally:
            logger.removeHandler(alarms)
            logger.setLevel(level)
            gc.enable()

    def story(self, last: int = 60) -> str:
        """The end of the diary."""
        return "\n".join([f"seed {self.seed}, faults {self.habits.faults}", *self.world.diary[-last:]])

    def _live(self) -> None:
        for host in self.world.hosts.values():
            host.start()
        self._later_act()
        if self.habits.faults:
            self.world.after(self.random.uniform(0, 1.0), self._harm)
        self.loop.run_for(self.habits.seconds + self.random.uniform(0, 0.5))
        self._heal()
        self._drain()
        self.model.finished()

    # ── clients at work ────────────────────────────────────────────────────────────────────────────

    def attach(self, host: Host, port: object) -> Clients:
        """The edge of this host begins to serve. Called in its place."""
        clients = Clients(host.name, self.work, port, self._found)  # type: ignore[arg-type]
        self.clients[host.name] = clients
        self.everybody.append(clients)
        return clients

    def _found(self, error: BaseException) -> None:
        if self.loop.failure is None:
            self.loop.failure = error

    def _died(self, host: Host) -> None:
        if (clients := self.clients.pop(host.name, None)) is not None:
            clients.die()

    def in_place(self, name: str, call: Callable[[], None]) -> None:
        host = self.world.hosts[name]
        if host.running:
            assert host.place
            host.place.soon(call)

    def _later_act(self) -> None:
        if self.safety:
            self.world.after(self.random.uniform(0, 2 * self.habits.pace), self._act)

    def _act(self) -> None:
        for name, clients in list(self.clients.items()):
            if self.safety:
                self.in_place(name, clients.act)
        self._later_act()

    # ── faults ─────────────────────────────────────────────────────────────────────────────────────

    def _harm(self) -> None:
        if not self.safety:
            return
        kind = self.random.choice(self.habits.faults)
        self.model.calm = False
        getattr(self, "harm_" + kind.replace(" ", "_"))()
        self.world.after(self.random.uniform(0.2, 2) * self.habits.pause, self._harm)

    def _duration(self) -> float:
        seconds = self.random.choice((0.05, 0.3, 0.7, 1.5, 2.5)) * self.random.uniform(0.5, 1.5)
        self.trouble_until = max(self.trouble_until, self.loop.now + seconds + 0.1)
        return seconds

    def _victim(self, kind: str = "owner") -> Host | None:
        """An owner only while all others are well."""
        hosts = self.world.of(kind)
        harmed = [host for host in hosts if not host.running]
        if len(harmed) >= (self.habits.most_down if kind == "owner" else len(hosts)):
            return None
        able = [host for host in hosts if host.running]
        return self.random.choice(able) if able else None

    def _restart(self, host: Host) -> None:
        self.world.after(self._duration(), host.start)

    def harm_kill(self) -> None:
        if host := self._victim():
            host.kill(power=False)
            self._restart(host)

    def harm_power(self) -> None:
        """In the middle of what its disk is doing, if it is doing anything soon."""
        if host := self._victim():
            host.disk.crash_at = host.disk.total_calls + self.random.randrange(1, 12)
            self.world.after(0.05, self._power_off, host, host.place)

    def _power_off(self, host: Host, place: object) -> None:
        if host.place is place:
            host.kill(power=True)
        self._restart(host)

    def harm_wipe(self) -> None:
        if (host := self._victim()) and self.spare(host):
            host.kill(power=True)
            self.taken_out(host)
            host.wipe()
            self._restart(host)

    def harm_freeze(self) -> None:
        if host := self._victim(self.random.choice(("owner", "owner", "edge"))):
            host.freeze()
            seconds = self._duration()
            self.world.after(seconds, host.thaw)

    def harm_cut(self) -> None:
        """Some connections are reset."""
        for stream in self.world.network.streams():
            if self.random.random() < 0.3:
                self.world.network.cut(stream)

    def harm_partition(self) -> None:
        """One host away from some of the others (and the store, perhaps)."""
        if host := self._victim(self.random.choice(("owner", "owner", "edge"))):
            others = [*self.world.hosts, STORE]
            others.remove(host.name)
            cut_off = sorted(self.random.sample(others, self.random.randint(1, len(others))))
            seconds = self._duration()
            self.world.isolate([host.name], cut_off, seconds)

    def harm_one_way(self) -> None:
        one, other = self.random.sample([*self.world.hosts, STORE], 2)
        seconds = self._duration()
        self.world.isolate([one], [other], seconds, both_ways=False)

    def harm_store(self) -> None:
        """One process cannot reach the metadata store."""
        host = self.random.choice(list(self.world.hosts.values()))
        seconds = self._duration()
        self.world.isolate([host.name], [STORE], seconds)

    def harm_outage(self) -> None:
        seconds = self._duration()
        self.world.outage(seconds)

    def harm_compact(self) -> None:
        self.world.note("history compacted")
        self.world.store.compact(self.world.store.revision)

    def harm_slow(self) -> None:
        if host := self._victim():
            host.slow_disk = 20.0
            self.world.note(f"{host}: slow disk")
            self.world.after(self._duration(), self._fast, host)

    @staticmethod
    def _fast(host: Host) -> None:
        host.slow_disk = 1.0

    def harm_edge(self) -> None:
        if host := self._victim("edge"):
            host.kill(power=self.random.random() < 0.5)
            self._restart(host)

    def harm_stop(self) -> None:
        """A planned restart."""
        if host := self._victim():
            host.stop()
            self.world.after(self._duration(), self._start_again, host)

    def _start_again(self, host: Host) -> None:
        if host.up:  # it takes its time to stop
            self.world.after(0.2, self._start_again, host)
        else:
            host.start()

    def harm_transfer(self) -> None:
        self.transfer()

    # ── peace ──────────────────────────────────────────────────────────────────────────────────────

    def _heal(self) -> None:
        """Nothing fails any more. What was broken mends itself within moments."""
        self.world.note("── peace ──")
        self.safety = False
        self.world.flaky = 0.0
        self.loop.run_for(max(0.0, self.trouble_until - self.loop.now) + 0.01)
        for host in self.world.hosts.values():
            host.slow_disk = 1.0
            host.disk.crash_at = 0
            host.thaw()
            host.start()
        for clients in self.clients.values():
            for session in clients.known.values():
                for request in session.loose:
                    for copy in request.sent:  # nobody was told, but who asked is there: it must happen
                        if copy.state == "pending":
                            copy.state = "sure"

    def _drain(self) -> None:
        """Answered, delivered, acknowledged, at rest: all of it, in time."""
        started = self.loop.now
        self._wait("unanswered", self._answered, started)
        self._wait("not at rest", self.at_rest, started)
        self.check_rest()
        if self.work.watched:
            self._watched()
        for name, clients in self.clients.items():
            self.in_place(name, lambda clients=clients: self._tidy(clients))
        self.loop.run_for(0.1)
        for name, clients in list(self.clients.items())[:1]:
            self.in_place(name, lambda clients=clients: self._last_session(clients))
        # A client that takes one message at a time needs a round for each of them: stuck is who gets nothing.
        most, got, since = started + 10 * HEAL_S, self.model.deliveries, self.loop.now
        while True:
            for name, clients in self.clients.items():
                self.in_place(name, lambda clients=clients: self._accept(clients))
            self.loop.run_for(0.1)
            if any(clients.thrown_out for clients in self.clients.values()):
                self._replace_last_session()
            if self._answered() and not self.model.missing() and self.drained():
                return
            if self.model.deliveries > got:
                got, since = self.model.deliveries, self.loop.now
            if self.loop.now > min(since + HEAL_S, most):
                raise Violation(f"stuck: {self.stuck()}")

    def _wait(self, what: str, done: Callable[[], bool], started: float) -> None:
        while not done():
            self.loop.run_for(0.1)
            if self.loop.now - started > HEAL_S:
                raise Violation(f"{what} {HEAL_S} s after peace: {self.stuck()}")

    def _answered(self) -> bool:
        for name, clients in self.clients.items():
            self.in_place(name, lambda clients=clients: self._go_on(clients))
        return not any(clients.busy() for clients in self.clients.values())

    @staticmethod
    def _go_on(clients: Clients) -> None:
        clients.finish_sending()
        clients.grant(always=True)

    def drained(self) -> bool:
        """Nothing is left in any queue."""
        return True

    def stuck(self) -> str:
        pending = {name: sorted(clients.pending) for name, clients in self.clients.items()}
        return f"pending {pending}, missing {self.model.missing()[:5]} of {len(self.model.missing())}"

    def _watched(self) -> None:
        """What was on its way to an edge when their stream broke comes when that edge has come back."""
        until = self.loop.now + HEAL_S
        self.loop.run_for(0.1)
        while self.work.watch.missed() and self.loop.now < until:
            self.loop.run_for(0.1)
        self.work.watch.check()
        for name, clients in self.clients.items():
            self.in_place(name, clients.watching.end_all)

    def _tidy(self, clients: Clients) -> None:
        for session in list(clients.sessions.values()):
            if session.open is not None or self.random.random() < 0.5:
                clients.disconnect(session)

    def _last_session(self, clients: Clients) -> None:
        """Drains what nobody is there for."""
        session = clients.session()
        for queue in (*self.work.taps, *self.work.subs, DEAD):
            clients.subscribe(session, queue, generous=True)

    def _replace_last_session(self) -> None:
        """A refusal has ended somebody, and nobody may be left for what he consumed."""
        for clients in self.clients.values():
            clients.thrown_out = False
        name, clients = next(iter(self.clients.items()))
        self.in_place(name, lambda: self._last_session(clients))

    @staticmethod
    def _accept(clients: Clients) -> None:
        clients.grant(always=True)
        for session in list(clients.sessions.values()):
            for holder in list(session.holders):
                clients.accept(session, holder)
