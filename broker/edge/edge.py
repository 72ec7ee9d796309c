"""The edge of one process: all its sessions, and the way back from owners to them.

Rule: effects are handed to sessions in the order they came, then every touched session writes once, then
rooms are granted back in one submit. Must not know sockets (channels) nor engines (port).
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from broker.config.ports import all_acceptors
from broker.config.settings import EngineSettings, Settings
from broker.core.certificates import Issued
from broker.core.commands import BLOCK, Command
from broker.core.effects import AddressBlocked, BrowseEnd, ConsumerClosed, Deliver, Done, Effect, Refused
from broker.core.errors import Code
from broker.core.management import Manage
from broker.core.memory import Memory
from broker.core.metrics import Metric
from broker.core.notices import Notify
from broker.core.reasons import Reason
from broker.engine.address.address_settings import Matcher
from broker.engine.address.quota import LIMITS, refuses
from broker.link.owner_port import OwnerPort
from broker.seams.clock import Clock
from broker.seams.loop_watchdog import Steps
from broker.seams.memory import hand_back

from .access.acceptor import Entrances
from .access.auth import Authenticator, FileAuthenticator
from .access.external_logins import ExternalLogins
from .access.login_places import Strangers
from .destinations.directory import Directory, LocalClientIds, LocalNames
from .destinations.partition_growth import Newcomers, PartitionGrowth
from .destinations.zone_affinity import ZoneAffinity
from .quotas.meters import Tokens
from .quotas.quotas import Quotas
from .requests.inbound import Inbound
from .requests.live_changes import LiveChanges
from .rights.permissions import Permissions, Rights, of_settings
from .session.added_headers import Numbers
from .session.counters import EdgeCounters
from .session.expiries import Expiries
from .session.parts import Eases, Faulty, Flushes, OpenConnection, ReadingHalf
from .session.session import Session
from .session.told import audit_trail
from .subscribing.queue_wildcards import QueueWildcards
from .subscribing.stream_ends import StreamEnds
from .subscriptions.rate_limits import make_rates
from .subscriptions.subscription import SlotSubscription
from .subscriptions.wildcard_subscription import WildcardSubscription, block
from .transport.channel import Channel
from .transport.connection_memory import Holding
from .transport.draining import Shedding
from .transport.fair_reading import Rounds
from .transport.in_process_channel import INSIDE, inside
from .transport.timers import TimerWheel

log = logging.getLogger("stampede.edge")

TOLD_GROUPS = 20
"""Groups that one warning names."""
LOOK_S = 1.0
"""So often the users file is looked at."""
OVERFLOW = 100
"""Connections beyond max_connections that are told so; further ones are cut, or the refused ones alone would use up
the process's open files."""


