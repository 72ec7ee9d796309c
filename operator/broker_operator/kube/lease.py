"""One operator at a time: a Lease that is held, renewed, and given back.

Rule: who has not renewed for LAST_S by its own clock is not the holder any more and ends; others wait DURATION_S after
the last change that they have *seen*, so clocks need not agree.
"""

from __future__ import annotations

import asyncio
import logging

from broker.core.errors import BrokerError
from broker.seams.clock import Clock

from ..spec.conditions import rfc3339
from ..spec.model import Table
from .kube import Kube, KubeError

log = logging.getLogger("stampede.operator")

DURATION_S = 15
RENEW_S = 5.0
LAST_S = 10.0
POLL_S = 2.0
_API = "coordination.k8s.io/v1"


class LeaseLost(BrokerError):
    """Another process may be the operator now: this process must end."""


class Lease:
    """`held`: we are the operator. clock: monotonic intervals, and timestamps for people."""

    def __init__(self, kube: Kube, namespace: str, name: str, me: str, clock: Clock) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._me = me
        self._clock = clock
        self._lease: Table = {}
        self._renewed = 0.0
        self.held = False

    async def acquire(self) -> None:
        """Returns when we hold it; waits as long as another process does."""
        seen, since = "", self._clock.monotonic()
        while True:
            self._renewed = self._clock.monotonic()
            try:
                async with asyncio.timeout(LAST_S):  # an answer that comes later may be about a lease that is over
                    lease = await self._kube.get(_API, "Lease", self._namespace, self._name)
                    if lease is None:
                        self._lease = await self._kube.create(self._body({}))
                        break
                    version = str(lease["metadata"]["resourceVersion"])
                    if version != seen:
                        seen, since = version, self._clock.monotonic()
                    holder = lease["spec"].get("holderIdentity")
                    if not holder or holder == self._me or self._clock.monotonic() - since > DURATION_S:
                        self._lease = await self._kube.replace(self._body(lease))
                        break
            except TimeoutError:
                log.warning("lease: no answer within %g s", LAST_S)
            except KubeError as error:
                log.log(logging.DEBUG if error.status == 409 else logging.WARNING, "lease: %s", error)
            await asyncio.sleep(POLL_S)
        self.held = True
        log.info("this is the operator now: %s", self._me)

    async def keep(self) -> None:
        """Renews it for ever, from the moment it is held. Raises LeaseLost."""
        while True:
            await asyncio.sleep(RENEW_S if self._clock.monotonic() - self._renewed < RENEW_S else 1.0)
            at = self._clock.monotonic()
            try:
                async with asyncio.timeout(self._renewed + LAST_S - at):
                    await self._renew()
                continue
            except TimeoutError:
                log.warning("lease: no answer in time")
            except KubeError as error:
                log.warning("lease: %s", error)
            if self._clock.monotonic() - self._renewed >= LAST_S:
                self.held = False
                raise LeaseLost("the lease could not be renewed in time")

    async def _renew(self) -> None:
        """Raises KubeError, LeaseLost."""
        at = self._clock.monotonic()
        try:
            self._lease = await self._kube.replace(self._body(self._lease))
            self._renewed = at
        except KubeError as error:
            if error.status != 409:
                raise
            await self._look()

    async def release(self) -> None:
        """Gives it back, so that another one need not wait."""
        if not self.held:
            return
        self.held = False
        body = self._body(self._lease)
        body["spec"]["holderIdentity"] = ""
        try:
            await self._kube.replace(body)
        except KubeError as error:
            log.info("lease: %s", error)

    async def _look(self) -> None:
        """It was changed. If it is still ours, we go on with what is there. Raises KubeError, LeaseLost."""
        lease = await self._kube.get(_API, "Lease", self._namespace, self._name)
        if lease is None or lease["spec"].get("holderIdentity") != self._me:
            self.held = False
            raise LeaseLost("somebody else has the lease")
        self._lease = lease

    def _body(self, old: Table) -> Table:
        now = rfc3339(self._clock.wall_ms() / 1000).replace("Z", ".000000Z")
        spec = old.get("spec", {})
        mine = spec.get("holderIdentity") == self._me
        meta: Table = {"name": self._name, "namespace": self._namespace}
        if old:
            meta["resourceVersion"] = old["metadata"]["resourceVersion"]
        return {
            "apiVersion": _API,
            "kind": "Lease",
            "metadata": meta,
            "spec": {
                "holderIdentity": self._me,
                "leaseDurationSeconds": DURATION_S,
                "acquireTime": spec.get("acquireTime", now) if mine else now,
                "renewTime": now,
                "leaseTransitions": int(spec.get("leaseTransitions", 0)) + (not mine),
            },
        }
