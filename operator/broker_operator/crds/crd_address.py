"""The schema of Address: one address, or settings of all addresses that match a pattern.

Rule: no defaults for settings, because what is not said comes from patterns and the broker. What `broker.config.checks`
refuses in a file is refused here at admission.
"""

from __future__ import annotations

from ..spec.schema import Schema, entry_properties, strings, table, text, word
from .rules import Rule, fixed, ruled

MAX_QUEUES = 64
MAX_DIVERTS = 16


def broker_ref() -> Schema:
    name = text("Name of the StompBroker in this namespace.", most=40, default="stomp")
    reference = table("The broker this belongs to.", {"name": name}, default={"name": "stomp"})
    return fixed(reference, "spec.brokerRef", "make a new resource for another broker.")


def _settings() -> Schema:
    properties = entry_properties("engine.addresses")
    properties["routingTypes"] = strings(
        "Routing types this address has. Default: whatever is asked for.", items=2, words=("ANYCAST", "MULTICAST")
    )
    return ruled(
        table("What the address does. What is not said comes from patterns and the broker.", properties),
        Rule(
            "!has(self.maxDeliveryAttempts) || self.maxDeliveryAttempts != 0",
            "maxDeliveryAttempts is 0, so nothing would be delivered; -1 means no limit.",
        ),
        Rule(
            "!has(self.maxRedeliveryDelayMs) || self.maxRedeliveryDelayMs == 0 || !has(self.redeliveryDelayMs) || "
            "self.maxRedeliveryDelayMs >= self.redeliveryDelayMs",
            "maxRedeliveryDelayMs is below redeliveryDelayMs; raise it, or set it to 0 for 10 times the delay.",
        ),
        Rule(
            "!has(self.minExpiryDelayMs) || !has(self.maxExpiryDelayMs) || self.maxExpiryDelayMs < 0 || "
            "self.minExpiryDelayMs <= self.maxExpiryDelayMs",
            "minExpiryDelayMs is above maxExpiryDelayMs; lower it.",
        ),
        Rule(
            "!has(self.noExpiry) || !self.noExpiry || ((!has(self.expiryDelayMs) || self.expiryDelayMs < 0) && "
            "(!has(self.maxExpiryDelayMs) || self.maxExpiryDelayMs < 0))",
            "noExpiry is true, so expiryDelayMs and maxExpiryDelayMs would do nothing; take them out.",
        ),
        Rule(
            "!has(self.lastValueKey) || self.lastValueKey == '' || !has(self.lastValue) || self.lastValue",
            "lastValueKey turns lastValue on, but lastValue is false; take one of them out.",
        ),
        Rule(
            "!has(self.rejectThresholdBytes) || self.rejectThresholdBytes == -1 || "
            "(has(self.fullPolicy) && self.fullPolicy == 'BLOCK')",
            "rejectThresholdBytes needs fullPolicy BLOCK.",
        ),
        Rule(
            "(!has(self.pageLimitBytes) && !has(self.pageLimitMessages)) || !has(self.fullPolicy) || "
            "self.fullPolicy == 'PAGE'",
            "pageLimitBytes and pageLimitMessages need fullPolicy PAGE.",
        ),
        Rule(
            "!has(self.fullPolicy) || self.fullPolicy == 'PAGE' || has(self.maxSizeBytes) || has(self.maxSizeMessages)",
            "fullPolicy has no effect without maxSizeBytes or maxSizeMessages; set one of them.",
        ),
        _REBALANCE,
        _MAX_CONSUMERS,
        Rule(
            "!has(self.defaultRouting) || !has(self.routingTypes) || size(self.routingTypes) == 0 || "
            "self.defaultRouting in self.routingTypes",
            "defaultRouting is not among routingTypes; add it there.",
        ),
    )


_REBALANCE = Rule(
    "!has(self.groupRebalancePause) || !self.groupRebalancePause || (has(self.groupRebalance) && self.groupRebalance)",
    "groupRebalancePause needs groupRebalance: true.",
)
_MAX_CONSUMERS = Rule(
    "!has(self.maxConsumers) || self.maxConsumers != 0",
    "maxConsumers is 0, so nobody could consume; -1 means no limit.",
)


