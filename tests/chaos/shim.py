"""The machine under one process: steps of its wall clock, a slow disk, a disk that fails (shim.c).

Rule: a process that is started with `environment()` does what this object says, at once and over restarts. Where there
is no C compiler there is no shim, and the faults that need it say so.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
FORM = struct.Struct("=qqq")


def build(folder: Path) -> Path | None:
    """The library, made in this folder; None where nothing can make it."""
    library = folder / "shim.so"
    if shutil.which("cc") is None:
        return None
    line = ["cc", "-O1", "-fPIC", "-shared", "-w", "-o", str(library), str(HERE / "shim.c"), "-ldl"]
    return library if subprocess.run(line, capture_output=True).returncode == 0 else None


class Machine:
    """Of one process, over all its lives. clock_ms: its wall clock is ahead by so much. sync_us: a sync takes so much
    longer. error: the errno of every sync and write of its disk, 0 = none."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._library = library
        self._file = folder / "machine"
        self._file.write_bytes(FORM.pack(0, 0, 0))
        with self._file.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), FORM.size)

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CHAOS_SHIM": str(self._file)}

    def be(self, *, clock_ms: int | None = None, sync_us: int | None = None, error: int | None = None) -> None:
        """What is None stays as it is."""
        now = FORM.unpack(self._map[:])
        wished = (clock_ms, sync_us, error)
        self._map[:] = FORM.pack(*(old if new is None else new for old, new in zip(now, wished, strict=True)))
