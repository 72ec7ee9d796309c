"""From ActiveMQ Classic's activemq.xml to our settings, and to notes about what could not be carried over.

Queues and topics of one name are one address here: where the policies of both say different things, that of queues
counts, and a note says so.

Rule: as the importer of broker.xml: an element or attribute is carried over or has a note with its line. What decides
who may do what, and what leaves this broker, comes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlsplit

from broker.core.errors import ConfigError
from broker.core.strict_numbers import integer, natural

from ..artemis.importing import ACCEPTORS, ADDRESSES, DIVERTS, PERMISSIONS, QUEUES, Imported, around, close
from ..artemis.xml_tree import Element
from ..load import checked_entry, entry_table

FIRST = ("simpleAuthenticationPlugin", "jaasAuthenticationPlugin", "jaasCertificateAuthenticationPlugin",
         "authorizationPlugin", "networkConnectors", "jmsBridgeConnectors")  # fmt: skip
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_PLAIN = ("stomp", "stomp+nio", "auto", "auto+nio")
_SECURE = ("stomp+ssl", "stomp+nio+ssl", "auto+ssl", "auto+nio+ssl")
_WITHOUT: Mapping[str, str] = {
    "networkConnectors": "a cluster is one broker; to other brokers write bridges (docs/bridges.md)",
    "jmsBridgeConnectors": "write bridges over STOMP (docs/bridges.md)",
    "managementContext": "there is no JMX: /metrics, the API and the console (docs/admin-api.md)",
    "persistenceAdapter": "there is one journal, in the folder `data`",
    "persistenceFactory": "there is one journal, in the folder `data`",
    "jobSchedulerStore": "schedules are in the journal",
    "sslContext": "key stores are Java's: convert them to PEM (docs/importing.md) and name tls_cert_file, tls_key_file",
    "shutdownHooks": "nothing here reads it", "services": "nothing here reads it",
    "ioExceptionHandler": "the broker stops",
    "tempDataStore": "there is one folder: `data`", "destinationFactory": "nothing here reads it",
    "simpleAuthenticationPlugin": "make each user with `stampede user add NAME --group GROUP`: {users}",
    "jaasAuthenticationPlugin": "make each user with `stampede user add NAME --group GROUP`",
    "jaasCertificateAuthenticationPlugin": "make each user with `stampede user add NAME --group GROUP`",
    "statisticsBrokerPlugin": "",
    "timeStampingBrokerPlugin": "see min_expiry_delay_ms, max_expiry_delay_ms and ingress_timestamp of addresses",
    "loggingBrokerPlugin": "see log.level", "forcePersistencyModeBrokerPlugin": "senders say persistent:true",
    "discardingDLQBrokerPlugin": "set dead_letter_address to \"\" for these addresses",
    "redeliveryPlugin": "see max_delivery_attempts and redelivery_delay_ms",
}  # fmt: skip
_POLICY: Mapping[str, str] = {
    "memoryLimit": "max_size_bytes", "allConsumersExclusiveByDefault": "exclusive",
    "consumersBeforeDispatchStarts": "consumers_before_dispatch",
    "timeBeforeDispatchStarts": "delay_before_dispatch_ms",
    "gcInactiveDestinations": "auto_delete", "inactiveTimoutBeforeGC": "auto_delete_delay_ms",
    "inactiveTimeoutBeforeGC": "auto_delete_delay_ms",
}  # fmt: skip
"""Attribute of a policyEntry → setting of the address."""
_QUEUES_TOO = frozenset({"ring_size", "max_size_bytes", "full_policy", "exclusive", "consumers_before_dispatch",
                         "delay_before_dispatch_ms"})  # fmt: skip
"""What a topic's policy must not do to queues: they would drop or refuse what they keep now."""
_MANY = 1000
"""Messages that are kept for later subscribers at most where Classic's policy bounds them by bytes or time alone: all
are given in one step."""
_RECOVERED = {
    "fixedSizedSubscriptionRecoveryPolicy": ("retroactive_bytes", "maximumSize", "64k"),
    "timedSubscriptionRecoveryPolicy": ("retroactive_ms", "recoverDuration", "60000"),
}
"""Recovery policy → our setting, its attribute and what that is without it."""
_SILENT = ("queue", "topic", "producerFlowControl", "id", "xmlns", "schemaLocation", "advisoryForConsumed")


def broker_of(root: Element) -> Element | None:
    """The <broker> of an activemq.xml; None: it is none."""
    if root.name == "broker":
        return root
    return next((child for child in root if child.name == "broker"), None) if root.name == "beans" else None


