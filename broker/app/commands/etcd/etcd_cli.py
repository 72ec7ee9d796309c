"""`stampede cluster etcd`: the state of etcd itself, member by member.

Rule: asks each endpoint for itself, because a fail-over would hide the sick one. Must not know the cluster's keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.config.settings import EtcdSettings

QUOTA_HINT = 1_500_000_000
"""Bytes. etcd's default quota is 2 GiB; beyond it it takes no writes."""


def rows(settings: EtcdSettings) -> list[dict[str, Any]]:
    """One per endpoint: version, size of its database, whether it leads; or what is wrong with it."""
    return [_row(settings, endpoint.strip()) for endpoint in settings.endpoints.split(",") if endpoint.strip()]


def _row(settings: EtcdSettings, endpoint: str) -> dict[str, Any]:
    from broker.metadata.compat import etcd3

    module = etcd3()
    host, _, port = endpoint.rpartition(":")
    secure: dict[str, Any] = {}
    if settings.ca_file:
        secure = {
            "ca_cert": settings.ca_file,
            "cert_cert": settings.cert_file or None,
            "cert_key": settings.key_file or None,
        }
    if settings.user:
        password = Path(settings.password_file).read_text().strip() if settings.password_file else ""
        secure |= {"user": settings.user, "password": password}
    try:
        client = module.client(host.strip("[]"), int(port), timeout=settings.timeout_s, **secure)
        try:
            state = client.status()
            members = sum(1 for _ in client.members)
        finally:
            client.close()
    except (module.Etcd3Exception, OSError, ValueError) as error:
        return {
            "endpoint": endpoint, "state": f"{type(error).__name__}: {error}".rstrip(": "), "version": "", "leader": "",
            "members": 0, "database bytes": 0, "raft term": 0,
        }  # fmt: skip
    leader = state.leader.name if state.leader is not None else ""
    told = "up" if leader else "no leader"
    if state.db_size > QUOTA_HINT:
        told = "nearly full: compact and defragment it"
    return {
        "endpoint": endpoint, "state": told, "version": state.version, "leader": leader, "members": members,
        "database bytes": state.db_size, "raft term": state.raft_term,
    }  # fmt: skip