class Edge:
    """See the head of this file. `boot`: unique text of this start of the process, part of message ids."""

    notify: Notify | None = None
    """Who tells what happens to clients (edge.notifications); None: nobody."""
    outside: ExternalLogins | None = None
    """Who is known elsewhere than in the table of users."""
    inbound: Callable[[Session], ReadingHalf] = Inbound
    """What makes the reading half of a session."""
    management: Manage | None = None
    """Who carries out what messages to core.management.MANAGEMENT ask for; None: nobody."""

    def __init__(
        self,
        settings: Settings,
        port: OwnerPort,
        clock: Clock,
        beats: TimerWheel,
        auth: Authenticator,
        boot: str,
        directory: Directory | None = None,
        tokens: Tokens | None = None,
        memory: Memory | None = None,
        near: ZoneAffinity | None = None,
    ) -> None:
        """`directory`, `tokens`: what edges must agree on; None = it is this process's own affair. memory: the account
        of the process; None: it has no bound. near: slots led in our zone; None: there are no zones."""
        self.near = near or ZoneAffinity()
        self.settings = settings
        self.port = port
        self.clock, self.beats = clock, beats
        self.auth = auth
        self.boot, self._boot = boot, boot.encode()
        self.directory = directory or Directory(LocalClientIds(settings.edge.client_id_in_use), LocalNames())
        engine = settings.engine
        self.growth = PartitionGrowth(self, engine)
        self.entrances = self._made_entrances()
        self.entrances.homes.learn(engine.queues)
        self.routes = self.entrances.routes
        self._permissions = of_settings(settings)
        self.singly = one_by_one(engine, self.match)
        """Do messages for this address go to its owner one by one; None: no address wants that."""
        self.quotas, self.numbers, self.counters = Quotas(settings.edge.quotas), Numbers(boot), EdgeCounters()
        self._new_rates = partial(make_rates, settings.edge, clock, beats, tokens, self.quotas, self.entrances.paced)
        self.rates = self._new_rates()
        self.steps = Steps(clock)
        self.reads = self.steps.kind("read")
        self.changes = LiveChanges(self, self.steps.kind("change"))
        self.rounds = Rounds(lambda callback: beats.soon(callback), clock.monotonic, self.reads)
        self.expiries = Expiries(clock.monotonic, beats, self._expired)
        self.sessions: dict[int, Session] = {}
        self.consumers: dict[int, SlotSubscription] = {}
        self.digits: dict[int, int] = {}
        """Slot → of the numbers of its messages, as last seen here (Subscription.overhead)."""
        self.wildcards: dict[int, WildcardSubscription] = {}
        """By their block of consumer numbers; those of their parts that have had a message are in `consumers`."""
        self._others: Callable[[Effect], None] | None = None
        """Who else asks owners in this process: hears what is for no session of ours."""
        self.dispatching, self.queue_wildcards, self.stream_ends = False, QueueWildcards(self), StreamEnds()
        self.touched: list[Flushes] = []
        self.eased: dict[Eases, None] = {}
        """What sessions keep waiting, of which some may leave: addresses have room again."""
        self.holding = Holding(self, memory or Memory())
        self.blocked_bytes = 0
        """Bytes that wait in all sessions for full addresses to have room."""
        self.log_frames = logging.getLogger("stampede.frames").isEnabledFor(logging.DEBUG)
        self._consumer = 0
        self._peak = 0
        """Most sessions since memory was last handed back."""
        self._per_ip: dict[str, int] = {}
        self.strangers = Strangers()
        self._paused: list[OpenConnection] = []
        self._grants: list[SlotSubscription] = []
        self.shedding = Shedding(lambda: self.sessions.values(), clock, beats)
        self._unknown: frozenset[str] = frozenset()
        """Groups of the permissions that no user has, as last told."""
        self._draining = False
        self._when_empty: Callable[[], None] | None = None
        port.attach(self)
        self._name_unknown()
        if isinstance(auth, FileAuthenticator):
            self._follow(auth)

    def give_others_to(self, taker: Callable[[Effect], None]) -> None:
        """Who else asks owners in this process hears what is for no session of ours."""
        self._others = taker

    def _made_entrances(self) -> Entrances:
        settings = self.settings
        return Entrances(
            all_acceptors(settings) | {INSIDE: inside(settings)}, settings.wire,
            self.growth.partitions, self.growth.sent_partitions,
            settings.engine.wildcard_delimiter, lambda address: self.match(address), settings.edge, self.near,
        )  # fmt: skip

    # ── connections ────────────────────────────────────────────────────────────────────────────────

    def open(self, channel: Channel) -> Session:
        """A connection was accepted. Over a limit it gets an ERROR and is closed."""
        counters = self.counters
        name = channel.transport_name
        counters.opened[name] = counters.opened.get(name, 0) + 1
        counters.connections[name] = counters.connections.get(name, 0) + 1
        ip = _ip(channel.peer)
        self._per_ip[ip] = self._per_ip.get(ip, 0) + 1
        entrance = self.entrances[name]
        entrance.came()
        session = Session(self, channel, entrance, self.inbound)
        self.sessions[session.id] = session
        self._peak = max(self._peak, len(self.sessions))
        limits = self.settings.edge
        if self._draining:
            session.fail(Code.SHUTDOWN, "connect again in a moment, or to another address of the service")
        elif len(self.sessions) > limits.max_connections + OVERFLOW:
            session.abort(Reason.CONNECTION_LIMIT)
        elif full := self._full(session, ip):
            # Told while there is room for it, as above.
            if entrance.full and entrance.open > entrance.settings.connections_allowed + OVERFLOW:
                session.abort(Reason.CONNECTION_LIMIT)
            else:
                session.fail(Code.CONNECTION_LIMIT, full)
        if not (session.closed or session.leaving):
            self.strangers.come(session)
            if entrance.strangers is not None:
                entrance.strangers.come(session)
        return session

    def _full(self, session: Session, ip: str) -> str:
        """Why the connection that has just come in is one too many, though strangers give way; empty: it is not."""
        limits, entrance = self.settings.edge, session.entrance
        if entrance.strangers is not None and entrance.full and not entrance.strangers.give_way():
            return entrance.full
        if len(self.sessions) > limits.max_connections and not self.strangers.give_way():
            return f"{limits.max_connections} are open (max_connections)"
        if self._per_ip[ip] > limits.max_connections_per_ip and not self.strangers.give_way_of(session.channel.peer):
            return f"{limits.max_connections_per_ip} from this address are open (max_connections_per_ip)"
        return ""

    def known(self, session: OpenConnection) -> None:
        """It has logged in, or ended: a stranger no more."""
        self.strangers.leave(session)
        if session.entrance.strangers is not None:
            session.entrance.strangers.leave(session)

    def clients(self) -> int:
        """Connections that have logged in: what is shared out among edges. Anybody can open others."""
        return len(self.sessions) - len(self.strangers)

    def open_from(self, ip: str) -> int:
        """Connections of an address, as peers name it."""
        return self._per_ip.get(ip, 0)

    def closed(self, session: OpenConnection, reason: Reason, detail: str) -> None:
        """The session has ended; its socket may still be flushing."""
        self.known(session)
        if session.principal:
            session.entrance.members.went()
            if self.settings.edge.audit == "all":
                audit_trail.note(session, session.channel.peer, "disconnect", reason.value)
        counters = self.counters
        counters.closed[reason] = counters.closed.get(reason, 0) + 1
        level = logging.DEBUG if reason in QUIET else logging.INFO
        if log.isEnabledFor(level):
            log.log(
                level,
                "%s #%d closed: %s%s",
                session.channel.peer,
                session.id,
                reason.value,
                f" ({detail})" if detail else "",
            )

    def forget(self, session: OpenConnection) -> None:
        """Its socket is gone."""
        if self.sessions.pop(session.id, None) is None:
            return
        self.holding.forget(session)
        self.expiries.forget(session.id)
        self.queue_wildcards.left(session.id)
        counters = self.counters
        counters.connections[session.channel.transport_name] -= 1
        session.entrance.went()
        if self.rates is not None:
            self.rates.forget(session.id)
        ip = _ip(session.channel.peer)
        left = self._per_ip.get(ip, 1) - 1
        if left:
            self._per_ip[ip] = left
        else:
            self._per_ip.pop(ip, None)
        if self._peak >= MANY and len(self.sessions) * 4 < self._peak:
            # After the last writes have left, not in the middle of a storm.
            self._peak = 0
            self.beats.deadline(self.clock.monotonic() + HAND_BACK_S, hand_back)
        if not self.sessions and self._when_empty is not None:
            self._when_empty()

    def drain(self, when_empty: Callable[[], None]) -> None:
        """Shutdown: tell every client when it has come to an idle point, then call back when all are gone."""
        self._draining = True
        self._when_empty = when_empty
        settings = self.settings.edge
        self.shedding.drain(settings.shed_rate, settings.drain_timeout_s, "connect again in a moment")
        if not self.sessions:
            when_empty()

    def cut_off(self, then: Callable[[], None]) -> None:
        """The drain has taken too long. `then` is called when all have been aborted."""
        self.changes.stop(then)

    def expel(self, users: Collection[str]) -> None:
        """Of these, users that are gone or logged in with what is no passcode any more: their connections end, those of
        the latter after a while (edge.login_grace_s)."""
        grace = self.settings.edge.login_grace_s
        changed = [user for user in users if self.auth.knows(user)] if grace else []
        if changed:
            self.beats.deadline(self.clock.monotonic() + grace, partial(self.changes.users, changed))
        self.changes.users(set(users).difference(changed))

    def known_outside(self, outside: ExternalLogins) -> None:
        """Who is known elsewhere."""
        self.outside = outside

    def marks(self) -> list[int]:
        """Of logins that were proven elsewhere and are connected (Principal.mark)."""
        return [session.login_mark for session in self.sessions.values() if session.groups is not None]

    def revoked_at(self, acceptors: frozenset[str], revoked: frozenset[Issued]) -> None:
        """These certificates do not count any more at these acceptors: their connections end."""
        self.changes.certificates(acceptors, revoked)

    def reconsider(self) -> None:
        """Logins that were proven elsewhere may not hold any more: their connections end."""
        self.changes.logins()

    def _expired(self, connection: int) -> None:
        session = self.sessions.get(connection)
        if session is not None and not session.closed:
            session.fail(Code.LOGIN_EXPIRED, "its token or certificate has ended: connect with a new one")
            self.flush()

    @property
    def permissions(self) -> Permissions:
        """Those of now."""
        return self._permissions

    def rights(self, user: str) -> Rights | None:
        """What a user may do now; None: everything."""
        return self._permissions.rights(self.auth.groups(user))

    def rights_of(self, groups: tuple[str, ...]) -> Rights | None:
        """What users with these groups may do now; None: everything."""
        return self._permissions.rights(groups)

    def permit(self, table: Mapping[str, Mapping[str, Any]]) -> None:
        """Other permissions (edge.permissions). Where there were some, none means that nobody may do anything: who
        takes the last entry away does not mean to open what it closed."""
        was_open = self._permissions.open
        self._permissions.replace(table)
        if not table and not was_open:
            log.warning(
                "the last entry of edge.permissions is gone: nobody may do anything; add an entry (`*` as its groups "
                "lets every user), or start this edge again to be without permissions"
            )
        self.authorise()

    def limit(self, table: Mapping[str, Mapping[str, Any]]) -> None:
        """Other limits of users, virtual hosts and addresses of clients, for what is asked from now on."""
        self.quotas.replace(table)
        self.rates = self.rates or self._new_rates()
        self.changes.quotas()

    def authorise(self) -> None:
        """Permissions or the groups of users have changed: it counts for what comes from now on, and a subscription
        that its user would not get any more ends."""
        self.changes.rights()
        self._name_unknown()

    def heed(self, auth: FileAuthenticator) -> None:
        """Does what changes of the users file mean for those who are here."""
        if (gone := auth.changed()) is not None:
            self.expel(gone)
            self.authorise()

    def _follow(self, auth: FileAuthenticator) -> None:
        """Looks at the users file from time to time."""
        self.heed(auth)
        self.beats.deadline(self.clock.monotonic() + LOOK_S, partial(self._follow, auth))

    def _name_unknown(self) -> None:
        unknown = self._permissions.groups - self.auth.known_groups()
        if unknown != self._unknown:
            self._unknown = unknown
            if unknown:
                some = heapq.nsmallest(TOLD_GROUPS, unknown)
                more = f" and {len(unknown) - len(some)} more" if len(unknown) > len(some) else ""
                log.warning("edge.permissions names groups that no user has: %s%s", ", ".join(some), more)

    def configure(self, settings: EngineSettings) -> None:
        """Address settings have changed. Subscriptions get parts in partitions that are new. Messages follow when all
        edges that live have heard of it and have done the same: none goes without the store for longer than a lease."""
        self.growth.configure(settings)
        self.entrances.homes.learn(settings.queues)
        self.singly = one_by_one(settings, self.match)

    @property
    def match(self) -> Matcher:
        """The settings of an address."""
        return self.growth.match

    def subscribers_follow(self, then: Callable[[], None]) -> None:
        """See PartitionGrowth."""
        self.changes.partitions(then)

    def others_have_heard(self, then: Callable[[], None]) -> None:
        """See PartitionGrowth."""
        if self.sessions:
            self.beats.deadline(self.clock.monotonic() + self.settings.cluster.lease_s, then)
        else:
            then()

    def senders_follow(self) -> None:
        """See PartitionGrowth."""
        self.entrances.follow()

    def slots(self, address: str) -> Sequence[int]:
        return self.routes.slots(address)

    def managed_by(self, manage: Manage) -> None:
        """Who carries out what messages to core.management.MANAGEMENT ask for."""
        self.management = manage

    def reads_by(self, inbound: Callable[[Session], ReadingHalf]) -> None:
        """What makes the reading half of each session from now on."""
        self.inbound = inbound

    def notified_by(self, notify: Notify) -> None:
        """Who tells what happens to clients."""
        self.notify = notify

    def grow_with(self, newcomers: Newcomers, grown: Mapping[str, int] | None = None) -> None:
        """Who sees to subscriptions that nobody uses when an address has more partitions. grown: addresses that have
        more already, and how many of them messages may go to until that is done."""
        self.growth.grow_with(newcomers, grown or {}, self.settings.engine)

    def count_blocked(self, nbytes: int) -> None:
        """So many more bytes wait for full addresses to have room."""
        self.blocked_bytes += nbytes

    def next_consumer(self) -> int:
        self._consumer += 1
        return self._consumer

    def next_block(self) -> int:
        """The first of as many numbers as there are slots."""
        first = (block(self._consumer) + 1) * BLOCK
        self._consumer = first + BLOCK - 1
        return first

    def handle(self, consumer: int) -> bytes:
        """The part of message ids in front of the message's number."""
        return b"%b-%d" % (self._boot, consumer)

    # ── from the owners ────────────────────────────────────────────────────────────────────────────

    def on_effects(self, effects: list[Effect]) -> None:
        consumers, sessions = self.consumers, self.sessions
        self.dispatching = True
        for effect in effects:
            kind = type(effect)
            try:
                if kind is Deliver:
                    sub = consumers.get(effect.consumer) or self._part(effect.consumer)  # type: ignore[union-attr]
                    if sub is not None:
                        sub.sink.deliver(sub, effect)  # type: ignore[arg-type]
                    elif self._others is not None:
                        self._others(effect)
                elif kind is Done:
                    session = sessions.get(effect.session)  # type: ignore[union-attr]
                    if session is not None and not session.closed:
                        session.done(effect.seq)  # type: ignore[union-attr]
                    elif session is None and self._others is not None:
                        self._others(effect)
                else:
                    self._rare(effect)
            except Exception:
                self._fault(effect)
        while self.eased:
            blocked, _ = self.eased.popitem()
            try:
                blocked.advance()
            except Exception:
                blocked.fault()
        self.dispatching = False
        if self.rates is not None:
            self.rates.delivered(effects, consumers)
        if self.touched:
            touched, self.touched = self.touched, []  # flush(), in line
            for outbound in touched:
                try:
                    outbound.flush()
                except Exception:
                    outbound.fault()
        if self._grants:
            self.submit_grants()

    def _part(self, consumer: int) -> SlotSubscription | None:
        """It is in no table: the part of a wildcard that had no message yet, or nobody any more."""
        split = self.wildcards.get(block(consumer))
        return None if split is None else split.part(consumer)

    def _consumer_of(self, consumer: int) -> SlotSubscription | None:
        return self.consumers.get(consumer) or self._part(consumer)

    def _fault(self, effect: Effect) -> None:
        """A session could not take an effect. That is its end alone: the owner who calls us must not notice."""
        session: Faulty | None
        if isinstance(effect, Done | Refused | AddressBlocked):
            session = self.sessions.get(effect.session)
        else:
            sub = self._consumer_of(effect.consumer)
            session = sub.session if sub is not None else None
        if session is not None:
            session.fault()
        else:
            log.exception("internal error")

    def _rare(self, effect: Effect) -> None:
        if isinstance(effect, Refused):
            session = self.sessions.get(effect.session)
            if session is not None:
                self.counters.refuse()
                session.refused(effect.seq, effect.code, effect.detail)
            elif self._others is not None:
                self._others(effect)
            return
        if isinstance(effect, AddressBlocked):
            session = self.sessions.get(effect.session)
            if session is not None and not session.closed:
                session.address_blocked(effect.slot, effect.address, effect.full, effect.passing)
            return
        assert isinstance(effect, ConsumerClosed | BrowseEnd)
        sub = self._consumer_of(effect.consumer)
        if sub is None:
            if self._others is not None:
                self._others(effect)
            return
        if isinstance(effect, BrowseEnd):
            if sub.split is None or sub.split.browsed():
                sub.session.outbound.write(sub.browse_end())
        else:
            sub.session.consumer_closed(sub, CLOSED.get(effect.reason, Code.INTERNAL), effect.detail)

    def flush(self) -> None:
        """Writes every touched connection once."""
        touched, self.touched = self.touched, []
        for outbound in touched:
            try:
                outbound.flush()
            except Exception:
                outbound.fault()

    def grant(self, sub: SlotSubscription) -> None:
        """The subscription's room goes back with the next submit_grants()."""
        self._grants.append(sub)

    def submit_grants(self) -> None:
        if not self._grants:
            return
        subs, self._grants = self._grants, []
        if self.rates is not None:
            subs = self.rates.granting(subs)
        commands: list[Command] = [sub.grant() for sub in subs if sub.owed and sub.session.outbound.writable]
        if commands:
            self.port.submit(commands)

    def pause(self, session: OpenConnection) -> None:
        """The owner is congested: this producer's socket rests until on_relief."""
        self._paused.append(session)
        session.pause_reading("owner")

    def on_relief(self, sessions: Collection[int] | None = None) -> None:
        paused, self._paused = self._paused, []
        for session in paused:
            if sessions is None or session.id in sessions:
                session.resume_reading("owner")
            else:
                self._paused.append(session)

    def on_stopped(self, why: str) -> None:
        for session in list(self.sessions.values()):
            session.fail(Code.OWNER_STOPPED, "the broker cannot go on and is stopping", at_once=True)

    def metrics(self) -> list[Metric]:
        metrics = self.counters.metrics(len(self.consumers))
        return [*metrics, *self.quotas.metrics(), *self.holding.metrics(), *self.steps.metrics()]

    def who(self, session: int) -> str:
        """A session in words for people."""
        return known.told if (known := self.sessions.get(session)) is not None else f"session {session}"


CLOSED = {
    Reason.QUEUE_DELETED: Code.QUEUE_DELETED,
    Reason.SLOW_CONSUMER: Code.SLOW_CONSUMER,
    Reason.SELECTOR_COST: Code.SELECTOR_COST,
}
"""What a client is told when the owner ends its consumer."""
MANY = 1000
"""Sessions whose memory is worth handing back when most of them have gone."""
HAND_BACK_S = 1.0
QUIET = (Reason.CLIENT_DISCONNECT, Reason.CLIENT_GONE)
"""Ordinary ends: at DEBUG only."""


def one_by_one(settings: EngineSettings, match: Matcher) -> Callable[[str], bool] | None:
    """An address that refuses what it has no room for refuses commands: each message must be one of its own."""
    if not refuses(settings.address) and not any(LIMITS.intersection(table) for table in settings.addresses.values()):
        return None
    return lambda address: refuses(match(address))


def _ip(peer: str) -> str:
    return peer.rpartition(":")[0]
