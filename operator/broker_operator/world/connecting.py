"""From a StompBroker to a connection to its etcd.

Rule: a connection is made anew when anything that it is made of has changed. Secrets become files of mode 0600 in a
folder of this process, because the settings of the broker name files; they go with the connection.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from broker.config.settings import EtcdSettings
from broker.core.errors import BrokerError, ConfigError

from ..kube.kube import Kube, KubeError
from ..spec.model import BrokerSpec, Resource, Table
from ..spec.names import METRICS_TOKEN, Id, etcd_prefix
from .cluster import Cluster
from .etcd_users import EtcdUsers, Login
from .possession import Holder
from .resource_cache import ResourceCache, own_etcd

log = logging.getLogger("stampede.operator")


class Connections:
    """changed(broker, part, names): see Cluster."""

    def __init__(self, cache: ResourceCache, kube: Kube, changed: Callable[[Id, str, list[str]], None]) -> None:
        self._cache = cache
        self._kube = kube
        self._changed = changed
        self._made: dict[Id, tuple[object, str]] = {}
        """(what it is made of, its folder)"""
        self._homes: dict[Id, tuple[str, str]] = {}
        """StompBroker → (its uid, that of its namespace)"""
        self._users: dict[Id, EtcdUsers] = {}

    async def ensure(self, broker: Resource, spec: BrokerSpec) -> None:
        """There is a connection as the spec wants it, or `world.unusable` says why not. Raises KubeError."""
        await self._read_metrics_token(broker, spec)
        tls = await self._secret(broker, spec.etcd.tls_secret_name)
        user = await self._secret(broker, spec.etcd.user_secret_name)
        prefix = spec.etcd.prefix or etcd_prefix(broker.id.namespace, broker.id.name)
        holder = Holder(f"{broker.id.namespace}/{broker.id.name}", broker.uid, await self._home(broker))
        root, logins = await self._logins(broker, spec, user)
        versions = tuple(map(_version, (tls, user, root)))
        made_of = (holder, tuple(spec.etcd.endpoints), prefix, versions, logins, spec.etcd.auth_enabled)
        if self._made.get(broker.id, (None, ""))[0] == made_of:
            return
        await self.drop(broker.id)
        folder = tempfile.mkdtemp(prefix="stampede-operator-")
        self._made[broker.id] = (made_of, folder)
        try:
            settings = EtcdSettings(endpoints=",".join(spec.etcd.endpoints), prefix=prefix)
            if tls:
                ca, cert, key = (_write(folder, tls, name) for name in ("ca.crt", "tls.crt", "tls.key"))
                settings = replace(settings, ca_file=ca, cert_file=cert, key_file=key)
            if root and logins:
                own = replace(settings, user=_name(root), password_file=_write(folder, root, "password", "root"))
                enable = _data(root, "password").decode().strip() if spec.etcd.auth_enabled else ""
                self._users[broker.id] = EtcdUsers(own, logins, enable)
            if user:
                settings = replace(settings, user=_name(user), password_file=_write(folder, user, "password"))
            cluster = Cluster(settings, lambda part, names: self._changed(broker.id, part, names), holder=holder)
        except ConfigError as error:
            self._cache.unusable[broker.id] = str(error)
            return
        except Exception:  # a disk that is full, say: it is not made, and the next attempt makes it
            await self.drop(broker.id)
            raise
        self._cache.clusters[broker.id] = cluster
        cluster.start()

    async def refuse(self, broker: Id, why: str) -> None:
        """There is no connection, for this reason."""
        await self.drop(broker)
        self._cache.unusable[broker] = why

    async def release(self, broker: Id) -> None:
        """The broker is gone: its prefix may be another one's. An etcd that gives no answer keeps it (see Cluster)."""
        cluster = self._cache.clusters.get(broker)
        if cluster is not None and cluster.known:
            with suppress(BrokerError):
                await cluster.possession.release()
        self._homes.pop(broker, None)
        await self.drop(broker)

    async def drop(self, broker: Id) -> None:
        """The broker is gone, or is to be connected anew."""
        _, folder = self._made.pop(broker, (None, ""))
        if (users := self._users.pop(broker, None)) is not None:
            await users.close()
        self._cache.unusable.pop(broker, None)
        self._cache.metrics_tokens.pop(broker, None)
        cluster = self._cache.clusters.pop(broker, None)
        if cluster is not None:
            await cluster.stop()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)

    async def close(self) -> None:
        for broker in list(self._made):
            await self.drop(broker)

    async def _home(self, broker: Resource) -> str:
        """uid of its namespace where its etcd may be another cluster's as well; "" too if we may not read it."""
        if own_etcd(broker):
            return ""
        uid, home = self._homes.get(broker.id, ("", ""))
        if uid == broker.uid:
            return home
        try:
            found = await self._kube.get("v1", "Namespace", "", broker.id.namespace)
        except KubeError as error:
            if not error.refused:
                raise
            log.warning("namespace of %s: %s; prefixes in etcd are told apart by names only", broker.id, error)
            found = None
        home = str(found["metadata"]["uid"]) if found else ""
        self._homes[broker.id] = broker.uid, home
        return home

    async def _logins(
        self, broker: Resource, spec: BrokerSpec, own: Table | None
    ) -> tuple[Table | None, tuple[Login, ...]]:
        """The Secret of root, and whom it is to make users of etcd; nobody while one of them is not there."""
        etcd = spec.etcd
        if not etcd.root_secret_name:
            return None, ()
        root = await self._secret(broker, etcd.root_secret_name)
        secrets = {"operator": own}
        for role in ("owners", "edges"):
            secrets[role.removesuffix("s")] = await self._secret(broker, etcd.login(role).user_secret_name)
        logins = tuple(
            Login(role, _name(secret), _data(secret, "password").decode().strip())
            for role, secret in secrets.items()
            if secret is not None
        )
        return root, logins if len(logins) == len(secrets) else ()

    async def _read_metrics_token(self, broker: Resource, spec: BrokerSpec) -> None:
        """What its owners are shown when they are asked for numbers."""
        secret = await self._secret(broker, spec.scrapers.token_secret_name)
        token = _data(secret, METRICS_TOKEN).decode("ascii", "replace").strip() if secret is not None else ""
        if token:
            self._cache.metrics_tokens[broker.id] = token
        else:
            self._cache.metrics_tokens.pop(broker.id, None)

    async def _secret(self, broker: Resource, name: str) -> Table | None:
        """None: none is wanted, or it is not there yet (etcd will say what it thinks of that)."""
        return await self._kube.get("v1", "Secret", broker.id.namespace, name) if name else None


def _version(secret: Table | None) -> tuple[str, ...]:
    if secret is None:
        return ()
    data = secret.get("data") or {}
    return tuple(f"{key}={data[key]}" for key in sorted(data))


def _data(secret: Table, key: str) -> bytes:
    return b64decode((secret.get("data") or {}).get(key, ""))


def _name(secret: Table) -> str:
    return _data(secret, "username").decode().strip()


def _write(folder: str, secret: Table, key: str, name: str = "") -> str:
    """name: of the file, where it is not that of the key."""
    path = Path(folder) / (name or key)
    path.touch(mode=0o600)
    path.write_bytes(_data(secret, key))
    return str(path)
