"""Secrets that a release needs and that are not there yet: certificates of its parts, passwords of its etcd and Redis.

A chart that makes them must look up what it made before, and a tool that renders it without a cluster (Argo CD, Flux'
dry-runs) gets others each time. So the chart says what it needs (gitOps: true), and the operator makes it once. Without
gitOps Helm makes them and cannot see when they end: then they are only renewed here.

Rule: what is there stays, but for certificates that end soon, or lack a name, or are of another authority. They have no
owner: with a deletion of the operator the keys of everything would go. What is wanted comes from our own Deployment,
never from an object that other users may write: they would get certificates of components.
"""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from typing import Any

import msgspec

from broker.core.certificates import first_certificate, not_after
from broker.core.errors import BrokerError, ConfigError
from broker.seams.clock import Clock
from broker.seams.entropy import token

from ..spec.model import Table
from ..spec.names import FIELD_MANAGER, Id
from .authority import Pair, names_sum, new_authority, signed
from .kube import Kube, KubeError

log = logging.getLogger("stampede.operator")

MADE = "Made"
"""Kind of the work queue's id that has all of them looked at."""
AGAIN_S = 3600.0
AUTHORITY_DAYS = 3650
"""So much longer than what it signs an authority lasts: what ends with it cannot be renewed. As in the chart."""
RENEW_S = 30 * 86400
"""Before it ends; of one that lasts less than three times that a third of its life."""
NAMES = "stampede.dev/names"
RELEASE = "stampede.dev/release"
"""Label, by which they are found. Not app.kubernetes.io/instance: Argo CD takes what has its application's name there
for its own, and prunes what is not in git."""


class Certificate(msgspec.Struct, frozen=True):
    secret: str
    names: list[str]


class Password(msgspec.Struct, frozen=True):
    secret: str
    username: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """authority: Secret of it; "": there are no certificates. subject: its name. renewed: Helm makes them, only what
    ends is made anew."""

    release: str
    authority: str = ""
    subject: str = "Stampede"
    days: int = 3650
    certificates: list[Certificate] = []
    passwords: list[Password] = []
    renewed: bool = False


def wanted(text: str) -> Wanted | None:
    """From the variable; None: nothing is. Raises ConfigError."""
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text.encode(), type=Wanted)
    except msgspec.DecodeError as error:
        raise ConfigError(f"STAMPEDE_OPERATOR_SECRETS is not what the chart writes there: {error}") from None