def convert(broker: Element) -> Imported:
    """The settings that do what this file does."""
    found = Imported(values={"edge.dialect": "activemq", "engine.address.dead_letter_address": "ActiveMQ.DLQ"})
    for element in broker:
        if (section := _SECTIONS.get(element.name)) is not None:
            section(element, found)
        else:
            found.note(element, _WITHOUT.get(element.name, "unknown to this importer"))
    if topics := ",".join(map(_virtual, _all(broker, "virtualTopic"))):
        for acceptor in found.tables.get(ACCEPTORS, {}).values():
            acceptor["virtual_topic_consumers"] = topics
    if broker.attributes.get("persistent", "true").lower() == "false":
        found.note(broker, "messages with persistent:true are kept here all the same", 'persistent="false"')
    for name in broker.attributes.keys() - {"persistent", "brokerName", "dataDirectory", "useJmx", "schedulerSupport",
                                            "id", "xmlns", "schemaLocation", "start", "useShutdownHook"}:  # fmt: skip
        found.note(broker, "unknown to this importer", f"{name} of <broker>")
    close(found)
    found.notes.sort(key=lambda note: (not note.what.strip("<>").startswith(FIRST), note.line))
    return found


def _size(text: str) -> str:
    match = re.fullmatch(r"\s*(\d+)\s*([kKmMgG]?)[bB]?\s*", text)
    return text if match is None else str(int(match[1]) * _SIZES[match[2].lower()])


def _match(element: Element) -> str:
    """Of which addresses it is, in our wildcards; empty: it does not say."""
    name = (
        element.attributes.get("queue") or element.attributes.get("topic") or element.attributes.get("physicalName", "")
    )
    return "#" if name == ">" else re.sub(r"\.>$", ".#", name)


def _set(found: Imported, table: str, entry: str, values: Mapping[str, object], element: Element) -> None:
    """Adds checked values to an entry; one that differs from what is there, or cannot be, becomes a note."""
    own, where = dict(found.tables.get(table, {}).get(entry, {})), f"line {element.line}"
    if table in (ADDRESSES, PERMISSIONS):
        try:
            checked_entry(table, entry, {}, where)
        except ConfigError as error:
            found.note(element, str(error), f"{element.name} of {entry!r}")
            if table == PERMISSIONS:
                found.closed[around(entry, found.delimiter)] = element
            return
    for name, value in values.items():
        try:
            typed = entry_table(table, entry, {name: value}, where)
        except ConfigError as error:
            found.note(element, str(error), f"{name} of {entry!r}")
            continue
        if own.get(name, typed[name]) != typed[name]:
            found.note(element, f"it is {own[name]} already: queues and topics of one name are one address here",
                       f"{name} of {entry!r}")  # fmt: skip
            continue
        own.update(typed)
    try:
        if table != ACCEPTORS:  # a whole file is checked for these: import_text says what does not go together
            own = checked_entry(table, entry, own, where)
    except ConfigError as error:
        found.note(element, str(error), f"{element.name} of {entry!r}")
        return
    found.entry(table, entry).update(own)


# ── destinations ─────────────────────────────────────────────────────────────────────────────────────


def _policies(section: Element, found: Imported) -> None:
    entries = (
        [entry for one in section for more in one for entry in more] if section.name == "destinationPolicy" else []
    )
    for entry in sorted(entries, key=lambda each: "topic" in each.attributes):
        match = _match(entry)
        if entry.name != "policyEntry" or not match:
            found.note(
                entry,
                "it names neither a queue nor a topic" if entry.name == "policyEntry" else "unknown to this importer",
            )
            continue
        values: dict[str, object] = {
            _POLICY[name]: _size(value) for name, value in entry.attributes.items() if name in _POLICY
        }
        if "max_size_bytes" in values:
            values["full_policy"] = (
                "PAGE" if entry.attributes.get("producerFlowControl", "true") == "false" else "BLOCK"
            )
        for name in entry.attributes.keys() - _POLICY.keys() - set(_SILENT):
            found.note(entry, "it has no counterpart here", f"{name} of policyEntry {match!r}")
        for child in entry:
            values |= _strategy(child, match, found)
        for name in values.keys() & _QUEUES_TOO if "topic" in entry.attributes else ():
            del values[name]
            found.note(entry, "queues of these names would have it as well: set it for addresses that are topics alone",
                       f"{name} of topic {match!r}")  # fmt: skip
        _set(found, ADDRESSES, match, values, entry)


