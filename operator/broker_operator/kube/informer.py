"""A local copy of all objects of one kind that follows the API server.

Rule: what is told is complete: an object that went while no watch was open is told as gone when the list is read again.
Must not know what the objects mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..spec.model import Table
from ..spec.names import Id
from .kube import Kube, KubeError

log = logging.getLogger("stampede.operator")

RETRY_S = 1.0
PIECE = 100
"""Objects of a list taken in one step: 10,000 are a second, in which the lease is not renewed."""
FORBIDDEN_RETRY_S = 30.0


class Informer:
    """changed(id, item): the object has come, changed or gone; item: as last seen, `items` has it if it is there.

    namespace   "" = all.   selector   of labels.   meta   keep the metadata only.   shape   what to keep of an item."""

    def __init__(
        self,
        kube: Kube,
        api_version: str,
        kind: str,
        namespace: str,
        selector: str,
        changed: Callable[[Id, Table], None],
        *,
        meta: bool = False,
        shape: Callable[[Table], Table] = lambda item: item,
    ) -> None:
        self._kube = kube
        self._what = (api_version, kind, namespace, selector)
        self._changed = changed
        self._meta = meta
        self._shape = shape
        self._task: asyncio.Task[None] | None = None
        self.items: dict[Id, Table] = {}

    async def start(self) -> None:
        """Everything that is there has been told when it returns. Raises KubeError."""
        revision = await self.read()
        self._task = asyncio.create_task(self._follow(revision), name=f"watch of {self._what[1]}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def read(self) -> str:
        """Reads the list and tells the difference. Returns its revision. Raises KubeError."""
        api_version, kind, namespace, selector = self._what
        answer = await self._kube.read_list(api_version, kind, namespace, selector, meta=self._meta)
        found = {}
        for item in answer["items"]:
            item |= {"apiVersion": api_version, "kind": kind}
            found[_id(kind, item)] = item
        for id in [id for id in self.items if id not in found]:
            self._tell(id, self.items.pop(id))
        for seen, (id, item) in enumerate(found.items(), 1):
            self._store(id, item)
            if not seen % PIECE:
                await asyncio.sleep(0)
        return str(answer["metadata"]["resourceVersion"])

    async def _follow(self, revision: str) -> None:
        api_version, kind, namespace, selector = self._what
        while True:
            wait = 0.0
            try:
                if not revision:
                    revision = await self.read()
                async for event in self._kube.watch(
                    api_version, kind, namespace, selector, revision, meta=self._meta
                ):  # fmt: skip
                    item = event["object"]
                    revision = item["metadata"]["resourceVersion"]
                    if event["type"] == "BOOKMARK":
                        continue
                    item |= {"apiVersion": api_version, "kind": kind}
                    id = _id(kind, item)
                    if event["type"] == "DELETED":
                        self.items.pop(id, None)
                        self._tell(id, item)
                    else:
                        self._store(id, item)
            except KubeError as error:
                log.log(logging.DEBUG if error.status in (0, 410) else logging.ERROR, "watch of %s: %s", kind, error)
                if error.status:
                    revision = ""  # else the connection broke: the watch goes on where it was
                wait = FORBIDDEN_RETRY_S if error.status in (401, 403) else RETRY_S
            except Exception:  # half an answer: nobody would notice a copy that follows no more
                log.exception("watch of %s", kind)
                revision, wait = "", RETRY_S
            await asyncio.sleep(wait)

    def _store(self, id: Id, item: Table) -> None:
        old = self.items.get(id)
        if old is not None and old["metadata"]["resourceVersion"] == item["metadata"]["resourceVersion"]:
            return
        item["metadata"].pop("managedFields", None)  # half of the memory, and nobody here reads it
        item = self.items[id] = self._shape(item)
        self._tell(id, item)

    def _tell(self, id: Id, item: Table) -> None:
        try:
            self._changed(id, item)
        except Exception:  # others are to be told of theirs all the same
            log.exception("%s", id)


def _id(kind: str, item: Table) -> Id:
    return Id(kind, item["metadata"]["namespace"], item["metadata"]["name"])
