"""One edge's stream to one owner: batches, their clock, heart-beats, and a fresh dial when it breaks.

Rule: at most one batch is untaken; what gathers meanwhile is the next one, closed when it is sent, and slots share it
fairly. Whatever was sent on a stream that broke may or may not have arrived: its user replays. Must not know what
commands mean.
"""

# Example. The edge submits SENDs all the time; the way to the owner and back takes 1 ms.
#     add          the first one: a flush is scheduled, behind everything this step of the loop still adds
#     batch 1      leaves with 3 commands; `_awaiting`
#     add …        40 more commands gather
#     taken 1      in the owner's next message: batch 2 leaves with all 40
# So a quiet edge waits for nothing and a busy one sends large messages: the round trip is the clock, as in Nagle's
# algorithm, and one untaken batch bounds what a broken stream can leave in doubt. Where many SENDs come one by one that
# nobody waits for, the round trip is too fast a clock, and a slower one is beside it (linger.py).

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Final, Protocol

from broker.config.settings import ClusterSettings
from broker.core.commands import Publish
from broker.core.errors import CODES, Code, ProtocolViolation
from broker.core.heartbeat import Heartbeat, pause, until_look
from broker.core.patience import Patience, stood_still
from broker.rpc.v1 import link_pb2 as pb
from broker.seams.clock import Clock, Later, Schedule
from broker.seams.stream import EDGE_SERVICE, Dialer, Ended, EndKind, Stream

from ..bodies.edge_bodies import BodyHub
from ..codec.codec import CONGESTED, DOWN_PING, UP_PING, decode_down
from ..codec.command_codec import LinkCommand, fill_publish, put_command
from ..codec.effect_codec import LinkEffect, read_effects
from ..codec.flat import joined, parted, put_flat, read_flat_effects
from ..questions import Asked, Done, Tell
from ..stats import LinkStats
from .linger import ENOUGH_BYTES, Linger

log = logging.getLogger("stampede.link")

FIRST_RETRY_S = 0.02
LAST_RETRY_S = 1.0
STEADY_S = 5.0
"""A stream that broke sooner was no success: the pause before the next dial goes on growing. One that breaks again and
again costs both ends a replay each time."""
LEASE_SHARE: Final = 0.6
"""Of its lease, which is renewed every third of it: an owner may hear that it has ended so soon after an edge stood
still."""
SPARED_BYTES: Final = 64 * 1024
"""So much a session may send to an owner that holds too much, before it pauses for that."""
TAKEN_MESSAGES = 8
TAKEN_BYTES = 64 * 1024
TAKEN_S = 0.02
"""After so many messages, bytes, seconds the owner hears what was taken, also when there is nothing else to say."""


class LinkUser(Protocol):
    """What a link tells its port."""

    def on_dialed(self, link: OwnerLink) -> None:
        """A new stream: tell it everything (it may still fail)."""
        ...

    def on_answered(self, link: OwnerLink) -> None:
        """The first word on a stream."""
        ...

    def on_broken(self, link: OwnerLink) -> None:
        """The stream is over; what was queued is forgotten. The link dials anew by itself."""
        ...

    def on_link_effects(self, link: OwnerLink, effects: list[LinkEffect]) -> None: ...
    def on_pressure(self, link: OwnerLink) -> None:
        """`link.congested` has changed."""
        ...

    def on_unsendable(self, command: LinkCommand, why: str) -> None: ...
    def on_asked(self, link: OwnerLink, asks: Iterable[pb.Ask], tell: Tell) -> None:
        """Another edge asks, by this owner."""
        ...


_COMMAND: Final = itemgetter(0)
"""Of what is queued, without its size."""


