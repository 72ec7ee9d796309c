"""A file that lines are added to, by one process or by several of ours, and that is put aside when it is full.

A program that moves or removes it (logrotate) need not tell us: where it stood a new one is begun with the next line. A
line that was on its way at that moment is in the file that was moved: none is lost, and none is in both.

What a full disk has cut off stays as half a line, whichever process wrote it, and the next line begins below it.

Rule: a line is written whole, and at once; nothing waits in memory. Must not know what the lines say.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time


class LineFile:
    """most: bytes before it becomes PATH.1, PATH.1 becomes PATH.2 and so on; 0: never. keep: so many of those. Raises
    OSError. One that cannot be put aside, as where it is a mount itself, grows from then on, and loses nothing."""

    def __init__(self, path: str, most: int = 0, keep: int = 1) -> None:
        self.path = path
        self._most = most
        self._keep = max(keep, 1)
        self._fd = -1
        self._reads = True
        self._stuck = ""
        self._open()

    def write(self, line: bytes) -> None:
        """Adds a line, which ends with its newline. Raises OSError; then it is not there, or not all of it."""
        size = self._size()
        if size is None:
            self._open()
        elif self._most and size and size + len(line) > self._most:
            self._turn()
        whole = b"\n" + line if self._torn() else line
        if os.write(self._fd, whole) < len(whole):
            # The rest is not sent after it: another process may have begun a line by then.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def stuck(self) -> str:
        """Why it could not be put aside; said once."""
        stuck, self._stuck = self._stuck, ""
        return stuck

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self.close()
        flags = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._fd, self._reads = os.open(self.path, flags | os.O_RDWR, 0o600), True
        except PermissionError:
            # It may be added to and not be read: then nobody sees whether its last line is whole.
            self._fd, self._reads = os.open(self.path, flags | os.O_WRONLY, 0o600), False

    def _size(self) -> int | None:
        """None: another file stands there by now, or none."""
        if self._fd < 0:
            return None  # it could not be opened the last time
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return None
        own = os.fstat(self._fd)
        return there.st_size if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) else None

    def _torn(self) -> bool:
        """Is its last line half a line, and nobody at it."""
        if not self._reads or self._whole():
            return False
        # A write over the end of a page shows in halves: of a process that is at it, the other one is there by then.
        time.sleep(0.001)
        return not self._whole()

    def _whole(self) -> bool:
        size = os.fstat(self._fd).st_size
        return not size or os.pread(self._fd, 1, size - 1) == b"\n"

    def _turn(self) -> None:
        """It is full. Another process of ours may find so as well: who has the lock does it, the others see it done."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            if self._size() is not None:
                for number in range(self._keep - 1, 0, -1):
                    _rename(f"{self.path}.{number}", f"{self.path}.{number + 1}")
                _rename(self.path, f"{self.path}.1")
        except OSError as error:
            self._most, self._stuck = 0, error.strerror or str(error)
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._open()


def _rename(old: str, new: str) -> None:
    try:
        os.rename(old, new)
    except FileNotFoundError:
        return
