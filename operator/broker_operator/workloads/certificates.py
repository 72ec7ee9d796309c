"""Secrets that resources name: whether their certificates are there and last, and which one pods wait for.

Rule: reads Secrets, writes nothing. A certificate ends without an event, so who asks looks again by the clock.
"""

from __future__ import annotations

from base64 import b64decode

from broker.core.certificates import first_certificate, not_after
from broker.seams.clock import Clock

from ..kube.kube import Kube
from ..spec import names
from ..spec.conditions import Condition, rfc3339
from ..spec.model import AcceptorSpec, BrokerSpec, Resource
from ..spec.names import Id
from . import edges

EXPIRES_SOON_S = 7 * 86400
PARTS_EXPIRE_SOON_S = 30 * 86400
"""Of the certificates between owners, edges and etcd: when they end, nobody in the cluster speaks with anybody."""
_SHARED_TLS = "spec.tls.secretName"


class Certificates:
    """expiries: resource → when the first of its certificates ends, seconds since the epoch."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self.expiries: dict[Id, float] = {}

    def forget(self, id: Id) -> None:
        self.expiries.pop(id, None)

    async def of_broker(self, resource: Resource, spec: BrokerSpec) -> tuple[Condition, float | None]:
        """Of owners and edges among themselves, and towards etcd."""
        tls, etcd = spec.tls, spec.etcd
        shared = tls.secret_name or names.components_secret(resource.id.name)
        named = {
            tls.owners_secret_name or shared: "spec.tls.ownersSecretName" if tls.owners_secret_name else _SHARED_TLS,
            tls.edges_secret_name or shared: "spec.tls.edgesSecretName" if tls.edges_secret_name else _SHARED_TLS,
        }
        clients = {
            "spec.etcd": etcd.tls_secret_name, "spec.etcd.owners": etcd.owners.tls_secret_name,
            "spec.etcd.edges": etcd.edges.tls_secret_name,
        }  # fmt: skip
        for where, name in clients.items():
            if not name or name in named:
                continue
            secret = await self._kube.get("v1", "Secret", resource.id.namespace, name)
            if "tls.crt" in ((secret or {}).get("data") or {}):  # else clients of etcd need none
                named[name] = f"{where}.tlsSecretName"
        return await self._look(resource, list(named.items()), PARTS_EXPIRE_SOON_S)

    async def of_acceptor(self, resource: Resource, spec: AcceptorSpec) -> tuple[Condition, float | None]:
        named = [
            (tls.secret_name, f"listener {listener['name']}")
            for listener in spec.listeners
            if (tls := edges.tls_of(listener)) is not None
        ]
        if spec.admin_tls is not None:
            named.append((spec.admin_tls.secret_name, "adminTls"))
        return await self._look(resource, named, EXPIRES_SOON_S)

    async def missing(self, resource: Resource, spec: BrokerSpec) -> str:
        """Why the pods cannot start: a Secret that they mount is not there; "" = all are."""
        etcd = spec.etcd
        named = {
            _SHARED_TLS: spec.tls.secret_name or names.components_secret(resource.id.name),
            "spec.tls.ownersSecretName": spec.tls.owners_secret_name,
            "spec.tls.edgesSecretName": spec.tls.edges_secret_name,
            "spec.etcd.tlsSecretName": etcd.tls_secret_name,
            "spec.etcd.userSecretName": etcd.user_secret_name,
            "spec.etcd.rootSecretName": etcd.root_secret_name,
            "spec.etcd.owners.tlsSecretName": etcd.owners.tls_secret_name,
            "spec.etcd.owners.userSecretName": etcd.owners.user_secret_name,
            "spec.etcd.edges.tlsSecretName": etcd.edges.tls_secret_name,
            "spec.etcd.edges.userSecretName": etcd.edges.user_secret_name,
            "spec.scrapers.tokenSecretName": spec.scrapers.token_secret_name,
            "spec.redis.passwordSecretName": spec.redis.password_secret_name if spec.redis else "",
        }
        for where, name in named.items():
            if name and await self._kube.get("v1", "Secret", resource.id.namespace, name) is None:
                return f"there is no Secret {name} ({where}); create it, or correct the name"
        return ""

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    async def _look(
        self, resource: Resource, named: list[tuple[str, str]], soon_s: float
    ) -> tuple[Condition, float | None]:
        """Whether those in the Secrets are there and last, and when the first one ends. named: (Secret, for what)."""
        now = self._clock.wall_ms() / 1000
        ends: list[tuple[float, str]] = []
        for name, wanted_by in named:
            secret = await self._kube.get("v1", "Secret", resource.id.namespace, name)
            data = (secret or {}).get("data") or {}
            if not data.get("tls.crt") or not data.get("tls.key"):
                why = f"there is no Secret {name} with tls.crt and tls.key ({wanted_by})"
                return Condition("CertificatesValid", False, "Missing", why), None
            try:
                end = not_after(first_certificate(b64decode(data["tls.crt"]).decode(errors="replace")))
            except ValueError:
                why = f"tls.crt of Secret {name} is not a PEM certificate"
                return Condition("CertificatesValid", False, "Unreadable", why), None
            ends.append((end, name))
        if not ends:
            self.expiries.pop(resource.id, None)
            return Condition("CertificatesValid", True, "NoTLS"), None
        first, name = min(ends)
        self.expiries[resource.id] = first
        if first > now + soon_s:
            return Condition("CertificatesValid", True, "Valid"), first
        over = first <= now
        reason, verb = ("Expired", "ended") if over else ("ExpiresSoon", "ends")
        return Condition("CertificatesValid", False, reason, f"that of {name} {verb} {rfc3339(first)}; renew it"), first
