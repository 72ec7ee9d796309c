"""What users, virtual hosts and addresses of clients use, and what they may (edge.quotas). How fast they may send and
receive stands here too; what paces them (rate_limits.py) keeps the meters with the account.

    Account   one of them: what its connections on this edge use together, and the entry that says how much is too much;
              and what owners keep of it (KeptResource), as they have told last; of a user, of the queues that his
              commands have made
    Usage     what one connection uses, of the accounts that it belongs to: its user's, its host's, its address'

A limit is one of all edges together. Where edges tell each other what their accounts use (Redis) an edge adds what the
other edges said last; else each edge may give its share of a limit, one at least.

    limit 10, two edges, no Redis        5 here, 5 there
    limit 10, the other one said 7       3 here

Rule: counts what is there, at its beginning and its end, and nothing per message. A connection that none of the entries
is about has no Usage. A user over a limit that has been lowered keeps what he has and gets no more. Must not know
sessions, nor how edges talk to each other.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from broker.config.quotas import DEFAULT_HOST, EACH, KEPT, LIMITS, RATES, QuotaSettings, parsed_quota
from broker.config.settings import EdgeSettings
from broker.core.creation import Creation
from broker.core.errors import Code, RefusedError
from broker.core.metrics import Metric

from ..transport.fair_places import network
from .meters import Meter, Tally, Way

MOST_TOLD: Final = 200
"""Entries that metrics tell of."""
PIECE: Final = 8
"""Users or hosts gone through in one piece (loop_watchdog.portion)."""
MOST_USERS: Final = 5000
"""Users of whom is known what is kept of them: those who came last."""


class Resource(IntEnum):
    """What is counted; in the order of the limits of an entry (config/quotas.py)."""

    CONNECTIONS = 0
    LOGINS = 1
    SUBSCRIPTIONS = 2
    UNACKNOWLEDGED = 3
    TRANSACTIONS = 4


class KeptResource(IntEnum):
    """What owners keep, and are asked for (admin/management/kept_quotas.py); in the order of config/quotas.py."""

    QUEUES = 0
    DURABLE_SUBSCRIPTIONS = 1
    BYTES = 2
    MEMORY_BYTES = 3


NOTHING: Final = (0,) * len(LIMITS)
NOTHING_KEPT: Final = (0,) * len(KEPT)
_FIXES: Final = {
    Resource.CONNECTIONS: "close one, or raise it",
    Resource.LOGINS: "try again in a few seconds",
    Resource.SUBSCRIPTIONS: "UNSUBSCRIBE another one, or raise it",
    Resource.UNACKNOWLEDGED: "subscribe with smaller windows (prefetch-count), or raise it",
    Resource.TRANSACTIONS: "COMMIT or ABORT another one first, or raise it",
}
_KEPT_FIXES: Final = {
    KeptResource.QUEUES: "delete some, or end subscriptions, or raise it",
    KeptResource.DURABLE_SUBSCRIPTIONS: "UNSUBSCRIBE one by its durable name, or raise it",
    KeptResource.BYTES: "send again when some messages have been consumed, or raise it",
    KeptResource.MEMORY_BYTES: "send again when some messages have been consumed, or raise it",
}


_OF_MAKERS: Final = (KeptResource.BYTES, KeptResource.MEMORY_BYTES)
"""Of a user: what the queues hold that he has made. Their owners refuse who sends there, be it he or another."""


class QuotaEntry:
    """One of edge.quotas.    limits   by Resource.    used, refused   by all that it counts for, here.
    rates, tallies   by rate_limits.Way.    kept_limits, kept, kept_refused   by KeptResource"""

    __slots__ = ("kept", "kept_limits", "kept_refused", "limits", "name", "rates", "refused", "tallies", "used")

    def __init__(self, name: str, settings: QuotaSettings) -> None:
        self.name = name
        self.limits = tuple(getattr(settings, limit) for limit in LIMITS)
        self.used = list(NOTHING)
        self.refused = list(NOTHING)
        self.kept_limits = tuple(getattr(settings, limit) for limit in KEPT)
        self.kept: Sequence[int] = NOTHING_KEPT
        self.kept_refused = list(NOTHING_KEPT)
        self.rates = tuple(getattr(settings, rate) for rate in RATES)
        self.tallies = tuple(Tally() for _ in RATES)

    @property
    def of_makers(self) -> bool:
        """Is anything limited for which it has to be known who makes a queue."""
        return any(self.kept_limits[what] >= 0 for what in (KeptResource.QUEUES, *_OF_MAKERS))

    def too_much(self, who: str, what: KeptResource, kept: int) -> str:
        """Why nothing is let in: for people."""
        words, has = what.name.lower().replace("_", " "), f"{who} has {self.kept_limits[what]}"
        if what in _OF_MAKERS and who.startswith("user:"):
            words += " in the queues he has made"
        return (
            f'{has} {words} at most, and there are {kept} (edge.quotas."{self.name}".{KEPT[what]}); {_KEPT_FIXES[what]}'
        )

    def full(self, kept: Sequence[int]) -> KeptResource | None:
        """Of what there is as much as may be in the queues that a user has made; None: more may come in."""
        return next((what for what in _OF_MAKERS if 0 <= self.kept_limits[what] <= kept[what]), None)

    def follow(self, before: QuotaEntry) -> None:
        """Counters go on."""
        self.refused, self.kept_refused, self.tallies = before.refused, before.kept_refused, before.tallies
        self.kept = before.kept


class Account:
    """One user, host or address (or network of them).    full   by KeptResource: is there as much of it as may be.
    maker   the user for whom queues are made; empty: nobody counts them."""

    __slots__ = ("_quotas", "entry", "full", "maker", "meters", "used", "who")

    def __init__(self, quotas: Quotas, who: str, entry: QuotaEntry) -> None:
        self._quotas = quotas
        self.who = who
        self.entry = entry
        self.used = list(NOTHING)
        self.meters: list[Meter | None] = [None] * len(RATES)
        """By rate_limits.Way."""
        self.full: Sequence[bool] = ()
        kind, _, name = who.partition(":")
        self.maker = name if kind == "user" and entry.of_makers else ""
        self.keeps(quotas.kept_of(who))

    def keeps(self, kept: Sequence[int]) -> None:
        """So much of it is kept, as owners have told last."""
        self.full = [0 <= most <= count for most, count in zip(self.entry.kept_limits, kept, strict=True)]

    @property
    def rates(self) -> Sequence[int]:
        return self.entry.rates

    @property
    def tallies(self) -> Sequence[Tally]:
        return self.entry.tallies

    @property
    def idle(self) -> bool:
        """Nobody uses it, and it owes nothing: who comes back has not paid by going."""
        return not any(self.used) and not any(meter is not None and meter.owes for meter in self.meters)

    def paid(self) -> None:
        """A meter of it owes nothing any more."""
        self._quotas.tidy(self)

    def room(self, what: Resource) -> int | None:
        """How much more it may use; None: there is no limit."""
        limit = self.entry.limits[what]
        if limit < 0:
            return None
        return self._quotas.part(limit, self._quotas.others_of(self.who)[what]) - self.used[what]

    def add(self, what: Resource, count: int) -> None:
        """So much more is used; below 0: less."""
        self.used[what] += count
        self.entry.used[what] += count

    def refusal(self, what: Resource) -> RefusedError:
        """Names the limit, and what helps."""
        self.entry.refused[what] += 1
        name, limit = LIMITS[what], self.entry.limits[what]
        here = self._quotas.told_part(limit)
        return RefusedError(
            Code.QUOTA,
            f'{self.who} has {limit} {what.name.lower()} at most{here} (edge.quotas."{self.entry.name}".{name}); '
            f"{_FIXES[what]}",
        )

    def kept_refusal(self, what: KeptResource) -> RefusedError:
        """The same for what owners keep."""
        self.entry.kept_refused[what] += 1
        return RefusedError(Code.QUOTA, self.entry.too_much(self.who, what, self._quotas.kept_of(self.who)[what]))


class Usage:
    """Of one connection."""

    __slots__ = ("_counts", "_quotas", "_windows", "_withheld", "accounts", "maker")

    def __init__(self, quotas: Quotas, accounts: Sequence[Account]) -> None:
        self._quotas = quotas
        self.accounts = accounts
        self._counts = list(NOTHING)
        self._windows: dict[str, int] = {}
        """Of its subscriptions."""
        self._withheld: tuple[Account, KeptResource] | None = None
        self.maker = _maker_of(accounts)
        """For whom its queues are made; empty: nobody counts them."""

    # ── what owners keep ───────────────────────────────────────────────────────────────────────────

    def sends(self, allowed: bool) -> Creation:
        """Before a SEND: may it make the queue that it goes to, and for whom. allowed: by rights. Raises
        RefusedError(QUOTA) where nothing may be sent, because its host keeps as much as may be. Where a user does, it
        is the owner who refuses: he may send to queues of others, and others not to his."""
        for account in self.accounts:
            if True in account.full and not account.maker:
                for what in _OF_MAKERS:
                    if account.full[what]:
                        raise account.kept_refusal(what)
        return self.creates(allowed) and (self.maker or True)

    def creates(self, allowed: bool = True, durable: bool = False) -> bool:
        """May it make one more queue (durable: a durable subscription). allowed: by rights; who lacks those is told so,
        and nothing of quotas. Where it may not it goes on with those that are there: only their owner knows them, and
        refuses what is not there (withheld)."""
        self._withheld = None
        if not allowed:
            return False
        for account in self.accounts:
            if True not in account.full:
                continue
            whats = [KeptResource.QUEUES, KeptResource.DURABLE_SUBSCRIPTIONS][: 1 + durable]
            # Whose queues are full makes no other ones: each would be a second's worth more.
            for what in (*whats, *_OF_MAKERS) if account.maker else whats:
                if account.full[what]:
                    self._withheld = account, what
                    return False
        return True

    def check_queue(self) -> None:
        """Raises RefusedError(QUOTA) where there may be no other queue: what is asked for always is a new one."""
        if not self.creates():
            raise self.withheld() or RefusedError(Code.QUOTA)

    def withheld(self) -> RefusedError | None:
        """Why what it asked for last was not made; None: not for a quota."""
        return self._withheld[0].kept_refusal(self._withheld[1]) if self._withheld is not None else None

    def own_full(self) -> str:
        """Why nobody sends to the queues that its user has made; empty: that is not so."""
        for account in self.accounts:
            if account.maker and (what := account.entry.full(kept := self._quotas.kept_of(account.who))) is not None:
                return account.entry.too_much(account.who, what, kept[what])
        return ""

    # ── what connections use ───────────────────────────────────────────────────────────────────────

    def check(self, what: Resource, count: int = 1) -> None:
        """Raises RefusedError(QUOTA) where so much more is too much."""
        for account in self.accounts:
            room = account.room(what)
            if room is not None and room < count:
                raise account.refusal(what)

    def charge(self, what: Resource, count: int = 1) -> None:
        """So much more. Raises RefusedError(QUOTA), and nothing is taken."""
        try:
            self.check(what, count)
        except RefusedError:
            for account in self.accounts:  # nobody may use it: strangers come from thousands of addresses
                self._quotas.tidy(account)
            raise
        self.add(what, count)

    def add(self, what: Resource, count: int) -> None:
        """So much more, or less, whatever may be."""
        self._counts[what] += count
        for account in self.accounts:
            account.add(what, count)

    def window(self, key: str, wanted: int, default: int) -> int:
        """A subscription may have so many unacknowledged messages of those that it wants; one without a bound is
        taken for `default`. Raises RefusedError(QUOTA): nothing is left."""
        rooms = [room for account in self.accounts if (room := account.room(Resource.UNACKNOWLEDGED)) is not None]
        if rooms:
            self.check(Resource.UNACKNOWLEDGED)
            wanted = min(wanted if wanted <= MOST_WINDOW else max(default, 1), *rooms)
        self.subscribed(key, wanted, default)
        return wanted

    def subscribed(self, key: str, window: int, default: int) -> None:
        """It has such a window: counted also where nothing limits it, because a limit may come."""
        window = self._windows[key] = window if window <= MOST_WINDOW else max(default, 1)
        self.add(Resource.UNACKNOWLEDGED, window)

    def had(self, windows: Mapping[str, int], settings: EdgeSettings) -> None:
        """It has these subscriptions already. 0: one that holds nothing."""
        for key, window in windows.items():
            if window:
                self.subscribed(key, window, settings.consumer_window_messages)

    def unsubscribed(self, key: str) -> None:
        """What its window was is free."""
        self.add(Resource.UNACKNOWLEDGED, -self._windows.pop(key, 0))

    def leave(self) -> None:
        """Its connection is over. No effect the second time."""
        self._move(())

    def belongs(self, accounts: Sequence[Account]) -> None:
        """There are other entries: what it uses counts there from now on."""
        self._move(accounts)

    def _move(self, accounts: Sequence[Account]) -> None:
        before, self.accounts = self.accounts, accounts
        self.maker = _maker_of(accounts)
        for what in Resource:
            if count := self._counts[what]:
                for account in before:
                    account.add(what, -count)
                for account in accounts:
                    account.add(what, count)
        for account in before:
            self._quotas.tidy(account)


def _maker_of(accounts: Sequence[Account]) -> str:
    return next((account.maker for account in accounts if account.maker), "")


MOST_WINDOW: Final = 1 << 53
"""More is no window but the want of one."""


class Quotas:
    """All accounts of an edge. edges   how many share the limits, when they do not know of each other."""

    def __init__(self, table: Mapping[str, Mapping[str, Any]]) -> None:
        self.accounts: dict[str, Account] = {}
        self._kept: Mapping[str, Sequence[int]] = {}
        self.full_makers: Collection[str] = frozenset()
        """Users whose queues hold as much as they may: owners refuse what is sent there."""
        self._users: dict[str, None] = {}
        """Who was here, who came longest ago first."""
        self.edges, self._rank = 1, 0
        self.sends = self.receives = False
        """Has any entry a rate for what is sent, for what is received."""
        self._others: Mapping[str, Sequence[int]] | None = None
        self._entries: dict[tuple[str, str], QuotaEntry] = {}
        self._networks: dict[tuple[int, int], dict[int, QuotaEntry]] = {}
        """By version of IP and bits of the network, the narrowest first: beginning → entry."""
        self.replace(table)

    @property
    def active(self) -> bool:
        """Is there any entry."""
        return bool(self._entries)

    def replace(self, table: Mapping[str, Mapping[str, Any]]) -> None:
        """Other entries. A connection belongs to the old accounts until it is told (Usage.belongs)."""
        self.accounts = {}
        before = {entry.name: entry for entry in self._entries.values()}
        self._entries = {}
        networks: dict[tuple[int, int], dict[int, QuotaEntry]] = {}
        for name, values in table.items():
            kind, its = parsed_quota(name)
            entry = self._entries[kind, its] = QuotaEntry(name, QuotaSettings(**values))
            if name in before:
                entry.follow(before[name])
            if kind == "ip" and its != EACH:
                found = ipaddress.ip_network(its)
                networks.setdefault((found.version, found.prefixlen), {})[int(found.network_address)] = entry
        rates = [entry.rates for entry in self._entries.values()]
        self.sends = any(of[Way.IN] >= 0 or of[Way.IN_BYTES] >= 0 for of in rates)
        self.receives = any(of[Way.OUT] >= 0 or of[Way.OUT_BYTES] >= 0 for of in rates)
        self._networks = dict(sorted(networks.items(), key=lambda each: -each[0][1]))

    def usage(self, user: str | None, host: str, ip: str) -> Usage | None:
        """Of a connection from there. user: None: nobody has logged in. None: no entry is about it."""
        accounts = self.of(user, host, ip) if self._entries else ()
        return Usage(self, accounts) if accounts else None

    def of(self, user: str | None, host: str, ip: str) -> tuple[Account, ...]:
        """The accounts of a connection."""
        found = [self._named("host", host or DEFAULT_HOST), self._from(ip)]
        if user is not None:
            found.insert(0, self._named("user", user))
        return tuple(account for account in found if account is not None)

    def tidy(self, account: Account) -> None:
        """It may be used by nobody any more."""
        if account.idle and self.accounts.get(account.who) is account:
            del self.accounts[account.who]

    # ── what owners keep ───────────────────────────────────────────────────────────────────────────

    @property
    def asks_owners(self) -> bool:
        """Is anything limited that only they know."""
        return any(max(entry.kept_limits) >= 0 for entry in self._entries.values())

    def counted_users(self) -> list[str]:
        """Who has a limit of durable subscriptions, of those who were here: a user who comes back at once is to find
        his count."""
        what = KeptResource.DURABLE_SUBSCRIPTIONS
        return [user for user in self._users if (entry := self._entry("user", user)) and entry.kept_limits[what] >= 0]

    def _remember(self, user: str) -> None:
        self._users.pop(user, None)
        self._users[user] = None
        if len(self._users) > MOST_USERS:
            del self._users[next(iter(self._users))]

    def keeps(self, kept: Mapping[str, Sequence[int]]) -> Generator[None, None, None]:
        """So much all owners keep together: user:NAME or host:NAME → by KeptResource. Who is not named has nothing. In
        steps; what is said meanwhile is of before, or of now."""
        self._kept = kept
        sums: dict[QuotaEntry, list[int]] = {}
        full: set[str] = set()
        for seen, (who, counts) in enumerate(kept.items(), 1):
            kind, _, name = who.partition(":")
            if (found := self._entry(kind, name)) is not None:
                had = sums.get(found) or sums.setdefault(found, [0] * len(KEPT))
                for at, more in enumerate(counts):
                    had[at] += more
                if kind == "user" and found.full(counts) is not None:
                    full.add(name)
            if not seen % PIECE:
                yield
        for entry in self._entries.values():
            entry.kept = sums.get(entry, NOTHING_KEPT)
        self.full_makers = full
        for seen, account in enumerate(list(self.accounts.values()), 1):
            account.keeps(self.kept_of(account.who))
            if not seen % PIECE:
                yield

    def kept_of(self, who: str) -> Sequence[int]:
        """As owners have told last, by KeptResource."""
        return self._kept.get(who, NOTHING_KEPT)

    # ── other edges ────────────────────────────────────────────────────────────────────────────────

    def shared_by(self, edges: int, rank: int) -> None:
        """So many edges serve, and this one is the `rank`th of them."""
        self.edges, self._rank = max(edges, 1), rank

    @property
    def first(self) -> bool:
        """Is this one the first of the edges: what one of them does for all is its affair."""
        return not self._rank

    def heard(self, others: Mapping[str, Sequence[int]] | None) -> None:
        """What the accounts use on all other edges together; None: nobody can say."""
        self._others = others

    def others_of(self, who: str) -> Sequence[int]:
        """What an account uses on other edges, as far as they said."""
        return NOTHING if self._others is None else self._others.get(who, NOTHING)

    def part(self, limit: int, others: int) -> int:
        """What this edge may give of a limit."""
        if self._others is not None:
            return limit - others
        if self.edges == 1 or not limit:
            return limit
        return max(limit // self.edges + (self._rank < limit % self.edges), 1)

    def told_part(self, limit: int) -> str:
        """For people: which part of the limit is this edge's."""
        if self._others is not None or self.edges == 1:
            return ""
        return f", {self.part(limit, 0)} of them at this one of {self.edges} edges"

    def told(self) -> dict[str, list[int]]:
        """What the accounts use here, for others."""
        return {who: account.used for who, account in self.accounts.items()}

    def metrics(self) -> list[Metric]:
        """Of the first MOST_TOLD entries."""
        entries = [entry for _, entry in zip(range(MOST_TOLD), self._entries.values(), strict=False)]

        def family(name: str, kind: str, text: str, *values: _Column) -> Metric:
            return Metric(name, kind, text, [row for column in values for row in _rows(entries, *column)])  # type: ignore[arg-type]

        if not entries:
            return []
        return [
            family("stomp_quota_limit", "gauge", "Limits of edge.quotas, of all edges together; of an entry with * "
                   "for each that it counts for.", _LIMITS, _KEPT, _RATES),
            family("stomp_quota_used", "gauge", "What all that an entry of edge.quotas counts for use at this edge, "
                   "together.", (LIMITS, lambda entry: entry.limits, lambda entry: entry.used)),
            family("stomp_quota_kept", "gauge", "What all owners together keep of what an entry of edge.quotas counts "
                   "for, as they told this edge last: the same at each edge.",
                   (KEPT, lambda entry: entry.kept_limits, lambda entry: entry.kept)),
            family("stomp_quota_refused_total", "counter", "Requests that a limit of edge.quotas has refused (1513).",
                   (LIMITS, lambda entry: entry.limits, lambda entry: entry.refused),
                   (KEPT, lambda entry: entry.kept_limits, lambda entry: entry.kept_refused)),
            family("stomp_quota_passed_total", "counter", "Messages or bytes that a rate of edge.quotas has let by at "
                   "this edge.", (RATES, lambda entry: entry.rates, lambda entry: [of.passed for of in entry.tallies])),
            family("stomp_quota_waits_total", "counter", "How often a connection or consumer has had to wait for a "
                   "rate of edge.quotas.",
                   (RATES, lambda entry: entry.rates, lambda entry: [of.waited for of in entry.tallies])),
        ]  # fmt: skip

    # ── who it is ──────────────────────────────────────────────────────────────────────────────────

    def _named(self, kind: str, name: str) -> Account | None:
        if kind == "user":
            self._remember(name)
        return self._account(f"{kind}:{name}", self._entry(kind, name))

    def _entry(self, kind: str, name: str) -> QuotaEntry | None:
        return self._entries.get((kind, name)) or self._entries.get((kind, EACH))

    def _from(self, ip: str) -> Account | None:
        if self._networks:
            try:
                address = ipaddress.ip_address(ip.partition("%")[0])
            except ValueError:
                return None  # a socket of this machine's file system
            address = getattr(address, "ipv4_mapped", None) or address
            for (version, bits), entries in self._networks.items():
                if version == address.version:
                    rest = address.max_prefixlen - bits
                    entry = entries.get(int(address) >> rest << rest)
                    if entry is not None:
                        return self._account(entry.name, entry)
        return self._account(f"ip:{network(ip)}", self._entries.get(("ip", EACH)))

    def _account(self, who: str, entry: QuotaEntry | None) -> Account | None:
        if entry is None:
            return None
        account = self.accounts.get(who)
        if account is None:
            account = self.accounts[who] = Account(self, who, entry)
        return account


_Values = Callable[[QuotaEntry], Sequence[int]]
_Column = tuple[Sequence[str], _Values, _Values]
"""Names of limits, what they are (below 0: none), and what is told of each."""
_LIMITS: Final[_Column] = (LIMITS, lambda entry: entry.limits, lambda entry: entry.limits)
_KEPT: Final[_Column] = (KEPT, lambda entry: entry.kept_limits, lambda entry: entry.kept_limits)
_RATES: Final[_Column] = (RATES, lambda entry: entry.rates, lambda entry: entry.rates)


def _rows(
    entries: Sequence[QuotaEntry], names: Sequence[str], limits: _Values, values: _Values
) -> Iterator[tuple[dict[str, str], float]]:
    for entry in entries:
        for name, most, value in zip(names, limits(entry), values(entry), strict=True):
            if most >= 0:
                yield {"quota": entry.name, "limit": name}, float(value)
