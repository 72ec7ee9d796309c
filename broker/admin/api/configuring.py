"""What operators change of the settings while a broker runs: entries of addresses, queues, diverts, permissions and
bridges, and users; the config file read again.

Rule: for administrators only. Checked, kept, in use, and only then answered (ports.ConfigPort). What cannot be had
without a restart is refused, or named in the answer, and so is who of a cluster does not use it yet (`missing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from broker.config.changes import LIVE
from broker.core.errors import BrokerError
from broker.core.pages import Ask, PageKey, choose

from .calls import ApiOp, Call, Caller
from .params import Param, listing, question
from .ports import Answer, ConfigPort, Work
from .problems import Problem, bad_value, not_made, unknown
from .reading import listed

_VALUES = Param("values", "setting: value each; null takes a change back", "table", required=True)
_SORTS = ("name", "table")
_NOT_SO = ("bad-setting", "Not with these settings", "; docs/settings.md has what can be")


class Configuring:
    """The handlers."""

    def __init__(self, config: ConfigPort | None, caller: Caller) -> None:
        """config: None: these settings are not this process's."""
        self._config = config
        self._caller = caller

    def routes(self) -> list[ApiOp]:
        """All of them."""
        one, user = "/config/{table}/{name}", "/users/{user}"
        return [
            ApiOp("GET", "/config", "config", "Entries that can be changed without a restart: what is in use, where it "
                  "comes from, and what the config file says where that was changed.", self.entries, "ConfigEntry",
                  (*listing(_SORTS), Param("q", "only names that hold this text"),
                   Param("table", "only of this table", choices=tuple(LIVE)),
                   Param("live", "only those that were (were not) changed live", "flag")),
                  listed=True, administrators=True),
            ApiOp("PATCH", one, "change-config", "Changes settings of an entry, or makes one: in use at once, kept.",
                  self.change, "Configured", body=(_VALUES,), administrators=True),
            ApiOp("DELETE", one, "reset-config", "Takes back what was changed live; what the config file says of it "
                  "counts again. Messages are not touched.", self.reset, "Configured", administrators=True),
            ApiOp("POST", "/config/reload", "reload-config", "Reads the config file again. What needs a restart is "
                  "named and stays as it was.", self.reload, "Reloaded", administrators=True),
            ApiOp("GET", "/users", "users", "Users and their groups.", self.users, "UserEntry", listing(("name",)),
                  listed=True, administrators=True),
            ApiOp("PUT", user, "set-user", "Adds a user, or changes the passcode or the groups.", self.set_user,
                  "UserSet", body=(Param("passcode", "the new one; left out: as before"),
                                     Param("groups", "all groups of the user; left out: as before", "texts")),
                  administrators=True),
            ApiOp("DELETE", user, "remove-user", "The connections of the user end.", self.remove_user, "Removed",
                  administrators=True),
        ]  # fmt: skip

    # ── entries ────────────────────────────────────────────────────────────────────────────────────

    async def entries(self, call: Call) -> Any:
        query = call.query
        part, table, live = query.get("q", ""), query.get("table"), query.get("live")

        def wanted(row: Answer) -> bool:
            return part in row["name"] and table in (None, row["table"]) and live in (None, row["source"] != "file")

        return await self._page("config", query, self._port().entries(), ("name", "table"), wanted)

    async def change(self, call: Call) -> Any:
        table, name = self._entry(call)
        values = call.body["values"]
        try:
            before = await self._port().change(table, name, values, call.who.name)
        except BrokerError as error:
            raise not_made(error, *_NOT_SO) from None
        return await self._told(call, table, name, before)

    async def reset(self, call: Call) -> Any:
        table, name = self._entry(call)
        try:
            before = await self._port().forget(table, name)
        except KeyError:
            fix = "what the config file says is changed there (and read again), or with PATCH; GET config?live=true "
            raise unknown("live-change", f"{table}/{name}", fix + "lists what was changed live") from None
        except BrokerError as error:
            raise not_made(error, *_NOT_SO) from None
        return await self._told(call, table, name, before)

    async def reload(self, call: Call) -> Any:
        try:
            told = await self._port().reload()
        except BrokerError as error:
            raise not_made(error, *_NOT_SO) from None
        call.noted.update(told)
        return told

    async def _told(self, call: Call, table: str, name: str, before: Mapping[str, Any]) -> Answer:
        now = self._port().entry(table, name)
        call.noted.update(before=before, after=now)
        missing = await self._port().behind()
        return {"table": table, "name": name, "values": now or {}, "exists": now is not None, "missing": missing}

    def _entry(self, call: Call) -> tuple[str, str]:
        table, name = call.path["table"], call.path["name"]
        if table not in LIVE:
            fix = f"{', '.join(LIVE)} can be changed without a restart; anything else needs one (config file)"
            raise Problem(404, "no-such-table", "No such table", f"{table[:200]!r} cannot be changed live", fix)
        if not name.isprintable() or name != name.strip('"') or len(name) > 1000:
            raise bad_value("name", name, "a name of printable characters, without quotes around it")
        return table, name

    # ── users ──────────────────────────────────────────────────────────────────────────────────────

    async def users(self, call: Call) -> Any:
        all = await self._port().people.all()
        rows: Iterator[Answer] = ({"name": name, "groups": list(groups)} for name, groups in all.items())
        return await self._page("users", call.query, rows, ("name",))

    async def set_user(self, call: Call) -> Any:
        name, passcode, groups = call.path["user"], call.body.get("passcode"), call.body.get("groups")
        try:
            before, now = await self._port().people.set(name, passcode, groups)
        except BrokerError as error:
            raise not_made(error, *_NOT_SO) from None
        call.noted.update(before=before, after=list(now), passcode="changed" if passcode is not None else "as before")
        return {"name": name, "groups": list(now), "missing": await self._port().behind()}

    async def remove_user(self, call: Call) -> Any:
        name = call.path["user"]
        people = self._port().people
        if name not in await people.all():
            raise unknown("user", name, "GET users lists them")
        if name == call.who.name:
            raise Problem(409, "not-now", "Not possible as it is", "that is you", "let another administrator do it")
        try:
            await people.remove(name)
        except BrokerError as error:
            raise not_made(error, *_NOT_SO) from None
        return {"name": name, "address": "", "done": True, "missing": await self._port().behind()}

    # ── what both need ─────────────────────────────────────────────────────────────────────────────

    def _port(self) -> ConfigPort:
        if self._config is None:
            raise Problem(
                409, "not-kept-here", "Not this process's", "settings are not changed through this process",
                "ask a standalone broker, or an edge of a cluster",
            )  # fmt: skip
        return self._config

    async def _page(
        self,
        kind: str,
        query: dict[str, Any],
        rows: Iterator[Answer],
        name: tuple[str, ...],
        wanted: Callable[[Answer], bool] | None = None,
    ) -> Answer:
        asked = question(kind, query)
        return listed(asked, [await self._caller.work(_chosen(asked, _pieces(rows, wanted), name))], [])


def _pieces(rows: Iterator[Answer], wanted: Callable[[Answer], bool] | None) -> Iterator[list[Answer]]:
    while piece := list(islice(rows, 125)):
        yield [row for row in piece if wanted is None or wanted(row)]


def _chosen(asked: dict[str, Any], rows: Iterator[list[Answer]], name: tuple[str, ...]) -> Work:
    after = asked.get("after")
    place = PageKey(after[0], tuple(after[1])) if after else None
    sort = asked["sort"]
    page = yield from choose(
        rows,
        Ask(asked["limit"], sort, asked["descending"], place),
        lambda row: row[sort],
        lambda row: tuple(row[part] for part in name),
    )
    found = [{**row, "at": [place.value, list(place.name)]} for place, row in page.entries]
    return {"rows": found, "total": page.total, "more": page.more}