def _queues() -> Schema:
    properties = entry_properties("engine.queues", ("address",))
    properties["name"] = text("Name of the queue; its address is that of the resource.")
    queue = ruled(
        table("A queue that exists from the start. What is not said is its address's.", properties, ["name"]),
        Rule(
            "!has(self.routing) || self.routing != 'MULTICAST' || self.name.contains('.')",
            "a MULTICAST queue is a durable subscription; name it CLIENT-ID.NAME.",
        ),
        _REBALANCE,
        _MAX_CONSUMERS,
        Rule(
            "!has(self.delayBeforeDispatchMs) || self.delayBeforeDispatchMs < 0 || "
            "(has(self.consumersBeforeDispatch) && self.consumersBeforeDispatch > 0)",
            "delayBeforeDispatchMs needs consumersBeforeDispatch.",
        ),
    )
    return _named_list(queue, MAX_QUEUES, "Queues that exist from the start.")


def _diverts() -> Schema:
    properties = entry_properties("engine.diverts", ("address",))
    properties["name"] = text("Name of the divert, unique in the broker.")
    properties["forward"] = {**properties["forward"], "minItems": 1, "maxItems": 16}
    divert = table("Messages sent to the address go to others as well, or instead.", properties, ["name", "forward"])
    return _named_list(divert, MAX_DIVERTS, "Copies or detours of what is sent to the address.")


def _named_list(item: Schema, most: int, description: str) -> Schema:
    return {
        "type": "array",
        "description": description,
        "maxItems": most,
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }


def spec() -> Schema:
    name = ruled(
        text("Name of the address, as in SEND. Exactly one of name and match."),
        Rule("!self.contains('*') && !self.contains('#')", "spec.name has a wildcard; use spec.match for a pattern."),
        Rule(
            "!self.startsWith('$') || self.matches('^[$]host/[A-Za-z0-9_-]{1,40}[.][^.]')",
            "spec.name begins with $, which is the broker's own; choose another name. In a virtual host it is "
            "$host/NAME.ADDRESS.",
        ),
    )
    match = ruled(
        text("Pattern of the addresses that get these settings: `*` is one word, `#` the rest."),
        Rule(
            "self.split('.').all(w, w == '*' || w == '#' || !(w.contains('*') || w.contains('#')))",
            "in spec.match, * and # stand for whole words, as in orders.#",
        ),
        Rule("!self.contains('#.')", "in spec.match, # comes last, as in orders.#"),
        Rule("self.split('.').all(w, size(w) > 0)", "spec.match has an empty word; take out the extra dot."),
    )
    policy = word(
        "What becomes of the configuration when this resource is deleted: Delete removes it, Retain leaves it in "
        "force. Messages are never deleted.",
        ("Delete", "Retain"),
        "Delete",
    )
    properties = {
        "brokerRef": broker_ref(),
        "name": name,
        "match": match,
        "settings": _settings(),
        "queues": _queues(),
        "diverts": _diverts(),
        "permissions": table(
            "Groups of users who may do what there; `*` is every user. Given at all, it decides alone: what it does not"
            " say is for nobody.",
            entry_properties("edge.permissions"),
        ),
        "deletionPolicy": policy,
    }
    return ruled(table("What the address is.", properties), *_SPEC_RULES)


