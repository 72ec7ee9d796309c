"""The map of a cluster: who is there, who leads and keeps which slot, what moves; owners drained, leaders moved.

Rule: for administrators only. What is asked for is a wish that the controller of the cluster carries out: it is
answered when it is kept, not when it is done (`/slots` shows how far it is).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.core.errors import BrokerError
from broker.core.ids import SLOTS
from broker.core.strict_numbers import natural

from .calls import ApiOp, Call
from .params import Param
from .ports import Answer, TopologyPort
from .problems import Problem, bad_value


class ClusterMap:
    """The handlers. topology: None: this broker is none."""

    def __init__(self, topology: TopologyPort | None) -> None:
        self.topology = topology

    def routes(self) -> list[ApiOp]:
        """All of them."""
        return [
            ApiOp("GET", "/nodes", "nodes", "Owners and edges of the cluster; a standalone broker has none.",
                  self.nodes, "Node", listed=True, administrators=True),
            ApiOp("GET", "/slots", "slots", "Who leads and keeps each slot.", self.slots, "Slot", listed=True,
                  administrators=True),
            ApiOp("POST", "/nodes/{owner}/drain", "drain-owner", "Leaders and replicas leave it, and do not come back "
                  "until it is undrained.", self._drains(True), "Done", administrators=True),
            ApiOp("POST", "/nodes/{owner}/undrain", "undrain-owner", "It is given leaders and replicas again.",
                  self._drains(False), "Done", administrators=True),
            ApiOp("POST", "/slots/{slot}/move", "move-slot", "Another owner shall lead it. One step towards that: ask "
                  "again until it is done.", self.move, "Moved", body=(Param("to", "an owner", required=True),),
                  administrators=True),
        ]  # fmt: skip

    async def nodes(self, _: Call) -> Any:
        return _all(await self.topology.nodes() if self.topology is not None else [])

    async def slots(self, _: Call) -> Any:
        return _all(self.topology.slots() if self.topology is not None else [])

    def _drains(self, on: bool) -> Callable[[Call], Any]:
        async def handle(call: Call) -> Any:
            owner = call.path["owner"]
            try:
                changed = await self._port().drain(owner, on)
            except BrokerError as error:
                raise _refused(error) from None
            return {"name": owner, "address": "", "done": changed}

        return handle

    async def move(self, call: Call) -> Any:
        text = call.path["slot"]
        slot = natural(text, 3)
        if slot is None or slot >= SLOTS:
            raise bad_value("slot", text, f"a number from 0 to {SLOTS - 1}")
        try:
            return {"slot": slot, "state": await self._port().move(slot, call.body["to"])}
        except BrokerError as error:
            raise _refused(error) from None

    def _port(self) -> TopologyPort:
        if self.topology is None:
            raise Problem(
                409, "no-cluster", "No cluster", "a standalone broker has all slots itself", "ask an edge of a cluster"
            )
        return self.topology


def _all(rows: list[Answer]) -> Answer:
    return {"items": rows, "total": len(rows), "next": None, "missing": []}


def _refused(error: BrokerError) -> Problem:
    return Problem(409, "not-now", "Not possible as it is", str(error), "GET nodes and GET slots show how it is")
