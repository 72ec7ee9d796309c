"""The schema of StompAcceptor: a pool of edges, what they listen on and how they are reached.

Rule: a listener's parameters are those of `[acceptors.NAME]`; files of certificates are Secrets here.
"""

from __future__ import annotations

from ..spec.names import ADMIN_PORT, ADMIN_TLS_PORT, GRPC_PORT
from ..spec.schema import (
    Schema,
    boolean,
    camel,
    entry_properties,
    free,
    group_schema,
    integer,
    strings,
    table,
    text,
    word,
)
from .crd_address import broker_ref
from .rules import Rule, ruled

MAX_LISTENERS = 8
DNS_LABEL = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
OWN = (
    "url", "host", "port", "transport", "tls", "tls_cert_file", "tls_key_file", "tls_client_ca_file", "tls_crl_file",
    "tls_client_auth", "tls_min_version", "tls_ciphers", "tls_sni_host",
)  # fmt: skip
"""Settings of an acceptor that a resource says in another way."""
OPENING = ("default_user", "implicit_connect", "login_by", "certificate_user", "client_ids")
"""… and those it cannot say: with them everybody at a port is any user, without a passcode of his (its author names the
CA of client certificates as well), or has another's client-id. Who may write a
StompAcceptor is not asked who may be whom: that stands in a StompUser and its Secret."""

OF_BROKER = ("edge.permissions_required", "edge.client_ids", "edge.audit")
"""Settings of edges that its StompBroker says: they decide whose what is, on every port, and what is written down."""


def _tls() -> Schema:
    all = entry_properties("acceptors")
    properties = {
        "secretName": text("Secret with tls.crt and tls.key (as cert-manager makes it). Renewals need no restart."),
        "clientCaSecretName": text("Secret with ca.crt: the CAs of client certificates."),
        "crlSecretName": text("Secret with ca.crl: revoked client certificates."),
        "clientAuth": all["tlsClientAuth"],
        "minVersion": all["tlsMinVersion"],
        "ciphers": all["tlsCiphers"],
        "sniHost": all["tlsSniHost"],
    }
    return ruled(
        table("TLS of this listener.", properties, ["secretName"]),
        Rule(
            "!has(self.clientAuth) || self.clientAuth == 'none' || has(self.clientCaSecretName)",
            "clientAuth needs clientCaSecretName.",
        ),
        Rule(
            "!has(self.crlSecretName) || has(self.clientCaSecretName)",
            "crlSecretName needs clientCaSecretName.",
        ),
        Rule(
            "!has(self.ciphers) || size(self.ciphers) == 0 || !has(self.minVersion) || self.minVersion != 'TLSv1.3'",
            "ciphers are those of TLS 1.2, but minVersion is TLSv1.3; take one of them out.",
        ),
    )


def _admin_tls() -> Schema:
    properties = {
        "secretName": text("Secret with tls.crt and tls.key. Renewals need no restart."),
        "hosts": strings("Names under which browsers reach it, besides its addresses and localhost."),
    }
    about = f"Console and API with TLS as well, at port {ADMIN_TLS_PORT} of the Service NAME-edge-admin."
    return table(about, properties, ["secretName"])


def _listener() -> Schema:
    properties = entry_properties("acceptors", (*OWN, *OPENING))
    properties |= {
        "name": text("Name of the listener, also of the port of the Service.", most=15, pattern=DNS_LABEL),
        "port": integer("Port the edges listen on.", 1024, 65535),
        "servicePort": integer("Port of the Service. Default: port.", 1, 65535),
        "nodePort": integer("Port on every node. Default: Kubernetes picks one.", 1, 65535),
        "transport": word(
            "What is spoken; both: found out by the first bytes.", ("stomp", "websocket", "both"), "both"
        ),
        "tls": _tls(),
    }
    return ruled(
        table("One port.", properties, ["name", "port"]),
        Rule(
            f"self.port != {ADMIN_PORT} && self.port != {GRPC_PORT}",
            f"ports {ADMIN_PORT} and {GRPC_PORT} are used by the broker itself; choose another port.",
        ),
        Rule(
            "(has(self.connectionTtlMinMs) ? self.connectionTtlMinMs : 1000) <= "
            "(has(self.connectionTtlMaxMs) ? self.connectionTtlMaxMs : 9007199254740992)",
            "connectionTtlMinMs is above connectionTtlMaxMs; lower it.",
        ),
        Rule(
            "!has(self.connectionTtlMs) || self.connectionTtlMs < 0 || "
            "(self.connectionTtlMs >= (has(self.connectionTtlMinMs) ? self.connectionTtlMinMs : 1000) && "
            "self.connectionTtlMs <= (has(self.connectionTtlMaxMs) ? self.connectionTtlMaxMs : 9007199254740992))",
            "connectionTtlMs is not between connectionTtlMinMs and connectionTtlMaxMs; change one of them.",
        ),
        Rule(
            "self.transport != 'stomp' || !(has(self.wsMaxMessageBytes) || has(self.wsEncoder) || "
            "has(self.wsCompression))",
            "wsMaxMessageBytes, wsEncoder and wsCompression need transport websocket or both.",
        ),
        Rule(
            "!has(self.anycastPrefix) || !has(self.multicastPrefix) || "
            "!self.anycastPrefix.exists(p, p in self.multicastPrefix)",
            "anycastPrefix and multicastPrefix share a prefix; take it out of one of them.",
        ),
        Rule(
            "!has(self.maxProducerRate) || self.maxProducerRate != 0",
            "maxProducerRate is 0, so nobody could send; -1 means no limit.",
        ),
    )