class MadeSecrets:
    """Those of one release, in the operator's own namespace."""

    def __init__(self, kube: Kube, clock: Clock, namespace: str, wanted: Wanted) -> None:
        self._kube = kube
        self._clock = clock
        self._namespace = namespace
        self._wanted = wanted
        self.id = Id(MADE, namespace, wanted.release)
        passwords = {one.secret for one in wanted.passwords}
        self.names = {one.secret for one in wanted.certificates} | passwords | ({wanted.authority} - {""})

    async def ensure(self) -> float:
        """All are there when it returns. Seconds until it wants to be called again. Raises KubeError, BrokerError."""
        authority = await self._authority() if self._wanted.certificates else None
        if authority is not None:
            for one in self._wanted.certificates:
                await self._certificate(one, authority)
        for each in self._wanted.passwords:
            await self._password(each)
        return AGAIN_S

    async def _authority(self) -> Pair | None:
        """None: it is not ours to make, and not there."""
        name = self._wanted.authority
        found = await self._read(name)
        if found is None and self._wanted.renewed:
            return None
        if found is None:
            made = new_authority(self._wanted.subject, self._wanted.days + AUTHORITY_DAYS, self._now())
            found = await self._create(name, {"tls.crt": made.certificate, "tls.key": made.key})
        pair = Pair(found["tls.crt"], found["tls.key"])
        if self._ends(pair.certificate, name) < self._now() + RENEW_S:
            log.warning("the authority in Secret %s ends soon; docs/kubernetes.md says how it is replaced", name)
        return pair

    async def _certificate(self, one: Certificate, authority: Pair) -> None:
        secret = await self._kube.get("v1", "Secret", self._namespace, one.secret)
        found = _texts(secret)
        if found is None and self._wanted.renewed:
            return
        why = self._lacks(one, found, (secret or {}).get("metadata", {}), authority) if found else "there is none"
        if not why:
            return
        pair = signed(authority, one.names, self._wanted.days, self._now())
        data = {"ca.crt": authority.certificate, "tls.crt": pair.certificate, "tls.key": pair.key}
        log.info("certificate %s/%s is made: %s", self._namespace, one.secret, why)
        if secret is None:
            await self._create(one.secret, data, {NAMES: names_sum(one.names)})
            return
        meta = secret["metadata"]
        patch = {
            "metadata": {"resourceVersion": meta["resourceVersion"], "annotations": {NAMES: names_sum(one.names)}},
            "data": _encoded(data),
        }
        await self._kube.merge("v1", "Secret", self._namespace, one.secret, patch)

    def _lacks(self, one: Certificate, found: dict[str, str], meta: Table, authority: Pair) -> str:
        """Why it must be another one; "": it need not, or it is Helm's to say."""
        if self._wanted.renewed:
            whole = {"ca.crt", "tls.crt", "tls.key"} <= found.keys()
            ours = whole and found["ca.crt"].strip() == authority.certificate.strip()
            return self._ending(one, found, authority) if ours else ""
        if not {"ca.crt", "tls.crt", "tls.key"} <= found.keys():
            return "it is not whole"
        if found["ca.crt"].strip() != authority.certificate.strip():
            return "it is of another authority"
        noted = (meta.get("annotations") or {}).get(NAMES)
        if noted and noted != names_sum(one.names):  # the chart wrote none for components
            return "it has other names"
        return self._ending(one, found, authority)

    def _ending(self, one: Certificate, found: dict[str, str], authority: Pair) -> str:
        """ "": it lasts, or nothing would be won."""
        ends, now = self._ends(found["tls.crt"], one.secret), self._now()
        if ends < now + min(RENEW_S, self._wanted.days * 86400 / 3):
            # One that ends with its authority would be made anew for ever.
            return "it ends soon" if self._ends(authority.certificate, "") > ends + 86400 else ""
        return ""

    async def _password(self, one: Password) -> None:
        if await self._read(one.secret) is None:
            data = {"password": token(16)} | ({"username": one.username} if one.username else {})
            await self._create(one.secret, data)

    async def _read(self, name: str) -> dict[str, str] | None:
        return _texts(await self._kube.get("v1", "Secret", self._namespace, name))

    async def _create(self, name: str, data: dict[str, str], notes: dict[str, str] | None = None) -> dict[str, str]:
        """What is there then: another operator may have been first."""
        labels = {
            "app.kubernetes.io/name": "stampede", "app.kubernetes.io/managed-by": FIELD_MANAGER,
            RELEASE: self._wanted.release,
        }  # fmt: skip
        meta: dict[str, Any] = {"name": name, "namespace": self._namespace, "labels": labels}
        if notes:
            meta["annotations"] = notes
        kind = "kubernetes.io/tls" if "tls.crt" in data else "Opaque"
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": kind, "data": _encoded(data)}
        try:
            await self._kube.create(body)
        except KubeError as error:
            if error.status != 409:
                raise
            return await self._read(name) or data
        return data

    def _ends(self, pem: str, name: str) -> float:
        try:
            return not_after(first_certificate(pem))
        except ValueError:
            raise BrokerError(
                f"tls.crt of Secret {self._namespace}/{name} is no certificate; delete that Secret."
            ) from None

    def _now(self) -> float:
        return self._clock.wall_ms() / 1000


def _texts(secret: Table | None) -> dict[str, str] | None:
    if secret is None:
        return None
    return {key: b64decode(value).decode(errors="replace") for key, value in (secret.get("data") or {}).items()}


def _encoded(data: dict[str, str]) -> dict[str, str]:
    return {key: b64encode(text.encode()).decode() for key, text in data.items()}
