"""Settings that a standalone broker changes while it runs: entries of addresses, queues, diverts, permissions and
bridges.

What is changed is kept in DATA/live.json, laid over the config file at each start (config/changes.py). The file itself
is read again when an operator asks for it (SIGHUP, API): what needs a restart is named and stays as it is.

Rule: one change at a time; checked, then kept on the disk, then in use, then told. A kill in between means that it was
made or that it was not, never half of it; it is made also when the client that asked has gone meanwhile. What is
refused has changed nothing. A change of one entry checks that one: all other entries were, when they came.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from broker.config.catalogue import leaves
from broker.config.changes import (
    LIVE,
    MOST,
    Aside,
    Changes,
    LiveChange,
    checked,
    decoded,
    differing,
    laid_over,
    restart_needed,
    tables_of,
    told,
    with_known,
    with_tables,
)
from broker.config.load import SettingsSource
from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.seams.clock import SystemClock
from broker.seams.files import OsFiles, open_file_limit, read_whole, replace_whole

from ..process.process import within
from ..process.processes import serving
from .live_users import LiveUsers
from .shrinking import refuse_shrinking
from .uncancelled import Uncancelled

log = logging.getLogger("stampede")

FILE = "live.json"
PERMISSIONS = LIVE["permissions"]
RESET = "stampede config reset"
MOST_NAMED = 1000
"""Entries that the answer to one reload names."""


class LiveSettings:
    """settings   what is in use, changes included (before what memory allows: memory_bounds.fitted).
    apply   has them used; returns when they are.    people   the users."""

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
        self._changes = kept(self.path)
        fix = f"{RESET} --data {shlex.quote(settings.data)}"
        self.settings, self.aside = laid_over(settings, self._changes, fix)
        for (table, entry), why in self.aside.items():
            log.warning(
                "what was changed live of %s is not in use: %s Complete it in the config file, or %s",
                f'{table}."{entry[:200]}"', why, told(RESET, table, entry),
            )  # fmt: skip
        self._applied = tables_of(self.settings)
        self._refusing: Callable[[Settings, Settings], None] = lambda before, after: None
        self._whole = Uncancelled()

    def use(self, apply: Callable[[Settings], Awaitable[None]], people: LiveUsers) -> None:
        """The broker that uses them is there."""
        self.apply, self.people = apply, people

    def forbid(self, refusing: Callable[[Settings, Settings], None]) -> None:
        """Changes that this broker cannot make: raises ConfigError for them, given settings before and after."""
        self._refusing = refusing

    # ── told ───────────────────────────────────────────────────────────────────────────────────────

    def entries(self) -> Iterator[dict[str, Any]]:
        """All entries of the tables that can be changed: what is in use, and what the file says of that."""
        file, now, changes, aside = tables_of(self._file), tables_of(self.settings), self._changes, self.aside
        for name, table in LIVE.items():
            for entry, values in now[table].items():
                if (table, entry) not in aside:
                    yield _row(name, entry, values, file[table].get(entry), changes.tables.get(table, {}).get(entry))
        for (table, entry), why in aside.items():
            name = next(name for name, its in LIVE.items() if its == table)
            row = _row(name, entry, now[table].get(entry, {}), None, changes.tables[table][entry])
            yield {**row, "source": "set aside", "why": why}

    def entry(self, name: str, entry: str) -> dict[str, Any] | None:
        """One that is in use."""
        return tables_of(self.settings)[LIVE[name]].get(entry)

    def origin(self, setting: str) -> str:
        """Where its value comes from, "" = not known here."""
        if setting in self._changes.tables:
            return f"{self._origins[setting]}, and live" if setting in self._origins else "live"
        return self._origins.get(setting, "")

    async def behind(self) -> list[str]:
        """Nobody else uses them."""
        return []

    # ── changes ────────────────────────────────────────────────────────────────────────────────────

    async def change(self, name: str, entry: str, values: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Lays values over an entry (None: as the file has it); the entry before. Raises ConfigError."""
        return await self._whole.run(self._change(LIVE[name], entry, values, by))

    async def _change(self, table: str, entry: str, values: Mapping[str, Any], by: str) -> dict[str, Any]:
        own = {**self._changes.of(table, entry), **values}
        own = {each: value for each, value in own.items() if value is not None}
        said = tables_of(self._file)[table].get(entry)
        typed = checked(table, entry, {**(said or {}), **own}, self._file, "changed live")
        # Who takes back all that was changed wants no entry that says nothing: a permission would be for nobody.
        empty = not own and (said is not None or None in values.values())
        kept = None if empty else {each: typed[each] for each in own}
        changes = self._changes.with_entry(table, entry, kept, by, SystemClock().wall_ms())
        return await self._one(table, entry, said if empty else typed, changes)

    async def forget(self, name: str, entry: str) -> dict[str, Any]:
        """What was changed of an entry is not any more; the entry before. Raises ConfigError, KeyError: nothing was."""
        return await self._whole.run(self._forget(LIVE[name], entry))

    async def _forget(self, table: str, entry: str) -> dict[str, Any]:
        if entry not in self._changes.tables.get(table, {}):
            raise KeyError(entry)
        said = tables_of(self._file)[table].get(entry)
        return await self._one(table, entry, said, self._changes.with_entry(table, entry, None))

    async def _one(self, table: str, entry: str, values: dict[str, Any] | None, changes: Changes) -> dict[str, Any]:
        """One entry is like that (None: is gone), because of these changes; the entry before."""
        tables = tables_of(self.settings)
        before = dict(tables[table].get(entry, {}))
        entries = {**tables[table], entry: values or {}}
        if values is None:
            del entries[entry]
        aside = {place: why for place, why in self.aside.items() if place != (table, entry)}
        after = with_tables(self.settings, {**tables, table: entries})
        await self._adopt(changes, self._file, after, aside)
        return before

    async def reload(self) -> dict[str, Any]:
        """Reads file, environment and flags again. Answers which entries are others now, and which settings need a
        restart. Raises ConfigError, and nothing has changed."""
        if self._source is None:
            raise ConfigError("This broker was not started from settings that could be read again.")
        return await self._whole.run(self._reload(self._source))

    async def _reload(self, source: SettingsSource) -> dict[str, Any]:
        before = tables_of(self.settings)
        read = await asyncio.to_thread(self._read, source)
        await self._adopt(self._changes, read.file, read.after, read.aside)
        self.restart, self._origins = read.restart, read.origins
        changed = await asyncio.to_thread(differing, before, tables_of(self.settings))
        log.info("settings were read again: %d entries are others now", len(changed))
        for one in self.restart:
            log.warning("%s has changed, which needs a restart: until then it stays as it was", one["name"])
        aside = [{"table": table, "name": entry, "why": why} for (table, entry), why in read.apart.items()]
        for one in aside[:MOST_NAMED]:
            log.warning("what was changed live of %s %s is set aside: %s", one["table"], one["name"][:200], one["why"])
        named = [{"table": name, "name": entry} for name, entry in changed[:MOST_NAMED]]
        return {"changed": named, "total": len(changed), "restart": self.restart, "aside": aside[:MOST_NAMED]}

    def _read(self, source: SettingsSource) -> _Read:
        """What the file says now, in a thread. Raises ConfigError."""
        read, origins = source.read(), source.origins()
        fresh = within(open_file_limit(), read, serving(read))
        restart = restart_needed(self._started, fresh)
        tables, own, apart = tables_of(fresh), tables_of(self._file), Aside()
        now, started = fresh.engine, self._started.engine
        if (now.wildcard_delimiter, now.address) != (started.wildcard_delimiter, started.address):
            # The next start must be possible, too, where entries are checked against these.
            _, apart = laid_over(fresh, self._changes, RESET)
        if now.wildcard_delimiter != started.wildcard_delimiter:
            # Its names and patterns are meant for the other one: read with this one they would mean something else.
            for name, entry in differing(own, tables)[:MOST_NAMED]:
                table = LIVE[name]
                restart.append({
                    "name": f'{table}."{entry}"', "in_use": own[table].get(entry), "wanted": tables[table].get(entry)
                })  # fmt: skip
            tables = own
        used = tables_of(self.settings)
        if used[PERMISSIONS] and not {**tables[PERMISSIONS], **self._changes.tables.get(PERMISSIONS, {})}:
            tables = {**tables, PERMISSIONS: own[PERMISSIONS]}
            restart.append({"name": PERMISSIONS, "in_use": used[PERMISSIONS], "wanted": {}})
        tables = with_known(own, tables)
        # The rest of it stays as it was when the broker started: entries are checked against what is in use.
        wanted = with_tables(self._started, tables)
        for table, entries in tables.items():
            for entry, values in entries.items():
                if own[table].get(entry) is not values:
                    checked(table, entry, values, self._started, "in the config file")
        after, aside = laid_over(wanted, self._changes, RESET, used)
        return _Read(wanted, origins, restart, after, aside, {**apart, **aside})

    async def hang_up(self) -> None:
        """SIGHUP."""
        try:
            await self.reload()
        except ConfigError as error:
            log.error("the settings are as they were: %s", error)

    async def _adopt(self, changes: Changes, file: Settings, after: Settings, aside: Aside) -> None:
        """These are the changes, that is what they are laid over, and what comes out: from when this returns. Raises
        ConfigError."""
        if changes.count() > MOST:
            raise ConfigError(
                f"{MOST} entries have been changed live, which is the most: put some into the config file."
            )
        had, has = tables_of(self.settings), tables_of(after)
        if had[LIVE["addresses"]] is not has[LIVE["addresses"]]:
            await asyncio.to_thread(refuse_shrinking, self.settings.engine, after.engine)
            await asyncio.to_thread(self._refusing, self.settings, after)
        last_permission(had[PERMISSIONS], has[PERMISSIONS])
        if changes is not self._changes:
            await asyncio.to_thread(_keep, self.path, changes)
        self._changes, self._file, self.settings, self.aside = changes, file, after, aside
        if self._applied != has:
            await self.apply(after)
            self._applied = has


