"""Who may do what, and why; and what was done: answers for people who wonder.

Rule: changes nothing; for administrators only. What is told of rights is what the edge asks at a SEND or SUBSCRIBE.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from . import audit
from .calls import ApiOp, Call
from .params import Param
from .ports import Answer, LoginsPort
from .problems import bad_value, unknown

FQQN = "::"


class Explaining:
    """The handlers."""

    def __init__(self, logins: LoginsPort) -> None:
        self._logins = logins

    def routes(self) -> list[ApiOp]:
        """All of them."""
        return [
            ApiOp("GET", "/rights", "rights", "What a user may do at an address (or a pattern, or ADDRESS::QUEUE), and "
                  "the entry of the permissions that decides.", self.rights, "Rights",
                  (Param("user", "who; in place of it `groups`"), Param("groups", "of somebody, with commas"),
                   Param("address", "where", required=True)), administrators=True),
            ApiOp("GET", "/audit", "audit", f"The last {audit.KEPT} changes at most that were asked for here, the last "
                  "first.", self.changes, "AuditLine",
                  (Param("limit", "lines", "number", 100, least=1, most=audit.KEPT),
                   Param("q", "only lines that hold this text")), listed=True, administrators=True),
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
        part = call.query.get("q") or ""
        found = (line for line in audit.recent() if part in _text(line))
        rows = list(islice(found, call.query["limit"]))
        return {"items": rows, "total": len(rows), "next": None, "missing": []}


def _text(line: Answer) -> str:
    told = [str(line[name]) for name in ("who", "from", "action", "target", "outcome")]
    return " ".join([*told, *line["more"].values()])
