"""The schema of StompBroker: the owners of one cluster, and what all its processes share.

Rule: what would lose messages or cannot be changed later is refused here, with what to do instead.
"""

from __future__ import annotations

from ..spec.schema import Schema, boolean, entry_properties, group_schema, integer, strings, table, text, word
from . import crd_bridges
from .crd_acceptor import workload_properties
from .rules import Rule, fixed, ruled

_OWN_CLUSTER = (
    "id", "zone", "host", "port", "advertise", "ca_file", "cert_file", "key_file", "replicas", "min_in_sync",
)  # fmt: skip


def _storage() -> Schema:
    size = ruled(
        text("Size of each owner's claim.", most=32, default="10Gi"),
        Rule("isQuantity(self)", "size is not a quantity; write it like 10Gi."),
        Rule(
            "!isQuantity(self) || quantity(self).isGreaterThan(quantity('0'))",
            "size is nothing, so no owner could write; write it like 10Gi.",
        ),
        Rule(
            "!isQuantity(self) || !isQuantity(oldSelf) || quantity(self).compareTo(quantity(oldSelf)) >= 0",
            "size may only grow; make a new broker for smaller disks.",
        ),
    )
    properties = {
        "size": size,
        "storageClassName": text(
            "StorageClass. Default: the cluster's. Another one is for disks that are made from then on: the condition "
            "DisksPlaced names those that are of the old one, until they were moved (docs/runbooks/disks.md)."
        ),
        "whenScaled": word(
            "What becomes of the claim of an owner that was removed (it is empty then).", ("Retain", "Delete"), "Retain"
        ),
        "whenDeleted": word(
            "What becomes of the claims when the StompBroker is deleted. Delete: all messages go with it.",
            ("Retain", "Delete"),
            "Retain",
        ),
    }
    return table("Disks of the owners.", properties, default={})


def _owners() -> Schema:
    properties = {
        "replicas": integer("Owners. Slots are moved away before one is removed.", 1, 99, 3),
        "storage": _storage(),
        "rebalance": table(
            "Moves of copies that make loads even, after owners were added. What a loss or a scale-in needs moves "
            "anyway.",
            {
                "mode": word(
                    "Automatic: by themselves. Manual: status.rebalance proposes them, and they begin when the "
                    "annotation stampede.dev/rebalance has the id of the proposal; another one, or none, stops them.",
                    ("Automatic", "Manual"),
                    "Automatic",
                ),
                "movesAtOnce": integer("Copies that are made at once while it is Manual.", 1, 64, 4),
            },
            default={},
        ),
        "maxUnavailable": integer("Owners that may be taken away at once (PodDisruptionBudget).", 1, 10, 1),
        "terminationGracePeriodSeconds": integer("Time to hand slots over at the end.", 10, 3600, 120),
        **workload_properties(),
    }
    del properties["image"]
    return table("The processes that keep messages.", properties, default={})


def _restore_from() -> Schema:
    return table(
        "Owners start when this StompRestore of the same namespace has filled their disks. For a new broker only.",
        {"name": text("Name of the StompRestore.")},
        ["name"],
    )


def _etcd() -> Schema:
    endpoint: Schema = {"type": "string", "maxLength": 253}
    endpoints = ruled(
        {"type": "array", "description": "host:port of each member.", "minItems": 1, "maxItems": 9, "items": endpoint},
        Rule(
            "self.all(e, e.matches('^[^/:,\\\\s]+:[0-9]{1,5}$'))",
            "each of spec.etcd.endpoints is host:port, like etcd-0.etcd:2379.",
        ),
    )
    prefix = fixed(
        text("All keys stand under it. Default: /stampede/NAMESPACE/NAME.", most=200, pattern="^/.*[^/]$"),
        "spec.etcd.prefix",
        "the keys under it say where the messages are.",
    )
    properties = {
        "endpoints": endpoints,
        "prefix": prefix,
        "tlsSecretName": text("Secret with tls.crt, tls.key and ca.crt. Default: plain text."),
        "userSecretName": text("Secret with username and password: of the operator, and of all who have none below."),
        "owners": _etcd_login("Owners"),
        "edges": _etcd_login("Edges"),
        "rootSecretName": text(
            "Secret with username and password of etcd's root. The operator makes roles and users of etcd with it, so "
            "that owners, edges and itself reach only their part; each needs a userSecretName of its own."
        ),
        "authEnabled": boolean(
            "The operator has etcd ask everybody for a password (rootSecretName). Set it when all pods have theirs.",
            False,
        ),
    }
    return ruled(
        table("Where the cluster's metadata is.", properties, ["endpoints"]),
        Rule(
            "!has(self.userSecretName) || has(self.tlsSecretName)",
            "userSecretName needs tlsSecretName: the password would be sent in plain text.",
        ),
        Rule(
            "!has(self.rootSecretName) || (has(self.tlsSecretName) && has(self.userSecretName) && "
            "has(self.owners.userSecretName) && has(self.edges.userSecretName))",
            "rootSecretName needs tlsSecretName, and userSecretName, owners.userSecretName and edges.userSecretName: "
            "the operator makes a user of each.",
        ),
        Rule(
            "!self.authEnabled || has(self.rootSecretName)",
            "authEnabled needs rootSecretName: only root can turn that on.",
        ),
        Rule(
            "(has(self.prefix) ? self.prefix : '') == (has(oldSelf.prefix) ? oldSelf.prefix : '')",
            "spec.etcd.prefix cannot be set or taken out later: the keys under it say where the messages are.",
        ),
    )


