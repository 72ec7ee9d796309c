"""A simulated network of streams: seams.stream Dialer and Acceptor between places of a VirtualLoop.

Rule: per stream and direction in order, whole, at most once; beyond that nothing is promised. Latency is drawn by
the seed. A link (from one host to another, one way) may be blocked: what is sent waits, as TCP's retransmissions do,
until the link is back or one end has lost patience (keep-alive), each end at its own time. A cut loses what is under
way. A process that ends resets its streams, a machine that dies says nothing at all, a frozen one still has a kernel.
Must not know messages.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from broker.seams.stream import Acceptor, Ended, EndKind, StreamEnd
from tests.sim.virtual_loop import Place, VirtualLoop

KEEPALIVE_S = (0.5, 4.5)
"""An end whose peer's kernel has been silent for so long takes the stream for lost: gRPC waits for longer than
anybody's patience, a middlebox does not."""
DIAL_TIMEOUT_S = 12.0
"""Who dials has less patience, as a rule."""
WINDOW = 64 * 1024
"""Bytes under way that count as given to the transport."""
REPAIR_S = 0.2
"""At most so long after a link is back its streams flow again (retransmission timers)."""
RESET = Ended("lost: connection reset", EndKind.LOST)
SILENT = Ended("lost: keep-alive", EndKind.LOST)
GOES_ON = Ended("")
"""Beside a message: none of the ends."""


