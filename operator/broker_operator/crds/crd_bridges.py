"""The schema of `bridges` of a StompBroker.

Rule: what is a file in the settings is a key of one Secret here, so that neither the resource nor etcd holds a
passcode.
"""

from __future__ import annotations

from ..spec.bridges import FILES
from ..spec.schema import Schema, entry_properties, table, text
from .rules import Rule, ruled

_KEYS = {
    "passcodeKey": "with the passcode of login there; read at each connecting.",
    "caKey": "with the PEM CAs of the other broker's certificate. Default: the system's.",
    "certKey": "with the PEM client certificate for the other broker.",
    "keyKey": "with the PEM key of that certificate.",
}
_SECURE = "self.url.startsWith('stomp+ssl://') || self.url.startsWith('wss://')"


def fields() -> dict[str, Schema]:
    """Of the spec."""
    return {"bridges": _bridges(), "bridgesSecretName": _secret()}


def _bridges() -> Schema:
    properties = entry_properties("bridges", FILES.values())
    properties["name"] = text("Name of the bridge.", most=40, pattern="^[A-Za-z0-9_-]+$")
    properties["url"] = text(
        "The other broker: stomp://host:61613, stomp+ssl://, ws:// or wss://.", most=512,
        pattern="^(stomp|stomp[+]ssl|ws|wss)://.+$",
    )  # fmt: skip
    for key, what in _KEYS.items():
        properties[key] = text(f"Key of the Secret bridgesSecretName {what}", pattern="^[-._a-zA-Z0-9]+$")
    bridge = ruled(
        table("A bridge.", properties, ["name", "url", "source", "user"]),
        Rule("!self.url.matches('://[^/]*@')", "url of a bridge holds a login; use login and passcodeKey."),
        Rule(
            "has(self.login) == has(self.passcodeKey)",
            "login and passcodeKey of a bridge belong together; set both or none.",
        ),
        Rule(
            "has(self.certKey) == has(self.keyKey)",
            "certKey and keyKey of a bridge belong together; set both or none.",
        ),
        Rule(
            f"(!has(self.caKey) && !has(self.certKey)) || {_SECURE}",
            "caKey and certKey of a bridge are for stomp+ssl:// and wss://; its url has no TLS.",
        ),
        Rule(
            "!has(self.filter) || !has(self.direction) || self.direction != 'in' || !has(self.broker) || "
            "self.broker != 'rabbitmq'",
            "RabbitMQ has no selectors; bind an exchange to what you want, and take filter of the bridge out.",
        ),
        Rule(
            "!self.source.matches('[*#>]') || self.source.startsWith('/topic/') || "
            "self.source.startsWith('/exchange/')",
            "source of a bridge is a wildcard; one bridge moves one queue, or a topic.",
        ),
        Rule(
            "(has(self.retryMaxS) ? self.retryMaxS : 30.0) >= (has(self.retryMinS) ? self.retryMinS : 1.0)",
            "retryMaxS of a bridge is below retryMinS (30 and 1 where nothing is said); raise it.",
        ),
    )
    return {
        "type": "array",
        "description": "What goes to other brokers, or comes from there. A change counts at once.",
        "maxItems": 64,
        "items": bridge,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }


def _secret() -> Schema:
    # A bridge tells its passcode to whom its url names. Whoever may write a StompBroker need not be who may read the
    # Secrets of the namespace, so only one that was made for bridges can be named.
    return text(
        "Secret whose keys the bridges name; its own name ends in -bridges, so that no other one can be sent away. "
        "Edges have it mounted, there or not: naming another one restarts them one by one; what stands in it counts "
        "when the kubelet has renewed the files.",
        pattern="^[a-z0-9.-]+-bridges$",
    )


RULES = (
    Rule(
        "!has(self.bridges) || has(self.bridgesSecretName) || "
        "self.bridges.all(b, !has(b.passcodeKey) && !has(b.caKey) && !has(b.certKey))",
        "spec.bridges name keys of a Secret; say which one in spec.bridgesSecretName.",
    ),
    Rule(
        "!has(self.bridges) || self.bridges.all(b, !has(b.virtualHost) || b.virtualHost == '' || "
        "(has(self.virtualHosts) && self.virtualHosts.exists(h, h.name == b.virtualHost)))",
        "virtualHost of a bridge is none of spec.virtualHosts; write it there, or correct the name.",
    ),
)
"""Of the whole spec."""
