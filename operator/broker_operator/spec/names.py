"""Names: of the API group, of objects, labels, annotations, ports and paths (docs/adr/0006-kubernetes.md).

Rule: the only place where such a name is put together. Selectors and names of objects never change: other tools and the
immutable fields of live objects rely on them. Must not know what the objects hold.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.core.strict_numbers import natural

GROUP = "stampede.dev"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
FIELD_MANAGER = "stampede-operator"

PAUSED = f"{GROUP}/paused"
"""Annotation: "true", or the time (RFC 3339) until which nothing is changed."""
OPERATOR = f"{GROUP}/operator"
"""Annotation of a StompBroker: NAMESPACE/LEASE of the operator that it belongs to (ownership.py); of a ConfigMap with
resources: of the operator that applies it."""
OPERATOR_IMAGE = f"{GROUP}/operator-image"
"""Annotation of a ConfigMap with resources: the image of the operator that is to apply it (bundles.py)."""
REBALANCE = f"{GROUP}/rebalance"
"""Annotation of a StompBroker: the id of the rebalance that is approved (rebalancing.py)."""
RUN = f"{GROUP}/run"
"""Annotation of a StompBackup: any text; another one makes another backup at once."""
COPY_LABEL = f"{GROUP}/copy"
"""Label of a Job: the StompBackup or StompRestore that it belongs to."""
CONFIG_HASH = f"{GROUP}/config-hash"
"""Annotation of pod templates: another ConfigMap rolls the pods."""
TEMPLATE_HASH = f"{GROUP}/template-hash"
"""Annotation of the owners' StatefulSet: hash of the template that we want, not of what others added (a restart)."""
APPLIED = f"{GROUP}/applied"
"""Annotation of an object of ours: hash of what it was last wanted to be, so that what is wanted no more is seen."""
ACCEPTOR_LABEL = f"{GROUP}/acceptor"

ADMIN_PORT = 61680
ADMIN_TLS_PORT = 61681
GRPC_PORT = 61700
CONFIG_DIR = "/etc/stampede"
CONFIG_FILE = "stampede.yaml"
COMPONENTS_DIR = "/etc/stampede-components"
ETCD_DIR = "/etc/stampede-etcd"
ETCD_USER_DIR = "/etc/stampede-etcd-user"
REDIS_DIR = "/etc/stampede-redis"
TLS_DIR = "/etc/stampede-tls"
CA_DIR = "/etc/stampede-ca"
ADMIN_TLS_DIR = "/etc/stampede-admin"
BRIDGES_DIR = "/etc/stampede-bridges"
METRICS_TOKEN_DIR = "/etc/stampede-metrics"
METRICS_TOKEN = "password"
"""Key of the Secret, and so the file: that of all our Secrets which are one word."""
DATA_DIR = "/var/lib/stampede"
DATA_CLAIM = "data"
COPIES_DIR = "/backup"
POD_DIR = "/etc/stampede-pod"
ZONE_LABEL = "topology.kubernetes.io/zone"
LAST_WORDS = "/dev/termination-log"
"""Where a container says what it has done, or why not, for its pod's status."""

BROKER = "StompBroker"
ACCEPTOR = "StompAcceptor"
ADDRESS = "Address"
USER = "StompUser"
BACKUP = "StompBackup"
RESTORE = "StompRestore"

PLURALS = {
    BROKER: "stompbrokers", ACCEPTOR: "stompacceptors", ADDRESS: "addresses", USER: "stompusers",
    BACKUP: "stompbackups", RESTORE: "stomprestores",
}  # fmt: skip
LATER = (BACKUP, RESTORE)
"""Kinds that came later: an operator may meet a cluster without them."""


class Id(NamedTuple):
    """A resource or object: what the work queue is keyed by."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def owner_name(broker: str) -> str:
    """StatefulSet, headless Service, PodDisruptionBudget, NetworkPolicy and ConfigMap of the owners."""
    return f"{broker}-owner"


def owner_pod(broker: str, ordinal: int) -> str:
    """A pod's name, which is the owner's `cluster.id`."""
    return f"{broker}-owner-{ordinal}"


def ordinal_of(broker: str, owner: str) -> int | None:
    """The ordinal of an owner's id; None for one that is no pod of this broker."""
    head, _, tail = owner.rpartition("-")
    return natural(tail) if head == owner_name(broker) else None


def admin_service(workload: str) -> str:
    return f"{workload}-admin"


def data_claim(broker: str, ordinal: int) -> str:
    return f"{DATA_CLAIM}-{owner_pod(broker, ordinal)}"


def components_secret(broker: str) -> str:
    return f"{broker}-components"


def edge_name(acceptor: str) -> str:
    """Deployment, HorizontalPodAutoscaler, PodDisruptionBudget, NetworkPolicy and ConfigMap of a pool of edges."""
    return f"{acceptor}-edge"


def route_name(acceptor: str, listener: str) -> str:
    return f"{acceptor}-{listener}"


def user_secret(user: str) -> str:
    return f"{user}-stomp"


def etcd_prefix(namespace: str, broker: str) -> str:
    return f"/stampede/{namespace}/{broker}"


def selector(broker: str, component: str, acceptor: str = "") -> dict[str, str]:
    """The labels that select pods. component: "owner" or "edge"."""
    labels = {"app.kubernetes.io/instance": broker, "app.kubernetes.io/component": component}
    return {**labels, ACCEPTOR_LABEL: acceptor} if acceptor else labels


def labels(broker: str, component: str, acceptor: str = "") -> dict[str, str]:
    """The labels of every object that we make."""
    return {
        "app.kubernetes.io/name": "stampede",
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        **selector(broker, component, acceptor),
    }
