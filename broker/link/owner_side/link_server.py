"""LinkServer: the owner's end of all edges' streams.

Rule: a command reaches the shard only for a slot that is led here in the epoch the edge believes in; else it did not
happen, and the edge is told. A peer that cannot be right (another cluster, another release, a second process of the
same name, garbage) is refused by name. Must not know engines: commands go to `submit`, effects come as the shard's
listener.
"""

# Example. Edge E's machine loses its network for 2 s.
#     silent   no message for dead_after_ms: _lost. Its stream is over, its consumers stay attached: what they hold is
#              theirs
#     back     a Hello of the same boot: the same EdgePeer, all slots are opened anew, each consumer attaches again
#              with what it holds. Clients have noticed nothing
# If it does not come back within edge_grace_s, or its lease ends while it has no stream: _bury. Its sessions end, 500
# in a step, and what they held goes to others, as redelivered (I6). A Hello of another boot buries the old process at
# once if that has no stream; else the newcomer is refused: one name is one process.

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count

from broker.config.settings import Settings
from broker.core.commands import Command
from broker.core.effects import BrowseEnd, ConsumerClosed, Deliver, Done, Effect, Resumed
from broker.core.errors import Code, ProtocolViolation
from broker.core.heartbeat import Heartbeat, pause, until_look
from broker.core.metrics import Metric
from broker.core.patience import stood_still
from broker.rpc.v1 import link_pb2 as pb
from broker.seams.clock import Clock, Later, Schedule
from broker.seams.stream import Ended, Stream

from ..bodies.owner_bodies import FindBody, NewBody, OpenBody
from ..codec.codec import NUMBER_BITS, PROTOCOL, SERVING, UP_PING, SlotState, decode_up, malformed
from ..codec.command_codec import MAX_MESSAGE_BYTES
from ..codec.flat import parted
from ..edge_relay import EdgeRelay
from ..owner_port import EffectListener
from ..questions import OperatorAnswers, Tell
from ..stats import LinkStats
from .attach_barrier import AttachBarrier
from .edge_peer import EdgePeer, Resting
from .edge_stream import EdgeStream
from .flood_guard import FLOOD, FLOOD_S, FloodGuard
from .session_ends import SessionEnds

log = logging.getLogger("stampede.link")

SWEEP_S = 1.0
LET_IN = 500
"""Commands that waited for a slot's leader which are let in in one step, of all slots: an edge may have megabytes of
them."""
OF_CONSUMERS = (Deliver, ConsumerClosed, BrowseEnd, Resumed)
HEADROOM = 2 * 1024 * 1024
"""What a message may take above its one largest command."""


