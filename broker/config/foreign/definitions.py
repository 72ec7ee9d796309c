"""From RabbitMQ's exported definitions (`rabbitmqctl export_definitions`) to our settings, and to notes.

    queues, their arguments, policies   engine.queues, engine.addresses      bindings    engine.diverts
    exchanges                           edge.exchanges                       vhosts      edge.virtual_hosts

Rule: pure, bytes in, settings and notes out. Nothing is dropped in silence, and what nobody may do without a look comes
first: users, permissions, what moves messages to other brokers. Hashes of passcodes are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

import msgspec

from broker.core.errors import ConfigError
from broker.core.strict_numbers import age_ms
from broker.core.virtual_host import HOST, NAME

from ..artemis.importing import Imported, Note
from ..load import checked_entry
from ..permissions import EVERYBODY, groups_of
from .patterns import TooMuchError, Trial
from .queue_types import lacks

MAX_BYTES = 64 << 20
Item = Mapping[str, Any]
_EVERYTHING = ".*"
_SECTIONS = ("vhosts", "queues", "exchanges", "bindings", "policies", "users", "permissions", "topic_permissions",
             "parameters", "global_parameters", "operator_policies")  # fmt: skip
_PREDECLARED = ("", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.trace")
_AMQ = {"amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers", "amq.match": "headers"}
_ARGUMENTS = {
    "message-ttl": "expiry_delay_ms", "max-length": "ring_size", "max-length-bytes": "ring_bytes",
    "single-active-consumer": "exclusive",
}  # fmt: skip
"""Of a queue or policy, without the `x-` → setting of the address; _values() has those that are more than one."""
_LENGTHS = {"max-length": "max_size_messages", "max-length-bytes": "max_size_bytes"}
"""The same where what does not fit is refused."""
_BY_HAND = 'write it as settings of addresses, [engine.addresses."…"]'
_NEEDLESS = {
    "queue-type": "there is one type of queue, and all are replicated",
    "queue-mode": "long queues go to disk as they are",
    "max-priority": "all queues have priorities 0 to 9", "queue-version": "there is one",
    "ha-mode": "all queues are replicated (cluster.replicas)", "ha-params": "all queues are replicated",
    "ha-sync-mode": "replicas are in sync before a receipt",
    "queue-master-locator": "leaders are spread by the cluster",
    "queue-leader-locator": "leaders are spread by the cluster", "delivery-limit": "",
    "initial-cluster-size": "replicas are those of all queues", "stream-filter-size-bytes": "filters are exact",
    "stream-max-segment-size-bytes": "what is kept goes message by message",
}  # fmt: skip
_APPLIED_TO = {"all": "", "queues": "", "classic_queues": "classic", "quorum_queues": "quorum", "streams": "stream"}
"""`apply-to` of a policy → x-queue-type of what it is about; "": any."""
_AGAIN = (
    "of a durable subscription over STOMP: its client's SUBSCRIBE makes it again. Have it come before the senders do: "
    "what they send before is not for it"
)


def _subscription(queue: str) -> bool:
    """Has RabbitMQ's plug-in called it so?"""
    return queue.startswith("stomp-subscription-")


_Row = TypedDict("_Row", {
    "name": str, "vhost": str, "user": str, "configure": str, "write": str, "read": str, "component": str,
    "type": str, "arguments": dict[str, Any] | None, "definition": dict[str, Any] | None, "priority": int | None,
    "pattern": str, "apply-to": str, "source": str, "destination": str, "destination_type": str, "routing_key": str,
}, total=False)  # fmt: skip
"""What is looked at of an entry of a section, so far as one reads it without asking what it is."""


