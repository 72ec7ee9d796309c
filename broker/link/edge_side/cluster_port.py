"""ClusterPort: the OwnerPort of an edge process onto all owners of a cluster.

Rule: a client never notices which owner serves it, nor that another one does now: what was asked is asked again until
it is answered, what was delivered is told to the new owner, and what an old owner still says is not heard. Slots are
independent: one without an owner holds up nobody else. Must not know how leaders are chosen: route() and offline()
tell.
"""

# The way of a SEND through an edge. Session 5 sends to /queue/a, slot 9, led by A:
#     submit    _enqueue: numbered 21 in its slot's channel and kept; its seq on the wire is 21 << 8 | 9, its dedup
#               (token, 21)
#     send      to A's link, which gathers a batch. 21 stays in `kept`
#     A fails   route(9, epoch 5, B): everything that must be known is told to B, 21 among it, with the same numbers
#     Done      seq says slot and number: 21 is forgotten, the session gets its receipt. A second Done (from a stream
#               that is over) finds nothing, and is not heard
# So each SEND happens once (the owners' producer state knows 21) and is answered once (`kept` forgets it).

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from broker.config.settings import Settings
from broker.core.address import Outcome
from broker.core.commands import (
    EVERYWHERE,
    Command,
    Disconnect,
    Grant,
    Hold,
    Prepare,
    Publish,
    Settle,
    Subscribe,
    Transact,
    Unsubscribe,
)
from broker.core.effects import AddressBlocked, BrowseEnd, ConsumerClosed, Deliver, Done, Effect, Refused
from broker.core.errors import Code
from broker.core.message import HELD
from broker.core.metrics import Metric
from broker.core.patience import Patience
from broker.rpc.v1 import link_pb2 as pb
from broker.seams.clock import Clock, Later, Schedule
from broker.seams.stream import Dialer

from ..bodies.body_spool import BodySpool
from ..bodies.edge_bodies import KeptBlob
from ..codec.codec import PROTOCOL, SLOT_BITS, SLOT_MASK, SlotState
from ..codec.command_codec import MAX_MESSAGE_BYTES, LinkCommand
from ..codec.effect_codec import LinkEffect
from ..owner_port import EffectListener
from ..questions import OperatorAnswers, Tell
from ..stats import LinkStats, of_channels
from .all_slots import Together
from .auto_marks import AutoMarks
from .backpressure import Backpressure
from .consumer_replay import SIZE, PendingCommand, ReplayedConsumer, held, size_of
from .cross_slot_tx import DelayedTransactions
from .downloads import Downloads
from .ended_sessions import EndedSessions
from .outages import Outages
from .owner_link import OwnerLink
from .replayed_consumers import ReplayedConsumers, lives
from .routes import Routes
from .slot_channel import SlotChannel, answer
from .uploads import Uploads

log = logging.getLogger("stampede.link")

UNREACHED = 0.5
"""Of a lease: so long an owner that others know to live is tried before it is said not to be reached. One that died is
known to be dead by then, and nobody need be told of it."""
# What fits a field of the wire; a client may write any number into an ACK.
MAX_ID = (1 << 63) - 1


