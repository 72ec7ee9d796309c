"""Statuses: what is written, and what the answer to it may not hide."""

from __future__ import annotations

from typing import Any

from broker_operator.kube.events import Events
from broker_operator.kube.kube import KubeError
from broker_operator.spec.model import Resource
from broker_operator.spec.names import PAUSED, USER
from broker_operator.world.resource_cache import ResourceCache
from broker_operator.world.statuses import Statuses

from broker.seams.clock import SystemClock

from .builders import raw


class Server:
    """An API server with one resource, which somebody may have changed since it was read."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.held = held
        self.refusal: KubeError | None = None

    async def set_status(self, resource: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        return self.changed(status=status)

    def changed(self, meta: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
        version = str(int(self.held["metadata"]["resourceVersion"]) + 1)
        meta = {**self.held["metadata"], **(meta or {}), "resourceVersion": version, "managedFields": [version]}
        self.held = {**self.held, **parts, "metadata": meta}
        return self.held


def site() -> tuple[Server, ResourceCache, Statuses, Resource]:
    server, world = Server(raw(USER)), ResourceCache(lambda id: None)
    read = world.put(server.held)
    assert read is not None
    return server, world, Statuses(server, world, Events(server, SystemClock())), read  # type: ignore[arg-type]


async def test_what_was_written_is_known_at_once_and_its_event_is_no_news():
    server, world, statuses, read = site()
    await statuses.write(read, {"observedGeneration": 1})
    assert world.resources[read.id].status == {"observedGeneration": 1}
    assert world.put(server.held) is None


async def test_a_change_that_came_between_is_news_when_its_event_comes():
    """Else it would be looked at with the next resync only: here a suspended user could go on logging in."""
    for between in ({"spec": {"suspended": True}}, {"meta": {"annotations": {PAUSED: "true"}}}):
        server, world, statuses, read = site()
        event = server.changed(**between)
        await statuses.write(read, {"observedGeneration": 1})
        assert world.put(event) is not None, "the change is looked at"
        assert world.put(server.held) is not None, "and the status that was written over it is taken with its own event"


async def test_one_whose_end_was_told_before_the_answer_does_not_come_back():
    """Else its keys would stay until the next resync: here a deleted user could go on logging in."""
    for anew in (False, True):
        server, world, statuses, read = site()
        written = server.set_status

        async def late(
            resource: dict[str, Any], status: dict[str, Any], world=world, read=read, written=written, anew=anew
        ) -> dict[str, Any]:
            answer = await written(resource, status)
            world.drop(read.id)
            if anew:
                world.put(raw(USER))
            return answer

        server.set_status = late  # type: ignore[method-assign]
        await statuses.write(read, {"observedGeneration": 1})
        known = world.resources.get(read.id)
        assert known is None if not anew else known is not None and known.uid != read.uid


async def test_one_that_is_gone_is_left_to_its_own_event():
    for status in (404, 422):
        server, world, statuses, read = site()
        server.refusal = KubeError(status, "gone")
        await statuses.write(read, {"observedGeneration": 1})
        assert world.resources[read.id] is read