def convert(data: bytes) -> Imported:
    """The settings that do what this file does. Raises ConfigError when it is no export of definitions."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"The file has {len(data)} bytes; at most {MAX_BYTES} are read.")
    try:
        tree = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The file is not JSON: {error}.") from None
    except RecursionError:
        raise ConfigError("The file is nested too deep.") from None
    if not any(key in tree for key in ("queues", "exchanges", "bindings", "vhosts", "rabbit_version")):
        raise ConfigError("The file is JSON, but no definitions of RabbitMQ: it has neither queues nor exchanges.")
    for section in _SECTIONS:
        try:
            msgspec.convert(tree.get(section) or [], list[_Row])
        except msgspec.ValidationError as error:
            raise ConfigError(f"The file's {section} are not as RabbitMQ exports them: {error}.") from None
    return _Definitions(tree).convert()


class _Definitions:
    """One file."""

    def __init__(self, tree: Item) -> None:
        self._tree = tree
        self._version = str(tree.get("rabbit_version") or tree.get("rabbitmq_version") or "")
        self._found = Imported(values={"edge.dialect": "rabbitmq"})
        self._hosts: dict[str, str] = {"/": ""}
        """Virtual host of the file → what stands in front of its names here."""
        self._queues: dict[str, Item] = {}
        """By their names here."""
        self._kinds: dict[tuple[str, str], str] = {}
        """(virtual host, exchange) → its type, of those that the file names."""

    def convert(self) -> Imported:
        self._people()
        self._moves()
        self._virtual_hosts()
        self._all_exchanges()
        self._all_queues()
        self._bindings()
        for key in self._tree.keys() - set(_SECTIONS):
            if key not in ("rabbit_version", "rabbitmq_version", "product_name", "product_version",
                           "rabbitmq_definition_format", "explanation", "vhost_limits"):  # fmt: skip
                self._note(key, "unknown to this importer")
        return self._found

    def _note(self, what: str, why: str) -> None:
        self._found.notes.append(Note(0, what[:200], why))

    def _items(self, section: str) -> Iterator[Item]:
        for item in self._tree.get(section) or ():
            if isinstance(item, dict):
                yield item

    # ── who ────────────────────────────────────────────────────────────────────────────────────────

    def _people(self) -> None:
        names = [str(user.get("name", "")) for user in self._items("users")]
        if names:
            self._note(
                "users", "passcodes are hashed in another way: make each with `stampede user add NAME --group NAME` "
                f"(in a virtual host '$host/HOST.NAME'): {', '.join(sorted(names))[:500]}",
            )  # fmt: skip
        for row in self._items("permissions"):
            self._permission(row)
        if self._tree.get("topic_permissions"):
            self._note("topic_permissions", "write them as entries of edge.permissions, by address")

    def _permission(self, row: Item) -> None:
        """Who may do everything in a virtual host; regular expressions are for people to look at."""
        user, host = str(row.get("user", "")), str(row.get("vhost", "/"))
        wishes = {each: str(row.get(each, "")) for each in ("configure", "write", "read")}
        prefix = self._host(host)
        if prefix is None or not user:
            return
        if user == EVERYBODY or groups_of(user) != {user}:
            self._note(
                f"permissions of {user!r} in {host!r}",
                "no group can be called that: it would be somebody else, or everybody. Nobody has them until you write "
                "entries of edge.permissions",
            )
            return
        entry = self._found.entry("edge.permissions", f"{prefix}#")
        for kind, fields in (
            ("write", ("send",)), ("read", ("consume", "browse")),
            ("configure", ("create_address", "create_durable_queue", "create_non_durable_queue",
                           "delete_durable_queue")),
        ):  # fmt: skip
            if wishes[kind] == _EVERYTHING:
                for each in fields:
                    entry[each] = ",".join(filter(None, (entry.get(each, ""), user)))
            elif wishes[kind] not in ("", "^$"):
                self._note(
                    f"{kind} of {user!r} in {host!r}",
                    f"{wishes[kind]!r} is a regular expression: write an entry of edge.permissions for the addresses; "
                    "until then the user may not",
                )

    def _moves(self) -> None:
        for row in self._items("parameters"):
            kind, name = str(row.get("component", "")), str(row.get("name", ""))
            if kind == "shovel":
                self._note(f"shovel {name!r}", "write it as a bridge (docs/bridges.md): [bridges.NAME]")
            elif kind.startswith("federation"):
                self._note(f"{kind} {name!r}", "write it as bridges (docs/bridges.md); both ways with max_hops = 1")
            elif kind != "vhost-limits":
                self._note(f"parameter {kind} {name!r}", "nothing here reads it")
        for row in self._items("operator_policies"):
            self._note(f"operator policy {row.get('name', '')!r}", "write it as settings of addresses")

    # ── where ──────────────────────────────────────────────────────────────────────────────────────

    def _host(self, name: str) -> str | None:
        """In front of the names of that virtual host; None: it cannot be here."""
        if name in self._hosts:
            return self._hosts[name]
        ours = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:40]
        if not NAME.fullmatch(ours) or f"{HOST}{ours}." in self._hosts.values():
            self._note(f"vhost {name!r}", "its name has no counterpart; what is in it was left out")
            return None
        self._hosts[name] = f"{HOST}{ours}."
        table = self._found.entry("edge.virtual_hosts", ours)
        if ours != name:
            table["names"] = name
        return self._hosts[name]

    def _virtual_hosts(self) -> None:
        for each in self._items("vhosts"):
            self._host(str(each.get("name", "/")))
        for row in self._items("parameters"):
            if row.get("component") == "vhost-limits" and isinstance(row.get("value"), dict):
                host = str(row.get("vhost", "/"))
                most = row["value"].get("max-connections")
                if isinstance(most, int) and most > 0 and (prefix := self._host(host)):
                    self._found.entry("edge.virtual_hosts", prefix[len(HOST) : -1])["max_connections"] = most
                if "max-queues" in row["value"] or (isinstance(most, int) and host == "/"):
                    self._note(f"limits of vhost {host!r}", "see edge.max_connections and engine.max_queues")
        if len(self._hosts) > 1:
            self._found.values["edge.unknown_hosts"] = "refuse"

    # ── exchanges, queues ──────────────────────────────────────────────────────────────────────────

    def _all_exchanges(self) -> None:
        for exchange in self._items("exchanges"):
            name, host, kind = str(exchange.get("name", "")), str(exchange.get("vhost", "/")), str(exchange.get("type"))
            self._kinds[host, name] = kind
            if name in _PREDECLARED:
                continue
            if kind not in ("direct", "fanout", "topic", "headers"):
                self._note(f"exchange {name!r}", f"there are no exchanges of the type {kind!r}")
                continue
            known = self._found.tables.get("edge.exchanges", {}).get(name)
            if known is not None and known["type"] != kind:
                self._note(f"exchange {name!r} of vhost {host!r}", f"one of that name is {known['type']} in another")
                continue
            self._found.entry("edge.exchanges", name)["type"] = kind
            if exchange.get("internal"):
                self._note(f"exchange {name!r}", "internal: clients may send to it here, unless permissions forbid it")
            if (exchange.get("arguments") or {}).get("alternate-exchange"):
                self._note(f"alternate-exchange of {name!r}", "see send_to_dla_on_no_route of its addresses")

    def _all_queues(self) -> None:
        policies = sorted(self._items("policies"), key=lambda each: each.get("priority") or 0, reverse=True)
        by_name = self._policies(policies)
        for queue in self._items("queues"):
            name, host = str(queue.get("name", "")), str(queue.get("vhost", "/"))
            prefix = self._host(host)
            if prefix is not None and name:
                policy = by_name.get((host, name), {})
                self._queue(prefix + name, queue, policy.get("definition") or {}, host)

    def _policies(self, policies: list[Item]) -> dict[tuple[str, str], Item]:
        """(virtual host, queue) → the first that fits. Each is tried on the names that none before it has taken."""
        free: dict[str, dict[str, str]] = {}
        for queue in self._items("queues"):
            kind = str((queue.get("arguments") or {}).get("x-queue-type", "classic"))
            free.setdefault(str(queue.get("vhost", "/")), {})[str(queue.get("name", ""))] = kind
        found: dict[tuple[str, str], Item] = {}
        trial = Trial()
        for policy in policies:
            host, pattern = str(policy.get("vhost", "/")), str(policy.get("pattern", ""))
            what = f"policy {policy.get('name', '')!r} ({pattern!r})"
            to = policy.get("apply-to") or "all"
            if to not in _APPLIED_TO:
                self._note(what, f"it applies to {to}: {_BY_HAND}")
                continue
            names, only = free.get(host, {}), _APPLIED_TO[to]
            said = policy.get("definition") or {}
            lacking = {kind: sorted(said.keys() & lacks(kind, self._version)) for kind in {*names.values()}}
            for kind, keys in sorted(lacking.items()):
                if keys and only in ("", kind):
                    self._note(
                        what, f"not of {kind} queues: as at RabbitMQ it is left out whole there, for {', '.join(keys)}"
                    )
            fits = [name for name in names if only in ("", names[name]) and not lacking[names[name]]]
            try:
                taken = trial.pattern(pattern, fits)
            except TooMuchError as why:
                self._note(what, f"its pattern was not tried, {why}: {_BY_HAND}")
                continue
            if not taken:
                self._note(what, f"no queue of the file is named so, or another policy goes before it: {_BY_HAND}")
            for name in taken:
                found[host, name] = policy
                del names[name]
        return found

    def _queue(self, address: str, queue: Item, policy: Item, host: str) -> None:
        given = {str(key).removeprefix("x-"): value for key, value in (queue.get("arguments") or {}).items()}
        if _subscription(str(queue.get("name", ""))):
            self._note(f"queue {address!r}", _AGAIN)
            return
        if queue.get("auto_delete") or queue.get("durable") is False:
            self._note(f"queue {address!r}", "it goes with its consumers: clients make it when they come")
            return
        kind = str(given.get("queue-type", "classic"))
        values = self._values(address, self._said(address, given, policy, kind), host)
        if kind == "stream":
            values["non_destructive"] = True
            if not values.keys() & {"expiry_delay_ms", "ring_size", "ring_bytes"}:
                self._note(f"queue {address!r}", "a stream without a bound grows for ever: give it expiry_delay_ms")
        try:
            checked_entry("engine.queues", address, {"address": address}, "the file")
            if values:
                values = checked_entry("engine.addresses", address, values, "the file")
        except ConfigError as error:
            self._note(f"queue {address!r}", str(error))
            return
        if "auto_delete_delay_ms" in values:
            # One that the settings name is there for good.
            after = values["auto_delete_delay_ms"]
            self._note(
                f"expires of {address!r}",
                f"clients make it when they come; it goes, with its messages, after {after} ms without a consumer",
            )
        else:
            self._found.entry("engine.queues", address)["address"] = address
        if values:
            self._found.entry("engine.addresses", address).update(values)

    def _said(self, address: str, given: Item, policy: Item, kind: str) -> Item:
        """Arguments and policy together, without what RabbitMQ does not do for such a queue either: done here, it would
        have messages go that stay there. Of a stream the policy goes before the argument."""
        said = {**given, **policy} if kind == "stream" else {**policy, **given}
        for name in sorted(said.keys() & lacks(kind, self._version)):
            why = f"no {kind} queue has it at RabbitMQ, so nothing was set: {said.pop(name)!r:.50}"
            self._note(f"{name} of {address!r}", why)
        return said

    def _values(self, address: str, given: Item, host: str) -> dict[str, Any]:
        """Settings of the address that do what arguments and policy say."""
        found: dict[str, Any] = {}
        overflow = str(given.get("overflow", "drop-head"))
        refuses = overflow != "drop-head"
        policy = "DEAD_LETTER" if overflow == "reject-publish-dlx" else "FAIL"
        for name, value in given.items():
            if name in _LENGTHS and refuses:
                found |= {_LENGTHS[name]: value, "full_policy": policy}
            elif name == "expires":
                found |= {"auto_delete": True, "auto_delete_delay_ms": value, "auto_delete_message_count": -1}
            elif name in _ARGUMENTS:
                found[_ARGUMENTS[name]] = value
            elif name == "max-age" and (age := age_ms(str(value))) is not None:
                found["expiry_delay_ms"] = age
            elif name == "delivery-limit":
                found["max_delivery_attempts"] = value + 1 if isinstance(value, int) else value
            elif name == "dead-letter-exchange":
                found["dead_letter_address"] = self._letters(
                    str(value), str(given.get("dead-letter-routing-key", "")), host, address
                )
                if not refuses and given.keys() & _LENGTHS.keys():
                    found["ring_dead_letters"] = True
            elif name in _NEEDLESS:
                continue
            elif name not in ("overflow", "dead-letter-routing-key"):
                self._note(f"x-{name} of {address!r}", "it has no counterpart here")
        return found

    def _letters(self, exchange: str, key: str, host: str, address: str) -> str:
        prefix = self._hosts.get(host) or ""
        if not exchange:
            return prefix + (key or address.removeprefix(prefix))
        return self._place(exchange, key or address.removeprefix(prefix), host)

    def _place(self, exchange: str, key: str, host: str) -> str:
        """The address that an exchange and a key are here."""
        prefix, kind = self._hosts.get(host) or "", self._kind(host, exchange)
        if exchange == "amq.topic":
            return prefix + key
        name = "".join(f"%{ord(char):02X}" if char in "./%" else char for char in exchange)
        root = f"{prefix.rstrip('.')}$exchange/{name}"
        return root if kind in ("fanout", "headers") else f"{root}.{key}" if kind == "topic" else f"{root}/{key}"

    def _kind(self, host: str, exchange: str) -> str:
        return self._kinds.get((host, exchange)) or _AMQ.get(exchange, "direct")

    # ── bindings ───────────────────────────────────────────────────────────────────────────────────

    def _bindings(self) -> None:
        for binding in self._items("bindings"):
            source, target = str(binding.get("source", "")), str(binding.get("destination", ""))
            host, key = str(binding.get("vhost", "/")), str(binding.get("routing_key", ""))
            prefix = self._hosts.get(host)
            if not source or prefix is None:
                continue
            told = f"binding of {source!r} ({key!r}) to {target!r}"
            if binding.get("destination_type") == "queue" and _subscription(target):
                continue  # told with the queue
            if binding.get("destination_type") != "queue":
                self._note(told, "from exchange to exchange: bind the queues, or write a divert")
            elif self._kind(host, source) == "headers":
                self._note(
                    told,
                    "write a divert with a selector for its arguments (docs/compatibility-rabbitmq.md)",
                )
            elif any(mark in key.split(".") for mark in "*#") and self._kind(host, source) == "topic":
                self._note(told, "a pattern: have its consumer subscribe there, with durable:true and x-queue-name")
            elif prefix + target not in self._found.tables.get("engine.queues", {}):
                self._note(told, "its queue was left out")
            else:
                self._divert(self._place(source, key, host), prefix + target, told)

    def _divert(self, address: str, queue: str, told: str) -> None:
        if address == queue:
            return
        diverts = self._found.tables.setdefault("engine.diverts", {})
        name = f"binding-{len(diverts) + 1}"
        values = {"address": address, "forward": queue, "routing": "ANYCAST"}
        try:
            diverts[name] = checked_entry("engine.diverts", name, values, "the file")
        except ConfigError as error:
            self._note(told, str(error))