def _etcd_login(who: str) -> Schema:
    return table(
        f"{who} reach etcd by these instead.",
        {
            "tlsSecretName": text("Secret with tls.crt, tls.key and ca.crt. Default: spec.etcd.tlsSecretName."),
            "userSecretName": text("Secret with username and password. Default: spec.etcd.userSecretName."),
        },
        default={},
    )


def _redis() -> Schema:
    url = ruled(
        text("redis://… or rediss://…", most=512, pattern="^rediss?://"),
        Rule("!self.matches('://[^/@]*:[^/@]+@')", "spec.redis.url holds a password; put it into passwordSecretName."),
    )
    secret = text("Secret with the key password.")
    return table(
        "What edges share and may forget.", {"url": url, "passwordSecretName": secret}, ["url"]
    )  # fmt: skip


def _settings() -> Schema:
    cluster = ruled(
        group_schema("cluster", _OWN_CLUSTER),
        Rule(
            "(has(self.deadAfterMs) ? self.deadAfterMs : 500) > 2 * (has(self.pingMs) ? self.pingMs : 80)",
            "deadAfterMs must be more than twice pingMs, else every lost heart-beat is a death.",
        ),
        Rule(
            "(has(self.promiseMs) ? self.promiseMs : 250) > 2 * (has(self.pingMs) ? self.pingMs : 80)",
            "promiseMs must be more than twice pingMs, else leaders stand still between heart-beats.",
        ),
    )
    groups = {
        "cluster": cluster,
        "engine": group_schema("engine"),
        "journal": group_schema("journal"),
        "wire": group_schema("wire"),
        "log": _log(),
        "tracing": group_schema("tracing"),
        "logReads": group_schema("log_reads", ("host", "cert_file", "key_file")),
    }
    return table("Settings of all processes.", groups)


PATHS = ("log.audit_file",)
"""Settings that a resource may say something of, and a variable, which may hold anything, may not."""


def _log() -> Schema:
    """Audit lines go to stdout at most: a user who writes this resource names no file of the pod."""
    schema = group_schema("log", ("audit_file_bytes", "audit_files_kept"))
    schema["properties"]["auditFile"] |= {"enum": ["", "-"]}
    return schema


def _address_owners() -> Schema:
    prefix = ruled(
        text("First words of addresses: orders is orders and all of orders.#; empty is every address.", most=200),
        Rule(
            "!self.contains('*') && !self.contains('#') && !self.contains('::')",
            "a prefix has no wildcard and no queue: it stands for everything below it.",
        ),
        Rule("self == '' || self.split('.').all(w, size(w) > 0)", "the prefix has an empty word; take out the dot."),
    )
    resource: Schema = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z0-9.-]*[*]?$"}
    resources: Schema = {
        "type": "array", "description": "Names of Addresses; with * at the end: all that begin so.",
        "minItems": 1, "maxItems": 32, "items": resource,
    }  # fmt: skip
    return {
        "type": "array",
        "description": "Which Addresses may speak about addresses, by the names of these resources: state settings and "
        "permissions of them, or send there by diverts and as dead letters. What no prefix is about is for every "
        "Address, but permissions of one queue (ADDRESS::QUEUE) always take an owner.",
        "maxItems": 64,
        "items": table("Whose a prefix is, and all below it.", {"prefix": prefix, "resources": resources},
                       ["prefix", "resources"]),
    }  # fmt: skip