def _strategy(element: Element, match: str, found: Imported) -> dict[str, object]:
    """Settings of what stands in a policyEntry."""
    inner = element.children[0] if element.children else None
    given = inner.attributes if inner is not None else {}
    if inner is None:
        return {}
    if element.name == "deadLetterStrategy":
        if inner.name == "individualDeadLetterStrategy":
            prefix = given.get("queuePrefix", "ActiveMQ.DLQ.Queue.")
            return {"auto_create_dead_letter_resources": True, "dead_letter_queue_prefix": prefix}
        if inner.name == "discarding":
            return {"dead_letter_address": ""}
        letters = inner.child("deadLetterQueue")
        name = next((_match(each) for each in letters), "") if letters is not None else ""
        return {"dead_letter_address": name} if name else {}
    if element.name == "subscriptionRecoveryPolicy":
        if inner.name == "fixedCountSubscriptionRecoveryPolicy":
            return {"retroactive_messages": given.get("maximumSize", "100")}
        if inner.name in _RECOVERED:
            name, attribute, default = _RECOVERED[inner.name]
            found.note(inner, f"of the newest {_MANY}: see retroactive_messages", f"<{inner.name}> of {match!r}")
            return {"retroactive_messages": _MANY, name: _size(given.get(attribute, default))}
        if inner.name == "lastImageSubscriptionRecoveryPolicy":
            return {"retroactive_messages": 1}
        if inner.name == "noSubscriptionRecoveryPolicy":
            return {}
    if element.name == "pendingMessageLimitStrategy" and inner.name == "constantPendingMessageLimitStrategy":
        return {"ring_size": given["limit"]} if given.get("limit", "0") != "0" else {}
    if element.name not in ("pendingQueuePolicy", "pendingSubscriberPolicy", "pendingDurableSubscriberPolicy"):
        found.note(inner, "it has no counterpart here", f"<{inner.name}> of policyEntry {match!r}")
    return {}


def _destinations(section: Element, found: Imported) -> None:
    for element in section:
        name = _match(element)
        if element.name == "queue" and name:
            _set(found, QUEUES, name, {"address": name}, element)
        elif element.name == "topic" and name:
            _set(found, ADDRESSES, name, {"declared": True, "routing_types": "MULTICAST"}, element)
        else:
            found.note(element, "it is neither a queue nor a topic with a physicalName")


def _interceptors(section: Element, found: Imported) -> None:
    for element in (each for one in section for more in one for each in more):
        name = element.attributes.get("name", "")
        if element.name == "virtualTopic":
            continue  # they are settings of the ports
        elif element.name in ("compositeQueue", "compositeTopic") and name:
            _composite(element, name, found)
        else:
            found.note(element, "it has no counterpart here")


def _virtual(element: Element) -> str:
    """As acceptors have it: the queues' pattern, and how many words stand in front of the topic's name."""
    prefix = element.attributes.get("prefix", "Consumer.*.")
    return f"{prefix}{element.attributes.get('name') or 'VirtualTopic.>'};{prefix.count('.')}"


def _composite(element: Element, name: str, found: Imported) -> None:
    exclusive = element.attributes.get("forwardOnly", "true").lower() == "true"
    targets = [each for one in element for each in one]
    for number, target in enumerate(targets, 1):
        inner = target.child("queue") or target.child("topic") if target.name == "filteredDestination" else target
        to = _match(target) or (_match(inner) if inner is not None else "")
        values: dict[str, object] = {"address": name, "forward": to, "exclusive": exclusive}
        values["routing"] = "MULTICAST" if "topic" in target.attributes or target.name == "topic" else "ANYCAST"
        if target.attributes.get("selector"):
            values["selector"] = target.attributes["selector"]
        _set(found, DIVERTS, f"{name}-{number}", values, target)


# ── ports ────────────────────────────────────────────────────────────────────────────────────────────


