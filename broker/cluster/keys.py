"""Names of the cluster's keys in the metadata store (docs/adr/0004).

Rule: the only place where such a name is put together or taken apart. Names given by people are escaped, so that no
address, user or subscription can reach a key that is not its own. Must not know what the values mean.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from broker.core.strict_numbers import natural

_READABLE = " !#$&'()*+,-.:;<=>?@[]^_`{|}~"
"""Characters of names that stay as they are: all printable ASCII but `/`, `%`, `"` and the backslash."""


def escape(name: str) -> str:
    """`name` as one part of a key."""
    return quote(name, safe=_READABLE)


def last_part(key: str) -> str:
    """The name at the end of a key, as it was given."""
    return unquote(key.rpartition("/")[2])


def slot_of_key(key: str) -> int:
    """Whose record it is. Raises ValueError for what is not a slot's key."""
    slot = natural(last_part(key))
    if slot is None:
        raise ValueError(f"{key} is not the key of a slot; delete it")
    return slot


class Keys:
    """Every key of one cluster. Attributes end with a slash: they are prefixes to list and watch."""

    __slots__ = (
        "applied", "bridges", "config", "config_addresses", "config_bridges", "config_diverts", "config_permissions",
        "config_queues", "config_quotas",
        "config_settings", "config_tokens", "config_users", "controller", "cordons", "disks",
        "edges", "loads", "managed", "owners", "possession", "rebalance", "restored", "root", "slots", "subscriptions",
        "suspects", "throws", "turns",
    )  # fmt: skip

    def __init__(self, prefix: str) -> None:
        """prefix: `etcd.prefix` of the settings, with or without a slash at its end."""
        self.root = prefix.rstrip("/") + "/"
        self.slots = self.root + "slots/"
        self.owners = self.root + "owners/"
        self.edges = self.root + "edges/"
        self.disks = self.root + "disks/"
        self.cordons = self.root + "cordon/"
        self.suspects = self.root + "suspects/"
        self.throws = self.root + "throws/"
        self.controller = self.root + "controller"
        self.applied = self.root + "applied/"
        self.loads = self.root + "load/"
        self.config = self.root + "config/"
        self.config_settings = self.config + "settings/"
        self.config_addresses = self.config + "addresses/"
        self.config_users = self.config + "users/"
        self.config_queues = self.config + "queues/"
        self.config_diverts = self.config + "diverts/"
        self.config_permissions = self.config + "permissions/"
        self.config_tokens = self.config + "tokens/"
        self.config_bridges = self.config + "bridges/"
        self.config_quotas = self.config + "quotas/"
        self.bridges = self.root + "bridges/"
        """Who runs which of them."""
        self.managed = self.root + "managed/"
        self.possession = self.root + "possession"
        """Whose cluster this is: the StompBroker whose operator writes below the prefix."""
        self.rebalance = self.root + "rebalance"
        """Whether copies move only to make loads even, and how many at once (planning/view.py)."""
        self.restored = self.root + "restored"
        """Which backup this cluster began with (`stampede cluster restore`)."""
        self.subscriptions = self.root + "subs/"
        self.turns = self.root + "turns/"

    def slot(self, slot: int) -> str:
        return f"{self.slots}{slot}"

    def throw(self, slot: int) -> str:
        return f"{self.throws}{slot}"

    def member(self, kind: str, name: str) -> str:
        """kind: "owner" or "edge"."""
        return (self.owners if kind == "owner" else self.edges) + escape(name)

    def disk(self, owner: str) -> str:
        return self.disks + escape(owner)

    def cordon(self, owner: str) -> str:
        return self.cordons + escape(owner)

    def suspicion(self, suspect: str, reporter: str) -> str:
        return f"{self.suspects}{escape(suspect)}/{escape(reporter)}"

    def suspicion_of(self, key: str) -> tuple[str, str]:
        """(suspect, reporter) of such a key. Raises ValueError for another one."""
        suspect, slash, reporter = key.removeprefix(self.suspects).partition("/")
        if not slash:
            raise ValueError(f"{key} is not a suspicion")
        return unquote(suspect), unquote(reporter)

    def applied_by(self, member: str) -> str:
        return self.applied + escape(member)

    def load_of(self, edge: str) -> str:
        return self.loads + escape(edge)

    def setting(self, match: str) -> str:
        return self.config_settings + escape(match)

    def address(self, name: str) -> str:
        return self.config_addresses + escape(name)

    def user(self, name: str) -> str:
        return self.config_users + escape(name)

    def queue(self, name: str) -> str:
        return self.config_queues + escape(name)

    def divert(self, name: str) -> str:
        return self.config_diverts + escape(name)

    def permission(self, match: str) -> str:
        return self.config_permissions + escape(match)

    def quota(self, who: str) -> str:
        return self.config_quotas + escape(who)

    def bridge(self, name: str) -> str:
        return self.config_bridges + escape(name)

    def bridge_run(self, name: str) -> str:
        """Who runs it, on the lease of his registration."""
        return self.bridges + escape(name)

    def token(self, name: str) -> str:
        return self.config_tokens + escape(name)

    def turn(self, part: str) -> str:
        """Written with each change of that part of the configuration which depends on its other entries."""
        return self.turns + part

    def marker(self, key: str) -> str:
        """Whose a key of `config` is (docs/adr/0006-kubernetes.md). Owners and edges do not look at it."""
        return self.managed + key.removeprefix(self.config)

    def subscription(self, name: str) -> str:
        return self.subscriptions + escape(name)