_SPEC_RULES = (
    Rule("has(self.name) != has(self.match)", "give either spec.name (one address) or spec.match (a pattern)."),
    Rule(
        "(has(self.name) ? self.name : '') == (has(oldSelf.name) ? oldSelf.name : '')",
        "spec.name cannot be changed; make a new Address and delete this one when it is empty.",
    ),
    Rule(
        "(has(self.match) ? self.match : '') == (has(oldSelf.match) ? oldSelf.match : '')",
        "spec.match cannot be changed; make a new Address.",
    ),
    Rule("has(self.name) || !has(self.queues) || size(self.queues) == 0", "spec.queues needs spec.name."),
    Rule(
        "has(self.name) || !has(self.diverts) || size(self.diverts) == 0",
        "spec.diverts needs spec.name.",
    ),
    Rule(
        "!(has(oldSelf.settings) && has(oldSelf.settings.partitions)) || (has(self.settings) && "
        "has(self.settings.partitions) && self.settings.partitions >= oldSelf.settings.partitions)",
        "spec.settings.partitions may only grow; of fewer partitions, the last would keep their messages.",
    ),
    Rule(
        "has(self.name) || !has(self.settings) || !has(self.settings.declared)",
        "spec.settings.declared needs spec.name: a pattern is no address.",
    ),
    Rule(
        "!has(self.name) || !has(self.settings) || !has(self.settings.deadLetterAddress) || "
        "self.settings.deadLetterAddress != self.name",
        "spec.settings.deadLetterAddress is the address itself; name another one, or '' to drop.",
    ),
    Rule(
        "!has(self.name) || !has(self.settings) || !has(self.settings.expiryAddress) || "
        "self.settings.expiryAddress != self.name",
        "spec.settings.expiryAddress is the address itself; name another one, or '' to drop.",
    ),
    Rule(
        "!has(self.queues) || !has(self.settings) || !has(self.settings.routingTypes) || "
        "size(self.settings.routingTypes) == 0 || "
        "self.queues.all(q, (has(q.routing) ? q.routing : 'ANYCAST') in self.settings.routingTypes)",
        "a queue's routing is not among spec.settings.routingTypes; add it there.",
    ),
    Rule(
        "!has(self.name) || !has(self.diverts) || self.diverts.all(d, d.forward.all(f, f != self.name))",
        "a divert forwards to its own address; name another one in spec.diverts[].forward.",
    ),
)

COLUMNS = (
    ("Address", "string", ".status.address", 0),
    ("Partitions", "integer", ".spec.settings.partitions", 1),
    ("Depth", "integer", ".status.depth", 0),
    ("Consumers", "integer", ".status.consumers", 0),
    ("In/s", "integer", ".status.inPerSecond", 0),
    ("Out/s", "integer", ".status.outPerSecond", 1),
    ("Dead", "integer", ".status.deadLettered", 0),
    ("Queues", "integer", ".status.queues", 1),
    ("DLQ", "string", ".spec.settings.deadLetterAddress", 1),
    ("Broker", "string", ".spec.brokerRef.name", 1),
    ("Revision", "integer", ".status.etcdRevision", 1),
    ("Blocked", "boolean", ".status.blocked", 1),
    ("Changed", "date", ".status.lastChange", 1),
    ("Programmed", "string", '.status.conditions[?(@.type=="Programmed")].status', 1),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
)


def status() -> dict[str, Schema]:
    return {
        "address": {"type": "string", "description": "The address or pattern."},
        "queues": {"type": "integer", "format": "int32", "description": "How many queues it declares."},
        "adopted": {"type": "boolean", "description": "Its keys had been set by hand before."},
        "etcdRevision": {"type": "integer", "format": "int64", "description": "Of the last change of its keys."},
        "depth": _number(
            "Messages in all its queues: waiting, being consumed and not due yet. Coarse, like all of these."
        ),
        "consumers": _number("Of all its queues."),
        "inPerSecond": _number("Messages a second that came into its queues; of a topic one for each subscription."),
        "outPerSecond": _number("Messages a second that left its queues: consumed, expired, moved."),
        "deadLettered": _number("At least so many of its messages became dead letters. It only grows."),
        "blocked": {"type": "boolean", "description": "It is full, and whoever sends to it waits (fullPolicy BLOCK)."},
        "lastChange": {
            "type": "string",
            "format": "date-time",
            "description": "When these numbers were last written anew.",
        },
    }


def _number(description: str) -> Schema:
    return {"type": "integer", "format": "int64", "description": description}
