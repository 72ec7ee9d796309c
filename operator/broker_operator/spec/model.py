"""The resources as values: what a spec says, typed, with the defaults of the schema.

Rule: the fields are those of the CRDs (a test compares). Settings of the broker stay tables: broker.config knows them.
Values only; nothing here decides.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

import msgspec

from broker.core.strict_numbers import natural

from .names import Id

Table = dict[str, Any]


def json_table(data: bytes | None) -> Table:
    """What stands in a key in etcd; {} for none, and when nonsense stands there."""
    try:
        found = json.loads(data or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def mark_of(body: Table) -> str:
    """Tells one wish from another: of a template, of an object."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


class _Spec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Unknown fields are let through: an older operator may meet a newer CRD."""


class Ref(_Spec, frozen=True):
    name: str = "stomp"


class AddressSpec(_Spec, frozen=True):
    broker_ref: Ref = Ref()
    name: str = ""
    match: str = ""
    settings: Table = {}
    queues: list[Table] = []
    diverts: list[Table] = []
    permissions: Table | None = None
    deletion_policy: str = "Delete"


class SecretKey(_Spec, frozen=True):
    name: str
    key: str = "password"


class Generate(_Spec, frozen=True):
    length: int = 32
    rotation: str = ""


class UserSpec(_Spec, frozen=True):
    broker_ref: Ref = Ref()
    username: str = ""
    password_secret_ref: SecretKey | None = None
    generate: Generate | None = None
    groups: list[str] = []
    rotation_grace_seconds: int = 600
    suspended: bool = False


class Tls(_Spec, frozen=True):
    secret_name: str
    client_ca_secret_name: str = ""
    crl_secret_name: str = ""
    client_auth: str = ""
    min_version: str = ""
    ciphers: list[str] = []
    sni_host: str = ""


class Autoscaling(_Spec, frozen=True):
    min_replicas: int = 2
    max_replicas: int = 10
    target_cpu_percent: int = msgspec.field(default=65, name="targetCPUPercent")
    target_connections_per_pod: int = 0
    scale_down_stabilization_seconds: int = 600
    behavior: Table = {}


class ServiceSpec(_Spec, frozen=True):
    type: str = "ClusterIP"
    external_traffic_policy: str = ""
    load_balancer_class: str = ""
    load_balancer_source_ranges: list[str] = []
    ip_family_policy: str = ""
    annotations: dict[str, str] = {}


class Gateway(_Spec, frozen=True):
    parent_refs: list[Table]
    kind: str = "TCPRoute"
    hostnames: list[str] = []


class Drain(_Spec, frozen=True):
    delay_seconds: int = 5
    timeout_seconds: int = 60


class AdminTls(_Spec, frozen=True):
    secret_name: str
    hosts: list[str] = []


class AcceptorSpec(_Spec, frozen=True):
    """listeners: tables, because most of their fields are settings; see edges.py."""

    listeners: list[Table]
    broker_ref: Ref = Ref()
    settings: dict[str, Table] = {}
    replicas: int | None = None
    autoscaling: Autoscaling | None = None
    service: ServiceSpec = ServiceSpec()
    gateway: Gateway | None = None
    drain: Drain = Drain()
    max_unavailable: int = 1
    network_policy: bool = True
    admin_tls: AdminTls | None = None
    image: str = ""
    resources: Table = {}
    template: Table = {}


class Storage(_Spec, frozen=True):
    size: str = "10Gi"
    storage_class_name: str = ""
    when_scaled: str = "Retain"
    when_deleted: str = "Retain"


class RebalanceSpec(_Spec, frozen=True):
    mode: str = "Automatic"
    moves_at_once: int = 4


class Owners(_Spec, frozen=True):
    replicas: int = 3
    rebalance: RebalanceSpec = RebalanceSpec()
    storage: Storage = Storage()
    max_unavailable: int = 1
    termination_grace_period_seconds: int = 120
    resources: Table = {}
    template: Table = {}


class Replication(_Spec, frozen=True):
    factor: int = 3
    min_in_sync: int = 2


class EtcdLogin(_Spec, frozen=True):
    tls_secret_name: str = ""
    user_secret_name: str = ""


class Etcd(_Spec, frozen=True):
    """tls_secret_name, user_secret_name: the operator's own, and of all who have none of their own."""

    endpoints: list[str]
    prefix: str = ""
    tls_secret_name: str = ""
    user_secret_name: str = ""
    owners: EtcdLogin = EtcdLogin()
    edges: EtcdLogin = EtcdLogin()
    root_secret_name: str = ""
    auth_enabled: bool = False

    def login(self, role: str) -> EtcdLogin:
        """Of `owners`, `edges`, or the `operator` (of owners, where it has none)."""
        if role == "operator":
            return EtcdLogin(
                tls_secret_name=self.tls_secret_name or self.owners.tls_secret_name,
                user_secret_name=self.user_secret_name or self.owners.user_secret_name,
            )
        own: EtcdLogin = getattr(self, role)
        return EtcdLogin(
            tls_secret_name=own.tls_secret_name or self.tls_secret_name,
            user_secret_name=own.user_secret_name or self.user_secret_name,
        )


