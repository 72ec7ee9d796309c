"""Files that appear whole or not at all, on the disk before they are named.

Rule: write beside, sync, rename, sync the folder. A reader that finds a file finds all of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from broker.seams.files import OsFiles, open_for_reading, open_for_writing


def write_pieces(path: str, pieces: Iterable[bytes]) -> None:
    """Replaces what is there. Raises OSError."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    beside = f"{path}.{os.getpid()}.tmp"
    file = open_for_writing(beside)
    try:
        at = 0
        for piece in pieces:
            view = memoryview(piece)
            while view:
                done = file.pwrite(bytes(view[: 1 << 20]), at)
                at += done
                view = view[done:]
        file.sync()
    except BaseException:
        file.close()
        os.unlink(beside)
        raise
    file.close()
    os.replace(beside, path)
    OsFiles().sync_dir(os.path.dirname(path))


def sync_file(path: str) -> None:
    file = open_for_reading(path)
    try:
        file.sync()
    finally:
        file.close()


def move(old: str, new: str) -> None:
    """A file of the same file system, synced already."""
    os.makedirs(os.path.dirname(new), exist_ok=True)
    os.replace(old, new)


def remove(path: str) -> None:
    """It may be gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
