"""What kopf follows, read as lists: kopf tells nobody of what went while it had no watch.

That is so until its first one, and whenever the API server has no history left for it; then it reads a list itself,
and tells what is there. So lists are read anew a moment after it did, some times after a start (of an empty list it
tells nothing), and every RESYNC_S.

Rule: what kopf tells while a list is on its way is newer than the list. Must not know what the resources mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from broker.core.errors import BrokerError

from ..kube import handlers
from ..kube.kube import Kube
from ..spec import names
from ..spec.model import Table
from ..spec.names import Id
from .resource_cache import World, slim

log = logging.getLogger("stampede.operator")

RESYNC_S = 300.0
EARLY_S = (3.0, 10.0, 30.0, 60.0)
"""After a start, besides. kopf has its watches after a second, or whenever the API server comes to answer it."""
CALM_S = 1.0
"""What kopf reads it tells one by one."""
RETRY_S = 5.0


class Lists:
    """told(resource), gone(id): as kopf would tell. resynced(): they have been read in their turn, every RESYNC_S."""

    def __init__(
        self, kube: Kube, world: World, namespaces: Sequence[str], told: Callable[[Table], None],
        gone: Callable[[Id], None], resynced: Callable[[], None],
    ) -> None:  # fmt: skip
        """namespaces: () = all."""
        self._kube = kube
        self._world = world
        self._namespaces = namespaces or ("",)
        self._told = told
        self._gone = gone
        self._resynced = resynced
        self._went: set[str] = set()
        """uids of what went since read() began to read a list: such a list may still have it."""
        self._asked = asyncio.Event()

    def went(self, uid: str) -> None:
        """A resource has gone."""
        self._went.add(uid)

    def ask(self) -> None:
        """kopf has read a list, so it may have missed something: ours are to be read as well."""
        self._asked.set()

    async def read(self) -> None:
        """Raises KubeError."""
        for kind in handlers.KINDS:
            found = set()
            before = {id: known.uid for id, known in self._world.resources.items() if id.kind == kind}
            self._went.clear()
            for namespace in self._namespaces:
                answer = await self._kube.read_list(names.API_VERSION, kind, namespace)
                for raw in answer["items"]:
                    raw |= {"apiVersion": names.API_VERSION, "kind": kind}
                    found.add(Id(kind, raw["metadata"]["namespace"], raw["metadata"]["name"]))
                    if raw["metadata"]["uid"] not in self._went:
                        self._told(slim(raw))
            for id, uid in before.items():
                known = self._world.resources.get(id)
                if id not in found and known is not None and known.uid == uid:
                    self._gone(id)

    async def follow(self) -> None:
        """Reads them whenever it is time, for ever."""
        loop = asyncio.get_running_loop()
        early = [loop.time() + wait for wait in EARLY_S]
        resync = loop.time() + RESYNC_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(*early, resync) if early else resync):
                    await self._asked.wait()
                    await asyncio.sleep(CALM_S)
            self._asked.clear()
            begun = loop.time()
            try:
                await self.read()
            except BrokerError as error:
                log.warning("reading what there is: %s", error)
                await asyncio.sleep(RETRY_S)
                self._asked.set()
                continue
            early = [at for at in early if at > begun]
            if begun >= resync:
                resync = begun + RESYNC_S
                self._resynced()