def _connectors(section: Element, found: Imported) -> None:
    for element in section:
        name, uri = element.attributes.get("name", "stomp"), element.attributes.get("uri", "")
        try:
            url = urlsplit(uri)
            host, port = url.hostname or "", url.port
        except ValueError:
            found.note(element, "its URI cannot be read", f"transportConnector {name!r}")
            continue
        if url.scheme not in (*_PLAIN, *_SECURE, "ws", "wss"):
            found.note(
                element, f"{url.scheme} is not spoken here; its clients need STOMP", f"transportConnector {name!r}"
            )
            continue
        values: dict[str, object] = {"dialect": "activemq", "port": port or 61613}
        if host and host not in ("localhost",):
            values["host"] = host
        if url.scheme in (*_SECURE, "wss"):
            values["tls"] = True
        values["transport"] = "websocket" if url.scheme in ("ws", "wss") else "stomp"
        for key, value in parse_qsl(url.query, keep_blank_values=True):
            ours = _OPTIONS.get(key)
            if key == "needClientAuth" and value == "true":
                values["tls_client_auth"] = "need"
            elif key == "wantClientAuth" and value == "true":
                values["tls_client_auth"] = "want"
            elif ours:
                values[ours] = value
            else:
                found.note(element, "see the settings of an acceptor (docs/acceptors.md)", f"{key} of {name!r}")
        if values.get("heartbeat_to_ttl_modifier") in ("1.0", "1"):
            del values["heartbeat_to_ttl_modifier"]
        _set(found, ACCEPTORS, name, values, element)
    if found.tables.get(ACCEPTORS):
        found.values.update({"edge.port": -1, "edge.ws_port": -1})


_OPTIONS = {
    "maximumConnections": "connections_allowed", "transport.defaultHeartBeat": "default_heartbeat",
    "transport.hbGracePeriodMultiplier": "heartbeat_to_ttl_modifier",
}  # fmt: skip


# ── who, and how much ────────────────────────────────────────────────────────────────────────────────


def _plugins(section: Element, found: Imported) -> None:
    for plugin in section:
        if plugin.name == "authorizationPlugin":
            for entry in _all(plugin, "authorizationEntry"):
                _authorization(entry, found)
            for entry in _all(plugin, "tempDestinationAuthorizationEntry"):
                found.note(entry, "temporary destinations are their connection's; nobody else reads them")
        elif plugin.name == "redeliveryPlugin":
            _redelivery(plugin, found)
        elif (why := _WITHOUT.get(plugin.name, "unknown to this importer")) != "":
            users = ", ".join(
                f"{each.attributes.get('username', '?')} ({each.attributes.get('groups', '')})"
                for each in _all(plugin, "authenticationUser")
            )
            found.note(plugin, why.replace("{users}", users[:500]))


def _all(element: Element, name: str) -> list[Element]:
    """All of that name below it."""
    return [each for child in element for each in ([child] if child.name == name else []) + _all(child, name)]


def _authorization(entry: Element, found: Imported) -> None:
    match = _match(entry)
    if not match:
        found.note(entry, "it names neither a queue nor a topic")
        return
    if match.startswith("ActiveMQ.Advisory"):
        return
    given = entry.attributes
    values: dict[str, object] = {}
    for theirs, ours in (
        ("read", ("consume", "browse", "create_non_durable_queue")), ("write", ("send",)),
        ("admin", ("create_address", "create_durable_queue", "delete_durable_queue", "manage")),
    ):  # fmt: skip
        groups = ",".join(part.strip() for part in given.get(theirs, "").split(",") if part.strip())
        if groups:
            values |= dict.fromkeys(ours, groups)
    _set(found, PERMISSIONS, match, values, entry)


def _redelivery(plugin: Element, found: Imported) -> None:
    for policy in _all(plugin, "redeliveryPolicy"):
        given = policy.attributes
        values: dict[str, object] = {}
        if (most := integer(given.get("maximumRedeliveries", "6"))) is not None:
            values["max_delivery_attempts"] = -1 if most < 0 else most + 1
        values["redelivery_delay_ms"] = given.get("redeliveryDelay", given.get("initialRedeliveryDelay", "1000"))
        if given.get("useExponentialBackOff") == "true":
            values["redelivery_multiplier"] = given.get("backOffMultiplier", "5")
        if given.get("maximumRedeliveryDelay", "-1") != "-1":
            values["max_redelivery_delay_ms"] = given["maximumRedeliveryDelay"]
        _set(found, ADDRESSES, _match(policy) or "#", values, policy)


def _usage(section: Element, found: Imported) -> None:
    for element in _all(section, "memoryUsage"):
        if limit := element.attributes.get("limit"):
            found.values["memory.limit_bytes"] = natural(_size(limit)) or 0
    for name in ("storeUsage", "tempUsage"):
        for element in _all(section, name):
            if element.attributes:
                found.note(element, "the disk is the limit: see journal.min_free_bytes")


_SECTIONS: dict[str, Callable[[Element, Imported], None]] = {
    "destinationPolicy": _policies, "destinations": _destinations, "destinationInterceptors": _interceptors,
    "transportConnectors": _connectors, "plugins": _plugins, "systemUsage": _usage,
}  # fmt: skip
