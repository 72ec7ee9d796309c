"""One slot as an edge sees it: which owner leads it, what waits for an answer, which consumers it has.

Rule: every command that a session must hear of is in `kept`, in the order it was submitted, until it is answered; what
a new owner (or a new stream) must be told is `replay()`, and nothing else. Where that has a large message in it, all
that comes after it waits for its answer: its body may have to be sent again first. Must not know streams.
"""

# Example. Slot 9, led by A in epoch 4. Consumer 7 holds messages 3 and 4; unanswered are SEND 21, ACK 22 (of 3),
# SUBSCRIBE 23. A dies, B leads in epoch 5. What B is told, in this order, as one replay:
#     Open 9, epoch 5        B answers OPENED if it leads in that epoch; all behind it counts only then
#     Subscribe 7, resume    held 3 and 4: they are with this consumer, nobody else gets them
#     SEND 21                if it stands in B's log its number is known: it is answered, and not done twice
#     ACK 22                 settles 3, or finds it settled
#     SUBSCRIBE 23           for the first time, or again: the same
#     Grant 7                only now room: see _withhold
#     Open 9, told           everything has been said
# Attaching first, so that nothing is given away that a client holds; then requests in their order (I7).

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from broker.core.commands import Barrier, Command, Disconnect, Grant, Publish, Settle, Subscribe
from broker.core.effects import Done, Effect, Refused

from ..bodies.edge_bodies import BodyUp
from ..codec.codec import SLOT_BITS, Open
from ..codec.command_codec import LinkCommand
from .consumer_replay import PendingCommand, ReplayedConsumer, size_of
from .owner_link import OwnerLink

OWN_BYTES = 96


