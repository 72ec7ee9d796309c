"""What a component's certificate says it is: names of DNS below `cluster.role_domain`.

    owner.stampede.internal            an owner, any
    owner-1.owner.stampede.internal    the owner called owner-1
    edge.stampede.internal             an edge

Who calls is asked for its role by name here; who is called, by gRPC, which wants the name of the role in the
certificate (`target`). So an edge's certificate opens no stream of replication, and nobody takes it for an owner.

Rule: reads what gRPC has verified, decides by names, and knows no stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.seams.stream import EDGE_SERVICE, REPLICA_SERVICE

CALLERS: Mapping[str, str] = {EDGE_SERVICE: "edge", REPLICA_SERVICE: "owner"}
"""Service → who may call it."""
CALLED = "owner"
"""Who is called, whatever the service."""


class Roles:
    """domain   "": any certificate is any component."""

    def __init__(self, domain: str) -> None:
        self._domain = domain.strip(".").lower()

    def __bool__(self) -> bool:
        return bool(self._domain)

    @property
    def target(self) -> str:
        """The name that the certificate of who is called must have."""
        return f"{CALLED}.{self._domain}"

    def refusal(self, service: str, names: Iterable[str]) -> str:
        """Why a caller with these names in its certificate may not call; "": it may."""
        role = CALLERS[service]
        if not self or any(self._fits(name.lower(), role) for name in names):
            return ""
        return f"its certificate is not that of an {role}: {role}.{self._domain} is not among its DNS names"

    def named(self, service: str, names: Iterable[str]) -> frozenset[str]:
        """Which components of its role the certificate is for; none: any of them."""
        if not self:
            return frozenset()
        end = f".{CALLERS[service]}.{self._domain}"
        return frozenset(name.lower().removesuffix(end) for name in names if name.lower().endswith(end))

    def _fits(self, name: str, role: str) -> bool:
        whole = f"{role}.{self._domain}"
        return name == whole or name.endswith("." + whole)