class SimStream:
    """One end of a connection: seams.stream.Stream."""

    def __init__(self, connection: Connection, place: Place, host: str, peer: str) -> None:
        self.peer = peer
        self.names: frozenset[str] = frozenset()
        self.place = place
        self.host = host
        self.other: SimStream
        self.end: StreamEnd | None = None
        self.over = False
        """Told, or about to be told, that it is closed; sends are ignored."""
        self._told = False
        self._connection = connection
        self._under_way = 0
        self._outbox: deque[tuple[bytes | None, Ended]] = deque()
        """What waits for the link: messages, or None = the end, with its reason."""
        self._last = 0.0
        """When the latest thing sent arrives: order."""
        self._received = False

    def send(self, message: bytes) -> None:
        if self.over:
            return
        self._under_way += len(message)
        self._put(bytes(message), GOES_ON)

    @property
    def pending(self) -> int:
        return max(0, self._under_way - WINDOW)

    def close(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        if not self.over:
            end = Ended(why, kind)
            self._put(None, end)
            self.lost(end, 0.0)

    def abort(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        if not self.over:
            self._connection.network.reset(self, Ended(why, kind))

    # ── the kernel's side ──────────────────────────────────────────────────────────────────────────

    def lost(self, why: Ended, after: float) -> None:
        """This end hears of the end, some time later. First come."""
        self.over = self.over or after == 0.0
        self.place.at(self.place.loop.now + after, self._closed, why)

    def _closed(self, why: Ended) -> None:
        if not self._told:
            self._told = self.over = True
            self._connection.network.forget(self)
            if self.end is not None:
                self.end.on_closed(why)

    def _put(self, message: bytes | None, why: Ended) -> None:
        self._outbox.append((message, why))
        self.flow()

    def flow(self) -> None:
        """Sends what may leave: the connection stands and the link is not blocked."""
        network = self._connection.network
        other = self.other
        if not self._connection.standing or (self.host, other.host) in network._blocks:
            return
        outbox, place, now = self._outbox, other.place, network.loop.now
        while outbox:
            message, why = outbox.popleft()
            self._last = max(self._last, now + network.latency())
            place.at(self._last, self._arrive, message, why)

    def _arrive(self, message: bytes | None, why: Ended) -> None:
        """In the place of the other end."""
        other = self.other
        if message is not None:
            self._under_way -= len(message)
        if other._told or other.over or self._connection.broken:
            return
        if message is None:
            other.lost(why, 0.0)
        elif other.end is not None:
            self._connection.network.messages += 1
            other.end.on_message(message)


class Connection:
    """Two ends. `broken`: nothing under way arrives any more. `standing`: the handshake is done."""

    def __init__(self, network: Network, dialer: Place, address: str) -> None:
        self.network = network
        self.standing = False
        self.broken = False
        host = network.host_of(address)
        self.near = SimStream(self, dialer, dialer.name, address)
        self.far = SimStream(self, network.loop.world, host, f"{dialer.name}:0")
        self.near.other, self.far.other = self.far, self.near


class Network:
    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.random = Random(seed)
        self.messages = 0
        self.habit = self.random.choice(((0.0002, 0.0005), (0.0002, 0.003), (0.001, 0.02)))
        """Seconds of latency, least and most, in this history."""
        self._listeners: dict[str, tuple[Place, Acceptor]] = {}
        self._hosts: dict[str, str] = {}
        self._down: set[str] = set()
        self._blocks: dict[tuple[str, str], int] = {}
        self._streams: list[SimStream] = []

    def latency(self) -> float:
        low, high = self.habit
        draw = self.random.random
        return low + (high - low) * draw() if draw() < 0.97 else high + 4 * high * draw()

    # ── hosts ──────────────────────────────────────────────────────────────────────────────────────

    def host_of(self, address: str) -> str:
        return self._hosts.get(address, address)

    def listen(self, place: Place, address: str, acceptor: Acceptor) -> None:
        """The place takes streams at this address. Its name is the name of its host."""
        self._listeners[address] = (place, acceptor)
        self._hosts[address] = place.name
        self._down.discard(place.name)

    def unlisten(self, address: str) -> None:
        self._listeners.pop(address, None)

    def ended(self, place: Place, silent: bool) -> None:
        """The process is gone: its peers get a reset, or (`silent`: the machine is gone) hear nothing."""
        for address, (owner, _) in list(self._listeners.items()):
            if owner is place:
                del self._listeners[address]
        (self._down.add if silent else self._down.discard)(place.name)
        for stream in [s for s in self._streams if s.place is place]:
            stream.over = stream._told = True
            if silent:
                stream.other.lost(SILENT, self._patience())
            else:
                stream._connection.broken = self.random.random() < 0.5
                stream.other.lost(RESET, max(self.latency(), stream._last - self.loop.now))
            stream._outbox.clear()
            self.forget(stream)

    def back(self, name: str) -> None:
        """The machine answers again (its ports may still be closed)."""
        self._down.discard(name)

    # ── links ──────────────────────────────────────────────────────────────────────────────────────

    def blocked(self, source: str, target: str) -> bool:
        return (source, target) in self._blocks

    def block(self, source: str, target: str) -> None:
        """One way. Blocks of several faults add up."""
        self._blocks[source, target] = self._blocks.get((source, target), 0) + 1
        if self._blocks[source, target] == 1:
            for stream in [s for s in self._streams if s.host == source and s.other.host == target]:
                self._impatient(stream)
                self._impatient(stream.other)

    def unblock(self, source: str, target: str) -> None:
        left = self._blocks.get((source, target), 0) - 1
        if left > 0:
            self._blocks[source, target] = left
        elif left == 0:
            del self._blocks[source, target]
            repaired = self.loop.now + self.random.uniform(0, REPAIR_S)
            self.loop.at(repaired, self.loop.world, self._repair, source, target)

    def _repair(self, source: str, target: str) -> None:
        for stream in [s for s in self._streams if s.host == source and s.other.host == target]:
            stream.flow()
            if stream.over:
                self.forget(stream)

    def _impatient(self, stream: SimStream) -> None:
        """Gives the stream up if its link stays blocked."""

        def look() -> None:
            a, b = stream.host, stream.other.host
            if not stream.over and (self.blocked(a, b) or self.blocked(b, a)):
                stream.lost(SILENT, 0.0)

        stream.place.at(self.loop.now + self._patience(), look)

    def _patience(self) -> float:
        return self.random.uniform(*KEEPALIVE_S)

    def cut(self, stream: SimStream) -> None:
        """A middlebox resets the connection: both ends hear it, each at its own time; what is under way is lost."""
        stream._connection.broken = True
        stream.lost(RESET, self.latency())
        stream.other.lost(RESET, self.latency() * self.random.choice((1, 1, 20)))

    def streams(self) -> list[SimStream]:
        return [stream for stream in self._streams if not stream.over]

    def freeze_seen(self, place: Place) -> None:
        """The place stands still: its peers' keep-alives go unanswered, its own are not missed until it goes on."""
        for stream in [s for s in self._streams if s.place is place]:
            self._frozen_peer(stream.other, place)

    def _frozen_peer(self, stream: SimStream, place: Place) -> None:
        def look() -> None:
            if not stream.over and place.frozen:
                stream.lost(SILENT, 0.0)
                stream.other.lost(RESET, self.latency())  # behind what has arrived already

        stream.place.at(self.loop.now + self._patience(), look)

    # ── streams ────────────────────────────────────────────────────────────────────────────────────

    def reset(self, stream: SimStream, why: Ended) -> None:
        if self.random.random() < 0.5:
            stream._connection.broken = True
        stream.lost(why, 0.0)
        if not self.blocked(stream.host, stream.other.host):
            stream.other.lost(Ended("lost: reset by peer", EndKind.LOST), self.latency())
        else:
            stream.other.lost(SILENT, self._patience())

    def forget(self, stream: SimStream) -> None:
        """Unless the kernel still has something of it to send."""
        if stream in self._streams and (not stream._outbox or stream._connection.broken):
            self._streams.remove(stream)

    def dial(self, place: Place, address: str, service: str, end: StreamEnd) -> SimStream:
        connection = Connection(self, place, address)
        near = connection.near
        near.end = end
        self._streams.append(near)
        place.at(self.loop.now + DIAL_TIMEOUT_S, self._too_late, connection)
        self.loop.at(self.loop.now + self.latency(), self.loop.world, self._knock, connection, address, service)
        return near

    def _too_late(self, connection: Connection) -> None:
        if not connection.standing and not connection.near.over:
            connection.broken = True
            connection.near.lost(Ended("lost: no answer in time", EndKind.LOST), 0.0)

    def _knock(self, connection: Connection, address: str, service: str) -> None:
        """The handshake reaches the other host, if it can."""
        near, far = connection.near, connection.far
        if near.over or connection.broken:
            return
        listener = self._listeners.get(address)
        host = listener[0].name if listener else self._hosts.get(address, address)
        if self.blocked(near.host, host) or self.blocked(host, near.host):
            self.loop.at(self.loop.now + REPAIR_S, self.loop.world, self._knock, connection, address, service)
        elif host in self._down:
            return
        elif listener is None:
            near.lost(Ended("refused: nobody listens", EndKind.REFUSED), self.latency())
        else:
            far.place, far.host = listener[0], host
            far.place.soon(self._accept, connection, listener[1], service)

    def _accept(self, connection: Connection, acceptor: Acceptor, service: str) -> None:
        """In the place of the listener: runs late when that is frozen."""
        near, far = connection.near, connection.far
        if connection.broken or near.over:
            connection.broken = True
            self.forget(near)
            return
        connection.standing = True
        self._streams.append(far)
        far.end = acceptor.accept(service, far)
        far.flow()
        near.place.at(self.loop.now + self.latency(), near.flow)


class SimDialer:
    """seams.stream.Dialer of one place."""

    def __init__(self, network: Network, place: Place) -> None:
        self._network = network
        self._place = place

    def dial(self, address: str, service: str, end: StreamEnd) -> Any:
        return self._network.dial(self._place, address, service, end)