def _of_clients() -> dict[str, Schema]:
    """What all edges hold their clients to."""
    audit = word(
        "What of clients the audit log of all edges has: logins that failed and what was denied, or each login and end "
        "too. Default: failures.",
        ("off", "failures", "all"),
    )
    return {"audit": audit, "clientIds": _client_ids()}


def _client_ids() -> Schema:
    schema = strings(
        "Client-ids of a user, on all ports: %u is the user's name, * at one place anything. An item * alone lets "
        "every user have any, and with it the durable subscriptions of others. Default: %u, and what begins so and "
        "goes on after one of . - _ : /",
        items=16,
        length=128,
    )
    return ruled(
        schema,
        Rule(
            "self.all(one, one == '*' || (one.contains('%u') && one.split('*').size() <= 2))",
            "each of clientIds has %u, the user's name, in it and one * at most; a * alone lets every user have any "
            "client-id.",
        ),
    )


def _virtual_hosts() -> Schema:
    properties = entry_properties("edge.virtual_hosts", ("login_by",))
    properties["name"] = text("Name of the host.", most=40, pattern="^[A-Za-z0-9_-]+$")
    host = ruled(
        table("A virtual host.", properties, ["name"]),
        Rule(
            "!has(self.maxConnections) || self.maxConnections != 0",
            "maxConnections is 0, so nobody could come in; -1 means no limit.",
        ),
    )
    return _named_list(
        host,
        "Name spaces of their own, by the `host` header of CONNECT, SNI or virtualHost of a listener. An Address or "
        "StompUser of one has $host/NAME. in front of its name. A change restarts the edges one by one.",
    )


def _exchanges() -> Schema:
    properties = entry_properties("edge.exchanges")
    properties["name"] = text("Name of the exchange, as in /exchange/NAME/KEY.", most=127)
    return _named_list(
        table("An exchange.", properties, ["name"]),
        "Exchanges beside the amq.* ones, for listeners with dialect rabbitmq. A change restarts the edges one by one.",
    )


def _quotas() -> Schema:
    properties = entry_properties("edge.quotas")
    properties["who"] = text(
        "user:NAME, host:NAME (host:/ is the default one), ip:ADDRESS or network; * for each.",
        most=200, pattern="^((user|host):.+|ip:([*]|[0-9A-Fa-f:.]+(/[0-9]+)?))$",
    )  # fmt: skip
    quota = ruled(
        table("What one of them may use, on all edges together.", properties, ["who"]),
        Rule(
            "!has(self.maxLogins) || self.maxLogins < 0 || !self.who.startsWith('user:')",
            "maxLogins of a user: who logs in has not proven that he is that user; set it for ip:* or host:*.",
        ),
    )
    return _named_list(
        quota,
        "What users, virtual hosts and addresses of clients may use. The most specific entry decides alone. A change "
        "counts at once.",
        key="who",
    )


def _scrapers() -> Schema:
    def labels(text: str) -> Schema:
        value: Schema = {"type": "string", "maxLength": 63}
        return {"type": "object", "description": text, "maxProperties": 8, "additionalProperties": value}

    return table(
        "Who reads metrics: the NetworkPolicies let nobody else to the admin ports but pods of the broker and the "
        "operator.",
        {
            "podLabels": labels("Of the pods. Default: app.kubernetes.io/name: prometheus."),
            "namespaceLabels": labels("Of their namespace. Default: any."),
            "tokenSecretName": text(
                "Secret with the key password, of 16 characters or more: whoever reads metrics shows it "
                "(Authorization: Bearer). Naming one restarts owners and edges one by one; another one counts when "
                "the kubelet has renewed the file. Default: labels are enough."
            ),
        },
    )


def _named_list(item: Schema, description: str, key: str = "name") -> Schema:
    return {
        "type": "array", "description": description, "maxItems": 64, "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key],
    }  # fmt: skip