def last_permission(had: Mapping[str, Any], has: Mapping[str, Any]) -> None:
    """Raises ConfigError where the last entry of the permissions would go."""
    if had and not has:
        raise ConfigError(
            "That is the last entry of edge.permissions: without any, nobody may do anything until the next start, and "
            "everybody everything from then on. Set an entry `#` first: to a group of administrators, or to `*` for "
            "every user."
        )


class _Read(NamedTuple):
    """A config file that was read again: what it says, what is in use with that, what of the changes is aside (apart:
    or would be after a restart)."""

    file: Settings
    origins: dict[str, str]
    restart: list[dict[str, Any]]
    after: Settings
    aside: Aside
    apart: Aside


def _row(
    name: str, entry: str, values: dict[str, Any], said: dict[str, Any] | None, change: LiveChange | None
) -> dict[str, Any]:
    source = "file" if change is None else "live" if said is None else "file and live"
    over = {each: said[each] for each in change.values if each in said} if change and said else {}
    return {
        "table": name, "name": entry, "values": values, "source": source, "overridden": over,
        "live": dict(change.values) if change else {},
        "by": change.by if change else "", "since": change.at if change else 0, "why": "",
    }  # fmt: skip


def kept(path: str) -> Changes:
    """What was changed by now. Raises ConfigError."""
    try:
        data = read_whole(path)
    except FileNotFoundError:
        return Changes()
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from None
    return decoded(data, path)