class ClusterPort:
    """See the head of this file.

    id, boot    who this process is, in the whole cluster and since its start.
    token       63 random bits, new at every start, never 0.
    sparing     rarely used: a slot is opened, and its owner dialled, when the first command for it comes. Not for
                edges: a new leader waits for all of them, who may have clients that hold messages of it.
    keeper      of large bodies on their way; without one they fail when their owner changes.
    flat        owners are of this very release, on this machine (codec/flat.py).
    schedule(callback), later(seconds, callback)   as for owner.Shard.
    """

    shares_wildcards = False
    at_once: Callable[[Publish], bool] | None = None
    """A message and what comes of it are a journey apart."""

    def __init__(
        self,
        settings: Settings,
        dialer: Dialer,
        clock: Clock,
        schedule: Schedule,
        later: Later,
        id: str,
        boot: str,
        token: int,
        sparing: bool = False,
        keeper: BodySpool | None = None,
        flat: bool = False,
    ) -> None:
        self.stats = LinkStats()
        self._settings = settings.cluster
        self._dialer = dialer
        self._clock = clock
        self._schedule = schedule
        self._later = later
        self._token = token
        self._hello = pb.Hello(cluster=settings.etcd.prefix, version=PROTOCOL, edge=id, boot=boot, token=token)
        self._keeper = keeper
        self._flat = flat
        self._backpressure = Backpressure(self._settings.edge_pending_bytes, schedule, self.stats)
        self._outages = Outages(
            self._settings.unavailable_after_s, clock, later, self._waited_for, self._give_up, self._down
        )
        self._routes = Routes(
            clock, self._backpressure, self.stats, self._make_link, self._outages.watch, sparing,
            self._settings.lease_s * UNREACHED,
        )  # fmt: skip
        self.unreached = self._routes.unreached
        self.ask, self.unserved, self.ask_edges = self._routes.ask, self._routes.unserved, self._routes.ask_edges
        self.answers = OperatorAnswers(schedule, clock.monotonic)
        """To other edges."""
        self._uploads = Uploads(
            self._routes, keeper, schedule, later, self.stats, self._outages.watch, self._outages.unavailable,
            self._refuse,
        )  # fmt: skip
        self._channels = self._routes.channels
        self._replayed = ReplayedConsumers(self._routes)
        self._consumers = self._replayed.by_number
        self._downloads = Downloads(self._routes, self._consumers, schedule, later, self._outages.watch)
        self.write_body, self.read_body = self._uploads.write, self._downloads.read
        self.arrived = self._downloads.arrived
        self.held = partial(held, self._consumers)
        self._delayed, self._together = DelayedTransactions(), Together()
        self._ended = EndedSessions(
            schedule, lambda channel, entry: self._finish(channel, entry, None, self._backpressure.untold)
        )
        self._marks = AutoMarks(later, self._send)
        self._patience: dict[str, Patience] = {}
        """Owner → ours with it."""
        self._far: frozenset[str] = frozenset()

    # ── the cluster ────────────────────────────────────────────────────────────────────────────────

    def route(self, slot: int, epoch: int, leader_id: str, address: str) -> None:
        """The slot is led there now. Told again with the same values: nothing happens."""
        # Before the route: else what was refused for the shelf would be refused once more.
        self._shelve(slot, "")
        self._routes.route(slot, epoch, leader_id, address)

    def offline(self, slot: int, shelved: str = "") -> None:
        """Nobody leads the slot now. `shelved`: why nobody shall, so that it makes no sense to wait."""
        self._routes.offline(slot)
        self._shelve(slot, shelved)

    def _shelve(self, slot: int, why: str) -> None:
        channel = self._channels.get(slot)
        if channel is None or channel.shelved == why:
            return
        channel.shelve(why, self._clock.monotonic())
        if why:
            self._give_up(channel)

    def far(self, owners: frozenset[str]) -> None:
        """These owners are in other zones than this process, as far as both are known."""
        self._far = owners
        for link in self._routes.links.values():
            link.lies(link.owner in owners)

    def close(self, why: str = "the edge is stopping") -> None:
        """Ends all links."""
        self._routes.close(why)

    def attach(self, listener: EffectListener) -> None:
        self._backpressure.attach(listener)

    # ── the edge ───────────────────────────────────────────────────────────────────────────────────

    def submit(self, commands: list[Command]) -> bool:
        """The commands are the port's from now on. True: pause the producer until on_relief."""
        pressed = False
        for command in commands:
            if command.slot == EVERYWHERE:
                pressed |= self.submit(list(self._together.parts(command)))  # type: ignore[arg-type]
                continue
            if self._delayed.active and self._delayed.delays(command):
                self._replayed.closes(command)
                pressed = True
                continue
            # All are taken, also when one presses: the edge has given them away.
            pressed |= self._enqueue(command)
        return pressed

    def metrics(self) -> list[Metric]:
        keeper = self._keeper.metrics() if self._keeper is not None else ()
        return [*self.stats.metrics("edge"), self.stats.across_zones(), *keeper, *of_channels(self._channels.values())]

    # ── commands ───────────────────────────────────────────────────────────────────────────────────

    def _enqueue(self, command: Command) -> bool:
        channel = self._channels.get(command.slot) or self._routes.channel(command.slot)
        # The slot has had no owner for long: an answer at once instead of a wait for each.
        if channel.refusing and self._refuse_at_once(channel, command):
            return False
        kind = type(command)
        if kind is Publish:
            blob = command.run.blob  # type: ignore[union-attr]
            nbytes = size_of(command) if blob is not None else SIZE + command.run.nbytes  # type: ignore[union-attr]
            entry = channel.keep(command, command.seq, nbytes)  # type: ignore[union-attr]
            # The body can be sent again as long as its message is not answered.
            if blob is not None and isinstance(blob, KeptBlob):
                entry.carries(blob.body)
            seq = entry.number << SLOT_BITS | channel.slot
            command.numbered(seq, (self._token, entry.number))  # type: ignore[union-attr]
            # _send(), in line, and presses() only where it may say yes.
            link, backpressure = channel.link, self._backpressure
            if blob is None and link is not None and channel.live and channel.asked is None:
                # Only a client that wants a receipt waits for a SEND.
                link.add(channel.slot, command, nbytes, entry.seq != 0)
            else:
                channel.send(command, nbytes)
            if not channel.opened:
                self._outages.watch()
            if link is not None and not link.congested and link.nbytes <= backpressure.limit:
                return False
            return backpressure.presses(channel, command.session, nbytes)  # type: ignore[union-attr]
        if kind is Grant:
            self._grant(channel, command)  # type: ignore[arg-type]
            return False
        return self._other(channel, command)

    def _send(self, channel: SlotChannel, command: LinkCommand, nbytes: int) -> bool:
        """A kept command leaves. True: its owner holds too much already."""
        channel.send(command, nbytes)
        if not channel.opened:
            self._outages.watch()
        return self._backpressure.presses(channel, getattr(command, "session", 0), nbytes)

    def _grant(self, channel: SlotChannel, command: Grant) -> None:
        consumer = self._consumers.get(command.consumer)
        # Grants are not kept: what a new owner must know of room is in the consumer's `outstanding`.
        if consumer is not None:
            consumer.granted(command.nbytes)
        channel.send(command, 24)

    def _other(self, channel: SlotChannel, command: Command) -> bool:
        nbytes = size_of(command)
        seq: int = getattr(command, "seq", 0)
        session: int = getattr(command, "session", 0)
        if nbytes > MAX_MESSAGE_BYTES:
            why = f"it takes {nbytes} bytes; send it in several transactions of at most {MAX_MESSAGE_BYTES}"
            self._backpressure.tell(Refused(session, seq, Code.TRANSACTION_LIMIT, why))
            return False
        parts = command.parts if isinstance(command, Transact | Prepare) else [command]
        if any(isinstance(part, Settle | Hold) and any(not 0 <= i <= MAX_ID for i in part.ids) for part in parts):
            self._backpressure.tell(Refused(session, seq, Code.NO_SUCH_DELIVERY, "no message has that number"))
            return False
        # A session tells all slots in which it consumed; where all of that has ended nobody would answer.
        if isinstance(command, Disconnect) and not channel.of_session(session):
            return False  # every consumer it had here has been refused or closed
        self._replayed.closes(command)
        entry = channel.keep(command, seq, nbytes)
        # A Disconnect has no answer; the Barrier behind it has (SlotChannel.commands).
        if not isinstance(command, Disconnect):
            command.seq = channel.seq(entry)  # type: ignore[union-attr]
        self._replayed.follow(channel, entry, command)
        if isinstance(command, Transact) and self._transact(channel, entry, command):
            return False
        pressed = False
        for each in channel.commands(entry):
            pressed = self._send(channel, each, nbytes)
            nbytes = 0
        return pressed

    def _transact(self, channel: SlotChannel, entry: PendingCommand, command: Transact) -> bool:
        """True: it must wait. One that reaches into other slots leaves when the Holds there, and what its session sent
        there, are answered (else it might overtake them), and what its session asks for afterwards waits until it is
        answered (else that might be seen before it)."""
        others: dict[SlotChannel, None] = {}
        for part in command.parts:
            if part.slot != channel.slot:
                others[self._routes.channel(part.slot)] = None
            if isinstance(part, Settle):
                consumer = self._consumers.get(part.consumer)
                if consumer is not None:
                    consumer.set_aside(entry, part.ids)
        # In several slots it may leave later than what was numbered behind it, so it counts in a sequence of its own.
        command.counts_as(channel.turn(entry) if others else (0, entry.number))
        if not others or not self._delayed.begin(command.session, channel, entry, others):
            return False
        for other in others:
            if other.link is not None:
                other.link.hurry()
        return True

    def _refuse_at_once(self, channel: SlotChannel, command: Command) -> bool:
        if isinstance(command, Disconnect | Grant):
            return False
        session: int = getattr(command, "session", 0)
        refused = Refused(session, getattr(command, "seq", 0), *self._outages.unavailable(channel))
        if (told := self._together.told(refused)) is not None:
            self._backpressure.tell(told)
        return True

    # ── answers ────────────────────────────────────────────────────────────────────────────────────

    def on_link_effects(self, link: OwnerLink, effects: list[LinkEffect]) -> None:
        # One call of the listener for a whole message of the owner.
        out: list[Effect] = []
        for effect in effects:
            kind = type(effect)
            if kind is Deliver:
                self._deliver(link, effect, out)  # type: ignore[arg-type]
            elif kind is Done:
                self._answered(link, effect.seq, None, out)  # type: ignore[union-attr]
            elif kind is Refused:
                self._answered(link, effect.seq, effect, out)  # type: ignore[union-attr,arg-type]
            elif kind is AddressBlocked:
                self._routes.address_blocked(link, effect, out)  # type: ignore[arg-type]
            elif kind is SlotState:
                self._routes.said(link, effect)  # type: ignore[arg-type]
            else:
                self._consumer_end(link, effect, out)  # type: ignore[arg-type]
        if out and self._backpressure.listener is not None:
            self._backpressure.listener.on_effects(out)

    def _deliver(self, link: OwnerLink, effect: Deliver, out: list[Effect]) -> None:
        consumer = self._consumers.get(effect.consumer)
        # Said back (`gone`): the owner confirms it for nobody, and the message stays for others (I6).
        if consumer is None or consumer.closing:
            link.gone(effect.consumer)
            return
        channel = self._channels.get(consumer.slot)
        if channel is None or channel.link is not link or not channel.opened:  # current(), in line
            self._routes.current(link, consumer.slot)
            # Its leader does not know yet that the edge has left it: confirmed, what nobody got would be settled, as
            # long as followers take that. (Behind an Open of ours it knows which attachment that was.)
            if self._routes.channel(consumer.slot).link is not link:
                link.gone(effect.consumer)
            return
        if effect.run.flags & HELD:
            consumer.learns(effect.run)
            channel.send(Grant(channel.slot, consumer.number, effect.cost), 24)
            return
        if consumer.command.browse and consumer.spans:
            fresh = consumer.unseen(effect.run)
            # Browsers begin anew with a new owner, from the head of the queue: what they have seen is taken out here.
            if fresh is not effect.run:
                self._skip(channel, consumer, effect, fresh)
            if fresh is None:
                return
            effect.shows(fresh)
        consumer.delivered(effect.run, effect.cost)
        if consumer.confirms and not consumer.command.browse and channel not in self._marks.due:
            self._marks.given(channel)
        out.append(effect)

    def _skip(self, channel: SlotChannel, consumer: ReplayedConsumer, effect: Deliver, fresh: Any) -> None:
        """What a browser has seen before the owner changed takes no room."""
        cost = 0 if fresh is None else fresh.nbytes + len(fresh) * consumer.command.overhead
        channel.send(Grant(channel.slot, consumer.number, effect.cost - cost), 24)
        effect.costs(cost)

    def _answered(self, link: OwnerLink, seq: int, refused: Refused | None, out: list[Effect]) -> None:
        channel = self._channels.get(seq & SLOT_MASK)
        if channel is None or channel.link is not link or not channel.opened:  # current(), in line
            self._routes.current(link, seq & SLOT_MASK)
            return
        entry = channel.kept.get(seq >> SLOT_BITS)
        if entry is None:
            return
        # A large message whose body is with the last owner: the body is sent again, and then the message.
        if refused is not None and refused.code is Code.OWNER_MOVED and self._uploads.missing(channel, entry):
            return
        if refused is None and not entry.seq and type(entry.command) is Publish and not self._delayed.starting:
            # Most are that, a SEND without a receipt: all that _finish() would do, which tells nobody.
            channel.forget(entry)
            if channel.asked is entry:
                channel.go_on()
            if link.paused:
                self._backpressure.eased(link)
            return
        self._finish(channel, entry, refused, out)

    def _refuse(self, channel: SlotChannel, entry: PendingCommand, refused: Refused) -> None:
        """No owner says so."""
        self._finish(channel, entry, refused, self._backpressure.untold)
        self._backpressure.soon()

    def _finish(self, channel: SlotChannel, entry: PendingCommand, refused: Refused | None, out: list[Effect]) -> None:
        """The entry is answered; what it meant for consumers is final."""
        command = entry.command
        kind = type(command)
        # Answered, and kept: it says what an open transaction claims (C51).
        if kind is Hold and refused is None and lives(channel, entry.consumer):
            self._held(entry, out)
            return
        if kind is Disconnect and self._ended.later(channel, entry):
            return
        # First here, then told: whoever hears of it may submit again from within.
        self._forget(channel, entry)
        if kind is not Publish:
            refused = self._finish_other(channel, entry, refused)
        if self._delayed.starting:
            self._start_transaction(entry)
        self._tell_answer(entry, refused, out)

    def _held(self, entry: PendingCommand, out: list[Effect]) -> None:
        """A Hold stays until its transaction ends: a new owner must hear of it."""
        if not entry.answered:
            self._tell_answer(entry, None, out)
            entry.answer()
            self._start_transaction(entry)

    def _tell_answer(self, entry: PendingCommand, refused: Refused | None, out: list[Effect]) -> None:
        effect = answer(entry, refused)
        if entry.seq < 0:
            effect = self._together.told(effect)
        if effect is not None:
            out.append(effect)

    def _finish_other(self, channel: SlotChannel, entry: PendingCommand, refused: Refused | None) -> Refused | None:
        """Returns the refusal, unless what was asked holds anyway."""
        command, consumer = entry.command, entry.consumer
        if isinstance(command, Subscribe):
            assert consumer is not None
            if refused is None:
                consumer.begins()
                self._downloads.attached(channel, consumer)
            else:
                self._end_consumer(channel, consumer)
        elif isinstance(command, Unsubscribe):
            return self._unsubscribed(channel, command, consumer, refused)
        elif isinstance(command, Settle | Hold):
            if consumer is not None:
                consumer.forget(entry)
            self._end_holds(entry)
            return None if entry.own else refused
        elif isinstance(command, Transact):
            for part in command.parts:
                if isinstance(part, Settle) and (held := self._consumers.get(part.consumer)) is not None:
                    held.forget(entry)
            self._release(entry)
            self._end_holds(entry)
            self._let_session_go(command.session, entry)
        elif isinstance(command, Disconnect):
            for gone in channel.of_session(command.session):
                self._end_consumer(channel, gone)
            return None
        elif entry is channel.marked:
            channel.unmark(refused is None)
        return refused

    def _unsubscribed(
        self, channel: SlotChannel, command: Unsubscribe, consumer: ReplayedConsumer | None, refused: Refused | None
    ) -> Refused | None:
        if (
            refused is not None
            and refused.code is Code.NO_SUCH_SUBSCRIPTION
            and (consumer is not None or command.delete_queue is None)
        ):
            # It had ended (a browser, a queue that was deleted), or an earlier owner carried this out.
            # What the client wants is so: the subscription is gone. Whose call ended it nobody can tell after a
            # fail-over.
            refused = None
        if consumer is not None:
            self._end_consumer(channel, consumer)
            if refused is not None:
                # The subscription cannot be deleted, but the consumer has no other way to end.
                self._enqueue(Unsubscribe(command.slot, command.session, 0, command.consumer, command.address))
        return refused

    def _end_consumer(self, channel: SlotChannel, consumer: ReplayedConsumer) -> None:
        holds = self._replayed.end(channel, consumer)
        self._downloads.end(consumer)
        for hold in holds:
            self._forget(channel, hold)

    def _release(self, entry: PendingCommand) -> None:
        """A transaction is answered. Where an owner changed meanwhile, it may have happened before that: then what its
        Holds claimed there nobody will ever settle (gone: it would count as delivered for ever; given back by a NACK:
        it would stay with this consumer). Giving back does nothing where there is nothing to give."""
        for hold in entry.holds:
            command = hold.command
            there = lives(self._routes.channel(command.slot), hold.consumer)
            if hold.claimed and there and isinstance(command, Hold):
                self._enqueue(Settle(command.slot, command.session, 0, command.consumer, command.ids, Outcome.RETURN))

    def _end_holds(self, entry: PendingCommand) -> None:
        """The transaction of these Holds is over."""
        for hold in entry.end_holds():
            if hold.consumer is not None:
                hold.consumer.forget(hold)
            if hold.answered:
                self._forget(self._routes.channel(hold.command.slot), hold)

    def _forget(self, channel: SlotChannel, entry: PendingCommand) -> None:
        channel.forget(entry)
        if channel.asked is entry:
            channel.go_on()
        if channel.link is not None and channel.link.paused:
            self._backpressure.eased(channel.link)

    def _consumer_end(self, link: OwnerLink, effect: ConsumerClosed | BrowseEnd, out: list[Effect]) -> None:
        consumer = self._consumers.get(effect.consumer)
        if consumer is None:
            return
        channel = self._routes.current(link, consumer.slot)
        if channel is None:
            return
        if isinstance(effect, BrowseEnd):
            consumer.ends()
        else:
            self._end_consumer(channel, consumer)
        # The session that ends it needs no word of its end.
        if not consumer.closing:
            out.append(effect)

    # ── transactions over slots ────────────────────────────────────────────────────────────────────

    def _start_transaction(self, before: PendingCommand) -> None:
        ready = self._delayed.answered(before)
        if ready is not None:
            channel, entry = ready
            self._send(channel, entry.command, entry.nbytes)

    def _let_session_go(self, session: int, entry: PendingCommand) -> None:
        commands = self._delayed.end(session, entry)
        if commands is None:
            return
        self.submit(commands)
        self._backpressure.relieve({session})

    # ── links ──────────────────────────────────────────────────────────────────────────────────────

    def _make_link(self, owner: str, address: str) -> OwnerLink:
        patience = self._patience.setdefault(owner, Patience(self._settings.dead_after_ms / 1000))
        link = OwnerLink(
            owner, address, self._hello, self._settings, self._dialer, self._clock, self._schedule, self._later, self,
            self.stats, patience, self._flat,
        )  # fmt: skip
        link.lies(owner in self._far)
        return link

    def on_dialed(self, link: OwnerLink) -> None:
        self._routes.dialed(link)

    def on_asked(self, link: OwnerLink, asks: Iterable[pb.Ask], tell: Tell) -> None:
        self.answers.answer(link.owner, asks, tell)

    def on_answered(self, link: OwnerLink) -> None:
        self._routes.answered(link)

    def on_broken(self, link: OwnerLink) -> None:
        self._routes.broken(link)

    def on_pressure(self, link: OwnerLink) -> None:
        self._backpressure.eased(link)

    def on_unsendable(self, command: LinkCommand, why: str) -> None:
        log.error("a %s does not fit into a message: %s", type(command).__name__, why)
        channel = self._routes.channel(command.slot)
        entry = channel.kept.get(getattr(command, "seq", 0) >> SLOT_BITS)
        if entry is not None:
            self._refuse(channel, entry, Refused(0, 0, Code.INTERNAL))

    # ── time ───────────────────────────────────────────────────────────────────────────────────────

    def _waited_for(self) -> Iterator[SlotChannel]:
        """Slots that are not open, and for which a command or body waits."""
        for channel in list(self._channels.values()) if not self._routes.closed else ():
            if not channel.opened and (channel.kept or channel.waiting or self._downloads.waits(channel.slot)):
                yield channel

    def _down(self) -> list[SlotChannel]:
        return [channel for channel in self._channels.values() if not channel.opened] if not self._routes.closed else []

    def _give_up(self, channel: SlotChannel) -> None:
        """Commands for the slot have waited long enough. Ends of consumers are told whenever it comes back."""
        if channel.give_up():
            log.error("slot %d: %s", channel.slot, channel.shelved or self._outages.unavailable(channel)[1])
        code, why = self._outages.unavailable(channel)
        self._uploads.give_up(channel)
        self._downloads.give_up(channel, why)
        for entry in list(channel.kept.values()):
            kind = type(entry.command)
            # Nobody waits for these: they stay, and are told to whoever leads next.
            if kind is Disconnect or entry.answered or entry.resume or entry.own:
                continue
            if entry.number in channel.kept:
                session: int = getattr(entry.command, "session", 0)
                refused = Refused(session, entry.seq, code, why)
                self._finish(channel, entry, refused, self._backpressure.untold)
        if channel.live:
            self._routes.open(channel)
        self._backpressure.landed(channel.slot)
        self._backpressure.soon()
