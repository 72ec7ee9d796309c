"""Who may do what, and why; and what was done: answers for people who wonder.

Rule: changes nothing; for administrators only. What is told of rights is what the edge asks at a SEND or SUBSCRIBE;
what was done is told of all edges, each of which keeps what was asked for there.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from . import audit
from .calls import ApiOp, Call, named
from .params import Param
from .ports import LoginsPort
from .problems import bad_value, unknown
from .reading import EDGE, Reading

FQQN = "::"


class Explaining:
    """The handlers."""

    def __init__(self, logins: LoginsPort, reading: Reading) -> None:
        self._logins = logins
        self._reading = reading

    def routes(self) -> list[ApiOp]:
        """All of them."""
        return [
            ApiOp("GET", "/rights", "rights", "What a user may do at an address (or a pattern, or ADDRESS::QUEUE), and "
                  "the entry of the permissions that decides.", self.rights, "Rights",
                  (Param("user", "who; in place of it `groups`"), Param("groups", "of somebody, with commas"),
                   Param("address", "where", required=True)), administrators=True),
            ApiOp("GET", "/audit", "audit", f"The last changes that were asked for, of all edges, the last first; each "
                  f"keeps {audit.KEPT}.", self.changes, "AuditLine",
                  (Param("limit", "lines", "number", 100, least=1, most=audit.KEPT),
                   Param("q", "only lines that hold this text"), EDGE), listed=True, administrators=True),
        ]  # fmt: skip

    async def rights(self, call: Call) -> Any:
        user, groups = call.query.get("user"), call.query.get("groups")
        if (user is None) == (groups is None):
            raise bad_value("user", user or "", "either `user` or `groups`")
        if user is not None and not self._logins.knows(user):
            raise unknown("user", user, "GET users lists them; or ask for `groups`")
        names = [*self._logins.groups(user)] if user is not None else [
            name for name in map(str.strip, (groups or "").split(",")) if name
        ]  # fmt: skip
        address, mark, queue = call.query["address"].partition(FQQN)
        if not address or (mark and not queue):
            raise bad_value("address", call.query["address"], "an address, a pattern of addresses, or ADDRESS::QUEUE")
        rights = self._logins.rights(names, address, queue or None)
        return {
            "user": user, "groups": sorted(names), "address": call.query["address"], "open": rights is None,
            "rights": rights or [],
        }  # fmt: skip

    async def changes(self, call: Call) -> Any:
        query = call.query
        asked = {"kind": "audit", "limit": query["limit"], "q": query.get("q") or "", "edge": query.get("edge") or ""}
        answers, missing = await self._reading.of_edges(asked)
        lines = merge(*[answer["rows"] for answer in answers], key=itemgetter("at"), reverse=True)
        rows = list(islice(lines, query["limit"]))
        return {"items": rows, "total": len(rows), "next": None, "missing": named(missing)}