def _listeners() -> Schema:
    return ruled(
        {
            "type": "array",
            "description": "Ports. Each has parameters of its own.",
            "minItems": 1,
            "maxItems": MAX_LISTENERS,
            "items": _listener(),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        Rule(
            "self.all(l, self.exists_one(m, m.port == l.port))",
            "two listeners have one port; give each a port of its own.",
        ),
    )


def _autoscaling() -> Schema:
    properties = {
        "minReplicas": integer("Fewest pods.", 1, 1000, 2),
        "maxReplicas": integer("Most pods.", 1, 1000, 10),
        "targetCPUPercent": integer("CPU of the request that pods should use.", 1, 1000, 65),
        "targetConnectionsPerPod": integer(
            "Connections per pod; needs a metrics adapter that serves stomp_connections of pods.", 1, 1000000
        ),
        "scaleDownStabilizationSeconds": integer("How long fewer pods must have been enough.", 0, 3600, 600),
        "behavior": free("`behavior` of the HorizontalPodAutoscaler, instead of ours."),
    }
    return ruled(
        table("A HorizontalPodAutoscaler sets the number of pods.", properties),
        Rule("self.minReplicas <= self.maxReplicas", "minReplicas is above maxReplicas; lower it."),
    )


def _service() -> Schema:
    properties = {
        "type": word("How clients reach the edges.", ("ClusterIP", "NodePort", "LoadBalancer"), "ClusterIP"),
        "externalTrafficPolicy": word(
            "Local keeps clients' addresses and saves a hop. Default: Local.", ("Local", "Cluster")
        ),
        "loadBalancerClass": text("Class of the load balancer."),
        "loadBalancerSourceRanges": strings("Networks that may connect.", items=64, length=64),
        "ipFamilyPolicy": word("IP versions.", ("SingleStack", "PreferDualStack", "RequireDualStack")),
        "annotations": {
            "type": "object",
            "description": "Annotations of the Service.",
            "maxProperties": 64,
            "additionalProperties": {"type": "string", "maxLength": 4096},
        },
    }
    return ruled(
        table("The Service of the clients.", properties, default={"type": "ClusterIP"}),
        Rule(
            "self.type != 'ClusterIP' || !has(self.externalTrafficPolicy)",
            "externalTrafficPolicy needs type NodePort or LoadBalancer.",
        ),
        Rule(
            "self.type == 'LoadBalancer' || (!has(self.loadBalancerClass) && !has(self.loadBalancerSourceRanges))",
            "loadBalancerClass and loadBalancerSourceRanges need type LoadBalancer.",
        ),
    )


def _gateway() -> Schema:
    parent = table(
        "A Gateway.",
        {
            "name": text("Name of the Gateway."),
            "namespace": text("Its namespace. Default: that of the resource.", most=63),
            "sectionName": text("Its listener."),
        },
        ["name"],
    )
    properties = {
        "kind": word("TLSRoute leaves TLS to the edges and routes by host name.", ("TCPRoute", "TLSRoute"), "TCPRoute"),
        "parentRefs": {"type": "array", "description": "Gateways.", "minItems": 1, "maxItems": 8, "items": parent},
        "hostnames": strings("Host names of a TLSRoute.", items=16),
    }
    return ruled(
        table("Routes of the Gateway API, one per listener.", properties, ["parentRefs"]),
        Rule(
            "self.kind != 'TLSRoute' || (has(self.hostnames) && size(self.hostnames) > 0)",
            "a TLSRoute needs hostnames.",
        ),
        Rule(
            "self.kind != 'TCPRoute' || !has(self.hostnames) || size(self.hostnames) == 0",
            "a TCPRoute cannot look at hostnames; take them out, or use kind TLSRoute.",
        ),
    )


def workload_properties() -> dict[str, Schema]:
    """What a set of pods can be told, whatever runs in it."""
    return {
        "image": text("Image. Default: that of the broker, or of the operator.", most=512),
        "resources": free("`resources` of the container. Default: requests of 250m CPU and 256Mi memory."),
        "template": free("Merged into the pod template: nodeSelector, tolerations, affinity, annotations, sidecars …"),
    }


def spec() -> Schema:
    refused = (
        Rule(f"!has(self.{name})", f"{name} is said for all edges of the broker: set spec.{name} of the StompBroker.")
        for name in (camel(setting.rpartition(".")[2]) for setting in OF_BROKER)
    )
    edge = ruled(group_schema("edge", _NOT_OF_EDGES), *refused)
    groups = {"edge": edge, "wire": group_schema("wire")}
    drain = table(
        "How a pod ends.",
        {
            "delaySeconds": integer(
                "After the Service has stopped sending to it, before it stops accepting.", 0, 600, 5
            ),
            "timeoutSeconds": integer("To finish what is in flight.", 1, 3600, 60),
        },
        default={},
    )
    properties = {
        "brokerRef": broker_ref(),
        "listeners": _listeners(),
        "settings": table("Settings of these edges.", groups),
        "replicas": integer("Pods. Default: 2, or what autoscaling says.", 0, 1000),
        "autoscaling": _autoscaling(),
        "service": _service(),
        "gateway": _gateway(),
        "drain": drain,
        "maxUnavailable": integer("Pods that may be taken away at once (PodDisruptionBudget).", 1, 100, 1),
        "adminTls": _admin_tls(),
        "networkPolicy": boolean("Only listeners, the admin port and the broker's own ways are open.", True),
        **workload_properties(),
    }  # fmt: skip
    return ruled(table("A pool of edges.", properties, ["listeners"]), *_SPEC_RULES)


_NOT_OF_EDGES = (
    "host", "port", "tls_port", "ws_port", "wss_port", "tls_cert_file", "tls_key_file", "tls_client_ca_file",
    "processes", "users_file", "drain_timeout_s", "login_by", "issuers", "ldap", "hooks",
)  # fmt: skip

_SPEC_RULES = (
    Rule(
        "!(has(self.replicas) && has(self.autoscaling))",
        "give either spec.replicas or spec.autoscaling: they would fight over the number of pods.",
    ),
    Rule(
        "!self.listeners.exists(l, has(l.proxyProtocol) && l.proxyProtocol) || self.service.type != 'ClusterIP' || "
        "has(self.gateway)",
        "proxyProtocol needs a balancer that speaks it: spec.service.type LoadBalancer or NodePort, or spec.gateway.",
    ),
    Rule(
        "self.service.type != 'ClusterIP' || !self.listeners.exists(l, has(l.nodePort))",
        "nodePort needs spec.service.type NodePort or LoadBalancer.",
    ),
    Rule(
        "!has(self.gateway) || self.gateway.kind != 'TLSRoute' || self.listeners.all(l, has(l.tls))",
        "a TLSRoute leaves TLS to the edges, so every listener needs tls.",
    ),
    Rule(
        f"!has(self.adminTls) || self.listeners.all(l, l.port != {ADMIN_TLS_PORT})",
        f"port {ADMIN_TLS_PORT} is that of adminTls; choose another one for the listener.",
    ),
    Rule(
        "self.drain.delaySeconds + self.drain.timeoutSeconds <= 3600",
        "spec.drain takes more than an hour; lower delaySeconds or timeoutSeconds.",
    ),
)

COLUMNS = (
    ("Listeners", "string", ".status.listeners", 0),
    ("Address", "string", ".status.addresses[0]", 0),
    ("Pods", "integer", ".status.readyReplicas", 0),
    ("Connections", "integer", ".status.connections", 0),
    ("Least", "integer", ".status.connectionsPerPod.least", 1),
    ("Most", "integer", ".status.connectionsPerPod.most", 1),
    ("TLS-Expiry", "string", ".status.certificatesNotAfter", 1),
    ("Broker", "string", ".spec.brokerRef.name", 1),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
)


def status() -> dict[str, Schema]:
    number: Schema = {"type": "integer", "format": "int32"}
    return {
        "listeners": {"type": "string", "description": "Names and ports."},
        "addresses": {"type": "array", "items": {"type": "string"}, "description": "Where clients connect."},
        "replicas": {**number, "description": "Pods there are."},
        "readyReplicas": {**number, "description": "Pods that take clients."},
        "connections": {**number, "description": "Of all pods; written at most every 10 s."},
        "connectionsPerPod": {
            "type": "object",
            "description": "Of the pod with the fewest and of the one with the most.",
            "properties": {"least": number, "most": number},
        },
        "selector": {"type": "string", "description": "Of the pods, for HorizontalPodAutoscalers."},
        "certificatesNotAfter": {"type": "string", "format": "date-time", "description": "When the first one ends."},
    }  # fmt: skip
