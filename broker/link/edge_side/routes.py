"""Which owner each slot is asked of now, and the streams to the owners.

Rule: one link per owner that leads anything; a slot is live on the link of its leader of the newest epoch, or nowhere.
Whenever that changes, the slot's owner hears all it must know first. Must not know what commands mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from broker.core.effects import AddressBlocked, Effect
from broker.core.ids import SLOTS
from broker.seams.clock import Clock

from ..codec.codec import MOVED, OPENED, SERVING, SlotState
from ..stats import LinkStats
from .backpressure import Backpressure
from .owner_link import OwnerLink
from .reachability import Reach
from .slot_channel import SlotChannel


class Routes:
    """See the head of this file.

    make_link   a link to (owner id, address).
    unserved   called when a slot is not open any more: what waits for it (a command, a body) does so with an end.
    """

    def __init__(
        self,
        clock: Clock,
        backpressure: Backpressure,
        stats: LinkStats,
        make_link: Callable[[str, str], OwnerLink],
        unserved: Callable[[], None],
        sparing: bool,
        unreached_s: float,
    ) -> None:
        """`sparing`: of what is never used nothing is opened or dialled. `unreached_s`: as Reach has it."""
        self.channels: dict[int, SlotChannel] = {}
        self.links: dict[tuple[str, str], OwnerLink] = {}
        self.closed = False
        self._clock = clock
        self._backpressure = backpressure
        self._stats = stats
        self._make_link = make_link
        self._unserved = unserved
        self._sparing = sparing
        self._reach = Reach(unreached_s)
        self._unused: dict[int, tuple[int, str, str]] = {}
        """Where slots are led that nobody has asked for yet."""

    def channel(self, slot: int) -> SlotChannel:
        """The slot's, made when first needed."""
        channel = self.channels.get(slot)
        if channel is None:
            assert 0 <= slot < SLOTS
            channel = self.channels[slot] = SlotChannel(slot, self._clock.monotonic())
            if slot in self._unused:
                self.route(slot, *self._unused.pop(slot))
        return channel

    # ── from the cluster ───────────────────────────────────────────────────────────────────────────

    def route(self, slot: int, epoch: int, leader: str, address: str) -> None:
        # An owner reaches other owners this way, rarely, and only some slots of them.
        if self._sparing and slot not in self.channels:
            if epoch >= self._unused.get(slot, (0,))[0]:
                self._unused[slot] = (epoch, leader, address)
            return
        channel = self.channel(slot)
        link = self.links.get((leader, address))
        # Records come late and twice; epochs only rise (I1).
        if (
            self.closed
            or (link is not None and channel.link is link and channel.epoch == epoch)
            or epoch < channel.epoch
        ):
            return
        # First: nothing that was meant for the last leader may go to the next one but by a replay.
        self._down(channel)
        channel.led_in(epoch)
        if link is None:
            link = self.links[leader, address] = self._make_link(leader, address)
        if channel.link is not link:
            self._leave(channel)
            channel.join(link)
            self._backpressure.landed(slot)
        # Else on_dialed opens all slots of the link at once.
        if link.up:
            self.open(channel)
        else:
            link.start()

    def offline(self, slot: int) -> None:
        if self._sparing and slot not in self.channels:
            self._unused.pop(slot, None)
            return
        channel = self.channel(slot)
        self._down(channel)
        self._leave(channel)

    def close(self, why: str) -> None:
        self.closed = True
        links, self.links = self.links, {}
        for link in links.values():
            link.close(why)

    # ── for operators ──────────────────────────────────────────────────────────────────────────────

    def ask(self, question: bytes, done: Callable[[str, bytes | None, str], None]) -> list[str]:
        """Asks all owners that lead anything; done(owner, answer, why there is none) for each. Returns whom."""
        links = [link for link in self.links.values() if link.slots]
        for link in links:
            link.ask(question, partial(done, link.owner))
        return [link.owner for link in links]

    def ask_edges(self, question: bytes, done: Callable[[bytes | None, str], None], edge: str = "") -> None:
        """Asks all other edges, or that one alone, by an owner (link/edge_relay.py)."""
        link = next((link for link in self.links.values() if link.up), None)
        if link is None:
            done(None, "no owner is reached, and edges are asked by one")
            return
        link.ask(question, done, edges=True, edge=edge)

    def unserved(self) -> int:
        """Slots of which no owner has said that it serves them: nobody leads them, or their leader takes over."""
        return sum([not channel.opened for channel in self.channels.values()])

    # ── from the links ─────────────────────────────────────────────────────────────────────────────

    def unreached(self, addresses: Mapping[str, str]) -> tuple[str, ...]:
        """Owners that are not reached, of the live ones with these addresses. Call it every reachability.LOOK_S."""
        found = self._reach.look(self._clock.monotonic(), addresses)
        for (owner, address), link in list(self.links.items()):
            if not link.slots and (owner not in found or addresses[owner] != address):
                self._drop(link)
        return found

    def dialed(self, link: OwnerLink) -> None:
        self._reach.lost(link.owner, self._clock.monotonic())
        # In order, so that a history of the simulator repeats.
        for slot in sorted(link.slots):
            self.open(self.channel(slot))

    def answered(self, link: OwnerLink) -> None:
        self._reach.heard(link.owner, self._clock.monotonic())

    def broken(self, link: OwnerLink) -> None:
        self._reach.lost(link.owner, self._clock.monotonic())
        for slot in sorted(link.slots):
            self._down(self.channel(slot))

    def said(self, link: OwnerLink, effect: SlotState) -> None:
        """What an owner says of a slot."""
        channel = self.channels.get(effect.slot)
        # A word of an owner that is not asked any more.
        if channel is None or channel.link is not link:
            return
        if effect.state == OPENED and effect.epoch == channel.epoch and channel.live:
            # The answer to an Open of before: this epoch's, but what follows it is not told to what we are now. The
            # answer to the last one comes.
            if effect.opening not in (0, channel.openings):
                return
            channel.open()
            self.begin_bodies(channel)
        elif effect.state == MOVED and channel.live:
            # It will say SERVING when it leads the slot, or the metadata will name another owner.
            self._stats.found_moved()
            self._down(channel)
            # It stopped and leads on in the same epoch (a transfer that was called off): it has said so to all, and
            # wants all anew.
            if effect.epoch == channel.epoch:
                self.open(channel)
        elif effect.state == SERVING and effect.epoch == channel.epoch and not channel.live:
            self.open(channel)

    def address_blocked(self, link: OwnerLink, effect: AddressBlocked, out: list[Effect]) -> None:
        """An owner says that an address is full, or has room again."""
        channel = self.current(link, effect.slot)
        if channel is None:
            return
        key = (effect.session, effect.address, effect.passing)
        if effect.full:
            channel.blocked[key] = None
        else:
            channel.blocked.pop(key, None)
        out.append(effect)

    def begin_bodies(self, channel: SlotChannel) -> None:
        """Large bodies that wait for the slot."""
        if channel.opened:
            channel.start_bodies()

    # ── a slot ─────────────────────────────────────────────────────────────────────────────────────

    def current(self, link: OwnerLink, slot: int) -> SlotChannel | None:
        """The slot's channel, if this link is where its effects come from now."""
        channel = self.channels.get(slot)
        # I8 from this side: whatever an owner says of a slot counts only behind its OPENED in the epoch that we asked
        # for.
        if channel is None or channel.link is not link or not channel.opened:
            self._stats.dropped_stale()
            return None
        return channel

    def open(self, channel: SlotChannel) -> None:
        """Tells the slot's owner, on the stream there is, all it must know."""
        link = channel.link
        assert link is not None
        # What is queued is in the replay as well.
        link.drop(channel.slot)
        self._stats.replay(channel.begin_again())
        self._end_blocked(channel)

    def _end_blocked(self, channel: SlotChannel, passing: bool = False) -> None:
        """The leader of now says so itself when the next SEND comes; what the last one said only it could end."""
        for session, address, busy in channel.take_blocked(passing):
            self._backpressure.tell(AddressBlocked(session, channel.slot, address, False, busy))

    def _down(self, channel: SlotChannel) -> None:
        """Nobody hears what we send for the slot."""
        channel.down(self._clock.monotonic())
        self._end_blocked(channel, passing=True)  # who is not read for it could not ACK anything meanwhile
        if channel.link is not None:
            channel.link.drop(channel.slot)
            if channel.link.up:
                channel.link.bodies.withdraw(channel.slot)
        self._unserved()

    def _leave(self, channel: SlotChannel) -> None:
        """The slot is not its link's any more."""
        link = channel.leave()
        if link is None:
            return
        self._backpressure.eased(link)
        if not link.slots:
            if not self._reach.reported(link.owner):
                self._drop(link)
            self._backpressure.relieve(link.paused)

    def _drop(self, link: OwnerLink) -> None:
        """Nothing is led there. (One that is said not to be reached is dialled on: that it is reached must show.)"""
        self.links.pop((link.owner, link.address), None)
        self._reach.unused(link.owner)
        link.close("no slot that this process uses is led here")