class OwnerLink:
    """See the head of this file. The first dial is made by start()."""

    def __init__(
        self,
        owner: str,
        address: str,
        hello: pb.Hello,
        settings: ClusterSettings,
        dialer: Dialer,
        clock: Clock,
        schedule: Schedule,
        later: Later,
        user: LinkUser,
        stats: LinkStats,
        patience: Patience,
        flat: bool = False,
    ) -> None:
        """`patience`: with this owner; it outlives the link. flat: it is of this very release, on this machine
        (codec/flat.py)."""
        self._flat = flat
        self.owner = owner
        self.address = address
        self.congested = False
        self.closed = False
        self.nbytes = 0
        """Of unanswered commands of its slots; kept by the user."""
        self.slots: set[int] = set()
        """Routed here; kept by the user."""
        self.paused: set[int] = set()
        """Sessions that wait for on_relief; kept by the user."""
        self._spared: dict[int, int] = {}
        """Session → bytes that it has sent since the owner has enough, and need not pause for."""
        self._spared_bytes = 0
        self.bodies = BodyHub(self)
        self.asked = Asked()
        self._hello = hello
        self._settings = settings
        self._grace = min(settings.edge_grace_s, settings.lease_s * LEASE_SHARE)
        self._dialer = dialer
        self._clock = clock
        self._schedule = schedule
        self._later = later
        self._user = user
        self._stats = stats
        self._patience = patience
        self._end: _End | None = None
        self._stream: Stream | None = None
        self._retry = FIRST_RETRY_S
        self._dialled = 0.0
        self._answered = False
        self._heard = 0.0
        self._read = 0.0
        """When the last message came; standing still is not taken off, as it is from `_heard`."""
        self._ticked = 0.0
        self._quiet = True
        self._beat = Heartbeat(settings.ping_ms / 1000, pause(settings.ping_ms / 1000, settings.dead_after_ms / 1000))
        self._said_no = ""
        self._far = False
        self._reset()

    def _reset(self) -> None:
        self._queues: dict[int, deque[tuple[LinkCommand, int]]] = {}
        self._queued = 0
        self._batch = 0
        self._awaiting = False
        self._scheduled = False
        self._linger = Linger(self._settings.linger_ms / 1000)
        self._urgent = False
        """Somebody waits for something of what is queued."""
        self._gone: dict[int, None] = {}
        self._frames: list[pb.Body] = []
        self._taken = 0
        self._told = 0
        self._untold_bytes = 0
        self._timer = False

    @property
    def up(self) -> bool:
        """There is a stream (whether anybody hears it remains to be seen)."""
        return self._stream is not None

    def ask(self, question: bytes, done: Done, edges: bool = False, edge: str = "") -> None:
        """Asks the owner something that concerns no slot in particular (questions.py), or other edges by it."""
        if self._stream is None:
            done(None, "there is no connection to it")
            return
        self._send_up(self.asked.ask(question, done, edges, edge))

    def tell(self, end: _End, told: pb.Told) -> None:
        """What another edge wanted to know, if that is still the stream it asked by."""
        if end is self._end and self._stream is not None:
            self._send_up(pb.Up(told=[told]))

    # ── life ───────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Dials, unless it is closed."""
        # A dial that was scheduled may come after another one.
        if self.closed or self._end is not None:
            return
        self._reset()
        self._dialled = self._heard = self._read = self._ticked = self._clock.monotonic()
        self._answered = False
        end = self._end = _End(self)
        self._stream = self._dialer.dial(self.address, EDGE_SERVICE, end)
        # Hello and everything that must be known leave at once, without a round trip in between. A stream that is
        # refused has cost a message.
        self._send_bytes(pb.Up(hello=self._hello).SerializeToString())
        self._user.on_dialed(self)
        self._look_later(end, self._dialled)

    def close(self, why: str) -> None:
        """Nobody needs it any more: what is queued leaves before the end."""
        self.closed = True
        if self._stream is not None:
            self._say_all()
        stream, self._stream, self._end = self._stream, None, None
        if stream is not None:
            stream.close(why)
        self.bodies.lost(why)
        self.asked.lost(why)

    def on_closed(self, end: _End, why: Ended) -> None:
        if end is not self._end:
            return
        self._stats.lost_stream()
        self._end = self._stream = None
        log.info("link to %s (%s) lost: %s", self.owner, self.address, why)
        self._reset()
        if self.congested:
            self.congested = False
            self._user.on_pressure(self)
        # Slots first, then bodies: those that are lost look whether their slot is open.
        self._user.on_broken(self)
        bodies, self.bodies = self.bodies, BodyHub(self)
        bodies.lost(f"the connection to its owner was lost: {why}")
        self.asked.lost(f"the connection to it was lost: {why}")
        if why.kind is EndKind.REFUSED:
            self._patience.ended()
        # Being answered is not enough: an owner that answers and breaks again would be dialled without a pause.
        if self._answered and self._clock.monotonic() - self._dialled >= STEADY_S:
            self._retry = FIRST_RETRY_S
        self._later(self._retry, self.start)
        self._retry = min(self._retry * 2, LAST_RETRY_S)

    def _abort(self, why: str) -> None:
        stream, end = self._stream, self._end
        if stream is not None and end is not None:
            stream.abort(why)
            self.on_closed(end, Ended(why))

    def tick(self, end: _End) -> None:
        """Every ping_ms: says something when nothing was said for long, and notices when nothing was heard."""
        if end is not self._end:
            return
        now = self._clock.monotonic()
        ping = self._settings.ping_ms / 1000
        # Before anything that waits in the socket is read.
        if self._given_up(now - self._ticked - ping):
            return
        self._heard = min(now, self._heard + stood_still(self._ticked, now, ping))
        self._ticked = now
        # Two patiences: an owner that starts, or replays a log, takes longer for its first word than for the next.
        borne = self._patience.silence(now) if self._answered else self._patience.answer(now)
        if now - self._heard > borne:
            self._patience.judged(now)
            self._abort(f"nothing heard for {borne * 1000:.0f} ms (dead_after_ms)")
            return
        if self._beat.due(not self._quiet, now):
            self._ping()
        self._quiet = True
        self._look_later(end, now)

    def _look_later(self, end: _End, now: float) -> None:
        settings = self._settings
        self._later(until_look(now, settings.ping_ms / 1000, settings.dead_after_ms / 1000), end.tick)

    def _given_up(self, seconds: float) -> bool:
        """We, or what is sent to us, stood still for so long. Has the owner given us up by now? Then its earlier
        deliveries are others' since, who have them marked: what waits here to be read is from before that, and goes
        unread. The next stream begins with all that we have."""
        if seconds <= self._grace:
            return False
        self._abort(f"nothing was read for {seconds:.3g} s: the owner has given this edge up (edge_grace_s)")
        return True

    def _ping(self) -> None:
        if self._taken > self._told:
            self._send_up(pb.Up(ping=True))
        else:
            self._send_bytes(UP_PING)

    # ── out ────────────────────────────────────────────────────────────────────────────────────────

    def carry(self, slot: int, nbytes: int) -> None:
        """Its owner is asked for that slot, too, of which so much is unanswered."""
        self.slots.add(slot)
        self.nbytes += nbytes

    def release(self, slot: int, nbytes: int) -> None:
        """… and is no more."""
        self.slots.discard(slot)
        self.nbytes -= nbytes

    def lies(self, far: bool) -> None:
        """far: the owner is in another zone than we are."""
        self._far = far

    def relieve(self) -> set[int]:
        """Sessions that have paused for it, and need not any more."""
        paused, self.paused = self.paused, set()
        self._spared, self._spared_bytes = {}, 0
        return paused

    def spares(self, session: int, nbytes: int, most: int) -> bool:
        """The owner has enough: may this one go on with so many bytes more, as it sends little. most: of all such."""
        sent = self._spared.get(session, 0) + nbytes
        # Where one could have all of it nobody is spared.
        if session in self.paused or sent > SPARED_BYTES or max(self._spared_bytes + nbytes, SPARED_BYTES) > most:
            return False
        self._spared[session] = sent
        self._spared_bytes += nbytes
        return True

    def add(self, slot: int, command: LinkCommand, nbytes: int, waits: bool = True) -> None:
        """Queues the command; it leaves with the next batch. waits: somebody waits for what comes of it."""
        queue = self._queues.get(slot)
        if queue is None:
            queue = self._queues[slot] = deque()
        queue.append((command, nbytes))
        self._queued += nbytes
        if waits:
            self._urgent = True
        if not self._scheduled and not self._awaiting and (not self._linger.resting or self._leaves()):
            self._scheduled = True
            self._schedule(self._flush)

    def hurry(self) -> None:
        """Somebody waits for something of what is queued, whoever sent it."""
        self._urgent = True
        if self._queues and not self._scheduled and not self._awaiting:
            self._scheduled = True
            self._schedule(self._flush)

    def _leaves(self) -> bool:
        """May what is queued leave before a rest is over."""
        return self._urgent or self._queued >= ENOUGH_BYTES

    def _rested(self, linger: Linger) -> None:
        """A rest is over. linger: of the stream in which it began."""
        linger.over()
        if linger is self._linger and self._queues and not self._awaiting:
            self._flush()

    def drop(self, slot: int) -> None:
        """Forgets what is queued for the slot."""
        for _, nbytes in self._queues.pop(slot, ()):
            self._queued -= nbytes

    def send_body(self, body: pb.Body) -> None:
        """Outside of the batches' clock; before any `taken` that is told from now on."""
        self._frames.append(body)
        if body.data or len(self._frames) >= 16:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._schedule(self._flush)

    def gone(self, consumer: int) -> None:
        """A delivery to this consumer that is not told as taken yet has reached nobody."""
        # A session with 10,000 subscriptions may end while one message for all of them is on its way.
        self._gone[consumer] = None

    def _flush(self) -> None:
        self._scheduled = False
        if self._stream is None:
            return
        up, flat = pb.Up(), b""
        if self._queues and not self._awaiting:
            flat = self._fill(up)
        if self._frames:
            up.bodies.extend(self._frames)
            self._frames = []
        elif not up.batch and not self._due():
            return
        self._send_up(up, flat)

    def _say_all(self) -> None:
        """Batch behind batch, without waiting for the owner; and that its last one was taken."""
        while self._queues:
            self._awaiting = False
            self._flush()
        self._flush()
        if self._taken > self._told:
            self._send_up(pb.Up())

    def _fill(self, up: pb.Up) -> bytes:
        """The next batch is in `up`, or in what is returned."""
        commands: list[LinkCommand] = []
        flat = b""
        # The usual case: everything fits, nothing is counted.
        if self._queued <= self._settings.batch_bytes:
            for queue in self._queues.values():
                commands.extend(map(_COMMAND, queue))
            self._queues = {}
            self._queued = 0
            self._urgent = False
        else:
            commands = self._cut()
        if self._flat:
            try:
                flat = put_flat(commands)
            except (ValueError, TypeError, OverflowError):
                log.debug("a command that no field takes: they are looked at one by one")
        if not flat:
            self._put(commands, up)
        if flat or up.commands:
            self._batch += 1
            up.batch = self._batch
            self._awaiting = True
            linger = self._linger
            if linger.begins(len(commands), self._clock.monotonic()):
                self._later(linger.seconds, partial(self._rested, linger))
        return flat

    def _put(self, commands: list[LinkCommand], up: pb.Up) -> None:
        for command in commands:
            try:
                if type(command) is Publish:  # of which there are most: put_command(), in line
                    fill_publish(command, up.commands.add().publish)
                else:
                    put_command(command, up)
            except (ValueError, TypeError) as error:
                # A number that no field takes. Its sender's affair, not the link's.
                del up.commands[-1]
                self._user.on_unsendable(command, str(error))

    def _cut(self) -> list[LinkCommand]:
        """The next batch of more: at most batch_bytes, but at least one command; slots in turn, with equal shares."""
        cap = self._settings.batch_bytes
        queues = self._queues
        batch: list[LinkCommand] = []
        share, total = cap // len(queues), 0
        for slot in list(queues):
            queue = queues.pop(slot)
            mine = 0
            # At least one command a slot, however large, or a slot with large messages would starve.
            while queue and mine <= share and (total < cap or not mine):
                command, nbytes = queue.popleft()
                batch.append(command)
                mine += nbytes
                total += nbytes
            if queue:
                queues[slot] = queue  # now the last in the row
            if total >= cap:
                break
        self._queued -= total
        return batch

    def _due(self) -> bool:
        """Is it time to tell what was taken."""
        return self._taken - self._told >= TAKEN_MESSAGES or self._untold_bytes >= TAKEN_BYTES

    def _send_up(self, up: pb.Up, flat: bytes = b"") -> None:
        # `taken` is told once, on whatever leaves next; `gone` with it, or the owner would confirm what nobody got.
        if self._taken > self._told:
            up.taken = self._told = self._taken
            self._untold_bytes = 0
            if self._gone:
                up.gone.extend(self._gone)
                self._gone = {}
        data = up.SerializeToString()
        self._send_bytes(joined(flat, data) if flat else data)

    def _send_bytes(self, data: bytes) -> None:
        assert self._stream is not None
        self._quiet = False
        self._stats.sent(len(data), self._far)
        self._stream.send(data)

    # ── in ─────────────────────────────────────────────────────────────────────────────────────────

    def on_message(self, end: _End, data: bytes) -> None:
        if end is not self._end:
            return
        now = self._clock.monotonic()
        # Who has not answered may be slow: then only how long we stood still counts. It may have heard us before.
        # The clock of the machine, not of the stream: what lies in the socket's buffer may be as old as our sleep.
        late = now - self._read if self._answered else now - self._ticked - self._settings.ping_ms / 1000
        if late > self._grace and self._given_up(late):
            return
        self._heard = self._read = now
        if not self._answered:
            self._answered = True
            if self._patience.answered(self._heard):
                borne = self._patience.silence(self._heard)
                log.info("%s was only slow: it may be silent for %.3g s now", self.owner, borne)
            self._user.on_answered(self)
        self._stats.received(len(data), self._far)
        if data == DOWN_PING:
            self._said_no = ""
            return
        try:
            if self._flat:
                flat, down = parted(data, pb.Down)
                effects = read_effects(down) if flat is None else read_flat_effects(flat)
            else:
                down = decode_down(data)
                effects = read_effects(down)
        except ProtocolViolation as violation:
            self._stats.refused_peer()
            log.error("owner %s (%s): %s", self.owner, self.address, violation)
            self._abort(violation.code.name)
            return
        if down.HasField("refusal"):
            self._refused(down.refusal)
            return
        self._said_no = ""  # it talks to us
        self._handle(down, effects, len(data))
        if end is self._end:
            self._after(end)

    def _handle(self, down: pb.Down, effects: list[LinkEffect], nbytes: int) -> None:
        # Of an earlier batch: nothing yet.
        if down.taken >= self._batch:
            self._awaiting = False
        if down.pressure:
            self.congested = down.pressure == CONGESTED
            self._user.on_pressure(self)
        for body in down.bodies:
            self.bodies.on_body(body)
        if down.told:
            self.asked.told(down.told)
        if down.asks and self._end is not None:
            self._user.on_asked(self, down.asks, partial(self.tell, self._end))
        if down.batch:
            self._taken = down.batch
            self._untold_bytes += nbytes
        # Last: what is told may submit, and close this very link.
        if effects:
            self._user.on_link_effects(self, effects)

    def _after(self, end: _End) -> None:
        if self._taken > self._told and not self._timer:
            self._timer = True
            self._later(TAKEN_S, end.tell_taken)
        told, untold = self._taken - self._told, self._untold_bytes
        leaves = self._queues and (not self._linger.resting or self._leaves())
        if leaves or self._frames or told >= TAKEN_MESSAGES or untold >= TAKEN_BYTES:
            self._flush()

    def tell_taken(self, end: _End) -> None:
        if end is not self._end:
            return
        self._timer = False
        if self._taken > self._told:
            self._send_up(pb.Up())

    def _refused(self, refusal: pb.Refusal) -> None:
        """We cannot be what we are here: waiting is all that is left, and saying so once."""
        self._stats.refused_peer()
        self._retry = LAST_RETRY_S
        code = CODES.get(refusal.code, Code.INTERNAL)
        text = f"{code.name}: {refusal.detail}"
        if text != self._said_no:
            self._said_no = text
            log.error("owner %s (%s) refuses this process: %s", self.owner, self.address, text)
        self._abort(text)


class _End:
    """The StreamEnd of one dial: what an earlier stream still says is not mistaken for the present one's."""

    __slots__ = ("_link", "on_message")

    def __init__(self, link: OwnerLink) -> None:
        self._link = link
        # Not a method: that would be a call of Python more for each message of an owner.
        self.on_message: Callable[[bytes], None] = partial(link.on_message, self)

    def on_closed(self, why: Ended) -> None:
        self._link.on_closed(self, why)

    def tick(self) -> None:
        self._link.tick(self)

    def tell_taken(self) -> None:
        self._link.tell_taken(self)