class LinkServer:
    """See the head of this file.

    submit            the shard's.
    new_body, open_body   files for large bodies of a slot (owner/bodies/bodies.py).
    find_body         where the body of a message is that a consumer holds (owner/bodies/held_bodies.py).
    published(slot, dedup)   has this slot taken that number of that producer.
    """

    def __init__(
        self,
        settings: Settings,
        submit: Callable[[list[Command]], bool],
        clock: Clock,
        schedule: Schedule,
        later: Later,
        new_body: NewBody,
        open_body: OpenBody,
        find_body: FindBody,
        published: Callable[[int, tuple[int, int]], bool],
        flat: bool = False,
    ) -> None:
        """flat: edges are of this very release, on this machine (codec/flat.py)."""
        self.flat = flat
        self.stats = LinkStats()
        self.served: dict[int, int] = {}
        self.resting: dict[int, Resting] = {}
        self.attach_barrier: AttachBarrier[EdgePeer] = AttachBarrier()
        self.batch_bytes = settings.cluster.batch_bytes
        self.silence_s = settings.cluster.dead_after_ms / 1000
        self.new_body = new_body
        self.open_body = open_body
        self.find_body = find_body
        self._published = published
        self._cluster = settings.etcd.prefix
        self._settings = settings.cluster
        self._submit = submit
        self._clock = clock
        self._schedule = schedule
        self._later = later
        self._peers: dict[int, EdgePeer] = {}
        self._by_edge: dict[str, EdgePeer] = {}
        self._strangers: dict[EdgeStream, None] = {}
        self._heard: dict[Stream, float] = {}
        """Of streams that are open: when the last message came, in seconds of the monotonic clock."""
        self.opening = count(1).__next__
        self._floods = FloodGuard(clock)
        self._congested = False
        self._ticking = False
        self._ticked = 0.0
        self._sweeping = False
        self._entering: dict[int, None] = {}
        """Slots that take everything, as soon as what has waited for that is in."""
        self._letting_in = False
        """… and some of it was let in in this step."""
        self._closed = ""
        self._own: EffectListener | None = None
        self.answers = OperatorAnswers(schedule, clock.monotonic)
        """To operators."""
        self._relay = EdgeRelay(later)
        self._farewells = SessionEnds(
            self._enqueue, lambda: self._congested, self.resting, self._at_last, schedule, later
        )  # fmt: skip

    # ── slots that are led here, or not any more ───────────────────────────────────────────────────

    def serve(self, slot: int, epoch: int, news: Callable[[], None] | None = None) -> None:
        """The slot is led here from now on; edges that wait for that hear it.

        news   None: it takes everything. Else consumers that attach again only, until let_in(); called when another
               edge has told all about the slot."""
        self.served[slot] = epoch
        self._entering.pop(slot, None)
        # Ends of sessions that came while it stood still: they must not get lost with the pause.
        resting = self.resting.pop(slot, None)
        if resting is not None and resting.epoch == epoch and resting.ends:
            self._enqueue(resting.ends)
        if news is not None:
            self.attach_barrier.open(slot, news)
        # One for each edge, not for each of its clients.
        for peer in self._peers.values():
            peer.other(SlotState(slot, epoch, SERVING))
            self.flush_soon(peer)

    def let_in(self, slot: int) -> None:
        """The slot takes everything from now on, and first what has waited for that, so much at once."""
        self._entering[slot] = None
        if not self._letting_in:
            self._let_in_some()

    def _let_in_some(self) -> None:
        """A piece of what has waited; the rest of it comes soon."""
        self._letting_in = bool(self._entering)
        left = LET_IN
        commands: list[Command] = []
        peers: dict[EdgePeer, None] = {}
        for slot in list(self._entering):
            waiting = self.attach_barrier.release(slot, left)
            left -= len(waiting)
            if slot not in self.attach_barrier.waiting:
                del self._entering[slot]
            # Admitted in their order, each by what is so now.
            for peer, opening, waits in waiting:
                peers[peer] = None
                if (command := peer.let_in(opening, waits)) is not None:
                    commands.append(command)
            if left <= 0:
                break
        for peer in peers:
            self.flush_soon(peer)
        self._enqueue(commands)
        if self._letting_in:
            self._schedule(self._let_in_some)

    def unserve(self, slot: int, over: bool = False) -> None:
        """The slot is not led here any more (over: nor will be by this engine): its commands come back as moved, its
        deliveries do not leave, and nobody's confirmations count. Edges hear it at once: if it is led here again after
        all, in the same epoch even, they must say anew what they have."""
        epoch = self.served.pop(slot, None)
        if over:
            self.resting.pop(slot, None)
        if epoch is None:
            return
        if not over:
            self.resting[slot] = Resting(epoch)
        self._entering.pop(slot, None)
        self.attach_barrier.close(slot)
        for peer in self._peers.values():
            if slot in peer.opened:
                peer.moved(slot)
                self.flush_soon(peer)
        if not self._sweeping:
            self._sweeping = True
            self._later(SWEEP_S, self._sweep)

    def attached(self, slot: int) -> set[str]:
        """Edges that have told this owner all about the slot, in the epoch it is led in."""
        epoch = self.served.get(slot)
        return {peer.edge for peer in self._peers.values() if epoch is not None and peer.told.get(slot) == epoch}

    def edge_gone(self, edge: str, boot: str) -> None:
        """Its lease is gone: if its stream is too, the process is dead for sure, and its sessions end now. While it
        talks to us it only cannot reach the store: its clients keep what they hold."""
        peer = self._by_edge.get(edge)
        # Two witnesses for a death: the store and the stream.
        if peer is not None and peer.boot == boot and peer.stream is None:
            self._bury(peer)

    def close(self, why: str = "the owner is stopping") -> None:
        """Ends all streams; edges look for the slots' next leaders."""
        self._closed = why
        for peer in list(self._peers.values()):
            if peer.stream is not None:
                peer.flush()
                peer.stream.close(why)
        for stranger in list(self._strangers):
            stranger.stream.close(why)

    def metrics(self) -> list[Metric]:
        live = sum(peer.stream is not None for peer in self._peers.values())
        return [
            *self.stats.metrics("owner"),
            Metric("stomp_link_edges", "gauge", "Edges with a stream to this owner.", [({}, float(live))]),
            Metric("stomp_link_slots_served", "gauge", "Slots led here.", [({}, float(len(self.served)))]),
        ]

    # ── the shard ──────────────────────────────────────────────────────────────────────────────────

    def share(self, own: EffectListener) -> None:
        """A part of this process asks the shard, too (numbers without a token): it hears what concerns it."""
        self._own = own

    def on_effects(self, effects: list[Effect]) -> None:
        peers = self._peers
        touched: dict[EdgePeer, None] = {}
        mine: list[Effect] = []
        for effect in effects:
            kind = type(effect)
            number: int = effect.consumer if kind in OF_CONSUMERS else effect.session  # type: ignore[union-attr]
            # 0, or an edge that is gone: nobody to be told, but for who is in this process. (edge_of(), in line.)
            token = number >> NUMBER_BITS
            peer = peers.get(token)
            if peer is None:
                if not token:
                    mine.append(effect)
                continue
            if kind is Deliver:
                peer.deliver(effect)  # type: ignore[arg-type]
            elif kind is Done:
                peer.done(number, effect.seq)  # type: ignore[union-attr]
            else:
                peer.other(effect)
            touched[peer] = None
        for peer in touched:
            # Else a flush is scheduled behind this turn, and takes it along.
            if not peer.dirty:
                peer.flush()
        if mine and self._own is not None:
            self._own.on_effects(mine)

    def on_relief(self) -> None:
        if self._own is not None:
            self._own.on_relief()
        self._congested = False
        for peer in self._peers.values():
            peer.press(False)
        self._farewells.on_relief()

    def on_stopped(self, why: str) -> None:
        if self._own is not None:
            self._own.on_stopped(why)
        self.close(f"the owner has stopped: {why}")

    def published(self, slot: int, dedup: tuple[int, int]) -> bool:
        return self._published(slot, dedup)

    def told(self, token: int, slot: int) -> bool:
        peer = self._peers.get(token)
        return peer is not None and peer.leads(slot) and peer.told.get(slot) == self.served.get(slot)

    # ── streams ────────────────────────────────────────────────────────────────────────────────────

    def accept(self, service: str, stream: Stream) -> EdgeStream:
        """A stream of EDGE_SERVICE. It must say who it is before anything else."""
        end = EdgeStream(self, stream)
        self._heard[stream] = self._clock.monotonic()
        self._strangers[end] = None
        if self._closed:
            self._schedule(partial(stream.close, self._closed))
        self._tick_soon()
        return end

    def on_message(self, end: EdgeStream, data: bytes) -> None:
        # Whatever it is: it lives.
        self._heard[end.stream] = self._clock.monotonic()
        self.stats.received(len(data))
        peer = end.peer
        if end.over or (peer is not None and peer.stream is not end.stream):
            return
        if peer is not None and data == UP_PING:
            return
        # Before it is decoded, which costs several times its size.
        if len(data) > MAX_MESSAGE_BYTES + HEADROOM:
            self._refuse(end, Code.COMPONENT_MESSAGE_TOO_LARGE, f"{len(data)} bytes in one message")
            return
        if end.held is not None:
            if data != UP_PING:
                end.held.append(data)
            return
        try:
            flat, up = parted(data, pb.Up) if self.flat else (None, decode_up(data))
            if peer is None:
                self._greet(end, up)
                return
            if up.HasField("hello"):
                raise malformed("a second Hello")
            commands = peer.receive(up, flat)
            if up.asks:
                self._asked(peer, up.asks, partial(_tell, peer, end.stream))
            if up.told:
                self._relay.heard(peer.edge, up.told)
        except ProtocolViolation as violation:
            self._refuse(end, violation.code, violation.detail)
            return
        if commands and self._submit(commands) and not self._congested:  # _enqueue(), in line
            self._congest()
        # Also without effects: that the batch was taken has to be told, for the edge's next one waits for it.
        if not peer.dirty and peer.has_news():  # flush_soon(), in line
            self._schedule(peer.flush)
        if self.attach_barrier.news:
            self.attach_barrier.call()

    def _asked(self, peer: EdgePeer, asks: Iterable[pb.Ask], tell: Tell) -> None:
        """By an edge: of us, or of all others."""
        self.answers.answer(peer.edge, [ask for ask in asks if not ask.edges], tell)
        others = {
            each.edge: partial(_ask, each, each.stream)
            for each in self._by_edge.values()
            if each is not peer and each.stream is not None
        }
        self._relay.forward([ask for ask in asks if ask.edges], others, tell)

    def edge_of(self, number: int) -> str:
        """The edge of a session or consumer with this number here; empty: none that is known."""
        peer = self._peers.get(number >> NUMBER_BITS)
        return peer.edge if peer is not None else ""

    def _enqueue(self, commands: list[Command]) -> None:
        if commands and self._submit(commands) and not self._congested:
            self._congest()

    def _congest(self) -> None:
        """The shard has enough: all edges are to pause."""
        self._congested = True
        for each in self._peers.values():
            each.press(True)

    def on_closed(self, end: EdgeStream, why: Ended) -> None:
        self._strangers.pop(end, None)
        self._heard.pop(end.stream, None)
        peer = end.peer
        if peer is not None and peer.stream is end.stream:
            self._lost(peer, why.detail)

    def _greet(self, end: EdgeStream, up: pb.Up) -> None:
        hello = up.hello
        if not up.HasField("hello") or not hello.token or not hello.edge or not hello.boot or hello.token >> 63:
            raise malformed("the first message is not a Hello")
        if hello.version != PROTOCOL:
            self._refuse(
                end, Code.WRONG_RELEASE, f"it speaks link version {hello.version}, this owner {PROTOCOL}; upgrade one"
            )
        elif hello.cluster != self._cluster:
            self._refuse(
                end, Code.WRONG_CLUSTER, f"its keys are under '{hello.cluster[:100]}', this owner's under "
                f"'{self._cluster}' (etcd.prefix)"
            )  # fmt: skip
        elif end.stream.names and hello.edge.lower() not in end.stream.names:
            self._refuse(
                end, Code.DUPLICATE_IDENTITY, f"it says it is '{hello.edge[:100]}', and its certificate says it is "
                f"{', '.join(sorted(end.stream.names))[:200]}"
            )  # fmt: skip
        elif self._floods.flooded(hello.edge):
            self._refuse(
                end, Code.COMPONENT_FLOOD, f"more than {FLOOD} new streams of '{hello.edge[:100]}' in {FLOOD_S:g} s"
            )
        else:
            self._floods.count(hello.edge)
            self._welcome(end, hello)

    def _welcome(self, end: EdgeStream, hello: pb.Hello) -> None:
        peer = self._by_edge.get(hello.edge)
        if peer is not None and (peer.boot != hello.boot or peer.token != hello.token):
            if peer.stream is not None:
                self._refuse(
                    end,
                    Code.DUPLICATE_IDENTITY,
                    f"'{hello.edge[:100]}' is connected from {peer.stream.peer}; give each process its own cluster.id",
                )
                return
            self._bury(peer)
            peer = None
        # What it says now must not come before its own end, which goes on in pieces.
        if self._farewells.keeps_waiting(end, hello):
            return
        if peer is None:
            peer = self._by_edge[hello.edge] = self._peers[hello.token] = EdgePeer(hello, self)
        self._strangers.pop(end, None)
        old = peer.stream
        peer.begin(end.stream)
        heard = self._heard[end.stream]
        if peer.patience.answered(heard):
            log.info("%s was only slow: it may be silent for %.3g s now", peer.edge, peer.patience.silence(heard))
        end.belongs(peer)
        if old is not None:
            # The newer one is right: an edge dials only when it has given up the last one.
            old.abort("the edge has a newer stream")
        if self._congested:
            peer.press(True)

    def _refuse(self, end: EdgeStream, code: Code, detail: str) -> None:
        """Says why, and ends the stream."""
        if end.over:
            return
        end.is_over()
        self.stats.refused_peer()
        host = f"host {_host(end.stream.peer)}"
        if code is Code.BAD_COMPONENT_MESSAGE and end.peer is None and self._floods.flooded(host):
            # Not a line in the log for each. Who greets well from that host is not made to suffer for it.
            code, detail = Code.COMPONENT_FLOOD, f"more than {FLOOD} greetings in {FLOOD_S:g} s that are none; {host}"
        else:
            if code is Code.BAD_COMPONENT_MESSAGE:
                self._floods.count(host)
            log.error("%s refused: %s: %s", end.stream.peer, code.name, detail)
        if end.peer is not None and end.peer.stream is end.stream:
            self._lost(end.peer, code.name)
        end.stream.send(pb.Down(refusal=pb.Refusal(code=code.number, detail=detail)).SerializeToString())
        end.stream.close(f"{code.name}: {detail}")

    def _lost(self, peer: EdgePeer, why: str) -> None:
        """Its stream is over; it usually comes back, and its consumers wait for that."""
        self.stats.lost_stream()
        log.info("edge %s lost: %s", peer.edge, why)
        peer.end()
        self._relay.lost(peer.edge)
        if not self._closed:
            self._later(self._settings.edge_grace_s, partial(self._grace_over, peer, peer.streams))

    def _grace_over(self, peer: EdgePeer, streams: int) -> None:
        if peer.streams == streams and self._by_edge.get(peer.edge) is peer:
            self._bury(peer)

    def _bury(self, peer: EdgePeer) -> None:
        log.info("edge %s is gone", peer.edge)
        peer.end()
        self._by_edge.pop(peer.edge, None)
        self._peers.pop(peer.token, None)
        self._farewells.begin(peer.token, peer.farewell())

    def _at_last(self, end: EdgeStream, hello: pb.Hello, held: list[bytes]) -> None:
        """The end of what this edge was here before is over."""
        if end in self._strangers and not end.over:
            self._welcome(end, hello)
            for data in held:
                self.on_message(end, data)

    # ── time ───────────────────────────────────────────────────────────────────────────────────────

    def flush_soon(self, peer: EdgePeer) -> None:
        """Behind the shard's turn, which has been asked for already: one message tells what it brought."""
        if peer.has_news():
            self._schedule(peer.flush)

    def _tick_soon(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._ticked = self._clock.monotonic()
            self._later(until_look(self._ticked, self._settings.ping_ms / 1000, self.silence_s), self._tick)

    def _tick(self) -> None:
        """Every ping_ms while an edge is connected."""
        self._ticking = False
        now = self._clock.monotonic()
        slept = stood_still(self._ticked, now, self._settings.ping_ms / 1000)
        self._ticked = now
        for stranger in list(self._strangers):
            if now - self._spoke(stranger.stream, slept, now) > self.silence_s:
                stranger.stream.abort("it has not said who it is")
        for peer in list(self._peers.values()):
            stream = peer.stream
            if stream is None:
                continue
            borne = peer.patience.silence(now)
            if now - self._spoke(stream, slept, now) > borne:
                peer.patience.judged(now)
                self._lost(peer, f"nothing heard for {borne * 1000:.0f} ms (dead_after_ms)")
                stream.abort("nothing heard from the edge")
                continue
            peer.ping_if_quiet(now)
        if self._strangers or any(peer.stream is not None for peer in self._peers.values()):
            self._tick_soon()

    def heartbeat(self) -> Heartbeat:
        period = self._settings.ping_ms / 1000
        return Heartbeat(period, pause(period, self.silence_s))

    def _spoke(self, stream: Stream, slept: float, now: float) -> float:
        """When its last message came. slept: we stood still for so long, and may not have heard it."""
        heard = self._heard[stream] = min(now, self._heard[stream] + slept)
        return heard

    def _sweep(self) -> None:
        self._sweeping = not all([peer.sweep() for peer in self._peers.values()])
        if self._sweeping:
            self._schedule(self._sweep)


def _tell(peer: EdgePeer, stream: Stream, told: pb.Told) -> None:
    """To this stream of the edge, if it still is its stream."""
    if peer.stream is stream:
        peer.send_bytes(pb.Down(told=[told]).SerializeToString())


def _ask(peer: EdgePeer, stream: Stream, ask: pb.Ask) -> None:
    """The same."""
    if peer.stream is stream:
        peer.send_bytes(pb.Down(asks=[ask]).SerializeToString())


def _host(peer: str) -> str:
    """Of "host:port": ports change with every stream."""
    return peer.rpartition(":")[0] or peer
