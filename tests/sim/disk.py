"""A disk that forgets: implements broker.seams.files.Files for crash tests.

What was not synced may at a crash be lost, kept, torn by sector, replaced by rubbish, and in any order (bytes
that were not being written keep their value: "power-safe overwrite", what every disk promises); names
not synced with their folder may be old or new, each on its own. Every verb can be made to fail on its Nth call.
Everything is decided by one seeded random generator. Folders themselves are durable at once.
"""

from __future__ import annotations

import errno
from random import Random

SECTOR = 512


class PowerLoss(BaseException):
    """The machine is off: nothing after this happened. Not an Exception, so that no handler eats it."""


class Inode:
    """A file's bytes: `data` as programs see them, `synced` as the platter has them for certain."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = bytearray()
        self.dirty: set[int] = set()
        """Sectors written since the last sync."""


class SimFile:
    def __init__(self, disk: SimDisk, inode: Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._generation = disk.generation

    def pread(self, n: int, offset: int) -> bytes:
        self._disk.call("pread", self._path)
        return bytes(self._inode.data[offset : offset + n])

    def pwrite(self, data: bytes, offset: int) -> int:
        short = self._disk.call("pwrite", self._path, data)
        if short and len(data) > 1:
            data = data[: max(1, len(data) // 2)]
        self._disk.write(self._inode, data, offset)
        return len(data)

    def sync(self) -> None:
        self._disk.call("sync", self._path)
        self._disk.synced(self._inode)

    def truncate(self, size: int) -> None:
        self._disk.call("truncate", self._path)
        del self._inode.data[size:]
        self._inode.data.extend(bytes(size - len(self._inode.data)))

    def size(self) -> int:
        return len(self._inode.data)

    def close(self) -> None:
        if self._generation == self._disk.generation:
            self._disk.locked.discard(self._path)


class SimDisk:
    """`fail`: {verb: (call number from 1, errno or "short")}; `crash_at`: number of the call that never happens."""

    def __init__(self, seed: int, capacity: int = 1 << 40) -> None:
        self.random = Random(seed)
        self.capacity = capacity
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.folders: set[str] = set()
        self.locked: set[str] = set()
        self.calls: dict[str, int] = {}
        self.total_calls = 0
        self.fail: dict[str, tuple[int, int | str]] = {}
        self.sticky = False
        self.crash_at = 0
        self.generation = 0
        self.trace: list[str] = []
        self.ignore_sync = False
        self.ignore_sync_dir = False

    # ── what tests do to it ────────────────────────────────────────────────────────────────────────

    def call(self, verb: str, path: str, data: bytes = b"") -> bool:
        """Counts a call and lets it fail. True = write short."""
        self.total_calls += 1
        count = self.calls[verb] = self.calls.get(verb, 0) + 1
        if self.crash_at and self.total_calls >= self.crash_at:
            raise PowerLoss
        plan = self.fail.get(verb)
        if plan is not None and (count == plan[0] or (self.sticky and count > plan[0])):
            if plan[1] == "short":
                return True
            if verb == "sync" and path in self.names:
                self.dropped(self.names[path])
            raise OSError(plan[1], f"simulated at {verb} {count}")
        return False

    def dropped(self, inode: Inode) -> None:
        """A failed fsync: the kernel marks the pages clean although the disk may not have them."""
        for sector in inode.dirty:
            if self.random.random() < 0.5:
                self._keep(inode, inode.synced, sector)
        inode.dirty.clear()

    def crash(self) -> None:
        """Power loss and restart. Each unsynced sector and name fares on its own."""
        self.generation += 1
        self.locked.clear()
        for inode in {id(i): i for i in [*self.names.values(), *self.durable_names.values()]}.values():
            self._settle_sectors(inode)
        for path in sorted({*self.names, *self.durable_names}):
            now, before = self.names.get(path), self.durable_names.get(path)
            kept = now if now is before or self.random.random() < 0.5 else before
            if kept is None:
                self.durable_names.pop(path, None)
            else:
                self.durable_names[path] = kept
        self.names = dict(self.durable_names)
        self.crash_at = 0
        self.fail = {}

    def _settle_sectors(self, inode: Inode) -> None:
        mood = self.random.choice(("lost", "kept", "mixed", "prefix", "garbage"))
        dirty = sorted(inode.dirty)
        cut = self.random.randrange(len(dirty) + 1) if dirty else 0
        for index, sector in enumerate(dirty):
            if mood == "kept" or (mood == "prefix" and index < cut):
                self._keep(inode, inode.synced, sector)
            elif mood in ("mixed", "garbage"):
                luck = self.random.random()
                if luck < 0.5:
                    self._keep(inode, inode.synced, sector)
                elif mood == "garbage" and luck < 0.65:
                    self._spoil(inode, sector)
        inode.data = bytearray(inode.synced)
        inode.dirty.clear()

    def _spoil(self, inode: Inode, sector: int) -> None:
        """Rubbish where bytes were being changed; what was not being changed stays (power-safe overwrite)."""
        start = sector * SECTOR
        new = inode.data[start : start + SECTOR]
        old = inode.synced[start : start + len(new)].ljust(len(new), b"\0")
        mixed = bytes(self.random.getrandbits(8) if a != b else a for a, b in zip(new, old, strict=True))
        self._put(inode.synced, mixed, sector)

    @staticmethod
    def _put(target: bytearray, data: bytes, sector: int) -> None:
        start = sector * SECTOR
        if len(target) < start:
            target.extend(bytes(start - len(target)))
        target[start : start + len(data)] = data

    def _keep(self, inode: Inode, target: bytearray, sector: int) -> None:
        self._put(target, bytes(inode.data[sector * SECTOR : (sector + 1) * SECTOR]), sector)

    def write(self, inode: Inode, data: bytes, offset: int) -> None:
        end = offset + len(data)
        if end > len(inode.data):
            if self.used() + end - len(inode.data) > self.capacity:
                raise OSError(errno.ENOSPC, "disk full")
            inode.data.extend(bytes(end - len(inode.data)))
        inode.data[offset:end] = data
        inode.dirty.update(range(offset // SECTOR, (end - 1) // SECTOR + 1))

    def synced(self, inode: Inode) -> None:
        if self.ignore_sync:
            return
        for sector in inode.dirty:
            self._keep(inode, inode.synced, sector)
        inode.dirty.clear()

    def used(self) -> int:
        return sum(len(i.data) for i in self.names.values())

    # ── Files ──────────────────────────────────────────────────────────────────────────────────────

    def open(self, path: str, create: bool = False) -> SimFile:
        self.call("open", path)
        if create:
            if path in self.names:
                raise FileExistsError(errno.EEXIST, path)
            self.names[path] = Inode()
        elif path not in self.names:
            raise FileNotFoundError(errno.ENOENT, path)
        return SimFile(self, self.names[path], path)

    def rename(self, old: str, new: str) -> None:
        self.call("rename", old)
        self.names[new] = self.names.pop(old)

    def remove(self, path: str) -> None:
        self.call("remove", path)
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, path)
        del self.names[path]

    def listdir(self, path: str) -> list[str]:
        self.call("listdir", path)
        prefix = path + "/"
        inside = {p[len(prefix) :].split("/")[0] for p in {*self.names, *self.folders} if p.startswith(prefix)}
        return sorted(inside)

    def mkdir(self, path: str) -> None:
        self.call("mkdir", path)
        self.folders.add(path)

    def sync_dir(self, path: str) -> None:
        self.call("sync_dir", path)
        if self.ignore_sync_dir:
            return
        for name in [n for n in sorted({*self.names, *self.durable_names}) if n.rpartition("/")[0] == path]:
            if name in self.names:
                self.durable_names[name] = self.names[name]
            else:
                del self.durable_names[name]

    def free_bytes(self, path: str) -> int:
        self.call("free_bytes", path)
        return self.capacity - self.used()

    def lock(self, path: str) -> SimFile:
        self.call("lock", path)
        if path in self.locked:
            raise BlockingIOError(errno.EWOULDBLOCK, path)
        self.locked.add(path)
        if path not in self.names:
            self.names[path] = Inode()
        return SimFile(self, self.names[path], path)