def _keep(path: str, changes: Changes) -> None:
    try:
        replace_whole(path, changes.encoded())
    except OSError as error:
        raise ConfigError(f"Cannot keep the change in {path}: {error.strerror}.") from error


def forget_kept(data: str, name: str, entry: str) -> None:
    """Takes back what was changed of an entry of a broker that does not run. Raises ConfigError, KeyError: nothing
    was."""
    path, table = os.path.join(data, FILE), LIVE[name]
    folder = os.path.join(data, "journal")
    try:
        lock = OsFiles().lock(os.path.join(folder, "lock")) if os.path.isdir(folder) else None
    except BlockingIOError:
        raise ConfigError(f"A broker runs on {data}: ask it, without --data.") from None
    try:
        changes = kept(path)
        if entry not in changes.tables.get(table, {}):
            raise KeyError(entry)
        _keep(path, changes.with_entry(table, entry, None))
    finally:
        if lock is not None:
            lock.close()


def rows(settings: Settings, live: LiveSettings | None) -> list[tuple[str, Any, str, Any]]:
    """All settings: name, value, where it comes from, what a restart would make of it (None: the same)."""
    restart = {one["name"]: one["wanted"] for one in live.restart} if live is not None else {}
    found = []
    for name, leaf in leaves().items():
        value = attrgetter(name)(settings)
        source = (live.origin(name) if live is not None else "") or ("default" if value == leaf.default else "set")
        found.append((name, value, source, restart.get(name)))
    return found