class SlotChannel:
    """See the head of this file.

    live         commands may be sent: the slot has a stream, and nobody said that it is led elsewhere.
    opened       the owner has answered our Open: what comes from it is of this epoch.
    down_since   monotonic time since when it is not open; refusing: it has been so for too long.
    shelved      why no owner shall lead it now, "" = one shall.
    marked       a Barrier that tells when AUTO deliveries are settled is under way.
    openings     how often it was told all there is to know: to owners and on streams, one after another.
    rest         what must not be sent yet: it comes after `asked`, a large message that may be without its body where
                 the slot is led now. What overtook it there could never be told from a replay of what it overtook.
    turns        last numbers of the sequences 1, 2 … for what others may overtake; idle: those nobody is in.
    """

    __slots__ = (
        "asked", "blocked", "consumers", "down_since", "epoch", "idle", "kept", "link", "live", "marked",
        "nbytes", "number", "opened", "openings", "refusing", "rest", "sessions", "shelved", "slot", "turns",
        "waiting",
    )  # fmt: skip

    def __init__(self, slot: int, now: float) -> None:
        self.slot = slot
        self.epoch = 0
        self.link: OwnerLink | None = None
        self.live = False
        self.opened = False
        self.openings = 0
        self.refusing = False
        self.shelved = ""
        self.down_since = now
        # Never begins anew while the edge lives: an owner that has seen 21 takes every number up to it for a
        # repetition.
        self.number = 0
        self.nbytes = 0
        self.kept: dict[int, PendingCommand] = {}
        self.consumers: dict[int, ReplayedConsumer] = {}
        self.sessions: dict[int, dict[int, ReplayedConsumer]] = {}
        self.marked: PendingCommand | None = None
        self.rest: deque[tuple[LinkCommand, int]] = deque()
        self.asked: PendingCommand | None = None
        self.turns: list[int] = []
        self.idle: list[int] = []
        self.waiting: list[BodyUp] = []
        """Large bodies that begin when it is open."""
        self.blocked: dict[tuple[int, str, bool], None] = {}
        """(session, address, passing): who was told that what is full."""

    # ── who leads it ───────────────────────────────────────────────────────────────────────────────

    def led_in(self, epoch: int) -> None:
        """A newer epoch, whichever owner leads in it."""
        self.epoch = epoch

    def join(self, link: OwnerLink) -> None:
        """Its leader is asked by that link from now on."""
        self.link = link
        link.carry(self.slot, self.nbytes)

    def leave(self) -> OwnerLink | None:
        """Nobody is asked for it any more. Returns who was."""
        link, self.link = self.link, None
        if link is not None:
            link.release(self.slot, self.nbytes)
        return link

    def open(self) -> None:
        """Its owner has answered: what comes from there is of this epoch."""
        self.opened = True
        self.refusing = False

    def down(self, now: float) -> None:
        """Nobody hears what is sent for it from now on."""
        if self.opened:
            self.down_since = now
        self.stop()

    def excuse(self, seconds: float, now: float) -> None:
        """So much of that time nobody here has seen."""
        self.down_since = min(now, self.down_since + seconds)

    def shelve(self, why: str, now: float) -> None:
        """No owner shall lead it; with no reason: one shall again, and is waited for anew."""
        self.shelved = why
        if not why:
            self.refusing = False
            self.down_since = now

    def give_up(self) -> bool:
        """It has been down for too long. False: that is known."""
        was, self.refusing = self.refusing, True
        return not was

    def take_blocked(self, passing: bool = False) -> Iterable[tuple[int, str, bool]]:
        """Takes out which sessions were told that an address is full, by the slot's last owner. passing: only of what
        passes by itself."""
        blocked, self.blocked = self.blocked, {key: None for key in self.blocked if passing and not key[2]}
        return [key for key in blocked if key not in self.blocked]

    # ── what waits for an answer ───────────────────────────────────────────────────────────────────

    def keep(self, command: Command, seq: int, nbytes: int) -> PendingCommand:
        """Numbers the command; it stays until it is answered."""
        number = self.number = self.number + 1
        entry = self.kept[number] = PendingCommand(number, command, seq, nbytes)
        self.nbytes += nbytes
        # Two sums, kept with each entry: adding up thousands of entries at every SEND would be the larger work.
        if self.link is not None:
            self.link.nbytes += nbytes
        return entry

    def keep_own(self, command: Settle, consumer: ReplayedConsumer) -> None:
        """As keep(): of what nobody has asked for (PendingCommand.own)."""
        entry = self.keep(command, 0, OWN_BYTES)
        entry.of_port(consumer, self.seq(entry))

    def turn(self, entry: PendingCommand) -> tuple[int, int]:
        """A number for what others may overtake, in a sequence in which it is alone until it is answered: an owner
        takes any number that is not above the last one for a replay."""
        # As many sequences as transactions over slots were ever under way at a time here.
        if not self.idle:
            self.turns.append(0)
            self.idle.append(len(self.turns))
        turn = entry.alone_in(self.idle.pop())
        self.turns[turn - 1] += 1
        return turn, self.turns[turn - 1]

    def seq(self, entry: PendingCommand) -> int:
        """The entry's number as it travels."""
        return entry.number << SLOT_BITS | self.slot

    def forget(self, entry: PendingCommand) -> None:
        """It is answered, or will never be."""
        if self.kept.pop(entry.number, None) is None:
            return
        if entry.body is not None:
            entry.body.release()
        if entry.turn:
            self.idle.append(entry.turn)
        self.nbytes -= entry.nbytes
        if self.link is not None:
            self.link.nbytes -= entry.nbytes

    # ── out ────────────────────────────────────────────────────────────────────────────────────────

    def send(self, command: LinkCommand, nbytes: int) -> None:
        """To its leader of now, if there is one."""
        # Not lost: it is in `kept`, and the replay has it.
        if not self.live or self.link is None:
            return
        if self.asked is not None:
            self.rest.append((command, nbytes))
        else:
            self.link.add(self.slot, command, nbytes)
            if type(command) is Publish and command.run.blob is not None:
                self._ask(command)

    def begin_again(self) -> int:
        """All that a new owner or stream must hear. How many commands that is."""
        self.stop()
        self.live = True
        self.openings += 1
        # Through `rest`, as a large message in it stops what follows until it is answered.
        self.rest.extend(self.replay())
        count = len(self.rest)
        self.go_on()
        return count

    def go_on(self) -> None:
        """What waits is sent, up to the next large message."""
        self.asked = None
        assert self.link is not None
        while self.rest:
            command, nbytes = self.rest.popleft()
            self.link.add(self.slot, command, nbytes)
            self._ask(command)
            if self.asked is not None:
                return

    def _ask(self, command: LinkCommand) -> None:
        """Is this a message whose body went to an owner of earlier times."""
        if type(command) is Publish and command.run.blob is not None:
            entry = self.kept.get(command.seq >> SLOT_BITS)
            body = entry.body if entry is not None else None
            # Its body went to an owner, or over a stream, of earlier times.
            if body is not None and body.kept and body.opening != self.openings:
                self.asked = entry

    def start_bodies(self) -> None:
        """Those that wait."""
        assert self.link is not None
        for body in self.take_waiting():
            body.start(self.link.bodies, self.openings)

    def take_waiting(self) -> list[BodyUp]:
        """Takes out the large bodies that wait for it."""
        waiting, self.waiting = self.waiting, []
        return waiting

    def mark(self) -> Barrier:
        """A Barrier that tells when AUTO deliveries of up to now are settled; to be sent."""
        for consumer in self.consumers.values():
            if consumer.confirms and not consumer.command.browse:
                consumer.mark()
        barrier = Barrier(self.slot, 0, 0)
        self.marked = self.keep(barrier, 0, 0)
        return barrier.asked_as(self.seq(self.marked))

    def unmark(self, settled: bool) -> None:
        """The Barrier is answered. settled: as it should be."""
        self.marked = None
        if settled:
            for given in self.consumers.values():
                given.settled()

    def stop(self) -> None:
        """Nobody hears what is sent."""
        self.live = self.opened = False
        self.asked = None
        self.rest.clear()

    def commands(self, entry: PendingCommand) -> list[LinkCommand]:
        """The entry as it is sent: the first time, and on a replay."""
        command, seq = entry.command, self.seq(entry)
        # The Barrier is answered when everything before it has happened there; a Disconnect by itself never is.
        if isinstance(command, Disconnect):
            return [command, Barrier(self.slot, command.session, seq)]
        if entry.happened:
            return [Barrier(self.slot, getattr(command, "session", 0), seq)]
        return [command]

    def replay(self) -> list[tuple[LinkCommand, int]]:
        """All that the slot's owner must hear when it, or the stream to it, is a new one; with sizes."""
        out: list[tuple[LinkCommand, int]] = [(Open(self.slot, self.epoch, opening=self.openings), 16)]
        # Attachments of the last replay that were not answered: they are made anew from what is so now.
        for entry in [entry for entry in self.kept.values() if entry.resume]:
            del self.kept[entry.number]
        for consumer in self.consumers.values():
            consumer.let_go()
        # Before _again() adds entries of its own.
        unanswered = list(self.kept.values())
        # Who has messages says so whatever has to wait for a large one: a leader does not wait long to hear of them.
        waits = any([entry.body is not None for entry in unanswered])
        behind: list[tuple[LinkCommand, int]] = []
        grants: list[tuple[LinkCommand, int]] = []
        for consumer in self.consumers.values():
            if consumer.subscribed and not consumer.ended:
                out.append(self._again(consumer, grants))
        for entry in unanswered:
            # It has not left for the first time yet.
            if entry.delayed:
                continue
            if isinstance(entry.command, Subscribe) and entry.consumer is not None:
                command = entry.consumer.again(self.seq(entry))
                self._withhold(entry.consumer, command, grants)
                (out if waits and entry.consumer.given else behind).append((command, size_of(command)))
            else:
                behind += [(command, entry.nbytes) for command in self.commands(entry)]
        out += behind + grants
        out.append((Open(self.slot, self.epoch, told=True), 16))
        return out

    def _again(self, consumer: ReplayedConsumer, grants: list[tuple[LinkCommand, int]]) -> tuple[LinkCommand, int]:
        # Kept, as its answer says that the owner knows what the consumer holds (downloads go on then).
        entry = self.keep(consumer.command, 0, 0)
        entry.attaches_again(consumer)
        command = consumer.again(self.seq(entry))
        assert command.resume is not None
        self._withhold(consumer, command, grants)
        return command, 256 + 12 * (len(command.resume.held) + len(command.resume.taken))

    def _withhold(self, consumer: ReplayedConsumer, command: Subscribe, grants: list[tuple[LinkCommand, int]]) -> None:
        """Nothing new comes to the consumer before the owner has heard what it had settled. What it settled may have
        reached others meanwhile, and come back to it before an old cumulative ACK does: that would cover messages which
        the client had not seen when it sent it."""
        if consumer.aside and command.room > 0:
            grants.append((Grant(self.slot, consumer.number, command.room), 24))
            command.wait()

    # ── consumers ──────────────────────────────────────────────────────────────────────────────────

    def begin(self, consumer: ReplayedConsumer) -> None:
        self.consumers[consumer.number] = consumer
        self.sessions.setdefault(consumer.command.session, {})[consumer.number] = consumer

    def end(self, consumer: ReplayedConsumer) -> None:
        """It is no more, here and at the owner."""
        if self.consumers.pop(consumer.number, None) is None:
            return
        session = consumer.command.session
        others = self.sessions[session]
        del others[consumer.number]
        if not others:
            del self.sessions[session]

    def of_session(self, session: int) -> list[ReplayedConsumer]:
        return list(self.sessions.get(session, {}).values())


def answer(entry: PendingCommand, refused: Refused | None) -> Effect | None:
    """What the edge is told, or None when it did not ask."""
    session: int = getattr(entry.command, "session", 0)
    if refused is not None:
        return Refused(session, entry.seq, refused.code, refused.detail)
    return Done(session, entry.seq) if entry.seq else None