def spec() -> Schema:
    replication = ruled(
        table(
            "Copies of each slot.",
            {
                "factor": integer("Copies. Changing it restarts the owners one by one.", 1, 7, 3),
                "minInSync": integer("Copies that must have a durable message before its RECEIPT.", 1, 7, 2),
            },
            default={"factor": 3, "minInSync": 2},
        ),
        Rule(
            "self.minInSync <= self.factor",
            "minInSync is above factor, so no message could be confirmed; lower it.",
        ),
    )
    tls = table(
        "Certificates of the components, for mutual TLS between them.",
        {
            "secretName": text("Secret with tls.crt, tls.key and ca.crt. Default: NAME-components."),
            "ownersSecretName": text("Secret of owners. Default: secretName."),
            "edgesSecretName": text("Secret of edges. Default: secretName."),
        },
    )
    properties = {
        "image": text("Image of owners, and of edges that name none. Default: that of the operator.", most=512),
        "imagePullPolicy": word("When images are pulled.", ("Always", "IfNotPresent", "Never"), "IfNotPresent"),
        "imagePullSecrets": {
            "type": "array",
            "description": "Secrets to pull images with.",
            "maxItems": 8,
            "items": table("A Secret.", {"name": text("Its name.")}, ["name"]),
        },
        "owners": _owners(),
        "replication": replication,
        "etcd": _etcd(),
        "restoreFrom": _restore_from(),
        "redis": _redis(),
        "tls": tls,
        "settings": _settings(),
        "permissionsRequired": boolean(
            "What no permission of an Address is about is for nobody. Off: for everybody who is let in, and an Address "
            "that states the first permission is refused, because with it all else would be for nobody.",
            False,
        ),
        "addressOwners": _address_owners(),
        **_of_clients(),
        "virtualHosts": _virtual_hosts(),
        "exchanges": _exchanges(),
        "quotas": _quotas(),
        **crd_bridges.fields(),
        "networkPolicy": boolean("Owners are open to the broker's own pods and to scrapers only.", True),
        "scrapers": _scrapers(),
        "zonesFromNodes": boolean(
            "Pods learn their zone from their node, on Kubernetes before 1.35 (newer ones put it on pods themselves). "
            "The operator needs the right to read nodes (chart: operator.readNodes). A change rolls the pods.",
            False,
        ),
    }
    return ruled(
        table("A cluster.", properties, ["etcd"]),
        Rule(
            "self.replication.factor <= self.owners.replicas",
            "spec.replication.factor is above spec.owners.replicas; lower it or add owners.",
        ),
        Rule(
            "!has(self.restoreFrom) || (has(oldSelf.restoreFrom) && oldSelf.restoreFrom == self.restoreFrom)",
            "spec.restoreFrom cannot be set or changed later, because owners have their disks; make a new broker.",
        ),
        *crd_bridges.RULES,
    )


COLUMNS = (
    ("Owners", "integer", ".status.owners.ready", 0),
    ("Wanted", "integer", ".spec.owners.replicas", 0),
    ("Slots", "integer", ".status.slots.online", 0),
    ("Under-Repl", "integer", ".status.slots.underReplicated", 0),
    ("Edges", "integer", ".status.edges", 0),
    ("Version", "string", ".status.image", 1),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
)


def status() -> dict[str, Schema]:
    number: Schema = {"type": "integer", "format": "int32"}

    def numbers(about: str, names: tuple[str, ...]) -> Schema:
        return {"type": "object", "description": about, "properties": {name: number for name in names}}

    return {
        "owners": {
            "type": "object",
            "description": "The owners.",
            "properties": {
                "replicas": {**number, "description": "Pods there are."},
                "ready": {**number, "description": "Pods with all copies in sync."},
                "selector": {"type": "string", "description": "Of the pods."},
                "holding": {**number, "description": "Copies that owners still keep who are being removed."},
            },
        },
        "slots": numbers("Slots.", ("total", "online", "offline", "stalled", "underReplicated")),
        "edges": {**number, "description": "Live edges."},
        "rebalance": {
            "type": "object",
            "description": "What would move (or is moving) to make loads even; spec.owners.rebalance.mode is Manual.",
            "properties": {
                "state": {"type": "string", "description": "Idle, Proposed or Moving."},
                "id": {"type": "string", "description": "To be named in the annotation stampede.dev/rebalance."},
                "moves": {**number, "description": "Copies of slots that are made elsewhere, and then dropped here."},
                "leaders": {**number, "description": "Slots that another owner leads afterwards."},
                "bytes": {
                    "type": "integer",
                    "format": "int64",
                    "description": "Messages that are copied, to two digits.",
                },
                "seconds": {**number, "description": "At least so long, at seedBytesPerS and movesAtOnce."},
            },
        },
        "image": {"type": "string", "description": "Image of the owners."},
        "certificatesNotAfter": {
            "type": "string",
            "format": "date-time",
            "description": "When the first certificate of the components ends.",
        },
    }
