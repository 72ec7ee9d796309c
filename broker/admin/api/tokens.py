"""Tokens of machines: made, listed, revoked.

Rule: for administrators only. The token itself is in one answer, the one to who has made it, and nowhere else.
"""

from __future__ import annotations

from typing import Any

from broker.core.errors import BrokerError

from .calls import ApiOp, Call
from .params import Param
from .ports import TokensPort
from .problems import Problem, bad_value, not_made, unknown


class TokenHandlers:
    """The handlers. tokens: None: this process keeps none."""

    def __init__(self, tokens: TokensPort | None) -> None:
        self._tokens = tokens

    def routes(self) -> list[ApiOp]:
        """All of them."""
        return [
            ApiOp("GET", "/tokens", "tokens", "Tokens of machines, without the tokens themselves.", self.all, "Token",
                  listed=True, administrators=True),
            ApiOp("POST", "/tokens", "create-token", "Makes one; it is told in this answer and never again.",
                  self.create, "NewToken", body=(Param("name", "who uses it", required=True),
                                    Param("groups", "what it may do: groups, as of a user", "texts", required=True)),
                  administrators=True, status=201),
            ApiOp("DELETE", "/tokens/{token}", "revoke-token", "A client that uses it is a stranger from now on.",
                  self.revoke, "Removed", administrators=True),
        ]  # fmt: skip

    async def all(self, _: Call) -> Any:
        rows = [
            {"name": name, "groups": list(one.groups), "by": one.by, "created": one.created}
            for name, one in sorted(self._port().all().items())
        ]
        return {"items": rows, "total": len(rows), "next": None, "missing": []}

    async def create(self, call: Call) -> Any:
        name, groups = call.body["name"], call.body["groups"]
        if not name or not name.isprintable() or len(name) > 100 or name in (".", ".."):
            raise bad_value("name", name, "a name of 1 to 100 printable characters")
        try:
            token = await self._port().create(name, groups, call.who.name)
        except BrokerError as error:
            raise not_made(error, "bad-token", "Not such a token") from None
        call.noted.update(token=name, groups=groups)
        return {"name": name, "groups": groups, "token": token, "missing": await self._port().behind()}

    async def revoke(self, call: Call) -> Any:
        name = call.path["token"]
        try:
            await self._port().revoke(name)
        except KeyError:
            raise unknown("token", name, "GET tokens lists them") from None
        except BrokerError as error:
            raise not_made(error, "bad-token", "Not such a token") from None
        return {"name": name, "address": "", "done": True, "missing": await self._port().behind()}

    def _port(self) -> TokensPort:
        if self._tokens is None:
            raise Problem(
                409, "not-kept-here", "Not this process's", "this process keeps no tokens",
                "ask a standalone broker, or an edge of a cluster",
            )  # fmt: skip
        return self._tokens
