"""Large bodies that an edge sends and the slots they are for: when each begins, and when it is sent again.

Rule: a body that is on its way when its slot's leader or stream changes begins anew with the next one, from what is
kept of it; so does one that is complete, when its message comes to an owner that does not have it. Where nothing is
kept, both fail. Must not know streams nor pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.core.commands import Publish
from broker.core.effects import Refused
from broker.core.errors import Code
from broker.core.message import Blob
from broker.seams.clock import Later, Schedule

from ..bodies.body_spool import BodySpool
from ..bodies.edge_bodies import BodyUp
from ..owner_port import Away, BodyWriter
from ..stats import LinkStats
from .consumer_replay import PendingCommand
from .routes import Routes
from .slot_channel import SlotChannel

AGAIN_S = 0.05
"""How soon a body begins anew that an owner has turned away which we take for the slot's leader. It tells us just now
that it is not."""


class Uploads:
    """See the head of this file.

    watch         a body waits for a slot that is not open.    unavailable(channel)   what it is told after a while.
    refuse(channel, entry, refused)   the message has no body and gets none."""

    def __init__(
        self,
        routes: Routes,
        keeper: BodySpool | None,
        schedule: Schedule,
        later: Later,
        stats: LinkStats,
        watch: Callable[[], None],
        unavailable: Callable[[SlotChannel], tuple[Code, str]],
        refuse: Callable[[SlotChannel, PendingCommand, Refused], None],
    ) -> None:
        self._routes = routes
        self._keeper = keeper
        self._schedule = schedule
        self._later = later
        self._stats = stats
        self._watch = watch
        self._unavailable = unavailable
        self._refuse = refuse

    def write(self, slot: int, on_drain: Callable[[], None]) -> BodyWriter:
        channel = self._routes.channel(slot)
        kept = self._keeper.keep(on_drain) if self._keeper is not None else None
        body = BodyUp(slot, on_drain, self._schedule, kept, self._lost)
        # Told at the first byte, not after 80 MB.
        if channel.refusing and not channel.opened:
            code, why = self._unavailable(channel)
            body.failed(Away(why, code))
            return body
        channel.waiting.append(body)
        if channel.opened:
            channel.start_bodies()
        else:
            self._watch()
        return body

    def give_up(self, channel: SlotChannel) -> None:
        """What waits for the slot has waited long enough."""
        code, why = self._unavailable(channel)
        for body in channel.take_waiting():
            body.failed(Away(why, code))

    def _lost(self, body: BodyUp) -> None:
        """It begins anew when the slot is opened the next time."""
        if self._routes.closed:
            body.failed(Away("the edge is stopping"))
            return
        channel = self._routes.channel(body.slot)
        self._stats.sent_body()
        channel.waiting.append(body)
        if channel.opened:
            # The owner turned it away, but has not said MOVED yet: it does so in a moment.
            self._later(AGAIN_S, partial(self._routes.begin_bodies, channel))
        else:
            self._watch()

    # ── messages without their bodies ──────────────────────────────────────────────────────────────

    def missing(self, channel: SlotChannel, entry: PendingCommand) -> bool:
        """The owner of the slot does not have the body of the message we asked it for again, nor the message. True: it
        will have both."""
        body, link = entry.body, channel.link
        # Only the message that the replay stopped at: all others have their bodies where they are.
        if channel.asked is not entry or body is None or link is None:
            return False
        if not body.again(link.bodies, partial(self._there, channel, entry)):
            return False
        self._stats.sent_body()
        return True

    def _there(self, channel: SlotChannel, entry: PendingCommand, blob: Blob | None, why: str) -> None:
        command, link = entry.command, channel.link
        if channel.asked is not entry or link is None or not isinstance(command, Publish):
            return  # it is asked for anew, elsewhere
        if blob is None:
            self._refuse(channel, entry, Refused(0, 0, why.code if isinstance(why, Away) else Code.DISK_FULL, why))
            return
        # The body's number at this owner; the message's own number stays, so it still happens once.
        command.run.stored_in(Blob(blob.id, blob.length))
        link.add(channel.slot, command, entry.nbytes)
