"""Settings that a standalone broker changes while it runs: entries of addresses, queues, diverts and permissions.

What is changed is kept in DATA/live.json, laid over the config file at each start (config/changes.py). The file itself
is read again when somebody asks for it (SIGHUP, API): what needs a restart is named and stays as it is.

Rule: one change at a time; checked whole, then kept on the disk, then in use, then told. A kill in between means that
it was made or that it was not, never half of it; it is made also when who asked has gone meanwhile. What is refused
has changed nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Any

from broker.config.catalogue import leaves
from broker.config.changes import (
    LIVE,
    MOST,
    Changes,
    checked,
    decoded,
    laid_over,
    restart_needed,
    shrunk,
    tables_of,
    with_tables,
)
from broker.config.load import SettingsSource
from broker.config.settings import EngineSettings, Settings
from broker.core.errors import ConfigError
from broker.engine.address_settings import Matcher
from broker.seams.clock import SystemClock
from broker.seams.files import open_file_limit, read_whole, replace_whole

from .live_users import LiveUsers
from .process import within
from .whole import Whole

log = logging.getLogger("stampede")

FILE = "live.json"
PERMISSIONS = LIVE["permissions"]


class LiveSettings:
    """settings   what is in use, changes included (before what memory allows: bounds.fitted).    apply   has them used;
    returns when
    they are.    people   the users."""

    def __init__(self, settings: Settings, source: SettingsSource | None = None) -> None:
        """source: where `settings` come from; None: nobody can read them again. Raises ConfigError."""
        self.path = os.path.join(settings.data, FILE)
        self.apply: Callable[[Settings], Awaitable[None]]
        self.people: LiveUsers
        self.restart: list[dict[str, Any]] = []
        """What the file said when it was read last, and is not in use: name, in_use, wanted."""
        self._source = source
        self._origins = source.origins() if source is not None else {}
        self._started = settings
        self._file = settings
        self._changes = self._kept()
        self.settings = laid_over(settings, self._changes, self.path)
        self._applied = tables_of(self.settings)
        self._turn = asyncio.Lock()
        self._whole = Whole()

    def _kept(self) -> Changes:
        try:
            data = read_whole(self.path)
        except FileNotFoundError:
            return Changes()
        except OSError as error:
            raise ConfigError(f"Cannot read {self.path}: {error.strerror}.") from None
        return decoded(data, self.path)

    def use(self, apply: Callable[[Settings], Awaitable[None]], people: LiveUsers) -> None:
        """The broker that uses them is there."""
        self.apply, self.people = apply, people

    # ── told ───────────────────────────────────────────────────────────────────────────────────────

    def entries(self) -> list[dict[str, Any]]:
        """All entries of the tables that can be changed: what is in use, and what the file says of that."""
        found = []
        for name, table in LIVE.items():
            own, changes = tables_of(self._file)[table], self._changes.tables.get(table, {})
            for entry, values in tables_of(self.settings)[table].items():
                change, said = changes.get(entry), own.get(entry)
                source = "file" if change is None else "live" if said is None else "file and live"
                over = {each: said[each] for each in change.values if each in said} if change and said else {}
                found.append({
                    "table": name, "name": entry, "values": values, "source": source, "overridden": over,
                    "live": dict(change.values) if change else {},
                    "by": change.by if change else "", "since": change.at if change else 0,
                })  # fmt: skip
        return found

    def origin(self, setting: str) -> str:
        """Where its value comes from, "" = not known here."""
        if setting in self._changes.tables:
            return f"{self._origins[setting]}, and live" if setting in self._origins else "live"
        return self._origins.get(setting, "")

    # ── changes ────────────────────────────────────────────────────────────────────────────────────

    async def change(self, name: str, entry: str, values: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Lays values over an entry (None: as the file has it); the entry before. Raises ConfigError."""
        return await self._whole.run(self._change(LIVE[name], entry, values, by))

    async def _change(self, table: str, entry: str, values: Mapping[str, Any], by: str) -> dict[str, Any]:
        async with self._turn:
            before = self._entry(table, entry)
            own = {**self._changes.of(table, entry), **values}
            own = {each: value for each, value in own.items() if value is not None}
            said = tables_of(self._file)[table].get(entry)
            typed = checked(table, entry, {**(said or {}), **own}, self._file, "changed live")
            # Who takes back all that was changed wants no entry that says nothing: a permission would be for nobody.
            empty = not own and (said is not None or None in values.values())
            kept = None if empty else {each: typed[each] for each in own}
            await self._take(self._changes.with_entry(table, entry, kept, by, SystemClock().wall_ms()), self._file)
            return before

    async def forget(self, name: str, entry: str) -> dict[str, Any]:
        """What was changed of an entry is not any more; the entry before. Raises ConfigError, KeyError: nothing was."""
        return await self._whole.run(self._forget(LIVE[name], entry))

    async def _forget(self, table: str, entry: str) -> dict[str, Any]:
        async with self._turn:
            before = self._entry(table, entry)
            if entry not in self._changes.tables.get(table, {}):
                raise KeyError(entry)
            await self._take(self._changes.with_entry(table, entry, None), self._file)
            return before

    async def reload(self) -> dict[str, Any]:
        """Reads file, environment and flags again. Answers which entries are others now, and which settings need a
        restart. Raises ConfigError, and nothing has changed."""
        if self._source is None:
            raise ConfigError("This broker was not started from settings that could be read again.")
        return await self._whole.run(self._reload(self._source))

    async def _reload(self, source: SettingsSource) -> dict[str, Any]:
        async with self._turn:
            fresh = within(open_file_limit(), await asyncio.to_thread(source.read))
            origins = await asyncio.to_thread(source.origins)
            before = tables_of(self.settings)
            restart = restart_needed(self._started, fresh)
            # The rest of it stays as it was when the broker started: entries are checked against what is in use.
            wanted = with_tables(self._started, tables_of(fresh))
            if before[PERMISSIONS] and not {
                **tables_of(wanted)[PERMISSIONS],
                **self._changes.tables.get(PERMISSIONS, {}),
            }:
                kept = {**tables_of(wanted), PERMISSIONS: tables_of(self._file)[PERMISSIONS]}
                wanted = with_tables(wanted, kept)
                restart.append({"name": PERMISSIONS, "in_use": before[PERMISSIONS], "wanted": {}})
            await self._take(self._changes, wanted)
            self.restart, self._origins = restart, origins
        after = tables_of(self.settings)
        changed = [
            {"table": name, "name": entry}
            for name, table in LIVE.items()
            for entry in sorted({*before[table], *after[table]})
            if before[table].get(entry) != after[table].get(entry)
        ]
        log.info("settings were read again: %d entries are others now", len(changed))
        for one in restart:
            log.warning("%s has changed, which needs a restart: until then it stays as it was", one["name"])
        return {"changed": changed, "restart": restart}

    async def hang_up(self) -> None:
        """SIGHUP."""
        try:
            await self.reload()
        except ConfigError as error:
            log.error("the settings are as they were: %s", error)

    def _entry(self, table: str, entry: str) -> dict[str, Any]:
        return dict(tables_of(self.settings)[table].get(entry, {}))

    async def _take(self, changes: Changes, file: Settings) -> None:
        """These are the changes, and that is what they are laid over: from when this returns. Raises ConfigError."""
        if changes.count() > MOST:
            raise ConfigError(
                f"{MOST} entries have been changed live, which is the most: put some into the config file."
            )
        after = await asyncio.to_thread(laid_over, file, changes, self.path)
        had, has = tables_of(self.settings), tables_of(after)
        await asyncio.to_thread(_refuse_shrinking, self.settings.engine, after.engine)
        if had[PERMISSIONS] and not has[PERMISSIONS]:
            raise ConfigError(
                "That is the last entry of edge.permissions: without any, nobody may do anything until the next start, "
                "and everybody everything from then on. Set an entry `#` first: to a group of administrators, or to "
                "`*` for every user."
            )
        if changes is not self._changes:
            try:
                await asyncio.to_thread(replace_whole, self.path, changes.encoded())
            except OSError as error:
                raise ConfigError(f"Cannot keep the change in {self.path}: {error.strerror}.") from error
        self._changes, self._file, self.settings = changes, file, after
        if self._applied != has:
            await self.apply(after)
            self._applied = has


def _refuse_shrinking(before: EngineSettings, after: EngineSettings) -> None:
    """Raises ConfigError where an address would have fewer partitions: also by an entry that is more specific than the
    one it had them from."""
    if _partitions(before) == _partitions(after):
        return
    had, has = Matcher(before), Matcher(after)
    for entry in {**before.addresses, **after.addresses}:
        if why := shrunk(entry, {"partitions": had(entry).partitions}, {"partitions": has(entry).partitions}):
            raise ConfigError(why)


def _partitions(settings: EngineSettings) -> dict[str, Any]:
    return {name: table["partitions"] for name, table in settings.addresses.items() if "partitions" in table}


def rows(settings: Settings, live: LiveSettings | None) -> list[tuple[str, Any, str, Any]]:
    """All settings: name, value, where it comes from, what a restart would make of it (None: the same)."""
    restart = {one["name"]: one["wanted"] for one in live.restart} if live is not None else {}
    found = []
    for name, leaf in leaves().items():
        value = attrgetter(name)(settings)
        source = (live.origin(name) if live is not None else "") or ("default" if value == leaf.default else "set")
        found.append((name, value, source, restart.get(name)))
    return found