class Redis(_Spec, frozen=True):
    url: str
    password_secret_name: str = ""


class BrokerTls(_Spec, frozen=True):
    secret_name: str = ""
    owners_secret_name: str = ""
    edges_secret_name: str = ""

    def secret(self, role: str) -> str:
        """Of `edges`, or of owners and who works in their place; "": nothing is said."""
        return (self.edges_secret_name if role == "edges" else self.owners_secret_name) or self.secret_name


class Scrapers(_Spec, frozen=True):
    """token_secret_name: the Secret whose key `password` is admin.token_file of owners and edges; "": there is none."""

    pod_labels: dict[str, str] = msgspec.field(default_factory=lambda: {"app.kubernetes.io/name": "prometheus"})
    namespace_labels: dict[str, str] = {}
    token_secret_name: str = ""


class AddressOwner(_Spec, frozen=True):
    prefix: str
    resources: list[str]


class Named(_Spec, frozen=True):
    name: str


class BrokerSpec(_Spec, frozen=True):
    etcd: Etcd
    restore_from: Named | None = None
    image: str = ""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: list[Table] = []
    owners: Owners = Owners()
    replication: Replication = Replication()
    redis: Redis | None = None
    tls: BrokerTls = BrokerTls()
    settings: dict[str, Table] = {}
    permissions_required: bool = False
    audit: str = ""
    address_owners: list[AddressOwner] = []
    client_ids: list[str] = []
    virtual_hosts: list[Table] = []
    exchanges: list[Table] = []
    quotas: list[Table] = []
    bridges: list[Table] = []
    bridges_secret_name: str = ""
    network_policy: bool = True
    scrapers: Scrapers = Scrapers()
    zones_from_nodes: bool = False


class VolumeStore(_Spec, frozen=True):
    claim_name: str


class BucketStore(_Spec, frozen=True):
    url: str
    endpoint: str = ""
    region: str = ""
    secret_name: str = ""


class Store(_Spec, frozen=True):
    volume: VolumeStore | None = None
    bucket: BucketStore | None = None


class Retention(_Spec, frozen=True):
    keep: int = 7


class BackupSpec(_Spec, frozen=True):
    store: Store
    broker_ref: Ref = Ref()
    schedule: str = ""
    time_zone: str = "UTC"
    suspend: bool = False
    retention: Retention = Retention()
    megabytes_per_second: int = 50
    deadline_seconds: int = 3600
    resources: Table = {}


class RestoreSource(_Spec, frozen=True):
    backup_ref: Named | None = None
    store: Store | None = None
    folder: str = ""
    run: str = ""


class RestoreSpec(_Spec, frozen=True):
    source: RestoreSource
    broker_ref: Ref = Ref()
    deadline_seconds: int = 3600
    resources: Table = {}


def version_of(item: Table) -> int:
    """Its resourceVersion as a number: of two states of one kind's objects the later has the greater one."""
    return natural(str(item["metadata"].get("resourceVersion", "0"))) or 0


T = TypeVar("T", bound=_Spec)


class Resource:
    """One custom resource as the API server has it. `raw`: all of it; not to be changed."""

    __slots__ = ("id", "raw")

    def __init__(self, raw: Table) -> None:
        meta = raw["metadata"]
        self.id = Id(raw["kind"], meta["namespace"], meta["name"])
        self.raw = raw

    @property
    def uid(self) -> str:
        return str(self.raw["metadata"]["uid"])

    @property
    def generation(self) -> int:
        return int(self.raw["metadata"].get("generation", 1))

    @property
    def created(self) -> str:
        """RFC 3339, so that texts compare like times."""
        return str(self.raw["metadata"].get("creationTimestamp", ""))

    @property
    def leaving(self) -> bool:
        return "deletionTimestamp" in self.raw["metadata"]

    @property
    def annotations(self) -> dict[str, str]:
        return self.raw["metadata"].get("annotations") or {}

    @property
    def status(self) -> Table:
        return self.raw.get("status") or {}

    @property
    def broker(self) -> str:
        """Name of the StompBroker it belongs to."""
        return str((self.raw.get("spec", {}).get("brokerRef") or {}).get("name", "stomp"))

    def spec(self, type: type[T]) -> T:
        """Raises msgspec.ValidationError for what no CRD of ours lets in."""
        return msgspec.convert(self.raw.get("spec", {}), type)

    def reference(self) -> Table:
        """ownerReference for objects that go with it. It never blocks anybody's deletion."""
        return {
            "apiVersion": self.raw["apiVersion"],
            "kind": self.id.kind,
            "name": self.id.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }
