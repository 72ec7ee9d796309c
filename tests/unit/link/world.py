"""Edges and owners in one thread: a virtual clock, streams that can be cut, and a shard that only remembers.

Rule: nothing happens by itself: `run()` moves messages and callbacks until nobody has anything to do, `pass_time()`
moves the clock.
"""

from __future__ import annotations

import heapq
from collections import deque

from broker.config.settings import ClusterSettings, EtcdSettings, Settings
from broker.core.effects import Done, Resumed
from broker.core.message import NO_IDS, Run
from broker.link.edge_side.cluster_port import ClusterPort
from broker.link.owner_side.link_server import LinkServer
from broker.seams.stream import Ended, EndKind


class World:
    """Time, callbacks and the network."""

    def __init__(self):
        self.now = 100.0
        self.ready = deque()
        self.timers = []
        self.number = 0
        self.listening = {}
        self.pairs = []
        self.log = []
        """(from, bytes) of every message, in order."""

    def wall_ms(self):
        return int(self.now * 1000)

    def monotonic(self):
        return self.now

    def schedule(self, callback):
        self.ready.append(callback)

    def later(self, seconds, callback):
        self.number += 1
        heapq.heappush(self.timers, (self.now + seconds, self.number, callback))

    def run(self):
        while self.ready:
            self.ready.popleft()()

    def pass_time(self, seconds):
        """Runs everything that is due within that time, in order."""
        end = self.now + seconds
        self.run()
        while self.timers and self.timers[0][0] <= end:
            at, _, callback = heapq.heappop(self.timers)
            self.now = max(self.now, at)
            callback()
            self.run()
        self.now = end

    def dial(self, address, service, end):
        ours, theirs = Pipe(self, f"client-of-{address}:1"), Pipe(self, address)
        ours.other, theirs.other = theirs, ours
        ours.end = end
        acceptor = self.listening.get(address)
        if acceptor is None:
            self.ready.append(lambda: ours.over("refused: nobody listens there", EndKind.REFUSED))
        else:
            theirs.end = acceptor.accept(service, theirs)
            self.pairs.append((ours, theirs))
        return ours

    def cut(self, index=-1):
        """Breaks a connection; what is on the way is lost."""
        ours, theirs = self.pairs[index]
        for pipe in (ours, theirs):
            pipe.lost = True
            self.ready.append(lambda pipe=pipe: pipe.over("cut"))


class Pipe:
    """One end of a stream. `held`: what is sent waits (a slow network); None: it does not."""

    def __init__(self, world, peer):
        self.world = world
        self.peer = peer
        self.names: frozenset[str] = frozenset()
        self.end = None
        self.other = None
        self.lost = False
        self.closed = False
        self.held = None
        self.sent = []
        self.pending = 0

    def send(self, message):
        if self.closed or self.lost:
            return
        self.sent.append(message)
        if self.held is not None:
            self.held.append(message)
        else:
            self.world.ready.append(lambda: self.other.arrive(message))

    def release(self):
        held, self.held = self.held, None
        for message in held:
            self.world.ready.append(lambda message=message: self.other.arrive(message))

    def arrive(self, message):
        if self.end is not None and not self.closed and not self.lost:
            self.end.on_message(message)

    def close(self, why, kind=EndKind.CLOSED):
        self.abort(why, kind)

    def abort(self, why, kind=EndKind.CLOSED):
        if not self.closed:
            self.world.ready.append(lambda: self.over(why, kind))
            self.world.ready.append(lambda: self.other.over(why, kind))

    def over(self, why, kind=EndKind.LOST):
        if not self.closed:
            self.closed = True
            if self.end is not None:
                self.end.on_closed(Ended(why, kind))


class FakeShard:
    """Remembers what was submitted; answers every request unless `answers` is off."""

    def __init__(self, world):
        self.world = world
        self.commands = []
        self.batches = []
        self.congested = False
        self.answers = True
        self.taken = {}
        """Slot → producer → numbers, as an engine that drops what it has."""
        self.server = None
        self._inbox = []

    def submit(self, commands):
        self.batches.append(list(commands))
        if not self._inbox:
            self.world.schedule(self.turn)
        self._inbox += commands
        return self.congested

    def turn(self):
        inbox, self._inbox = self._inbox, []
        effects = []
        for command in inbox:
            self.commands.append(command)
            if (known := getattr(command, "resume", None)) is not None and known.behind:
                effects.append(Resumed(command.consumer, known.behind))
            if self.answers and getattr(command, "seq", 0):
                effects.append(Done(command.session, command.seq))
        if effects:
            self.server.on_effects(effects)

    def of(self, kind):
        return [command for command in self.commands if isinstance(command, kind)]


class Owner:
    """One owner process."""

    def __init__(self, world, name, settings, **bodies):
        self.world = world
        self.name = name
        self.address = f"{name}:1"
        self.settings = settings
        self.bodies = bodies
        self.start()

    def start(self):
        self.shard = FakeShard(self.world)
        self.server = LinkServer(
            self.settings, self.shard.submit, self.world, self.world.schedule, self.world.later,
            self.bodies.get("new_body"), self.bodies.get("open_body"), self.bodies.get("find_body"),
            self.bodies.get("published", lambda *_: False), self.bodies.get("flat", False),
        )  # fmt: skip
        self.shard.server = self.server
        self.world.listening[self.address] = self.server

    def stop_listening(self):
        self.world.listening.pop(self.address, None)

    def effects(self, *effects):
        self.server.on_effects(list(effects))


class Edge:
    """One edge process: what it was told is in `effects`."""

    def __init__(self, world, settings, name="edge-0", boot="b", token=7, **more):
        self.port = ClusterPort(settings, world, world, world.schedule, world.later, name, boot, token, **more)
        self.effects = []
        self.relieved = []
        self.port.attach(self)

    def on_effects(self, effects):
        self.effects += effects

    def on_relief(self, sessions=None):
        self.relieved.append(sessions)

    def on_stopped(self, why):
        raise AssertionError(why)

    def of(self, kind):
        return [effect for effect in self.effects if isinstance(effect, kind)]


def make_settings(**cluster):
    return Settings(cluster=ClusterSettings(**cluster), etcd=EtcdSettings(prefix="/stampede/test"))


def run_of(*bodies, ids=NO_IDS, lines=b"", flags=0, **more):
    records = [b"\n" + body + b"\0" for body in bodies]
    nbytes = sum(map(len, records)) + len(records) * len(lines)
    return Run(ids, lines, records, nbytes, flags, **more)
